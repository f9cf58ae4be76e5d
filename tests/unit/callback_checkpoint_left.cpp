// What runs that go on again and again leave on the disk: the files of one run.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/data/combined.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace left_behind {

using Kept = std::set<std::string>;
using Options = ModelCheckpointOptions;
using Watched = ModelCheckpoint<Metric<"vl">>;

std::string name(int epoch, int step) {
  return "epoch=" + std::to_string(epoch) + "-step=" + std::to_string(step) + ".safetensors";
}

/// As if the process died right behind the n-th file that it writes: the file is there, and nothing follows.
long dies_behind = 0;
bool is_dead = false;
struct DyingBackend : SavingBackend {
  template <class Model, class State>
  static void save(std::filesystem::path const& path, Model& model, State&& state,
                   std::span<Hyperparameter const> all) {
    if (!is_dead) SavingBackend::save(path, model, state, all);
    is_dead = is_dead || --dies_behind == 0;
    if (is_dead) throw Error("fulgurite.test.death", "the process died");
  }
};
struct DyingDevice : toy::Device {
  using Backend = DyingBackend;
};
/// As if it died in a batch.
struct Dies {
  using Stateless = ByChoice;
  long at;
  void on_train_batch_start(auto& ctx) const {
    if (ctx.global_step() == at) throw Error("fulgurite.test.death", "the process died");
  }
};

/// A process: it trains that many epochs of two batches, or goes on with them.
template <class Files>
struct Process {
  Files files;
  std::vector<double> script = {9, 8, 7, 6, 5, 4, 3, 2, 1};
  std::filesystem::path root = ".";
  mutable std::string text = {};  ///< what the last process said

  bool run(int epochs, std::optional<CkptPath> const& from, long dies_at = -1) const {
    Scripted model{.script = script};
    auto options = quick(epochs);
    options.default_root_dir = root;
    Trainer<Scripted, DyingDevice, Float32, Automatic, Dies, Files> trainer(options, DyingDevice{}, Float32{},
                                                                            Automatic{}, Dies{dies_at}, Files(files));
    bool died = false;
    is_dead = false;
    text = said([&] {
      try {
        trainer.fit(model, toy::batches(2), toy::batches(1), from);
      } catch (Error const& error) {
        REQUIRE(error.identifier() == "fulgurite.test.death");
        died = true;
      }
    });
    return !died;
  }
};
template <class Files>
Process(Files) -> Process<Files>;
template <class Files>
Process(Files, std::vector<double>) -> Process<Files>;

CkptPath const last{"last"};

}  // namespace left_behind
using namespace left_behind;

TEST_CASE("checkpoints: a run that goes on from the last file leaves the files of one run") {
  Folder const folder;
  Options const how{.dirpath = folder.path};
  SECTION("the latest one") {
    Process const process{ModelCheckpoint{how}};
    process.run(3, std::nullopt);
    CHECK(folder.files() == Kept{name(2, 6)});
    process.run(6, last);
    CHECK(folder.files() == Kept{name(5, 12)});
  }
  SECTION("the best one") {
    Process const process{Watched{{}, how}};
    process.run(3, std::nullopt);
    process.run(6, last);
    CHECK(folder.files() == Kept{name(5, 12)});
  }
  SECTION("the best two") {
    auto two = how;
    two.save_top_k = 2;
    Process const process{Watched{{}, two}};
    process.run(3, std::nullopt);
    process.run(6, last);
    CHECK(folder.files() == Kept{name(4, 10), name(5, 12)});
  }
  SECTION("and a copy, or a link, called last") {
    for (auto const kind : {SaveLast::copy, SaveLast::link}) {
      std::filesystem::remove_all(folder.path);
      auto both = how;
      both.save_last = kind;
      Process const process{ModelCheckpoint{both}};
      process.run(3, std::nullopt);
      process.run(6, last);
      CHECK(folder.files() == Kept{name(5, 12), "last.safetensors"});
    }
  }
}

