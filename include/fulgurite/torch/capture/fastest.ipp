#pragma once
// The bodies of torch/capture/fastest.hpp.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <type_traits>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/torch/capture/fastest.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

FULGURITE_BULK_BODY double Race::median(std::vector<double> times) {
  auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

FULGURITE_BODY void Race::replayed(double seconds) {
  replayed_.push_back(seconds);
  if (replayed_.size() == timed) choose(median(replayed_) < median(as_written_) ? Way::captured : Way::as_written);
}

FULGURITE_BODY void Race::prepared() {
  if (++prepared_ == patience) choose(Way::as_written);
}

FULGURITE_BODY void Race::choose(Way way) {
  way_ = way;
  print_lines(stderr, account() + "\n");
}

FULGURITE_BODY std::string Race::account() const {
  if (way_ == Way::undecided) return "Fastest: not decided yet";
  auto const microseconds = [](std::vector<double> const& times) {
    return times.empty() ? std::string("not measured") : std::to_string(std::lround(median(times) * 1e6)) + " us";
  };
  return std::string("Fastest: steps run ") + (way_ == Way::captured ? "captured" : "as they are written") +
         " (a replay: " + microseconds(replayed_) + ", a step as it is written: " + microseconds(as_written_) + ")";
}

void Race::state(auto& archive) {
  auto way = static_cast<std::int64_t>(way_);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
    if (!archive.has("way")) return;
    archive("way", way);
    if (way == 1 || way == 2) way_ = static_cast<Way>(way);
  } else {
    archive("way", way);
  }
}
FULGURITE_STATE(Race)

}  // namespace fulgurite::libtorch::capture
