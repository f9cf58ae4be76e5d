// A program that is started again when its training is over, as supervisors of long runs do.
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {

struct Counts {
  using Stateless = ByChoice;
  int batches = 0;
  void on_train_batch_end() { ++batches; }
};

struct Budget {
  using Stateless = ByChoice;
  void on_train_epoch_start(Context& ctx) {
    if (ctx.current_epoch() == 0) ctx.request_stop("the budget");
  }
};

struct Ran {
  int epochs = 0;
  int batches = 0;  ///< of this start alone
  double weight = 0;
  std::string said{};
  bool operator==(Ran const&) const = default;
};

/// Starts the program: its validation gets worse from epoch 1 on.
Ran started(Folder const& folder, TrainerOptions options, std::optional<CkptPath> from = CkptPath{"last"}) {
  Ran ran;
  Scripted model{.script = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14}};
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{},
                                        EarlyStopping{Scripted::vl, {.patience = 2}},
                                        ModelCheckpoint{{.dirpath = folder.path, .save_last = true}}, Counts{});
  ran.said = said([&] { trainer.fit(model, toy::batches(4), toy::batches(1), *from); });
  ran.epochs = trainer.progress().epoch;
  ran.batches = trainer.template callback<Counts>().batches;
  ran.weight = model.p.value();
  return ran;
}

/// A clock that is a second later each time it is read.
std::chrono::steady_clock::time_point a_second_later() {
  static int reads = 0;
  return std::chrono::steady_clock::time_point{std::chrono::seconds(++reads)};
}

}  // namespace

TEST_CASE("finished: a program that EarlyStopping has ended trains nothing more, however often it is started again") {
  Folder const folder;
  auto const first = started(folder, quick(10));
  REQUIRE(first.epochs == 3);
  REQUIRE(first.batches == 12);
  for (int i = 0; i != 3; ++i) {
    auto const again = started(folder, quick(10));
    CHECK(again.epochs == 3);
    CHECK(again.batches == 0);
    CHECK(again.weight == first.weight);
    CHECK(again.said.find("[fulgurite.resume.finished]") != std::string::npos);
    CHECK(again.said.find("resumes from") == std::string::npos);
  }
}

TEST_CASE("finished: it goes on where max_epochs, max_steps or max_time is another") {
  auto const goes_on = [](TrainerOptions const& options) {
    Folder const folder;
    started(folder, quick(10));
    auto const then = started(folder, options);
    CHECK(then.said.find("[fulgurite.resume.finished]") == std::string::npos);
    return then.batches;
  };
  auto options = quick(11);
  CHECK(goes_on(options) == 4);  // another epoch without improvement
  options = quick(10);
  options.max_steps = 14;
  CHECK(goes_on(options) == 2);
  options = quick(10);
  options.max_time = std::chrono::hours(1);
  CHECK(goes_on(options) == 4);
}

TEST_CASE("finished: a limit that is reached and not raised trains nothing more, and says which") {
  auto const check = [](TrainerOptions const& limited, TrainerOptions const& raised, std::string const& limit) {
    Folder const folder;
    auto const first = started(folder, limited);
    auto const again = started(folder, limited);
    CHECK(again.batches == 0);
    CHECK(again.weight == first.weight);
    CHECK(again.said.find("[fulgurite.resume.finished] the resumed run had ended by " + limit + ", so nothing") !=
          std::string::npos);
    CHECK(again.said.find("resumes from") == std::string::npos);
    auto const then = started(folder, raised);
    CHECK(then.batches > 0);
    CHECK(then.said.find("[fulgurite.resume.finished]") == std::string::npos);
  };
  check(quick(1), quick(2), "max_epochs = 1");
  auto steps = quick(10), more_steps = steps;
  steps.max_steps = 6;
  more_steps.max_steps = 7;
  check(steps, more_steps, "max_steps = 6");
  auto timed = quick(10), longer = timed;
  timed.now = longer.now = &a_second_later;
  timed.max_time = std::chrono::seconds(9);
  longer.max_time = std::chrono::hours(1);
  check(timed, longer, "max_time");
}

