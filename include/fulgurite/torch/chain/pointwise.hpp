#pragma once
// Layers that leave the shape as it is and have nothing to learn: activations and dropout. FLOPs: none counted.

#include <fulgurite/torch/chain/step.hpp>

namespace fulgurite {

namespace chain {

/// A layer that computes each number from itself alone.
struct Pointwise : BuiltIn {
  static constexpr bool keeps_shape = true;
  static constexpr Extent parameter_count = 0;
  static constexpr Step step(Shape in) { return {in}; }
};

/// The rate is `auto`, since 0 does not convert to a constant of type double. NaN fails the test, too.
template <auto Rate>
struct Dropping : Pointwise {
  static constexpr Step step(Shape in) {
    if (!(Rate >= 0 && Rate < 1)) return refuse(Fault::rate);
    return {in};
  }
};

/// A layer along a dimension, which is counted with the batch's as 0; negative numbers count from the end.
template <int Dimension>
struct Along : Pointwise {
  static constexpr Step step(Shape in) {
    if (in.known_rank() && (Dimension > in.rank() || Dimension < -in.rank() - 1))
      return refuse(Fault::rank, in.rank(), Dimension < 0 ? -Dimension - 1 : Dimension);
    return {in};
  }
};

}  // namespace chain

// Layers for chains, as those of torch::nn with the same name and default options: any shape in, the same shape out.
/// Hands on what it receives.
struct Identity : chain::Pointwise {};
/// The greater of x and 0.
struct ReLU : chain::Pointwise {};
/// x times the normal distribution's share below x.
struct GELU : chain::Pointwise {};
/// The hyperbolic tangent: numbers between -1 and 1.
struct Tanh : chain::Pointwise {};
/// 1 / (1 + exp(-x)): numbers between 0 and 1.
struct Sigmoid : chain::Pointwise {};
/// x times the sigmoid of x.
struct SiLU : chain::Pointwise {};
/// x times the hyperbolic tangent of softplus(x).
struct Mish : chain::Pointwise {};
/// log(1 + exp(x)), a smooth ReLU.
struct Softplus : chain::Pointwise {};
/// x, or Slope times x where x is negative.
template <auto Slope = 0.01>
struct LeakyReLU : chain::Pointwise {};
/// x, or Alpha (exp(x) - 1) where x is negative.
template <auto Alpha = 1.0>
struct ELU : chain::Pointwise {};

/// Over the last dimension, unless another is given: `Softmax<1>` is over channels.
template <int Dimension = -1>
struct Softmax : chain::Along<Dimension> {};
/// Its logarithm, computed so that small shares are not lost.
template <int Dimension = -1>
struct LogSoftmax : chain::Along<Dimension> {};

/// `Dropout<0.1>` zeroes a tenth of the numbers in training, and scales the others up. The rate is in [0, 1).
template <auto Rate = 0.5>
struct Dropout : chain::Dropping<Rate> {};
/// The same of whole channels.
template <auto Rate = 0.5>
struct Dropout2d : chain::Dropping<Rate> {};

}  // namespace fulgurite
