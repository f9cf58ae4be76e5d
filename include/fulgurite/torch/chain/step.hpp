#pragma once
// A layer's answer to a shape that reaches it: the shape that it gives and its work, or what is wrong and where.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>

#include <fulgurite/torch/chain/shape.hpp>

namespace fulgurite::chain {

/// What is wrong with a layer, or with two that follow each other. Each but `none` has a refusal in chain/refusals.hpp.
enum class Fault : std::uint8_t {
  none,
  empty,     ///< no layer at all
  layer,     ///< something that is no layer
  extents,   ///< a layer of a size below 1, a stride of 0, a negative padding
  rate,      ///< a dropout's
  groups,    ///< that do not divide the channels
  padding,   ///< of a pool, beyond half its window
  features,  ///< two layers, two numbers
  channels,
  rank,
  window,    ///< larger than what it slides over
  residual,  ///< a branch that gives another shape than it takes
};

/// Which layer is meant: its position and, if chains are nested, the position inside of it.
struct Path {
  static constexpr std::size_t most = 8;
  std::array<int, most> index{};
  std::size_t depth = 0;

  constexpr Path inside(int outer) const {
    Path longer;
    longer.index[0] = outer;
    for (std::size_t i = 0; i + 1 < most && i < depth; ++i) longer.index[i + 1] = index[i];
    longer.depth = std::min(depth + 1, most);
    return longer;
  }
};

/// The answer of `step(shape)`. A layer fills `out` and `flops`, or gives `refuse(...)`; the rest is filled by the
/// chain.
struct Step {
  Shape out{};
  Extent flops = 0;  ///< forward, of one sample
  Fault fault = Fault::none;
  Extent gives = 0, takes = 0;  ///< the two numbers that disagree
  Path at{}, giver{};           ///< the layer that is wrong, and the one whose number it does not take
};

/// What a layer's `step` returns where it does not take a shape: the fault, and the two numbers that disagree.
constexpr Step refuse(Fault fault, Extent gives = 0, Extent takes = 0) {
  return {.fault = fault, .gives = gives, .takes = takes};
}

/// Marks a layer whose module chain/modules.hpp knows.
struct BuiltIn {};

/// What a layer declares: how many trainable numbers it has, and what it makes of a shape. Optional are `keeps_shape`,
/// true for a layer that works on each number alone, and `natural`, the shape that it takes if no other layer and no
/// Input tells. A layer of your own names its LibTorch module, too, which is made without arguments: `using Module =
/// ScaleImpl;`.
template <class L>
concept Layer = (std::derived_from<L, BuiltIn> || requires { typename L::Module; }) && requires(Shape shape) {
  { L::parameter_count } -> std::convertible_to<Extent>;
  { L::step(shape) } -> std::same_as<Step>;
};

/// Whether a layer gives the shape that it takes, whatever that is.
template <class L>
constexpr bool keeps_shape() {
  if constexpr (requires { L::keeps_shape; }) return L::keeps_shape;
  else return false;
}

}  // namespace fulgurite::chain
