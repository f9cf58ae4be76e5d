// Whose a checkpoint file is: several callbacks in one folder, names against what a file holds, saves that fail,
// folders.
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>

#include "callback_run.hpp"
#include "models.hpp"

using namespace fulgurite;
using Names = std::vector<std::string>;
using Kept = std::set<std::string>;
using Options = ModelCheckpointOptions;
using Watched = ModelCheckpoint<Metric<"vl">>;

namespace {
std::string name(int epoch, int step, std::string const& version = "") {
  return "epoch=" + std::to_string(epoch) + "-step=" + std::to_string(step) + version + ".safetensors";
}

/// The optimizer step that each file in a folder holds, by name.
std::set<std::string> held_steps(Folder const& folder) {
  std::set<std::string> all;
  for (auto const& file : folder.files()) {
    auto const text = to_text(run_state(SafetensorsFile(folder / file)));
    auto const at = text.find("\"global_step\":") + 14;
    all.insert(file + " holds " + text.substr(at, text.find_first_of(",}", at) - at));
  }
  return all;
}
std::set<std::string> holding(Names const& names) {
  std::set<std::string> all;
  for (auto const& one : names) {
    auto const at = one.find("step=") + 5;
    all.insert(one + ".safetensors holds " + one.substr(at, one.find_first_not_of("0123456789", at) - at));
  }
  return all;
}

/// A folder that holds something stands where a file is to be written.
void block(std::filesystem::path const& file) {
  std::filesystem::create_directories(file);
  put(file / "x", "x");
}
/// What happens in a fit beside the saving: one callback for all, since each type of trainer takes long to compile.
struct Acts {
  using Stateless = ByChoice;
  toy::At skips_at = {-1, -1};                     ///< the batch in which an epoch is skipped
  toy::At stops_at = {-1, -1};                     ///< the batch after which the fit stops
  std::filesystem::path asks = {};                 ///< a file that is asked for at the end of epoch 0
  std::filesystem::path blocks = {}, clears = {};  ///< a file that is blocked from epoch 1 on, or free after a failure
  Flow on_train_batch_start(auto& ctx) {
    return toy::Positions::here(ctx) == skips_at ? Flow::skip_epoch : Flow::proceed;
  }
  void on_train_batch_end(auto& ctx) {
    if (toy::Positions::here(ctx) == stops_at) ctx.request_stop();
  }
  void on_train_epoch_start(auto& ctx) {
    if (blocks.empty() || ctx.current_epoch() == 0) return;
    std::filesystem::remove(blocks);
    block(blocks);
  }
  void on_train_epoch_end(auto& ctx) {
    if (!asks.empty() && ctx.current_epoch() == 0) ctx.request_checkpoint(asks);
  }
  void on_exception(auto&) {
    if (!clears.empty()) std::filesystem::remove_all(clears);
  }
};
/// A fit of windows of several batches, which may end early.
void windows(Scripted& model, TrainerOptions options, int window, int batches, auto checkpoint, Acts acts = {}) {
  saved_files.clear();
  make_trainer<Scripted>(std::move(options), SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = window},
                         std::move(acts), std::move(checkpoint))
      .fit(model, toy::batches(batches), toy::batches(1));
}
/// Logs the next value of its script in each validation.
struct ByValidation {
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<vl>;
  std::vector<double> script;
  std::size_t at = 0;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double) { return -p; }
  void validation_step(double, auto& ctx) { ctx.log(vl, script[std::min(at++, script.size() - 1)]); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
/// Another process takes these names while the model is written, after this one has found them free.
Kept taken_meanwhile;
struct RacedBackend : SavingBackend {
  template <class Model, class State>
  static void save(std::filesystem::path const& path, Model& model, State&& state,
                   std::span<Hyperparameter const> all) {
    if (taken_meanwhile.erase(path.filename()) != 0) put(path, "another's");
    SavingBackend::save(path, model, state, all);
  }
};
struct RacedDevice : toy::Device {
  using Backend = RacedBackend;
};
Kept folders(Folder const& folder) {
  Kept all;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder.path))
    if (entry.is_directory()) all.insert(entry.path().lexically_relative(folder.path).string());
  return all;
}
}  // namespace

