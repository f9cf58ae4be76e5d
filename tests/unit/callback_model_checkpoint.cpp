#include <limits>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;
using Names = std::vector<std::string>;
using Kept = std::set<std::string>;
using Options = ModelCheckpointOptions;

namespace {
std::string name(int epoch, int step) {
  return "epoch=" + std::to_string(epoch) + "-step=" + std::to_string(step) + ".safetensors";
}

/// Two batches an epoch, so epoch e ends at step 2(e + 1); returns what is left on the disk.
Kept kept(std::vector<double> script, Options how, Folder const& folder, int epochs, TrainerOptions options,
          int batches = 2) {
  Scripted model{.script = std::move(script)};
  options.max_epochs = epochs;
  fitted(model, options, batches, ModelCheckpoint{Scripted::vl, in(folder, how)});
  return folder.files();
}
Kept kept(std::vector<double> script, Options how, int epochs, TrainerOptions options = quick(1), int batches = 2) {
  Folder const folder;
  return kept(std::move(script), how, folder, epochs, options, batches);
}
Kept unwatched(Options how, int epochs, TrainerOptions options = quick(1), int batches = 2) {
  Folder const folder;
  Scripted model;
  options.max_epochs = epochs;
  fitted(model, options, batches, ModelCheckpoint{in(folder, how)});
  return folder.files();
}
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
}  // namespace

static_assert(std::is_same_v<decltype(ModelCheckpoint{}), ModelCheckpoint<NoMonitor>>);
static_assert(std::is_same_v<decltype(ModelCheckpoint{{.dirpath = "runs"}}), ModelCheckpoint<NoMonitor>>);
static_assert(std::is_same_v<decltype(ModelCheckpoint{{.save_last = true}}), ModelCheckpoint<NoMonitor>>);
static_assert([](auto) {
  return std::is_same_v<decltype(ModelCheckpoint{{.dirpath = "x"}}), ModelCheckpoint<NoMonitor>>;
}(0));
static_assert(
    std::is_same_v<decltype(ModelCheckpoint{Scripted::vl, {.dirpath = "runs"}}), ModelCheckpoint<Metric<"vl">>>);
static_assert(std::is_same_v<decltype(ModelCheckpoint{Scripted::vl, {.dirpath = "runs", .mode = Mode::max}}),
                             ModelCheckpoint<Metric<"vl">>>);
static_assert(
    std::is_same_v<decltype(ModelCheckpoint{Scripted::vl, {.mode = Mode::max}}), ModelCheckpoint<Metric<"vl">>>);

TEST_CASE("checkpoint: better is strictly better, and than NaN everything is") {
  CHECK(kept({5, 5, 5}, {}, 3) == Kept{name(0, 2)});
  CHECK(kept({nan_value, 4, 3}, {.mode = Mode::max, .save_top_k = 2}, 3) == Kept{name(1, 4), name(2, 6)});
  CHECK(kept({4, nan_value, 5}, {}, 3) == Kept{name(0, 2)});
}

TEST_CASE("checkpoint: last follows the end, too; every_n_epochs = 0 is never") {
  CHECK(unwatched({.every_n_epochs = 0}, 3).empty());
  kept({4, 5, 6}, {.save_last = true}, 3);
  CHECK(saved_files == Names{name(0, 2), "last.safetensors", "last.safetensors"});
  for (int const k : {-1, 0, 1}) {  // five steps, of which the second and the fourth are due
    auto const files = unwatched({.save_top_k = k, .save_last = true, .every_n_train_steps = 2}, 1, quick(1), 5);
    CHECK(files.contains("last.safetensors"));
    CHECK(saved_files.back() == "last.safetensors");
    CHECK(saved_files.size() == (k == 0 ? 3 : 5));
  }
}

TEST_CASE("checkpoint: by time, which is a duration or its text") {
  using namespace std::chrono_literals;
  TimeSpan none = "00:00:00:03";
  none = {};
  CHECK(none == TimeSpan());
  CHECK(TimeSpan(std::optional(Seconds(3))) == TimeSpan(3s));
  CHECK(Timeout(500us) == 1ms);  // not 0, which is no limit
  CHECK(Timeout(-1us) == -1ms);
  CHECK(Timeout("00:00:02:00") == 2min);
  CHECK(Timeout(Seconds(INFINITY)) > std::chrono::years(30));
  for (TimeSpan const interval : {TimeSpan{std::chrono::seconds(3)}, TimeSpan{"00:00:00:03"}}) {
    Folder const folder;
    Scripted model{.seconds_per_batch = 1};
    fitted(model, quick(1), 7,
           ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1, .train_time_interval = interval}});
    CHECK(folder.files() == Kept{name(0, 3), name(0, 6)});
  }
}

