#pragma once
// A fit, slow and plain: the list of its events, from /spec/lightning.md (numbers of sections in the comments) and
// decisions.md (D1, D2, ...) alone. It knows nothing of include/fulgurite, so that the loops can be compared with it.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
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
    if (any(sanity_batches())) {
      hook("sanity_check_start");
      evaluate(sanity_batches(), true);
      hook("sanity_check_end");
    }
    if (batches() > 0 && !done()) {
      hook("train_start");
      while (!done()) epoch();
      hook("train_end");
      if (average_) weight_ = *average_;  // the trained model has the average
    }
    hook("fit_end p=" + text(weight_));
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
  // Several loaders, the longest of which ends an epoch (5.10).
  long batches() const {
    long const all = plan_.several ? std::max(plan_.n, plan_.several->n) : plan_.n;
    return limited(all, plan_.limit_train_batches, plan_.limit_train_fraction);
  }
  // Of each loader.
  std::vector<long> validation_batches() const {
    std::vector<long> all;
    if (plan_.validation) all.push_back(*plan_.validation);
    if (plan_.several) all.push_back(plan_.several->validation);
    for (auto& n : all) n = limited(n, plan_.limit_val_batches, plan_.limit_val_fraction);
    return all;
  }
  static bool any(std::vector<long> const& batches) { return !batches.empty() && batches.front() > 0; }
  // 5.9: min(num_sanity_val_steps, limit_val); -1 means all.
  std::vector<long> sanity_batches() const {
    auto all = validation_batches();
    if (plan_.num_sanity_val_steps != -1)
      for (auto& n : all) n = std::min<long>(plan_.num_sanity_val_steps, n);
    return all;
  }
  bool automatic() const { return plan_.mode != Mode::manual; }

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
          if (window_is_ours()) flush();
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
      average_steps();
      if (plan_.stop(Where::train_batch_end, at)) should_stop_ = true;
      if (last && !known_last) {  // found out now: what the step would have done
        if (!window_.empty()) {
          step();
          stepped = true;
        }
        move_epoch_schedule();
      }
      if (stopping() && window_is_ours()) {  // D2
        step();
        stepped = true;
      }
      if (stepped) step_row();
      if (validation_due(b, last)) {
        evaluate(validation_batches(), false);
        if (plan_.stop(Where::validation_end, at)) should_stop_ = true;
      }
      if (stopping() && window_is_ours()) {  // D2, the stop was asked for by validation
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
    average_steps();
    if (plan_.average && plan_.average->from_epoch && epoch_ >= *plan_.average->from_epoch) average_now();
    hook("train_epoch_end");
    if (plan_.stop(Where::train_epoch_end, {epoch_, 0})) should_stop_ = true;
    // 5.4: after all hooks of the epoch's end, only if the epoch ran to its end; (e + 1) % frequency == 0
    if (ran_to_its_end && plan_.schedule == Schedule::plateau_epoch && (epoch_ + 1) % plan_.frequency == 0) observe();
    epoch_row();
    ++epoch_;  // 5.1: a part of an epoch counts as one
  }

  // 4.3, 5.2, 5.3; true where the optimizer stepped; 6: of steps by hand nothing is known, so each batch counts
  bool batch(Place at, bool last) {
    if (plan_.mode == Mode::manual) return batch_by_hand(at, last);
    if (plan_.mode == Mode::slices) return batch_in_slices(at);
    lines_.push_back("training_step " + words(at.batch));
    log_training(at, 0);
    bool const none = plan_.none_loss(at);
    // 5.3: what comes before a window's gradients also where the output is none
    make_gradient(none ? std::nullopt : std::optional(gradient(at)));
    if (!closes(at.batch, last)) return false;
    step();
    return true;
  }
  // Several loaders: the shorter one has begun again.
  std::string words(long b) const {
    if (!plan_.several) return std::to_string(b);
    return std::to_string(b % plan_.n) + " and " + std::to_string(b % plan_.several->n);
  }
  void log_training(Place at, double more) {
    last_training_value_ = training_value(at) + more;
    training_values_.push_back(*last_training_value_);
    if (!plan_.watches_training) return;
    // D22: of a metric logged per step the mean over the epoch; 9.3: it stays until there is another
    watched_values_.push_back(watched_in_training(at) + more);
    watched_ = mean(watched_values_), is_news_ = true;
  }
  // 5.2: a window's first batch clears, after its step and before backward.
  void make_gradient(std::optional<double> gradient) {
    if (window_.empty()) {
      hook("before_zero_grad");
      lines_.push_back("cleared");
    }
    window_.push_back(gradient.value_or(0.0));
    if (!gradient) return;
    hook("before_backward");
    hook("after_backward");
  }

  // D13: each slice is a step; the state starts anew with each batch.
  bool batch_in_slices(Place at) {
    std::optional<double> hidden;
    for (long from = 0; from < length(at.batch); from += plan_.slice) {
      lines_.push_back("training_step " + std::to_string(at.batch) + " from " + std::to_string(from) + " with " +
                       (hidden ? text(*hidden) : "none"));
      hidden = hidden_after(hidden.value_or(0), from);
      log_training(at, of_slice(from));
      make_gradient(gradient(at) + of_slice(from));
      step();
    }
    return true;
  }

  // 6: the training step clears, clips, steps and moves schedules itself; what it keeps for later nobody else touches
  bool batch_by_hand(Place at, bool last) {
    lines_.push_back("training_step " + std::to_string(at.batch));
    log_training(at, 0);
    hook("before_backward");
    hook("after_backward");
    window_.push_back(gradient(at) / plan_.window(epoch_));
    if (!closes(at.batch, last)) return true;
    double const gradient = clipped(std::accumulate(window_.begin(), window_.end(), 0.0));
    window_.clear();
    hook("before_optimizer_step gradient=" + text(gradient));
    update(gradient);
    lines_.push_back("cleared");
    if (plan_.schedule == Schedule::step) move(0.5);
    if (plan_.further == Schedule::step) move(0.75);
    return true;
  }
  bool window_is_ours() const { return automatic() && !window_.empty(); }

  // 5.2: ready % K; a window has K batches, or fewer at the epoch's end. Those that are none have their places in it.
  bool closes(long b, bool last) const { return (b + 1) % plan_.window(epoch_) == 0 || last; }

  // 4.3: the hooks inside see the old global_step (5.1); the gradient is the mean over the window's batches (D1), the
  // hook before it sees it as it is without clipping
  void step() {
    double const gradient = mean(window_);
    window_.clear();
    hook("before_optimizer_step gradient=" + text(gradient));
    update(clipped(gradient));
    // 5.4: right after the optimizer step; D3: every frequency-th step of the run
    if (plan_.schedule == Schedule::step && global_step_ % plan_.frequency == 0) move(0.5);
    if (plan_.further == Schedule::step && global_step_ % plan_.further_frequency == 0) move(0.75);
  }
  void update(double gradient) {
    lines_.push_back("step rate=" + text(rate_) + " gradient=" + text(gradient));
    weight_ -= rate_ * gradient;
    ++global_step_;
  }
  // C62, C63
  double clipped(double gradient) const {
    if (plan_.clip_norm) return gradient * std::min(1.0, *plan_.clip_norm / (std::abs(gradient) + 1e-6));
    if (plan_.clip_value) return std::clamp(gradient, -*plan_.clip_value, *plan_.clip_value);
    return gradient;
  }

  // WeightAveraging (7.3): each step since the last look is asked about, and the weights of now come in once.
  void average_steps() {
    bool due = false;
    for (; averaged_ != global_step_; ++averaged_)
      due = due || (plan_.average && plan_.average->every_n_steps != 0 &&
                    averaged_ % plan_.average->every_n_steps == 0 && averaged_ >= plan_.average->from_step);
    if (due) average_now();
  }
  void average_now() { average_ = average_ ? (*average_ + weight_) / 2 : weight_; }

  // A window that skip_epoch ends.
  void flush() {
    step();
    step_row();
    if (plan_.schedule == Schedule::plateau_step) observe_each_step();
    ++logged_steps_;
  }

  // 5.5, in this order
  bool validation_due(long b, bool last) const {
    if (!any(validation_batches())) return false;
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

  // 4.5; validation sees the average, where there is one
  void evaluate(std::vector<long> const& batches, bool sanity) {
    if (!sanity) average_steps();
    hook("validation_start");
    auto const weight = text(!sanity && average_ ? *average_ : weight_);
    std::vector<std::string> cells;
    std::vector<double> watched;
    for (std::size_t loader = 0; loader != batches.size(); ++loader) {
      std::vector<double> values;
      for (long i = 0; i != batches[loader]; ++i) {
        long const b = i + static_cast<long>(loader) * other_validation;
        lines_.push_back("validation_step " + std::to_string(b) + " p=" + weight);
        values.push_back(validation_value(validations_, b));
        watched.push_back(watched_in_validation(validations_, b));
      }
      // 9.1: of several loaders each has its name
      auto const name = batches.size() == 1 ? "v" : "v/dataloader_idx_" + std::to_string(loader);
      cells.push_back(name + "=" + text(mean(values)));
    }
    hook("validation_epoch_end");
    if (!sanity) {                                                             // 5.9: nothing of a sanity check is kept
      if (!plan_.watches_training) watched_ = mean(watched), is_news_ = true;  // over all loaders
      row(logged_steps_, cells);  // 9.3: once, x = the step that is not yet counted
      ++validations_;
    }
    hook("validation_end");
  }

  // 5.4: (e + 1) % frequency == 0
  void move_epoch_schedule() {
    if (!automatic()) return;
    if (plan_.schedule == Schedule::epoch && (epoch_ + 1) % plan_.frequency == 0) move(0.5);
    if (plan_.further == Schedule::epoch && (epoch_ + 1) % plan_.further_frequency == 0) move(0.75);
  }
  // Of several schedules each leaves its part of the rate.
  void move(double part) {
    rate_ *= part;
    lines_.push_back("rate=" + text(rate_));
  }
  // D3; a batch may have had several steps
  void observe_each_step() {
    if (std::exchange(observed_, global_step_) / plan_.frequency != global_step_ / plan_.frequency) observe();
  }
  // 5.4: the metric's value; missing and not strict, or seen before: left out
  void observe() {
    if (!watched_ || !std::exchange(is_news_, false)) return;
    lines_.push_back("plateau sees " + text(*watched_));
    if (best_ && *watched_ >= *best_) move(0.5);
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
  double rate_ = 1.0, weight_ = 0.0;
  std::optional<double> average_;
  long averaged_ = 0;  ///< steps that were looked at for the average
  long observed_ = 0;  ///< the step of the last look at what a plateau watches
  long validations_ = 0;
  std::vector<double> training_values_, watched_values_;  ///< of this epoch
  std::optional<double> last_training_value_, watched_, best_;
  bool is_news_ = false;  ///< whether watched_ was logged since the plateau's last look
};

inline Lines events(Plan const& plan) { return Fit(plan).events(); }

}  // namespace reference
