#pragma once
// The part of a chain that does not need LibTorch: the compile-time checks and constants.

#include <cstddef>
#include <type_traits>
#include <utility>

#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/chain/layers.hpp>

namespace fulgurite {

// Passes a shape through a pack of layers, and finds the output shape and the cost, or the first layer that does not
// take its input. Chains may be nested.

template <class... Layers>
class Chain;

/// Adds its input to the output of its layer (usually a Chain); both must have the same shape. Its parameters have the
/// names that they have in that layer. Example: `Residual<Chain<Linear<4, 6>, Tanh, Linear<6, 4>>>`.
template <class Branch>
struct Residual;

namespace chain {

/// A list of layers, in order.
template <class... Layers>
struct List {};

/// The layers of a layer that is itself a chain; `void` for all others.
template <class L>
struct Inner {
  using type = void;
};
template <class... Layers>
struct Inner<Chain<Layers...>> {
  using type = List<Layers...>;
};
template <class Branch>
struct Inner<Residual<Branch>> {
  using type = List<Branch>;
};

/// True if L is an Input<...>, which only declares the shape of a sample.
template <class L>
inline constexpr bool is_input = false;
template <Extent... Extents>
inline constexpr bool is_input<Input<Extents...>> = true;
/// True if L is a Chain inside of another.
template <class T>
inline constexpr bool is_chain = is_of<Chain, T>;

/// The facts about a layer, which may be a chain, without using Chain itself, which needs LibTorch.
template <class L>
struct Facts {};

/// The shape that the first layer with an expectation takes; layers that keep the shape are skipped.
template <class... Layers>
constexpr Shape natural() {
  Shape found;
  [[maybe_unused]] auto const look = [&]<class L>(std::type_identity<L>) {
    if constexpr (requires { Facts<L>::natural(); }) return found = Facts<L>::natural(), !found.known_rank();
    else if constexpr (requires { L::natural; }) return found = L::natural, false;
    else return keeps_shape<L>();
  };
  static_cast<void>((true && ... && look(std::type_identity<Layers>{})));
  return found;
}

/// Passes the shape of a sample through the layers. Returns the output shape and the total FLOPs, or the first fault
/// and its position.
template <class... Layers>
constexpr Step run(Shape in) {
  Step sum{.out = in};
  if (!(false || ... || !is_input<Layers>)) return refuse(Fault::empty);
  int position = 0, giver = -1;
  [[maybe_unused]] auto const next = [&]<class L>(std::type_identity<L>) {
    auto step = refuse(Fault::layer);
    if constexpr (requires { Facts<L>::step(sum.out); }) step = Facts<L>::step(sum.out);
    else if constexpr (Layer<L>) step = L::step(sum.out);
    if (step.fault != Fault::none) {
      sum = step;
      sum.at = step.at.inside(position);
      if (step.giver.depth != 0) sum.giver = step.giver.inside(position);
      else if (giver >= 0) sum.giver = Path{}.inside(giver);
      return false;
    }
    sum.out = step.out;
    sum.flops = plus(sum.flops, step.flops);
    if (!keeps_shape<L>()) giver = position;
    ++position;
    return true;
  };
  static_cast<void>((true && ... && next(std::type_identity<Layers>{})));
  return sum;
}

/// The number of a layer's trainable numbers; 0 for a type that is not a layer, which `run` refuses.
template <class L>
constexpr Extent parameters_of() {
  if constexpr (requires { Facts<L>::parameters(); }) return Facts<L>::parameters();
  else if constexpr (Layer<L>) return L::parameter_count;
  else return 0;
}

template <class... Layers>
struct Facts<Chain<Layers...>> {
  static constexpr Shape natural() { return chain::natural<Layers...>(); }
  static constexpr Step step(Shape in) { return run<Layers...>(in.known_rank() ? in : natural()); }
  static constexpr Extent parameters() { return (Extent{0} + ... + parameters_of<Layers>()); }
};

template <class Branch>
struct Facts<Residual<Branch>> {
  static constexpr Shape natural() { return chain::natural<Branch>(); }
  static constexpr Step step(Shape in) {
    if (!in.known_rank()) in = natural();
    auto const branch = run<Branch>(in);
    if (branch.fault != Fault::none || !in.known_rank()) return branch;
    if (in.rank() != branch.out.rank()) return refuse(Fault::residual, branch.out.rank(), in.rank());
    for (int i = 0; i < in.rank(); ++i)
      if (differ(in[i], branch.out[i])) return refuse(Fault::residual, branch.out[i], in[i]);
    return branch;
  }
  static constexpr Extent parameters() { return parameters_of<Branch>(); }
};

/// The layer at a position of a list, found by overload resolution instead of a recursion.
template <std::size_t I, class L>
struct Leaf {
  using type = L;
};
template <class Indices, class... Layers>
struct Leaves;
template <std::size_t... Is, class... Layers>
struct Leaves<std::index_sequence<Is...>, Layers...> : Leaf<Is, Layers>... {};
/// Never defined: overload resolution finds the only base of Leaves with position I.
template <std::size_t I, class L>
Leaf<I, L> leaf(Leaf<I, L> const*);
/// The layer at position I of a list, as the ::type of the result.
template <std::size_t I, class... Layers>
auto at(List<Layers...>)
    -> decltype(leaf<I>(static_cast<Leaves<std::index_sequence_for<Layers...>, Layers...>*>(nullptr)));

/// The result of an empty path.
struct Nothing;
/// The layer at a path, as the ::type of the result; `Nothing` for an empty path.
template <class Layers, Path P, std::size_t Depth = 0>
constexpr auto resolve() {
  if constexpr (P.depth == 0) {
    return std::type_identity<Nothing>{};
  } else {
    using L = typename decltype(at<static_cast<std::size_t>(P.index[Depth])>(Layers{}))::type;
    if constexpr (Depth + 1 >= P.depth) return std::type_identity<L>{};
    else return resolve<typename Inner<L>::type, P, Depth + 1>();
  }
}

// The sentences about chains that do not fit. With the failed assertion the compiler prints its template arguments: the
// two layers and the two numbers.

/// Two halves of a message: this layer gives that number, but the next one takes this number.
template <Extent Number, class Layer>
struct Gives;
template <Extent Number, class Layer>
struct Takes;

/// Always false. The compiler prints its arguments with a refusal: the number that a layer gives, and the number that
/// the next one takes.
template <class A, class B>
inline constexpr bool fits = false;
/// Always false. The compiler prints the layer that a refusal is about.
template <class Layer>
inline constexpr bool is_right = false;

/// One specialization per fault. Only the first fault of a chain is instantiated, so that one mistake causes one error.
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

/// The refusal for a chain's first fault, as its ::type.
template <class Layers, Fault F, Extent Given, Extent Taken, Path At, Path Giver>
struct Verdict {
  using Wrong = typename decltype(resolve<Layers, At>())::type;
  using Before = typename decltype(resolve<Layers, F == Fault::residual ? At : Giver>())::type;
  using type = Refusal<F, Gives<Given, Before>, Takes<Taken, Wrong>, Wrong>;
};

/// True if the types determine a count.
template <Extent Count>
inline constexpr bool is_known = Count != unknown;

/// The FLOPs of a chain for one sample. Does not compile if the types do not determine them.
template <Extent Count>
consteval Extent known_flops() {
  static_assert(is_known<Count>, "[fulgurite.chain.flops] the work of a chain depends on the extents of its input: "
                                 "begin it with Input<channels, height, width>");
  return is_known<Count> ? Count : 0;
}

/// The constants that the types determine, even if the layers do not fit.
template <class... Layers>
class Constants {
  static constexpr Shape starts_with = natural<Layers...>();
  static constexpr Step ran = run<Layers...>(starts_with);

