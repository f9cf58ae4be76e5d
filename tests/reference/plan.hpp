#pragma once
// What a fit is asked to do, as plain data: what the reference simulates and what the trainer is made of.

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reference {

/// A batch of training, counted in its epoch.
struct Place {
  int epoch;
  long batch;
  friend bool operator==(Place const&, Place const&) = default;
};

/// Where a stop is asked for. Of a validation it is the batch that it follows; a place that no run reaches asks for
/// nothing.
enum class Where { fit_start, train_batch_end, validation_end, train_epoch_end };
struct StopRequest {
  Where where;
  int epoch = 0;
  long batch = 0;
};

/// `step` and `epoch` halve the rate at each move; the others halve it when the watched metric has not become smaller.
enum class Schedule { none, step, epoch, plateau_step, plateau_epoch };

/// Who clears, runs backward and steps: the trainer, the training step, or the trainer for each slice of a batch.
enum class Mode { automatic, manual, slices };

/// An average of the weights into which new ones come with a share of a half. Steps and epochs are counted from 0.
struct Average {
  long every_n_steps = 1;  ///< 0: after none
  long from_step = 0;
  std::optional<int> from_epoch = std::nullopt;  ///< also at the end of each epoch from this one on
};

/// Two loaders of training as one, of which the shorter begins again; threads make the batches of the first. And two of
/// validation.
struct Several {
  long n = 1;           ///< batches of the other training loader
  long validation = 1;  ///< batches of the other validation loader
  int workers = 0;
};

/// Names and defaults are Lightning's where it has them.
struct Plan {
  std::optional<int> max_epochs = 1;
  std::optional<long> max_steps = std::nullopt;
  std::optional<int> min_epochs = std::nullopt;
  std::optional<long> min_steps = std::nullopt;

  long n = 4;  ///< batches that the training loader has
  bool sized = true;
  bool generated = false;  ///< not sized: each batch is made in one place when it is asked for; not read ahead
  std::vector<long> none_batches = {};  ///< these are none
  std::optional<long> limit_train_batches = std::nullopt;
  std::optional<double> limit_train_fraction = std::nullopt;

  std::optional<long> validation = std::nullopt;  ///< batches of its loader; not given: there is no validation
  std::optional<long> limit_val_batches = std::nullopt;
  std::optional<double> limit_val_fraction = std::nullopt;
  std::optional<long> val_check_batches = std::nullopt;  ///< val_check_interval as a count; neither given: 1.0
  std::optional<double> val_check_fraction = std::nullopt;
  std::optional<int> check_val_every_n_epoch = 1;
  int num_sanity_val_steps = 0;

  std::map<int, int> accumulate_grad_batches = {{0, 1}};  ///< from that epoch on
  Schedule schedule = Schedule::none;
  long frequency = 1;
  bool watches_training = false;  ///< a plateau's metric is logged by the training step; else by the validation step
  Schedule further = Schedule::none;  ///< of the same optimizer: leaves three quarters of the rate per step or epoch
  long further_frequency = 1;

  std::vector<StopRequest> stops = {};
  std::vector<Place> skips = {};        ///< on_train_batch_start answers skip_epoch
  std::vector<Place> none_losses = {};  ///< the training step returns none
  int log_every_n_steps = 50;

  std::optional<double> clip_norm = std::nullopt;
  std::optional<double> clip_value = std::nullopt;
  std::optional<Average> average = std::nullopt;
  std::optional<Several> several = std::nullopt;
  Mode mode = Mode::automatic;
  long slice = 1;  ///< time steps of a slice

  bool plateau() const { return schedule == Schedule::plateau_step || schedule == Schedule::plateau_epoch; }
  int window(int epoch) const { return std::prev(accumulate_grad_batches.upper_bound(epoch))->second; }
  bool none_batch(long batch) const { return std::ranges::count(none_batches, batch) != 0; }
  bool none_loss(Place at) const { return std::ranges::count(none_losses, at) != 0; }
  bool skip(Place at) const { return std::ranges::count(skips, at) != 0; }
  bool stop(Where where, Place at) const {
    return std::ranges::any_of(stops, [&](StopRequest const& one) {
      if (one.where != where) return false;
      if (where == Where::fit_start) return true;
      return one.epoch == at.epoch && (where == Where::train_epoch_end || one.batch == at.batch);
    });
  }
};

// What model and data are made of.

/// Time steps of a batch that is cut into slices.
inline long length(long batch) { return 1 + 2 * batch % 5; }
/// What a slice adds to the gradient and the metric of its batch; it begins at time step `from`.
inline double of_slice(long from) { return static_cast<double>(from) / 4; }
/// The state that a slice hands to the next.
inline double hidden_after(double before, long from) { return before / 2 + static_cast<double>(from) + 1; }
/// The first batch of the other validation loader.
inline constexpr long other_validation = 100;
/// The gradient of a batch: no two of a run are equal.
inline double gradient(Place at) { return static_cast<double>(at.batch + 1 + 100 * at.epoch); }
/// The metric `t` of a training batch.
inline double training_value(Place at) { return static_cast<double>(at.batch + 10 * at.epoch); }
/// The metric `v` of a batch of the validation with that number (from 0); in the sanity check something that must not
/// be seen.
inline double validation_value(long number, long batch) { return static_cast<double>(10 * number + batch); }
/// The metric that a plateau watches goes up and down.
inline double watched_in_training(Place at) { return static_cast<double>((7 * at.batch + 3 * at.epoch) % 5); }
inline double watched_in_validation(long number, long batch) { return static_cast<double>((3 * number + batch) % 4); }
inline constexpr double unseen = -1000;

/// The words of both traces. A number is shown a little further from 0 than it is: those that end in a 5 behind the
/// sixth digit would be rounded by their last bit.
using Lines = std::vector<std::string>;
inline std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", value == 0 ? 0.0 : value * (1 + 1e-9));
  return buffer;
}
inline std::string counted(std::string const& event, int epoch, long global_step, long logged_steps) {
  return event + " (epoch " + std::to_string(epoch) + ", gs " + std::to_string(global_step) + ", logged " +
         std::to_string(logged_steps) + ")";
}

}  // namespace reference
