// Signals: at whatever moment of a run one comes, the program ends by it, and with the file that it is to leave.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/watch.hpp>

#include <catch2/generators/catch_generators.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;
using Kept = std::set<std::string>;

namespace {

/// Raises a signal in one hook.
struct RaisesIn {
  using Stateless = ByChoice;
  std::string_view hook;
  int signal = SIGINT;
  void on_train_epoch_end(auto& ctx) {
    if (ctx.current_epoch() + 1 == *ctx.options().max_epochs) at("epoch_end");
  }
  void on_train_end() { at("train_end"); }
  void on_fit_end() { at("fit_end"); }
  void on_test_end() { at("test_end"); }
  void on_validation_end() { at("validation_end"); }
  void on_predict_end() { at("predict_end"); }
  void at(std::string_view here) {
    if (here == hook) std::raise(signal);
  }
};

struct Evaluated : Scripted {
  void test_step(double) {}
  double predict_step(double batch) { return batch; }
};

int exit_code(auto&& run) {
  try {
    run();
  } catch (Interrupted const& interrupted) { return interrupted.exit_code(); }
  return 0;
}
template <class Model = Scripted>
auto raising(Folder const& folder, RaisesIn raises, int epochs = 2) {
  return make_trainer<Model>(quick(epochs), SavingDevice{}, Float32{}, Automatic{}, raises,
                             Signals{{.dirpath = folder.path}});
}

/// The status of a process of its own, in which Catch does not live.
int status_of(auto&& body) {
  pid_t const child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}
int handled = 0;

}  // namespace

TEST_CASE("a signal after the last batch of a fit lets it end well, leaves a file of its end, and ends the program") {
  auto const hook = GENERATE("epoch_end", "train_end", "fit_end");
  CAPTURE(hook);
  Folder const folder;
  Scripted model;
  auto trainer = raising(folder, {hook, SIGTERM});
  CHECK(exit_code([&] { trainer.fit(model, toy::batches(3), toy::batches(1)); }) == 143);
  CHECK(trainer.progress().global_step == 6);
  CHECK(trainer.progress().epoch == 2);
  for (auto const& warning : trainer.warnings()) CHECK(warning.find("fulgurite.exception.second") == warning.npos);
  CHECK(folder.files() == Kept{"interrupted.safetensors"});
  // Begun again, the program has nothing left to train, and goes on with what follows the fit.
  Scripted again;
  auto then = raising(folder, {""});
  said([&] { CHECK(exit_code([&] { then.fit(again, toy::batches(3), toy::batches(1)); }) == 0); });
  CHECK(again.batches == 0);
  CHECK(again.p.value() == 6);
  CHECK(folder.files().empty());
}

TEST_CASE("a signal after the last batch of an evaluation ends the program when the evaluation has ended") {
  Folder const folder;
  Evaluated model;
  auto tests = raising<Evaluated>(folder, {"test_end"});
  CHECK(exit_code([&] { tests.test(model, toy::batches(2)); }) == 130);
  auto validates = raising<Evaluated>(folder, {"validation_end"});
  CHECK(exit_code([&] { validates.validate(model, toy::batches(2)); }) == 130);
  auto predicts = raising<Evaluated>(folder, {"predict_end"});
  CHECK(exit_code([&] { predicts.predict(model, toy::batches(2)); }) == 130);
  CHECK(folder.files().empty());
  CHECK(exit_code([&] { raising<Evaluated>(folder, {""}).test(model, toy::batches(2)); }) == 0);
}

namespace {

/// A signal comes in the first batch of one of these.
struct Inside : Scripted {
  std::string_view in;
  int signal = SIGINT, tested = 0, predicted = 0, checked = 0;
  void test_step(double) { ++tested, at("test"); }
  double predict_step(double batch) { return ++predicted, at("predict"), batch; }
  void validation_step(double batch, auto& ctx) {
    ++checked;
    at("sanity check");
    Scripted::validation_step(batch, ctx);
  }
  void at(std::string_view here) const {
    if (here == in) std::raise(signal);
  }
};

}  // namespace