 public:
  /// The number of trainable numbers.
  static constexpr Extent parameter_count = (Extent{0} + ... + parameters_of<Layers>());
  /// The operations of forward for one sample. A multiplication with its addition counts as two. The count is that of
  /// PyTorch's FlopCounterMode, which Lightning's measure_flops uses: Linear 2 rows In Out, convolutions 2 Out (In /
  /// groups) kernel positions, and nothing else. A training step takes about three times as many.
  static constexpr Extent flops = known_flops<ran.flops>();
  static constexpr Shape input_shape = starts_with;
  static constexpr Shape output_shape = ran.out;

 protected:
  static constexpr bool sound = ran.fault == Fault::none;
  /// The size of this type is only available if the layers fit.
  using Said = typename Verdict<List<Layers...>, ran.fault, ran.gives, ran.takes, ran.at, ran.giver>::type;
};

}  // namespace chain

/// Base of Chain with its compile-time constants; does not compile if two layers do not fit. Shapes are those of one
/// sample, without the batch dimension. Without `Input<...>` in front, the input shape is the one that the first layer
/// expects: Linear<784, 256> one row of 784, Conv2d<3, ...> three channels of an image of unknown height and width
/// (`chain::unknown`).
template <class... Layers>
class ChainShape : public chain::Constants<Layers...> {
  static_assert(sizeof(typename chain::Constants<Layers...>::Said) != 0);
};

}  // namespace fulgurite
