#pragma once
// Tells the loggers how a run was made.

#include <span>
#include <type_traits>
#include <vector>

#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// What the model and the data module declare goes to each logger that has `log_hyperparams`; where they declare
/// nothing, none hears of it. Called when fit has started, before its first batch.
template <class R, class Pack, class Source>
void log_hyperparameters(State<R>& run, Pack& pack, Source& source) {
  using Module = std::remove_cvref_t<decltype(source.module())>;
  std::vector<Hyperparameter> all;
  if constexpr (std::is_same_v<Module, typename R::Model>) all = hyperparameters(*run.parts.model);
  else all = hyperparameters(*run.parts.model, source.module());
  if (all.empty() || run.parts.strategy.rank() != 0 || run.asked.options.fast_dev_run != 0) return;
  std::span<Hyperparameter const> const values(all);
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.log_hyperparams(values); }) callback.log_hyperparams(values);
  });
}

}  // namespace fulgurite::loop
