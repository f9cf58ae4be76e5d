#include <filesystem>
#include <string>
#include <tuple>

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

/// The warning of a file that a value of earlier weights ranks.
std::string old_value(std::string const& metric, int step, int logged) {
  return "warning: [fulgurite.callback.checkpoint_old_value] ModelCheckpoint watches '" + metric +
         "', which was last logged at step " + std::to_string(logged) + ": the file of step " + std::to_string(step) +
         " is ranked by that value, which its weights did not have. Save where the metric is logged, or validate "
         "before each save\n";
}

/// Two batches an epoch, so epoch e ends at step 2(e + 1).
void run(std::vector<double> script, Options how, Folder const& folder, int epochs, TrainerOptions options = quick(1)) {
  Scripted model{.script = std::move(script)};
  options.max_epochs = epochs;
  fitted(model, options, 2, ModelCheckpoint{Scripted::vl, in(folder, how)});
}
}  // namespace

TEST_CASE("checkpoint: last may be a link to the file just saved, wherever the folder goes") {
  Folder const folder;
  Scripted model{.script = {5, 6, 4}};
  auto trainer =
      fitted(model, quick(3), 2, ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = SaveLast::link}});
  CHECK(saved_files == Names{name(0, 2), name(2, 6)});
  CHECK(std::filesystem::read_symlink(folder / "last.safetensors") == name(2, 6));
  CHECK(content(folder / "last.safetensors") == content(folder / name(2, 6)));
  CHECK(trainer.template callback<ModelCheckpoint<Metric<"vl">>>().last_model_path() == folder / "last.safetensors");
  CHECK(trainer.outcome().last_file == folder / name(2, 6));
  CHECK(folder.files() == Kept{name(2, 6), "last.safetensors"});
}

TEST_CASE(
    "checkpoint: a resumed run has the results and the file of an unbroken one, also if nothing is left to train") {
  for (auto const last : {SaveLast::no, SaveLast::copy, SaveLast::link})
    for (int const top : {0, 1, -1}) {
      if (top == 0 && last == SaveLast::no) continue;
      CAPTURE(static_cast<int>(last), top);
      Folder const folder;
      auto const results = [&](int epochs, auto... from) {
        Scripted model{.script = {6, 5, 4}};
        Trainer<Scripted, SavingDevice, Float32, Automatic, ModelCheckpoint<Metric<"vl">>> trainer(
            quick(epochs), SavingDevice{}, Float32{}, Automatic{},
            ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_top_k = top, .save_last = last}});
        trainer.fit(model, toy::batches(2), toy::batches(1), from...);
        auto const outcome = trainer.outcome();
        return std::tuple(outcome.last_file, outcome.best_file, outcome.best_value, outcome.best_epoch);
      };
      auto const unbroken = results(3);
      auto const file = content(std::get<0>(unbroken));
      std::filesystem::remove_all(folder.path);
      auto const cut = results(2);
      CHECK(results(2, CkptPath{"last"}) == cut);
      CHECK(results(3, CkptPath{"last"}) == unbroken);
      CHECK(results(3, CkptPath{"last"}) == unbroken);
      CHECK(content(std::get<0>(unbroken)) == file);
    }
}

TEST_CASE("checkpoint: where no file is kept, last is a file although a link was asked for") {
  Folder const folder;
  run({5, 4}, {.save_top_k = 0, .save_last = SaveLast::link}, folder, 2);
  CHECK(folder.files() == Kept{"last.safetensors"});
  CHECK_FALSE(std::filesystem::is_symlink(folder / "last.safetensors"));
}