TEST_CASE("a signal inside of a sanity check, a test or a prediction ends it after the batch at hand") {
  auto const signal = GENERATE(SIGINT, SIGTERM);
  Folder const folder;
  auto trainer = make_trainer<Inside>(TrainerOptions{.max_epochs = 1, .num_sanity_val_steps = 2}, SavingDevice{},
                                      Float32{}, Automatic{}, Signals{{.dirpath = folder.path}});
  Inside tests;
  tests.in = "test", tests.signal = signal;
  CHECK(exit_code([&] { trainer.test(tests, toy::batches(3)); }) == 128 + signal);
  CHECK(tests.tested == 1);
  Inside predicts;
  predicts.in = "predict", predicts.signal = signal;
  CHECK(exit_code([&] { trainer.predict(predicts, toy::batches(3)); }) == 128 + signal);
  CHECK(predicts.predicted == 1);
  Inside checks;
  checks.in = "sanity check", checks.signal = signal;
  CHECK(exit_code([&] { trainer.fit(checks, toy::batches(3), toy::batches(3)); }) == 128 + signal);
  CHECK(checks.checked == 1);
  CHECK(checks.batches == 0);
}

namespace {

/// Asks for the pass after training, and a signal comes in its second batch.
struct Passes {
  using Stateless = ByChoice;
  bool raises = true;
  void on_train_epoch_end(auto& ctx) { ctx.request_statistics_pass(); }
};
struct InPass : Scripted {
  bool raises = true;
  toy::Tensor training_step(double batch, auto& ctx) {
    if (raises && ctx.global_step() == 3 && batch == 1) std::raise(SIGINT);
    return Scripted::training_step(batch, ctx);
  }
};

}  // namespace

TEST_CASE("a signal in the pass for statistics ends it after the batch at hand; it is done anew when the fit goes on") {
  Folder const folder;
  InPass model;
  auto const trainer_of = [&] {
    return make_trainer<InPass>(quick(1), SavingDevice{}, Float32{}, Automatic{}, Passes{},
                                Signals{{.dirpath = folder.path}});
  };
  auto trainer = trainer_of();
  CHECK(exit_code([&] { trainer.fit(model, toy::batches(3), toy::batches(1)); }) == 130);
  CHECK(model.batches == 3 + 2);
  CHECK(folder.files() == Kept{"interrupted.safetensors"});
  InPass again;
  again.raises = false;
  auto then = trainer_of();
  said([&] { then.fit(again, toy::batches(3), toy::batches(1)); });
  CHECK(again.batches == 3);
  CHECK(then.progress().global_step == 3);
  CHECK(folder.files().empty());
}

