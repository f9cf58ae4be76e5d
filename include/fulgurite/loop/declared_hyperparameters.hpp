#pragma once
// The hyper-parameters of a run: what its model and its data module declare.

#include <type_traits>
#include <vector>

#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Empty where neither declares any.
template <class R, class Source>
std::vector<Hyperparameter> declared_hyperparameters(State<R>& run, Source& source) {
  using Module = std::remove_cvref_t<decltype(source.module())>;
  if constexpr (std::is_same_v<Module, typename R::Model>) return hyperparameters(*run.parts.model);
  else return hyperparameters(*run.parts.model, source.module());
}

}  // namespace fulgurite::loop