TEST_CASE("checkpoint: a link is replaced, a folder in its place is an Error") {
  Folder const folder;
  put(folder / "a", "1");
  put(folder / "b", "2");
  file::link_to(folder / "a", folder / "last");
  file::link_to(folder / "b", folder / "last");
  CHECK(content(folder / "last") == "2");
  std::filesystem::create_directory(folder / "full");
  put(folder / "full/x", "3");
  CHECK(error_of([&] {
          file::link_to(folder / "a", folder / "full");
        }).starts_with("[fulgurite.file.write] cannot make "));
  CHECK(error_of([&] {
          file::link_to(folder / "a", folder / "full/../a");
        }).find("a file that leads to itself holds nothing") != std::string::npos);
  CHECK(content(folder / "a") == "1");
  NewNamesOnly const only;
  CHECK_THROWS_AS(file::link_to(folder / "a", folder / "last"), FileExists);
  CHECK(content(folder / "last") == "2");
  file::link_to(folder / "a", folder / "new");
  CHECK(content(folder / "new") == "1");
  CHECK(folder.files() == Kept{"a", "b", "full/x", "last", "new"});
}

TEST_CASE("C98 checkpoint: weights only: no state of callbacks and schedules, but where in the run it was") {
  for (bool const alone : {true, false}) {
    Folder const folder;
    run({5}, {.save_last = true, .save_weights_only = alone}, folder, 1);
    CHECK(folder.files() == Kept{name(0, 2), "last.safetensors"});
    for (auto const& file : folder.files()) {
      auto const text = to_text(run_state(SafetensorsFile(folder / file)));
      CHECK(text.find(R"("global_step":2)") != std::string::npos);
      CHECK((text.find("best_model_path") == std::string::npos) == alone);
    }
  }
}

namespace {
struct Declaring : Scripted {
  double lr = 0.1, odd = std::nan("");
  void hyperparameters(auto& list) const {
    list("lr", lr)("layers", 4)("deep", true)("of", "a \"b\"")("odd", odd)("raw", std::string("\xFF"));
  }
};
/// Data with a state of its own, which a file of weights keeps.
struct Counting {
  int made = 0;
  void setup(auto& ctx) {
    if (ctx.stage() == Stage::fit) ++made;
  }
  auto train_dataloader() { return toy::batches(2); }
  auto val_dataloader() { return toy::batches(1); }
  void hyperparameters(auto& list) const { list("batch_size", 32); }
  void state(auto& archive) { archive("made", made); }
};
}  // namespace

TEST_CASE("checkpoint: hyper-parameters and the data module's state are in every file, weights only or not") {
  for (bool const alone : {true, false}) {
    Folder const folder;
    Declaring model;
    Counting data{.made = 6};
    Trainer<Declaring, SavingDevice, Float32, Automatic, ModelCheckpoint<>> trainer(
        quick(1), SavingDevice{}, Float32{}, Automatic{},
        ModelCheckpoint{{.dirpath = folder.path, .save_weights_only = alone}});
    trainer.fit(model, data);
    SafetensorsFile const file(folder / name(0, 2));
    CHECK(file.metadata().at("hyperparameters") ==
          R"({"lr":0.1,"layers":4,"deep":true,"of":"a \"b\"","odd":{"$bits":"7ff8000000000000"},)"
          R"("raw":{"$bytes":"ff"},"batch_size":32})");
    auto const state = run_state(file);
    REQUIRE(state.find("data_module") != nullptr);
    CHECK(to_text(*state.find("data_module")) == R"({"made":7})");
  }
}

TEST_CASE("checkpoint: a run that declares no hyper-parameters has none in its file") {
  Folder const folder;
  run({5}, {}, folder, 1);
  SafetensorsFile const file(folder / name(0, 2));
  CHECK_FALSE(file.metadata().contains("hyperparameters"));
}

TEST_CASE("checkpoint: a hyper-parameter whose name a file cannot hold is refused by its name") {
  for (std::vector<Hyperparameter> const& wrong :
       {std::vector<Hyperparameter>{{"$bits", 1.0}}, {{"a", 1.0}, {"a", true}}})
    CHECK(error_of([&] {
            hyperparameter_text(wrong);
          }).starts_with("[fulgurite.checkpoint.hyperparameter] '" + wrong.back().first + "' cannot be the name"));
}

