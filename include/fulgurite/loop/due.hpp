#pragma once
// Part of a run's state: what hooks and steps have asked for and the loops have yet to do.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/heard.hpp>

namespace fulgurite::loop {

/// A row that waits for a check of the steps that it tells of.
struct HeldRow {
  std::vector<std::pair<std::string, double>> cells;
  long step;
};

struct Due {
  bool stop = false;             ///< training is to end at a step's boundary, once the minima are met
  bool statistics_pass = false;  ///< before on_train_end the training data are passed once more
  std::vector<CheckpointRequest> requests{};
  std::vector<CheckpointRequest> aside{};  ///< of a window that is not over, while a validation makes its own
  std::vector<std::pair<std::string, double>> posted{};  ///< rows of callbacks, on their way to the loggers
  std::vector<HeldRow> held_rows{};                      ///< of replayed steps that no check has followed

  Heard heard{};  ///< of an event that has failed: the others are yet to hear it

  long rows = 0;            ///< that loggers have received
  long rows_at_window = 0;  ///< those before the window that began when so many batches were over:
  long window = -1;

  /// An accumulation window begins after so many batches. Rows that wait are of windows before it.
  void begin_window(long batches) {
    rows_at_window = rows + static_cast<long>(held_rows.size());
    window = batches;
  }
  /// The rows since then, which come again where that window is done again.
  long rows_of_window(long batches) const { return window == batches ? std::max(0L, rows - rows_at_window) : 0; }

  void set_aside() { aside = std::exchange(requests, {}); }
  void take_back() {
    auto const after = std::exchange(requests, std::exchange(aside, {}));
    requests.insert(requests.end(), after.begin(), after.end());
  }
};

}  // namespace fulgurite::loop
