// Section 11.13: from which place a fit goes on, by the hooks that it calls; which file a word means.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>

#include "observed.hpp"
#include "trace.hpp"
#include "unit/callback_run.hpp"
#include "unit/callback_stderr.hpp"

using namespace fulgurite;
using toy::note;
using toy::Trace;
using toy::trace;

namespace {

std::string step(std::string const& what, auto& ctx) {
  return what + " " + std::to_string(ctx.current_epoch()) + "," + std::to_string(ctx.batch_idx());
}

/// n = 4 batches, one validation batch; says what runs, and asks for a file at one place.
struct Says {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  std::string_view file_at = "";
  int epoch = 0;
  long global_step = -1;

  void on_sanity_check_start() { note("sanity"); }
  void on_train_start() { note("train_start"); }
  void on_train_epoch_start(auto& ctx) { note("epoch_start " + std::to_string(ctx.current_epoch())); }
  void on_train_batch_end(auto& ctx) { at("batch_end", ctx); }
  void on_validation_start(auto& ctx) {
    if (!ctx.sanity_checking()) note("validation");
  }
  void on_validation_end(auto& ctx) {
    if (!ctx.sanity_checking()) at("validation_end", ctx);
  }
  void on_train_epoch_end(auto& ctx) {
    note("epoch_end " + std::to_string(ctx.current_epoch()));
    at("epoch_end", ctx);
  }
  void on_train_end() { note("train_end"); }

 private:
  void at(std::string_view place, auto& ctx) {
    if (place == file_at && ctx.current_epoch() == epoch && (global_step < 0 || ctx.global_step() == global_step))
      ctx.request_checkpoint("resumed");
  }
};
struct Counts {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double batch, auto& ctx) {
    note(step("step", ctx) + " of " + std::to_string(static_cast<int>(batch)));
    return -p;
  }
  void validation_step(double) {}
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

void fit(TrainerOptions options, Says says, std::optional<CkptPath> from = std::nullopt) {
  Counts model;
  auto trainer = toy::train<Counts>(std::move(options), Automatic{}, says);
  trace.clear();
  trainer.fit(model, toy::batches(4), toy::batches(1), from);
  note("gs " + std::to_string(trainer.progress().global_step));
}
/// What is called by a fit that goes on from the file which another one asked for at that place.
Trace resumed(Says says, TrainerOptions first, TrainerOptions then) {
  fit(std::move(first), says);
  fit(std::move(then), {}, CkptPath{"resumed"});
  return trace;
}
TrainerOptions epochs(int most) { return {.max_epochs = most}; }
Trace epoch(int e, int from = 0) {
  Trace t;
  auto const number = std::to_string(e);
  if (from == 0) t.push_back("epoch_start " + number);
  for (int b = from; b != 4; ++b) t.push_back("step " + number + "," + std::to_string(b) + " of " + std::to_string(b));
  toy::add(t, {"validation", "epoch_end " + number});
  return t;
}
Trace joined(std::initializer_list<Trace> parts) {
  Trace all;
  for (auto const& part : parts) toy::add(all, part);
  return all;
}

}  // namespace

