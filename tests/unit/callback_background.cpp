// Files that another thread writes: they hold what the run was when they were asked for, and what follows from them, or
// from a failure, is done by the thread that trains.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;
using Kept = std::set<std::string>;

namespace {
/// A writer that begins when it is told, at the latest when somebody waits for it.
struct Late : BackgroundWriter {
  static inline bool at_once = false;                       ///< a file is there as soon as it is looked for
  static inline std::function<void()> meanwhile = nullptr;  ///< done before anything is written
  static inline int started = 0, most = 0, under_way = 0;

  void start() {
    pending_ = true;
    ++started;
    most = std::max(most, ++under_way);
  }
  bool done() {
    if (at_once) wait();
    return !pending_;
  }
  void wait() {
    if (!std::exchange(pending_, false)) return;
    --under_way;
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    BackgroundWriter::start();
    BackgroundWriter::wait();
  }
  static void reset() {
    at_once = false;
    meanwhile = nullptr;
    started = most = under_way = 0;
  }

 private:
  bool pending_ = false;
};
struct LateBackend : SavingBackend {
  using Background = Late;
};
struct LateDevice : toy::Device {
  using Backend = LateBackend;
};

TrainerOptions in_background(int epochs) {
  auto options = quick(epochs);
  options.save_in_background = true;
  return options;
}
template <class Device, class... Cs>
auto trainer_of(TrainerOptions options, Cs... callbacks) {
  return Trainer<Scripted, Device, Float32, Automatic, Cs...>(std::move(options), Device{}, Float32{}, Automatic{},
                                                              std::move(callbacks)...);
}
using Best = ModelCheckpoint<Metric<"vl">>;

/// All files of a folder, which is emptied.
std::map<std::string, std::string> taken_from(Folder const& folder) {
  std::map<std::string, std::string> all;
  for (auto const& file : folder.files()) {
    all[file] = content(folder / file);
    std::filesystem::remove(folder / file);
  }
  for (auto const& link : std::filesystem::directory_iterator(folder.path)) std::filesystem::remove(link.path());
  return all;
}
std::string state_of(std::filesystem::path const& file) { return to_text(run_state(SafetensorsFile(file))); }
}  // namespace

TEST_CASE("background: the files are those that the training thread writes, byte for byte, however late") {
  using Device = LateDevice;
  for (auto const last : {SaveLast::no, SaveLast::copy, SaveLast::link})
    for (int const top : {0, 1, 2, -1}) {
      if (top == 0 && last == SaveLast::no) continue;
      CAPTURE(static_cast<int>(last), top);
      Folder const folder;
      auto const run = [&](TrainerOptions options) {
        Scripted model{.script = {5, 6, 4, 3, 7, 2}};
        auto trainer = trainer_of<Device>(
            std::move(options),
            ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_top_k = top, .save_last = last}});
        trainer.fit(model, toy::batches(2), toy::batches(1));
        auto const& callback = trainer.template callback<Best>();
        return std::tuple(taken_from(folder), callback.best_model_path(), callback.last_model_path(),
                          callback.best_k_models(), trainer.outcome().last_file);
      };
      Late::reset();
      auto const expected = run(quick(6));
      CHECK(Late::started == 0);
      CHECK(run(in_background(6)) == expected);
      CHECK(Late::started > 0);
      CHECK(Late::most == 1);
      Late::at_once = true;
      CHECK(run(in_background(6)) == expected);
    }
}

TEST_CASE("background: training goes on meanwhile, and the fit ends when all is on the disk") {
  Late::reset();
  Folder const folder;
  Scripted model;
  std::vector<std::size_t> seen;
  auto trainer = trainer_of<LateDevice>(
      in_background(1), AtBatch{[&](long) { seen.push_back(folder.files().size()); }},
      ModelCheckpoint{{.dirpath = folder.path, .filename = "{step}", .save_top_k = -1, .every_n_train_steps = 3}});
  trainer.fit(model, toy::batches(8), toy::batches(1));
  CHECK(seen == std::vector<std::size_t>{0, 0, 0, 0, 0, 0, 1, 1});  // the second waits for the first
  CHECK(folder.files() == Kept{"step=3.safetensors", "step=6.safetensors"});
  CHECK(state_of(folder / "step=3.safetensors").find(R"("global_step":3)") != std::string::npos);
}

