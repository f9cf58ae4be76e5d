#pragma once
// What a sweep needs of LibTorch: threads that share neither random numbers nor cores with one another.

#include <cstdint>
#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/one_thread.hpp>
#include <fulgurite/torch/device/own_random.hpp>

namespace fulgurite::libtorch {

/// Made by the thread that begins others. Error [fulgurite.random.apart] where LibTorch cannot tell threads apart.
class Apart {
 public:
  explicit Apart(bool is_possible = draws_apart()) : threads_(at::get_num_threads()) {
    if (!is_possible)
      throw Error("fulgurite.random.apart",
                  "threads cannot have random numbers of their own here, since somebody else stands before LibTorch's "
                  "operators that draw (another copy of this library with hidden symbols?): link one copy");
    before_ = state();
  }
  /// As many threads as before are the default again, whatever members have set.
  ~Apart() { at::set_num_threads(threads_); }
  Apart(Apart const&) = delete;
  Apart& operator=(Apart const&) = delete;

  /// For the thread that calls it: one core, and its own random numbers while the object lives.
  OwnRandom thread(std::uint64_t seed) const {
    run_in_this_thread(threads_);
    return OwnRandom(seed);
  }

  /// Whether somebody has drawn from the generator of the process, or seeded it.
  bool disturbed() const { return !state().equal(before_); }

 private:
  static at::Tensor state() {
    auto generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard const lock(generator.mutex());
    return generator.get_state();
  }

  int threads_;
  at::Tensor before_;
};

}  // namespace fulgurite::libtorch
