// Section 11.14: a job that SLURM has told of its end leaves a file and is begun again. scontrol is a stand-in on PATH.
#include <csignal>
#include <cstdlib>
#include <map>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/watch.hpp>

#include "unit/callback_run.hpp"
#include "unit/callback_stderr.hpp"

using namespace fulgurite;

namespace {

/// Variables of the environment as they are to be; afterwards they are as they were.
struct Environment {
  explicit Environment(std::map<std::string, std::string> const& now) {
    for (auto const& [name, value] : now) {
      char const* const was = std::getenv(name.c_str());
      before.emplace(name, was ? std::optional<std::string>(was) : std::nullopt);
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  Environment(Environment const&) = delete;
  ~Environment() {
    for (auto const& [name, value] : before)
      if (value) ::setenv(name.c_str(), value->c_str(), 1);
      else ::unsetenv(name.c_str());
  }
  std::map<std::string, std::optional<std::string>> before{};
};

/// A folder for the run's files, and one with a scontrol that writes down its arguments and what files there are.
struct Cluster {
  Folder files, tools;
  Cluster() { stand_in("echo \"$@\" $(ls '" + files.path.string() + "') >> '" + (tools / "calls").string() + "'"); }
  void stand_in(std::string const& script) {
    put(tools / "scontrol", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(tools / "scontrol", std::filesystem::perms::owner_all);
  }
  std::string calls() const { return content(tools / "calls"); }
  std::map<std::string, std::string> job(std::map<std::string, std::string> more = {}) const {
    more.insert({{"PATH", tools.path.string() + ":" + std::getenv("PATH")},
                 {"SLURM_JOB_ID", "4711"},
                 {"SLURM_JOB_NAME", "train"}});
    return more;
  }
};

/// SIGUSR1 in one batch of training, or of validation; then, where asked for, SIGTERM while the file is written.
struct Told {
  using Stateless = ByChoice;
  long in_batch = -1;
  bool in_validation = false, then_term = false, in_sanity = false, at_end = false;
  void on_train_batch_start(auto& ctx) {
    if (ctx.batch_idx() == in_batch) std::raise(SIGUSR1);
  }
  void on_validation_batch_start(auto& ctx) {
    if (in_validation && !ctx.sanity_checking()) std::raise(SIGUSR1);
  }
  void on_sanity_check_start() {
    if (in_sanity) std::raise(SIGUSR1);
  }
  void on_train_end() {
    if (at_end) std::raise(SIGUSR1);
  }
  void before_save(auto&) {
    if (then_term) std::raise(SIGTERM);
  }
};

/// How a fit of four batches ends, which goes on from what is there: the exit code, and the batches that it trained on.
struct Ended {
  int code = 0;
  long batches = 0;
  double weight = 0;
  std::string said{};
};
Ended fit(Folder const& folder, Told told) {
  Ended end;
  auto options = quick(1);
  options.num_sanity_val_steps = told.in_sanity ? 1 : 0;
  options.default_root_dir = folder.path;
  Scripted model;
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, told, Signals{});
  end.said = said([&] {
    try {
      trainer.fit(model, toy::batches(4), toy::batches(1));
    } catch (Interrupted const& interrupted) { end.code = interrupted.exit_code(); }
  });
  end.batches = model.batches;
  end.weight = model.p.value();
  return end;
}
using Kept = std::set<std::string>;

}  // namespace

TEST_CASE("C162 SLURM: hpc_ckpt_1, then 2, each before scontrol requeues; begun again, the job takes the highest") {
  Cluster const cluster;
  Environment const job(cluster.job());
  auto const first = fit(cluster.files, {.in_batch = 0});
  CHECK(first.code == 128 + SIGUSR1);
  CHECK(first.said == "interrupted: the run is saved to " + (cluster.files.path / "hpc_ckpt_1.safetensors").string() +
                          "; the same program resumes from it\n");
  CHECK(cluster.files.files() == Kept{"hpc_ckpt_1.safetensors"});
  CHECK(cluster.calls() == "requeue 4711 hpc_ckpt_1.safetensors\n");
  auto const second = fit(cluster.files, {.in_batch = 2});
  CHECK(second.batches == 2);
  CHECK(cluster.files.files() == Kept{"hpc_ckpt_1.safetensors", "hpc_ckpt_2.safetensors"});
  CHECK(cluster.calls().ends_with("\nrequeue 4711 hpc_ckpt_1.safetensors hpc_ckpt_2.safetensors\n"));
  auto const third = fit(cluster.files, {});
  CHECK(third.code == 0);
  CHECK(third.batches == 1);
  CHECK(third.weight == 4);
  CHECK(cluster.files.files().empty());
}

namespace {
/// SIGUSR1 in one batch of each fit; the first file cannot be written.
struct FailsToSave {
  using Stateless = ByChoice;
  long in_batch = 1;
  bool fails = true;
  void on_train_batch_start(auto& ctx) {
    if (ctx.batch_idx() == in_batch) std::raise(SIGUSR1);
  }
  void before_save(auto&) {
    if (std::exchange(fails, false)) throw std::runtime_error("the disk is full");
  }
};
}  // namespace

TEST_CASE("SLURM: a request whose file could not be written does not keep the next fit from ending by its own") {
  Cluster const cluster;
  Environment const job(cluster.job());
  auto options = quick(1);
  options.default_root_dir = cluster.files.path;
  Scripted model;
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, FailsToSave{}, Signals{});
  for (long const batch : {1, 2}) {
    trainer.callback<FailsToSave>().in_batch = batch;
    model.batches = 0;
    CHECK_THROWS_AS(trainer.fit(model, toy::batches(4), toy::batches(1)), Interrupted);
    CHECK(model.batches == batch + 1);
    CHECK(cluster.files.files().size() == (batch == 1 ? 0 : 1));
  }
  CHECK(cluster.calls() == "requeue 4711 hpc_ckpt_1.safetensors\n");
}

TEST_CASE("SLURM: the number after the highest counts, not the text, and other names are nobody's") {
  Cluster const cluster;
  for (auto const* name : {"hpc_ckpt_9.safetensors", "hpc_ckpt_10.safetensors", "hpc_ckpt_x.safetensors",
                           "hpc_ckpt_11.txt", "hpc_ckpt_-12.safetensors", "hpc_ckpt_task1_13.safetensors"})
    put(cluster.files / name, "x");
  checkpointing::HpcFiles const files(cluster.files.path, "");
  CHECK(files.all() ==
        std::vector{cluster.files / "hpc_ckpt_10.safetensors", cluster.files / "hpc_ckpt_9.safetensors"});
  CHECK(files.next() == cluster.files / "hpc_ckpt_11.safetensors");
  CHECK(checkpointing::HpcFiles(cluster.files / "not there", "").next().filename() == "hpc_ckpt_1.safetensors");
}

TEST_CASE("SLURM: the tasks of an array have files of their own, and are requeued by their own names") {
  Cluster const cluster;
  Environment const job(cluster.job({{"SLURM_ARRAY_JOB_ID", "47"}, {"SLURM_ARRAY_TASK_ID", "3"}}));
  fit(cluster.files, {.in_batch = 0});
  CHECK(cluster.calls() == "requeue 47_3 hpc_ckpt_task3_1.safetensors\n");
}

TEST_CASE("SLURM: in a validation, which is done again; before training, where there is nothing to "
          "write; in an evaluation") {
  Cluster const cluster;
  Environment const job(cluster.job());
  SECTION("in a validation") {
    CHECK(fit(cluster.files, {.in_validation = true}).code == 128 + SIGUSR1);
    CHECK(cluster.files.files() == Kept{"hpc_ckpt_1.safetensors"});
    auto const again = fit(cluster.files, {});
    CHECK(again.batches == 0);
    CHECK(again.weight == 4);
  }
  SECTION("SIGTERM, which follows when time is up, does not end the program before the job is in the queue") {
    CHECK(fit(cluster.files, {.in_batch = 1, .then_term = true}).code == 128 + SIGUSR1);
    CHECK(cluster.calls() == "requeue 4711 hpc_ckpt_1.safetensors\n");
  }
  SECTION("after the last batch, the job begins again at the end of the fit") {
    CHECK(fit(cluster.files, {.at_end = true}).code == 128 + SIGUSR1);
    CHECK(cluster.calls() == "requeue 4711 hpc_ckpt_1.safetensors\n");
    auto const again = fit(cluster.files, {});
    CHECK(again.code == 0);
    CHECK(again.batches == 0);
    CHECK(again.weight == 4);
    CHECK(cluster.files.files().empty());
  }
  SECTION("before training") {
    CHECK(fit(cluster.files, {.in_sanity = true}).code == 128 + SIGUSR1);
    CHECK(cluster.calls() == "requeue 4711\n");
  }
  SECTION("in an evaluation the job is only begun again") {
    Scripted model;
    auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, Told{.in_validation = true},
                                          Signals{{.dirpath = cluster.files.path}});
    CHECK_THROWS_AS(trainer.validate(model, toy::batches(2)), Interrupted);
    CHECK(cluster.calls() == "requeue 4711\n");
  }
}

