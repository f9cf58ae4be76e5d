#pragma once
// The search for a learning rate: short steps with rising rates.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/searching.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/tuner/found_rate.hpp>
#include <fulgurite/tuner/rate_field.hpp>

namespace fulgurite::tune {

/// How rates rise from step to step: by a factor, or by a difference.
enum class RateMode : std::uint8_t { exponential, linear };
using enum RateMode;

/// An aggregate: `{.min_lr = 1e-5, .max_lr = 0.1, .update = &Net::rate}`.
template <class Model>
struct RateSearch {
  double min_lr = 1e-8;
  double max_lr = 1;
  int num_training = 100;  ///< steps; the first one takes min_lr, the last one max_lr
  RateMode mode = exponential;
  /// Ends the search where the averaged loss is so many times the lowest one, if that is positive; nullopt: at no
  /// multiple. A loss that is not finite ends it in any case.
  std::optional<double> early_stop_threshold = 4.0;
  std::size_t skip_begin = RateCurve::skip_begin;  ///< points that the suggestion leaves out
  std::size_t skip_end = RateCurve::skip_end;
  RateField<Model> update = {};  ///< where the suggestion is put
};

/// Whether T says how a learning rate is searched for.
template <class T>
inline constexpr bool is_rate_search = false;
template <class Model>
inline constexpr bool is_rate_search<RateSearch<Model>> = true;

/// Error [fulgurite.tuner.range] where a number of the search cannot be.
template <class Model>
void check(RateSearch<Model> const& search) {
  auto const refuse = [](std::string const& what) {
    throw Error("fulgurite.tuner.range", "a search for a learning rate " + what);
  };
  bool const rises = search.min_lr < search.max_lr && std::isfinite(search.max_lr);
  if (!rises || search.min_lr < 0)
    refuse("from min_lr = " + report::formatted("%g", search.min_lr) + " to max_lr = " +
           report::formatted("%g", search.max_lr) + ": give finite rates that are not negative, the smaller one first");
  if (search.mode == exponential && search.min_lr == 0)
    refuse("from min_lr = 0, which no factor raises: begin above it, or use tune::linear");
  if (search.num_training < 2)
    refuse("of num_training = " + std::to_string(search.num_training) + ": it has 2 steps or more, one at each end");
  if (search.early_stop_threshold && !(*search.early_stop_threshold > 0))
    refuse("with early_stop_threshold = " + std::to_string(*search.early_stop_threshold) +
           ": a loss is compared with a positive multiple of the lowest one, or with none (std::nullopt)");
}

/// The rate of step i of n: both ends are reached exactly.
template <class Model>
double rate_of(RateSearch<Model> const& search, long i) {
  long const last = search.num_training - 1;
  if (i >= last) return search.max_lr;
  double const part = static_cast<double>(i) / static_cast<double>(last);
  return search.mode == linear ? search.min_lr + part * (search.max_lr - search.min_lr)
                               : search.min_lr * std::pow(search.max_lr / search.min_lr, part);
}

/// The rates of all groups where that of the first one is `lr`.
inline std::vector<double> in_ratio(std::vector<double> initial, double lr) {
  if (initial.empty())
    throw Error("fulgurite.tuner.no_rate", "there is no optimizer whose rate could be searched for: NoOptimizer has "
                                           "none, so leave the search out");
  double const first = initial.front();
  if (!(first > 0))
    throw Error("fulgurite.tuner.zero_rate",
                "the rate of the first group is " + std::to_string(first) +
                    ", and the others keep their ratio to it: give the optimizer a positive rate to start with");
  for (double& rate : initial) rate = lr * (rate / first);
  return initial;
}

/// Tries the rates out. Nothing is set by it.
template <class R, class Model>
FoundRate find_rate(Rehearser<R>& rehearser, RateSearch<Model> const& search) {
  if (rehearser.context().stage() != Stage::fit)
    throw Error("fulgurite.tuner.no_rate", "an evaluation moves no learning rates, so none can be searched for in it: "
                                           "ask for this search where ctx.stage() is Stage::fit");
  auto const initial = rehearser.rates().initial();
  static_cast<void>(in_ratio(initial, 1));
  FoundRate found;
  found.by_factors = search.mode == exponential;
  RehearsalPlan plan{.steps = search.num_training, .non_finite = NonFinite::ignore};
  plan.before_step = [&](RehearsedStep& step) { step.rates().set(in_ratio(initial, rate_of(search, step.number()))); };
  std::vector<long> numbers;
  long made = 0;
  plan.after_step = [&](RehearsedStep& step) {
    while (!numbers.empty() && numbers.back() >= step.number()) numbers.pop_back();  // captured steps were made again
    found.shorten(numbers.size());
    numbers.push_back(step.number());
    made = step.made();
    auto const best = found.best();
    found.ended.clear();
    found.add(rate_of(search, step.number()), step.has_loss() ? std::optional<double>(step.loss()) : std::nullopt);
    if (!step.has_loss()) return;
    if (!std::isfinite(found.raw.back())) found.ended = "the loss was not finite";
    else if (search.early_stop_threshold && best && *best > 0 &&
             found.loss.back() > *search.early_stop_threshold * *best)
      found.ended = "the loss diverged";
    if (!found.ended.empty()) step.stop();
  };
  rehearser.rehearse(plan);
  if (found.ended.empty() && made < search.num_training)
    found.ended = rehearser.context().options().limit_train_batches.none()
                      ? "the fit has no batches: limit_train_batches is 0"
                      : "the fit has no more steps: see max_epochs";
  found.suggested = found.suggestion(search.skip_begin, search.skip_end);
  return found;
}

/// Where nothing was found, that is said.
template <class R>
void tell_none(Rehearser<R>& rehearser, Suggestion const& suggested) {
  if (!suggested.lr)
    rehearser.context().warn_each("fulgurite.tuner.no_suggestion",
                                  "the search for a learning rate suggests none, so it stays as it is: " +
                                      suggested.why + ". Give it more steps, or a lower max_lr");
}

}  // namespace fulgurite::tune
