#pragma once
// The phases of a run, which decide what a context offers.

namespace fulgurite {

/// The phases of a run. `setup`, `teardown`, `on_fit_*` and `configure_optimizers` run in Fit (or in the stage's own
/// phase).
namespace phase {
struct Fit {
  static constexpr bool logs = false, trains = true, evaluates = false;
};
struct Train {
  static constexpr bool logs = true, trains = true, evaluates = false;
};
struct Validate {
  static constexpr bool logs = true, trains = true, evaluates = true;
};
struct Test {
  static constexpr bool logs = true, trains = false, evaluates = true;
};
/// on_train_end, on_validation_end, on_test_end: the rows are written, what would be logged now could go nowhere.
struct TrainEnd : Train {
  static constexpr bool logs = false;
};
struct ValidateEnd : Validate {
  static constexpr bool logs = false;
};
struct TestEnd : Test {
  static constexpr bool logs = false;
};
struct Predict {
  static constexpr bool logs = false, trains = false, evaluates = true;
};
}  // namespace phase

}  // namespace fulgurite
