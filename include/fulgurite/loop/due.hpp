#pragma once
// Part of a run's state: what hooks and steps have asked for and the loops have yet to do.

#include <algorithm>
#include <cstddef>
#include <filesystem>
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

/// The accumulation window that is open.
struct WindowRows {
  long batches = -1;  ///< that were over when it began
  long before = 0;    ///< rows before it
};

/// A monitor wants training to end. It may withdraw that as long as the minima are not met.
struct MonitorStop {
  std::string who = {};  ///< the key of the callback's state
  std::string why = {};  ///< in words, for the last line of the fit
  void state(auto& archive) { archive("who", who)("why", why); }
};

/// A request to end training at a step's boundary, once the minima are met. It is kept and restored as a whole.
struct StopRequest {
  bool holds = false;    ///< for all ranks: `asked`, or a monitor wants it
  bool asked = false;    ///< a hook, the program or a limit of time made it: it cannot be withdrawn
  bool waits = false;    ///< under several ranks: this one made it, and the others are notified with the next gradients
  bool by_time = false;  ///< max_time or a Timer alone made it: where the limit is raised, training continues
  std::string why = {};  ///< the reason that was given first
  std::vector<MonitorStop> monitors{};

  /// Replaces what this monitor has said before.
  void set_monitor(MonitorStop const& request, bool wanted) {
    std::erase_if(monitors, [&](MonitorStop const& one) { return one.who == request.who; });
    if (wanted) monitors.push_back(request);
    holds = asked || !monitors.empty();
  }
  /// What a file holds of it: a limit of time is looked at again.
  StopRequest lasting() const {
    StopRequest all{.asked = asked && !by_time, .why = by_time ? std::string() : why, .monitors = monitors};
    all.holds = all.asked || !monitors.empty();
    return all;
  }
};

struct Due {
  StopRequest stop{};
  bool stop_of_file = false;      ///< the file that the run resumes from holds such a stop, and the limits are the same
  StopRequest stop_before_cut{};  ///< what a file holds of it, before hooks were notified of a cut epoch's end
  std::vector<std::string> other_monitors{};  ///< callbacks that have other options than in the file, or are gone
  bool statistics_pass = false;               ///< before on_train_end the training data are passed once more
  std::vector<CheckpointRequest> requests{};
  std::vector<CheckpointRequest> now{};    ///< those that are being done, one after the other
  std::size_t done = 0;                    ///< of these
  std::vector<CheckpointRequest> aside{};  ///< of a window that is not over, while a validation makes its own
  std::vector<std::pair<std::string, double>> posted{};  ///< rows of callbacks, on their way to the loggers
  std::vector<HeldRow> held_rows{};                      ///< of replayed steps that no check has followed

  Heard heard{};  ///< of an event that has failed: the others are yet to hear it

  long rows = 0;  ///< that loggers have received
  WindowRows window{};

  /// An accumulation window begins after so many batches. Rows that wait are of windows before it.
  void begin_window(long batches) {
    window = {.batches = batches, .before = rows + static_cast<long>(held_rows.size())};
  }
  /// The rows since then, which come again where that window is done again.
  long rows_of_window(long batches) const { return window.batches == batches ? std::max(0L, rows - window.before) : 0; }

  /// A request that is still to come names the file.
  bool awaits(std::filesystem::path const& file) const {
    auto const named = [&](CheckpointRequest const& one) {
      return !one.path.empty() && HeldFiles::key(one.path) == HeldFiles::key(file);
    };
    auto const some = [&](auto const& all) { return std::any_of(all.begin(), all.end(), named); };
    return std::any_of(now.begin() + static_cast<std::ptrdiff_t>(done), now.end(), named) || some(requests) ||
           some(aside);
  }

  void set_aside() { aside = std::exchange(requests, {}); }
  void take_back() {
    auto const after = std::exchange(requests, std::exchange(aside, {}));
    requests.insert(requests.end(), after.begin(), after.end());
  }
};

}  // namespace fulgurite::loop
