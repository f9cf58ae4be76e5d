#pragma once
// What a strategy or an optimizer says it cannot clip.

#include <string>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/policy/optimization.hpp>

namespace fulgurite::loop {

/// Of a strategy: `clips_by_norm`, `clips_by_value` = false; of an optimizer: `unscales_itself` = true. Asked before
/// training for Automatic{.clip}, and at each ctx.clip_gradients.
template <class R, class O>
void check_clip(Clip const& clip) {
  using S = typename R::Strategy;
  [[maybe_unused]] auto const refuse = [](char const* how, char const* instead) {
    throw Error("fulgurite.policy.clip",
                std::string("this strategy does not hold all gradients, so they cannot be limited by ") + how +
                    ": use " + instead + ", or leave clipping out");
  };
  if constexpr (FULGURITE_SAYS(S, bool, clips_by_norm))
    if (!S::clips_by_norm && clip.kind == Clip::Kind::norm) refuse("their norm", "ClipValue");
  if constexpr (FULGURITE_SAYS(S, bool, clips_by_value))
    if (!S::clips_by_value && clip.kind == Clip::Kind::value) refuse("value", "ClipNorm");
  if constexpr (FULGURITE_SAYS(O, bool, unscales_itself))
    if (O::unscales_itself && R::Precision::scales_loss && clip.kind != Clip::Kind::none)
      throw Error("fulgurite.optimizer.unscales_itself",
                  "this optimizer divides by the loss scale inside its step, so clipping before it would see scaled "
                  "gradients: leave clipping out, or use another optimizer");
}

}  // namespace fulgurite::loop
