#pragma once
// Random numbers drawn inside a scope leave no trace outside it.

#include <mutex>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

namespace fulgurite::libtorch {

/// Every default generator is as it was when the scope ends: the CPU's, and those of GPUs that this process uses.
class RngScope {
 public:
  RngScope() {
    save(at::globalContext().defaultGenerator(at::Device(at::kCPU)));
    if (!at::globalContext().hasCUDA()) return;
    auto const& hooks = at::detail::getCUDAHooks();
    for (c10::DeviceIndex gpu = 0; gpu < hooks.deviceCount(); ++gpu)
      if (hooks.hasPrimaryContext(gpu)) save(at::globalContext().defaultGenerator(at::Device(at::kCUDA, gpu)));
  }
  ~RngScope() {
    for (auto& [generator, state] : saved_) {
      std::lock_guard const lock(generator.mutex());
      generator.set_state(state);
    }
  }
  RngScope(RngScope const&) = delete;
  RngScope& operator=(RngScope const&) = delete;

 private:
  void save(at::Generator generator) {
    std::lock_guard const lock(generator.mutex());
    auto state = generator.get_state();
    saved_.emplace_back(std::move(generator), std::move(state));
  }
  std::vector<std::pair<at::Generator, at::Tensor>> saved_;
};

}  // namespace fulgurite::libtorch