TEST_CASE("checkpoints: two callbacks in one folder, due together: each keeps its own files, a second run leaves them "
          "alone") {
  Folder const folder;
  auto const run = [&] {
    Scripted model{.script = {3, 4, 5}};
    auto trainer =
        fitted(model, quick(3), 2, ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = true}},
               ModelCheckpoint{{.dirpath = folder.path, .save_last = true}});
    CHECK(std::filesystem::exists(trainer.template callback<Watched>().best_model_path()));
    CHECK(std::filesystem::exists(trainer.template callback<Watched>().last_model_path()));
    CHECK(std::filesystem::exists(trainer.template callback<ModelCheckpoint<>>().best_model_path()));
    return trainer.template callback<Watched>().best_model_path();
  };
  CHECK(run() == folder / name(0, 2));
  CHECK(saved_files == Names{name(0, 2), "last.safetensors", name(0, 2, "-v1"), "last-v1.safetensors", name(1, 4),
                             "last-v1.safetensors", name(2, 6), "last-v1.safetensors", "last.safetensors"});
  Kept const first{name(0, 2), name(2, 6), "last.safetensors", "last-v1.safetensors"};
  CHECK(folder.files() == first);
  auto const content_before = content(folder / name(0, 2));
  CHECK(run() == folder / name(0, 2, "-v1"));
  auto both = first;
  both.merge(Kept{name(0, 2, "-v1"), name(2, 6, "-v1"), "last-v2.safetensors", "last-v3.safetensors"});
  CHECK(folder.files() == both);
  CHECK(content(folder / name(0, 2)) == content_before);
}

TEST_CASE(
    "checkpoints: two callbacks that both rank: what one displaces is its own, never what the other has just written") {
  Folder const folder;
  Scripted model{.script = {5, 4, 3}};
  Options const how{.dirpath = folder.path, .filename = "x"};
  auto trainer = fitted(model, quick(3), 2, ModelCheckpoint{Scripted::vl, how}, ModelCheckpoint{Scripted::acc, how});
  CHECK(folder.files() == Kept{"x.safetensors", "x-v1.safetensors"});
  CHECK(trainer.template callback<Watched>().best_model_path() == folder / "x.safetensors");
  CHECK(trainer.template callback<ModelCheckpoint<Metric<"val/acc">>>().best_model_path() ==
        folder / "x-v1.safetensors");
}

TEST_CASE("checkpoints: a file that another callback counts on stays, also where both may overwrite") {
  Folder const folder;
  Scripted model{.script = {3, 4, 5}};
  Options const how{.dirpath = folder.path, .enable_version_counter = false};
  auto trainer = fitted(model, quick(3), 2, ModelCheckpoint{Scripted::vl, how}, ModelCheckpoint{how});
  CHECK(trainer.template callback<Watched>().best_model_path() == folder / name(0, 2));
  CHECK(folder.files() == Kept{name(0, 2), name(2, 6)});
}

TEST_CASE("checkpoints: a file that was asked for by name is nobody's to take or to remove") {
  Folder const folder;
  Scripted model{.script = {5, 4, 3}};
  fitted(model, quick(3), 2, Acts{.asks = folder / name(0, 2)},
         ModelCheckpoint{Scripted::vl, {.dirpath = folder.path}});
  CHECK(saved_files == Names{name(0, 2), name(0, 2, "-v1"), name(1, 4), name(2, 6)});
  CHECK(folder.files() == Kept{name(0, 2), name(2, 6)});
}

TEST_CASE("checkpoints: a file that save_checkpoint has written stays, whoever had that name before") {
  Folder const folder;
  Scripted model{.script = {5, 4}};
  auto trainer = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{}, Acts{.stops_at = {0, 1}},
                                        ModelCheckpoint{Scripted::vl, {.dirpath = folder.path}});
  trainer.fit(model, toy::batches(2), toy::batches(1));
  CHECK(folder.files() == Kept{name(0, 2)});
  trainer.save_checkpoint(folder / name(0, 2));
  trainer.fit(model, toy::batches(2), toy::batches(1));
  CHECK(folder.files() == Kept{name(0, 2), name(1, 4)});
}

TEST_CASE("checkpoints: a fit that ends well removes on_exception, not a checkpoint that would have had its name") {
  Folder const folder;
  Scripted model;
  fitted(model, quick(1), 2, OnExceptionCheckpoint{{.dirpath = folder.path}},
         ModelCheckpoint{{.dirpath = folder.path, .filename = "on_exception"}});
  CHECK(folder.files() == Kept{"on_exception-v1.safetensors"});
}