TEST_CASE("C143 resume: each row of the table of positions") {
  Trace const end{"train_end", "gs 8"};
  SECTION("end of epoch: sanity check, next epoch from its beginning") {
    CHECK(resumed({.file_at = "epoch_end"}, epochs(2), epochs(2)) ==
          joined({{"sanity", "train_start"}, epoch(1), end}));
  }
  SECTION(
      "inside an epoch: no sanity check, no on_train_epoch_start, the batches that are left; D4: of their own data") {
    CHECK(resumed({.file_at = "batch_end", .global_step = 2}, epochs(2), epochs(2)) ==
          joined({{"train_start"}, epoch(0, 2), epoch(1), end}));
  }
  SECTION("the epoch's last batch; D4: its validation and on_train_epoch_end are still to come") {
    CHECK(resumed({.file_at = "batch_end", .global_step = 4}, epochs(2), epochs(2)) ==
          joined({{"train_start", "validation", "epoch_end 0"}, epoch(1), end}));
  }
  SECTION("on_validation_end inside an epoch: the next batch, no second validation") {
    auto options = epochs(1);
    options.val_check_interval = Fraction{0.5};
    CHECK(resumed({.file_at = "validation_end", .global_step = 2}, options, options) ==
          Trace{"train_start", "step 0,2 of 2", "step 0,3 of 3", "validation", "epoch_end 0", "train_end", "gs 4"});
  }
  SECTION("on_validation_end at an epoch's end: on_train_epoch_end, then the next epoch") {
    CHECK(resumed({.file_at = "validation_end"}, epochs(2), epochs(2)) ==
          joined({{"train_start", "epoch_end 0"}, epoch(1), end}));
  }
  SECTION("max_steps = 3, then 6: on at batch 3 of the same epoch") {
    for (char const* const file_at : {"batch_end", "epoch_end"})
      CHECK(resumed({.file_at = file_at, .global_step = 3}, {.max_steps = 3}, {.max_steps = 6}) ==
            Trace{"train_start", "step 0,3 of 3", "validation", "epoch_end 0", "epoch_start 1", "step 1,0 of 0",
                  "step 1,1 of 1", "epoch_end 1", "train_end", "gs 6"});
  }
  SECTION("the same max_epochs again: nothing is trained; D4: the end of training is still to come") {
    CHECK(resumed({.file_at = "epoch_end", .epoch = 1}, epochs(2), epochs(2)) ==
          Trace{"sanity", "train_start", "train_end", "gs 8"});
  }
  SECTION("more epochs in the file than max_epochs") {
    fit(epochs(3), {.file_at = "epoch_end", .epoch = 2});
    CHECK(error_of([] { fit(epochs(2), {}, CkptPath{"resumed"}); }).starts_with("[fulgurite.resume.max_epochs]"));
  }
  SECTION("a file of weights alone") {
    Folder const folder;
    Scripted model;
    fitted(model, quick(1), 2, ModelCheckpoint{{.dirpath = folder.path, .filename = "w", .save_weights_only = true}});
    auto trainer = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{});
    CHECK(error_of([&] {
            trainer.fit(model, toy::batches(2), toy::batches(1), CkptPath{folder / "w.safetensors"});
          }).starts_with("[fulgurite.resume.weights_only]"));
  }
}

namespace {

/// Keeps no state and cannot jump: it is read from its beginning.
struct Stream {
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    int at;
    double operator*() const { return at; }
    Iterator& operator++() { return ++at, *this; }
    void operator++(int) { ++at; }
    bool operator==(std::default_sentinel_t) const { return at == 5; }
  };
  Iterator begin() const { return {0}; }
  std::default_sentinel_t end() const { return {}; }
};
/// Knows how many batches were moved past, as a user's own loader may; it says what it makes.
struct Placed {
  long consumed = 0;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    Placed* of;
    double operator*() const { return static_cast<double>(of->consumed); }
    Iterator& operator++() { return ++of->consumed, *this; }
    void operator++(int) { ++of->consumed; }
    bool operator==(std::default_sentinel_t) const { return of->consumed == 5; }
  };
  Iterator begin() {
    if (consumed == 5) consumed = 0;
    note("begins at " + std::to_string(consumed));
    return {this};
  }
  std::default_sentinel_t end() const { return {}; }
  void state(auto& archive) { archive("consumed", consumed); }
};

template <class Loader>
Trace steps_from(Loader first, Loader then) {
  for (bool const again : {false, true}) {
    Counts model;
    auto trainer =
        toy::train<Counts>(epochs(1), Automatic{}, Says{.file_at = again ? "" : "batch_end", .global_step = 2});
    trace.clear();
    trainer.fit(model, again ? then : first, NoValidation{}, again ? std::optional(CkptPath{"resumed"}) : std::nullopt);
    note("gs " + std::to_string(trainer.progress().global_step));
  }
  std::erase_if(trace, [](auto const& line) { return line.starts_with("epoch") || line.starts_with("train"); });
  return trace;
}

}  // namespace

TEST_CASE("C144 resume: a loader without state is read from its beginning, which is said, and left out are what was "
          "trained on (D4)") {
  Trace got;
  auto const warnings = said([&] { got = steps_from(Stream{}, Stream{}); });
  CHECK(got == Trace{"step 0,2 of 2", "step 0,3 of 3", "step 0,4 of 4", "gs 5"});
  CHECK(warnings.starts_with("warning: [fulgurite.resume.skips] "));
}

TEST_CASE("resume: a loader with state goes on by itself, and none of its batches is made twice") {
  CHECK(steps_from(Placed{}, Placed{}) ==
        Trace{"begins at 2", "step 0,2 of 2", "step 0,3 of 3", "step 0,4 of 4", "gs 5"});
}

