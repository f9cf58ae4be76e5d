#pragma once
// The phases of a run, which decide what a context offers.

namespace fulgurite {

/// The phases of a run. `setup`, `teardown`, `on_fit_*` and `configure_optimizers` run in Fit (or in the stage's own
/// phase).
namespace phase {
/// Before the first and after the last batch of a run.
struct Fit {
  static constexpr bool logs = false, trains = true, evaluates = false;
};
/// Training: steps, and the hooks around batches and epochs.
struct Train {
  static constexpr bool logs = true, trains = true, evaluates = false;
};
/// Validation, inside a fit or by validate().
struct Validate {
  static constexpr bool logs = true, trains = true, evaluates = true;
};
/// test().
struct Test {
  static constexpr bool logs = true, trains = false, evaluates = true;
};
/// on_train_end, on_validation_end, on_test_end: the rows are written, what would be logged now could go nowhere.
struct TrainEnd : Train {
  static constexpr bool logs = false;
};
/// on_validation_end.
struct ValidateEnd : Validate {
  static constexpr bool logs = false;
};
/// on_test_end.
struct TestEnd : Test {
  static constexpr bool logs = false;
};
/// predict(): what a step returns is the result, so nothing is logged.
struct Predict {
  static constexpr bool logs = false, trains = false, evaluates = true;
};
}  // namespace phase

}  // namespace fulgurite
