#pragma once
// The data of a plan, and what a trainer is told of it.

#include <cstddef>
#include <iterator>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>

#include "planned.hpp"

namespace reference {

/// Only its end tells how long it was.
template <class B>
struct WithoutSize {
  static constexpr bool batches_stay_valid = true;
  std::vector<B> all;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = B;
    B const* at;
    B operator*() const { return *at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    void operator++(int) { ++at; }
    bool operator==(Iterator const&) const = default;
  };
  Iterator begin() const { return {all.data()}; }
  Iterator end() const { return {all.data() + all.size()}; }
};

/// Each batch is put into the same place when it is asked for; behind the last there is nonsense.
template <class B>
struct Generated {
  std::vector<B> all;
  B place{};
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = B;
    Generated* from;
    std::size_t at;
    B& operator*() const { return from->place; }
    Iterator& operator++() {
      from->put(++at);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return at == from->all.size(); }
  };
  Iterator begin() {
    put(0);
    return {this, 0};
  }
  std::default_sentinel_t end() const { return {}; }
  void put(std::size_t at) { place = at < all.size() ? all[at] : B(1e9); }
};

inline TrainerOptions options(Plan const& plan) {
  TrainerOptions o{.max_epochs = plan.max_epochs,
                   .min_epochs = plan.min_epochs,
                   .max_steps = plan.max_steps,
                   .min_steps = plan.min_steps,
                   .check_val_every_n_epoch = plan.check_val_every_n_epoch,
                   .num_sanity_val_steps = plan.num_sanity_val_steps,
                   .log_every_n_steps = plan.log_every_n_steps};
  if (plan.limit_train_batches) o.limit_train_batches = *plan.limit_train_batches;
  if (plan.limit_train_fraction) o.limit_train_batches = Fraction{*plan.limit_train_fraction};
  if (plan.limit_val_batches) o.limit_val_batches = *plan.limit_val_batches;
  if (plan.limit_val_fraction) o.limit_val_batches = Fraction{*plan.limit_val_fraction};
  if (plan.val_check_batches) o.val_check_interval = *plan.val_check_batches;
  if (plan.val_check_fraction) o.val_check_interval = Fraction{*plan.val_check_fraction};
  return o;
}
inline EMAWeightAveraging average_of(Plan const& plan) {
  if (!plan.average) return EMAWeightAveraging{{.update_every_n_steps = 0}};
  return EMAWeightAveraging{{.decay = 0.5,
                             .update_every_n_steps = plan.average->every_n_steps,
                             .update_starting_at_step = plan.average->from_step,
                             .update_starting_at_epoch = plan.average->from_epoch}};
}
inline Clip clip(Plan const& plan) {
  if (plan.clip_norm) return ClipNorm{*plan.clip_norm};
  if (plan.clip_value) return ClipValue{*plan.clip_value};
  return {};
}
inline Automatic automatic(Plan const& plan) {
  return {.accumulate_grad_batches = plan.window(0),
          .clip = clip(plan),
          .tbptt = plan.mode == Mode::slices ? static_cast<int>(plan.slice) : 0};
}

inline std::vector<double> numbers(long n, long from = 0) {
  return toy::batches(static_cast<int>(n), static_cast<double>(from));
}
/// A batch of one sample is that sample.
struct Alone {
  double operator()(std::vector<double> const& samples) const { return samples.front(); }
};
inline auto both_loaders(Plan const& plan) {
  data::Loader first{numbers(plan.n), {.batch_size = 1, .workers = plan.several->workers}, Alone{}};
  return data::combined<data::CombineMode::max_size_cycle>(std::move(first), numbers(plan.several->n));
}
inline std::vector<std::vector<double>> to_slice(Plan const& plan) {
  std::vector<std::vector<double>> all;
  for (long b = 0; b != plan.n; ++b) {
    all.emplace_back();
    for (long step = 0; step != length(b); ++step) all.back().push_back(static_cast<double>(100 * b + step));
  }
  return all;
}

/// fit(model, optimization, training loader, validation loaders) with what the plan is about.
template <class Fit>
void with_data(Plan const& plan, Fit const& fit) {
  auto validation = numbers(plan.validation.value_or(0));
  if (plan.mode == Mode::manual) {
    ByHand model{{.plan = &plan}};
    return fit(model, Manual{}, numbers(plan.n), validation);
  }
  if (plan.mode == Mode::slices) {
    InSlices model{{.plan = &plan}};
    return fit(model, automatic(plan), to_slice(plan), validation);
  }
  Planned model{{.plan = &plan}};
  if (plan.several)
    return fit(model, automatic(plan), both_loaders(plan),
               std::tuple(validation, numbers(plan.several->validation, other_validation)));
  auto const validated = [&](auto&& training) {
    if (plan.validation) fit(model, automatic(plan), training, validation);
    else fit(model, automatic(plan), training, NoValidation{});
  };
  auto const loaded = [&]<class B>(std::vector<B> all) {
    if (plan.sized) validated(all);
    else if (plan.generated) validated(Generated<B>{all});
    else validated(WithoutSize<B>{all});
  };
  if (plan.none_batches.empty()) return loaded(numbers(plan.n));
  std::vector<std::optional<double>> some;
  for (long b = 0; b != plan.n; ++b)
    some.push_back(plan.none_batch(b) ? std::nullopt : std::optional(static_cast<double>(b)));
  loaded(std::move(some));
}

/// What is heard of that; an Error is its last line.
template <class Fit>
Lines heard_of(Plan const& plan, Fit const& fit) {
  heard.clear();
  hearing = false;
  try {
    with_data(plan, fit);
  } catch (Error const& error) { heard.push_back(std::string("Error ") + error.what()); }
  return heard;
}

}  // namespace reference
