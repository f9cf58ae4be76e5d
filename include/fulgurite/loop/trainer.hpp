#pragma once
// Trainer: owns policies, callbacks and counters, borrows model and data. Assembled, and refused, by the compiler.

// In this order, so that each header with sentences is included from here: compilers print every #include between a
// sentence and the program.
// clang-format off
#include <fulgurite/loop/not_here.hpp>
#include <fulgurite/loop/elsewhere.hpp>
#include <fulgurite/loop/context_place.hpp>
#include <fulgurite/loop/context_values.hpp>
#include <fulgurite/loop/context_dynamic.hpp>
#include <fulgurite/loop/context_log.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/borrowed_optimizer.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/diagnose/argument_rules.hpp>
#include <fulgurite/diagnose/policy_rules.hpp>
#include <fulgurite/diagnose/model_rules.hpp>
#include <fulgurite/diagnose/callback_rules.hpp>
#include <fulgurite/diagnose/optimizer_rules.hpp>
#include <fulgurite/diagnose/state_rules.hpp>
#include <fulgurite/diagnose/trainer_rules.hpp>
#include <fulgurite/diagnose/data_rules.hpp>
#include <fulgurite/diagnose/call_rules.hpp>
#include <fulgurite/diagnose/call_stages.hpp>
#include <fulgurite/diagnose/function_refusals.hpp>
#include <fulgurite/diagnose/hook_refusals.hpp>
#include <fulgurite/diagnose/misspelt_evaluation.hpp>
#include <fulgurite/diagnose/misspelt_events.hpp>
#include <fulgurite/diagnose/misspelt_functions.hpp>
#include <fulgurite/diagnose/near_miss_refusals.hpp>
#include <fulgurite/diagnose/option_rules.hpp>
#include <fulgurite/diagnose/checked_options.hpp>
#include <fulgurite/diagnose/hollow_trainer.hpp>
#include <fulgurite/diagnose/other_calls.hpp>
#include <fulgurite/diagnose/judged_calls.hpp>
#include <fulgurite/loop/between_runs.hpp>
// clang-format on

#include <fulgurite/loop/make_trainer.hpp>
#include <fulgurite/loop/trainer_body.hpp>

namespace fulgurite {

/// A trainer for one model type, of a strategy, a precision, an optimization and callbacks; see make_trainer.
template <class M, class S = refusal::Nothing, class P = refusal::Nothing, class O = refusal::Nothing, class... Cs>
class Trainer : public TrainerBody<judge::VerdictOn<M, S, P, O, Cs...>::ok, M, S, P, O, Cs...> {
  using Verdict = judge::VerdictOn<M, S, P, O, Cs...>;
  using Said = decltype(Verdict::Rules::template judge<true, typename Verdict::Whom>());
  using Body = TrainerBody<Verdict::ok, M, S, P, O, Cs...>;

 public:
  using Body::Body;

  // Refused with a sentence, which a deleted function has not.
  Trainer(Trainer&&) noexcept : Trainer(refusal::Nothing{}) { static_assert(!stays, FULGURITE_SENTENCE_TRAINER_MOVE); }
  Trainer(Trainer const&) noexcept : Trainer(refusal::Nothing{}) {
    static_assert(!stays, FULGURITE_SENTENCE_TRAINER_MOVE);
  }
  Trainer& operator=(Trainer const&) { static_assert(!stays, FULGURITE_SENTENCE_TRAINER_MOVE); }

 private:
  static constexpr bool stays = sizeof(M*) != 0;  // a question of the template, so that only a use is refused
  explicit Trainer(refusal::Nothing)
      : Body(refusal::nothing<TrainerOptions>(), std::move(refusal::nothing<S>()), std::move(refusal::nothing<P>()),
             std::move(refusal::nothing<O>()), std::move(refusal::nothing<Cs>())...) {}
};

/// `Trainer trainer{options}` names no model, and is refused: make_trainer makes the type.
template <class... Args>
Trainer(Args const&...) -> Trainer<refusal::given<Args...>>;

}  // namespace fulgurite
