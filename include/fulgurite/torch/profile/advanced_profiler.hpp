#pragma once
// Records the operators of some steps with LibTorch's own profiler: a trace to look at, and a table of what takes time.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/profile.hpp>

namespace fulgurite {

/// Which steps are recorded, what of them, and where it goes.
struct AdvancedProfilerOptions {
  int wait = 1;                        ///< batches before a recording that are left alone
  int warmup = 1;                      ///< then batches while the profiler gets ready, which are not recorded
  int active = 3;                      ///< then batches that are
  int repeat = 1;                      ///< recordings; 0: until the run ends
  std::filesystem::path dirpath = {};  ///< of the files; not given: the run's folder, else default_root_dir
  std::string filename = "profile";    ///< fit-profile-2.pt.trace.json, with the number of the first batch
  bool export_to_chrome = true;        ///< write a trace of each recording
  bool record_shapes = false;          ///< the sizes of operators' inputs, in the trace
  bool profile_memory = true;          ///< what operators allocate and free, in the trace
  bool with_flops = false;             ///< of products and convolutions, in the trace
  std::size_t row_limit = 20;          ///< rows of the table
  std::FILE* stream = stderr;          ///< nullptr: the table is not printed
};

/// Records what LibTorch does in a few steps: `AdvancedProfiler{}`. Each recording is a file that chrome://tracing and
/// ui.perfetto.dev show, the trainer's actions among the operators and, on a GPU, its kernels. At the end a table is
/// printed: self and total time of operators, calls, memory. A recorded step is slower than it would be; the others are
/// not. Only what the training thread does is seen, not workers of loaders. `operators()` has the sums until the next
/// run.
class AdvancedProfiler {
 public:
  using Hooks =
      Implements<hook::setup, hook::on_train_batch_start, hook::on_validation_batch_start, hook::on_test_batch_start,
                 hook::on_predict_batch_start, hook::teardown, hook::on_exception, hook::profile_action>;
  using Stateless = ByChoice;  // a run that goes on is recorded from there
  static constexpr Order order = Order::profiler;
  static constexpr bool records_process = true;  ///< LibTorch has one profiler: a sweep refuses it

  explicit AdvancedProfiler(AdvancedProfilerOptions options = {}) : options_(std::move(options)) {
    auto const& o = options_;
    if (o.wait < 0 || o.warmup < 0 || o.active < 1 || o.repeat < 0)
      throw Error("fulgurite.callback.profiler_schedule",
                  "AdvancedProfiler: wait = " + std::to_string(o.wait) + ", warmup = " + std::to_string(o.warmup) +
                      ", active = " + std::to_string(o.active) + ", repeat = " + std::to_string(o.repeat) +
                      ": none is negative, and at least 1 batch is recorded");
    if (o.filename.empty() || o.filename.find('/') != std::string::npos)
      throw Error("fulgurite.callback.profiler_filename",
                  "AdvancedProfiler: filename = '" + o.filename + "' is no name of a file: give the folder as dirpath");
  }
  AdvancedProfiler(AdvancedProfiler&&) = default;

  /// An action among the operators. It ends early where the recording does.
  class Running {
   public:
    Running(AdvancedProfiler& profiler, ProfiledAction const& action)
        : profiler_(&profiler), depth_(profiler.open_.size()), recording_(profiler.recordings_) {
      if (profiler.recording_ && action.counts) profiler.open(action.name);
      else profiler_ = nullptr;
    }
    Running(Running const&) = delete;
    Running& operator=(Running const&) = delete;
    ~Running() {
      if (profiler_ && profiler_->recordings_ == recording_) profiler_->close(depth_);
    }

   private:
    AdvancedProfiler* profiler_;
    std::size_t depth_;
    int recording_;
  };
  Running profile_action(ProfiledAction const& action) { return {*this, action}; }

  void setup() {
    batch_ = 0;
    recordings_ = 0;
    told_ = false;
    operators_.clear();
    traces_.clear();
  }
  void on_train_batch_start(auto& ctx) { begin_batch(ctx); }
  void on_validation_batch_start(auto& ctx) {
    if (ctx.stage() != decltype(ctx.stage())::fit) begin_batch(ctx);
  }
  void on_test_batch_start(auto& ctx) { begin_batch(ctx); }
  void on_predict_batch_start(auto& ctx) { begin_batch(ctx); }
  void teardown(auto& ctx) {
    tell(ctx);
    if (recordings_ == 0)
      ctx.warn_each("fulgurite.callback.profiler_too_short", "AdvancedProfiler has recorded nothing: the run had " +
                                                                 std::to_string(batch_) +
                                                                 " batches, and wait + warmup leave out the first " +
                                                                 std::to_string(long{options_.wait} + options_.warmup));
  }
  /// What was recorded until then is kept as well.
  void on_exception(auto& ctx) { tell(ctx); }

