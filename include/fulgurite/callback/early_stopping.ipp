#pragma once
// The bodies of callback/early_stopping.hpp.

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/core/archive.hpp>

namespace fulgurite::early_stopping {

FULGURITE_COPIES_BODY(Stopper);

FULGURITE_BODY Stopper::Stopper(WatchedMetric metric, EarlyStoppingOptions options)
    : metric_(metric), options_(options) {
  if (options.patience < 0 || !(options.min_delta >= 0))
    throw Error("fulgurite.callback.early_stopping_options",
                "EarlyStopping on '" + std::string(metric_.name) + "': patience and min_delta are not negative");
}

FULGURITE_BODY void Stopper::on_train_start(Context& ctx) {
  if (!watch::in_fit(ctx)) return;
  // After a failed fit, the metric's count is that of its last complete epoch again.
  logged_ = std::min(logged_, ctx.watched_value(metric_).logged);
  if (reason_ != StopReason::patience || wait_ < options_.patience || ctx.stop_requested()) return;
  ctx.warn_each("fulgurite.callback.patience_spent",
                "EarlyStopping on '" + watched() + "' has ended an earlier fit, after " + std::to_string(wait_) +
                    " checks without improvement on " + exact_number(best_score()) +
                    ", and keeps these counts: this fit ends at its first check unless that improves. Call reset() of "
                    "the callback before fit to begin to count again, or raise patience");
}

FULGURITE_BODY void Stopper::on_train_epoch_end(Context& ctx) {
  if (!watch::at_train_epoch_end(options_.check_on_train_epoch_end, ctx)) return;
  // A limit has ended this epoch before its validation.
  if (!ctx.is_last_batch() && !ctx.watched_value(metric_).value) return;
  check(ctx);
}

FULGURITE_BODY void Stopper::on_validation_end(Context& ctx) {
  if (!watch::at_train_epoch_end(options_.check_on_train_epoch_end, ctx)) check(ctx);
}

FULGURITE_BODY void Stopper::reset() {
  wait_ = 0;
  best_.reset();
  epoch_.reset();
  reason_ = StopReason::not_stopped;
  message_.clear();
}

FULGURITE_BODY double Stopper::best_score() const { return best_.value_or(watch::worst(options_.mode)); }

FULGURITE_BODY std::string Stopper::state_key() const {
  return "EarlyStopping{" + metric_.written() + (options_.mode == Mode::min ? ", min}" : ", max}");
}

void Stopper::state(auto& archive) {
  archive("wait_count", wait_)("stopped_epoch", epoch_)("best_score", best_);
  archive("reason", reason_)("message", message_)("logged", logged_);
  archive.option("patience", options_.patience).option("min_delta", options_.min_delta);
  archive.option("strict", options_.strict).option("check_finite", options_.check_finite);
  archive.option("stopping_threshold", options_.stopping_threshold);
  archive.option("divergence_threshold", options_.divergence_threshold);
  archive.option("check_on_train_epoch_end", options_.check_on_train_epoch_end);
}
FULGURITE_STATE(Stopper)

FULGURITE_BODY std::string Stopper::watched() const {
  std::string const name(metric_.name);
  return metric_.as == WatchedMetric::As::of_loader ? name + "' of the loader '" + std::string(metric_.loader) : name;
}

FULGURITE_BODY void Stopper::check(Context& ctx) {
  if (!watch::in_fit(ctx)) return;
  auto const now = ctx.watched_value(metric_);
  if (!now.value) {
    if (!options_.strict) return;
    throw Error("fulgurite.callback.early_stopping_metric",
                "EarlyStopping watches '" + watched() + "', which was not logged by the end of epoch " +
                    std::to_string(ctx.current_epoch()) + ": log it, or say {.strict = false}");
  }
  if (!now.is_newer_than(logged_)) return;
  logged_ = now.logged;
  reason_ = StopReason::not_stopped;
  message_.clear();
  epoch_.reset();
  bool const stop = judge(*now.value, ctx);
  if (stop) {
    epoch_ = ctx.current_epoch();
    if (options_.verbose && ctx.rank() == 0) print_lines(stderr, message_ + "\n");
  }
  // A derived class beside this one has the same key, and not the same name; two members of a callback have the same
  // name, and not the same key.
  auto const name = ctx.name_of(this), key = state_key();
  ctx.set_stop_request(name.empty() ? key : name.starts_with(key) ? name : name + ": " + key, stop, message_);
}

FULGURITE_BODY bool Stopper::judge(double value, Context& ctx) {
  Mode const mode = options_.mode;
  if (options_.check_finite && !std::isfinite(value)) return because(StopReason::non_finite, value, "is not finite");
  if (options_.stopping_threshold && watch::better(mode, value, *options_.stopping_threshold))
    return because(StopReason::stopping_threshold, value,
                   "is better than the threshold " + exact_number(*options_.stopping_threshold));
  if (options_.divergence_threshold && watch::better(mode, *options_.divergence_threshold, value))
    return because(StopReason::divergence, value,
                   "is worse than the threshold " + exact_number(*options_.divergence_threshold));
  double const counted = mode == Mode::min ? value + options_.min_delta : value - options_.min_delta;
  if (watch::better(mode, counted, best_score())) {
    if (options_.verbose && ctx.rank() == 0)
      print_lines(stderr, "EarlyStopping: " + metric_.written() + " = " + exact_number(value) +
                              (best_ ? " improves on " + exact_number(*best_) : " is the first value") + "\n");
    best_ = value;
    wait_ = 0;
    // A ModelCheckpoint that watches a metric has set the outcome already, with the file of its best value.
    if (auto& outcome = ctx.outcome(); outcome.best_file.empty()) {
      outcome.best_metric = metric_.written();
      outcome.best_metric_name = metric_.name;
      outcome.best_value = value;
      outcome.best_epoch = ctx.current_epoch();
    }
    return false;
  }
  return ++wait_ >= options_.patience &&
         because(StopReason::patience, value,
                 "has not improved on " + exact_number(best_score()) + " for " + std::to_string(wait_) + " checks");
}

FULGURITE_BODY bool Stopper::because(StopReason reason, double value, std::string const& what) {
  reason_ = reason;
  message_ = "EarlyStopping: " + metric_.written() + " = " + exact_number(value) + " " + what;
  return true;
}

}  // namespace fulgurite::early_stopping
