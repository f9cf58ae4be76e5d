#pragma once
// Tells the loggers how a run was made.

#include <span>

#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/loop/declared_hyperparameters.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// What the model and the data module declare goes to each logger that has `log_hyperparams`; where they declare
/// nothing, none hears of it. Called when fit has started, before its first batch.
template <class R, class Pack, class Source>
void log_hyperparameters(State<R>& run, Pack& pack, Source& source) {
  auto const all = declared_hyperparameters(run, source);
  if (all.empty() || run.parts.strategy.rank() != 0 || run.asked.options.fast_dev_run != 0 ||
      run.asked.options.barebones)
    return;
  std::span<Hyperparameter const> const values(all);
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.log_hyperparams(values); }) callback.log_hyperparams(values);
  });
}

}  // namespace fulgurite::loop
