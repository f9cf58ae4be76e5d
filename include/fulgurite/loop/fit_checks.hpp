#pragma once
// What can be known to be wrong with a fit before anything of it starts.

#include <string>
#include <tuple>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/files_under_way.hpp>
#include <fulgurite/loop/special_run.hpp>
#include <fulgurite/loop/state_keys.hpp>

namespace fulgurite::loop {

/// The options of automatic optimization against the model, the strategy and the optimizer.
template <class R>
void check_optimization(State<R>& run) {
  if constexpr (R::automatic) {
    using M = typename R::Model;
    int const k = run.asked.optimization.accumulate_grad_batches;
    check_window<R>("accumulate_grad_batches", k);
    check_slices<M>(run.asked.optimization.tbptt, k);
    using O = std::tuple_element_t<0, decltype(Optimizers<R>::optimizers)>;
    check_clip<R, O>(run.asked.optimization.clip);
    if (k > 1 && (hook::optimizer_step::named<M> || hook::optimizer_zero_grad::named<M>))
      run.warn("fulgurite.hook.once_a_window",
               "the model has an optimizer_step or optimizer_zero_grad of its own: with accumulate_grad_batches = " +
                   std::to_string(k) + " it is called once a window, not for every batch");
    run.asked.window_length = k;
  }
}

/// max_time beside a Timer that has a limit: which of them would count?
template <class R, class Pack>
void check_timers(State<R>& run, Pack& pack) {
  if (!run.asked.options.max_time) return;
  pack.each([](auto& callback) {
    if constexpr (requires { callback.limits_time(); })
      if (callback.limits_time())
        throw Error("fulgurite.options.two_timers",
                    "max_time and a Timer with a limit both end the run: leave one of them out");
  });
}

/// Errors of this kind find no run yet: no hook hears of them.
template <class R, class Pack, class Source>
void check_fit(State<R>& run, Pack& pack, Source& source) {
  auto const& options = run.asked.options;
  check_optimization(run);
  check_timers(run, pack);
  if constexpr (requires { typename R::Backend::RunFile; }) refuse_equal_keys(pack);
  if constexpr ((!WritesLater<typename R::Backend> || shares<R>) && any_names_files<Pack>)
    if (options.save_in_background)
      run.warn("fulgurite.options.save_in_background",
               std::string("save_in_background is set, and ") +
                   (shares<R> ? "several processes save together"
                              : "the strategy's tensor library has no form of files that another thread could write") +
                   ": they are written at once, and training waits for each");
  check_special(run, pack);
  if (options.barebones && observes_any<R>)
    throw Error("fulgurite.options.barebones",
                "barebones keeps no metric, and a schedule follows one: leave one of them out");
  if (options.reload_dataloaders_every_n_epochs != 0 && !requires { source.reload_training(); })
    throw Error("fulgurite.options.reload",
                "reload_dataloaders_every_n_epochs = " + std::to_string(options.reload_dataloaders_every_n_epochs) +
                    " asks for new loaders, and fit was given some: pass a data module, which can make them again");
}

}  // namespace fulgurite::loop
