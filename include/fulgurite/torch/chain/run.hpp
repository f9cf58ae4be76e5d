#pragma once
// Sends a shape through a pack of layers, and finds what comes out, what it costs, or the first layer that refuses it.
// Chains may nest.

#include <cstddef>
#include <type_traits>
#include <utility>

#include <fulgurite/torch/chain/linear.hpp>
#include <fulgurite/torch/chain/step.hpp>

namespace fulgurite {

template <class... Layers>
class Chain;

/// Adds its input to what its layer (usually a Chain) makes of it; both must have one shape. Its parameters have the
/// names that the layer gives them.
template <class Branch>
struct Residual;

namespace chain {

/// Layers as a type, in order.
template <class... Layers>
struct List {};

/// The layers inside of a layer that is a chain; `void` for all others.
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

/// Whether L is an Input<...>, which only tells the shape of a sample.
template <class L>
inline constexpr bool is_input = false;
template <Extent... Extents>
inline constexpr bool is_input<Input<Extents...>> = true;
/// Whether L is a Chain inside of another.
template <class L>
inline constexpr bool is_chain = false;
template <class... Layers>
inline constexpr bool is_chain<Chain<Layers...>> = true;

/// The facts of a layer, which may be a chain, without Chain itself, which needs LibTorch.
template <class L>
struct Facts {};

/// The shape that the first layer which expects one takes; layers that keep the shape are passed over.
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

/// Sends the shape of a sample through the layers: what comes out and the FLOPs of all, or the first fault and where it
/// is.
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

/// How many numbers a layer learns; 0 for what is no layer, which `run` refuses.
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
/// Never defined: overload resolution finds the one base of Leaves with position I.
template <std::size_t I, class L>
Leaf<I, L> leaf(Leaf<I, L> const*);
/// The layer at position I of a list, as the ::type of what is returned.
template <std::size_t I, class... Layers>
auto at(List<Layers...>)
    -> decltype(leaf<I>(static_cast<Leaves<std::index_sequence_for<Layers...>, Layers...>*>(nullptr)));

/// Where an empty path leads to.
struct Nothing;
/// The layer that a path leads to, as the ::type of what is returned; `Nothing` for an empty path.
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

}  // namespace chain
}  // namespace fulgurite
