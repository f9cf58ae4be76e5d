#pragma once
// How many batches and optimizer steps a run will have, as far as that is known.

#include <algorithm>
#include <optional>
#include <string>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/limits.hpp>
#include <fulgurite/loop/recurrent.hpp>

namespace fulgurite::loop {

/// Batches of a loader, nullopt where it does not say.
template <class Loader>
std::optional<long> size_of(Loader& loader) {
  if constexpr (SizedLoader<Loader>) return static_cast<long>(loader.size());
  else return std::nullopt;
}

/// Batches after the limit; a part of an unsized loader, or one that comes to nothing, is an early Error.
inline std::optional<long> limited(std::optional<long> size, Limit const& limit, std::string const& name) {
  if (limit.kind == Limit::Kind::batches) return size ? std::min(*size, limit.batches) : limit.batches;
  if (limit.none()) return 0;
  if (!size) {
    if (limit.all()) return std::nullopt;
    throw Error("fulgurite.options.fraction_of_unsized",
                name + " is a Fraction, but the loader has no size(): use a count of batches");
  }
  auto const part = static_cast<long>(static_cast<double>(*size) * limit.part);
  if (part == 0 && *size > 0)
    throw Error("fulgurite.options.fraction_too_small",
                name + " = " + std::to_string(limit.part) + " of " + std::to_string(*size) +
                    " batches is less than one: use at least " + std::to_string(1.0 / static_cast<double>(*size)));
  return part;
}

/// Batches of a loader after the limit; a part of several combined loaders is that part of each.
template <class Loader>
std::optional<long> batches_of(Loader& loader, Limit const& limit, std::string const& name) {
  if constexpr (requires { loader.limit_each(1.0); }) {
    bool const part = limit.kind == Limit::Kind::fraction && !limit.none();
    loader.limit_each(part ? limit.part : 1.0);
    if (part) return size_of(loader);
  }
  return limited(size_of(loader), limit, name);
}

/// ceil(batches / window) * epochs, capped by max_steps (Lightning's estimated_stepping_batches). Asked for in
/// configure_optimizers, it loads the training data early.
template <class State>
std::optional<long> estimated_steps(State const& state) {
  auto const& o = state.asked.options;
  std::optional<long> const most = o.max_steps && *o.max_steps >= 0 ? o.max_steps : std::nullopt;
  if (!o.max_epochs || *o.max_epochs < 0 || Recurrent<typename State::Key::Model>)
    return most;  // slices are known batch by batch
  auto batches = state.facts.train_batches;
  if (!batches && state.loading.count_training) batches = state.loading.count_training();
  if (!batches) return most;
  long const window = std::max(1, state.asked.window_length);
  long const steps = (*batches + window - 1) / window * std::max(*o.max_epochs, 1);
  return most ? std::min(*most, steps) : steps;
}

}  // namespace fulgurite::loop
