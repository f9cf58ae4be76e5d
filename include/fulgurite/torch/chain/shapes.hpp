#pragma once
// A chain's facts, without LibTorch: what the compiler checks, and the constants.

#include <fulgurite/torch/chain/convolution.hpp>
#include <fulgurite/torch/chain/linear.hpp>
#include <fulgurite/torch/chain/norm.hpp>
#include <fulgurite/torch/chain/pointwise.hpp>
#include <fulgurite/torch/chain/pooling.hpp>
#include <fulgurite/torch/chain/refusals.hpp>
#include <fulgurite/torch/chain/run.hpp>

namespace fulgurite {

/// What `Chain<Layers...>` knows of itself. Naming a member, or making a Chain, is an error where two layers do not fit.
/// Shapes are those of one sample: no dimension for the batch. Without `Input<...>` in front, a chain takes what its first
/// layer expects: Linear<784, 256> one row of 784, Conv2d<3, ...> 3 channels of an image of unknown height and width.
template <class... Layers>
class ChainShape {
  static constexpr chain::Shape starts_with = chain::natural<Layers...>();
  static constexpr chain::Step ran = chain::run<Layers...>(starts_with);

 protected:
  static constexpr bool sound = ran.fault == chain::Fault::none;

 public:
  /// Trainable numbers.
  static constexpr chain::Extent parameter_count = (chain::Extent{0} + ... + chain::parameters_of<Layers>());
  /// Of one sample, forward only; a multiplication with its addition is two. Counted as PyTorch's FlopCounterMode (and so
  /// Lightning's measure_flops) does: Linear 2 rows In Out, convolutions 2 Out (In / groups) kernel places; nothing else
  /// counts. A step of training is about three times that.
  static constexpr chain::Extent flops = chain::known_flops<ran.flops, chain::List<Layers...>>();
  static constexpr chain::Shape input_shape = starts_with;
  static constexpr chain::Shape output_shape = ran.out;

 private:
  using Verdict =
      typename chain::Verdict<chain::List<Layers...>, ran.fault, ran.gives, ran.takes, ran.at, ran.giver>::type;
  static_assert(sizeof(Verdict) != 0);
};

}  // namespace fulgurite