TEST_CASE("checkpoints: a run that was killed nine times leaves the file of one run, and no more on its way") {
  Folder const folder;
  Process process{ModelCheckpoint{}};
  process.root = folder.path;
  for (long kill = 1; kill != 10; ++kill) {
    CHECK_FALSE(process.run(10, last, 2 * kill + kill % 2));
    CHECK(folder.files().size() == 1);
  }
  CHECK(process.run(10, last));
  CHECK(folder.files() == Kept{"checkpoints/" + name(9, 20)});
}

TEST_CASE("checkpoints: what a process that died behind writing a file has not removed, the next one removes") {
  Folder const folder;
  Options const how{.dirpath = folder.path};
  SECTION("with its next file") {
    Process const process{ModelCheckpoint{how}};
    dies_behind = 2;
    CHECK_FALSE(process.run(9, std::nullopt));
    CHECK(folder.files() == Kept{name(0, 2), name(1, 4)});
    CHECK_FALSE(process.run(9, last, 6));
    CHECK(folder.files() == Kept{name(2, 6)});
  }
  SECTION("when it ends, though it writes none") {
    Process const process{ModelCheckpoint{how}};
    dies_behind = 3;
    CHECK_FALSE(process.run(3, std::nullopt));
    CHECK(folder.files() == Kept{name(1, 4), name(2, 6)});
    CHECK(process.run(3, last));
    CHECK(folder.files() == Kept{name(2, 6)});
  }
  SECTION("nine times, the best two kept") {
    auto two = how;
    two.save_top_k = 2;
    Process const process{Watched{{}, two}};
    for (int epochs = 1; epochs != 10; ++epochs) {
      dies_behind = 1;
      process.run(9, last);
      CHECK(folder.files().size() <= 3);
    }
    dies_behind = 0;
    CHECK(process.run(9, last));
    CHECK(folder.files() == Kept{name(7, 16), name(8, 18)});
  }
  dies_behind = 0;
}

namespace left_behind {
/// What the link called last leads to.
std::string linked(Folder const& folder) { return std::filesystem::read_symlink(folder / "last.safetensors").string(); }
/// That file was written `hours` before it was: the clock of the file system cannot tell moments of a test apart.
void make_older(std::filesystem::path const& file, int hours) {
  std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) - std::chrono::hours(hours));
}
/// The step that a file holds.
long step_in(std::filesystem::path const& file) {
  return loop::steps_in(loop::run_files<SavingDevice::Backend::RunFile>, file);
}
}  // namespace left_behind

TEST_CASE(
    "checkpoints: a process that died before it moved last leaves that to the next one, which may write no file") {
  Folder const folder;
  Options how{.dirpath = folder.path, .save_last = SaveLast::link};
  SECTION("the latest one, and the link") {
    Process const process{ModelCheckpoint{how}};
    dies_behind = 2;
    CHECK_FALSE(process.run(2, std::nullopt));
    CHECK(linked(folder) == name(0, 2));
    CHECK(process.run(2, last));
    CHECK(folder.files() == Kept{name(1, 4), "last.safetensors"});
    CHECK(linked(folder) == name(1, 4));
    CHECK(process.run(3, last));
    CHECK(folder.files() == Kept{name(2, 6), "last.safetensors"});
  }
  SECTION("again and again, the process dies there") {
    Process const process{ModelCheckpoint{how}};
    for (int epoch = 0; epoch != 3; ++epoch) {
      dies_behind = 1;
      CHECK_FALSE(process.run(3, last));
    }
    dies_behind = 0;
    CHECK(process.run(3, last));
    CHECK(folder.files() == Kept{name(2, 6), "last.safetensors"});
    CHECK(linked(folder) == name(2, 6));
  }
  SECTION("the first file of all: the link is made, and nothing is said to be gone") {
    Process const process{ModelCheckpoint{how}};
    dies_behind = 1;
    CHECK_FALSE(process.run(1, std::nullopt));
    CHECK(folder.files() == Kept{name(0, 2)});
    CHECK(process.run(1, last));
    CHECK(process.text.find("checkpoint_gone") == std::string::npos);
    CHECK(linked(folder) == name(0, 2));
  }
  SECTION("the best two: the link led to one of them") {
    how.save_top_k = 2;
    Process const process{Watched{{}, how}};
    dies_behind = 3;
    CHECK_FALSE(process.run(3, std::nullopt));
    CHECK(linked(folder) == name(1, 4));
    CHECK(process.run(3, last));
    CHECK(folder.files() == Kept{name(1, 4), name(2, 6), "last.safetensors"});
    CHECK(linked(folder) == name(2, 6));
  }
  SECTION("all files") {
    how.save_top_k = -1;
    Process const process{ModelCheckpoint{how}};
    dies_behind = 2;
    CHECK_FALSE(process.run(2, std::nullopt));
    CHECK(process.run(2, last));
    CHECK(linked(folder) == name(1, 4));
  }
  SECTION("a copy holds the step that its state names") {
    how.save_last = SaveLast::copy;
    Process const process{ModelCheckpoint{how}};
    dies_behind = 3;
    CHECK_FALSE(process.run(2, std::nullopt));
    CHECK(step_in(folder / "last.safetensors") == 2);
    make_older(folder / "last.safetensors", 1);
    CHECK(process.run(2, last));
    CHECK(folder.files() == Kept{name(1, 4), "last.safetensors"});
    CHECK(step_in(folder / "last.safetensors") == 4);
    CHECK(process.run(3, CkptPath{folder / "last.safetensors"}));
    CHECK(folder.files() == Kept{name(2, 6), "last.safetensors"});
    CHECK(step_in(folder / "last.safetensors") == 6);
  }
  dies_behind = 0;
}

