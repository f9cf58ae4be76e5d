// Section 11.8: which files ModelCheckpoint writes, in which order, and which it keeps; n2, one validation batch.
#include <limits>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>

#include "observed.hpp"
#include "trace.hpp"
#include "unit/callback_run.hpp"

using namespace fulgurite;
using Options = ModelCheckpointOptions;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// Names without the ending, which is not Lightning's.
Words stems(auto const& names) {
  Words all;
  for (auto const& name : names) all.push_back(std::filesystem::path(name).stem().string());
  return all;
}
std::string at(int epoch, int step) { return "epoch=" + std::to_string(epoch) + "-step=" + std::to_string(step); }

struct Files {
  Words saved, kept;
};
Files watched(Numbers script, Options how, Folder const& folder = {}) {
  Scripted model{.script = std::move(script)};
  auto const epochs = static_cast<int>(model.script.size());
  fitted(model, quick(epochs), 2, ModelCheckpoint{Scripted::vl, in(folder, how)});
  return {stems(saved_files), stems(folder.files())};
}
Files unwatched(Options how, TrainerOptions options, int n = 2, int k = 1) {
  Folder const folder;
  Scripted model;
  saved_files.clear();
  auto trainer = make_trainer<Scripted>(std::move(options), SavingDevice{}, Float32{},
                                        Automatic{.accumulate_grad_batches = k}, ModelCheckpoint{in(folder, how)});
  trainer.fit(model, toy::batches(n), toy::batches(1));
  return {stems(saved_files), stems(folder.files())};
}

/// Who speaks at an epoch's end, and what a save asks of them.
struct Speaks {
  void on_validation_end() { toy::trace.clear(); }  // before a validation their state is kept in memory
  void on_train_epoch_end() { toy::note("C"); }
  void state(auto& archive) {
    toy::note("C.state");
    int nothing = 0;
    archive("nothing", nothing);
  }
};
struct Stops : EarlyStopping<Metric<"vl">> {
  Stops() : EarlyStopping(Scripted::vl, {.patience = 9}) {}
  void on_train_epoch_end(auto& ctx) {
    toy::note("ES");
    EarlyStopping::on_train_epoch_end(ctx);
  }
};
struct Spoken : Scripted {
  void on_train_epoch_end() { toy::note("M"); }
};

}  // namespace

TEST_CASE("C84 without a metric each epoch saves and the latest is kept") {
  auto const files = unwatched({}, quick(3));
  CHECK(observed("C84", "saved", files.saved) == Words{at(0, 2), at(1, 4), at(2, 6)});
  CHECK(observed("C84", "kept", files.kept) == Words{at(2, 6)});
}

TEST_CASE("C85 the best k of [5, 6, 4, 7]") {
  auto const one = watched({5, 6, 4, 7}, {}), two = watched({5, 6, 4, 7}, {.save_top_k = 2});
  CHECK(observed("C85", "k1: saved", one.saved) == Words{at(0, 2), at(2, 6)});
  CHECK(observed("C85", "k1: kept", one.kept) == Words{at(2, 6)});
  CHECK(observed("C85", "k2: saved", two.saved) == Words{at(0, 2), at(1, 4), at(2, 6)});
  CHECK(observed("C85", "k2: kept", two.kept) == Words{at(0, 2), at(2, 6)});
}

TEST_CASE("C86 all of them, none, only the last") {
  CHECK(observed("C86", "k -1", unwatched({.save_top_k = -1}, quick(3)).kept) == Words{at(0, 2), at(1, 4), at(2, 6)});
  CHECK(observed("C86", "k 0", unwatched({.save_top_k = 0}, quick(3)).kept).empty());
  CHECK(observed("C86", "k 0, save_last", unwatched({.save_top_k = 0, .save_last = true}, quick(3)).kept) ==
        Words{"last"});
}

TEST_CASE("C87 mode max") {
  CHECK(observed("C87", "5 6 4", watched({5, 6, 4}, {.mode = Mode::max}).kept) == Words{at(1, 4)});
}

TEST_CASE("C88 last follows each save") {
  CHECK(observed("C88", "saved", watched({5, 6, 4}, {.save_last = true}).saved) ==
        Words{at(0, 2), "last", at(2, 6), "last"});
}