TEST_CASE("a second signal of those that end a run ends the program at once, whichever came first") {
  int const status = status_of([] {
    ::signal(SIGTERM, SIG_DFL);
    CaughtSignals const caught({SIGINT, SIGTERM});
    std::raise(SIGINT);
    if (CaughtSignals::caught() == SIGINT) std::raise(SIGTERM);
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("a second signal that the program handles itself goes to its handler, one that it ignores ends it") {
  handled = 0;
  auto const before = ::signal(SIGTERM, [](int signal) { handled = signal; });
  {
    CaughtSignals const caught({SIGINT, SIGTERM});
    std::raise(SIGINT);
    CHECK(handled == 0);
    std::raise(SIGTERM);
    CHECK(handled == SIGTERM);
    CHECK(CaughtSignals::caught() == SIGINT);
  }
  handled = 0;
  std::raise(SIGTERM);
  CHECK(handled == SIGTERM);
  ::signal(SIGTERM, before);
  int const status = status_of([] {
    ::signal(SIGTERM, SIG_IGN);
    CaughtSignals const caught({SIGTERM});
    std::raise(SIGTERM);
    std::raise(SIGTERM);
  });
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("a signal that requests something never ends the program, nor does the next one after it") {
  CaughtSignals const caught({SIGINT}, SIGUSR1);
  std::raise(SIGUSR1);
  std::raise(SIGUSR1);
  CHECK(CaughtSignals::requested() == SIGUSR1);
  CHECK(CaughtSignals::caught() == 0);
  std::raise(SIGINT);
  CHECK(CaughtSignals::caught() == SIGINT);
}

TEST_CASE("a signal that cannot be caught is refused, and the others are put back") {
  struct sigaction before{}, after{};
  ::sigaction(SIGINT, nullptr, &before);
  for (int const wrong : {SIGKILL, 0, 1000})
    CHECK(error_of([&] { CaughtSignals({SIGINT, wrong}); }).starts_with("[fulgurite.run.signal]"));
  ::sigaction(SIGINT, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
}

TEST_CASE("without a folder of its own, the file of a signal has the name of the program and of the model") {
  Folder const folder;
  auto options = quick(1);
  options.default_root_dir = folder.path;
  Scripted model;
  auto trainer =
      make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, RaisesIn{"fit_end"}, Signals{});
  CHECK(exit_code([&] { trainer.fit(model, toy::batches(1), toy::batches(1)); }) == 130);
  Evaluated other;
  auto second =
      make_trainer<Evaluated>(options, SavingDevice{}, Float32{}, Automatic{}, RaisesIn{"fit_end"}, Signals{});
  CHECK(exit_code([&] { second.fit(other, toy::batches(1), toy::batches(1)); }) == 130);
  CHECK(other.batches == 1);  // it did not go on from the first one's
  std::string const program = program_invocation_short_name;
  CHECK(folder.files() ==
        Kept{"interrupted_" + program + "_Scripted.safetensors", "interrupted_" + program + "_Evaluated.safetensors"});
}

TEST_CASE(
    "a program's fits of one model type that follow each other have files of their own: none goes on from another's") {
  Folder const folder;
  auto const fit = [&](Scripted& model, RaisesIn raises) {
    auto options = quick(2);
    options.default_root_dir = folder.path;
    auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, raises, Signals{});
    return exit_code([&] { trainer.fit(model, toy::batches(3), toy::batches(1)); });
  };
  // A program of two fits, the second of which is interrupted; then the program once more.
  auto const program = [&](std::string_view second_raises) {
    Scripted first, second;
    auto const ended = fit(first, {""});
    auto const code = fit(second, {second_raises, SIGINT});
    return std::tuple(ended, first.batches, code, second.batches);
  };
  CHECK(status_of([&] { ::_exit(program("epoch_end") == std::tuple(0, 6, 130, 6) ? 0 : 1); }) == 0);
  auto const left = folder.files();
  REQUIRE(left.size() == 1);
  CHECK(left.begin()->ends_with("_Scripted-2.safetensors"));
  int const status = status_of([&] { said([&] { ::_exit(program("") == std::tuple(0, 6, 0, 0) ? 0 : 1); }); });
  CHECK(status == 0);
  CHECK(folder.files().empty());
}

namespace {
struct RaisesAt {
  using Stateless = ByChoice;
  long step;
  void on_train_batch_end(auto& ctx) {
    if (ctx.global_step() == step) std::raise(SIGTERM);
  }
};
}  // namespace

TEST_CASE("fits of one model type in different folders are the first ones of their folders, however these are called") {
  Folder const folder;
  int const status = status_of([&] {
    std::set<std::string> names;
    for (std::string const name : {"a", "b", "c"}) {
      std::filesystem::create_directories(folder.path / name / "sub");
      std::filesystem::current_path(folder.path / name);
      for (std::filesystem::path const& dirpath : {std::filesystem::path("sub"), folder.path / name / "sub"}) {
        Scripted model;
        auto trainer =
            make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, Signals{{.dirpath = dirpath}});
        trainer.fit(model, toy::batches(1), toy::batches(1));
        names.insert(trainer.template callback<Signals>().last_checkpoints().front().filename().string());
      }
    }
    ::_exit(names == std::set<std::string>{"interrupted.safetensors", "interrupted-2.safetensors"} ? 0 : 1);
  });
  CHECK(status == 0);
}

TEST_CASE("a fit that a signal has ended says where its file is, and one that resumes from it where it continues") {
  Folder const folder;
  auto const file = (folder.path / "interrupted.safetensors").string();
  auto const output = [&](long step, auto... from) {
    Scripted model;
    auto trainer = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{}, RaisesAt{step},
                                          Signals{{.dirpath = folder.path}});
    return said([&] { exit_code([&] { trainer.fit(model, toy::batches(3), toy::batches(1), from...); }); });
  };
  CHECK(output(5) == "interrupted: the run is saved to " + file + "; the same program resumes from it\n");
  CHECK(output(0, CkptPath{file}) == "resumes from " + file + ": epoch 1, batch 2, step 5\n");
}

TEST_CASE("a signal that waits for the end of a window when a validation ends the fit by it is no second failure") {
  Folder const folder;
  Scripted model;
  auto options = quick(1);
  options.val_check_interval = 1;
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 2},
                                        RaisesAt{0}, Signals{{.dirpath = folder.path}});
  std::string const output =
      said([&] { CHECK(exit_code([&] { trainer.fit(model, toy::batches(4), toy::batches(1)); }) == 143); });
  CHECK(output.find("fulgurite.exception.second") == std::string::npos);
  CHECK(trainer.progress().global_step == 0);
  CHECK(folder.files() == Kept{"interrupted.safetensors"});
}

