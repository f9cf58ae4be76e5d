#pragma once
// A step against its replay: texts, bits, random numbers.

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>

#include <fulgurite/torch/capture/tape.hpp>

namespace fulgurite::libtorch::capture {

/// Where random numbers stand, bit for bit.
class Generators {
 public:
  /// Where the step draws none, another thread's draws are not looked at, and not undone.
  Generators(Tape const& tape, bool draws) {
    if (!draws) return;
    add(at::detail::getDefaultCPUGenerator());
    tape.each_generator([&](at::Generator const& generator) { add(generator); });
    for (auto& generator : all_) states_.push_back(state(generator));
  }
  std::vector<at::Tensor> now() {
    std::vector<at::Tensor> states;
    for (auto& generator : all_) states.push_back(state(generator));
    return states;
  }
  void restore() {
    for (std::size_t i = 0; i != all_.size(); ++i) {
      std::lock_guard const lock(all_[i].mutex());
      all_[i].set_state(states_[i]);
    }
  }

 private:
  void add(at::Generator const& generator) {
    if (std::find(all_.begin(), all_.end(), generator) == all_.end()) all_.push_back(generator);
  }
  static at::Tensor state(at::Generator& generator) {
    std::lock_guard const lock(generator.mutex());
    return generator.get_state();
  }
  std::vector<at::Generator> all_;
  std::vector<at::Tensor> states_;
};

/// The bits of tensors, layouts aside.
inline std::vector<char> bytes_of(std::vector<at::Tensor> const& tensors) {
  at::AutoDispatchBelowADInplaceOrView const below;
  std::vector<char> all;
  for (auto const& tensor : tensors) {
    auto const whole = tensor.contiguous();
    auto const* from = static_cast<char const*>(whole.const_data_ptr());
    if (whole.nbytes() != 0) all.insert(all.end(), from, from + whole.nbytes());
  }
  return all;
}

/// What differs between two texts of a step; empty: nothing.
inline std::string difference(std::vector<std::string> const& a, std::vector<std::string> const& b) {
  std::size_t const n = std::min(a.size(), b.size());
  for (std::size_t i = 0; i != n; ++i)
    if (a[i] != b[i])
      return "the step is not the same each time: " + a[i].substr(0, a[i].find(' ')) +
             " is called with other numbers, shapes or tensors, or is another operator (a number of the host that changes?)";
  return a.size() == b.size() ? "" : "the step is not the same each time: it calls " + std::to_string(a.size()) + " operators or " + std::to_string(b.size());
}

}  // namespace fulgurite::libtorch::capture
