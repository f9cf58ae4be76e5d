#pragma once
// The whole state of a torch::optim optimizer, saved to an archive and loaded: the options of its groups, and the state
// of each parameter. Parameters have no names here, so each is identified by its group and position.

#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>

namespace torch::optim {

// Momentum and weight decay of LibTorch's optimizers, whose options have six types.

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

/// The type of an optimizer's options; void for a class that is not LibTorch's own.
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

/// Calls `f(options)` for a parameter group if the type of its options is known.
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

/// True if the optimizer's class has a momentum or betas.
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

namespace torch::optim {

// The fields of LibTorch's parameter states and group options, under LibTorch's own names: six classes, each with its
// own type for both.

struct AdagradParamState;
struct AdamParamState;
struct AdamWParamState;
struct LBFGSParamState;
struct RMSpropParamState;
struct SGDParamState;
}  // namespace torch::optim

namespace fulgurite::libtorch {

/// The type of an optimizer's state for one parameter; void for a class that is not LibTorch's own.
template <class X>
struct ParamStateOf {
  using type = void;
};
#define FULGURITE_PARAM_STATE(X)                                                                                       \
  template <>                                                                                                          \
  struct ParamStateOf<torch::optim::X> {                                                                               \
    using type = torch::optim::X##ParamState;                                                                          \
  };
FULGURITE_PARAM_STATE(Adagrad)
FULGURITE_PARAM_STATE(Adam)
FULGURITE_PARAM_STATE(AdamW)
FULGURITE_PARAM_STATE(LBFGS)
FULGURITE_PARAM_STATE(RMSprop)
FULGURITE_PARAM_STATE(SGD)
#undef FULGURITE_PARAM_STATE

/// True for LibTorch's six classes, whose fields are known.
template <class X>
concept KnownOptimizer = !std::is_void_v<typename ParamStateOf<X>::type>;

/// The options that the program has given to each group.
using GivenOptions = std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>;

/// Saves or loads a KnownOptimizer; see TorchOptimizer::state.
template <class X, class Archive>
void optimizer_state(X& optimizer, GivenOptions const& given, Archive& archive);

#define FULGURITE_OPTIMIZER_STATE(There, X)                                                                            \
  There(void optimizer_state(torch::optim::X&, GivenOptions const&, StateSaver&));                                     \
  There(void optimizer_state(torch::optim::X&, GivenOptions const&, StateLoader&))
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, Adagrad);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, Adam);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, AdamW);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, LBFGS);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, RMSprop);
FULGURITE_OPTIMIZER_STATE(FULGURITE_EXTERN, SGD);

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/optimizer_state.ipp>
#endif
