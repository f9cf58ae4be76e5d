#pragma once
// Random numbers of one thread alone. LibTorch has one generator for the CPU, of the whole process, and most operators
// that draw (dropout among them) are called without naming one: kernels before LibTorch's own name the thread's.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch {

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

}  // namespace fulgurite::libtorch
