#pragma once
// Part of a run's state: what one step leaves to the next.

#include <optional>

#include <fulgurite/loop/recurrent.hpp>
#include <fulgurite/loop/run_key.hpp>

namespace fulgurite::loop {

template <class R>
struct Carried {
  std::optional<typename HiddenOf<typename R::Model>::type> hidden =
      std::nullopt;  ///< of a recurrent model, from one slice of time to the next
  long slices = 0;   ///< of the batch at hand that were stepped on, where others of it follow
  /// Random numbers as they were when the pass over the training data began: a loader may have shuffled by them.
  std::optional<decltype(R::Backend::rng_state())> pass_random = std::nullopt;
  /// The same of the end of an epoch that was cut short: see before_cut.hpp.
  std::optional<decltype(R::Backend::rng_state())> cut_random = std::nullopt;
  typename R::Value loss{};  ///< of the last batch, where a model's own optimizer_step may ask for it
};

}  // namespace fulgurite::loop
