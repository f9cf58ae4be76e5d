#pragma once
// Which steps a ModelCheckpoint asks files for: those whose value is known, and among the best.

#include <cmath>
#include <string>
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
class Admission : public Requests<watches<M>> {
  using Base = Requests<watches<M>>;

 protected:
  Admission(M monitor, ModelCheckpointOptions options)
      : Base(std::move(options), watched_name<M>()), name_(options_), monitor_(monitor) {}

  /// Nothing is saved twice at one step, or outside of fit.
  bool skips(auto& ctx) const { return !watch::in_fit(ctx) || ctx.global_step() == last_saved_; }

  /// Saves the step that is due: at once, or when the validation that follows knows the metric.
  void save_step(auto& ctx, bool in_batch) {
    if constexpr (checkpointing::watches<M>) {
      if ((in_batch && this->validation_follows(ctx)) || (ctx.has_validation() && !ctx.shared_value(monitor_))) {
        deferred_ = true;
        return;
      }
    }
    save(ctx, in_batch);
  }

  void save(auto& ctx, bool in_batch = false) {
    SavingFile now{.name = {}, .epoch = ctx.current_epoch(), .step = ctx.global_step()};
    if constexpr (checkpointing::watches<M>) {
      now.score = ctx.shared_value(monitor_);
      if (!now.score) return missing(ctx);
      if (std::isnan(*now.score)) now.score = watch::worst(options_.mode);
      current_ = now.score;
      if (options_.save_top_k != 0 && !this->top().admits(*now.score)) {
        this->tell(ctx.rank() == 0,
                   std::string(M::name()) + " = " + report::exact(*now.score) + " is not among the best");
        return;
      }
    }
    if (!this->writes_any()) return;
    now.name = name_.text(ctx);
    this->request(ctx, std::move(now), in_batch);
  }

  using Base::current_;
  using Base::deferred_;
  using Base::last_saved_;
  using Base::options_;
  Name name_;
  [[no_unique_address]] M monitor_;
  bool validated_ = false;

 private:
  void missing(auto& ctx) {
    std::string const what = "ModelCheckpoint watches '" + std::string(M::name()) +
                             "', which nobody has logged by step " + std::to_string(ctx.global_step());
    if (validated_ || !ctx.has_validation())
      throw Error("fulgurite.callback.checkpoint_metric", what + ": log it, or watch another metric");
    if (!std::exchange(warned_, true))
      ctx.warn_each("fulgurite.callback.checkpoint_waits", what + ": nothing is saved before it is");
  }

  bool warned_ = false;
};

}  // namespace fulgurite::checkpointing