TEST_CASE("checkpoints: a file is named after the step that it holds: by time inside a window") {
  Folder const folder;
  Scripted model{.seconds_per_batch = 1};
  windows(model, quick(1), 4, 16,
          ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1, .train_time_interval = std::chrono::seconds(5)}});
  CHECK(held_steps(folder) == holding({"epoch=0-step=2", "epoch=0-step=4"}));
}

TEST_CASE("checkpoints: a file is named after the step that it holds: skip_epoch inside a window") {
  Folder const folder;
  Scripted model;
  windows(model, quick(2), 4, 8, ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1, .every_n_train_steps = 1}},
          {.skips_at = {0, 6}});
  CHECK(held_steps(folder) == holding({"epoch=0-step=1", "epoch=0-step=2", "epoch=1-step=3", "epoch=1-step=4"}));
}

TEST_CASE("checkpoints: the step that a stop, max_time or skip_epoch flushes counts") {
  auto const steps = [](Options how, TrainerOptions options, double seconds, Acts acts = {}) {
    Folder const folder;
    Scripted model{.script = {7}, .seconds_per_batch = seconds};
    how.dirpath = folder.path;
    how.every_n_train_steps = 2;
    windows(model, options, 2, 8, ModelCheckpoint{Scripted::loss, how}, acts);
    return held_steps(folder);
  };
  CHECK(steps({}, quick(9), 0, {.stops_at = {0, 2}}) == holding({"epoch=0-step=2"}));
  CHECK(steps({}, quick(1), 0, {.skips_at = {0, 3}}) == holding({"epoch=0-step=2"}));
  auto limited = quick(9);
  limited.max_time = std::chrono::seconds(3);
  CHECK(steps({}, limited, 1) == holding({"epoch=0-step=2"}));
}

TEST_CASE("checkpoints: the step that a stop flushes waits for the value of the validation that follows") {
  Folder const folder;
  Scripted model{.script = {7}};
  auto options = quick(9);
  options.val_check_interval = 3;
  windows(model, options, 2, 8,
          ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .filename = "{step}-{vl}", .every_n_train_steps = 2}},
          {.stops_at = {0, 2}});
  CHECK(folder.files() == Kept{"step=2-vl=7.0.safetensors"});
}

TEST_CASE(
    "checkpoints: by steps, where a loader tells its end only after its last batch: that step waits for its value") {
  Folder const folder;
  Scripted model{.script = {5, 4}};
  toy::Generator numbers([](long, long batch) { return batch < 4 ? std::optional(1.0) : std::nullopt; });
  Options const how{.dirpath = folder.path, .filename = "{step}-{vl}", .save_top_k = -1, .every_n_train_steps = 2};
  make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{}, ModelCheckpoint{Scripted::vl, how})
      .fit(model, numbers, toy::batches(1));
  CHECK(folder.files() == Kept{"step=4-vl=5.0.safetensors", "step=6-vl=5.0.safetensors", "step=8-vl=4.0.safetensors"});
}

TEST_CASE("checkpoints: a save that fails leaves no trace, and what it would displace stays") {
  Folder const folder;
  Options const how{.dirpath = folder.path, .save_last = true, .enable_version_counter = false};
  Scripted model{.script = {5, 4}};
  block(folder / name(1, 4));
  ScriptedTrainer<Watched> trainer(quick(2), SavingDevice{}, Float32{}, Automatic{},
                                   ModelCheckpoint{Scripted::vl, how});
  saved_files.clear();
  CHECK(error_of([&] { trainer.fit(model, toy::batches(2), toy::batches(1)); }).starts_with("[fulgurite.file.write]"));
  auto const& checkpoint = trainer.callback<Watched>();
  CHECK(checkpoint.best_model_path() == folder / name(0, 2));
  CHECK(checkpoint.best_model_score() == 5.0);
  CHECK(checkpoint.best_k_models() == std::vector<std::filesystem::path>{folder / name(0, 2)});
  CHECK(checkpoint.last_model_path() == folder / "last.safetensors");
  CHECK(trainer.outcome().best_file == folder / name(0, 2));
  CHECK(std::filesystem::is_regular_file(folder / name(0, 2)));
  CHECK(saved_files == Names{name(0, 2), "last.safetensors", "last.safetensors"});  // the copy has a place of its own
  CHECK(to_text(run_state(SafetensorsFile(folder / "last.safetensors"))).find(name(1, 4)) == std::string::npos);
}