TEST_CASE("checkpoint: by time, in a run that is stopped and goes on: the time before counts") {
  Folder const folder;
  auto const by_time = [&] {
    return ModelCheckpoint{
        {.dirpath = folder / "files", .save_top_k = -1, .train_time_interval = std::chrono::seconds(3)}};
  };
  auto const fit = [&](int batches, std::optional<CkptPath> const& from) {
    Scripted model{.seconds_per_batch = 1};
    auto options = quick(-1);
    options.max_steps = batches;
    auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, by_time());
    said([&] { trainer.fit(model, toy::batches(20), NoValidation{}, from); });
    trainer.save_checkpoint(folder / "last.safetensors");
  };
  CkptPath const last{folder / "last.safetensors"};
  fit(2, {});
  fake_seconds += 1000;
  fit(4, last);
  CHECK(content(folder / "files" / name(0, 3)) != "");
  fit(5, last);
  fit(7, last);
  CHECK(folder.files() == Kept{"files/" + name(0, 3), "files/" + name(0, 6), "last.safetensors"});

  Folder const other;
  Scripted model{.seconds_per_batch = 1};
  auto trainer = make_trainer<Scripted>(
      quick(1), SavingDevice{}, Float32{}, Automatic{},
      ModelCheckpoint{{.dirpath = other.path, .save_top_k = -1, .train_time_interval = std::chrono::seconds(3)}});
  for (int i = 0; i != 2; ++i) trainer.fit(model, toy::batches(2), NoValidation{});  // another run counts anew
  CHECK(other.files().empty());
}

TEST_CASE("checkpoint: by steps on a metric that only validation knows") {
  // Steps 2 and 4 know no value yet, so the validation after step 5 saves. Step 10 ends an epoch, and waits for its
  // validation.
  CHECK(kept({5, 4}, {.save_top_k = -1, .every_n_train_steps = 2}, 2, quick(1), 5) ==
        Kept{name(0, 5), name(1, 6), name(1, 8), name(1, 10)});
  CHECK(kept({5, 4}, {.filename = "{step}-{vl}", .every_n_train_steps = 10}, 2, quick(1), 5) ==
        Kept{"step=10-vl=4.0.safetensors"});
  auto twice = quick(1);
  twice.val_check_interval = Fraction{0.5};
  CHECK(kept({5, 4}, {.save_top_k = -1, .every_n_train_steps = 4}, 2, twice, 4) == Kept{name(0, 4), name(1, 8)});
  CHECK(saved_files == Names{name(0, 4), name(1, 8)});
}

TEST_CASE("checkpoint: formats of names, and what is none") {
  CHECK(kept({5}, {.filename = "{vl}-{vl:.3e}-{vl:g}"}, 1) == Kept{"vl=5.0-vl=5.000e+00-vl=5.safetensors"});
  CHECK(kept({5}, {.filename = "{val/acc:.2f}"}, 1) == Kept{"val/acc=0.25.safetensors"});  // a folder
  CHECK(kept({5}, {.filename = "plain"}, 1) == Kept{"plain.safetensors"});
  for (char const* wrong : {"{", "}", "{epoch", "{}", "{{epoch}}", "{vl:x}", "{vl:.f}", "{vl:.2d}", "{vl:2.2.2}",
                            "{undeclared}", "{vl:d}"}) {
    INFO(wrong);
    saved_files.clear();
    CHECK(error_of([&] { kept({5}, {.filename = wrong}, 1); }).starts_with("[fulgurite.callback.checkpoint_name] "));
    CHECK(saved_files.empty());
  }
  CHECK(error_of([&] { kept({5}, {.filename = "{vl/clean:.4f}"}, 1); })
            .ends_with("{vl/clean} in the file name is no metric; the value of one loader has no name of its own here: "
                       "write {vl}, the mean over all loaders, or that loader's value where ModelCheckpoint watches "
                       ".of(\"clean\")"));
}

