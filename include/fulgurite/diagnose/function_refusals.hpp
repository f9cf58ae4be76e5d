#pragma once
// The sentences about functions of optimizers, schedules and strategies: a row for each name.

#pragma GCC system_header  // spares g++ the trace through the macro below

#include <fulgurite/diagnose/about_hook.hpp>

namespace fulgurite::refusal {

// clang-format off
#define FULGURITE_FUNCTION(KIND, NAME, FORM)                                                                           \
  template <> struct About<HookId::of_##KIND##_##NAME> {                                                               \
    template <bool, class Whom> static consteval auto judge() {                                                        \
      using Subject = typename Whom::Subject;                                                                          \
      if constexpr (Whom::fault == HookFault::parameters)                                                              \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.parameters] " #NAME " of this " #KIND " cannot be "    \
                      "called: make it a public function, " #NAME FORM);                                               \
      if constexpr (Whom::fault == HookFault::missing)                                                                 \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.missing] this " #KIND " has no " #NAME ", which the "  \
                      "trainer calls: add a public function, " #NAME FORM);                                            \
    }                                                                                                                  \
  };
FULGURITE_FUNCTION(optimizer, zero_grad, "()")
FULGURITE_FUNCTION(optimizer, step, "()")
FULGURITE_FUNCTION(optimizer, parameters, "()")
FULGURITE_FUNCTION(optimizer, groups, "()")
FULGURITE_FUNCTION(optimizer, lr, "(std::size_t group)")
FULGURITE_FUNCTION(optimizer, set_lr, "(std::size_t group, double rate)")
FULGURITE_FUNCTION(optimizer, momentum, "(std::size_t group)")
FULGURITE_FUNCTION(optimizer, set_momentum, "(std::size_t group, double value)")
FULGURITE_FUNCTION(optimizer, weight_decay, "(std::size_t group)")
FULGURITE_FUNCTION(optimizer, group_name, "(std::size_t group)")
FULGURITE_FUNCTION(optimizer, gradients_finite, "()")
FULGURITE_FUNCTION(optimizer, received, "()")
FULGURITE_FUNCTION(optimizer, set_received, "(auto const& received)")

FULGURITE_FUNCTION(schedule, move, "(auto& optimizer)")
FULGURITE_FUNCTION(schedule, observe, "(double value, auto& optimizer)")
FULGURITE_FUNCTION(schedule, metric, "() const")
FULGURITE_FUNCTION(schedule, strict, "() const")
FULGURITE_FUNCTION(schedule, attach, "(auto& optimizer)")
FULGURITE_FUNCTION(schedule, momentum, "(long moves) const")
FULGURITE_FUNCTION(schedule, moves_momentum, "() const")
FULGURITE_FUNCTION(schedule, check, "() const")

FULGURITE_FUNCTION(strategy, setup, "(auto& model, auto const& precision)")
FULGURITE_FUNCTION(strategy, teardown, "(auto& model)")
FULGURITE_FUNCTION(strategy, device, "()")
FULGURITE_FUNCTION(strategy, is_on_gpu, "()")
FULGURITE_FUNCTION(strategy, move, "(auto&& batch)")
FULGURITE_FUNCTION(strategy, gradients, "(StepKey key, auto& batch, auto& board, auto&& body)")
FULGURITE_FUNCTION(strategy, flush, "(auto& optimizer, double scale)")
FULGURITE_FUNCTION(strategy, backward, "(auto& loss, auto const& seed)")
FULGURITE_FUNCTION(strategy, rank, "()")
FULGURITE_FUNCTION(strategy, world, "()")
FULGURITE_FUNCTION(strategy, local_rank, "()")
FULGURITE_FUNCTION(strategy, agree, "(bool any)")
FULGURITE_FUNCTION(strategy, reduce, "(auto value, Reduce how)")
FULGURITE_FUNCTION(strategy, reduce_in_place, "(std::span<double> values, std::span<Reduce const> how)")
FULGURITE_FUNCTION(strategy, reduce_gradients, "(std::span<double> riders, auto& optimizers)")
FULGURITE_FUNCTION(strategy, broadcast, "(std::string bytes)")
FULGURITE_FUNCTION(strategy, gather, "(std::string bytes)")
FULGURITE_FUNCTION(strategy, barrier, "(std::string_view what)")
FULGURITE_FUNCTION(strategy, matmul_scope, "()")
FULGURITE_FUNCTION(strategy, share_state, "(auto& optimizers)")
FULGURITE_FUNCTION(strategy, whole_state, "(auto& optimizers)")
FULGURITE_FUNCTION(strategy, share_statistics, "(auto& model)")

#undef FULGURITE_FUNCTION
// clang-format on

}  // namespace fulgurite::refusal
