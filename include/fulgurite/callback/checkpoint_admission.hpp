#pragma once
// Which steps a ModelCheckpoint asks files for: those whose value is known, and among the best.

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/checkpoint_requests.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/callback/no_monitor.hpp>
#include <fulgurite/callback/saving_file.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::checkpointing {

/// `M`: the metric that is watched, or NoMonitor.
template <class M>
class Admission : public Requests {
 protected:
  Admission(M monitor, ModelCheckpointOptions options)
      : Requests(std::move(options), watches<M> ? watch::written(monitor) : std::string(),
                 watches<M> ? std::string_view(M::name()) : std::string_view()),
        name_(options_),
        monitor_(monitor) {}

  /// Nothing is saved twice at one step, or outside of fit.
  bool skips(auto& ctx) const { return !watch::in_fit(ctx) || ctx.global_step() == last_saved_; }

  /// Asks for a file of the step that a batch has made. Only when the batch is over is it known whether a validation
  /// follows, which then ranks and names the file.
  void save_step_of_batch(auto& ctx, long before) {
    waiting_ = Waiting{.before = before, .in_batch = true};
    ctx.request_checkpoint({this, [this, before, ctx](CheckpointFiles& files) {
                              bool const by_validation = ctx.has_validation() && (watches<M> || name_.tells_metrics());
                              auto const follows = files.validation_follows();
                              last_saved_ = before;
                              // A later hook of the batch has failed. A validation that follows the last batch of an
                              // epoch ranks the file in the run that resumes: it requests the file again.
                              if (by_validation && !follows && ctx.is_last_batch()) return;
                              waiting_.reset();
                              if ((by_validation && follows == true) || value_is_to_come(ctx)) {
                                deferred_ = true;
                              } else if (auto const now = admitted(ctx, ctx.current_epoch())) {
                                last_saved_ = now->step;
                                write_waiting(files, {*now, before}, ctx.outcome());
                              }
                            }});
  }
  void save_step_of_batch(auto& ctx) { save_step_of_batch(ctx, std::exchange(last_saved_, ctx.global_step())); }

  /// Whether the first validation is yet to tell the metric.
  bool value_is_to_come([[maybe_unused]] auto& ctx) const {
    if constexpr (watches<M>) return ctx.has_validation() && !ctx.shared_value(monitor_);
    else return false;
  }

  void save(auto& ctx) { save(ctx, ctx.current_epoch()); }
  void save(auto& ctx, int epoch) {
    if (auto now = admitted(ctx, epoch)) request(ctx, std::move(*now));
  }

  /// The watched value. Its age counts from the step at which this callback has seen it first: it looks at the end of
  /// each validation, and where a file is due.
  std::optional<double> seen_now(auto& ctx) {
    auto const now = ctx.watched_value(monitor_);
    if (now.is_newer_than(seen_.logged)) seen_ = {now.logged, ctx.global_step()};
    return now.value;
  }
  /// What this fit logs is new, however often an earlier one has logged it.
  void forget_seen() { seen_ = {}; }

  /// A file of now; nullopt where none is kept, or its value is not among the best.
  std::optional<SavingFile> admitted(auto& ctx, int epoch) {
    SavingFile now{.name = {}, .epoch = epoch, .step = ctx.global_step()};
    if constexpr (checkpointing::watches<M>) {
      now.score = seen_now(ctx);
      if (!now.score) {
        missing(ctx);
        return std::nullopt;
      }
      if (std::isnan(*now.score)) now.score = watch::worst(options_.mode);
      current_ = now.score;
      if (options_.save_top_k != 0 && !top().admits(*now.score)) {
        tell(ctx.rank() == 0, watch::written(monitor_) + " = " + report::exact(*now.score) + " is not among the best");
        return std::nullopt;
      }
    }
    if (!writes_any()) return std::nullopt;
    if constexpr (checkpointing::watches<M>) tell_of_old_value(ctx);
    now.name = file_name(ctx, epoch);
    return now;
  }

  /// The name of a file of now. The metric that is watched has the value there by which the file is ranked.
  std::string file_name(auto& ctx, int epoch) const {
    return name_.text(ctx, epoch, [&]<class Told>(Told const& metric) {
      if constexpr (std::is_same_v<Told, typename M::metric>) return ctx.shared_value(monitor_);
      else return ctx.shared_value(metric);
    });
  }

  Name name_;
  [[no_unique_address]] M monitor_;
  bool validated_ = false;

 private:
  void missing(auto& ctx) {
    std::string const what = "ModelCheckpoint watches '" + watch::written(monitor_) +
                             "', which nobody has logged by step " + std::to_string(ctx.global_step());
    if (validated_ || !ctx.has_validation())
      throw Error("fulgurite.callback.checkpoint_metric", what + ": log it, or watch another metric");
    if (!std::exchange(warned_, true))
      ctx.warn_each("fulgurite.callback.checkpoint_waits", what + ": nothing is saved before it is");
  }

  /// A value that was logged before the weights were last trained ranks their file.
  void tell_of_old_value(auto& ctx) {
    if (seen_.step >= ctx.global_step() || std::exchange(warned_of_age_, true)) return;
    ctx.warn_each("fulgurite.callback.checkpoint_old_value",
                  "ModelCheckpoint watches '" + watch::written(monitor_) + "', which was last logged at step " +
                      std::to_string(seen_.step) + ": the file of step " + std::to_string(ctx.global_step()) +
                      " is ranked by that value, which its weights did not have. Save where the metric is logged, or "
                      "validate before each save");
  }

  /// How often the metric was logged when a new value was seen, and the step of then.
  struct Seen {
    long logged = 0, step = 0;
  };
  Seen seen_{};
  bool warned_ = false, warned_of_age_ = false;
};

}  // namespace fulgurite::checkpointing
