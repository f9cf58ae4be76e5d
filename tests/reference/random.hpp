#pragma once
// Random plans: every feature alone and with every other, small enough that thousands run in a second.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>

#include "plan.hpp"

namespace reference {

/// Whether a trainer accepts it and it ends: what the specification makes an Error (sections 3 and 5.5, D7) is not a
/// plan.
inline bool acceptable(Plan const& plan) {
  auto given = [](auto const& limit) { return limit && *limit != -1; };
  if (plan.n < 1 || plan.frequency < 1 || !plan.accumulate_grad_batches.contains(0)) return false;
  if (!given(plan.max_epochs) && !given(plan.max_steps)) return false;
  if (!given(plan.max_epochs) && !plan.none_batches.empty()) return false;  // without a step max_steps is never reached
  if (!given(plan.max_epochs) && plan.limit_train_batches == 0) return false;
  if (plan.min_epochs && given(plan.max_epochs) && *plan.min_epochs > *plan.max_epochs) return false;
  if (plan.min_steps && given(plan.max_steps) && *plan.min_steps > *plan.max_steps) return false;
  if (plan.limit_train_batches && plan.limit_train_fraction) return false;
  if (plan.limit_val_batches && plan.limit_val_fraction) return false;
  if (plan.val_check_batches && plan.val_check_fraction) return false;
  if (plan.sized && plan.generated) return false;
  if (!plan.sized && (plan.limit_train_fraction || plan.val_check_fraction)) return false;
  if (plan.further > Schedule::epoch || plan.further_frequency < 1) return false;
  if (plan.clip_norm && plan.clip_value) return false;
  if (plan.several || plan.mode != Mode::automatic) {
    if (!plan.sized || !plan.validation || !plan.none_batches.empty()) return false;
    if (plan.several && (plan.mode != Mode::automatic || plan.limit_train_fraction)) return false;
  }
  if (plan.mode != Mode::automatic && !plan.none_losses.empty()) return false;
  if (plan.mode == Mode::manual) {
    if (plan.schedule > Schedule::step || plan.frequency != 1) return false;
    if (plan.further > Schedule::step || plan.further_frequency != 1) return false;
  }
  if (plan.mode == Mode::slices && (plan.accumulate_grad_batches.size() != 1 || plan.window(0) != 1)) return false;
  auto whole = [](double length, std::optional<double> part) {
    return static_cast<long>(part ? length * *part : length);
  };
  long const all = plan.several ? std::max(plan.n, plan.several->n) : plan.n;
  long const n = plan.limit_train_batches ? std::min(all, *plan.limit_train_batches)
                                          : whole(static_cast<double>(all), plan.limit_train_fraction);
  if (plan.limit_train_fraction && n == 0) return false;
  if (plan.validation) {
    auto const fewest = std::min(*plan.validation, plan.several ? plan.several->validation : *plan.validation);
    if (plan.limit_val_fraction && whole(static_cast<double>(fewest), plan.limit_val_fraction) == 0) return false;
    bool const counts_whole_run = !plan.check_val_every_n_epoch;
    if (counts_whole_run && !plan.val_check_batches) return false;
    if (!counts_whole_run && plan.sized && plan.val_check_batches && *plan.val_check_batches > n) return false;
  }
  return true;
}

class Plans {
 public:
  explicit Plans(unsigned seed) : bits_(seed) {}

  /// The next acceptable one.
  Plan next() {
    for (;;)
      if (Plan const plan = draw(); acceptable(plan)) return plan;
  }

