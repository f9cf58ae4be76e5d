#pragma once
// The bodies of loop/decisions.hpp.

#include <array>
#include <charconv>
#include <cmath>

#include <fulgurite/loop/decisions.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void request_stop(RunCore& run, bool by_time) {
  run.due.stop.by_time = by_time;
  if (run.program->is_distributed) run.due.stop.waits = true;
  else run.due.stop.holds = run.due.stop.asked = true;
}

FULGURITE_BULK_BODY void receive_stop(RunCore& run, bool by_time) {
  auto& stop = run.due.stop;
  if (!std::exchange(stop.asked, true) || !by_time) stop.by_time = by_time;
  stop.holds = true;
}

FULGURITE_BULK_BODY std::optional<long> limited(std::optional<long> size, Limit const& limit, char const* name) {
  if (limit.kind == Limit::Kind::batches) return size ? std::min(*size, limit.batches) : limit.batches;
  if (limit.none()) return 0;
  if (!size) {
    if (limit.all()) return std::nullopt;
    throw Error("fulgurite.options.fraction_of_unsized",
                std::string(name) + " is a Fraction, but the loader has no size(): use a count of batches");
  }
  auto const part = static_cast<long>(static_cast<double>(*size) * limit.part);
  if (part == 0 && *size > 0) {
    std::array<char, 16> least{};  // with a point in every locale, since it is to be copied into the program
    double const enough = std::ceil(1e6 / static_cast<double>(*size)) / 1e6;
    std::to_chars(least.data(), least.data() + least.size() - 1, enough, std::chars_format::fixed, 6);
    throw Error("fulgurite.options.fraction_too_small",
                std::string(name) + " = " + std::to_string(limit.part) + " of " + std::to_string(*size) +
                    " batches is less than one: use at least " + least.data() + ", or a count of batches");
  }
  return part;
}

/// Computes the plan from the number of batches before the limit (`size`) and after it (`taken`).
FULGURITE_BULK_BODY EpochPlan plan_epoch(TrainerOptions const& o, std::optional<long> size, std::optional<long> taken,
                                         bool has_validation) {
  EpochPlan plan;
  (size ? plan.batches : plan.limit) = taken;
  auto const& v = o.val_check_interval;
  if (!has_validation) return plan;
  if (v.kind == ValidationInterval::Kind::batches) {
    plan.interval = v.batches;
    if (plan.batches && v.batches > *plan.batches && o.check_val_every_n_epoch)
      throw Error(
          "fulgurite.options.val_check_interval",
          "val_check_interval = " + std::to_string(v.batches) + " batches is more than the " +
              std::to_string(*plan.batches) +
              " of an epoch, so validation would never run: lower it, or set check_val_every_n_epoch = std::nullopt");
  } else if (v.kind == ValidationInterval::Kind::fraction) {
    if (plan.batches) plan.interval = std::max(1L, static_cast<long>(static_cast<double>(*plan.batches) * v.part));
    else if (!v.epoch_end())
      throw Error("fulgurite.options.fraction_of_unsized",
                  "val_check_interval is a Fraction, but the training loader has no size(): use a count of batches");
  }
  return plan;
}

FULGURITE_BODY EpochPlan plan_training(RunCore& run, EpochBatches const& batches) {
  auto const plan = plan_epoch(run.asked.options, batches.size, batches.taken, run.facts.has_validation);
  run.facts.train_batches = plan.most();
  run.loading.training_is_open = true;
  if (batches.size == 0)
    throw Error("fulgurite.data.empty",
                "the training loader has no batch (is drop_last set, with a batch larger than the data?): "
                "limit_train_batches = 0 is how to say that nothing is trained");
  return plan;
}

