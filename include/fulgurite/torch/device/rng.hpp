#pragma once
// Random numbers drawn inside a scope do not affect those outside it, and a resumed run draws the same numbers as one
// that was not interrupted.

#include <cstdint>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

// Random numbers for a single thread. LibTorch has one CPU generator for the whole process, and most operators that
// draw (such as dropout) are called without a generator: kernels before LibTorch's own add the thread's.

/// The generator of this thread's operators if the call names none; undefined: the process's generator.
inline at::Generator& own_generator() {
  thread_local at::Generator generator;
  return generator;
}

/// The CPU generator of this thread.
at::Generator cpu_generator();

/// Passes the thread's generator to an operator call on the stack, if the call names none.
void name_generator(c10::OperatorHandle const& op, torch::jit::Stack& stack);

void draw(c10::OperatorHandle const& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// True if threads can have their own random numbers; the first call installs the kernels. Operators that take a
/// generator and a tensor get a kernel at a key at which they have none; operators that create a random tensor call one
/// of these. False if other code has registered kernels there.
bool draws_apart();

/// While it lives, operators of this thread draw from its own generator, which starts as after
/// torch::manual_seed(seed).
class OwnRandom : Pinned {
 public:
  explicit OwnRandom(std::uint64_t seed);
  ~OwnRandom();

 private:
  at::Generator before_;
};

/// The states of all default generators: those of the CPU and of the devices that this process uses.
class RngState {
 public:
  RngState();
  FULGURITE_COPIES(RngState);
  void restore();

  /// Saves the states as bytes under the names of their devices, "cpu" and "cuda:0". Loading changes no generator;
  /// `restore` sets all generators that were saved, also those of devices that this process has not used. A generator
  /// that was not saved keeps its state. A saved generator whose device this machine lacks is skipped without an error,
  /// since a run may resume with fewer devices; only the CPU's is required. Throws [fulgurite.random.state] for bytes
  /// that are not the state of such a generator, and then changes nothing.
  void state(auto& archive);

 private:
  struct Saved {
    at::Generator generator;
    at::Tensor state;
  };

  static at::Tensor state_of(at::Generator generator);
  /// Returns the bytes if a copy of the generator accepts them.
  static at::Tensor checked(at::Generator generator, at::Tensor const& bytes);

  std::vector<Saved> saved_;
};

/// Saves the state of every default generator, and restores it when the scope ends.
class RngScope : Pinned {
 public:
  RngScope() = default;
  ~RngScope() { state_.restore(); }

 private:
  RngState state_;
};

// What a sweep needs from LibTorch: threads that share neither random numbers nor cores.

/// Made by the thread that starts the others. Throws [fulgurite.random.apart] if threads cannot be kept apart.
class Apart : Pinned {
 public:
  explicit Apart(bool is_possible = draws_apart());
  /// Restores the default number of threads, which members may have changed.
  ~Apart() { at::set_num_threads(threads_); }

  /// Gives the calling thread one core, and its own random numbers while the returned object lives.
  OwnRandom thread(std::uint64_t seed) const;

  /// True if the generator of the process was used or seeded since this object was made.
  bool disturbed() const;

 private:
  static at::Tensor state();

  int threads_;
  at::Tensor before_;
};

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/rng.ipp>
#endif
