#pragma once
// Who is told when backward has added to the gradient of a parameter.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace fulgurite::distributed {

/// While it lives, says(number) after backward has added to the gradient of the parameter that was given with that
/// number. Where LibTorch makes another accumulator for a parameter (its type was changed), nobody is told of it any
/// more.
class ReadyHooks {
 public:
  using Says = std::function<void(std::size_t)>;

  ReadyHooks() = default;
  ReadyHooks(ReadyHooks const&) = delete;
  ReadyHooks& operator=(ReadyHooks const&) = delete;
  ~ReadyHooks() { clear(); }

  /// A leaf that requires a gradient.
  void add(at::Tensor const& parameter, std::size_t number, Says const& says) {
    auto const accumulator = torch::autograd::impl::grad_accumulator(parameter);
    auto const key = accumulator->add_post_hook(std::make_unique<Hook>(number, says));
    hooks_.emplace_back(accumulator, key);
  }
  void clear() {
    for (auto const& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
    hooks_.clear();
  }

 private:
  struct Hook : torch::autograd::FunctionPostHook {
    std::size_t number;
    Says says;
    Hook(std::size_t n, Says s) : number(n), says(std::move(s)) {}
    torch::autograd::variable_list operator()(torch::autograd::variable_list const& outputs,
                                              torch::autograd::variable_list const&) override {
      says(number);
      return outputs;
    }
  };

  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, std::uintptr_t>> hooks_ = {};
};

}  // namespace fulgurite::distributed
