#pragma once
// Everything a trainer can be told, with Lightning's names, and the one early check of it.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/limits.hpp>

namespace fulgurite {

/// An aggregate: `TrainerOptions{.max_epochs = 10, .limit_val_batches = Fraction{0.5}}`.
struct TrainerOptions {
  using Clock = std::chrono::steady_clock;

  std::optional<int> max_epochs = std::nullopt;  ///< -1: no limit. Not given: no limit if max_steps or max_time is, else refused
  std::optional<int> min_epochs = std::nullopt;  ///< honoured against early stopping
  std::optional<long> max_steps = std::nullopt;  ///< optimizer steps, over all optimizers in manual mode; -1: no limit
  std::optional<long> min_steps = std::nullopt;
  std::optional<Seconds> max_time = std::nullopt;  ///< of training; minima win over it
  Limit limit_train_batches = {};
  Limit limit_val_batches = {};
  Limit limit_test_batches = {};
  Limit limit_predict_batches = {};
  ValidationInterval val_check_interval = {};
  std::optional<int> check_val_every_n_epoch = 1;  ///< nullopt: val_check_interval counts batches across epochs
  int num_sanity_val_steps = 2;                    ///< validation batches tried before training; -1: all
  int log_every_n_steps = 50;                      ///< 0: never
  int fast_dev_run = 0;                            ///< n: n batches of every loop, once, to see that all of it runs; see special_run.hpp
  std::optional<Limit> overfit_batches = std::nullopt;  ///< the same first batches in every epoch, of training and of validation
  int reload_dataloaders_every_n_epochs = 0;            ///< loaders are asked for again after so many epochs; 0: never
  bool use_distributed_sampler = true;                  ///< a distributed strategy may give each process its part of a loader
  bool inference_mode = true;                      ///< validate, test and predict; validation inside fit uses no_grad
  bool detect_anomaly = false;
  bool deterministic = false;                     ///< only algorithms that give the same bits each time; others throw
  std::optional<bool> benchmark = std::nullopt;   ///< cuDNN tries its algorithms and takes the fastest
  bool barebones = false;                         ///< nothing is logged, shown, tried or saved: for measuring the loop alone
  std::filesystem::path default_root_dir = ".";
  Clock::time_point (*now)() = &Clock::now;  ///< replaced in tests
};

namespace loop {

[[noreturn]] inline void refuse_option(char const* identifier, std::string const& name, auto value, std::string const& cure) {
  throw Error(identifier, name + " = " + std::to_string(value) + ": " + cure);
}

inline void check_limit(std::string const& name, Limit const& limit) {
  if (limit.kind == Limit::Kind::batches) {
    if (limit.batches < 0) refuse_option("fulgurite.options.limit", name, limit.batches, "a count of batches is at least 0");
  } else if (!(limit.part >= 0.0 && limit.part <= 1.0)) {
    refuse_option("fulgurite.options.limit", name, limit.part, "a part of a loader lies between 0 and 1: Fraction{0.5}");
  }
}

/// Throws one Error that names the option, its value and the allowed range; nothing has started yet.
inline void check(TrainerOptions const& o) {
  auto at_least = [](char const* name, auto const& value, long least, char const* cure) {
    if (value && *value < least) refuse_option("fulgurite.options.range", name, *value, cure);
  };
  at_least("max_epochs", o.max_epochs, -1, "the number of epochs is at least 0, or -1 for no limit");
  at_least("max_steps", o.max_steps, -1, "the number of optimizer steps is at least 0, or -1 for no limit");
  at_least("min_epochs", o.min_epochs, 0, "the least number of epochs is at least 0");
  at_least("min_steps", o.min_steps, 0, "the least number of steps is at least 0");
  at_least("check_val_every_n_epoch", o.check_val_every_n_epoch, 1, "validate every 1 or more epochs, or std::nullopt");
  at_least("num_sanity_val_steps", std::optional(o.num_sanity_val_steps), -1, "at least 0, or -1 for all batches");
  at_least("log_every_n_steps", std::optional(o.log_every_n_steps), 0, "at least 1, or 0 for never");
  at_least("reload_dataloaders_every_n_epochs", std::optional(o.reload_dataloaders_every_n_epochs), 0, "at least 1, or 0 for never");
  if (o.max_time && !(o.max_time->count() >= 0))
    refuse_option("fulgurite.options.range", "max_time", o.max_time->count(), "a duration is at least 0 seconds");
  auto unlimited = [](auto const& value) { return !value || *value < 0; };
  if (o.min_epochs && !unlimited(o.max_epochs) && *o.min_epochs > *o.max_epochs)
    refuse_option("fulgurite.options.min_over_max", "min_epochs", *o.min_epochs,
                  "it is above max_epochs = " + std::to_string(*o.max_epochs));
  if (o.min_steps && !unlimited(o.max_steps) && *o.min_steps > *o.max_steps)
    refuse_option("fulgurite.options.min_over_max", "min_steps", *o.min_steps,
                  "it is above max_steps = " + std::to_string(*o.max_steps));
  if (!o.max_epochs && unlimited(o.max_steps) && !o.max_time)
    throw Error("fulgurite.options.no_end", "nothing ends this run: set .max_epochs, .max_steps or .max_time (max_epochs = -1 asks for "
                                            "an endless one)");
  check_limit("limit_train_batches", o.limit_train_batches);
  check_limit("limit_val_batches", o.limit_val_batches);
  check_limit("limit_test_batches", o.limit_test_batches);
  check_limit("limit_predict_batches", o.limit_predict_batches);
  auto const& v = o.val_check_interval;
  bool const positive = v.kind == ValidationInterval::Kind::batches ? v.batches >= 1
                        : v.kind == ValidationInterval::Kind::time  ? v.time.count() > 0
                                                                    : v.part > 0 && v.part <= 1;
  if (!positive)
    throw Error("fulgurite.options.val_check_interval",
                "val_check_interval is a count of batches >= 1, a Fraction in (0, 1], or a duration above 0");
  if (!o.check_val_every_n_epoch && v.kind == ValidationInterval::Kind::fraction)
    throw Error("fulgurite.options.val_check_interval",
                "with check_val_every_n_epoch = nullopt batches are counted across epochs, so val_check_interval must be a count or a "
                "duration, not a Fraction of an epoch");
}

}  // namespace loop
}  // namespace fulgurite
