#pragma once
// What a search for a batch size is told.

#include <cstdint>
#include <cstdio>
#include <string>

#include <fulgurite/loop/options.hpp>
#include <fulgurite/tuner/size_field.hpp>

namespace fulgurite::tune {

/// How a size follows from the one before. `power`: twice as large until memory ends, then the last that fitted.
/// `binsearch`: the same, then halves of what lies between the largest that fitted and the smallest that did not.
enum class SizeMode : std::uint8_t { power, binsearch };
using enum SizeMode;

/// An aggregate: `{.mode = tune::binsearch, .field = &Data::batch_size}`.
template <class Model, class Data = NoModule>
struct BatchSizeSearch {
  SizeMode mode = power;
  long init_val = 2;         ///< the first size
  int max_trials = 25;       ///< with binsearch: trials that fit
  long steps_per_trial = 3;  ///< optimizer steps; of evaluations: batches
  long max_val = 8192;       ///< no size above it is tried
  double margin = 0.05;      ///< binsearch: the part that is taken off again where memory has ended
  SizeField<Model, Data> field = {};
  bool show = true;  ///< a line for each trial
  std::FILE* stream = stderr;
};

/// Whether T says how a batch size is searched for.
template <class T>
inline constexpr bool is_batch_size_search = false;
template <class Model, class Data>
inline constexpr bool is_batch_size_search<BatchSizeSearch<Model, Data>> = true;

/// Error [fulgurite.tuner.range] where a number of the search cannot be.
template <class Model, class Data>
void check(BatchSizeSearch<Model, Data> const& search) {
  auto const at_least = [](char const* name, long value, long least) {
    if (value < least)
      loop::refuse_option("fulgurite.tuner.batch_size_option", name, value, "it is at least " + std::to_string(least));
  };
  at_least(".init_val", search.init_val, 1);
  at_least(".max_trials", search.max_trials, 1);
  at_least(".steps_per_trial", search.steps_per_trial, 1);
  at_least(".max_val", search.max_val, search.init_val);
  if (!(search.margin >= 0 && search.margin < 1))
    loop::refuse_option("fulgurite.tuner.batch_size_option", ".margin", search.margin,
                        "it is a part, from 0 to below 1");
}

}  // namespace fulgurite::tune
