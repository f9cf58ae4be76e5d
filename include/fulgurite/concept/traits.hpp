#pragma once
// What callbacks, models and strategies say of themselves in one word. Rules speak of these, never of concrete classes.

#include <type_traits>

namespace fulgurite::judge {

// What a callback says of itself, each as `static constexpr bool NAME = true`; not said is false.
#define FULGURITE_TRAIT(NAME)                       \
  template <class T>                                \
  consteval bool NAME() {                           \
    if constexpr (requires { typename std::bool_constant<T::NAME>; }) return T::NAME; \
    else return false;                              \
  }
FULGURITE_TRAIT(needs_logger)            // it writes rows
FULGURITE_TRAIT(needs_automatic)         // it drives what Manual leaves to the model: windows, the one optimizer's schedule
FULGURITE_TRAIT(needs_one_optimizer)     // it works with one optimizer
FULGURITE_TRAIT(needs_backbone)          // it freezes model.backbone
FULGURITE_TRAIT(replaces_weights)        // it puts other weights into the model for a while
FULGURITE_TRAIT(varies_window)           // it calls ctx.accumulate
FULGURITE_TRAIT(needs_single_process)    // it searches by trial, which processes would do differently
FULGURITE_TRAIT(needs_data_module)       // it has loaders made again
FULGURITE_TRAIT(needs_one_eval_loader)   // it rehearses evaluation with one loader
FULGURITE_TRAIT(acts_on_tensors)         // of models, too: what it does inside a captured step is tensor operations alone
// The same of strategies.
FULGURITE_TRAIT(fixed_window)            // the accumulation window holds for a whole fit
FULGURITE_TRAIT(shards_parameters)       // no process has all weights
FULGURITE_TRAIT(needs_gpu)               // it does not run without one
FULGURITE_TRAIT(needs_configure_model)   // the model is made, or split, in that hook
#undef FULGURITE_TRAIT

}  // namespace fulgurite::judge