namespace {

/// Each pass yields its number, as a shuffled loader yields another order.
struct Passes {
  long passes = 0;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    double pass;
    bool over = false;
    double operator*() const { return pass; }
    Iterator& operator++() { return over = true, *this; }
    void operator++(int) { over = true; }
    bool operator==(std::default_sentinel_t) const { return over; }
  };
  Iterator begin() { return {static_cast<double>(++passes)}; }
  std::default_sentinel_t end() const { return {}; }
  void state(auto& archive) { archive("passes", passes); }
};
struct NotesValidation : Counts {
  void validation_step(double batch, auto& ctx) {
    if (!ctx.sanity_checking()) note("pass " + std::to_string(static_cast<int>(batch)));
  }
};

}  // namespace

TEST_CASE("resume: validation loaders that keep a state go on by it, whatever the sanity check has taken") {
  for (bool const several : {false, true}) {
    Trace whole;
    for (bool const again : {false, true}) {
      NotesValidation model;
      auto trainer = toy::train<NotesValidation>(epochs(3), Automatic{}, Says{.file_at = again ? "" : "epoch_end"});
      trace.clear();
      auto const from = again ? std::optional(CkptPath{"resumed"}) : std::nullopt;
      if (several) {
        std::tuple loaders{toy::batches(1), Passes{}, Passes{10}};
        trainer.fit(model, toy::batches(2), loaders, from);
      } else {
        trainer.fit(model, toy::batches(2), Passes{}, from);
      }
      std::erase_if(trace, [](auto const& line) { return !line.starts_with("pass"); });
      if (!again) whole = trace;
    }
    CAPTURE(several);
    CHECK(whole.size() == (several ? 9 : 3));
    CHECK(trace == Trace(whole.begin() + (several ? 3 : 1), whole.end()));
  }
}

TEST_CASE("C145 on exception: a fit that failed in batch 3 is gone on with there, and the file is gone afterwards") {
  Folder const folder;
  Scripted model{.fails_at = 3};
  CHECK(error_of([&] {
          fitted(model, quick(1), 5, OnExceptionCheckpoint{{.dirpath = folder.path}});
        }).starts_with("[fulgurite.test.step]"));
  Scripted again;
  std::optional<long> steps;
  auto const warning = said([&] {
    auto trainer = fitted(again, quick(1), 5, OnExceptionCheckpoint{{.dirpath = folder.path}});
    steps = trainer.progress().global_step;
  });
  CHECK(warning.find("[fulgurite.resume.after_exception]") != std::string::npos);
  CHECK(again.batches == 2);
  CHECK(steps == 5);
  CHECK(again.p.value() == 5);
  CHECK(folder.files().empty());
}

TEST_CASE("C146 resume: which file best, last and a path mean") {
  Folder const folder;
  Scripted model{.script = {3, 1, 2}};
  auto trainer = fitted(model, quick(3), 2, ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = true}});
  auto const weight_of = [&](auto& with, CkptPath const& from) {
    Scripted fresh;
    with.validate(fresh, toy::batches(1), from);
    return fresh.p.value();
  };
  CHECK(weight_of(trainer, CkptPath{"best"}) == 4);                       // of epoch 1
  CHECK(weight_of(trainer, CkptPath{folder / "last.safetensors"}) == 6);  // of the end
  Scripted untouched;  // none after fit: the model is always named, so no file is looked for
  trainer.validate(untouched, toy::batches(1));
  CHECK(untouched.p.value() == 0);
  trainer.validate(model, toy::batches(1));
  CHECK(model.p.value() == 6);
  auto bare = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{});
  CHECK(error_of([&] { weight_of(bare, CkptPath{"best"}); }).starts_with("[fulgurite.resume.no_best]"));
  Scripted anew;
  auto const warning = said([&] { bare.fit(anew, toy::batches(2), toy::batches(1), CkptPath{"last"}); });
  CHECK(warning.starts_with("warning: [fulgurite.resume.no_last] "));
  CHECK(bare.progress().global_step == 4);
  CHECK(said([&] { bare.validate(anew, toy::batches(1), CkptPath{"last"}); }) ==
        "warning: [fulgurite.resume.no_last] CkptPath{\"last\"}: no callback of this trainer has left a file, so the "
        "model is evaluated as it is\n");
  CHECK(anew.p.value() == 4);
  // The newest file of the folder, in another process: a trainer that has written nothing.
  auto later = make_trainer<Scripted>(quick(4), SavingDevice{}, Float32{}, Automatic{},
                                      ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_last = true}});
  Scripted last;
  said([&] { later.fit(last, toy::batches(2), toy::batches(1), CkptPath{"last"}); });
  CHECK(last.p.value() == 8);
  CHECK(last.batches == 2);
}

