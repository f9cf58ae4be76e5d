#pragma once
// What a step and its replay are compared by on the CPU: texts, bits, and random numbers.

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/own_random.hpp>

namespace fulgurite::libtorch::capture {

/// The states of the random generators that a step draws from. If it draws none, no generator is looked at or put back,
/// so that other threads may draw meanwhile.
class Generators {
 public:
  Generators(Tape const& tape, bool draws) {
    if (!draws) return;
    add(cpu_generator());
    tape.each_generator([&](at::Generator const& generator) { add(generator); });
    states_ = now();
  }
  std::vector<at::Tensor> now() const {
    std::vector<at::Tensor> states;
    for (auto generator : all_) {
      std::lock_guard const lock(generator.mutex());
      states.push_back(generator.get_state());
    }
    return states;
  }
  FULGURITE_BULK void restore() const {
    for (std::size_t i = 0; i != all_.size(); ++i) {
      auto generator = all_[i];
      std::lock_guard const lock(generator.mutex());
      generator.set_state(states_[i]);
    }
  }

 private:
  void add(at::Generator const& generator) {
    if (std::find(all_.begin(), all_.end(), generator) == all_.end()) all_.push_back(generator);
  }
  std::vector<at::Generator> all_;
  std::vector<at::Tensor> states_;
};

/// All that a step may change, as it was at one moment: the model's memory, and random numbers where the step draws
/// any.
class Before {
 public:
  Before(World const& world, Tape const& tape, bool draws)
      : world_(world), generators_(tape, draws), bytes_(world.bytes()) {}
  void restore() const {
    world_.restore(bytes_);
    generators_.restore();
  }
  /// The states of the same generators now.
  std::vector<at::Tensor> drawn() const { return generators_.now(); }

 private:
  World const& world_;
  Generators generators_;
  std::vector<char> bytes_;
};

/// The bytes of tensors, one after another, as if each were contiguous.
FULGURITE_BULK std::vector<char> bytes_of(std::vector<at::Tensor> const& tensors) {
  at::AutoDispatchBelowADInplaceOrView const below;
  std::vector<char> all;
  for (auto const& tensor : tensors) {
    auto const whole = tensor.contiguous();
    auto const* from = static_cast<char const*>(whole.const_data_ptr());
    if (whole.nbytes() != 0) all.insert(all.end(), from, from + whole.nbytes());
  }
  return all;
}

/// The first difference between the texts of two steps; empty if there is none.
FULGURITE_BULK std::string difference(std::vector<std::string> const& a, std::vector<std::string> const& b) {
  std::size_t const n = std::min(a.size(), b.size());
  for (std::size_t i = 0; i != n; ++i)
    if (a[i] != b[i])
      return "the step is not the same each time: " + a[i].substr(0, a[i].find(' ')) +
             " is called with other numbers, shapes or tensors, or is another operator (a number of the host that "
             "changes?)";
  return a.size() == b.size() ? ""
                              : "the step is not the same each time: it calls " + std::to_string(a.size()) +
                                    " operators or " + std::to_string(b.size());
}

}  // namespace fulgurite::libtorch::capture