TEST_CASE("checkpoint: files of somebody else are overwritten only where that is asked for") {
  Folder const folder;
  Options const how{.filename = "x", .save_last = true};
  kept({5, 4}, how, folder, 2, quick(1));
  CHECK(kept({5, 4}, {.filename = "x", .enable_version_counter = false}, folder, 2, quick(1)).size() == 2);
  // Several files of one name are slots of their own.
  CHECK(kept({5, 4, 3}, {.filename = "y", .save_top_k = 2}, 3) == Kept{"y.safetensors", "y-v1.safetensors"});
}

TEST_CASE("checkpoint: what it tells") {
  Folder const folder;
  Scripted model{.script = {5, 3, 4}};
  auto trainer = fitted(model, quick(3), 2,
                        ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_top_k = 2, .save_last = true}},
                        EarlyStopping{Scripted::vl});
  auto const& checkpoint = trainer.template callback<ModelCheckpoint<Metric<"vl">>>();
  CHECK(checkpoint.best_model_path() == folder / name(1, 4));
  CHECK(checkpoint.best_model_score() == 3.0);
  CHECK(checkpoint.current_score() == 4.0);
  CHECK(checkpoint.best_k_models().size() == 2);
  auto const& outcome = trainer.outcome();
  CHECK(outcome.best_metric == "vl");
  CHECK(outcome.best_value == 3.0);
  CHECK(outcome.best_epoch == 1);
  CHECK(outcome.best_file == folder / name(1, 4));
  CHECK(outcome.last_file == folder / name(2, 6));
}

TEST_CASE("checkpoint: of several, the outcome has the best of the first that ranks files, as CkptPath{\"best\"} has") {
  struct None : ModelCheckpoint<Metric<"vl">> {
    using ModelCheckpoint<Metric<"vl">>::ModelCheckpoint;
  };
  struct Second : ModelCheckpoint<Metric<"vl">> {
    using ModelCheckpoint<Metric<"vl">>::ModelCheckpoint;
  };
  Folder const folder;
  Scripted model{.script = {3, 5, 4}};
  auto trainer = fitted(model, quick(3), 2, None(Scripted::vl, Options{.dirpath = folder / "none", .save_top_k = 0}),
                        ModelCheckpoint{Scripted::vl, {.dirpath = folder / "first"}},
                        Second(Scripted::vl, Options{.dirpath = folder / "second", .mode = Mode::max}));
  CHECK(folder.files() == Kept{"first/" + name(0, 2), "second/" + name(1, 4)});
  CHECK(trainer.outcome().best_value == 3.0);
  CHECK(trainer.outcome().best_epoch == 0);
  CHECK(trainer.outcome().best_file == folder / "first" / name(0, 2));
  CHECK(trainer.outcome().last_file == folder / "second" / name(1, 4));
}

TEST_CASE("checkpoint: where files go without a folder") {
  Folder const folder;
  Scripted model;
  auto options = quick(1);
  options.default_root_dir = folder.path;
  fitted(model, options, 2, ModelCheckpoint{});
  CHECK(folder.files() == Kept{"checkpoints/" + name(0, 2)});
}

TEST_CASE("checkpoint: not in the sanity check, not outside of fit, not at step 0") {
  auto options = quick(1);
  options.num_sanity_val_steps = 1;
  options.val_check_interval = 1;
  Folder const folder;
  Scripted model;
  auto trainer = fitted(model, options, 2, ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1}});
  CHECK(saved_files == Names{name(0, 1), name(0, 2)});
  trainer.validate(model, toy::batches(1));
  CHECK(saved_files.size() == 2);
}

TEST_CASE("checkpoint: a metric nobody logs") {
  Folder const folder;
  Scripted model;
  auto const said =
      error_of([&] { fitted(model, quick(2), 2, ModelCheckpoint{Scripted::missing, {.dirpath = folder.path}}); });
  CHECK(said == "[fulgurite.callback.checkpoint_metric] ModelCheckpoint watches 'missing', which was not logged by "
                "step 2: log it, or watch another metric");
}