TEST_CASE("background: while a file is written, the results of an open fit are those of the file before it") {
  Late::reset();
  Folder const folder;
  Scripted model{.script = {5, 4, 3}};
  auto trainer = trainer_of<LateDevice>(in_background(3),
                                        ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .filename = "{epoch}"}});
  auto train = toy::batches(1), val = toy::batches(1);
  auto fit = trainer.open(model, train, val);
  fit.advance();
  CHECK(Late::started == 1);
  CHECK(trainer.outcome().last_file.empty());
  CHECK_FALSE(trainer.outcome().best_value);
  fit.advance();
  CHECK(Late::started == 2);
  CHECK(trainer.outcome().last_file == folder / "epoch=0.safetensors");
  CHECK(trainer.outcome().best_file == folder / "epoch=0.safetensors");
  CHECK(trainer.outcome().best_value == 5);
  fit.advance();
  fit.close();
  CHECK(trainer.outcome().best_file == folder / "epoch=2.safetensors");
  CHECK(trainer.outcome().best_value == 3);
}

namespace {
/// How many files of that name have gone, and still take their space.
long deleted() {
  long count = 0;
  for (auto const& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    count += std::filesystem::read_symlink(one, closed).native().ends_with("old (deleted)");
  }
  return count;
}
}  // namespace

TEST_CASE("background: the name of a file that gives way is gone at once, its space when another thread lets it go") {
  Folder const folder;
  put(folder / "old", "a file");
  std::filesystem::create_symlink(folder / "old", folder / "link");
  BackgroundWriter writer;
  CHECK(writer.remove(folder / "link"));
  CHECK(std::filesystem::exists(folder / "old"));
  CHECK(writer.remove(folder / "old"));
  CHECK_FALSE(std::filesystem::exists(folder / "old"));
  CHECK_FALSE(writer.remove(folder / "old"));
  CHECK(deleted() == 1);
  writer.let_go();
  writer.wait();
  CHECK(deleted() == 0);
}

TEST_CASE("background: the space of a file that has given way is let go also where what follows fails") {
  Folder const folder;
  put(folder / "old", "a file");
  loop::FilesUnderWay<SavingBackend> now;
  now.then = [&](CheckpointFiles& files) {
    files.give_up(folder / "old");
    throw Error("fulgurite.test.after", "it fails after that");
  };
  HeldFiles held;
  loop::Due const due;
  CHECK(error_of([&] { loop::finish(now, held, due); }).starts_with("[fulgurite.test.after]"));
  now.writer.wait();
  CHECK_FALSE(std::filesystem::exists(folder / "old"));
  CHECK(deleted() == 0);
}

TEST_CASE("background: with the library's own writer, too, a run goes on from each of its files") {
  Folder const folder;
  Scripted model;
  auto trainer = trainer_of<SavingDevice>(
      in_background(2),
      ModelCheckpoint{{.dirpath = folder.path, .filename = "{step}", .save_top_k = -1, .every_n_train_steps = 1}});
  trainer.fit(model, toy::batches(3), toy::batches(1));
  REQUIRE(folder.files().size() == 6);
  for (auto const& file : folder.files()) {
    INFO(file);
    Scripted again;
    auto then = trainer_of<SavingDevice>(quick(2));
    said([&] { then.fit(again, toy::batches(3), toy::batches(1), CkptPath{folder / file}); });
    CHECK(again.p.value() == model.p.value());
  }
}

TEST_CASE("background: a file that cannot be written ends the fit at its next step, once, and leaves no trace") {
  Late::reset();
  Folder const folder;
  auto const runs = folder / "runs";
  Scripted model;
  long heard = 0;
  auto trainer = trainer_of<LateDevice>(in_background(1), AtBatch{[&](long step) {
                                          heard = step;
                                          if (step != 3) return;
                                          Late::meanwhile = [&] {
                                            std::filesystem::rename(runs, folder / "away");
                                            put(runs, "no folder");
                                          };
                                          Late::at_once = true;
                                        }},
                                        ModelCheckpoint{{.dirpath = runs,
                                                         .filename = "{step}",
                                                         .save_top_k = 1,
                                                         .save_last = SaveLast::copy,
                                                         .every_n_train_steps = 3}});
  auto const error = error_of([&] { trainer.fit(model, toy::batches(8), toy::batches(1)); });
  CHECK(error.starts_with("[fulgurite.file.write] cannot "));
  CHECK(error.find("runs") != std::string::npos);
  CHECK(heard == 3);
  CHECK(Late::started == 1);
  auto const& callback = trainer.template callback<ModelCheckpoint<>>();
  CHECK(callback.best_model_path().empty());
  CHECK(callback.last_model_path().empty());
  CHECK(std::filesystem::is_empty(folder / "away"));
}

