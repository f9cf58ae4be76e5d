#pragma once
// What callbacks, models and strategies say of themselves in one word. Rules speak of these, never of concrete classes.

#include <type_traits>

namespace fulgurite::judge {

// clang-format off
// Said as `static constexpr bool NAME = true`; not said is false.
#define FULGURITE_TRAITS(ROW)                                                                                       \
  ROW(needs_logger)           /* it writes rows */                                                                  \
  ROW(needs_automatic)        /* it drives what Manual leaves to the model: windows, the one optimizer's schedule */\
  ROW(needs_one_optimizer)    /* it works with one optimizer */                                                     \
  ROW(needs_backbone)         /* it freezes model.backbone */                                                       \
  ROW(replaces_weights)       /* it puts other weights into the model for a while */                                \
  ROW(varies_window)          /* it calls ctx.accumulate */                                                         \
  ROW(needs_single_process)   /* it searches by trial, which processes would do differently */                      \
  ROW(needs_data_module)      /* it has loaders made again */                                                       \
  ROW(needs_one_eval_loader)  /* it rehearses evaluation with one loader */                                         \
  ROW(acts_on_tensors)        /* of models, too: what it does inside a captured step is tensor operations alone */  \
  /* The same of strategies. */                                                                                     \
  ROW(fixed_window)           /* the accumulation window holds for a whole fit */                                   \
  ROW(shards_parameters)      /* no process has all weights */                                                      \
  ROW(needs_gpu)              /* it does not run without one */                                                     \
  ROW(needs_configure_model)  /* the model is made, or split, in that hook */
// clang-format on

#define FULGURITE_ROW(NAME)                                                                                         \
  template <class T>                                                                                                \
  consteval bool NAME() {                                                                                           \
    if constexpr (requires { typename std::bool_constant<T::NAME>; }) return T::NAME;                               \
    else return false;                                                                                              \
  }
FULGURITE_TRAITS(FULGURITE_ROW)
#undef FULGURITE_ROW

/// A trait that is a variable, which would be taken for one that is not said. Functions and types of such names mean something else.
template <class T>
consteval bool says_too_late() {
#define FULGURITE_ROW(NAME)                                                                                         \
  if constexpr (requires { requires std::is_arithmetic_v<std::remove_reference_t<decltype(T::NAME)>>; })            \
    if constexpr (!requires { typename std::bool_constant<T::NAME>; }) return true;
  FULGURITE_TRAITS(FULGURITE_ROW)
  FULGURITE_ROW(inert_in_dev_run)
#undef FULGURITE_ROW
  return false;
}
#undef FULGURITE_TRAITS

}  // namespace fulgurite::judge