TEST_CASE("checkpoint: options that make no sense") {
  for (Options const& wrong : {Options{.save_top_k = -2}, Options{.every_n_train_steps = -1},
                               Options{.every_n_epochs = -1}, Options{.train_time_interval = std::chrono::seconds(-1)},
                               Options{.every_n_train_steps = 2, .every_n_epochs = 1},
                               Options{.every_n_epochs = 1, .train_time_interval = std::chrono::seconds(1)}})
    CHECK(
        error_of([&] { ModelCheckpoint{Scripted::vl, wrong}; }).starts_with("[fulgurite.callback.checkpoint_options]"));
  CHECK(error_of([] { ModelCheckpoint{{.dirpath = "x", .save_top_k = 2}}; }).find("needs a metric to rank by") !=
        std::string::npos);
}

TEST_CASE("checkpoint: two rhythms on one metric, with a derived type for the second") {
  struct Second : ModelCheckpoint<Metric<"vl">> {
    using ModelCheckpoint<Metric<"vl">>::ModelCheckpoint;
  };
  auto const why = error_of([] { ModelCheckpoint{Scripted::vl, {.every_n_train_steps = 3, .every_n_epochs = 1}}; });
  CHECK(why.ends_with("use two ModelCheckpoints for two rhythms, and derive a type for the second if both watch the "
                      "same metric, or none"));
  Folder const folder;
  Scripted model{.script = {5, 4}};
  fitted(model, quick(2), 3, ModelCheckpoint{Scripted::vl, {.dirpath = folder / "epochs", .save_top_k = -1}},
         Second{Scripted::vl, {.dirpath = folder / "steps", .save_top_k = -1, .every_n_train_steps = 5}});
  CHECK(folder.files() == Kept{"epochs/" + name(0, 3), "epochs/" + name(1, 6), "steps/" + name(1, 5)});
}

TEST_CASE("checkpoint: its state comes back; another folder keeps the best path alone") {
  Folder const folder;
  Scripted model{.script = {5, 3, 4}};
  auto trainer = fitted(model, quick(3), 2,
                        ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_top_k = 2, .save_last = true}});
  auto& one = trainer.template callback<ModelCheckpoint<Metric<"vl">>>();
  ModelCheckpoint same{Scripted::vl, {.dirpath = folder.path, .save_top_k = 2, .save_last = true}};
  load_state_text(same, state_text(one));
  CHECK(state_text(same) == state_text(one));
  ModelCheckpoint moved{Scripted::vl, {.dirpath = folder / "elsewhere", .save_top_k = 2, .save_last = true}};
  load_state_text(moved, state_text(one));
  CHECK(moved.best_model_path() == one.best_model_path());
  CHECK(moved.best_k_models().empty());
  CHECK(moved.last_model_path().empty());
  CHECK(one.state_key() == "ModelCheckpoint{vl, min, -, -, -}");
}

TEST_CASE("checkpoint: the file holds the state of the run and of the callbacks, itself included") {
  Folder const folder;
  Scripted model{.script = {5, 3}};
  fitted(model, quick(2), 2, ModelCheckpoint{Scripted::vl, {.dirpath = folder.path}});
  auto const text = to_text(run_state(SafetensorsFile(folder / name(1, 4))));
  CHECK(text.find(R"("global_step":4)") != std::string::npos);
  CHECK(text.find(R"("best_model_score":3.0)") != std::string::npos);
  CHECK(text.find(name(1, 4)) != std::string::npos);
}

TEST_CASE("checkpoint: a fit that goes back looks at the same steps again, and the next fit is no resumed one") {
  Folder const folder;
  Scripted model;
  using Checkpoint = ModelCheckpoint<NoMonitor>;
  auto trainer = ScriptedTrainer<Checkpoint, AtBatch>(
      quick(1), SavingDevice{}, Float32{}, Automatic{},
      Checkpoint{in(folder, Options{.save_top_k = -1, .every_n_train_steps = 4})}, AtBatch{});
  auto& checkpoint = trainer.callback<Checkpoint>();
  std::string then;
  trainer.callback<AtBatch>().then = [&](long step) {
    if (step == 3) then = state_text(checkpoint);
    if (step == 5) load_state_text(checkpoint, then);  // step 4 was not looked at then
  };
  trainer.fit(model, toy::batches(8), toy::batches(1));
  CHECK(folder.files() == Kept{name(0, 4), name(0, 6), name(0, 8)});
}
