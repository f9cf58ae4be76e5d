#pragma once
// What callbacks, models and strategies say of themselves in one word. Rules speak of these, never of concrete classes.

#include <type_traits>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/hook/pack.hpp>

namespace fulgurite::judge {

// clang-format off
// Said as `static constexpr bool NAME = true`; not said is false.
#define FULGURITE_TRAITS(ROW)                                                                                       \
  ROW(needs_logger)           /* it writes rows */                                                                  \
  ROW(draws_rows)             /* it takes rows to draw them, and keeps no record: a logger is not spared by it */      \
  ROW(needs_automatic)        /* it drives what Manual leaves to the model: windows, the one optimizer's schedule */\
  ROW(needs_one_optimizer)    /* it works with one optimizer */                                                     \
  ROW(needs_backbone)         /* it freezes model.backbone */                                                       \
  ROW(replaces_weights)       /* it puts other weights into the model for a while */                                \
  ROW(moves_weights)          /* it changes weights itself at an epoch's end */                                        \
  ROW(reads_whole_model)      /* it reads weights or gradients of all parts of the model at once */                 \
  ROW(varies_window)          /* it calls ctx.accumulate */                                                         \
  ROW(needs_single_process)   /* it searches by trial, which processes would do differently */                      \
  ROW(needs_data_module)      /* it has loaders made again */                                                       \
  ROW(needs_one_eval_loader)  /* it rehearses evaluation with one loader */                                         \
  ROW(searches)               /* it asks for steps to be tried out, by ctx.request_search */                         \
  ROW(lacks_metric)           /* no metric was given to what watches one */                                         \
  ROW(hears_no_event)         /* a function of a LambdaCallback stands under what is no event */                    \
  ROW(hears_twice)            /* two of them stand under one event */                                               \
  ROW(finds_rate)             /* it searches for a learning rate */                                                 \
  ROW(finds_batch_size)       /* it searches for a batch size */                                                    \
  ROW(keeps_checkpoints)      /* it saves files in the course of training: no other is added by default */          \
  ROW(acts_on_tensors)        /* of models, too: what it does inside a captured step is tensor operations alone */  \
  ROW(state_in_parts)         /* an optimizer: processes can keep a part of its state each */                       \
  /* The same of strategies. */                                                                                     \
  ROW(fixed_window)           /* the accumulation window holds for a whole fit */                                   \
  ROW(shards_parameters)      /* no process has all weights */                                                      \
  ROW(shards_state)           /* each process keeps a part of what optimizers keep */                               \
  ROW(splits_model)           /* each process runs a part of the model, on the same batches */                      \
  ROW(needs_gpu)              /* it does not run without one */                                                     \
  ROW(needs_configure_model)  /* the model is made, or split, in that hook */
// clang-format on

#define FULGURITE_ROW(NAME)                                                                                            \
  template <class T>                                                                                                   \
  consteval bool NAME() {                                                                                              \
    if constexpr (FULGURITE_SAYS(T, bool, NAME)) return T::NAME;                                                       \
    else return false;                                                                                                 \
  }
FULGURITE_TRAITS(FULGURITE_ROW)
#undef FULGURITE_ROW

/// A trait that is a variable, which would be taken for one that is not said. Functions and types of such names mean
/// something else.
template <class T>
consteval bool says_too_late() {
#define FULGURITE_ROW(NAME)                                                                                            \
  if constexpr (requires { requires std::is_arithmetic_v<std::remove_reference_t<decltype(T::NAME)>>; })               \
    if constexpr (!FULGURITE_SAYS(T, bool, NAME)) return true;
  FULGURITE_TRAITS(FULGURITE_ROW)
  FULGURITE_ROW(inert_in_dev_run)
#undef FULGURITE_ROW
  if constexpr (requires { requires std::is_same_v<std::remove_cv_t<decltype(T::order)>, Order>; })
    if constexpr (!FULGURITE_SAYS(T, Order, order)) return true;
  return false;
}
/// The same of a strategy, which may also say what it cannot clip by.
template <class S>
consteval bool strategy_says_too_late() {
#define FULGURITE_ROW(NAME)                                                                                            \
  if constexpr (requires { requires std::is_arithmetic_v<std::remove_reference_t<decltype(S::NAME)>>; })               \
    if constexpr (!FULGURITE_SAYS(S, bool, NAME)) return true;
  FULGURITE_ROW(clips_by_norm)
  FULGURITE_ROW(clips_by_value)
#undef FULGURITE_ROW
  return says_too_late<S>();
}
#undef FULGURITE_TRAITS

// What a strategy says of one type: `template <class Batch> static constexpr bool moves = ...`. Not said is true. A
// data member of such a name is asked for first, and means something else: looking for a template in its place is an
// error.
#define FULGURITE_ROW(NAME)                                                                                            \
  template <class S, class X>                                                                                          \
  concept Says_##NAME = requires(S& s) {                                                                               \
    requires !requires { s.NAME; };                                                                                    \
    typename std::bool_constant<S::template NAME<X>>;                                                                  \
  };                                                                                                                   \
  template <class S, class X>                                                                                          \
  consteval bool NAME() {                                                                                              \
    if constexpr (Says_##NAME<S, X>) return S::template NAME<X>;                                                       \
    else return true;                                                                                                  \
  }                                                                                                                    \
  /* A template of variables or functions, whose value is not known while compiling. */                                \
  template <class S, class X>                                                                                          \
  consteval bool NAME##_too_late() {                                                                                   \
    return !Says_##NAME<S, X> && requires(S& s) {                                                                      \
      requires !requires { s.NAME; };                                                                                  \
      &S::template NAME<X>;                                                                                            \
    };                                                                                                                 \
  }
FULGURITE_ROW(moves)     // can it bring a batch of this type to its device?
FULGURITE_ROW(supports)  // can it compute in this precision?
FULGURITE_ROW(splits)    // can it take a model of this type apart?
FULGURITE_ROW(gathers)   // can it bring together what the parts of an optimizer of this type keep?
#undef FULGURITE_ROW

}  // namespace fulgurite::judge