TEST_CASE("checkpoint: nothing is saved in a fast_dev_run") {
  Folder const folder;
  auto options = quick(1);
  options.fast_dev_run = 2;
  Scripted failing{.fails_at = 1};
  CHECK_FALSE(error_of([&] {
                fitted(failing, options, 4, ModelCheckpoint{{.dirpath = folder.path, .save_on_exception = true}});
              }).empty());
  Scripted fine;
  fitted(fine, options, 4,
         ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = true, .every_n_train_steps = 1}});
  CHECK(fine.batches == 2);
  CHECK(folder.files().empty());
  static_assert(ModelCheckpoint<>::inert_in_dev_run);
}

TEST_CASE("checkpoint: a metric not known before the first validation is waited for, after it that is an Error") {
  auto rarely = quick(4);
  rarely.check_val_every_n_epoch = 2;
  Folder const folder;
  auto const warning =
      said([&] { run({5, 4, 3, 2}, {.save_top_k = -1, .save_on_train_epoch_end = true}, folder, 4, rarely); });
  CHECK(warning == "warning: [fulgurite.callback.checkpoint_waits] ModelCheckpoint watches 'vl', which was not "
                   "logged by step 2: nothing is saved before it is\n" +
                       old_value("vl", 6, 4));
  CHECK(folder.files() == Kept{name(1, 4), name(2, 6), name(3, 8)});
  Scripted model;
  Folder const other;
  std::string error;
  said([&] {
    error = error_of([&] {
      fitted(model, rarely, 2,
             ModelCheckpoint{Scripted::missing, {.dirpath = other.path, .save_on_train_epoch_end = true}});
    });
  });
  CHECK(error.find("which was not logged by step 4: log it") != std::string::npos);
}

TEST_CASE(
    "checkpoint: a file that a value of earlier weights ranks is warned of, once, and only where one is written") {
  auto rarely = quick(6);
  rarely.check_val_every_n_epoch = 2;
  auto const warned = [](Options how, TrainerOptions options, int batches = 2) {
    Folder const folder;
    how.dirpath = folder.path;
    Scripted model{.script = {5, 4, 3, 2, 1, 0}};
    options.silence = {"fulgurite.callback.checkpoint_waits"};
    return said([&] { fitted(model, options, batches, ModelCheckpoint{Scripted::vl, how}); });
  };
  // The epochs 1, 3 and 5 validate; those between have no better value, so that the best alone writes no file.
  CHECK(warned({.save_on_train_epoch_end = true}, rarely).empty());
  CHECK(warned({.save_top_k = 2, .save_on_train_epoch_end = true}, rarely) == old_value("vl", 6, 4));
  CHECK(warned({.save_top_k = -1}, rarely).empty());
  // By steps: the first file is one behind the validation.
  auto within = quick(1);
  within.val_check_interval = 2;
  CHECK(warned({.save_top_k = -1, .every_n_train_steps = 3}, within, 5) == old_value("vl", 3, 2));
  CHECK(warned({.save_top_k = -1, .every_n_train_steps = 2}, within, 5).empty());
  Folder const folder;
  Scripted model;
  CHECK(said([&] {
          fitted(model, quick(2), 3,
                 ModelCheckpoint{Scripted::loss, {.dirpath = folder.path, .save_top_k = -1, .every_n_train_steps = 1}});
        }).empty());
}

TEST_CASE("checkpoint: a folder that is not empty is told of, unless nothing is kept in it") {
  Folder const folder;
  put(folder / "old", "x");
  CHECK(said([&] { run({5}, {}, folder, 1); }) ==
        "warning: [fulgurite.callback.checkpoint_folder] ModelCheckpoint: " + folder.path.string() +
            " is not empty: what lies there is left alone\n");
  CHECK(said([&] { run({5}, {.save_top_k = 0}, folder, 1); }).empty());
  CHECK(content(folder / "old") == "x");
}

