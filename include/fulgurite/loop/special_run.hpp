#pragma once
// Options that stand for several others: fast_dev_run, overfit_batches, barebones. What they replace, and what they
// silence, is said.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/constant.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/warnings.hpp>

namespace fulgurite::loop {

/// fast_dev_run = n: one epoch of n batches, as many of validation, test and predict, no sanity check. A batch may take
/// several steps, and validation comes all the same, so no limit of steps is below that of batches.
inline void apply_dev_run(TrainerOptions& o) {
  if (!o.overfit_batches) o.limit_train_batches = o.limit_val_batches = o.fast_dev_run;
  o.limit_test_batches = o.limit_predict_batches = o.fast_dev_run;
  if (o.max_steps && *o.max_steps >= 0 && *o.max_steps < o.fast_dev_run) o.max_steps = o.fast_dev_run;
  o.max_epochs = 1;
  o.min_epochs.reset();
  o.min_steps.reset();
  o.num_sanity_val_steps = 0;
  o.val_check_interval = {};
  o.check_val_every_n_epoch = 1;
}

/// The options that the run goes by, of options that were checked.
inline TrainerOptions effective(TrainerOptions given) {
  if (given.overfit_batches) given.limit_train_batches = given.limit_val_batches = *given.overfit_batches;
  if (given.barebones) given.log_every_n_steps = given.num_sanity_val_steps = 0;
  if (given.fast_dev_run != 0) apply_dev_run(given);
  return given;
}

/// Reports, measures or saves, so barebones has no use for it.
template <class C>
inline constexpr bool is_output = hook::log_metrics::named<C> || Profiler<C> || order_of<C>() == Order::progress ||
                                  order_of<C>() == Order::summary || order_of<C>() == Order::checkpoint;
/// Reads metrics, of which barebones keeps none.
template <class Watches>
inline constexpr bool watches_some = false;
template <class M, class... Ms>
inline constexpr bool watches_some<MetricTypes<M, Ms...>> = true;
template <class C>
consteval bool is_watcher() {
  if constexpr (requires { typename C::Watches; }) return watches_some<typename C::Watches>;
  else return false;
}
/// Does nothing in a fast_dev_run: it would save, stop or log on behalf of a run that is none.
template <class C>
consteval bool is_inert_in_dev_run() {
  if constexpr (FULGURITE_SAYS(C, bool, inert_in_dev_run)) return C::inert_in_dev_run;
  else return hook::log_metrics::named<C>;
}

[[noreturn]] FULGURITE_COLD void refuse_output(std::string_view callback) {
  throw Error("fulgurite.options.barebones",
              "barebones runs the loop alone, and there is a " + std::string(callback) + ": leave it out");
}
FULGURITE_COLD void warn_of_dev_run(Warn warn, long batches, std::string const& idle) {
  warn("fulgurite.options.dev_run", "fast_dev_run: " + std::to_string(batches) +
                                        (batches == 1 ? " batch" : " batches") +
                                        " of each loop, one epoch, no sanity check" + idle);
}

/// Before anything starts: barebones has no callback that reports, but for those that make_trainer has added, which are
/// idle then; a fast_dev_run says what it replaces and who is idle.
template <class R, class... Cs>
void check_special(State<R>& run, Pack<Cs...> const&) {
  auto const& o = run.asked.options;
  if (o.barebones) {
    std::string_view output;
    [[maybe_unused]] std::size_t left = sizeof...(Cs);  // of these the last ones are added
    ((left-- > run.asked.added && (is_output<Cs> || is_watcher<Cs>()) ? void(output = type_name<Cs>()) : void()), ...);
    if (!output.empty()) refuse_output(output);
  }
  if (o.fast_dev_run != 0) {
    std::string idle;
    ((is_inert_in_dev_run<Cs>() ? void(idle += (idle.empty() ? "; idle: " : ", ") + std::string(type_name<Cs>()))
                                : void()),
     ...);
    warn_of_dev_run(Warn::to<&State<R>::warn>(run), o.fast_dev_run, idle);
  }
}

}  // namespace fulgurite::loop
