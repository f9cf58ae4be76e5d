#pragma once
// Says where the time of a run goes: how often each action ran, how long it took, its share.

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
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/report/profile.hpp>

namespace fulgurite {

/// Where the table goes.
struct SimpleProfilerOptions {
  std::filesystem::path dirpath = {};  ///< of the files; not given: the run's folder, else default_root_dir
  /// "perf": at the end of a fit `fit-perf.txt` is written, the table, and `fit-perf.csv`, which `tools/dev report`
  /// reads; ranks but the first put their number behind the name. Not given: no file.
  std::string filename = {};
  std::FILE* stream = stderr;  ///< nullptr: the table is not printed
  std::size_t row_limit = 20;  ///< of the printed table; files have all rows. 0: no limit
};

/// Measures each action of a run: `SimpleProfiler{}`. At the end of a fit, a validation, a test or a prediction it
/// prints a table, the most expensive action first, and one sentence that says what is slow. Ranks but the first print
/// nothing. Times are the host's: work of a GPU that nobody waits for is not in them, and shows where the host waits
/// for it. A look at the clock is all that an action costs; docs/profiling.md has the figures. `result()` has the same
/// as numbers until the next run.
class SimpleProfiler {
  using Clock = std::chrono::steady_clock;

 public:
  using Hooks = Implements<hook::setup, hook::teardown, hook::on_exception, hook::profile_action>;
  using Stateless = ByChoice;  // a run that goes on is measured from there
  static constexpr Order order = Order::profiler;

  explicit SimpleProfiler(SimpleProfilerOptions options = {});

  /// An action that has begun.
  class Running {
   public:
    Running(SimpleProfiler& profiler, ProfiledAction const& action);
    Running(Running const&) = delete;
    Running& operator=(Running const&) = delete;
    ~Running();

   private:
    SimpleProfiler* profiler_;
    ProfiledAction const* action_;
    std::int64_t outside_;
    Clock::time_point began_;
  };
  Running profile_action(ProfiledAction const& action);

  void setup();
  void teardown(Context& ctx) { tell(ctx, ""); }
  /// What was measured until then is shown as well.
  void on_exception(Context& ctx);

  /// Of the run at hand, or of the last one.
  report::Profile const& result() const { return result_; }

 private:
  struct Tally {
    ProfiledAction const* action = nullptr;
    long calls = 0;
    std::int64_t total = 0, own = 0, longest = 0;
  };

  void add(ProfiledAction const& action, std::int64_t took);

  void tell(Context& ctx, std::string_view how);

  SimpleProfilerOptions options_;
  std::vector<Tally> tallies_{};  ///< by the numbers of actions
  std::int64_t inside_ = 0;       ///< of the action at hand: what actions inside of it took, in nanoseconds
  Clock::time_point began_{};
  report::Profile result_{};
  bool runs_ = false;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/simple_profiler.ipp>
#endif