TEST_CASE("checkpoints: where the first save fails, the outcome has no best file and no value") {
  Folder const folder;
  Scripted model{.script = {5}};
  block(folder / name(0, 2));
  ScriptedTrainer<Watched> trainer(
      quick(1), SavingDevice{}, Float32{}, Automatic{},
      ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .enable_version_counter = false}});
  CHECK(error_of([&] { trainer.fit(model, toy::batches(2), toy::batches(1)); }).starts_with("[fulgurite.file.write]"));
  CHECK(trainer.outcome().best_metric.empty());
  CHECK_FALSE(trainer.outcome().best_value);
}

TEST_CASE("checkpoints: a last that fails leaves no trace either, and the file beside it is there") {
  Folder const folder;
  Scripted model{.script = {5}};
  block(folder / "last.safetensors");
  for (auto const kind : {SaveLast::copy, SaveLast::link}) {
    ScriptedTrainer<Watched> trainer(
        quick(1), SavingDevice{}, Float32{}, Automatic{},
        ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = kind, .enable_version_counter = false}});
    CHECK(
        error_of([&] { trainer.fit(model, toy::batches(2), toy::batches(1)); }).starts_with("[fulgurite.file.write]"));
    auto const& checkpoint = trainer.callback<Watched>();
    CHECK(checkpoint.last_model_path().empty());
    CHECK(checkpoint.best_model_path() == folder / name(0, 2));
    CHECK(std::filesystem::is_regular_file(folder / name(0, 2)));
  }
}

TEST_CASE("checkpoints: a save that failed may be tried again at the same step") {
  Folder const folder;
  block(folder / "x.safetensors");
  Scripted model;
  Options const how{
      .dirpath = folder.path, .filename = "x", .save_on_exception = true, .enable_version_counter = false};
  ScriptedTrainer<Acts, ModelCheckpoint<>> trainer(quick(2), SavingDevice{}, Float32{}, Automatic{},
                                                   Acts{.clears = folder / "x.safetensors"}, ModelCheckpoint{how});
  saved_files.clear();
  CHECK(error_of([&] { trainer.fit(model, toy::batches(2), toy::batches(1)); }).starts_with("[fulgurite.file.write]"));
  CHECK(trainer.callback<ModelCheckpoint<>>().best_model_path().empty());
  CHECK(saved_files == Names{"x.safetensors"});
  CHECK(trainer.outcome().last_file == folder / "x.safetensors");
  CHECK(held_steps(folder) == Kept{"x.safetensors holds 2"});
}

TEST_CASE("checkpoints: where one callback's file cannot be written, another one's is") {
  Folder const folder;
  block(folder / "x.safetensors");
  Scripted model;
  Options const blocked{.dirpath = folder.path, .filename = "x", .enable_version_counter = false};
  CHECK(error_of([&] {
          fitted(model, quick(1), 2, ModelCheckpoint{Scripted::vl, blocked}, ModelCheckpoint{{.dirpath = folder.path}});
        }).find("x.safetensors") != std::string::npos);
  CHECK(saved_files == Names{name(0, 2)});
}

TEST_CASE("checkpoints: a folder that a name has made goes with its last file") {
  Folder const folder;
  Scripted model{.script = {5, 4, 3}};
  fitted(model, quick(3), 2,
         ModelCheckpoint{Scripted::vl, {.dirpath = folder / "here", .filename = "{epoch}-{val/acc:.3f}"}});
  CHECK(folder.files() == Kept{"here/epoch=2-val/acc=0.250.safetensors"});
  CHECK(folders(folder) == Kept{"here", "here/epoch=2-val"});
}

TEST_CASE("checkpoints: a folder that cannot be made is an Error before training") {
  Folder const folder;
  put(folder / "file", "x");
  Scripted model;
  CHECK(error_of([&] {
          fitted(model, quick(1), 2, ModelCheckpoint{{.dirpath = folder / "file/runs"}});
        }).starts_with("[fulgurite.file.write] cannot make the folder"));
  CHECK(model.batches == 0);
  fitted(model, quick(1), 2,
         ModelCheckpoint{{.dirpath = folder / "file/runs", .save_top_k = 0}});  // nothing would be written there
}

