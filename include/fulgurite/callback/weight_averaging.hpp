#pragma once
// Averages the weights while they are trained; validation and checkpoints see the average, and so does the model in the end.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/callback/averaged_weights.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite {

/// The average lies beside the weights, on the device they are on: another one would be waited for at each update.
struct WeightAveragingOptions {
  bool use_buffers = true;  ///< buffers (running statistics) are averaged, too; false: they stay the model's own
};

/// After which steps and epochs weights are averaged: it is asked with the index of each of them, from 0. Of several steps in one
/// batch (slices of a recurrent model's, steps by hand) each is asked about, and what the last one left enters the average once.
struct EachStep {
  using Stateless = ByChoice;
  constexpr bool operator()(std::optional<long> step, std::optional<int>) const { return step.has_value(); }
};
/// At the end of each epoch, whatever its steps.
struct EachEpoch {
  using Stateless = ByChoice;
  constexpr bool operator()(std::optional<long>, std::optional<int> epoch) const { return epoch.has_value(); }
};

/// `WeightAveraging{}`, `WeightAveraging{RunningMean{}, EachEpoch{}}`, or with a function of your own: the share of the new weights,
/// `[](long averaged) { return 0.1; }`, or each tensor's new average, `[](auto const& average, auto const& weight, long averaged) {
/// return torch::max(average, weight); }`. Validation inside fit, files and the trained model have the average; without any
/// update they have the weights. Not two of them in one trainer.
template <class Average = RunningMean, class When = EachStep>
class WeightAveraging {
 public:
  using Hooks = Implements<hook::on_train_start, hook::on_train_batch_end, hook::on_train_epoch_end, hook::on_validation_start,
                           hook::on_validation_end, hook::on_train_end, hook::on_exception>;
  static constexpr bool replaces_weights = true;  ///< two that do would undo each other's work
  static constexpr std::string_view reads = "weights";
  static constexpr std::string_view writes = "weights";

  explicit WeightAveraging(Average average = {}, When should_update = {}, WeightAveragingOptions options = {})
      : average_(std::move(average)), should_update_(std::move(should_update)), options_(options) {}

  void on_train_start(auto& ctx) {
    weights_.template bind<Average>(ctx, options_.use_buffers);
    validating_ = false;
    step_ = ctx.global_step();
  }
  void on_train_batch_end(auto& ctx) { catch_up(ctx); }
  void on_train_epoch_end(auto& ctx) {
    catch_up(ctx);
    if (should_update_(std::nullopt, ctx.current_epoch())) weights_.update(ctx, average_);
  }

  void on_validation_start(auto& ctx) {
    if (ctx.stage() != Stage::fit || ctx.sanity_checking()) return;
    catch_up(ctx);
    if (!weights_.any()) return;
    weights_.exchange(ctx);
    validating_ = true;
  }
  void on_validation_end(auto& ctx) { give_back(ctx); }
  void on_exception(auto& ctx) { give_back(ctx); }
  // The weights are kept, not overwritten: a file that is written from now on can still be trained on from where it was.
  void on_train_end(auto& ctx) {
    if (weights_.any()) weights_.exchange(ctx);
  }

  /// A file's weights are the average, its state has those in training. Called by the trainer around each file that it writes.
  void before_save(auto& ctx) {
    catch_up(ctx);
    saving_ = weights_.any() && !weights_.in_model();
    if (saving_) weights_.exchange(ctx);
  }
  void after_save(auto& ctx) {
    if (std::exchange(saving_, false)) weights_.exchange(ctx);
  }

  long n_averaged() const { return weights_.count(); }

  void state(auto& archive) { archive.child("weights", weights_); }

 private:
  /// A stop steps the window at hand after its last batch has ended, so that end is not the only place to look.
  void catch_up(auto& ctx) {
    if (!weights_.bound()) return;
    bool due = false;
    for (long const steps = ctx.global_step(); step_ < steps; ++step_)
      if (should_update_(step_, std::nullopt)) due = true;
    if (due) weights_.update(ctx, average_);
  }
  void give_back(auto& ctx) {
    if (std::exchange(validating_, false)) weights_.exchange(ctx);
  }

  Average average_;
  When should_update_;
  WeightAveragingOptions options_;
  AveragedWeights weights_{};
  long step_ = 0;  ///< how many optimizer steps were looked at
  bool validating_ = false;
  bool saving_ = false;
};

/// How slowly the average follows, and after which steps and epochs it does.
struct EMAWeightAveragingOptions {
  double decay = 0.999;          ///< share of the average that stays, in [0, 1]
  long update_every_n_steps = 1;  ///< where an optimizer step 0, n, 2n, ... (from 0) was taken; 0: nowhere
  std::optional<long> update_starting_at_step = std::nullopt;  ///< after no earlier step than this
  std::optional<int> update_starting_at_epoch = std::nullopt;  ///< besides, at the end of each epoch from this one on
  bool use_buffers = true;
};

namespace averaging {
/// The share of the new weights in an EMA.
struct Decay {
  double decay;
  constexpr double operator()(long) const { return 1.0 - decay; }
};
/// When EMAWeightAveragingOptions ask for an update.
struct Moments {
  EMAWeightAveragingOptions options;
  constexpr bool operator()(std::optional<long> step, std::optional<int> epoch) const {
    if (step)
      return options.update_every_n_steps > 0 && *step % options.update_every_n_steps == 0 &&
             *step >= options.update_starting_at_step.value_or(0);
    return options.update_starting_at_epoch && *epoch >= *options.update_starting_at_epoch;
  }
};
}  // namespace averaging

/// `EMAWeightAveraging{{.decay = 0.99}}`: average := decay * average + (1 - decay) * weights. All else is WeightAveraging's.
class EMAWeightAveraging : public WeightAveraging<averaging::Decay, averaging::Moments> {
 public:
  explicit EMAWeightAveraging(EMAWeightAveragingOptions options = {})
      : WeightAveraging(averaging::Decay{checked(options).decay}, averaging::Moments{options}, {.use_buffers = options.use_buffers}) {}

 private:
  static EMAWeightAveragingOptions const& checked(EMAWeightAveragingOptions const& o) {
    if (!(o.decay >= 0 && o.decay <= 1) || o.update_every_n_steps < 0 || o.update_starting_at_step.value_or(0) < 0 ||
        o.update_starting_at_epoch.value_or(0) < 0)
      throw Error("fulgurite.callback.ema_options", "EMAWeightAveraging: decay = " + std::to_string(o.decay) +
                                                        " lies between 0 and 1, counts of steps and epochs are not negative");
    return o;
  }
};

}  // namespace fulgurite