TEST_CASE("checkpoints: last leads to a newer file where a run that went on from an older one has written none") {
  Folder const folder;
  Process const process{ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1, .save_last = SaveLast::link}}};
  process.run(2, std::nullopt);
  make_older(folder / name(0, 2), 1);
  process.run(1, CkptPath{folder / name(0, 2)});
  CHECK(linked(folder) == name(1, 4));
}

TEST_CASE("checkpoints: a file that the program names to go on from stays until another one is named") {
  Folder const folder;
  Process const process{ModelCheckpoint{{.dirpath = folder.path}}};
  process.run(1, std::nullopt);
  process.run(3, CkptPath{folder / name(0, 2)});
  CHECK(folder.files() == Kept{name(0, 2), name(2, 6)});
  process.run(5, CkptPath{folder / name(2, 6)});
  CHECK(folder.files() == Kept{name(2, 6), name(4, 10)});
  process.run(7, last);
  CHECK(folder.files() == Kept{name(6, 14)});
}

TEST_CASE("checkpoints: fewer files are kept where a run goes on with a smaller save_top_k") {
  Folder const folder;
  Process{Watched{{}, {.dirpath = folder.path, .save_top_k = 3}}}.run(3, std::nullopt);
  CHECK(folder.files() == Kept{name(0, 2), name(1, 4), name(2, 6)});
  Process{Watched{{}, {.dirpath = folder.path, .save_top_k = 1}}}.run(4, last);
  CHECK(folder.files() == Kept{name(3, 8)});
}

TEST_CASE("checkpoints: what gave way to a file of one callback stays where another callback keeps it") {
  Folder const folder;
  Options const how{.dirpath = folder.path, .enable_version_counter = false};
  auto const run = [&](int epochs, std::optional<CkptPath> const& from) {
    Scripted model{.script = {3, 4, 5, 6}};
    auto trainer = make_trainer<Scripted>(quick(epochs), SavingDevice{}, Float32{}, Automatic{},
                                          ModelCheckpoint{Scripted::vl, how}, ModelCheckpoint{how});
    said([&] { trainer.fit(model, toy::batches(2), toy::batches(1), from); });
  };
  run(2, std::nullopt);
  CHECK(folder.files() == Kept{name(0, 2), name(1, 4)});
  run(2, last);
  CHECK(folder.files() == Kept{name(0, 2), name(1, 4)});
  run(4, last);
  CHECK(folder.files() == Kept{name(0, 2), name(3, 8)});
}