TEST_CASE("SLURM: where scontrol is missing or fails, that is a warning, and the file stays") {
  Cluster cluster;
  SECTION("missing") {
    Environment const job({{"PATH", cluster.files.path.string()}, {"SLURM_JOB_ID", "4711"}});
    auto const end = fit(cluster.files, {.in_batch = 0});
    CHECK(end.code == 128 + SIGUSR1);
    CHECK(end.said.find("[fulgurite.run.requeue]") != std::string::npos);
    CHECK(end.said.find("scontrol requeue 4711") != std::string::npos);
  }
  SECTION("failing") {
    cluster.stand_in("exit 3");
    Environment const job(cluster.job());
    CHECK(fit(cluster.files, {.in_batch = 0}).said.find("ended with status 3") != std::string::npos);
  }
  CHECK(cluster.files.files() == Kept{"hpc_ckpt_1.safetensors"});
}

TEST_CASE("outside of SLURM, SIGUSR1 is left alone, and hpc files are not taken") {
  Folder const folder;
  put(folder / "hpc_ckpt_1.safetensors", "x");
  struct sigaction before{};
  ::sigaction(SIGUSR1, nullptr, &before);
  struct Looks {
    using Stateless = ByChoice;
    decltype(before.sa_handler) seen = nullptr;
    void on_train_end() {
      struct sigaction now{};
      ::sigaction(SIGUSR1, nullptr, &now);
      seen = now.sa_handler;
    }
  };
  Environment const session({{"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NAME", "bash"}});
  Scripted model;
  auto trainer = fitted(model, quick(1), 2, Looks{}, Signals{{.dirpath = folder.path}});
  CHECK(trainer.template callback<Looks>().seen == before.sa_handler);
  CHECK(folder.files() == Kept{"hpc_ckpt_1.safetensors"});
  CHECK_FALSE(trainer.template callback<Signals>().resumes_hpc());
}