TEST_CASE("resume: where the newest file is damaged, the one before it is taken, and that is said") {
  Folder const folder;
  Scripted model;
  fitted(model, quick(2), 2, ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1}});
  put(folder / "epoch=2-step=6.safetensors", "not a file of ours");
  auto again = make_trainer<Scripted>(quick(3), SavingDevice{}, Float32{}, Automatic{},
                                      ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1}});
  Scripted fresh;
  auto const warning = said([&] { again.fit(fresh, toy::batches(2), toy::batches(1), CkptPath{"last"}); });
  CHECK(warning.find("[fulgurite.resume.damaged]") != std::string::npos);
  CHECK(fresh.batches == 2);
  CHECK(fresh.p.value() == 6);
}

TEST_CASE("resume: of the files that \"last\" may mean, those of weights alone and those of others are passed over") {
  Folder const folder;
  Scripted model;
  auto const keeps_all = ModelCheckpoint{{.dirpath = folder.path, .save_top_k = -1}};
  fitted(model, quick(2), 2, keeps_all);
  struct Weights : ModelCheckpoint<NoMonitor> {
    using ModelCheckpoint<NoMonitor>::ModelCheckpoint;
  };
  auto const only_weights =
      Weights{{.dirpath = folder.path, .filename = "w-{epoch}", .save_top_k = -1, .save_weights_only = true}};
  Scripted longer;
  said([&] { fitted(longer, quick(3), 2, only_weights); });
  double const p = 5;
  write_safetensors(folder / "pretrained.safetensors", {},
                    [&](auto&& f) { f("0", WeightView{"F64", {}, std::as_bytes(std::span(&p, 1))}); });
  auto again = make_trainer<Scripted>(quick(3), SavingDevice{}, Float32{}, Automatic{}, keeps_all, only_weights);
  Scripted fresh;
  auto const warning = said([&] { again.fit(fresh, toy::batches(2), toy::batches(1), CkptPath{"last"}); });
  CHECK(warning.find("[fulgurite.resume.passed_over]") != std::string::npos);
  CHECK(fresh.batches == 2);
  CHECK(fresh.p.value() == 6);

  SECTION("none but such files of this program: nothing can go on") {
    for (auto const& file : folder.files())
      if (!file.starts_with("w-")) std::filesystem::remove(folder / file);
    Scripted none;
    said([&] {
      CHECK(error_of([&] {
              again.fit(none, toy::batches(2), toy::batches(1), CkptPath{"last"});
            }).starts_with("[fulgurite.resume.weights_only]"));
    });
    CHECK(none.batches == 0);
  }
  SECTION("none but files of others: the run is a new one") {
    for (auto const& file : folder.files())
      if (file != "pretrained.safetensors") std::filesystem::remove(folder / file);
    auto other = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, keeps_all);
    Scripted anew;
    auto const told = said([&] { other.fit(anew, toy::batches(2), toy::batches(1), CkptPath{"last"}); });
    CHECK(told.find("[fulgurite.resume.no_last]") != std::string::npos);
    CHECK(anew.p.value() == 2);
  }
}

TEST_CASE("resume: \"last\" looks into the folders that a callback's own names make, and into none of other runs") {
  Folder const folder;
  auto const how = [](std::filesystem::path dirpath) {
    return ModelCheckpoint{{.dirpath = std::move(dirpath), .filename = "of {epoch}/{step}", .save_top_k = -1}};
  };
  Scripted model, other, fresh;
  fitted(model, quick(2), 2, how(folder.path));
  REQUIRE(folder.files().contains("of epoch=1/step=4.safetensors"));
  fitted(other, quick(3), 2, how(folder / "other"));  // a newer run, below that folder
  fitted(other, quick(3), 2, ModelCheckpoint{{.dirpath = folder / "third", .save_top_k = -1}});
  auto again = make_trainer<Scripted>(quick(4), SavingDevice{}, Float32{}, Automatic{}, how(folder.path));
  said([&] { again.fit(fresh, toy::batches(2), toy::batches(1), CkptPath{"last"}); });
  CHECK(fresh.batches == 4);
  CHECK(fresh.p.value() == 8);
}

