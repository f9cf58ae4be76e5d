#pragma once
// Reports where the time of a run is spent: how often each action ran, how long it took, and its share.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/report/profile.hpp>

namespace fulgurite {

/// Options of SimpleProfiler: where the table is printed and written.
struct SimpleProfilerOptions {
  std::filesystem::path dirpath = {};  ///< the folder of the files; not given: the run's folder, else default_root_dir
  /// With "perf", the end of a fit writes `fit-perf.txt`, the table, and `fit-perf.csv`, which `tools/dev report`
  /// reads; ranks other than zero append their number to the name. Not given: no file.
  std::string filename = {};
  std::FILE* stream = stderr;  ///< nullptr: the table is not printed
  std::size_t row_limit = 20;  ///< limit of the printed table; files have all rows. 0: no limit
};

/// Measures each action of a run: `SimpleProfiler{}`. At the end of a fit, a validation, a test or a prediction it
/// prints a table, the most expensive action first, and one sentence that says what is slow. Only rank zero prints.
/// Times are the host's: asynchronous work of a GPU is not included, and shows up where the host waits for it. The cost
/// of each action is reading the clock; docs/profiling.md has measurements. `result()` returns the same as numbers
/// until the next run.
class SimpleProfiler {
  using Clock = std::chrono::steady_clock;

 public:
  using Hooks = Implements<hook::setup, hook::teardown, hook::on_exception, hook::profile_action>;
  using Stateless = ByChoice;  // a resumed run is measured from where it resumes
  static constexpr Order order = Order::profiler;

  explicit SimpleProfiler(SimpleProfilerOptions options = {});
  FULGURITE_NAMED_OPTIONS(SimpleProfiler);

  /// An action in progress.
  class Running : Pinned {
   public:
    Running(SimpleProfiler& profiler, ProfiledAction const& action);
    ~Running();

   private:
    SimpleProfiler* profiler_;
    ProfiledAction const* action_;
    std::int64_t outside_;
    Clock::time_point began_;
  };
  Running profile_action(ProfiledAction const& action);

  void setup();
  void teardown(Context& ctx) { print(ctx, ""); }
  /// Reports what was measured until the exception.
  void on_exception(Context& ctx);

  /// The profile of the current run, or of the last one.
  report::Profile const& result() const { return result_; }

 private:
  struct Tally {
    ProfiledAction const* action = nullptr;
    long calls = 0;
    std::int64_t total = 0, own = 0, longest = 0;
  };

  void add(ProfiledAction const& action, std::int64_t took);

  void print(Context& ctx, std::string_view how);

  SimpleProfilerOptions options_;
  std::vector<Tally> tallies_{};  ///< indexed by the numbers of actions
  std::int64_t inside_ = 0;       ///< the time, in nanoseconds, that nested actions of the current action took
  Clock::time_point began_{};
  report::Profile result_{};
  bool runs_ = false;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/simple_profiler.ipp>
#endif
