#pragma once
// Random numbers drawn inside a scope leave no trace outside it, and a run that goes on later draws those that it would
// have drawn.

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
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

// Random numbers of one thread alone. LibTorch has one generator for the CPU, of the whole process, and most operators
// that draw (dropout among them) are called without naming one: kernels before LibTorch's own name the thread's.

/// What operators of this thread draw from where no generator is named; undefined: the process's.
inline at::Generator& own_generator() {
  thread_local at::Generator generator;
  return generator;
}

/// The generator of the CPU for this thread.
at::Generator cpu_generator();

bool takes_generator(c10::Argument const& argument);

/// Names the thread's generator in a call of an operator that lies on the stack, where the call names none.
void name_generator(c10::OperatorHandle const& op, torch::jit::Stack& stack);

void draw(c10::OperatorHandle const& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Whether threads can have random numbers of their own, which the first call sees to. The operators that take a
/// generator and a tensor get a kernel at a key where they have none; those that make a tensor of random numbers call
/// one of these. False: somebody else has put kernels there.
bool draws_apart();

/// While it lives, operators of this thread draw from a generator of its own, which begins as the process's does after
/// torch::manual_seed(seed).
class OwnRandom {
 public:
  explicit OwnRandom(std::uint64_t seed);
  ~OwnRandom();
  OwnRandom(OwnRandom const&) = delete;
  OwnRandom& operator=(OwnRandom const&) = delete;

 private:
  at::Generator before_;
};

/// The default generators of this machine: the CPU's, and those of the accelerator that LibTorch was built for. `used`:
/// leaves out devices that this process has not used. A thread with random numbers of its own has those alone.
std::vector<at::Generator> default_generators(bool used);

/// The states of all default generators: the CPU's, and those of the devices that this process uses.
class RngState {
 public:
  RngState();
  RngState(RngState const&);
  RngState& operator=(RngState const&);
  FULGURITE_MOVES(RngState);
  void restore();

  /// Saves the states as bytes under the names of their devices, "cpu" and "cuda:0". Loading changes no generator:
  /// `restore` does, and sets those that were saved, whether this process has used their devices or not. A generator
  /// that was not saved keeps its state. A saved one whose device this machine lacks is passed over without an error,
  /// since a run may go on with fewer devices; only the CPU's must be there. Error [fulgurite.random.state] for bytes
  /// that are not the state of such a generator; then nothing has changed.
  void state(auto& archive);

 private:
  struct Saved {
    at::Generator generator;
    at::Tensor state;
  };

  static at::Tensor state_of(at::Generator generator);
  /// The bytes, once a copy of the generator has taken them.
  static at::Tensor checked(at::Generator generator, at::Tensor const& bytes);

  std::vector<Saved> saved_;
};

/// When the scope ends, every default generator is as it was when it began.
class RngScope {
 public:
  RngScope() = default;
  ~RngScope() { state_.restore(); }
  RngScope(RngScope const&) = delete;
  RngScope& operator=(RngScope const&) = delete;

 private:
  RngState state_;
};

// What a sweep needs of LibTorch: threads that share neither random numbers nor cores with one another.

/// Made by the thread that begins others. Error [fulgurite.random.apart] where LibTorch cannot tell threads apart.
class Apart {
 public:
  explicit Apart(bool is_possible = draws_apart());
  /// As many threads as before are the default again, whatever members have set.
  ~Apart() { at::set_num_threads(threads_); }
  Apart(Apart const&) = delete;
  Apart& operator=(Apart const&) = delete;

  /// For the thread that calls it: one core, and its own random numbers while the object lives.
  OwnRandom thread(std::uint64_t seed) const;

  /// Whether somebody has drawn from the generator of the process, or seeded it.
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