namespace left_behind {
/// The latest file where validations do not fall on the end of the run.
Kept latest(TrainerOptions options, int batches, Options how = {}) {
  Folder const folder;
  Scripted model;
  fitted(model, options, batches, ModelCheckpoint{in(folder, how)});
  return folder.files();
}
}  // namespace left_behind

TEST_CASE("checkpoint: without a metric the latest file is of the run's last step, wherever validations fall") {
  auto options = quick(2);
  options.val_check_interval = 3;
  CHECK(latest(options, 4) == Kept{name(1, 8)});
  CHECK(latest(options, 4, {.save_top_k = -1}) == Kept{name(0, 3), name(1, 7), name(1, 8)});
  CHECK(saved_files.size() == 3);
  CHECK(latest(options, 3) == Kept{name(1, 6)});
  CHECK(saved_files.size() == 2);
  auto across = options;
  across.check_val_every_n_epoch = std::nullopt;
  CHECK(latest(across, 4) == Kept{name(1, 8)});
  auto seldom = quick(3);
  seldom.check_val_every_n_epoch = 2;
  CHECK(latest(seldom, 4) == Kept{name(2, 12)});
  auto cut = options;
  cut.max_steps = 5;
  CHECK(latest(cut, 4) == Kept{name(1, 5)});
  // Nothing is due at the end of another rhythm, nor where the last epoch is none that is saved.
  CHECK(latest(options, 4, {.every_n_train_steps = 3}) == Kept{name(1, 6)});
  CHECK(latest(options, 4, {.every_n_epochs = 0}).empty());
  auto third = quick(3);
  third.val_check_interval = 3;
  CHECK(latest(third, 4, {.every_n_epochs = 2}) == Kept{name(1, 7)});
}

TEST_CASE("checkpoint: the file of a run's end is the one that the run goes on from with more epochs") {
  Folder const folder;
  auto const fit = [&](int epochs) {
    Scripted model;
    auto options = quick(epochs);
    options.val_check_interval = 3;
    auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{},
                                          ModelCheckpoint{{.dirpath = folder.path}});
    said([&] { trainer.fit(model, toy::batches(4), toy::batches(1), CkptPath{"last"}); });
    return model.batches;
  };
  CHECK(fit(1) == 4);
  CHECK(folder.files() == Kept{name(0, 4)});
  CHECK(fit(2) == 4);
  CHECK(folder.files() == Kept{name(1, 8)});
  CHECK(fit(2) == 0);
  CHECK(folder.files() == Kept{name(1, 8)});
}

namespace left_behind {
/// Each validation has two batches, and a loader of its own name.
struct TwoReadings {
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<vl>;
  double epoch = 0;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  void on_train_epoch_start(auto& ctx) { epoch = ctx.current_epoch(); }
  toy::Tensor training_step(double) { return -p; }
  void validation_step(double batch, auto& ctx) { ctx.log(vl, batch - epoch); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
}  // namespace left_behind

TEST_CASE("checkpoint: a file is named by the value that ranks it, and so is what is told of it") {
  Folder const folder;
  TwoReadings model;
  auto const how = [&](char const* below) {
    return Options{.dirpath = folder / below, .filename = "{vl}", .verbose = true};
  };
  auto trainer = make_trainer<TwoReadings>(
      quick(2), SavingDevice{}, Float32{}, Automatic{}, ModelCheckpoint{TwoReadings::vl, how("mean")},
      ModelCheckpoint{TwoReadings::vl.last(), how("last")}, ModelCheckpoint{TwoReadings::vl.of("b"), how("b")},
      EarlyStopping{TwoReadings::vl.last(), {.verbose = true}});
  auto const text = said([&] {
    trainer.fit(model, toy::batches(2),
                std::tuple(data::named<"a">(toy::batches(2, 10)), data::named<"b">(toy::batches(3, 30))));
  });
  CHECK(folder.files() == Kept{"mean/vl=21.8.safetensors", "last/vl=31.0.safetensors", "b/vl=30.0.safetensors"});
  CHECK(trainer.template callback<ModelCheckpoint<Last<Metric<"vl">>>>().best_model_score() == 31.0);
  CHECK(text.find("EarlyStopping: vl.last() = 32 is the first value") != std::string::npos);
}