TEST_CASE("background: a failure of the last file is that of the fit, and the file before it stays") {
  Late::reset();
  Folder const folder;
  auto const runs = folder / "runs";
  Scripted model;
  auto trainer =
      trainer_of<LateDevice>(in_background(1), AtBatch{[&](long step) {
                               if (step == 4)  // the file of step 2 is written when that of step 4 is asked for
                                 Late::meanwhile = [&] {
                                   std::filesystem::rename(runs, folder / "away");
                                   put(runs, "no folder");
                                 };
                             }},
                             ModelCheckpoint{{.dirpath = runs, .filename = "{step}", .every_n_train_steps = 2}});
  CHECK(error_of([&] {
          trainer.fit(model, toy::batches(5), toy::batches(1));
        }).starts_with("[fulgurite.file.write] cannot "));
  CHECK(trainer.template callback<ModelCheckpoint<>>().best_model_path() == runs / "step=2.safetensors");
  CHECK(std::filesystem::exists(folder / "away" / "step=2.safetensors"));
}

TEST_CASE("background: where another process takes the name meanwhile, the file gets another, and says so itself") {
  for (auto const last : {SaveLast::copy, SaveLast::link}) {
    Late::reset();
    Folder const folder;
    Scripted model;
    auto trainer = trainer_of<LateDevice>(
        in_background(1), AtBatch{[&](long step) {
          if (step == 1)
            Late::meanwhile = [&] {
              put(folder / "step=2.safetensors", "another's");
              put(folder / "last.safetensors", "another's");
            };
        }},
        ModelCheckpoint{{.dirpath = folder.path, .filename = "{step}", .save_last = last, .every_n_train_steps = 2}});
    trainer.fit(model, toy::batches(2), toy::batches(1));
    CHECK(content(folder / "step=2.safetensors") == "another's");
    CHECK(content(folder / "last.safetensors") == "another's");
    auto const& callback = trainer.template callback<ModelCheckpoint<>>();
    CHECK(callback.best_model_path() == folder / "step=2-v1.safetensors");
    CHECK(callback.last_model_path() == folder / "last-v1.safetensors");
    for (char const* file : {"step=2-v1.safetensors", "last-v1.safetensors"}) {
      auto const text = state_of(folder / file);
      CHECK(text.find("step=2-v1.safetensors") != std::string::npos);
      CHECK(text.find("last-v1.safetensors") != std::string::npos);
      CHECK(text.find("step=2.safetensors") == std::string::npos);
      CHECK(text.find(R"("global_step":2)") != std::string::npos);
    }
  }
}

TEST_CASE("background: two callbacks that are due together take turns, and each keeps its own files") {
  struct Second : ModelCheckpoint<> {
    using ModelCheckpoint<>::ModelCheckpoint;
  };
  Late::reset();
  Folder const folder;
  Scripted model;
  auto trainer = trainer_of<LateDevice>(
      in_background(3), ModelCheckpoint{{.dirpath = folder.path, .filename = "a-{step}"}},
      Second{ModelCheckpointOptions{.dirpath = folder.path, .filename = "b-{step}", .save_top_k = -1}});
  said([&] { trainer.fit(model, toy::batches(2), toy::batches(1)); });
  CHECK(folder.files() ==
        Kept{"a-step=6.safetensors", "b-step=2.safetensors", "b-step=4.safetensors", "b-step=6.safetensors"});
  CHECK(Late::started == 6);
  CHECK(Late::most == 1);
}

TEST_CASE(
    "background: a step that fails while a file is under way leaves the file whole, and the run goes on from it") {
  Late::reset();
  Folder const folder;
  Scripted model{.fails_at = 3};
  auto trainer = trainer_of<LateDevice>(
      in_background(1), ModelCheckpoint{{.dirpath = folder.path, .filename = "{step}", .every_n_train_steps = 2}});
  CHECK(error_of([&] { trainer.fit(model, toy::batches(6), toy::batches(1)); }).starts_with("[fulgurite.test.step]"));
  CHECK(folder.files() == Kept{"step=2.safetensors"});
  CHECK(Late::under_way == 0);
  CHECK(state_of(folder / "step=2.safetensors").find(R"("global_step":2)") != std::string::npos);
}

