#pragma once
// What is known of the steps of one kind and shape, and what is done with the next one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/metric/cell.hpp>
#include <fulgurite/torch/capture/copies.hpp>
#include <fulgurite/torch/capture/pace.hpp>
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
  Pace pace = {};
  long replayed = 0;
};

}  // namespace fulgurite::libtorch::capture