 private:
  // The distributions of <random> differ between standard libraries; these do not.
  long between(long low, long high) {
    return low + static_cast<long>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool once_in(long times) { return between(1, times) == 1; }
  double part() { return static_cast<double>(between(1, 8)) / 8; }
  Place place() { return {static_cast<int>(between(0, 2)), between(0, 5)}; }

  Plan draw() {
    Plan plan;
    plan.max_epochs = static_cast<int>(between(1, 4));
    if (once_in(12)) plan.max_epochs = 0;
    if (once_in(3)) plan.max_steps = between(0, 9);
    if (once_in(8)) plan.max_epochs = once_in(2) ? std::nullopt : std::optional(-1);
    if (once_in(8)) plan.max_steps = -1;
    if (once_in(6)) plan.min_epochs = static_cast<int>(between(0, 3));
    if (once_in(6)) plan.min_steps = between(0, 8);
    plan.n = between(1, 7);
    plan.sized = !once_in(3);
    plan.generated = !plan.sized && once_in(2);
    if (once_in(4)) plan.limit_train_batches = between(0, 8);
    else if (once_in(6)) plan.limit_train_fraction = part();
    if (!once_in(4)) validation(plan);
    windows(plan);
    schedule(plan);
    for (long i = once_in(2) ? between(1, 2) : 0; i != 0; --i) {
      Place const at = place();
      plan.stops.push_back({static_cast<Where>(between(once_in(4) ? 0 : 1, 3)), at.epoch, at.batch});
    }
    for (long i = once_in(6) ? between(1, 2) : 0; i != 0; --i) plan.skips.push_back(place());
    for (long i = once_in(6) ? between(1, 3) : 0; i != 0; --i) plan.none_losses.push_back(place());
    if (once_in(6))
      for (long b = 0; b != plan.n; ++b)
        if (once_in(3)) plan.none_batches.push_back(b);
    plan.log_every_n_steps = static_cast<int>(plan.none_batches.empty() || once_in(2) ? between(0, 4) : 0);
    if (once_in(4)) (once_in(2) ? plan.clip_norm : plan.clip_value) = static_cast<double>(between(1, 8)) / 2;
    if (once_in(3)) average(plan);
    if (once_in(8)) several(plan);
    else if (once_in(8)) by_hand(plan);
    else if (once_in(8)) in_slices(plan);
    return plan;
  }

  void validation(Plan& plan) {
    plan.validation = between(1, 3);
    if (once_in(5)) plan.limit_val_batches = between(0, 3);
    else if (once_in(6)) plan.limit_val_fraction = part();
    if (once_in(2)) plan.val_check_batches = between(1, 6);
    else if (once_in(2)) plan.val_check_fraction = part();
    if (once_in(4)) plan.check_val_every_n_epoch = std::nullopt;
    else if (once_in(4)) plan.check_val_every_n_epoch = static_cast<int>(between(2, 3));
    plan.num_sanity_val_steps = static_cast<int>(once_in(3) ? between(-1, 3) : 0);
  }
  void windows(Plan& plan) {
    if (once_in(3)) return;
    plan.accumulate_grad_batches[0] = static_cast<int>(between(1, 4));
    if (once_in(3)) plan.accumulate_grad_batches[static_cast<int>(between(1, 2))] = static_cast<int>(between(1, 4));
  }
  void schedule(Plan& plan) {
    plan.schedule = static_cast<Schedule>(between(0, 4));
    if (once_in(2)) plan.frequency = between(2, 3);
    plan.watches_training = once_in(2);
    if (once_in(2)) plan.further = once_in(2) ? Schedule::step : Schedule::epoch;
    if (once_in(2)) plan.further_frequency = between(2, 3);
  }
  void average(Plan& plan) {
    plan.average.emplace();
    plan.average->every_n_steps = between(0, 3);
    plan.average->from_step = once_in(2) ? between(1, 4) : 0;
    if (once_in(3)) plan.average->from_epoch = static_cast<int>(between(0, 2));
  }
  /// A loader with a size, and validation.
  void plainly(Plan& plan) {
    plan.sized = true;
    plan.generated = false;
    plan.none_batches.clear();
    if (!plan.validation) plan.validation = between(1, 3);
  }
  void several(Plan& plan) {
    plainly(plan);
    plan.limit_train_fraction.reset();
    plan.several = {.n = between(1, 7), .validation = between(1, 3), .workers = once_in(2) ? 2 : 0};
  }
  void by_hand(Plan& plan) {
    plainly(plan);
    plan.mode = Mode::manual;
    plan.none_losses.clear();
    if (plan.schedule != Schedule::none) plan.schedule = Schedule::step;
    if (plan.further != Schedule::none) plan.further = Schedule::step;
    plan.frequency = plan.further_frequency = 1;
  }
  void in_slices(Plan& plan) {
    plainly(plan);
    plan.mode = Mode::slices;
    plan.none_losses.clear();
    plan.accumulate_grad_batches = {{0, 1}};
    plan.slice = between(1, 3);
  }

  std::mt19937_64 bits_;
};

}  // namespace reference
