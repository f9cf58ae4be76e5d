// Checkpoints are requested by anybody and written at safe points: after the event was heard by all, never inside a
// window.
#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include "models.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::note;
using toy::Trace;
using toy::trace;

namespace {

struct Noted : toy::Validated {
  void on_train_batch_end(auto& ctx) { note("model " + std::to_string(ctx.batch_idx())); }
  void on_validation_end() { note("model validated"); }
  void on_train_epoch_end() { note("model epoch"); }
  void on_train_end() { note("model end"); }
};

/// Requests at the places named; says what the trainer wrote since it was last called.
template <class F>
struct Saves {
  using Stateless = ByChoice;
  F wanted;
  std::size_t seen = 0;
  void hear(std::string const& event, auto& ctx) {
    for (; seen != toy::world.saved.size(); ++seen) note("written " + toy::world.saved[seen]);
    note("C " + event);
    if (wanted(event)) ctx.request_checkpoint(event);
  }
  void on_train_batch_start(auto& ctx) { hear("start " + std::to_string(ctx.batch_idx()), ctx); }
  void on_train_batch_end(auto& ctx) { hear("batch " + std::to_string(ctx.batch_idx()), ctx); }
  void on_validation_start(auto& ctx) { hear("validation", ctx); }
  void on_validation_end(auto& ctx) { hear("validated", ctx); }
  void on_train_epoch_end(auto& ctx) { hear("epoch", ctx); }
  void on_train_end(auto& ctx) { hear("end", ctx); }
  void on_fit_end(auto& ctx) { hear("fit", ctx); }
};
template <class F>
Saves(F) -> Saves<F>;

Trace fit(TrainerOptions options, int n, Automatic how, auto wanted, auto... more) {
  Noted model;
  options.num_sanity_val_steps = 0;
  trace.clear();
  toy::world.saved.clear();
  toy::train<Noted>(options, how, Saves{wanted}, more...).fit(model, toy::batches(n), toy::batches(1));
  return trace;
}

/// A request that writes two files and gives up others, with one by name behind it.
struct Rotates {
  using Stateless = ByChoice;
  std::filesystem::path folder;
  std::vector<bool> old_there = {}, taken = {};
  void on_train_batch_end(auto& ctx) {
    auto const at = [this](char const* name) { return folder / name; };
    ctx.held_files().hold(at("held"), nullptr);
    ctx.request_checkpoint({this, [this, at](CheckpointFiles& files) {
                              for (auto const* name : {"new", "old", "second", "third", "held"})
                                taken.push_back(files.taken(at(name)));
                              files.write(at("new"));
                              files.write(at("last"));
                              for (auto const* name : {"old", "second", "held"}) files.give_up(at(name));
                            }});
    for (auto const* name : {"second", "third"}) ctx.request_checkpoint(at(name));
    old_there.push_back(std::filesystem::exists(at("old")));
  }
};

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("fulgurite-requests-" + std::to_string(::getpid()));
  Folder() {
    std::filesystem::create_directories(path);
    for (auto const* name : {"old", "last", "second", "held"}) std::ofstream(path / name) << name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  bool has(char const* name) const { return std::filesystem::exists(path / name); }
};

}  // namespace

TEST_CASE("a request is written after the model has heard the same event, before the next one") {
  CHECK(fit({.max_epochs = 1}, 1, {}, [](auto&) { return true; }) ==
        Trace{"C start 0", "C batch 0", "model 0", "written start 0", "written batch 0", "C validation", "C validated",
              "model validated", "written validation", "written validated", "C epoch", "model epoch", "written epoch",
              "C end", "model end", "written end", "C fit"});
  CHECK(toy::world.saved.back() == "fit");
}

TEST_CASE("inside a window a request waits for its step") {
  auto const wanted = [](std::string const& event) { return event == "batch 0"; };
  CHECK(fit({.max_epochs = 1, .limit_val_batches = 0}, 4, {.accumulate_grad_batches = 3}, wanted) ==
        Trace{"C start 0", "C batch 0", "model 0", "C start 1", "C batch 1", "model 1", "C start 2", "C batch 2",
              "model 2", "written batch 0", "C start 3", "C batch 3", "model 3", "C epoch", "model epoch", "C end",
              "model end", "C fit"});
}

