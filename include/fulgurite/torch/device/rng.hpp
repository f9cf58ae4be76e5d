#pragma once
// Random numbers drawn inside a scope leave no trace outside it, and a run that goes on later draws those that it would
// have drawn.

#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/own_random.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

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

}  // namespace fulgurite::libtorch