namespace {

/// Leaves files for a scheduler, as Signals does; `requeued`: the scheduler has started this process.
struct Requeues {
  using Stateless = ByChoice;
  std::filesystem::path folder;
  bool requeued = false;
  static constexpr bool resumes_fit = true;
  void on_train_epoch_end(auto& ctx) {
    ctx.request_checkpoint(folder / ("hpc_ckpt_" + std::to_string(8 + ctx.current_epoch()) + ".safetensors"));
  }
  std::vector<std::filesystem::path> hpc_checkpoints(CheckpointSearch const& search) const {
    CHECK(search.root == ".");
    CHECK_FALSE(search.runs);  // there is no logger
    std::vector<std::filesystem::path> files{folder / "not there"};
    for (auto const& file : std::filesystem::directory_iterator(folder)) files.push_back(file.path());
    return files;
  }
  bool resumes_hpc() const { return requeued; }
};

}  // namespace

TEST_CASE("resume: hpc is the file of the highest number; a scheduler that starts the run again needs no word") {
  Folder const folder;
  Scripted model;
  auto const bare = [&](Requeues requeues, int epochs) {
    return make_trainer<Scripted>(quick(epochs), SavingDevice{}, Float32{}, Automatic{}, requeues,
                                  OnExceptionCheckpoint{{.dirpath = folder / "rescued"}});
  };
  auto none = bare({folder.path}, 1);
  std::string error;
  said([&] { error = error_of([&] { none.fit(model, toy::batches(2), toy::batches(1), CkptPath{"hpc"}); }); });
  CHECK(error.starts_with("[fulgurite.resume.no_hpc]"));
  CHECK(model.batches == 0);

  bare({folder.path}, 3).fit(model, toy::batches(2), toy::batches(1));
  REQUIRE(folder.files() ==
          std::set<std::string>{"hpc_ckpt_10.safetensors", "hpc_ckpt_8.safetensors", "hpc_ckpt_9.safetensors"});
  std::filesystem::last_write_time(folder / "hpc_ckpt_8.safetensors",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  Scripted word, silent, anew, damaged;
  said([&] { bare({folder.path}, 4).fit(word, toy::batches(2), toy::batches(1), CkptPath{"hpc"}); });
  CHECK(word.batches == 2);
  std::filesystem::remove(folder / "hpc_ckpt_11.safetensors");
  std::filesystem::create_directories(folder / "rescued");
  std::filesystem::copy_file(folder / "hpc_ckpt_8.safetensors", folder / "rescued/on_exception.safetensors");
  auto const warning = said([&] { bare({folder.path, true}, 4).fit(silent, toy::batches(2), toy::batches(1)); });
  CHECK(warning.find("[fulgurite.resume.after_requeue]") != std::string::npos);
  CHECK(silent.batches == 2);
  CHECK(silent.p.value() == 8);
  bare({folder.path}, 4).fit(anew, toy::batches(2), toy::batches(1));
  CHECK(anew.batches == 8);
  put(folder / "hpc_ckpt_11.safetensors", "cut off");
  auto const told =
      said([&] { bare({folder.path}, 4).fit(damaged, toy::batches(2), toy::batches(1), CkptPath{"hpc"}); });
  CHECK(told.find("[fulgurite.resume.damaged]") != std::string::npos);
  CHECK(damaged.batches == 2);
}

namespace {

/// Keeps something beside its weights.
struct WithState : Scripted {
  double kept = 1;
  void state(auto& archive) { archive("kept", kept); }
};
/// A data module with a state.
struct Numbered {
  long drawn = 0;
  auto train_dataloader() { return toy::batches(2); }
  auto val_dataloader() { return toy::batches(1); }
  void state(auto& archive) { archive("drawn", drawn); }
};

}  // namespace

TEST_CASE("resume: an evaluation takes the weights of a file that holds nothing else, and loads the data module") {
  Folder const folder;
  double const p = 5;
  write_safetensors(folder / "weights.safetensors", {},
                    [&](auto&& f) { f("0", WeightView{"F64", {}, std::as_bytes(std::span(&p, 1))}); });
  Scripted model;
  auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{});
  CHECK(said([&] { trainer.validate(model, toy::batches(1), CkptPath{folder / "weights.safetensors"}); }).empty());
  CHECK(model.p.value() == 5);
  CHECK(error_of([&] {
          trainer.fit(model, toy::batches(2), toy::batches(1), CkptPath{folder / "weights.safetensors"});
        }).starts_with("[fulgurite.resume.weights_only]"));

  auto with_state = make_trainer<WithState>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                            ModelCheckpoint{{.dirpath = folder.path, .filename = "run"}});
  WithState other;
  CHECK(said([&] {
          with_state.validate(other, toy::batches(1), CkptPath{folder / "weights.safetensors"});
        }).find("[fulgurite.resume.no_state]") != std::string::npos);
  CHECK(other.p.value() == 5);
  CHECK(other.kept == 1);

  Numbered data{7};
  other.kept = 3;
  said([&] { with_state.fit(other, data); });
  Numbered fresh;
  WithState loaded;
  said([&] { with_state.validate(loaded, fresh, CkptPath{folder / "run.safetensors"}); });
  CHECK(fresh.drawn == 7);
  CHECK(loaded.kept == 3);
  CHECK(loaded.p.value() == 7);
}