TEST_CASE("checkpoints: names that lead out of the folder, or are none, are refused when the callback is made") {
  using namespace std::string_literals;
  for (auto const& wrong : {"../../x"s, "/tmp/x"s, "a/../../x"s, ".."s, "a/"s, "a\0b"s, ""s, "{epoch}/../x"s}) {
    INFO(wrong);
    CHECK(error_of([&] { ModelCheckpoint{{.filename = wrong}}; }).starts_with("[fulgurite.callback.checkpoint_name] "));
  }
  for (auto const& wrong : {"/../../x"s, ".a/b"s, ".a\0b"s}) {
    INFO(wrong);
    CHECK(
        error_of([&] { ModelCheckpoint{{.extension = wrong}}; }).starts_with("[fulgurite.callback.checkpoint_name] "));
  }
  CHECK(error_of([&] { ModelCheckpoint{{.dirpath = "a\0b"s}}; }).starts_with("[fulgurite.callback.checkpoint_name] "));
  for (auto const& wrong : {"../x"s, "/x"s, "a\0b"s}) {
    INFO(wrong);
    CHECK(error_of([&] {
            OnExceptionCheckpoint{{.dirpath = "runs", .filename = wrong}};
          }).starts_with("[fulgurite.callback.on_exception] "));
  }
}

TEST_CASE("checkpoints: a name that is written once more has one place among the best, and nothing gives way to it") {
  Folder const folder;
  ByValidation model{.script = {5, 3, 4, 9}};
  auto options = quick(2);
  options.val_check_interval = 2;
  Options const how{.dirpath = folder.path, .filename = "{epoch}", .save_top_k = 2, .enable_version_counter = false};
  Trainer<ByValidation, SavingDevice, Float32, Automatic, Watched> trainer(options, SavingDevice{}, Float32{},
                                                                           Automatic{}, Watched{{}, how});
  trainer.fit(model, toy::batches(4), toy::batches(1));
  auto const& checkpoint = trainer.callback<Watched>();
  CHECK(checkpoint.best_model_path() == folder / "epoch=0.safetensors");
  CHECK(checkpoint.best_model_score() == 3.0);
  CHECK(checkpoint.best_k_scores() == std::vector<double>{3, 4});
  CHECK(folder.files() == Kept{"epoch=0.safetensors", "epoch=1.safetensors"});
}

TEST_CASE("checkpoints: last never takes the place of the file beside it, where both would have one name") {
  for (auto const kind : {SaveLast::copy, SaveLast::link}) {
    Folder const folder;
    Scripted model{.script = {5, 4}};
    auto trainer =
        fitted(model, quick(2), 2, ModelCheckpoint{{.dirpath = folder.path, .filename = "last", .save_last = kind}});
    auto const& checkpoint = trainer.template callback<ModelCheckpoint<>>();
    CHECK(checkpoint.best_model_path() == folder / "last.safetensors");
    CHECK(checkpoint.last_model_path() == folder / "last-v1.safetensors");
    CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / "last.safetensors")));
    CHECK(content(checkpoint.last_model_path()) == content(checkpoint.best_model_path()));
  }
}

TEST_CASE("checkpoints: a link called last to a file called last is refused when the callback is made") {
  Options how{.filename = "last", .save_last = SaveLast::link, .enable_version_counter = false};
  CHECK(error_of([&] { ModelCheckpoint{how}; }).find("a link called last cannot lead to a file called last") !=
        std::string::npos);
  how.save_top_k = 0;
  CHECK(error_of([&] { ModelCheckpoint{how}; }).empty());
}

TEST_CASE("checkpoints: where the best file is written once more and is worse, the best one's epoch is its own") {
  checkpointing::TopK top(Mode::min, 3);
  top.add("a", 4, 0);
  top.add("b", 3, 1);
  top.add("b", 9, 2);
  CHECK(top.best_path() == "a");
  CHECK(top.best_epoch() == 0);
  CHECK(top.paths() == std::vector<std::filesystem::path>{"a", "b"});
}

TEST_CASE("checkpoints: where last cannot be linked anew, the file that it leads to stays") {
  Folder const folder;
  Scripted model{.script = {5, 4}};
  CHECK(error_of([&] {
          fitted(model, quick(2), 2, Acts{.blocks = folder / "last.safetensors"},
                 ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = SaveLast::link}});
        }).starts_with("[fulgurite.file.write] cannot make "));
  CHECK(folder.files() == Kept{name(0, 2), name(1, 4), "last.safetensors/x"});
}

TEST_CASE("checkpoints: making a link touches no file of another name") {
  Folder const folder;
  put(folder / "last.safetensors.new", "mine");
  Scripted model{.script = {5, 4}};
  fitted(model, quick(2), 2, ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = SaveLast::link}});
  CHECK(folder.files() == Kept{name(1, 4), "last.safetensors", "last.safetensors.new"});
  CHECK(content(folder / "last.safetensors.new") == "mine");
}

