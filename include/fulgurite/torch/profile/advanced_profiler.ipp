#pragma once
// The bodies of torch/profile/advanced_profiler.hpp.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <set>

#include <torch/csrc/autograd/profiler_kineto.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/profile/advanced_profiler.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY AdvancedProfiler::AdvancedProfiler(AdvancedProfilerOptions options) : options_(std::move(options)) {
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

FULGURITE_BULK_BODY AdvancedProfiler::Running::Running(AdvancedProfiler& profiler, ProfiledAction const& action)
    : profiler_(&profiler), depth_(profiler.open_.size()), recording_(profiler.recordings_) {
  if (profiler.recording_ && action.counts) profiler.open(action.name);
  else profiler_ = nullptr;
}

FULGURITE_BULK_BODY AdvancedProfiler::Running::~Running() {
  if (profiler_ && profiler_->recordings_ == recording_) profiler_->close(depth_);
}

FULGURITE_BULK_BODY void AdvancedProfiler::setup() {
  batch_ = 0;
  recordings_ = 0;
  printed_ = false;
  operators_.clear();
  traces_.clear();
}

/// Calls `f(configuration, activities)`, as LibTorch's profiler takes them.
void with_activities(AdvancedProfilerOptions const& options, bool gpu, auto const& f) {
  using namespace torch::profiler::impl;
  std::set<ActivityType> activities{ActivityType::CPU};
  if (gpu) activities.insert(ActivityType::CUDA);
  f(ProfilerConfig(ProfilerState::KINETO, options.record_shapes, options.profile_memory, false, options.with_flops,
                   false),
    activities);
}

FULGURITE_BODY void AdvancedProfiler::prepare(bool gpu) {
  with_activities(options_, gpu, torch::autograd::profiler::prepareProfiler);
}

FULGURITE_BODY void AdvancedProfiler::begin_recording(bool gpu) {
  with_activities(options_, gpu, [](auto const& config, auto const& activities) {
    torch::autograd::profiler::enableProfiler(
        config, activities,
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  });
  recording_ = true;
  first_ = batch_ - 1;
  step_depth_ = 0;
}

FULGURITE_BODY void AdvancedProfiler::stop(FunctionRef<std::filesystem::path()> trace) {
  close(0);
  recording_ = false;
  ++recordings_;
  auto const result = torch::autograd::profiler::disableProfiler();
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
  report::add_operator_times(operators_, report::operator_times(std::move(events)));  // now: long runs have many events
  auto const file = trace();
  if (file.empty()) return;
  traces_.push_back(file);
  result->save(file.string());
}

FULGURITE_BULK_BODY void AdvancedProfiler::open(std::string_view name) {
  open_.push_back(std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE));
  if (open_.back()->isActive()) open_.back()->before(std::string(name));
}

FULGURITE_BULK_BODY void AdvancedProfiler::close(std::size_t depth) {
  while (open_.size() > depth) open_.pop_back();
}

}  // namespace fulgurite
