#pragma once
// The parts of a step that depend on the precision: what it makes from nothing, the seed of backward, unscaling.

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/run.hpp>
#include <fulgurite/policy/precision.hpp>

namespace fulgurite::loop {

template <class R>
inline constexpr bool scales_loss = R::Precision::scales_loss;

/// The precision computes in another type than Float: what training_step makes without naming a type is then not of it.
template <class R>
concept NamesTypes = R::Precision::parameters != Dtype::float32 && requires(typename R::Precision const& precision) {
  R::Backend::watch_factories(precision, nullptr);
};

/// Watches the first training_step of a fit; a later one only where that did not run to its end.
template <class R>
auto watch_factories([[maybe_unused]] State<R>& run) {
  if constexpr (NamesTypes<R>) {
    using Tell = std::function<void(std::string const&, std::string const&, std::string const&)>;
    auto tell = [&run](std::string const& function, std::string const& made, std::string const& wanted) {
      run.warn("fulgurite.precision.default_type",
               "training_step calls torch::" + function + " without a type, which gives " + made +
                   ", where this fit computes in " + wanted + ": name the type, as in torch::" + function +
                   "(..., x.options()) with a tensor of the batch. LibTorch's default type belongs to "
                   "the whole process, so a precision leaves it alone");
    };
    return R::Backend::watch_factories(run.parts.precision, run.facts.types_seen ? Tell() : Tell(tell));
  } else {
    return 0;
  }
}

/// After the first training_step of a fit: a loss of another type than the precision's was promoted on its way.
template <class R, class Loss>
void check_loss_type(State<R>& run, Loss const* loss) {
  if constexpr (NamesTypes<R>) {
    if (run.facts.types_seen || !loss) return;
    run.facts.types_seen = true;
    if (auto const other = R::Backend::other_type(*loss, run.parts.precision); !other.empty())
      run.warn("fulgurite.precision.loss_type",
               "training_step returns a loss of type " + other + " in a fit of " + std::string(R::Precision::name) +
                   ", so something in it has another type than the batch and the parameters: name the type of what "
                   "training_step makes itself, or convert the loss where that is meant: loss.to(x.scalar_type())");
  }
}

/// The gradient that backward starts from: 1/K, times the scale of a scaling precision. The loss itself is never
/// multiplied.
template <class R, class Loss>
auto seed(State<R>& run, Loss& loss, double factor) {
  if constexpr (scales_loss<R>) return run.parts.scaler->seed(loss, factor);
  else return R::Backend::seed(loss, factor);
}

/// backward, or the model's own in its place, which receives the loss already multiplied by what the seed would hold.
template <class R, class Ctx, class Loss>
void backward(State<R>& run, Ctx& ctx, Loss& loss, double factor) {
  auto& model = *run.parts.model;
  if constexpr (requires { R::Backend::require_graph(loss); }) R::Backend::require_graph(loss);
  if constexpr (Overrides<hook::backward, typename R::Model, Ctx, Loss>) {
    double by = factor;
    if constexpr (scales_loss<R>) by *= run.parts.scaler->scale();
    auto scaled = R::Backend::scaled(loss, by);
    call_override<hook::backward>(model, ctx, scaled);
  } else {
    run.parts.strategy.backward(loss, seed(run, loss, factor));
  }
}

template <class R, class O>
void unscale(State<R>& run, O& optimizer) {
  if constexpr (scales_loss<R>) run.parts.scaler->unscale(optimizer.parameters());
}

}  // namespace fulgurite::loop
