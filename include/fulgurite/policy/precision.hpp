#pragma once
// Precision policies: tags whose constants say what happens to parameters, inputs, operators and the loss.

#include <cstdint>
#include <string_view>

#include <fulgurite/core/state.hpp>

namespace fulgurite {

/// The types of floating numbers that precisions speak of, without a tensor library.
enum class Dtype : std::uint8_t { float32, float64, bfloat16, float16 };

namespace policy {
/// The constants that every precision has; rules and strategies read nothing else.
template <Dtype Parameters, bool Autocasts, Dtype Compute, bool ScalesLoss>
struct PrecisionTraits {
  using Stateless = ByChoice;
  static constexpr Dtype parameters = Parameters;  ///< what parameters and floating inputs are converted to
  static constexpr bool autocasts = Autocasts;     ///< steps run under autocast ...
  static constexpr Dtype compute = Compute;        ///< ... to this type
  static constexpr bool scales_loss =
      ScalesLoss;  ///< backward starts from a scaled seed, gradients are unscaled before clipping
};
}  // namespace policy

// Parameters, buffers and floating tensors of batches are converted; LibTorch's default type is not, since it belongs
// to the whole process: workers of a loader and other trainers make tensors at the same time. What a step makes from
// nothing names its type: torch::zeros(sizes, batch.data.options()) or torch::zeros_like(x). The first step of a fit in
// another type than the default is watched for calls that do not.

/// Everything in single precision: "32-true".
struct Float32 : policy::PrecisionTraits<Dtype::float32, false, Dtype::float32, false> {
  static constexpr std::string_view name = "32-true";
};
/// Parameters and inputs in double precision: "64-true".
struct Float64 : policy::PrecisionTraits<Dtype::float64, false, Dtype::float64, false> {
  static constexpr std::string_view name = "64-true";
};
/// Float32 parameters, operators in bfloat16 where that is safe; needs no scaling: "bf16-mixed".
struct Bf16Mixed : policy::PrecisionTraits<Dtype::float32, true, Dtype::bfloat16, false> {
  static constexpr std::string_view name = "bf16-mixed";
};
/// Float32 parameters, operators in float16 where that is safe, the loss scaled so that small gradients survive:
/// "16-mixed". A step whose gradients are not finite is skipped and the scale shrinks by `backoff_factor`; after
/// `growth_interval` good steps it grows by `growth_factor`. What 100 skipped steps in a row mean:
/// TrainerOptions::non_finite.
struct Fp16Mixed {  // its constants stand here, not in a base: designated initializers warn about bases
  using Stateless = ByChoice;
  static constexpr Dtype parameters = Dtype::float32;
  static constexpr bool autocasts = true;
  static constexpr Dtype compute = Dtype::float16;
  static constexpr bool scales_loss = true;
  static constexpr std::string_view name = "16-mixed";
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int growth_interval = 2000;
};
/// Parameters and inputs in bfloat16: half the memory, coarse updates: "bf16-true".
struct Bf16True : policy::PrecisionTraits<Dtype::bfloat16, false, Dtype::bfloat16, false> {
  static constexpr std::string_view name = "bf16-true";
};
/// Parameters and inputs in float16, no scaling: "16-true".
struct Fp16True : policy::PrecisionTraits<Dtype::float16, false, Dtype::float16, false> {
  static constexpr std::string_view name = "16-true";
};

}  // namespace fulgurite