TEST_CASE("a SLURM job is read from its variables, and what is no number or an interactive session is none") {
  using Variables = std::map<std::string, std::string>;
  auto const job = [](Variables const& set) {
    auto const of = slurm::job([&](char const* name) {
      auto const found = set.find(name);
      return found == set.end() ? nullptr : found->second.c_str();
    });
    return of ? of->name + "|" + of->task : "none";
  };
  CHECK(job({}) == "none");
  CHECK(job({{"SLURM_JOB_ID", "4711"}}) == "4711|");
  CHECK(job({{"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NAME", "train"}}) == "4711|");
  CHECK(job({{"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NAME", "bash"}}) == "none");
  CHECK(job({{"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NAME", "interactive"}}) == "none");
  for (auto const* id : {"", "-1", "4711;reboot", "47 11", "123456789012345678901"})
    CHECK(job({{"SLURM_JOB_ID", id}}) == "none");
  Variables array{{"SLURM_JOB_ID", "4713"}, {"SLURM_ARRAY_JOB_ID", "4711"}, {"SLURM_ARRAY_TASK_ID", "3"}};
  CHECK(job(array) == "4711_3|3");
  array["SLURM_ARRAY_TASK_ID"] = "../3";
  CHECK(job(array) == "4713|");
}

namespace {
/// Raises a signal while the file of another exception is written.
struct RaisesWhileSaving {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  int signal = SIGUSR1;
  bool fails = true;
  void on_train_batch_end(auto& ctx) {
    if (fails && ctx.global_step() == 2) throw Error("fulgurite.test.failed", "a hook failed");
  }
  void before_save(auto&) {
    if (std::exchange(fails, false)) std::raise(signal);
  }
};
}  // namespace

TEST_CASE("a signal that comes while the file of another exception is written ends nothing: the file is whole, and the "
          "program ends by that exception") {
  auto const signal = GENERATE(SIGUSR1, SIGTERM);
  CAPTURE(signal);
  Folder const folder;
  int const status = status_of([&] {
    ::setenv("SLURM_JOB_ID", "4711", 1);
    ::setenv("SLURM_JOB_NAME", "train", 1);
    ::signal(signal, SIG_DFL);
    Scripted model;
    auto trainer =
        make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, RaisesWhileSaving{signal},
                               Signals{{.dirpath = folder.path}}, OnExceptionCheckpoint{{.dirpath = folder.path}});
    bool failed = false;
    auto const warnings = said([&] {
      try {
        trainer.fit(model, toy::batches(4), toy::batches(1));
      } catch (Error const&) { failed = true; }
    });
    bool const told = warnings.find("[fulgurite.run.failing] signal " + std::to_string(signal)) != std::string::npos;
    ::_exit(failed && told ? 7 : 8);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(folder.files() == Kept{"on_exception.safetensors"});
}

namespace {

int heard_by_program = 0;

}  // namespace

TEST_CASE(
    "signals: of two that listen at once either may end first, and after both the program's own handler is back") {
  auto* const before = std::signal(SIGUSR2, [](int) { ++heard_by_program; });
  for (bool const oldest_first : {true, false}) {
    heard_by_program = 0;
    std::vector<int> const listed{SIGUSR2};
    std::optional<CaughtSignals> one, two;
    one.emplace(listed);
    two.emplace(listed);
    (oldest_first ? one : two).reset();
    std::raise(SIGUSR2);
    CHECK(CaughtSignals::caught() == SIGUSR2);
    CHECK(heard_by_program == 0);
    (oldest_first ? two : one).reset();
    std::raise(SIGUSR2);
    CHECK(heard_by_program == 1);
  }
  std::signal(SIGUSR2, before);
}

namespace {

struct LeavesThread {
  using Stateless = ByChoice;
  bool leaves = true;
  void on_train_batch_end(auto& ctx) {
    if (leaves && ctx.batch_idx() == 1) ::pthread_exit(nullptr);
  }
};

}  // namespace

TEST_CASE("a thread that ends inside of a fit, by pthread_exit or pthread_cancel, ends alone") {
  static int past = 0;
  ::pthread_t thread{};
  auto* const run = +[](void*) -> void* {
    Scripted model;
    auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, LeavesThread{});
    trainer.fit(model, toy::batches(3), toy::batches(1));
    ++past;
    return nullptr;
  };
  REQUIRE(::pthread_create(&thread, nullptr, run, nullptr) == 0);
  CHECK(::pthread_join(thread, nullptr) == 0);
  CHECK(past == 0);
}