TEST_CASE("resume: an evaluation warns where the file and the call do not both have a data module with a state") {
  Folder const folder;
  auto const warns = [&](char const* file, auto& data) {
    Scripted model;
    auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{});
    return said([&] {
             trainer.validate(model, data, CkptPath{folder / file});
           }).find("[fulgurite.resume.data_state]") != std::string::npos;
  };
  auto const saved = [&](char const* file, auto&&... data) {
    Scripted model;
    auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{});
    said([&] { trainer.fit(model, data...); });
    trainer.save_checkpoint(folder / file);
  };
  Numbered data{7};
  auto loader = toy::batches(1);
  saved("data.safetensors", data);
  saved("loaders.safetensors", toy::batches(2), toy::batches(1));
  double const p = 5;
  write_safetensors(folder / "weights.safetensors", {},
                    [&](auto&& f) { f("0", WeightView{"F64", {}, std::as_bytes(std::span(&p, 1))}); });
  CHECK_FALSE(warns("data.safetensors", data));
  CHECK(warns("data.safetensors", loader));
  CHECK(warns("loaders.safetensors", data));
  CHECK_FALSE(warns("loaders.safetensors", loader));
  CHECK(warns("weights.safetensors", data));
  CHECK_FALSE(warns("weights.safetensors", loader));
}

namespace {

/// Batches whose loader keeps its place by a state of its own.
struct KeptPlace {
  long at = 0;
  struct Pass {
    KeptPlace* of;
    double operator*() const { return static_cast<double>(of->at); }
    Pass& operator++() {
      ++of->at;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return of->at == 4; }
    using value_type = double;
    using difference_type = std::ptrdiff_t;
  };
  Pass begin() {
    if (at == 4) at = 0;
    return {this};
  }
  std::default_sentinel_t end() { return {}; }
  long size() const { return 4; }
  void state(auto& archive) { archive("at", at); }
};
/// A data module with a state to which nothing is saved.
struct Blank : Numbered {
  void state(auto&) {}
};

}  // namespace

TEST_CASE("resume: a fit warns where the file keeps nothing of its data module, and refuses to drop another's state") {
  Folder const folder;
  auto const saved = [&](char const* file, auto&&... data) {
    Scripted model;
    auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{});
    said([&] { trainer.fit(model, data...); });
    trainer.save_checkpoint(folder / file);
    return snapshot(trainer);
  };
  Scripted model;
  std::string refused;
  auto const fitted_from = [&](auto const& from, auto&&... data) {
    model = {};
    auto trainer = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{});
    refused.clear();
    auto const printed = said([&] { refused = error_of([&] { trainer.fit(model, data..., from); }); });
    std::string const id = "[fulgurite.resume.data_state]";
    return printed.find(id) == printed.npos ? 0 : printed.find(id) == printed.rfind(id) ? 1 : 2;
  };
  auto const path = [&](char const* file) { return CkptPath{folder / file}; };
  Numbered data{7};
  Blank blank;
  KeptPlace place;
  saved("data.safetensors", data);
  saved("blank.safetensors", blank);
  saved("loaders.safetensors", toy::batches(2), toy::batches(1));
  auto const left_place = saved("place.safetensors", place, toy::batches(1));

  Numbered fresh;
  CHECK(fitted_from(path("data.safetensors"), fresh) == 0);
  CHECK(fresh.drawn == 7);
  CHECK(refused == "");
  CHECK(fitted_from(path("loaders.safetensors"), fresh) == 1);  // the program has gained a module, as a callback
  CHECK(refused == "");
  CHECK(fresh.drawn == 7);
  CHECK(model.batches == 2);
  CHECK(fitted_from(left_place, fresh) == 1);
  CHECK(refused == "");
  CHECK(fitted_from(path("loaders.safetensors"), blank) == 0);
  CHECK(fitted_from(path("loaders.safetensors"), toy::batches(2), toy::batches(1)) == 0);

  CHECK(fitted_from(path("data.safetensors"), toy::batches(2), toy::batches(1)) == 0);  // the program has lost it
  CHECK(refused.find("'data_module.drawn'") != refused.npos);
  CHECK(model.batches == 0);
  CHECK(fitted_from(path("blank.safetensors"), toy::batches(2), toy::batches(1)) == 0);
  CHECK(refused == "");
  CHECK(model.batches == 2);
}