TEST_CASE("checkpoint: a folder with the files of this very run is no news: resumed, and in a second fit") {
  Folder const folder;
  auto const news = [](std::string const& text) { return text.find("is not empty") != text.npos; };
  auto const start = [&](int epochs) {
    Scripted model;
    ScriptedTrainer<ModelCheckpoint<>> trainer(quick(epochs), SavingDevice{}, Float32{}, Automatic{},
                                               ModelCheckpoint{{.dirpath = folder.path}});
    return said([&] { trainer.fit(model, toy::batches(2), toy::batches(1), CkptPath{"last"}); });
  };
  CHECK_FALSE(news(start(1)));
  CHECK_FALSE(news(start(2)));
  Folder const other;
  Scripted model;
  ScriptedTrainer<ModelCheckpoint<>> twice(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                           ModelCheckpoint{{.dirpath = other.path}});
  CHECK_FALSE(news(said([&] {
    twice.fit(model, toy::batches(2), toy::batches(1));
    auto options = twice.given_options();
    options.max_epochs = 2;
    twice.set_options(options);
    twice.fit(model, toy::batches(2), toy::batches(1));
  })));
  // A run that begins anew beside them, and one that is resumed from elsewhere, are told.
  CHECK(news(said([&] { run({5}, {}, folder, 1); })));
}

TEST_CASE("checkpoint: a run that goes on in another folder than the loaded state names is told so, once") {
  Folder const folder;
  Scripted model{.script = {5, 3}};
  auto trainer = fitted(model, quick(2), 2, ModelCheckpoint{Scripted::vl, {.dirpath = folder.path}});
  ModelCheckpoint moved{Scripted::vl, {.dirpath = folder / "elsewhere"}};
  load_state_text(moved, state_text(trainer.template callback<ModelCheckpoint<Metric<"vl">>>()));
  Scripted other{.script = {5, 3}};
  CHECK(said([&] { fitted(other, quick(2), 2, moved); }) ==
        "warning: [fulgurite.callback.checkpoint_moved] ModelCheckpoint: resumed from " + folder.path.string() +
            " into " + (folder / "elsewhere").string() +
            ": the ranking starts again there, and the files in the first folder are left alone\n");
}

TEST_CASE("checkpoint: a run that continues in another folder begins its ranking again, and leaves the files of the "
          "first one alone") {
  auto const ran = [](int epochs, CkptPath const& from, auto const& kept) {
    using Files = std::remove_cvref_t<decltype(kept)>;
    Scripted model{.script = {5, 3, 9, 8}};
    ScriptedTrainer<Files> trainer(quick(epochs), SavingDevice{}, Float32{}, Automatic{}, kept);
    said([&] { trainer.fit(model, toy::batches(2), toy::batches(1), from); });
    return std::pair(trainer.outcome().best_value, trainer.template callback<Files>().best_model_path());
  };
  Folder const folder;
  ModelCheckpoint const a{Scripted::vl, {.dirpath = folder / "runs/a"}}, b{Scripted::vl, {.dirpath = folder / "runs"}};
  auto const best = ran(2, CkptPath{"last"}, a).second;
  REQUIRE(best == folder / "runs/a" / name(1, 4));
  CHECK(ran(2, CkptPath{best}, b) == std::pair(std::optional(3.0), best));  // nothing is trained
  CHECK(ran(4, CkptPath{best}, b) == std::pair(std::optional(8.0), folder / "runs" / name(3, 8)));
  CHECK(folder.files() == Kept{"runs/a/" + name(1, 4), "runs/" + name(3, 8)});

  Folder const other;
  ModelCheckpoint const latest{{.dirpath = other / "runs/a", .save_last = true}}, above{{.dirpath = other / "runs"}};
  ran(2, CkptPath{"last"}, latest);
  CHECK(ran(3, CkptPath{other / "runs/a/last.safetensors"}, above).second == other / "runs" / name(2, 6));
  CHECK(other.files() == Kept{"runs/a/" + name(1, 4), "runs/a/last.safetensors", "runs/" + name(2, 6)});
}