TEST_CASE("C89 every second epoch") {
  CHECK(observed("C89", "kept", unwatched({.save_top_k = -1, .every_n_epochs = 2}, quick(5)).kept) ==
        Words{at(1, 4), at(3, 8)});
}

TEST_CASE("C90 every second step; a window of batches is one step") {
  Options const how{.save_top_k = -1, .every_n_train_steps = 2};
  CHECK(observed("C90", "n5 E2", unwatched(how, quick(2), 5).saved) ==
        Words{at(0, 2), at(0, 4), at(1, 6), at(1, 8), at(1, 10)});
  CHECK(observed("C90", "K2 n6 E2", unwatched(how, quick(2), 6, 2).saved) == Words{at(0, 2), at(1, 4), at(1, 6)});
}

TEST_CASE("C92 each of two validations an epoch") {
  auto options = quick(2);
  options.val_check_interval = Fraction{0.5};
  CHECK(observed("C92", "kept", unwatched({.save_top_k = -1}, options, 4).kept) ==
        Words{at(0, 2), at(0, 4), at(1, 6), at(1, 8)});
}

TEST_CASE("C93 validation every second epoch: with it, or at each epoch's end") {
  auto options = quick(4);
  options.check_val_every_n_epoch = 2;
  CHECK(observed("C93", "default", unwatched({.save_top_k = -1}, options).kept) == Words{at(1, 4), at(3, 8)});
  CHECK(observed("C93", "epoch end", unwatched({.save_top_k = -1, .save_on_train_epoch_end = true}, options).kept) ==
        Words{at(0, 2), at(1, 4), at(2, 6), at(3, 8)});
}

TEST_CASE("C94 names from the epoch and metrics") {
  CHECK(observed("C94", "inserted",
                 watched({5}, {.filename = "{epoch:02d}-{vl:.2f}-{missing}", .extension = ".ckpt"}).kept) ==
        Words{"epoch=00-vl=5.00-missing=0"});
  CHECK(observed(
            "C94", "not inserted",
            watched({5},
                    {.filename = "e{epoch}_s{step}_vl{vl:.1f}", .auto_insert_metric_name = false, .extension = ".ckpt"})
                .kept) == Words{"e0_s2_vl5.0"});
}

TEST_CASE("C95 NaN counts as the worst") {
  auto const files = watched({nan_value, 4, 3}, {});
  CHECK(observed("C95", "saved", files.saved) == Words{at(0, 2), at(1, 4), at(2, 6)});
  CHECK(observed("C95", "kept", files.kept) == Words{at(2, 6)});
}

TEST_CASE("C96 files of an earlier run are not overwritten") {
  Folder const folder;
  Options const how{.filename = "x", .save_last = true};
  watched({5, 4}, how, folder);
  CHECK(observed("C96", "second run", watched({5, 4}, how, folder).kept) == Words{"last-v1", "last", "x-v1", "x"});
}

TEST_CASE("C97 max_steps 5, n4: the cut epoch's file") {
  auto options = quick(-1);
  options.max_steps = 5;
  CHECK(observed("C97", "kept", unwatched({}, options, 4).kept) == Words{at(1, 5)});
}

TEST_CASE("C99 a step that raises at gs 3 leaves a file where that was asked for") {
  auto kept = [](bool asked) {
    Folder const folder;
    Scripted model{.fails_at = 3};
    CHECK(outcome([&] {
            fitted(model, quick(1), 9, ModelCheckpoint{{.dirpath = folder.path, .save_on_exception = asked}});
          }) == "error");
    return stems(folder.files());
  };
  CHECK(observed("C99", "asked", kept(true)) == Words{at(0, 3)});
  CHECK(observed("C99", "not asked", kept(false)).empty());
}

TEST_CASE("C100 at an epoch's end the user's callback, the model, EarlyStopping, then the save, whatever the order "
          "they were given in") {
  Folder const folder;
  Spoken model;
  auto trainer = make_trainer<Spoken>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                      ModelCheckpoint{{.dirpath = folder.path}}, Stops{}, Speaks{});
  toy::trace.clear();
  trainer.fit(model, toy::batches(2), toy::batches(1));
  CHECK(observed("C100", "order", toy::trace) == Words{"C", "M", "ES", "C.state"});
  CHECK(stems(folder.files()) == Words{at(0, 2)});
}
