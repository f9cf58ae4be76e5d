#pragma once
// A chain's facts, without LibTorch: what the compiler checks, and the constants.

#include <fulgurite/torch/chain/layers.hpp>
#include <fulgurite/torch/chain/refusals.hpp>
#include <fulgurite/torch/chain/run.hpp>

namespace fulgurite {

namespace chain {

/// What the types tell, whether the layers fit or not.
template <class... Layers>
class Constants {
  static constexpr Shape starts_with = natural<Layers...>();
  static constexpr Step ran = run<Layers...>(starts_with);

 public:
  /// Trainable numbers.
  static constexpr Extent parameter_count = (Extent{0} + ... + parameters_of<Layers>());
  /// Of one sample, forward only; a multiplication with its addition is two. Counted as PyTorch's FlopCounterMode (and so
  /// Lightning's measure_flops) does: Linear 2 rows In Out, convolutions 2 Out (In / groups) kernel places; nothing else
  /// counts. A step of training is about three times that.
  static constexpr Extent flops = known_flops<ran.flops>();
  static constexpr Shape input_shape = starts_with;
  static constexpr Shape output_shape = ran.out;

 protected:
  static constexpr bool sound = ran.fault == Fault::none;
  /// Asking for its size is an error unless the layers fit.
  using Said = typename Verdict<List<Layers...>, ran.fault, ran.gives, ran.takes, ran.at, ran.giver>::type;
};

}  // namespace chain

/// What `Chain<Layers...>` knows of itself; an error where two layers do not fit. Shapes are those of one sample: no dimension
/// for the batch. Without `Input<...>` in front, a chain takes what its first layer expects: Linear<784, 256> one row of 784,
/// Conv2d<3, ...> 3 channels of an image of unknown height and width (`chain::unknown`).
template <class... Layers>
class ChainShape : public chain::Constants<Layers...> {
  static_assert(sizeof(typename chain::Constants<Layers...>::Said) != 0);
};

}  // namespace fulgurite
