#pragma once
// The bodies of torch/device/rng.hpp.

#include <cstddef>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/device/rng.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY at::Generator cpu_generator() {
  auto const& own = own_generator();
  return own.defined() ? own : at::detail::getDefaultCPUGenerator();
}

FULGURITE_BULK_BODY bool takes_generator(c10::Argument const& argument) {
  auto const optional = argument.type()->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

FULGURITE_BULK_BODY void name_generator(c10::OperatorHandle const& op, torch::jit::Stack& stack) {
  auto const& own = own_generator();
  if (!own.defined()) return;
  auto const& arguments = op.schema().arguments();
  auto const first = stack.size() - arguments.size();
  for (std::size_t i = 0; i != arguments.size(); ++i)
    if (takes_generator(arguments[i]) && stack[first + i].isNone()) stack[first + i] = own;
}

FULGURITE_BULK_BODY void draw(c10::OperatorHandle const& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  name_generator(op, *stack);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, product_key), stack);
}

FULGURITE_BULK_BODY bool draws_apart() {
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
    // Never deleted; through this static pointer a leak checker still reaches it.
    static auto* const library = new torch::Library(torch::Library::IMPL, "aten", product_key, __FILE__, __LINE__);
    for (auto const& name : names) library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&draw>());
    return true;
  }();
  return done;
}

FULGURITE_BULK_BODY OwnRandom::OwnRandom(std::uint64_t seed)
    : before_(std::exchange(own_generator(), at::detail::createCPUGenerator(seed))) {}

FULGURITE_BULK_BODY OwnRandom::~OwnRandom() { own_generator() = std::move(before_); }

/// The default generators of this machine: the CPU's, and those of the accelerator that LibTorch was built for. `used`:
/// only those of devices that this process has used. A thread with its own random numbers has only its own generator.
FULGURITE_BODY std::vector<at::Generator> default_generators(bool used) {
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

FULGURITE_BULK_BODY RngState::RngState() {
  for (auto const& generator : default_generators(true)) saved_.push_back({generator, state_of(generator)});
}

FULGURITE_COPIES_BODY(RngState);

FULGURITE_BULK_BODY void RngState::restore() {
  for (auto& [generator, state] : saved_) {
    std::lock_guard const lock(generator.mutex());
    generator.set_state(state);
  }
}

FULGURITE_BULK_BODY at::Tensor RngState::state_of(at::Generator generator) {
  std::lock_guard const lock(generator.mutex());
  return generator.get_state();
}

FULGURITE_BODY at::Tensor RngState::checked(at::Generator generator, at::Tensor const& bytes) {
  try {
    std::lock_guard const lock(generator.mutex());
    auto trial = generator.clone();
    if (bytes.defined() && bytes.scalar_type() == at::kByte && bytes.dim() == 1) {
      trial.set_state(bytes);
      return bytes;
    }
  } catch (c10::Error const&) {
    // LibTorch's message is only about a size or a type; the Error below names the generator.
  }
  throw Error("fulgurite.random.state", "what was saved for " + generator.device().str() +
                                            " is not the state of its generator of random numbers: the file was "
                                            "written by another LibTorch, or was changed since");
}

FULGURITE_BULK_BODY Apart::Apart(bool is_possible) : threads_(at::get_num_threads()) {
  if (!is_possible)
    throw Error("fulgurite.random.apart",
                "threads cannot have random numbers of their own here, since LibTorch's random operators are "
                "already replaced (by another copy of this library with hidden symbols?): link one copy");
  before_ = state();
}

FULGURITE_BULK_BODY OwnRandom Apart::thread(std::uint64_t seed) const {
  run_in_this_thread(threads_);
  return OwnRandom(seed);
}

FULGURITE_BULK_BODY bool Apart::disturbed() const { return !state().equal(before_); }

FULGURITE_BULK_BODY at::Tensor Apart::state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard const lock(generator.mutex());
  return generator.get_state();
}

void RngState::state(auto& archive) {
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
FULGURITE_STATE(RngState)

}  // namespace fulgurite::libtorch
