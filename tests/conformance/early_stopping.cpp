// Section 11.9: EarlyStopping on a scripted validation metric, n2, E20.
#include <limits>

#include <fulgurite/callback/early_stopping.hpp>

#include "observed.hpp"
#include "unit/callback_run.hpp"

using namespace fulgurite;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

struct Ended {
  int epochs;
  StopReason reason;
  std::optional<int> stopped;
};
template <class M = Metric<"vl">>
Ended run(Numbers script, EarlyStoppingOptions how, int epochs = 20, M metric = Scripted::vl) {
  Scripted model{.script = std::move(script)};
  auto trainer = fitted(model, quick(epochs), 2, EarlyStopping{metric, how});
  auto const& stopping = trainer.template callback<EarlyStopping<M>>();
  return {trainer.progress().epoch, stopping.reason(), stopping.stopped_epoch()};
}

}  // namespace

TEST_CASE("C101 patience: 6, 4 and 5 epochs; stopped_epoch is one less") {
  auto const first = run({8, 4, 2, 3, 4, 5}, {.patience = 3});
  CHECK(observed("C101", "8 4 2 3 4 5 p3", first.epochs) == 6);
  CHECK(observed("C101", "8 4 2 3 4 5 p3: stopped", first.stopped) == 5);
  CHECK(first.reason == StopReason::patience);
  CHECK(observed("C101", "6 5 4 4 p1", run({6, 5, 4, 4}, {.patience = 1}).epochs) == 4);
  CHECK(observed("C101", "6 5 6 5 5 p3", run({6, 5, 6, 5, 5}, {.patience = 3}).epochs) == 5);
}

TEST_CASE("C103 mode max") {
  CHECK(observed("C103", "1 2 3 2 2 p2", run({1, 2, 3, 2, 2}, {.patience = 2, .mode = Mode::max}).epochs) == 5);
}

TEST_CASE("C104 NaN at epoch 2 stops as non-finite") {
  auto const r = run({3, 2, nan_value, 1}, {});
  CHECK(observed("C104", "3 2 nan 1", r.epochs) == 3);
  CHECK(r.reason == StopReason::non_finite);
}

TEST_CASE("C105 the stopping threshold must be passed: equal does not stop") {
  auto const r = run({9, 8, 7, 6, 5, 6, 4, 3, 2}, {.stopping_threshold = 2.9});
  CHECK(observed("C105", "2.9", r.epochs) == 9);
  CHECK(r.reason == StopReason::stopping_threshold);
  CHECK(observed("C105", "3", run({9, 3, 2}, {.stopping_threshold = 3}).epochs) == 3);
}

TEST_CASE("C106 divergence above 15.9") {
  auto const r = run({9, 4, 2, 16}, {.divergence_threshold = 15.9});
  CHECK(observed("C106", "9 4 2 16", r.epochs) == 4);
  CHECK(r.reason == StopReason::divergence);
}

TEST_CASE("C107 patience 0 on 5, 5") { CHECK(observed("C107", "5 5", run({5, 5}, {.patience = 0}).epochs) == 2); }

TEST_CASE("C108 a metric nobody logs: an error in epoch 0, unless it is not strict") {
  std::string which, said;
  CHECK(observed("C108", "strict", outcome([] { run({1}, {}, 2, Scripted::missing); }, &which, &said)) == "error");
  CHECK(which == "fulgurite.callback.early_stopping_metric");
  CHECK(said.find("by the end of epoch 0") != std::string::npos);
  CHECK(observed("C108", "not strict", run({1}, {.strict = false}, 2, Scripted::missing).epochs) == 2);
}
