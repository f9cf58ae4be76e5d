#pragma once
// Averages the weights during training. Validations and checkpoints use the average, and so does the model after
// training.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite {

// An average of a model's weights, stored in addition to the model; the averaging callbacks share it.

/// The mean of all averaged weights.
struct RunningMean {
  using Stateless = ByChoice;
  constexpr double operator()(long averaged) const { return 1.0 / static_cast<double>(averaged + 1); }
};

/// How new weights enter an average of `averaged` earlier ones. Such a function returns either the share of the new
/// weights in the new average, `double (long averaged)`, or the new average of one tensor, `Value (Value average, Value
/// weight, long averaged)`.
template <class F, class Value>
concept AveragingFunction =
    std::is_invocable_r_v<double, F&, long> || std::is_invocable_r_v<Value, F&, Value const&, Value const&, long>;

/// An average of the model's weights, and optionally of its buffers. Integers, such as a count of batches, are not
/// averaged: the model keeps its own.
class AveragedWeights {
 public:
  /// Finds the model's weights, once a fit, so that later calls need not traverse the model. Uses the average that was
  /// loaded from a checkpoint, if any; otherwise nothing is averaged yet.
  template <class F, class Ctx>
  void bind(Ctx const& ctx, bool with_buffers) {
    using Backend = typename Ctx::Backend;
    constexpr bool function = AveragingFunction<F, typename Backend::Value>;  // a bool, since the concept's own
                                                                              // explanation would hide the sentence
    static_assert(function, "[fulgurite.callback.averaging_function] an averaging function takes (long averaged) and "
                            "returns the share of the "
                            "new weights, or (average, weight, long averaged) and returns the new average");
    auto made = std::make_shared<Of<Backend>>();
    auto const take = [&](auto const& values) {
      for (auto const& value : values)
        if (Backend::averages(value)) made->live.push_back(value);
    };
    take(Backend::weights(ctx.model()));
    if (with_buffers) take(Backend::buffers(ctx.model()));
    if (made->live.empty())
      throw Error("fulgurite.callback.nothing_to_average",
                  "the model has no parameter to average: register its parameters, or leave the averaging out");
    values_ = made;
    in_fit_ = true;
    if (auto const loaded = std::exchange(loaded_, std::nullopt)) {
      made->load (*loaded)();
      if (in_model_) exchange_in<Backend>();
    } else {
      count_ = 0, in_model_ = false;
    }
  }
  /// Drops a loaded state: the fit does not resume from it.
  void do_not_continue() { loaded_.reset(); }
  /// Ends the fit: a state that is loaded from now on is for the next fit.
  void leave() { in_fit_ = false; }

  /// Adds the current weights to the average. The first weights become the average.
  template <class Ctx, class F>
  void update(Ctx const&, F& average) {
    using Backend = typename Ctx::Backend;
    using Value = typename Backend::Value;
    [[maybe_unused]] auto const no_graph = Backend::no_grad(false);
    auto& [live, kept] = of<Backend>();
    if (count_ == 0) {
      kept = Backend::clones(live);
    } else if constexpr (std::is_invocable_r_v<double, F&, long>) {
      Backend::lerp_into(std::span<Value>(kept), std::span<Value const>(live), static_cast<double>(average(count_)));
    } else if constexpr (AveragingFunction<F, Value>) {
      for (std::size_t i = 0; i != live.size(); ++i)
        Backend::copy_into(kept[i], average(std::as_const(kept[i]), std::as_const(live[i]), count_));
    }
    ++count_;
  }

  /// An average with this share of the new weights, as long as one exists beside the model.
  template <class Backend>
  loop::AverageOfStep<typename Backend::Value> with(double share, bool& made) const {
    if (!any() || in_model_) return {};
    auto& [live, kept] = of<Backend>();
    return {kept, live, share, &made};
  }
  /// Counts such an average, which was made outside.
  void count_made() { ++count_; }

  /// Exchanges the average and the model's weights.
  template <class Ctx>
  void exchange(Ctx const&) {
    exchange_in<typename Ctx::Backend>();
  }

  bool bound() const { return values_ != nullptr; }
  bool in_fit() const { return in_fit_; }
  bool any() const { return bound() && count_ != 0; }
  bool in_model() const { return in_model_; }  ///< true while the model holds the average
  long count() const { return count_; }

  /// Saves or loads the average. A state loaded within a fit is a rollback of that fit, which restores the model's
  /// weights as well, so the average takes effect at once and nothing is exchanged. Otherwise it waits for the next
  /// fit's `bind`.
  void state(auto& archive);