TEST_CASE("checkpoint: the one that gives way next; the kept ones as YAML") {
  Folder const folder;
  Scripted model{.script = {5, 3, 4}};
  auto trainer = fitted(model, quick(3), 2, ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_top_k = 2}});
  auto const& checkpoint = trainer.template callback<ModelCheckpoint<Metric<"vl">>>();
  CHECK(checkpoint.kth_best_model_path() == folder / name(2, 6));
  CHECK(checkpoint.kth_value() == 4.0);
  CHECK(checkpoint.best_k_scores() == std::vector<double>{3, 4});
  checkpoint.to_yaml();
  CHECK(content(folder / "best_k_models.yaml") ==
        "\"" + (folder / name(1, 4)).string() + "\": 3.0\n\"" + (folder / name(2, 6)).string() + "\": 4.0\n");
  ModelCheckpoint const fresh{Scripted::vl, {.dirpath = folder.path}};
  CHECK_FALSE(fresh.kth_value());
}

namespace {
/// Two steps in each batch.
struct Twice {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  void training_step(double, auto& ctx) {
    auto& [sgd] = ctx.optimizers();
    ctx.minimize(sgd, -p);
    ctx.minimize(sgd, -p);
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
}  // namespace

TEST_CASE("checkpoint: by steps, several of which may lie in one batch: a file where an n-th was among them") {
  Folder const folder;
  Twice model;
  saved_files.clear();
  make_trainer<Twice>(quick(1), SavingDevice{}, Float32{}, Manual{},
                      ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1, .every_n_train_steps = 3}})
      .fit(model, toy::batches(5));
  CHECK(saved_files == std::vector<std::string>{"epoch=0-step=4.safetensors", "epoch=0-step=6.safetensors",
                                                "epoch=0-step=10.safetensors"});
}

TEST_CASE("checkpoint: what a failed fit was waiting for is forgotten by the next; a resumed one still waits") {
  Folder const folder;
  ModelCheckpoint const by_step{Scripted::vl, {.dirpath = folder.path, .save_top_k = -1, .every_n_train_steps = 3}};
  using Callback = ModelCheckpoint<Metric<"vl">>;
  Scripted model{.fails_at = 3};
  auto trainer = ScriptedTrainer<Callback>(quick(1), SavingDevice{}, Float32{}, Automatic{}, by_step);
  saved_files.clear();
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(4), toy::batches(1)), Error);
  auto waiting = by_step;
  load_state_text(waiting, state_text(trainer.callback<Callback>()));
  trainer.fit(model, toy::batches(2), toy::batches(1));
  CHECK(saved_files.empty());
  fitted(model, quick(1), 2, waiting);
  CHECK(saved_files == std::vector<std::string>{"epoch=0-step=2.safetensors"});
}

namespace {
struct Remembering : toy::P {
  std::vector<double> seen = {};
  toy::Tensor training_step(double batch) {
    seen.push_back(batch);
    return -p;
  }
};
}  // namespace

TEST_CASE("checkpoint: every file of a fit that max_steps ended inside an epoch goes on inside it") {
  for (auto const& how :
       {Options{.save_top_k = 0, .save_last = true, .every_n_train_steps = 2},
        Options{.save_last = true, .every_n_train_steps = 1}, Options{.save_last = true}, Options{}}) {
    Folder const folder;
    using Checkpoint = ModelCheckpoint<>;
    using Trained = Trainer<Remembering, SavingDevice, Float32, Automatic, Checkpoint>;
    auto const part = [&](long steps, auto... from) {
      Remembering model;
      auto options = quick(4);
      options.max_steps = steps;
      Trained trainer(options, {}, {}, {}, Checkpoint(in(folder, how)));
      trainer.fit(model, toy::batches(5), from...);
      return model.seen;
    };
    auto const whole = part(8);
    CHECK(part(3) == std::vector(whole.begin(), whole.begin() + 3));
    CHECK(part(8, CkptPath{"last"}) == std::vector(whole.begin() + 3, whole.end()));
    CHECK(part(8, CkptPath{"last"}).empty());
  }
  Folder const folder;
  auto options = quick(1);
  options.fast_dev_run = 2;
  options.overfit_batches = Batches{3};
  Remembering model;
  Trainer<Remembering, SavingDevice, Float32, Automatic, ModelCheckpoint<>> trainer(
      options, {}, {}, {}, ModelCheckpoint{{.dirpath = folder.path, .save_last = true}});
  trainer.fit(model, toy::batches(5));
  CHECK(folder.files().empty());
}
