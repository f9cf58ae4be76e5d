#pragma once
// Part of a run's state: the parts that it was assembled from.

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/no_optimizer.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run_key.hpp>

namespace fulgurite::loop {

template <class R>
decltype(auto) configure_optimizers(typename R::Model& model, Context<R, phase::Fit>& ctx) {
  if constexpr (requires { model.configure_optimizers(ctx); }) return model.configure_optimizers(ctx);
  else return model.configure_optimizers();
}

template <class R>
using Optimizers =
    OptimizerSet<typename R::Backend,
                 typename AsList<std::remove_cvref_t<decltype(configure_optimizers<R>(
                     std::declval<typename R::Model&>(), std::declval<Context<R, phase::Fit>&>()))>>::type>;

/// A window of several batches: what it asks of the optimizer, as soon as both are known.
template <class R>
void check_window(char const* name, int batches) {
  if (batches < 1) refuse_option("fulgurite.options.accumulate", name, batches, "a window has at least 1 batch");
  if (Optimizers<R>::needs_closure && batches > 1)
    throw Error("fulgurite.optimizer.closure_accumulates",
                "an optimizer that evaluates its closure several times would see only the last of " +
                    std::to_string(batches) + " accumulated batches: use " + name + " = 1");
}

struct NoScaler {};
template <class Backend, class P>
struct ScalerOf {
  using type = NoScaler;
};
template <class Backend, class P>
  requires P::scales_loss
struct ScalerOf<Backend, P> {
  using type = std::optional<typename Backend::template Scaler<P>>;
};

struct NoLooks {};
template <class Backend>
struct LooksOf {
  using type = NoLooks;
};
template <class Backend>
  requires requires { typename Backend::GradientLooks; }
struct LooksOf<Backend> {
  using type = typename Backend::GradientLooks;
};

template <class R>
struct Parts {
  typename R::Strategy strategy;
  typename R::Precision precision;
  typename R::Model* model = nullptr;   ///< borrowed; there from the first call that brings one
  typename R::Model* fitted = nullptr;  ///< that of the last fit, whose state optimizers and counters are
  std::optional<Optimizers<R>> optimizers = std::nullopt;
  typename ScalerOf<typename R::Backend, typename R::Precision>::type scaler{};
  bool leaves_gradients = false;  ///< large ones stay where backward makes them
  [[no_unique_address]] typename LooksOf<typename R::Backend>::type looks{};  ///< at gradients: see early_looks.hpp
};

/// While one lives, the run's model is that of the last fit; an evaluation since then may have had another one.
template <class State>
class FittedModel {
 public:
  explicit FittedModel(State& run) : run_(run), before_(std::exchange(run.parts.model, run.parts.fitted)) {}
  FittedModel(FittedModel const&) = delete;
  FittedModel& operator=(FittedModel const&) = delete;
  ~FittedModel() { run_.parts.model = before_; }

 private:
  State& run_;
  decltype(std::declval<State&>().parts.model) before_;
};

}  // namespace fulgurite::loop
