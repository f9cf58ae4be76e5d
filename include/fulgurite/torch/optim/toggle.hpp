#pragma once
// Trains with one optimizer at a time: while it is toggled, parameters of the others receive no gradient.

#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace fulgurite {

/// Lightning's toggle_optimizer. `toggle` switches requires_grad off for every parameter of all optimizers and back on
/// for the chosen one's, to what it was: frozen parameters stay frozen, shared ones stay on. `untoggle`, or the end of
/// the object's life, gives the parameters of the others back what they had. Parameters that no optimizer has are not
/// touched.
class Toggle {
 public:
  Toggle() = default;
  /// Toggles `chosen`. `all`: a tuple of the optimizers, the chosen one among them.
  template <class Optimizer, class All>
  Toggle(Optimizer& chosen, All& all) {
    toggle(chosen, all);
  }
  ~Toggle() { untoggle(); }
  Toggle(Toggle const&) = delete;
  Toggle& operator=(Toggle const&) = delete;

  template <class Optimizer, class All>
  void toggle(Optimizer& chosen, All& all) {
    untoggle();
    auto const is_chosen = [&](auto& one) {
      return static_cast<void const*>(&one) == static_cast<void const*>(&chosen);
    };
    std::apply([&](auto&... one) { ((is_chosen(one) ? remember(one, own_) : remember(one, others_)), ...); }, all);
    if (others_.empty()) return own_.clear();
    for (auto& [parameter, required] : others_) parameter.set_requires_grad(false);
    for (auto& [parameter, required] : own_) parameter.set_requires_grad(required);
    own_.clear();
  }

  void untoggle() noexcept {
    for (auto& [parameter, required] : others_) parameter.set_requires_grad(required);
    others_.clear();
  }

 private:
  using Flags = std::vector<std::pair<at::Tensor, bool>>;

  template <class Optimizer>
  static void remember(Optimizer& optimizer, Flags& flags) {
    for (auto const& parameter : optimizer.parameters()) flags.emplace_back(parameter, parameter.requires_grad());
  }
  Flags own_;  ///< kept between calls for their capacity
  Flags others_;
};

}  // namespace fulgurite
