#pragma once
// The facts about a chain that need no LibTorch: what the compiler checks, and the constants.

#include <fulgurite/torch/chain/layers.hpp>
#include <fulgurite/torch/chain/refusals.hpp>
#include <fulgurite/torch/chain/run.hpp>

namespace fulgurite {

namespace chain {

/// What the types tell, even if the layers do not fit.
template <class... Layers>
class Constants {
  static constexpr Shape starts_with = natural<Layers...>();
  static constexpr Step ran = run<Layers...>(starts_with);

 public:
  /// The number of trainable numbers.
  static constexpr Extent parameter_count = (Extent{0} + ... + parameters_of<Layers>());
  /// The operations of forward for one sample; a multiplication with its addition counts as two. Counted as PyTorch's
  /// FlopCounterMode (and with it Lightning's measure_flops) does: Linear 2 rows In Out, convolutions 2 Out (In /
  /// groups) kernel places, and nothing else. A step of training takes about three times as many.
  static constexpr Extent flops = known_flops<ran.flops>();
  static constexpr Shape input_shape = starts_with;
  static constexpr Shape output_shape = ran.out;

 protected:
  static constexpr bool sound = ran.fault == Fault::none;
  /// Asking for its size is an error unless the layers fit.
  using Said = typename Verdict<List<Layers...>, ran.fault, ran.gives, ran.takes, ran.at, ran.giver>::type;
};

}  // namespace chain

/// What `Chain<Layers...>` knows of itself; it does not compile if two layers do not fit. Shapes are those of one
/// sample, without a dimension for the batch. Without `Input<...>` in front, a chain takes what its first layer
/// expects: Linear<784, 256> one row of 784, Conv2d<3, ...> three channels of an image of unknown height and width
/// (`chain::unknown`).
template <class... Layers>
class ChainShape : public chain::Constants<Layers...> {
  static_assert(sizeof(typename chain::Constants<Layers...>::Said) != 0);
};

}  // namespace fulgurite