 private:
  // An interface, since the callback is made before the tensor library is known, and is saved without knowing it.
  struct Values {
    virtual ~Values() = default;
    virtual std::vector<SavedTensor> saved() const = 0;
    /// Checks that the tensors fit, and returns a function that restores them. If `saved` is empty, nothing is averaged
    /// yet.
    virtual std::function<void()> load(std::vector<SavedTensor> const& saved) = 0;
  };
  template <class Backend>
  struct Stored {
    std::vector<typename Backend::Value> live = {}, kept = {};
  };
  template <class Backend>
  struct Of final : Values, Stored<Backend> {
    std::vector<SavedTensor> saved() const override {
      std::vector<SavedTensor> all;
      for (auto const& value : this->kept) all.push_back(Backend::saved(value).written_last());
      return all;
    }
    std::function<void()> load(std::vector<SavedTensor> const& saved) override {
      if (!saved.empty() && saved.size() != this->live.size())
        throw Error("fulgurite.callback.average_mismatch",
                    "the saved average is of " + std::to_string(saved.size()) + " tensors, the model has " +
                        std::to_string(this->live.size()) +
                        " to average: resume with the model and the options that were saved");
      for (std::size_t i = 0; i != saved.size(); ++i) Backend::require_fit(this->live[i], saved[i]);
      [[maybe_unused]] auto const no_graph = Backend::no_grad(false);
      if (saved.empty()) this->kept.clear();
      else if (this->kept.size() != saved.size()) this->kept = Backend::clones(this->live);
      return [to = this->kept, saved] {
        using Tensors = std::span<typename Backend::Value const>;
        Backend::restore(Tensors(to), std::span<SavedTensor const>(saved));
      };
    }
  };
  template <class Backend>
  Stored<Backend>& of() const {
    return static_cast<Of<Backend>&>(*values_);
  }

  template <class Backend>
  void exchange_in() {
    [[maybe_unused]] auto const no_graph = Backend::no_grad(false);
    auto& [live, kept] = of<Backend>();
    for (std::size_t i = 0; i != kept.size(); ++i) {
      auto const was = Backend::clone(live[i]);
      Backend::copy_into(live[i], kept[i]);
      Backend::copy_into(kept[i], was);
    }
    in_model_ = !in_model_;
  }

  std::shared_ptr<Values> values_ = nullptr;
  std::optional<std::vector<SavedTensor>> loaded_ = std::nullopt;
  long count_ = 0;
  bool in_model_ = false;
  bool in_fit_ = false;
};

/// Options of the average. It is on the same device as the weights, since each update would otherwise wait for a copy
/// between devices.
struct WeightAveragingOptions {
  bool use_buffers = true;  ///< buffers (running statistics) are averaged, too; false: the model keeps its own
};

/// Averages after every step. Such a function is called with the index of each step (the first argument) or of each
/// epoch (the second), both from 0, and returns true if the weights should be averaged now. A batch may take several
/// steps: slices of a recurrent model's batch, or manual steps. The function is called for each of them, and the
/// weights after the last one are averaged once.
struct EachStep {
  using Stateless = ByChoice;
  constexpr bool operator()(std::optional<long> step, std::optional<int>) const { return step.has_value(); }
};
/// Averages at the end of every epoch, regardless of its steps.
struct EachEpoch {
  using Stateless = ByChoice;
  constexpr bool operator()(std::optional<long>, std::optional<int> epoch) const { return epoch.has_value(); }
};

/// Keeps an average of the weights: `WeightAveraging{}`, or `WeightAveraging{RunningMean{}, EachEpoch{}}`. The first
/// argument may be a function of your own. It returns the share of the new weights, `[](long averaged) { return 0.1;
/// }`, or each tensor's new average, `[](auto const& average, auto const& weight, long averaged) { return
/// torch::max(average, weight); }`. Validations within a fit, checkpoint files and the trained model use the average;
/// before the first update they use the weights. A trainer may have one callback of this kind.
template <class Average = RunningMean, class When = EachStep>
class WeightAveraging {
 public:
  using Hooks =
      Implements<hook::on_train_start, hook::on_train_batch_end, hook::on_train_epoch_end, hook::on_validation_start,
                 hook::on_validation_end, hook::on_train_end, hook::on_exception, hook::teardown>;
  static constexpr bool replaces_weights = true;  ///< two such callbacks would undo each other's work
  static constexpr std::string_view reads = "weights";
  static constexpr std::string_view writes = "weights";

  explicit WeightAveraging(Average average = {}, When should_update = {}, WeightAveragingOptions options = {})
      : average_(std::move(average)), should_update_(std::move(should_update)), options_(options) {}