TEST_CASE("resume: inside an epoch a loader that keeps its place is refused where the file has no place of it") {
  Folder const folder;
  Scripted model;
  auto options = quick(1);
  options.max_steps = 2;
  fitted(model, options, 4, ModelCheckpoint{{.dirpath = folder.path, .filename = "two", .every_n_train_steps = 2}});
  auto const trained_on = [&](auto& loader) {
    Scripted fresh;
    auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{});
    std::string refused;
    said([&] {
      refused = error_of([&] { trainer.fit(fresh, loader, toy::batches(1), CkptPath{folder / "two.safetensors"}); });
    });
    return refused + " " + std::to_string(fresh.batches);
  };
  auto stored = toy::batches(4);
  KeptPlace place;
  CHECK(trained_on(stored) == " 2");
  CHECK(trained_on(place).find("'train_loader'") != std::string::npos);
}

TEST_CASE("resume: of files that were written at the same time, the one of more steps is the last") {
  Folder const folder;
  Scripted model;
  auto const keeps_all = ModelCheckpoint{{.dirpath = folder.path, .filename = "{epoch}", .save_top_k = -1}};
  fitted(model, quick(11), 1, keeps_all);
  auto const now = std::filesystem::last_write_time(folder / "epoch=10.safetensors");
  for (auto const& file : folder.files()) std::filesystem::last_write_time(folder / file, now);
  auto again = make_trainer<Scripted>(quick(12), SavingDevice{}, Float32{}, Automatic{}, keeps_all);
  Scripted fresh;
  said([&] { again.fit(fresh, toy::batches(1), toy::batches(1), CkptPath{"last"}); });
  CHECK(fresh.batches == 1);
  CHECK(fresh.p.value() == 12);
}

namespace {

struct NotedModel {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  void prepare_data() const { note("prepare"); }
  void setup() { note("setup"); }
  void teardown() { note("teardown"); }
  void state(auto& archive) {
    double unused = 0;
    archive("unused", unused);
    if (archive.loading) note("M.load");
  }
  toy::Tensor training_step(double) { return -p; }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
struct NotedData {
  void prepare_data() const { note("D.prepare"); }
  void setup() { note("D.setup"); }
  void teardown() { note("D.teardown"); }
  auto train_dataloader() {
    note("D.train_dataloader");
    return toy::batches(2);
  }
  void state(auto& archive) {
    double unused = 0;
    archive("unused", unused);
    note(archive.loading ? "D.load" : "D.save");
  }
};
struct NotedCallback {
  void setup() { note("C.setup"); }
  void teardown() { note("C.teardown"); }
  void on_train_start() { note("C.train_start"); }
  void on_train_epoch_end(auto& ctx) {
    if (ctx.current_epoch() == 0) ctx.request_checkpoint("ordered");
  }
  void state(auto& archive) {
    double unused = 0;
    archive("unused", unused);
    if (archive.loading) note("C.load");
  }
};

}  // namespace

TEST_CASE("C150 resume: the order of data module, model and callbacks") {
  NotedModel model;
  NotedData data;
  auto trainer = toy::train<NotedModel>(epochs(1), Automatic{}, NotedCallback{});
  trace.clear();
  trainer.fit(model, data);
  CHECK(trace == Trace{"D.prepare", "prepare", "D.setup", "C.setup", "setup", "D.train_dataloader", "C.train_start",
                       "D.save", "D.save", "D.teardown", "C.teardown", "teardown"});  // the file, and for one after fit
  auto again = toy::train<NotedModel>(epochs(2), Automatic{}, NotedCallback{});
  trace.clear();
  again.fit(model, data, CkptPath{"ordered"});
  auto const loaders = std::ranges::find(trace, "D.train_dataloader");
  Trace before(trace.begin(), loaders);
  std::erase(before, "D.save");  // what is there is kept until the file is known to fit
  before.erase(std::ranges::unique(before).begin(), before.end());
  CHECK(Trace(before.begin(), before.begin() + 8) ==
        Trace{"D.prepare", "prepare", "D.setup", "C.setup", "setup", "M.load", "D.load", "C.load"});
  CHECK(Trace(trace.end() - 3, trace.end()) == Trace{"D.teardown", "C.teardown", "teardown"});

  struct Validates : NotedModel {
    void validation_step(double) { note("validation_step"); }
  } validated;
  struct WithValidation : NotedData {
    auto val_dataloader() {
      note("D.val_dataloader");
      return toy::batches(1);
    }
  } validation;
  auto evaluates = toy::train<Validates>(epochs(1), Automatic{}, NotedCallback{});
  trace.clear();
  evaluates.validate(validated, validation, CkptPath{"ordered"});  // callbacks stay as they are
  std::erase(trace, "D.save");
  CHECK(trace == Trace{"D.prepare", "prepare", "D.setup", "C.setup", "setup", "M.load", "D.load", "D.val_dataloader",
                       "validation_step", "D.teardown", "C.teardown", "teardown"});
}

namespace {

/// Raises a signal in one batch of training, or of validation.
struct Raises {
  using Stateless = ByChoice;
  int signal;
  long in_batch = -1;
  bool in_validation = false;
  void on_train_batch_start(auto& ctx) {
    if (ctx.batch_idx() == in_batch) std::raise(signal);
  }
  void on_train_batch_end(auto& ctx) { note("batch_end " + std::to_string(ctx.batch_idx())); }
  void on_validation_batch_start(auto&) {
    if (std::exchange(in_validation, false)) std::raise(signal);
  }
  void on_exception(std::exception const& error, auto&) { note(error.what()); }
};

/// The code with which a program would end; 0 where nothing was thrown.
int exit_code(auto&& fit) {
  try {
    fit();
  } catch (Interrupted const& interrupted) { return interrupted.exit_code(); }
  return 0;
}
auto with_signals(Folder const& folder, Raises raises) {
  return make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, raises,
                                Signals{{.dirpath = folder.path}});
}

}  // namespace

