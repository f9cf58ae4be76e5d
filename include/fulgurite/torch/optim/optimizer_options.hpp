#pragma once
// Momentum and weight decay of LibTorch's optimizers, whose options are of six types.

#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>

#include <torch/optim/optimizer.h>

namespace torch::optim {
class Adagrad;
class Adam;
class AdamW;
class LBFGS;
class RMSprop;
class SGD;
struct AdagradOptions;
struct AdamOptions;
struct AdamWOptions;
struct LBFGSOptions;
struct RMSpropOptions;
struct SGDOptions;
}  // namespace torch::optim

namespace fulgurite::libtorch {

/// The type of an optimizer's options; void for one that is not LibTorch's own.
template <class X>
struct OptionsOf {
  using type = void;
};
#define FULGURITE_OPTIONS(X)                                                                                           \
  template <>                                                                                                          \
  struct OptionsOf<torch::optim::X> {                                                                                  \
    using type = torch::optim::X##Options;                                                                             \
  };
FULGURITE_OPTIONS(Adagrad)
FULGURITE_OPTIONS(Adam)
FULGURITE_OPTIONS(AdamW)
FULGURITE_OPTIONS(LBFGS)
FULGURITE_OPTIONS(RMSprop)
FULGURITE_OPTIONS(SGD)
#undef FULGURITE_OPTIONS

/// f(options of a parameter group) where their type is known.
template <class X, class F>
std::optional<double> of_options(X const& optimizer, std::size_t group, F&& f) {
  using Options = typename OptionsOf<X>::type;
  if constexpr (std::is_void_v<Options>) return std::nullopt;
  else return f(static_cast<Options const&>(optimizer.param_groups().at(group).options()));
}

/// The momentum of a parameter group, or the first beta of Adam; nullopt if the class has neither.
template <class X>
std::optional<double> momentum(X const& optimizer, std::size_t group) {
  return of_options(optimizer, group, [](auto const& options) -> std::optional<double> {
    if constexpr (requires { options.betas(); }) return std::get<0>(options.betas());
    else if constexpr (requires { options.momentum(); }) return options.momentum();
    else return std::nullopt;
  });
}

/// Whether the class of the optimizer has one of the two.
template <class X>
concept HasMomentum = requires(typename OptionsOf<X>::type& options) { options.betas(); } ||
                      requires(typename OptionsOf<X>::type& options) { options.momentum(); };

/// Sets the value that `momentum` reads.
template <HasMomentum X>
void set_momentum(X& optimizer, std::size_t group, double value) {
  auto& options = static_cast<typename OptionsOf<X>::type&>(optimizer.param_groups().at(group).options());
  if constexpr (requires { options.betas(); }) std::get<0>(options.betas()) = value;
  else options.momentum() = value;
}

template <class X>
std::optional<double> weight_decay(X const& optimizer, std::size_t group) {
  return of_options(optimizer, group, [](auto const& options) -> std::optional<double> {
    if constexpr (requires { options.weight_decay(); }) return options.weight_decay();
    else return std::nullopt;
  });
}

}  // namespace fulgurite::libtorch