FULGURITE_BODY void out_of_count(FunctionRef<void()> stand_between_epochs, FunctionRef<void(StateSaver&)> save,
                                 FunctionRef<void(StateLoader&)> load, FunctionRef<void()> pass) {
  StateMemory place;
  auto const restore = [&] {
    place.restore(load);
    stand_between_epochs();  // otherwise it would end the previous pass again
  };
  stand_between_epochs();
  place.save(save);
  try {
    pass();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

FULGURITE_BULK_BODY bool validates_in(TrainerOptions const& o, int epoch) {
  return !o.check_val_every_n_epoch || (epoch + 1) % *o.check_val_every_n_epoch == 0;
}

FULGURITE_BULK_BODY bool asks_for_batches(RunCore const& run, SafePoint const& point) {
  if (point.at >= At::epoch_end) return false;
  if (point.at == At::before_batch && !point.began && run.progress.batch == 0) return false;
  return point.at <= At::batch_end || !(point.last || steps_exhausted(run) || stops(run));
}

FULGURITE_BULK_BODY std::string end_reason(RunCore const& run) {
  auto const& options = run.asked.options;
  auto const& stop = run.due.stop;
  if (steps_exhausted(run)) return "max_steps = " + std::to_string(*options.max_steps);
  bool const cut = stops(run) && run.progress.cut_short >= 0;  // a stop has ended the last epoch before its data
  if (epochs_exhausted(run) && !cut) return "max_epochs = " + std::to_string(*options.max_epochs);
  if (!stops(run)) return options.limit_train_batches.none() ? "limit_train_batches = 0" : "";
  if (!stop.asked && !stop.monitors.empty()) return stop.monitors.front().why;
  if (!stop.why.empty()) return stop.why;
  return stop.by_time ? "max_time" : "a stop that the model or a callback requested";
}

FULGURITE_BULK_BODY bool reopen_epoch(RunCore& run, SafePoint& point) {
  auto& progress = run.progress;
  bool const ends = point.at == At::epoch_end && !point.last;
  bool const ended = point.at > At::epoch_end && progress.cut_short >= 0;
  if ((!ends && !ended) || steps_exhausted(run) || stops(run)) return false;
  if (ended) {
    --progress.epoch;
    progress.batch = progress.window_start = std::exchange(progress.cut_short, -1);
  }
  if (progress.batch == 0) point = {.at = At::after_epoch};
  else point = {.at = At::before_batch, .began = true, .observed = progress.global_step};
  return true;
}

FULGURITE_BULK_BODY void warn_of_long_window(RunCore& run, EpochPlan const& plan) {
  if (!plan.batches || run.asked.window_length <= *plan.batches || run.asked.options.fast_dev_run != 0) return;
  run.warn("fulgurite.options.long_window",
           "accumulate_grad_batches = " + std::to_string(run.asked.window_length) + " is more than the " +
               std::to_string(*plan.batches) +
               " batches of an epoch. A window ends with its epoch, so each step is the mean of " +
               std::to_string(*plan.batches) + " batches: lower accumulate_grad_batches, or make epochs longer");
}

FULGURITE_BODY void BatchTimes::add(Duration batch) {
  if (count_ == most) forget_one();
  times_[count_++] = batch;
}

FULGURITE_BODY BatchTimes::Duration BatchTimes::expected() const {
  Duration longest{}, second{};
  for (std::size_t i = 0; i != count_; ++i) {
    second = std::max(second, std::min(times_[i], longest));
    longest = std::max(longest, times_[i]);
  }
  return count_ == 1 ? longest : second;
}

FULGURITE_BODY void BatchTimes::forget_one() {
  if (count_ == 0) return;
  std::shift_left(times_.begin(), times_.end(), 1);
  --count_;
}

FULGURITE_BULK_BODY void warn_of_short_schedule(RunCore& run, std::string_view schedule, long steps) {
  auto const& options = run.asked.options;
  if (options.fast_dev_run != 0 || steps > options.max_epochs.value_or(0)) return;
  auto const all = estimated_steps(run);
  if (!all || steps >= *all) return;
  run.warn("fulgurite.schedule.short",
           "the schedule " + std::string(schedule) + " moves with optimizer steps and ends after " +
               std::to_string(steps) + " of " + std::to_string(*all) +
               ": add {.interval = Interval::epoch} if its total counts epochs, else {.interval = Interval::step}");
}

}  // namespace fulgurite::loop