  /// Of the run at hand, or of the last one: operators and actions, with those first that took most by themselves.
  std::vector<report::OperatorTime> const& operators() const { return operators_; }
  std::vector<std::filesystem::path> const& traces() const { return traces_; }

 private:
  using Activity = torch::profiler::impl::ActivityType;

  /// The batch's place in its cycle of wait, warmup and active batches decides what begins or ends before it.
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

  torch::profiler::impl::ProfilerConfig config() const {
    return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO, options_.record_shapes,
                                                 options_.profile_memory, false, options_.with_flops, false);
  }
  static std::set<Activity> activities(bool gpu) {
    std::set<Activity> all{Activity::CPU};
    if (gpu) all.insert(Activity::CUDA);
    return all;
  }
  FULGURITE_COLD void prepare(bool gpu) { torch::autograd::profiler::prepareProfiler(config(), activities(gpu)); }
  FULGURITE_COLD void begin_recording(bool gpu) {
    torch::autograd::profiler::enableProfiler(
        config(), activities(gpu),
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
    recording_ = true;
    first_ = batch_ - 1;
    step_depth_ = 0;
  }
  /// What is open ends with the recording: its record is gone afterwards.
  void end_recording(auto& ctx) {
    auto const result = stop();
    if (!options_.export_to_chrome || ctx.dev_run()) return;
    auto const folder = run_output::folder(ctx, options_.dirpath);
    std::string name(run_output::name_of(ctx.stage()));
    name += '-' + options_.filename + '-' + std::to_string(first_);
    if (ctx.rank() != 0) name += "-rank" + std::to_string(ctx.rank());
    traces_.push_back(folder / (name + ".pt.trace.json"));
    result->save(traces_.back().string());
  }
  FULGURITE_COLD std::unique_ptr<torch::autograd::profiler::ProfilerResult> stop() {
    close(0);
    recording_ = false;
    ++recordings_;
    auto result = torch::autograd::profiler::disableProfiler();
    std::vector<report::OperatorEvent> events;
    for (auto const& event : result->events()) {
      bool const allocation = event.name() == "[memory]";
      events.push_back({.name = event.name(),
                        .thread = event.startThreadId(),
                        .began = static_cast<std::int64_t>(event.startNs()),
                        .ended = static_cast<std::int64_t>(event.endNs()),
                        .bytes = allocation ? event.nBytes() : 0,
                        .is_allocation = allocation,
                        .on_device = event.deviceType() != c10::DeviceType::CPU});
    }
    report::add_operator_times(operators_, report::operator_times(std::move(events)));  // events of long runs are many
    return result;
  }

  void open(std::string_view name) {
    open_.push_back(std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE));
    if (open_.back()->isActive()) open_.back()->before(std::string(name));
  }
  void close(std::size_t depth) {
    while (open_.size() > depth) open_.pop_back();
  }

  void tell(auto& ctx) {
    if (recording_) end_recording(ctx);
    if (operators_.empty() || std::exchange(told_, true)) return;
    if (!options_.stream || ctx.rank() != 0) return;
    std::string text = "AdvancedProfiler: ";
    text += run_output::name_of(ctx.stage());
    text += '\n' + report::operator_table(operators_, options_.row_limit, report::text_columns(options_.stream, 0));
    for (auto const& trace : traces_) text += "Trace: " + trace.string() + '\n';
    fulgurite::tell(options_.stream, text);
    std::fflush(options_.stream);
  }

  AdvancedProfilerOptions options_;
  bool recording_ = false, told_ = false;
  long batch_ = 0, first_ = 0;
  int recordings_ = 0;  ///< that are over
  std::size_t step_depth_ = 0;
  std::vector<std::unique_ptr<at::RecordFunction>> open_{};  ///< actions under way, the innermost last
  std::vector<report::OperatorTime> operators_{};
  std::vector<std::filesystem::path> traces_{};
};

}  // namespace fulgurite
