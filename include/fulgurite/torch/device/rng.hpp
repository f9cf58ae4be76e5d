#pragma once
// Random numbers drawn inside a scope leave no trace outside it, and a run that goes on later draws those that it would
// have drawn.

#include <cstddef>
#include <cstdint>
#include <mutex>
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

#include <fulgurite/core/cold.hpp>
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
inline at::Generator cpu_generator() {
  auto const& own = own_generator();
  return own.defined() ? own : at::detail::getDefaultCPUGenerator();
}

inline bool takes_generator(c10::Argument const& argument) {
  auto const optional = argument.type()->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

/// Names the thread's generator in a call of an operator that lies on the stack, where the call names none.
inline void name_generator(c10::OperatorHandle const& op, torch::jit::Stack& stack) {
  auto const& own = own_generator();
  if (!own.defined()) return;
  auto const& arguments = op.schema().arguments();
  auto const first = stack.size() - arguments.size();
  for (std::size_t i = 0; i != arguments.size(); ++i)
    if (takes_generator(arguments[i]) && stack[first + i].isNone()) stack[first + i] = own;
}

inline void draw(c10::OperatorHandle const& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  name_generator(op, *stack);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, product_key), stack);
}

/// Whether threads can have random numbers of their own, which the first call sees to. The operators that take a
/// generator and a tensor get a kernel at a key where they have none; those that make a tensor of random numbers call
/// one of these. False: somebody else has put kernels there.
inline bool draws_apart() {
  static bool const done = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    std::vector<std::string> names;
    for (auto const& name : dispatcher.getAllOpNames()) {
      auto const op = dispatcher.findSchema(name);
      if (!op || !name.name.starts_with("aten::")) continue;
      bool draws = false, on_tensor = false;
      for (auto const& argument : op->schema().arguments()) {
        draws = draws || takes_generator(argument);
        on_tensor = on_tensor || argument.type()->kind() == c10::TypeKind::TensorType;
      }
      if (!draws || !on_tensor) continue;
      if (op->hasKernelForDispatchKey(product_key)) return false;
      names.push_back(name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name));
    }
    // It lives as long as the process, and is held where a search for leaks finds it.
    static auto* const library = new torch::Library(torch::Library::IMPL, "aten", product_key, __FILE__, __LINE__);
    for (auto const& name : names) library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&draw>());
    return true;
  }();
  return done;
}

/// While it lives, operators of this thread draw from a generator of its own, which begins as the process's does after
/// torch::manual_seed(seed).
class OwnRandom {
 public:
  explicit OwnRandom(std::uint64_t seed)
      : before_(std::exchange(own_generator(), at::detail::createCPUGenerator(seed))) {}
  ~OwnRandom() { own_generator() = std::move(before_); }
  OwnRandom(OwnRandom const&) = delete;
  OwnRandom& operator=(OwnRandom const&) = delete;

 private:
  at::Generator before_;
};

/// The default generators of this machine: the CPU's, and those of the accelerator that LibTorch was built for. `used`:
/// leaves out devices that this process has not used. A thread with random numbers of its own has those alone.
FULGURITE_COLD std::vector<at::Generator> default_generators(bool used) {
  if (own_generator().defined()) return {own_generator()};
  auto& context = at::globalContext();
  std::vector all{context.defaultGenerator(at::Device(at::kCPU))};
  auto const kind = at::getAccelerator();
  if (!kind) return all;
  auto const& hooks = context.getAcceleratorHooksInterface(kind);
  for (c10::DeviceIndex i = 0; i < hooks.deviceCount(); ++i)
    if (!used || hooks.hasPrimaryContext(i)) all.push_back(context.defaultGenerator(at::Device(*kind, i)));
  return all;
}

/// The states of all default generators: the CPU's, and those of the devices that this process uses.
class RngState {
 public:
  RngState() {
    for (auto const& generator : default_generators(true)) saved_.push_back({generator, state_of(generator)});
  }
  void restore() {
    for (auto& [generator, state] : saved_) {
      std::lock_guard const lock(generator.mutex());
      generator.set_state(state);
    }
  }

  /// Saves the states as bytes under the names of their devices, "cpu" and "cuda:0". Loading changes no generator:
  /// `restore` does, and sets those that were saved, whether this process has used their devices or not. A generator
  /// that was not saved keeps its state. A saved one whose device this machine lacks is passed over without an error,
  /// since a run may go on with fewer devices; only the CPU's must be there. Error [fulgurite.random.state] for bytes
  /// that are not the state of such a generator; then nothing has changed.
  void state(auto& archive) {
    std::vector<std::string> devices;
    for (auto const& one : saved_) devices.push_back(one.generator.device().str());
    archive("devices", devices);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
      std::vector<Saved> loaded;
      auto const generators = default_generators(false);
      for (auto const& name : devices) {
        at::Tensor bytes;
        archive.tensor(name, bytes);
        for (auto const& generator : generators)
          if (generator.device().str() == name) loaded.push_back({generator, checked(generator, bytes)});
      }
      if (loaded.empty() || !loaded.front().generator.device().is_cpu())
        throw Error("fulgurite.random.state", "the saved random numbers lack the state of the CPU's generator, which "
                                              "comes first: the file was changed since it was written");
      saved_ = std::move(loaded);
    } else {
      for (auto& one : saved_) archive.tensor(one.generator.device().str(), one.state);
    }
  }

 private:
  struct Saved {
    at::Generator generator;
    at::Tensor state;
  };

  static at::Tensor state_of(at::Generator generator) {
    std::lock_guard const lock(generator.mutex());
    return generator.get_state();
  }
  /// The bytes, once a copy of the generator has taken them.
  FULGURITE_COLD static at::Tensor checked(at::Generator generator, at::Tensor const& bytes) {
    try {
      std::lock_guard const lock(generator.mutex());
      auto trial = generator.clone();
      if (bytes.defined() && bytes.scalar_type() == at::kByte && bytes.dim() == 1) {
        trial.set_state(bytes);
        return bytes;
      }
    } catch (c10::Error const&) {
      // LibTorch's sentence speaks of a size or of a type: what follows says whose state it is.
    }
    throw Error("fulgurite.random.state", "what was saved for " + generator.device().str() +
                                              " is not the state of its generator of random numbers: the file was "
                                              "written by another LibTorch, or was changed since");
  }

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
