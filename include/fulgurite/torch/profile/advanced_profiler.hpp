#pragma once
// Records the operators of some steps with LibTorch's profiler: writes a trace, and prints a table of the time they
// take.

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/record_function.h>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/profile.hpp>

namespace fulgurite {

/// Options of AdvancedProfiler: which steps are recorded, what is recorded of them, and where the result goes.
struct AdvancedProfilerOptions {
  int wait = 1;                        ///< batches before each recording that are skipped
  int warmup = 1;                      ///< batches after those for the profiler's warm-up, not recorded
  int active = 3;                      ///< batches after those that are recorded
  int repeat = 1;                      ///< the number of recordings; 0: until the run ends
  std::filesystem::path dirpath = {};  ///< folder of the files; default: the run's folder, otherwise default_root_dir
  std::string filename = "profile";    ///< as in fit-profile-2.pt.trace.json, where 2 is the first batch
  bool export_to_chrome = true;        ///< write a trace of each recording
  bool record_shapes = false;          ///< record the sizes of operators' inputs in the trace
  bool profile_memory = true;          ///< record memory that operators allocate and free in the trace
  bool with_flops = false;             ///< record FLOPs of matrix products and convolutions in the trace
  std::size_t row_limit = 20;          ///< rows of the table
  std::FILE* stream = stderr;          ///< where the table is printed; nullptr: nowhere
};

/// Records LibTorch's operators in a few steps, to find out what takes time: `AdvancedProfiler{}`,
/// `AdvancedProfiler{{.wait = 10, .active = 5}}`. Each recording is a file for
/// chrome://tracing or ui.perfetto.dev. It shows the trainer's actions among the operators and, on a GPU, its kernels.
/// At the end a table is printed: self and total time of operators, calls, memory. Recorded steps are slower than
/// normal ones; other steps are not. Only the training thread is recorded, not the workers of loaders. `operators()`
/// returns the totals until the next run.
class AdvancedProfiler {
 public:
  using Hooks =
      Implements<hook::setup, hook::on_train_batch_start, hook::on_validation_batch_start, hook::on_test_batch_start,
                 hook::on_predict_batch_start, hook::teardown, hook::on_exception, hook::profile_action>;
  using Stateless = ByChoice;  // a resumed run is recorded from where it resumes
  static constexpr Order order = Order::profiler;
  static constexpr bool records_process = true;  ///< LibTorch has one profiler per process: not for sweeps

  explicit AdvancedProfiler(AdvancedProfilerOptions options = {});
  FULGURITE_NAMED_OPTIONS(AdvancedProfiler);
  AdvancedProfiler(AdvancedProfiler&&) = default;

  /// An action among the operators. It ends early if the recording does.
  class Running : Pinned {
   public:
    Running(AdvancedProfiler& profiler, ProfiledAction const& action);
    ~Running();

   private:
    AdvancedProfiler* profiler_;
    std::size_t depth_;
    int recording_;
  };
  Running profile_action(ProfiledAction const& action) { return {*this, action}; }

  void setup();
  void on_train_batch_start(auto& ctx) { begin_batch(ctx); }
  void on_validation_batch_start(auto& ctx) {
    if (ctx.stage() != decltype(ctx.stage())::fit) begin_batch(ctx);
  }
  void on_test_batch_start(auto& ctx) { begin_batch(ctx); }
  void on_predict_batch_start(auto& ctx) { begin_batch(ctx); }
  void teardown(auto& ctx) {
    print(ctx);
    if (recordings_ == 0)
      ctx.warn_each("fulgurite.callback.profiler_too_short", "AdvancedProfiler has recorded nothing: the run had " +
                                                                 std::to_string(batch_) +
                                                                 " batches, and wait + warmup leave out the first " +
                                                                 std::to_string(long{options_.wait} + options_.warmup));
  }
  /// Also keeps what was recorded before an exception.
  void on_exception(auto& ctx) { print(ctx); }

  /// Operators and actions of the current or last run, sorted by self time, longest first.
  std::vector<report::OperatorTime> const& operators() const { return operators_; }
  std::vector<std::filesystem::path> const& traces() const { return traces_; }

 private:
  /// The batch's place in the cycle of wait, warmup and active batches decides what begins or ends before it.
  void begin_batch(auto& ctx) {
    long const length = long{options_.wait} + options_.warmup + options_.active, at = batch_++ % length;
    if (recording_ && at == 0) end_recording(ctx);
    if (options_.repeat != 0 && recordings_ >= options_.repeat) return;
    if (at == options_.wait) prepare(on_gpu(ctx));
    if (at == options_.wait + options_.warmup) begin_recording(on_gpu(ctx));
    if (recording_) {
      close(step_depth_);
      step_depth_ = open_.size();
      open("ProfilerStep#" + std::to_string(batch_ - 1));
    }
  }
  static bool on_gpu(auto& ctx) { return at::Device(ctx.device()).is_cuda(); }

  void prepare(bool gpu);
  void begin_recording(bool gpu);
  void end_recording(auto& ctx) {
    stop([&]() -> std::filesystem::path {
      if (!options_.export_to_chrome || ctx.dev_run()) return {};
      auto const folder = run_output::folder(ctx, options_.dirpath);
      std::string name(run_output::name_of(ctx.stage()));
      name += '-' + options_.filename + '-' + std::to_string(first_);
      if (ctx.rank() != 0) name += "-rank" + std::to_string(ctx.rank());
      return folder / (name + ".pt.trace.json");
    });
  }
  /// Ends open actions first, since the recording deletes their records. `trace()` is then the file to write, or empty.
  void stop(FunctionRef<std::filesystem::path()> trace);

  void open(std::string_view name);
  void close(std::size_t depth);

  void print(auto& ctx) {
    if (recording_) end_recording(ctx);
    if (operators_.empty() || std::exchange(printed_, true)) return;
    if (!options_.stream || ctx.rank() != 0) return;
    std::string text = "AdvancedProfiler: ";
    text += run_output::name_of(ctx.stage());
    text += '\n' + report::operator_table(operators_, options_.row_limit, report::text_columns(options_.stream, 0));
    for (auto const& trace : traces_) text += "Trace: " + trace.string() + '\n';
    fulgurite::print_lines(options_.stream, text);
    std::fflush(options_.stream);
  }

  AdvancedProfilerOptions options_;
  bool recording_ = false, printed_ = false;
  long batch_ = 0, first_ = 0;
  int recordings_ = 0;  ///< completed recordings
  std::size_t step_depth_ = 0;
  std::vector<std::unique_ptr<at::RecordFunction>> open_{};  ///< running actions, innermost last
  std::vector<report::OperatorTime> operators_{};
  std::vector<std::filesystem::path> traces_{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/profile/advanced_profiler.ipp>
#endif
