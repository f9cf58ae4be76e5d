#pragma once
// What LibTorch's optimizers keep of a parameter and which options a parameter group has, field by field under
// LibTorch's own names: six classes, each with a type of its own for both.

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

/// f(name, value&) for each option of a parameter group.
template <class Options, class F>
void each_option(Options& all, F&& f) {
  FULGURITE_FIELD(lr);
  FULGURITE_FIELD(momentum);
  FULGURITE_FIELD(dampening);
  FULGURITE_FIELD(nesterov);
  FULGURITE_FIELD(betas);
  FULGURITE_FIELD(eps);
  FULGURITE_FIELD(weight_decay);
  FULGURITE_FIELD(amsgrad);
  FULGURITE_FIELD(alpha);
  FULGURITE_FIELD(centered);
  FULGURITE_FIELD(lr_decay);
  FULGURITE_FIELD(initial_accumulator_value);
  FULGURITE_FIELD(max_iter);
  FULGURITE_FIELD(max_eval);
  FULGURITE_FIELD(tolerance_grad);
  FULGURITE_FIELD(tolerance_change);
  FULGURITE_FIELD(history_size);
  FULGURITE_FIELD(line_search_fn);
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
