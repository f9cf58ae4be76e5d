#pragma once
// What LibTorch's optimizers keep of a parameter and which options a parameter group has, field by field under
// LibTorch's own names: six classes, each with a type of its own for both.

#include <string_view>
#include <tuple>
#include <type_traits>

#include <fulgurite/torch/optim/optimizer_options.hpp>

namespace torch::optim {
struct AdagradParamState;
struct AdamParamState;
struct AdamWParamState;
struct LBFGSParamState;
struct RMSpropParamState;
struct SGDParamState;
}  // namespace torch::optim

namespace fulgurite::libtorch {

/// The type of what an optimizer keeps of one parameter; void for one that is not LibTorch's own.
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

/// Whether the class is one of LibTorch's six, whose fields are known.
template <class X>
concept KnownOptimizer = !std::is_void_v<typename ParamStateOf<X>::type>;

#define FULGURITE_FIELD(name)                                                                                          \
  if constexpr (requires { all.name(); }) f(#name, all.name())

#define FULGURITE_OPTION(name)                                                                                         \
  if constexpr (requires { now.name(); }) f(#name, given.name(), now.name())

/// f(name, value given, value now&) for each option of a parameter group.
template <class Options, class F>
void each_option(Options const& given, Options& now, F&& f) {
  FULGURITE_OPTION(lr);
  FULGURITE_OPTION(momentum);
  FULGURITE_OPTION(dampening);
  FULGURITE_OPTION(nesterov);
  FULGURITE_OPTION(betas);
  FULGURITE_OPTION(eps);
  FULGURITE_OPTION(weight_decay);
  FULGURITE_OPTION(amsgrad);
  FULGURITE_OPTION(alpha);
  FULGURITE_OPTION(centered);
  FULGURITE_OPTION(lr_decay);
  FULGURITE_OPTION(initial_accumulator_value);
  FULGURITE_OPTION(max_iter);
  FULGURITE_OPTION(max_eval);
  FULGURITE_OPTION(tolerance_grad);
  FULGURITE_OPTION(tolerance_change);
  FULGURITE_OPTION(history_size);
  FULGURITE_OPTION(line_search_fn);
}
#undef FULGURITE_OPTION

/// Saves or loads the options of a group. Rates and momenta are what schedules have made of them: state.
template <class Options, class Archive>
void fold_options(Options const& given, Options& now, Archive& archive) {
  each_option(given, now, [&]<class V>(std::string_view name, V const& before, V& value) {
    if constexpr (std::is_same_v<V, std::tuple<double, double>>) {
      auto [first, second] = value;
      archive("beta1", first).option("beta2", std::get<1>(before), second);
      value = {first, second};
    } else if (name == "lr" || name == "momentum") {
      archive(name, value);
    } else {
      archive.option(name, before, value);
    }
  });
}

/// f(name, value&) for everything that is kept of a parameter: numbers, tensors, and LBFGS's lists of tensors.
template <class State, class F>
void each_kept(State& all, F&& f) {
  FULGURITE_FIELD(step);
  FULGURITE_FIELD(momentum_buffer);
  FULGURITE_FIELD(exp_avg);
  FULGURITE_FIELD(exp_avg_sq);
  FULGURITE_FIELD(max_exp_avg_sq);
  FULGURITE_FIELD(square_avg);
  FULGURITE_FIELD(grad_avg);
  FULGURITE_FIELD(sum);
  FULGURITE_FIELD(func_evals);
  FULGURITE_FIELD(n_iter);
  FULGURITE_FIELD(t);
  FULGURITE_FIELD(prev_loss);
  FULGURITE_FIELD(d);
  FULGURITE_FIELD(H_diag);
  FULGURITE_FIELD(prev_flat_grad);
  FULGURITE_FIELD(old_dirs);
  FULGURITE_FIELD(old_stps);
  FULGURITE_FIELD(ro);
  FULGURITE_FIELD(al);
}
#undef FULGURITE_FIELD

}  // namespace fulgurite::libtorch
