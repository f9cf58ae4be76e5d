#pragma once
// The sentences about chains that do not fit. The compiler prints the template arguments of the one that fails: the two
// layers and the two numbers.

#include <fulgurite/torch/chain/run.hpp>

namespace fulgurite::chain {

/// Two halves of a sentence: this layer gives that number, but the next one takes this number.
template <Extent Number, class Layer>
struct Gives;
template <Extent Number, class Layer>
struct Takes;

/// Always false. The compiler prints its arguments with a refusal: which number a layer gives, and which the next
/// takes.
template <class A, class B>
inline constexpr bool fits = false;
/// Always false. The compiler prints the layer that a refusal is about.
template <class Layer>
inline constexpr bool is_right = false;

/// One row for each fault. Only the first fault of a chain is instantiated, so that a mistake is one error.
template <Fault, class Gives, class Takes, class Layer>
struct Refusal {};

// clang-format off
template <class G, class T, class L> struct Refusal<Fault::features, G, T, L> {
  static_assert(fits<G, T>, "[fulgurite.chain.features] a layer takes another number of features than the one before "
                            "gives: make the two numbers equal");
};
template <class G, class T, class L> struct Refusal<Fault::channels, G, T, L> {
  static_assert(fits<G, T>, "[fulgurite.chain.channels] a layer takes another number of channels than the one before "
                            "gives: make the two numbers equal");
};
template <class G, class T, class L> struct Refusal<Fault::rank, G, T, L> {
  static_assert(fits<G, T>, "[fulgurite.chain.rank] a layer takes samples of another number of dimensions than arrive: "
                            "put Flatten between, or begin the chain with Input<channels, height, width>");
};
template <class G, class T, class L> struct Refusal<Fault::window, G, T, L> {
  static_assert(fits<G, T>, "[fulgurite.chain.window] a kernel or pool is larger than what it slides over: make it "
                            "smaller, pad, or leave out a layer before it that shrinks");
};
template <class G, class T, class L> struct Refusal<Fault::residual, G, T, L> {
  static_assert(fits<G, T>, "[fulgurite.chain.residual] the branch of a Residual gives another shape than it takes, so "
                            "the two cannot be added: end it with a layer that restores the shape");
};
template <class G, class T, class L> struct Refusal<Fault::groups, G, T, L> {
  static_assert(is_right<L>, "[fulgurite.chain.groups] the groups of a convolution must divide its channels, in and "
                             "out: choose a divisor of both");
};
template <class G, class T, class L> struct Refusal<Fault::rate, G, T, L> {
  static_assert(is_right<L>, "[fulgurite.chain.dropout] the rate of a dropout is the share that it zeroes: give one "
                             "from 0 to below 1");
};
template <class G, class T, class L> struct Refusal<Fault::padding, G, T, L> {
  static_assert(is_right<L>, "[fulgurite.chain.padding] a pool may be padded by half of its window at most: give less, "
                             "or a larger window");
};
template <class G, class T, class L> struct Refusal<Fault::extents, G, T, L> {
  static_assert(is_right<L>, "[fulgurite.chain.extents] sizes, strides and dilations are at least 1, paddings at least "
                             "0: correct this layer's numbers");
};
template <class G, class T, class L> struct Refusal<Fault::layer, G, T, L> {
  static_assert(is_right<L>, "[fulgurite.chain.layer] this is no layer: give types such as Linear<784, 256> and ReLU "
                             "of fulgurite; your own declares parameter_count, step(Shape) and Module");
};
template <class G, class T, class L> struct Refusal<Fault::empty, G, T, L> {
  static_assert(is_right<L>, "[fulgurite.chain.empty] a chain without a layer does nothing: give it one, such as "
                             "Linear<784, 10>");
};
// clang-format on

/// The refusal that a chain's first fault calls for, as its ::type.
template <class Layers, Fault F, Extent Given, Extent Taken, Path At, Path Giver>
struct Verdict {
  using Wrong = typename decltype(resolve<Layers, At>())::type;
  using Before = typename decltype(resolve<Layers, F == Fault::residual ? At : Giver>())::type;
  using type = Refusal<F, Gives<Given, Before>, Takes<Taken, Wrong>, Wrong>;
};

/// Whether the types tell a count.
template <Extent Count>
inline constexpr bool is_known = Count != unknown;

/// The FLOPs of a chain for one sample. Does not compile where the types do not tell them.
template <Extent Count>
consteval Extent known_flops() {
  static_assert(is_known<Count>, "[fulgurite.chain.flops] the work of a chain depends on the extents of its input: "
                                 "begin it with Input<channels, height, width>");
  return is_known<Count> ? Count : 0;
}

}  // namespace fulgurite::chain
