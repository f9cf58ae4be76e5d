#pragma once
// A learning rate found before training.

#include <type_traits>
#include <utility>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>
#include <fulgurite/tuner/rate_search.hpp>

namespace fulgurite::tune {

/// The model of a trainer.
template <class Trainer>
using ModelOf = typename Trainer::Run::Model;

/// Runs num_training steps with rates that rise from min_lr to max_lr, on the trainer's own optimizer with its windows,
/// precision and strategy, its schedule standing still; puts everything back, as tune::rehearse does; and puts the rate
/// at which the loss fell the fastest into the model, from where its configure_optimizers takes it in the next fit.
/// Between fits; automatic optimization. In a fast_dev_run nothing is tried.
///   auto const found = tune::lr_find(trainer, net, loader, {.max_lr = 0.1, .update = &Net::rate});
///   if (found.suggested) std::cout << *found.suggested << '\n';
///   found.save("lr.csv");
template <class Trainer, class Data>
  requires(!is_rate_search<std::remove_cvref_t<Data>>)
FoundRate lr_find(Trainer& trainer, ModelOf<Trainer>& model, Data&& data, RateSearch<ModelOf<Trainer>> options = {}) {
  using R = typename Trainer::Run;
  FoundRate found;
  if constexpr (requires { typename R::Strategy; }) {
    using Rules = judge::NeedRules<R, loop::Optimizers<R>::count, LearningRateFinder<ModelOf<Trainer>>>;
    static_cast<void>(Rules::template judge<true>());
    if constexpr (decltype(Rules::judge())::ok) {
      check(options);
      if (trainer.options().fast_dev_run != 0) {
        found.suggested.why = found.ended = "nothing is tried in a fast_dev_run";
        return found;
      }
      trainer.search(model, data, [&](Rehearser<R>& rehearser) {
        found = find_rate(rehearser, options);
        tell_none(rehearser, found.suggested);
      });
      if (found.suggested) options.update.set(model, *found.suggested);
    }
  }
  return found;
}
/// The model has the loaders itself.
template <class Trainer>
FoundRate lr_find(Trainer& trainer, ModelOf<Trainer>& model, RateSearch<ModelOf<Trainer>> options = {}) {
  return lr_find(trainer, model, model, std::move(options));
}

}  // namespace fulgurite::tune
