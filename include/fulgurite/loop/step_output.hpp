#pragma once
// What a training step may return, and where its loss is.

#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/core/is_optional.hpp>

namespace fulgurite::loop {

using fulgurite::is_optional;

/// A tensor, or a struct with a tensor `.loss`.
template <class Backend, class T>
concept HoldsLoss = Backend::template is_value<T> || requires(T& result) {
  requires Backend::template is_value<std::remove_cvref_t<decltype(result.loss)>>;
};

/// What automatic optimization accepts: a loss, or an optional of one; an empty optional skips backward for that batch.
template <class Backend, class T>
concept StepOutput =
    HoldsLoss<Backend, T> || (is_optional<T> && requires { requires HoldsLoss<Backend, typename T::value_type>; });

/// The loss inside a step's result, or nullptr where the step returned none.
template <class Backend, class T>
auto* loss_of(T& result) {
  if constexpr (is_optional<std::remove_const_t<T>>) return result ? loss_of<Backend>(*result) : nullptr;
  else if constexpr (Backend::template is_value<std::remove_const_t<T>>) return &result;
  else return &result.loss;
}

/// What end hooks receive as outputs where the step returns a bare loss.
template <class Value>
struct LossOutput {
  Value loss{};
};

template <class Backend, class T>
struct OutputsOf {
  using type = std::conditional_t<Backend::template is_value<T>, LossOutput<T>, T>;
};
template <class Backend, class T>
struct OutputsOf<Backend, std::optional<T>> {
  using type = std::optional<typename OutputsOf<Backend, T>::type>;
};
struct NoOutput {};
template <class Backend>
struct OutputsOf<Backend, void> {
  using type = NoOutput;
};

/// The loss detached and already divided by the window's length; everything else as the step returned it.
template <class Backend, class T>
auto outputs_of(T& result, double factor) {
  using Outputs = typename OutputsOf<Backend, T>::type;
  if constexpr (is_optional<T>) {
    return result ? Outputs(outputs_of<Backend>(*result, factor)) : Outputs{};
  } else if constexpr (Backend::template is_value<T>) {
    return Outputs{Backend::detached(result, factor)};
  } else {
    Outputs outputs = result;
    outputs.loss = Backend::detached(result.loss, factor);
    return outputs;
  }
}

/// The step, in whichever form the model has.
template <class Hook, class Model, class Batch, class Ctx>
decltype(auto) call_step(Model& model, Batch& batch, Ctx& ctx) {
  if constexpr (Hook::template accepts<Model, Batch, Ctx>) return Hook::call(model, batch, ctx);
  else return Hook::call(model, batch);
}

}  // namespace fulgurite::loop