TEST_CASE("finished: so does one that EarlyStopping has ended inside an epoch, which another limit takes up there") {
  auto inside = quick(10);
  inside.val_check_interval = 2;  // of the 4 batches of an epoch
  Folder const folder;
  auto const first = started(folder, inside);
  REQUIRE(first.batches == 6);
  for (int i = 0; i != 3; ++i) {
    auto const again = started(folder, inside);
    CHECK(again.epochs == first.epochs);
    CHECK(again.batches == 0);
    CHECK(again.weight == first.weight);
    CHECK(again.said.find("[fulgurite.resume.finished]") != std::string::npos);
    CHECK(again.said.find("resumes from") == std::string::npos);
  }
  auto other = inside;
  other.max_epochs = 11;
  auto const then = started(folder, other);
  CHECK(then.said.find("[fulgurite.resume.finished]") == std::string::npos);
  CHECK(then.said.find("resumes from") != std::string::npos);
  CHECK(then.batches == 2);  // to the next validation, which is without improvement, too
}

TEST_CASE("finished: a stop that waits for min_epochs keeps its reason where the program closes the fit before") {
  Folder const folder;
  auto const ended_by = [&](int batches) {
    Scripted model;
    auto options = quick(9);
    options.min_epochs = 3;
    auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{},
                                          ModelCheckpoint{{.dirpath = folder.path, .save_last = true}}, Budget{});
    auto train = toy::batches(4), val = toy::batches(1);
    auto fit = trainer.open(model, train, val, CkptPath{"last"});
    for (int i = 0; i != batches; ++i) fit.advance();
    fit.close();
    return trainer.outcome().ended_by;
  };
  CHECK(ended_by(6) == "close() of the open fit");
  CHECK(ended_by(99) == "the budget");
}

TEST_CASE("finished: a fit that resumes from a snapshot at a limit says so, and of no file") {
  Scripted model;
  ScriptedTrainer<> trainer(quick(1), SavingDevice{}, Float32{}, Automatic{});
  trainer.fit(model, toy::batches(4), NoValidation{});
  auto const kept = snapshot(trainer);
  auto const warned = said([&] { trainer.fit(model, toy::batches(4), NoValidation{}, kept); });
  CHECK(warned.find("[fulgurite.resume.finished] the resumed run had ended by max_epochs = 1") != std::string::npos);
  CHECK(warned.find("file") == std::string::npos);
  CHECK(trainer.progress().global_step == 4);
}

TEST_CASE("finished: a fit that its program has closed inside an epoch is not, and continues there") {
  auto const ran = [](Folder const& folder, int batches) {
    Scripted model;
    auto trainer = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{},
                                          ModelCheckpoint{{.dirpath = folder.path, .save_last = true}}, Counts{});
    auto train = toy::batches(4), val = toy::batches(1);
    auto const warned = said([&] {
      auto fit = trainer.open(model, train, val, CkptPath{"last"});
      for (int i = 0; i != batches; ++i) fit.advance();
      fit.close();
    });
    CHECK(warned.find("[fulgurite.resume.finished]") == std::string::npos);
    return std::tuple(trainer.progress().epoch, trainer.template callback<Counts>().batches, model.p.value());
  };
  Folder const folder;
  CHECK(ran(folder, 2) == std::tuple(1, 2, 2.0));
  CHECK(ran(folder, 1) == std::tuple(1, 1, 3.0));
  CHECK(ran(folder, 9) == std::tuple(2, 5, 8.0));
}

namespace {
/// Requests a stop after each validation.
struct StopsThen {
  using Stateless = ByChoice;
  Stop on_validation_end(auto& ctx) { return Stop{ctx.stage() == Stage::validate}; }
};
}  // namespace

TEST_CASE("finished: a stop that a hook returns in validate, outside of a fit, is in no file") {
  Folder const folder;
  Scripted model;
  auto train = toy::batches(4), val = toy::batches(1);
  auto trainer = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{}, StopsThen{});
  {
    auto fit = trainer.open(model, train, val);
    fit.advance();
    fit.close();
  }
  trainer.validate(model, val);
  trainer.save_checkpoint(folder / "closed");
  auto then = make_trainer<Scripted>(quick(2), SavingDevice{}, Float32{}, Automatic{}, StopsThen{});
  CHECK(said([&] { then.fit(model, train, val, CkptPath{folder / "closed"}); }).starts_with("resumes from"));
  CHECK(then.progress().global_step == 8);
}
