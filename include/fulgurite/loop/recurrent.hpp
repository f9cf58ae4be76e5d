#pragma once
// Truncated back-propagation through time: a batch is cut along time, each slice is a step of its own, a state is
// carried between them.

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>

#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/call.hpp>

namespace fulgurite {

/// A model that declares `using Hidden = ...;` is trained slice by slice (`Automatic{.tbptt = k}`): its step is
/// `training_step(batch, std::optional<Hidden> const& hidden, ctx)`, with nothing in `hidden` at the first slice of a
/// batch, and returns a struct with `.loss` and `.hidden`, which the next slice receives detached.
template <class M>
concept Recurrent = requires { typename M::Hidden; };

namespace loop {

template <class M>
struct HiddenOf {
  struct type {};
};
template <Recurrent M>
struct HiddenOf<M> {
  using type = typename M::Hidden;
};

template <class M, class Slice, class Ctx>
concept HasRecurrentStep =
    Recurrent<M> && (hook::training_step::accepts<M, Slice, std::optional<typename M::Hidden> const, Ctx> ||
                     hook::training_step::accepts<M, Slice, std::optional<typename M::Hidden> const>);

/// The training step in whichever form the model has.
template <class M, class Batch, class Hidden, class Ctx>
decltype(auto) call_training_step(M& model, Batch& batch, std::optional<Hidden> const& hidden, Ctx& ctx) {
  if constexpr (!Recurrent<M>) {
    if constexpr (hook::training_step::accepts<M, Batch, Ctx>) return hook::training_step::call(model, batch, ctx);
    else return hook::training_step::call(model, batch);
  } else if constexpr (hook::training_step::accepts<M, Batch, std::optional<Hidden> const, Ctx>) {
    return hook::training_step::call(model, batch, hidden, ctx);
  } else {
    return hook::training_step::call(model, batch, hidden);
  }
}

/// The slices of a batch, in order of time: the model's own `tbptt_split_batch(batch, k, ctx)`, or the backend's.
template <class R, class Batch, class Ctx>
auto time_slices(typename R::Model& model, Batch& batch, long length, Ctx& ctx) {
  if constexpr (hook::tbptt_split_batch::named<typename R::Model>)
    return call_override<hook::tbptt_split_batch>(model, ctx, batch, length);
  else return R::Backend::time_slices(batch, length);
}

/// k and what the model declares belong together; windows of several batches and slices do not.
template <class M>
void check_slices(int tbptt, int window) {
  if (Recurrent<M> && tbptt == 0)
    throw Error("fulgurite.options.tbptt",
                "the model declares Hidden, so its batches are cut along time: say how long a slice is, "
                "Automatic{.tbptt = 16}");
  if (!Recurrent<M> && tbptt != 0)
    throw Error("fulgurite.options.tbptt",
                "tbptt = " + std::to_string(tbptt) +
                    " carries a state from slice to slice, and the model "
                    "declares none: add `using Hidden = ...` and training_step(batch, hidden, ctx)");
  if (tbptt != 0 && window != 1)
    throw Error("fulgurite.options.tbptt", "tbptt steps after each slice, accumulate_grad_batches = " +
                                               std::to_string(window) + " after several batches: use one of them");
}

}  // namespace loop
}  // namespace fulgurite
