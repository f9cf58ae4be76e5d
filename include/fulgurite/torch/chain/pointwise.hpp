#pragma once
// Layers that leave the shape as it is and have nothing to learn: activations and dropout. FLOPs: none counted.

#include <fulgurite/torch/chain/step.hpp>

namespace fulgurite {

namespace chain {

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

// These are as those of torch::nn with the same name and default options.
struct Identity : chain::Pointwise {};
struct ReLU : chain::Pointwise {};
struct GELU : chain::Pointwise {};
struct Tanh : chain::Pointwise {};
struct Sigmoid : chain::Pointwise {};
struct SiLU : chain::Pointwise {};
struct Mish : chain::Pointwise {};
struct Softplus : chain::Pointwise {};
template <auto Slope = 0.01>
struct LeakyReLU : chain::Pointwise {};
template <auto Alpha = 1.0>
struct ELU : chain::Pointwise {};

/// Over the last dimension, unless another is given: `Softmax<1>` is over channels.
template <int Dimension = -1>
struct Softmax : chain::Along<Dimension> {};
template <int Dimension = -1>
struct LogSoftmax : chain::Along<Dimension> {};

/// `Dropout<0.1>` zeroes a tenth of the numbers in training; Dropout2d zeroes whole channels. The rate is in [0, 1).
template <auto Rate = 0.5>
struct Dropout : chain::Dropping<Rate> {};
template <auto Rate = 0.5>
struct Dropout2d : chain::Dropping<Rate> {};

}  // namespace fulgurite