TEST_CASE("a validation inside a window: its request is written at once, with the weights it scored; a stop's flush "
          "lets an earlier one through") {
  auto const validated = [](std::string const& event) { return event == "validated"; };
  CHECK(fit({.max_epochs = 1, .val_check_interval = 2}, 3, {.accumulate_grad_batches = 3}, validated) ==
        Trace{"C start 0", "C batch 0", "model 0", "C start 1", "C batch 1", "model 1", "C validation", "C validated",
              "model validated", "written validated", "C start 2", "C batch 2", "model 2", "C epoch", "model epoch",
              "C end", "model end", "C fit"});
  auto const batch = [](std::string const& event) { return event == "batch 1"; };
  CHECK(fit({.max_epochs = 5}, 8, {.accumulate_grad_batches = 4}, batch, toy::stop_at(0, 1)) ==
        Trace{"C start 0", "C batch 0", "model 0", "C start 1", "C batch 1", "model 1", "written batch 1",
              "C validation", "C validated", "model validated", "C epoch", "model epoch", "C end", "model end",
              "C fit"});
}

TEST_CASE("a function writes and gives up files; what others count on, or still ask for, stays; one that fails does "
          "not stop the others") {
  Folder folder;
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 1}, Automatic{}, Rotates{folder.path});
  toy::world.saved.clear();
  toy::world.disk_full = true;
  CHECK_THROWS(trainer.fit(model, toy::batches(1)));
  toy::world.disk_full = false;
  CHECK(folder.has("old"));                 // nothing could be written, so nothing gave way
  REQUIRE(trainer.warnings().size() == 1);  // of the two that followed, said once
  CHECK(trainer.warnings().front() == "[fulgurite.checkpoint.failed_too] after another file, this one could not be "
                                      "written: no space left on device");

  trainer.fit(model, toy::batches(1));
  auto const at = [&](char const* name) { return (folder.path / name).string(); };
  CHECK(toy::world.saved == std::vector<std::string>{at("new"), at("last"), at("second"), at("third")});
  auto const& rotates = trainer.callback<Rotates>();
  CHECK(rotates.old_there == std::vector<bool>{true, true});
  // "new" was written by nobody yet; "third" is only asked for, "held" is the run's.
  CHECK(rotates.taken == std::vector<bool>{false, true, true, true, true, false, true, true, true, true});
  CHECK_FALSE(folder.has("old"));
  CHECK(folder.has("last"));
  CHECK(folder.has("second"));
  CHECK(folder.has("held"));
}

namespace {

/// Asks for a file, and posts a row, when a fit starts and inside of the sanity check.
struct AsksEarly {
  using Stateless = ByChoice;
  void on_fit_start(auto& ctx) { ask("started", ctx); }
  void on_sanity_check_end(auto& ctx) { ask("sane", ctx); }
  void log_metrics(std::span<Scalar const> row, long x) { note(std::string(row[0].name) + " at " + std::to_string(x)); }

 private:
  static void ask(std::string const& what, auto& ctx) {
    Scalar const row[] = {{what, 1.0}};
    ctx.log_scalars(row);
    ctx.request_checkpoint(what);
  }
};

}  // namespace

TEST_CASE("what on_fit_start asked for comes after the sanity check, of which nothing is kept") {
  for (int const batches : {0, 1}) {
    CAPTURE(batches);
    toy::Validated model;
    trace.clear();
    toy::world.saved.clear();
    toy::train<toy::Validated>({.max_epochs = 1, .num_sanity_val_steps = batches, .log_every_n_steps = 0}, Automatic{},
                               AsksEarly{})
        .fit(model, toy::batches(1), toy::batches(1));
    CHECK(toy::world.saved == std::vector<std::string>{"started"});
    CHECK(trace == Trace{"started at 0"});
  }
}

TEST_CASE("only rank 0 writes") {
  struct Other : toy::Device {
    int rank() const { return 1; }
  };
  toy::P model;
  toy::world.saved.clear();
  Folder folder;
  make_trainer<toy::P>({.max_epochs = 1}, Other{}, Float32{}, Automatic{}, Rotates{folder.path})
      .fit(model, toy::batches(1));
  CHECK(toy::world.saved.empty());
  CHECK(folder.has("old"));
}

TEST_CASE("save_checkpoint: now, between fits; before any there is nothing to save") {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 1}, Automatic{});
  CHECK(toy::refusal([&] { trainer.save_checkpoint("early"); }) == "fulgurite.trainer.nothing_to_save");
  trainer.fit(model, toy::batches(1));
  toy::world.saved.clear();
  trainer.save_checkpoint("now");
  CHECK(toy::world.saved == std::vector<std::string>{"now"});
}

namespace {

struct SavesWhenValidated {
  void on_validation_end(auto& ctx) { ctx.request_checkpoint("never"); }
};

}  // namespace

TEST_CASE("a request outside fit is an error, since nothing would be written") {
  toy::Validated model;
  auto const val = toy::batches(1);
  auto trainer = make_trainer<toy::Validated>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                              SavesWhenValidated{});
  try {
    trainer.validate(model, val);
    FAIL("it was taken");
  } catch (Error const& error) { CHECK(error.identifier() == "fulgurite.context.outside_fit"); }
}
