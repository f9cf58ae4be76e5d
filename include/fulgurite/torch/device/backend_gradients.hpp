#pragma once
// The part of the Backend of LibTorch that is about gradients, and about numbers that are infinite or not a number.

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <fulgurite/core/each_of.hpp>
#include <fulgurite/torch/optim/clip.hpp>
#include <fulgurite/torch/optim/finite.hpp>
#include <fulgurite/torch/optim/gradient_looks.hpp>

namespace fulgurite::libtorch {

/// A base of fulgurite::LibTorch.
struct OfGradients {
  using Value = at::Tensor;

  // Gradients: see clip.hpp.
  template <class Parameters>
  static bool no_gradients(Parameters const& parameters) {
    if constexpr (requires { parameters.no_gradients(); })  // these stay defined
      return parameters.no_gradients();
    for (auto const& parameter : parameters)
      if (parameter.grad().defined()) return false;
    return true;
  }
  template <class Parameters>
  static void scale_gradients(Parameters const& parameters, double factor) {
    libtorch::scale_gradients(parameters, factor);
  }
  template <class Parameters>
  static Value clip_norm(Parameters const& parameters, double limit) {
    return libtorch::clip_norm(parameters, limit);
  }
  template <class Parameters>
  static void clip_value(Parameters const& parameters, double limit) {
    libtorch::clip_value(parameters, limit);
  }

  /// Whether optimizers with an arena may read large gradients where backward has made them.
  template <class Optimizers>
  static void leave_gradients(Optimizers& optimizers, bool leave) {
    each_of(optimizers, [&](auto& optimizer) {
      if constexpr (requires { optimizer.parameters().arena(); }) optimizer.parameters().arena().leave_gradients(leave);
    });
  }

  // Numbers that are infinite or not a number: see finite.hpp.
  template <class Parameters>
  static bool gradients_wait(Parameters const& parameters) {
    return libtorch::on_a_device(parameters);
  }
  template <class Parameters>
  static bool gradients_finite(Parameters const& parameters) {
    return libtorch::gradients_finite(parameters);
  }
  /// The same with what was seen of large ones when backward made them.
  using GradientLooks = libtorch::GradientLooks;
  template <class Parameters>
  static bool gradients_finite(Parameters const& parameters, SeenGradients const& seen) {
    return libtorch::gradients_finite(parameters, seen);
  }
  template <class Parameters>
  static bool weights_finite(Parameters const& parameters) {
    return libtorch::weights_finite(parameters);
  }
  static bool is_number(Value const& loss) { return loss.defined() && loss.numel() == 1; }
  template <class Model>
  static std::string buffer_with_nan(Model& model) {
    return libtorch::buffer_with_nan(model);
  }
  static void note_finite(std::optional<Value>& noted, Value const& value) { libtorch::note_finite(noted, value); }
  template <class Parameters>
  static void note_gradients(std::optional<Value>& noted, Parameters const& parameters) {
    libtorch::note_gradients(noted, parameters);
  }
  template <class Parameters>
  static void note_weights(std::optional<Value>& noted, Parameters const& parameters) {
    libtorch::note_weights(noted, parameters);
  }

  /// The gradient of a parameter, undefined where it has none; and the way to give it one, in the memory that an arena
  /// keeps for it. An undefined one takes it away.
  static Value gradient(Value const& parameter) { return parameter.grad(); }
  static void set_gradient(Value const& parameter, Value const& gradient) {
    at::NoGradGuard const no_graph;
    auto& now = parameter.mutable_grad();
    if (!gradient.defined()) now.reset();
    else if (now.defined()) now.copy_(gradient);
    else now = gradient;
  }
};

}  // namespace fulgurite::libtorch