  void on_train_start(auto& ctx) {
    weights_.template bind<Average>(ctx, options_.use_buffers);
    validating_ = made_ = false;
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
  void on_exception(auto& ctx) {
    give_back(ctx);
    weights_.leave();
  }
  void teardown(auto&) { weights_.leave(); }
  // The weights are exchanged rather than overwritten, so that a file that is written from now on still contains the
  // weights in training.
  void on_train_end(auto& ctx) {
    if (weights_.any()) weights_.exchange(ctx);
  }

  /// Called around each file that the trainer writes: the weights in the file are the average, and the weights in
  /// training are part of this callback's state.
  void before_save(auto& ctx) {
    catch_up(ctx);
    saving_ = weights_.any() && !weights_.in_model();
    if (saving_) weights_.exchange(ctx);
  }
  void after_save(auto& ctx) {
    if (std::exchange(saving_, false)) weights_.exchange(ctx);
  }

  /// Called if the fit failed before it resumed from its file.
  void do_not_continue() {
    saving_ = false;
    weights_.do_not_continue();
  }

  long n_averaged() const { return weights_.count(); }

  /// The average after this step, which a strategy makes together with the update; see AverageOfStep.
  template <class Backend>
  auto average_of_step(long step) {
    made_ = false;
    bool const follows = step == step_ && should_update_.at_each_from(step);
    return follows ? weights_.template with<Backend>(average_(weights_.count()), made_)
                   : loop::AverageOfStep<typename Backend::Value>();
  }

  /// Saves or loads. After a rollback the same steps are counted again. If a function has a state of its own, it is
  /// saved, too.
  void state(auto& archive) {
    archive("steps_looked_at", step_).child("weights", weights_).option("use_buffers", options_.use_buffers);
    if constexpr (Stateful<Average, std::remove_cvref_t<decltype(archive)>>) archive.child("average", average_);
    if constexpr (Stateful<When, std::remove_cvref_t<decltype(archive)>>)
      archive.child("should_update", should_update_);
    // When a file is loaded, the average was in the model. after_save, which is called when a fit resumes, takes it out
    // again.
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) saving_ = weights_.in_model();
  }

 private:
  /// Counts new steps. A stop takes the step of an open accumulation window only after its last batch has ended, so
  /// this is called at other events, too.
  void catch_up(auto& ctx) {
    if (!weights_.bound()) return;
    bool due = false;
    for (long const steps = ctx.global_step(); step_ < steps; ++step_)
      if (should_update_(step_, std::nullopt)) due = true;
    if (due && std::exchange(made_, false)) weights_.count_made();
    else if (due) weights_.update(ctx, average_);
  }
  void give_back(auto& ctx) {
    if (std::exchange(validating_, false)) weights_.exchange(ctx);
  }

  Average average_;
  When should_update_;
  WeightAveragingOptions options_;
  AveragedWeights weights_{};
  long step_ = 0;      ///< the number of optimizer steps processed so far
  bool made_ = false;  ///< a replay has made the average that is due next
  bool validating_ = false;
  bool saving_ = false;
};

/// Options of EMAWeightAveraging: how slowly the average follows the weights, and when it is updated.
struct EMAWeightAveragingOptions {
  double decay = 0.999;           ///< the share of the old average in the new one, in [0, 1]
  long update_every_n_steps = 1;  ///< update after the steps 0, n, 2n, ..., counted from 0; 0: after none
  std::optional<long> update_starting_at_step = std::nullopt;  ///< no update before this step
  std::optional<int> update_starting_at_epoch =
      std::nullopt;         ///< also update at the end of each epoch from this one on
  bool use_buffers = true;  ///< buffers (running statistics) are averaged, too; false: the model keeps its own
};

namespace averaging {
/// The share of the new weights in an EMA.
struct Decay {
  double decay;
  constexpr double operator()(long) const { return 1.0 - decay; }
  void state(auto& archive);
};
/// Decides when to update, from EMAWeightAveragingOptions.
struct Moments {
  EMAWeightAveragingOptions options;
  /// True if an update follows each step from this one on.
  constexpr bool at_each_from(long step) const {
    return options.update_every_n_steps == 1 && step >= options.update_starting_at_step.value_or(0);
  }
  constexpr bool operator()(std::optional<long> step, std::optional<int> epoch) const {
    if (step)
      return options.update_every_n_steps > 0 && *step % options.update_every_n_steps == 0 &&
             *step >= options.update_starting_at_step.value_or(0);
    return options.update_starting_at_epoch && *epoch >= *options.update_starting_at_epoch;
  }
  void state(auto& archive);
};
}  // namespace averaging

/// An exponential moving average of the weights: `EMAWeightAveraging{{.decay = 0.99}}` computes average := decay *
/// average + (1 - decay) * weights. Otherwise it behaves as WeightAveraging does.
class EMAWeightAveraging : public WeightAveraging<averaging::Decay, averaging::Moments> {
 public:
  /// A class derived from this one may have hooks of its own, so its average stays outside of a replay.
  using AveragesEachStep = EMAWeightAveraging;

  explicit EMAWeightAveraging(EMAWeightAveragingOptions options = {});
  FULGURITE_NAMED_OPTIONS(EMAWeightAveraging);

 private:
  static EMAWeightAveragingOptions const& checked(EMAWeightAveragingOptions const& o);
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/weight_averaging.ipp>
#endif