TEST_CASE("C148 a keyboard interrupt: on_exception, a file, the exit code; the next fit goes on and removes the file") {
  Folder const folder;
  Scripted model;
  auto trainer = with_signals(folder, {SIGINT, 1});
  trace.clear();
  CHECK(exit_code([&] { trainer.fit(model, toy::batches(4), toy::batches(1)); }) == 130);
  CHECK(trace == Trace{"batch_end 0", "batch_end 1", "[fulgurite.run.interrupted] the run was asked to end by SIGINT"});
  CHECK(folder.files() == std::set<std::string>{"interrupted.safetensors"});
  Scripted again;
  auto then = with_signals(folder, {SIGINT});
  trace.clear();
  said([&] { then.fit(again, toy::batches(4), toy::batches(1)); });
  CHECK(trace == Trace{"batch_end 2", "batch_end 3"});
  CHECK(again.p.value() == 4);
  CHECK(folder.files().empty());
}

TEST_CASE("C149 SIGTERM: the batch's end hooks run, then the way to exit code 143; inside a validation, which is done "
          "again; in test") {
  Folder const folder;
  Scripted model;
  auto trainer = with_signals(folder, {SIGTERM, 2});
  trace.clear();
  CHECK(exit_code([&] { trainer.fit(model, toy::batches(4), toy::batches(1)); }) == 143);
  CHECK(trace.size() == 4);
  Scripted validated;
  auto other = with_signals(folder, {.signal = SIGTERM, .in_validation = true});
  said([&] { CHECK(exit_code([&] { other.fit(validated, toy::batches(4), toy::batches(2)); }) == 143); });
  CHECK(validated.batches == 1);  // of the fit that went on from batch 3
  Scripted again;
  auto last = with_signals(folder, {SIGTERM});
  said([&] { last.fit(again, toy::batches(4), toy::batches(2)); });
  CHECK(again.batches == 0);
  CHECK(last.value(Scripted::vl) == 1);
  auto evaluated = with_signals(folder, {.signal = SIGTERM, .in_validation = true});
  CHECK(exit_code([&] { evaluated.validate(again, toy::batches(2)); }) == 143);
  CHECK(folder.files().empty());
}

TEST_CASE("signals: the handlers are put back, and the same signal again ends the program") {
  Folder const folder;
  struct sigaction before{}, after{};
  ::sigaction(SIGTERM, nullptr, &before);
  Scripted model;
  auto trainer = with_signals(folder, {SIGTERM});
  trainer.fit(model, toy::batches(1), toy::batches(1));
  ::sigaction(SIGTERM, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
  pid_t const child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, SIG_DFL);  // in place of the handler of the tests' own
    CaughtSignals const caught({SIGTERM});
    std::raise(SIGTERM);
    if (CaughtSignals::caught() == SIGTERM) std::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}
