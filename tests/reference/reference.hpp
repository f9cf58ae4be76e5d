#pragma once
// A fit, slow and plain: the list of its events, from /spec/lightning.md (numbers of sections in the comments) and
// decisions.md (D1, D2, ...) alone. It knows nothing of include/fulgurite, so that the loops can be compared with it.

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "plan.hpp"

namespace reference {

class Fit {
 public:
  explicit Fit(Plan const& plan) : plan_(plan) {}

  // 4.1, 4.2. The model's own clearing of 4.1 and 4.3 is not there (D20): a window's first batch clears.
  Lines events() {
    hook("fit_start");
    if (plan_.stop(Where::fit_start, {})) should_stop_ = true;
    if (sanity_batches() > 0) {
      hook("sanity_check_start");
      evaluate(sanity_batches(), true);
      hook("sanity_check_end");
    }
    if (batches() > 0 && !done()) {
      hook("train_start");
      while (!done()) epoch();
      hook("train_end");
    }
    hook("fit_end");
    return lines_;
  }

 private:
  static double mean(std::vector<double> const& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
  // Section 3, limit_*_batches: int(len * f) of a part, min(len, n) of a count. An unsized loader ends where it ends
  // (D11).
  static long limited(long length, std::optional<long> count, std::optional<double> part) {
    if (part) return static_cast<long>(static_cast<double>(length) * *part);
    if (count) return std::min(length, *count);
    return length;
  }
  long batches() const { return limited(plan_.n, plan_.limit_train_batches, plan_.limit_train_fraction); }
  long validation_batches() const {
    return plan_.validation ? limited(*plan_.validation, plan_.limit_val_batches, plan_.limit_val_fraction) : 0;
  }
  // 5.9: min(num_sanity_val_steps, limit_val); -1 means all.
  long sanity_batches() const {
    if (plan_.num_sanity_val_steps == -1) return validation_batches();
    return std::min<long>(plan_.num_sanity_val_steps, validation_batches());
  }

  // 5.6: min_steps without min_epochs means min_epochs 1.
  bool minima_met() const {
    int const min_epochs = plan_.min_epochs ? *plan_.min_epochs : plan_.min_steps ? 1 : 0;
    return epoch_ >= min_epochs && global_step_ >= plan_.min_steps.value_or(0);
  }
  bool stopping() const { return should_stop_ && minima_met(); }
  // -1 and not given: no limit (section 3, 5.8).
  bool max_steps_reached() const {
    return plan_.max_steps && *plan_.max_steps != -1 && global_step_ >= *plan_.max_steps;
  }
  bool max_epochs_reached() const { return plan_.max_epochs && *plan_.max_epochs != -1 && epoch_ >= *plan_.max_epochs; }
  // 5.7
  bool done() const { return max_steps_reached() || max_epochs_reached() || stopping(); }

  // 4.2
  void epoch() {
    training_values_.clear();
    watched_values_.clear();
    hook("train_epoch_start");
    bool ran_to_its_end = false;
    for (long b = 0; b != batches(); ++b) {
      Place const at{epoch_, b};
      bool const last = b + 1 == batches();
      // Of a loader that is not read ahead only the limit tells before the step that it is the last.
      bool const known_last = last && (!plan_.generated || b + 1 == plan_.limit_train_batches);
      bool stepped = false;
      if (plan_.none_batch(b)) {
        // 5.10: neither start hook nor step; a window that it closes is the mean of the batches before it
        stepped = !window_.empty() && closes(b, known_last);
        if (stepped) step();
      } else {
        hook("train_batch_start", b);
        if (plan_.skip(at)) {
          // 4.3: -1 moves the schedules per epoch and leaves the epoch; D2: what was computed is stepped first
          if (!window_.empty()) flush();
          move_epoch_schedule();
          ++batches_of_run_;      // 5.1: ready, although not processed
          ran_to_its_end = true;  // 4.3: is_last_batch := true
          break;
        }
        stepped = batch(at, known_last);
      }
      ++batches_of_run_;

      if (known_last) move_epoch_schedule();  // 5.4: in the last batch, before on_train_batch_end
      hook("train_batch_end", b);
      if (plan_.stop(Where::train_batch_end, at)) should_stop_ = true;
      if (last && !known_last) {  // found out now: what the step would have done
        if (!window_.empty()) {
          step();
          stepped = true;
        }
        move_epoch_schedule();
      }
      if (stopping() && !window_.empty()) {  // D2
        step();
        stepped = true;
      }
      if (stepped) step_row();
      if (validation_due(b, last)) {
        evaluate(validation_batches(), false);
        if (plan_.stop(Where::validation_end, at)) should_stop_ = true;
      }
      if (stopping() && !window_.empty()) {  // D2, the stop was asked for by validation
        step();
        step_row();
        stepped = true;
      }
      if (stepped) {
        if (plan_.schedule == Schedule::plateau_step) observe_each_step();
        ++logged_steps_;  // 5.1: after validation
      }
      if (last) ran_to_its_end = true;
      if (max_steps_reached() || stopping()) break;  // 5.6, 5.8
    }
    hook("train_epoch_end");
    if (plan_.stop(Where::train_epoch_end, {epoch_, 0})) should_stop_ = true;
    // 5.4: after all hooks of the epoch's end, only if the epoch ran to its end; (e + 1) % frequency == 0
    if (ran_to_its_end && plan_.schedule == Schedule::plateau_epoch && (epoch_ + 1) % plan_.frequency == 0) observe();
    epoch_row();
    ++epoch_;  // 5.1: a part of an epoch counts as one
  }

  // 4.3, 5.2, 5.3; true where the optimizer stepped
  bool batch(Place at, bool last) {
    lines_.push_back("training_step " + std::to_string(at.batch));
    last_training_value_ = training_value(at);
    training_values_.push_back(training_value(at));
    if (plan_.watches_training) {
      // D22: of a metric logged per step the mean over the epoch; 9.3: it stays until there is another
      watched_values_.push_back(watched_in_training(at));
      watched_ = mean(watched_values_);
    }
    if (window_.empty()) {
      // 5.2: in the window's first batch, after the step, before backward; 5.3: also where the output is none
      hook("before_zero_grad");
      lines_.push_back("cleared");
    }
    bool const none = plan_.none_loss(at);
    window_.push_back(none ? 0.0 : gradient(at));
    if (!none) {
      hook("before_backward");
      hook("after_backward");
    }
    if (!closes(at.batch, last)) return false;
    step();
    return true;
  }
  // 5.2: ready % K; a window has K batches, or fewer at the epoch's end. Those that are none have their places in it.
  bool closes(long b, bool last) const { return (b + 1) % plan_.window(epoch_) == 0 || last; }

  // 4.3: the hooks inside see the old global_step (5.1); the gradient is the mean over the window's batches (D1)
  void step() {
    std::string const gradient = text(mean(window_));
    window_.clear();
    hook("before_optimizer_step gradient=" + gradient);
    lines_.push_back("step rate=" + text(rate_) + " gradient=" + gradient);
    ++global_step_;
    // 5.4: right after the optimizer step; D3: every frequency-th step of the run
    if (plan_.schedule == Schedule::step && global_step_ % plan_.frequency == 0) halve();
  }
  // A window that skip_epoch ends.
  void flush() {
    step();
    step_row();
    if (plan_.schedule == Schedule::plateau_step) observe_each_step();
    ++logged_steps_;
  }

  // 5.5, in this order
  bool validation_due(long b, bool last) const {
    if (validation_batches() == 0) return false;
    if (plan_.check_val_every_n_epoch && (epoch_ + 1) % *plan_.check_val_every_n_epoch != 0) return false;
    bool const whole = !plan_.val_check_batches && !plan_.val_check_fraction;
    if (last && !plan_.sized && whole) return true;
    // D11, read widely: neither a limit nor a count that is beyond an unsized loader's end leaves an epoch without
    // validation
    if (last && !plan_.sized && plan_.check_val_every_n_epoch && plan_.val_check_batches > b + 1) return true;
    if (stopping()) return true;
    long const every = plan_.val_check_batches ? *plan_.val_check_batches
                       : !plan_.sized          ? std::numeric_limits<long>::max()
                                      : std::max(1L, limited(batches(), {}, plan_.val_check_fraction.value_or(1.0)));
    long const i = plan_.check_val_every_n_epoch ? b : batches_of_run_ - 1;
    return (i + 1) % every == 0;
  }

  // 4.5
  void evaluate(long n, bool sanity) {
    hook("validation_start");
    double sum = 0, watched = 0;
    for (long i = 0; i != n; ++i) {
      lines_.push_back("validation_step " + std::to_string(i));
      sum += validation_value(validations_, i);
      watched += watched_in_validation(validations_, i);
    }
    hook("validation_epoch_end");
    if (!sanity) {  // 5.9: nothing of a sanity check is kept
      if (!plan_.watches_training) watched_ = watched / static_cast<double>(n);
      // 9.3: once, x = the step that is not yet counted
      row(logged_steps_, {"v=" + text(sum / static_cast<double>(n))});
      ++validations_;
    }
    hook("validation_end");
  }

  // 5.4: (e + 1) % frequency == 0
  void move_epoch_schedule() {
    if (plan_.schedule == Schedule::epoch && (epoch_ + 1) % plan_.frequency == 0) halve();
  }
  void halve() {
    rate_ /= 2;
    lines_.push_back("rate=" + text(rate_));
  }
  // D3
  void observe_each_step() {
    if (global_step_ % plan_.frequency == 0) observe();
  }
  // 5.4: the metric's value; missing and not strict: left out
  void observe() {
    if (!watched_) return;
    lines_.push_back("plateau sees " + text(*watched_));
    if (best_ && *watched_ >= *best_) halve();
    else best_ = watched_;
  }

  // 9.3: after on_train_batch_end, if not accumulating, every log_every_n_steps-th (0: never) or when stopping
  void step_row() {
    bool const due =
        plan_.log_every_n_steps != 0 && ((logged_steps_ + 1) % plan_.log_every_n_steps == 0 || should_stop_);
    if (due && last_training_value_) row(logged_steps_, {"t_step=" + text(*last_training_value_)});
    last_training_value_.reset();
  }
  // 9.3: once at the epoch's end, x = the last step; of a run that has made none yet, 0
  void epoch_row() {
    std::vector<std::string> cells;
    if (!training_values_.empty()) cells.push_back("t_epoch=" + text(mean(training_values_)));
    cells.push_back("te=" + text(epoch_));
    row(std::max(0L, logged_steps_ - 1), cells);
  }
  // 9.3: `epoch` is added
  void row(long x, std::vector<std::string> const& cells) {
    std::string line = "row x=" + std::to_string(x);
    for (auto const& cell : cells) line += " " + cell;
    lines_.push_back(line + " epoch=" + std::to_string(epoch_));
  }

  void hook(std::string const& event) { lines_.push_back(counted(event, epoch_, global_step_, logged_steps_)); }
  void hook(std::string const& event, long batch) { hook(event + " " + std::to_string(batch)); }

  Plan const& plan_;
  Lines lines_;
  // 5.1
  int epoch_ = 0;
  long global_step_ = 0, logged_steps_ = 0;
  long batches_of_run_ = 0;  ///< total_batch_idx + 1
  bool should_stop_ = false;
  std::vector<double> window_;  ///< gradients of the batches since the last step
  double rate_ = 1.0;
  long validations_ = 0;
  std::vector<double> training_values_, watched_values_;  ///< of this epoch
  std::optional<double> last_training_value_, watched_, best_;
};

inline Lines events(Plan const& plan) { return Fit(plan).events(); }

}  // namespace reference
