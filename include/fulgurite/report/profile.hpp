#pragma once
// Where the time of a run was spent: a table of its actions, and one sentence.

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

// The maximum of this process's resident memory, as Linux counts it.

/// Bytes since `restart_host_peak()`, or since the process began if the system cannot restart the count. nullopt if the
/// system does not provide it.
std::optional<double> host_peak();
/// Restarts the count of host_peak(), if the system supports it (Linux).
inline void restart_host_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

/// Reads the numbers from /proc at each call. A number that the system does not provide is left out, so on systems
/// other than Linux the list is empty.
class HostStats {
 public:
  using Stats = std::vector<std::pair<std::string, double>>;

  /// Names and values: cpu_percent (busy time of all cores since the last call), cpu_vm_percent and cpu_swap_percent
  /// (of the machine's memory), cpu_process_bytes (resident memory of this process).
  Stats read();

 private:
  void processor(Stats& stats);

  std::uint64_t all_ = 0, idle_ = 0;
};

/// The names of the parts in files.
inline constexpr std::array<std::string_view, parts_of_a_run> part_names{
    "data",       "transfer", "step",    "backward", "update", "exchange",
    "evaluation", "hooks",    "logging", "saving",   "own",    "loop"};

/// The time that a run spent on one action, in nanoseconds.
struct Spent {
  std::string action{};
  RunPart part = RunPart::loop;
  long calls = 0;
  std::int64_t total = 0;    ///< including nested actions
  std::int64_t own = 0;      ///< excluding nested actions
  std::int64_t longest = 0;  ///< the longest call
};

/// A duration for a person: "1.20 s", "35.1 ms", "812 us", "64 ns".
std::string duration_text(double nanoseconds);

namespace profile {

/// The words for a part in the sentence, after the first "... % of the time" and later, and the advice for it.
struct Words {
  std::string_view first, later, cure;
};
inline constexpr std::array<Words, parts_of_a_run> words{{
    {"waits for data", "waiting for data",
     "Let more workers make the batches, ahead of the steps, or make a batch cheaper."},
    {"moves batches to their device", "moving batches",
     "Pinned memory, larger batches, or data that stay on the device."},
    {"is training_step", "training_step", ""},
    {"is backward", "backward", ""},
    {"is the optimizer's", "the optimizer",
     "Optimizers of fulgurite::optim update all parameters in one pass; accumulate_grad_batches makes fewer updates."},
    {"is the exchange of gradients", "the exchange of gradients",
     "Ranks wait for the slowest one: see whether all have as much to do; accumulate_grad_batches exchanges less "
     "often."},
    {"is the steps of validation, test or predict", "steps of evaluations",
     "limit_val_batches and check_val_every_n_epoch make validation rarer."},
    {"is in hooks", "hooks", "The table names the one that takes it."},
    {"writes rows of loggers", "loggers", "A larger log_every_n_steps writes fewer."},
    {"writes checkpoints", "checkpoints", "save_in_background = true writes them beside the training."},
    {"is in the program's own actions", "the program's own actions", ""},
    {"is the trainer's, or cannot be attributed", "everything else", ""},
}};

}  // namespace profile

/// The actions of a run, and its total time.
struct Profile {
  std::vector<Spent> spent{};
  std::int64_t total = 0;

  /// The time of each part, excluding nested parts, in percent of the run; time outside of any action belongs to the
  /// loop.
  std::array<double, parts_of_a_run> shares() const;

  /// "62 % of the time waits for data, 21 % is backward, 12 % training_step, 5 % the rest: ..." and, if the largest
  /// part is not the model's own, advice.
  std::string sentence() const;

  /// The actions, the longest total first, in the layout of Lightning's SimpleProfiler. Own: excluding nested actions.
  /// `most`: the maximum number of rows; the table says how many are left out. `columns`: the maximum width; a wider
  /// table first loses its last columns, then the beginnings of names, then the calls and the mean. 0 means no limit.
  std::string table(std::size_t most = 0, std::size_t columns = 0) const;

 private:
  TextTable table_of(std::vector<Spent> const& rows) const;
};

/// The profile as CSV: part,action,calls,total_s,own_s,longest_s; the first row is the whole run.
std::string profile_csv(Profile const& profile);

// Which operators took the time: sums events with a beginning and an end.

/// One execution of an operator. Times are in nanoseconds, of one clock.
struct OperatorEvent {
  std::string name{};
  std::uint64_t thread = 0;
  std::int64_t began = 0, ended = 0;
  std::int64_t bytes = 0;      ///< allocated, or freed if negative; only for allocation events
  bool is_allocation = false;  ///< an allocation inside of the operator that requested it
  bool on_device = false;      ///< a kernel of a GPU
};

/// The sums of all events of one name.
struct OperatorTime {
  std::string name{};
  long calls = 0;
  std::int64_t own = 0, total = 0;  ///< excluding and including nested operators
  std::int64_t bytes = 0;           ///< allocated minus freed, excluding nested operators
  std::int64_t device = 0;          ///< time on a GPU
};

/// Sums events by name, sorted by own time, the longest first. On one thread events are nested.
std::vector<OperatorTime> operator_times(std::vector<OperatorEvent> events);

/// Adds the sums of another recording.
void add_operator_times(std::vector<OperatorTime>& rows, std::vector<OperatorTime> more);

/// The first rows as a table. Percentages are of the sum of all own times.
std::string operator_table(std::vector<OperatorTime> const& rows, std::size_t most = 20, std::size_t columns = 0);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/profile.ipp>
#endif
