#pragma once
// What is known of the steps of one kind and shape, and what is done with the next one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/metric/cell.hpp>
#include <fulgurite/torch/capture/copies.hpp>
#include <fulgurite/torch/capture/tape.hpp>

namespace fulgurite::libtorch::capture {

/// Recorded twice, checked against replays, then replayed; or as written for good.
enum class Stage { first, second, check, replay, eager };

/// What a step has logged as a tensor.
struct Logged {
  std::size_t metric;
  double weight;
  Origin origin;
};

struct Plan {
  static constexpr long longest_gap = 512;

  StepKey key{};
  std::vector<std::int64_t> shape = {};
  Stage stage = Stage::first;
  std::vector<std::string> text = {};
  std::unique_ptr<Tape> tape = nullptr;
  std::vector<Logged> logged = {};
  std::vector<bool> of_model = {};  ///< of what leaves the step: it is memory of the model, and is given away as it is
  bool draws = false;               ///< random numbers
  Copies copies = {};
  std::shared_ptr<void> result = nullptr;  ///< its tensors are replaced in each replay
  int failures = 0, checks = 0;
  long gap = 16, until_check = 0;  ///< in replays
  long replayed = 0;

  void rarer_checks() { gap = std::min(2 * gap, longest_gap); }
  /// Not at regular distances: what happens every so many steps must not hide between.
  void next_check(std::uint64_t& noise) {
    noise = noise * 6364136223846793005U + 1442695040888963407U;
    until_check = gap / 2 + static_cast<long>((noise >> 33U) % static_cast<std::uint64_t>(gap));
  }
};

}  // namespace fulgurite::libtorch::capture
