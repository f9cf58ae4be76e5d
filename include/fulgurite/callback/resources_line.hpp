#pragma once
// What a run does with its machine, in a line: samples a second, memory, cores.

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include <fulgurite/report/host_stats.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/progress_meter.hpp>

namespace fulgurite {

/// Rates are those since the last line.
class ResourcesLine {
 public:
  void begin() {
    samples_ = counted_ = 0;
    counted_at_.reset();
    host_.read();
  }
  void count(long samples) { samples_ += samples; }

  /// At `now`, in seconds.
  std::string text(auto& ctx, double now) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    std::string text;
    auto const add = [&](std::string const& fact) { (text += text.empty() ? "" : "   ") += fact; };
    if (samples_ != 0) {
      if (counted_at_) rate_.add(static_cast<double>(samples_ - counted_), now - *counted_at_);
      counted_ = samples_;
      counted_at_ = now;
      if (auto const rate = rate_.value()) add(report::count_text(static_cast<std::int64_t>(*rate)) + " samples/s");
    }
    for (auto const& [name, value] : host_.read()) {
      if (name == "cpu_process_bytes") add(report::bytes_text(static_cast<std::int64_t>(value)) + " resident");
      if (name == "cpu_percent") add(report::formatted("%.0f", value) + " % of the cores");
    }
    if constexpr (requires { Backend::device_stats(ctx.device()); })
      for (auto const& [name, value] : Backend::device_stats(ctx.device())) {
        if (name == "allocated_bytes.all.current")
          add(report::bytes_text(static_cast<std::int64_t>(value)) + " on the device");
        if (name == "allocated_bytes.all.peak") add(report::bytes_text(static_cast<std::int64_t>(value)) + " at most");
      }
    return text;
  }

 private:
  report::HostStats host_{};
  report::Rate rate_{};
  long samples_ = 0, counted_ = 0;
  std::optional<double> counted_at_ = std::nullopt;
};

}  // namespace fulgurite