TEST_CASE("checkpoints: a name that another process takes meanwhile is left to it, and each file names itself") {
  for (bool const ranked : {true, false}) {
    Folder const folder;
    taken_meanwhile = {ranked ? name(0, 2) : "last.safetensors"};
    auto const taken = *taken_meanwhile.begin();
    Scripted model{.script = {5}};
    Trainer<Scripted, RacedDevice, Float32, Automatic, Watched> trainer(
        quick(1), RacedDevice{}, Float32{}, Automatic{},
        ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = true}});
    trainer.fit(model, toy::batches(2), toy::batches(1));
    auto const& checkpoint = trainer.callback<Watched>();
    auto const best = ranked ? name(0, 2, "-v1") : name(0, 2);
    std::string const last = ranked ? "last.safetensors" : "last-v1.safetensors";
    CHECK(checkpoint.best_model_path() == folder / best);
    CHECK(checkpoint.best_k_models() == std::vector<std::filesystem::path>{folder / best});
    CHECK(checkpoint.last_model_path() == folder / last);
    CHECK(folder.files() == Kept{taken, best, last});
    CHECK(content(folder / taken) == "another's");
    for (auto const& file : {best, last}) {
      auto const text = to_text(run_state(SafetensorsFile(folder / file)));
      CHECK(text.find("/" + best + "\"") != std::string::npos);
      CHECK(text.find("/" + last + "\"") != std::string::npos);
    }
  }
}

TEST_CASE(
    "checkpoints: the file that a fit goes on from stays while it lasts, so the same command can be started again") {
  Folder const folder;
  auto const fit = [&](int epochs, std::optional<CkptPath> const& from, auto callback) {
    Scripted model{.script = {5, 4, 3, 2}};
    auto trainer = make_trainer<Scripted>(quick(epochs), SavingDevice{}, Float32{}, Automatic{}, std::move(callback));
    if (from) trainer.fit(model, toy::batches(2), toy::batches(1), *from);
    else trainer.fit(model, toy::batches(2), toy::batches(1));
  };
  SECTION("the latest one is kept") {
    auto const kept = [&] { return ModelCheckpoint{{.dirpath = folder.path}}; };
    fit(2, std::nullopt, kept());
    for (int times = 0; times != 2; ++times) {
      fit(3, CkptPath{folder / name(1, 4)}, kept());
      CHECK(folder.files() == Kept{name(1, 4), name(2, 6)});
      std::filesystem::remove(folder / name(2, 6));  // as if the machine had died before
    }
  }
  SECTION("the best one is kept") {
    auto const kept = [&] { return Watched{Scripted::vl, {.dirpath = folder.path}}; };
    fit(2, std::nullopt, kept());
    fit(3, CkptPath{folder / name(1, 4)}, kept());
    CHECK(folder.files() == Kept{name(1, 4), name(2, 6)});
    fit(4, CkptPath{folder / name(1, 4)}, kept());  // what that one makes gives way as ever
    CHECK(folder.files() == Kept{name(1, 4), name(2, 6), name(3, 8)});
  }
}

TEST_CASE("checkpoints: a folder that is spelt in another way is the same folder") {
  Folder const folder;
  std::filesystem::create_directories(folder / "x");
  auto const fit = [&](int epochs, std::filesystem::path const& place, std::optional<CkptPath> const& from) {
    Scripted model{.script = {1, 5, 6, 7}};
    auto trainer = make_trainer<Scripted>(quick(epochs), SavingDevice{}, Float32{}, Automatic{},
                                          Watched{Scripted::vl, {.dirpath = place, .save_last = true}});
    if (from) trainer.fit(model, toy::batches(2), toy::batches(1), *from);
    else trainer.fit(model, toy::batches(2), toy::batches(1));
    CHECK(trainer.template callback<Watched>().best_model_path().filename() == name(0, 2));
    for (auto const& one : trainer.warnings()) CHECK(one.find("checkpoint_moved") == one.npos);
  };
  auto const here = std::filesystem::relative(folder.path);
  for (auto const& spelt : {folder / "c" / "", folder / "." / "c", folder / "x" / ".." / "c", here / "c"}) {
    INFO(spelt);
    std::filesystem::remove_all(folder / "c");
    fit(2, folder / "c", std::nullopt);
    fit(4, spelt, CkptPath{"last"});
    Kept files;
    for (auto const& file : std::filesystem::directory_iterator(folder / "c")) files.insert(file.path().filename());
    CHECK(files == Kept{name(0, 2), "last.safetensors"});
  }
}
