#pragma once
// The scale of the loss under Fp16Mixed: it keeps small gradients above the least number of float16; a step whose
// gradients overflow is skipped.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::libtorch {

/// Computes as torch.amp.GradScaler does. Everything stays on the device; `finite()` is the only time in a step that
/// the host waits. With several optimizers: call unscale, finite and step for each of them, then update once.
template <class Precision>
class Scaler {
 public:
  Scaler(Precision const& precision, at::Device device)
      : precision_(precision),
        scale_(at::full({1}, precision.init_scale, at::TensorOptions(device).dtype(at::kFloat))),
        good_steps_(at::zeros({1}, at::TensorOptions(device).dtype(at::kInt))),
        found_(at::zeros({1}, scale_.options())),
        found_any_(at::zeros({1}, scale_.options())) {}

  /// The gradient that backward starts with: scale * factor, in the type and shape of the loss, which itself is never
  /// multiplied. There is one tensor for each factor and kind of loss, and its value follows the scale, so that a
  /// captured step can read the same tensor each time.
  at::Tensor seed(at::Tensor const& loss, double factor) {
    require_scalar(loss);
    for (auto const& made : seeds_)
      if (made.factor == factor && same_kind(made.seed, loss)) return made.seed;
    at::NoGradGuard const no_graph;
    auto const& made = seeds_.emplace_back(Seed{factor, at::empty_like(loss.detach())});
    follow(made);
    return made.seed;
  }

  /// Divides the gradients by the scale and remembers whether one of them was infinite or not a number.
  template <class Parameters>
  void unscale(Parameters const& parameters) {
    Gradients const gradients(parameters);
    found_.zero_();
    if (gradients->empty()) return;
    auto const inverse = scale_.to(at::kDouble).reciprocal_().to(at::kFloat);  // in double, as GradScaler does
    if (gradients.on_one_device()) {
      at::_amp_foreach_non_finite_check_and_unscale_(*gradients, found_, inverse);
    } else {
      for (auto& gradient : *gradients) {
        auto elsewhere = at::zeros({1}, found_.options().device(gradient.device()));
        at::_amp_foreach_non_finite_check_and_unscale_(gradient, elsewhere, inverse.to(gradient.device()));
        found_ = at::maximum(found_, elsewhere.to(found_.device()));
      }
    }
    found_any_ = at::maximum(found_any_, found_);
  }

  /// Whether the gradients unscaled last may be stepped with. Waits for the device.
  bool finite() const { return read(found_) == 0.0; }

  /// Call it once a step: after an overflow the scale becomes smaller, after `growth_interval` good steps in a row
  /// larger.
  void update() {
    at::NoGradGuard const no_graph;
    at::_amp_update_scale_(scale_, good_steps_, found_any_, precision_.growth_factor, precision_.backoff_factor,
                           precision_.growth_interval);
    found_any_.zero_();
    for (auto const& made : seeds_) follow(made);
  }

  /// Waits for the device.
  double scale() const { return read(scale_); }

  /// The scale and the run of good steps. Gradients that were unscaled in a step that was not finished do not count
  /// after loading: that step is run anew, or never.
  void state(auto& archive) {
    double now = scale();
    std::int64_t good = good_steps_.item<std::int64_t>();
    archive("scale", now)("good_steps", good);
    archive.option("init_scale", precision_.init_scale).option("growth_factor", precision_.growth_factor);
    archive.option("backoff_factor", precision_.backoff_factor);
    archive.option("growth_interval", precision_.growth_interval);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
      scale_.fill_(now);
      good_steps_.fill_(good);
      found_.zero_();
      found_any_.zero_();
      for (auto const& made : seeds_) follow(made);
    }
  }

 private:
  struct Seed {
    double factor;
    at::Tensor seed;
  };
  void follow(Seed const& made) const { made.seed.copy_(scale_.mul(made.factor).reshape(made.seed.sizes())); }

  Precision precision_;
  at::Tensor scale_;
  at::Tensor good_steps_;
  at::Tensor found_;
  at::Tensor found_any_;
  std::vector<Seed> seeds_;
};

}  // namespace fulgurite::libtorch