TEST_CASE("background: a fit that is left open waits for its file, and says where that cannot be written") {
  using Key = Run<Scripted, LateDevice, Float32, Automatic>;
  using Files = ModelCheckpoint<>;
  for (bool const fails : {false, true}) {
    Late::reset();
    Folder const folder;
    auto const runs = folder / "runs";
    auto const warned = said([&] {
      Scripted model;
      loop::State<Key> state(loop::Asked(in_background(1)), Automatic{}, LateDevice{}, Float32{}, &model);
      Pack<Files> pack{Slots<Files>(Files{{.dirpath = runs, .filename = "{step}", .every_n_train_steps = 2}})};
      auto batches = toy::batches(6);
      NoValidation none;
      loop::GivenLoaders<decltype(batches), NoValidation> source{batches, none};
      loop::OpenFit<Key, Pack<Files>, decltype(source)> fit(state, pack, source);
      for (int i = 0; i != 3; ++i) fit.advance();
      if (fails) {
        std::filesystem::remove_all(runs);
        put(runs, "no folder");
      }
    });
    CHECK((warned.find("[fulgurite.checkpoint.failed_too] the fit was left before its end") != std::string::npos) ==
          fails);
    CHECK(folder.files() == (fails ? Kept{"runs"} : Kept{"runs/step=2.safetensors"}));
  }
}

TEST_CASE("background: an image is written as the file of the same state, and keeps what was when it was taken") {
  Folder const folder;
  double weight = 1.5;
  std::vector<Hyperparameter> const declared{{"lr", 0.1}};
  SavedTensor tensor("F64", {1}, [&weight](auto const& take) { take(std::as_bytes(std::span(&weight, 1))); });
  std::filesystem::path named = "runs/a";
  auto const weights = [&](auto&& f) {
    f(std::string_view("w"), WeightView{"F64", {}, std::as_bytes(std::span(&weight, 1))});
  };
  auto const fold = [&](auto& archive) {
    archive("named", named)("list", std::vector<std::string>{"runs/a", "runs/ab"}).tensor("t", tensor);
  };
  save_run_file(folder / "a", weights, fold, declared);
  RunImage image;
  image.take(weights, fold, declared);
  weight = 2.5;
  named = "changed";
  image.write(folder / "b");
  CHECK(content(folder / "b") == content(folder / "a"));
  image.rename("runs/a", "runs/c");
  image.write(folder / "c");
  auto const text = state_of(folder / "c");
  CHECK(text == R"({"named":"runs/c","list":["runs/c","runs/ab"],"t":{"$tensor":{"dtype":"F64","shape":[1],)"
                R"("bytes":"000000000000f83f"}}})");
  image.take(weights, fold, {});
  image.write(folder / "d");
  CHECK(state_of(folder / "d").find(R"("named":"changed")") != std::string::npos);
  CHECK(error_of([&] {
          image.take([&](auto&& f) { f(std::string_view("fulgurite:w"), WeightView{"U8", {0}, {}}); }, fold, {});
        }).starts_with("[fulgurite.checkpoint.weights] "));
}

namespace {
/// Asks for a file of that name after a step.
struct AsksFor {
  using Stateless = ByChoice;
  std::filesystem::path file;
  long step;
  void on_train_batch_end(auto& ctx) {
    if (ctx.global_step() == step) ctx.request_checkpoint(file);
  }
};
}  // namespace

TEST_CASE("background: a file that is under way takes no name for which a request of the same moment waits") {
  Late::reset();
  Folder const folder;
  Scripted model;
  auto trainer =
      trainer_of<LateDevice>(in_background(1), AtBatch{[&](long step) {
                               if (step == 1)
                                 Late::meanwhile = [&] { put(folder / "step=2.safetensors", "another's"); };
                             }},
                             ModelCheckpoint{{.dirpath = folder.path, .filename = "{step}", .every_n_train_steps = 2}},
                             AsksFor{folder / "step=2-v1.safetensors", 3});
  trainer.fit(model, toy::batches(3), toy::batches(1));
  CHECK(content(folder / "step=2.safetensors") == "another's");
  CHECK(trainer.template callback<ModelCheckpoint<>>().best_model_path() == folder / "step=2-v2.safetensors");
  CHECK(state_of(folder / "step=2-v1.safetensors").find(R"("global_step":3)") != std::string::npos);
  CHECK(state_of(folder / "step=2-v2.safetensors").find(R"("global_step":2)") != std::string::npos);
}
