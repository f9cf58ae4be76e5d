#pragma once
// Stochastic weight averaging: late in training the learning rate becomes constant, and the weights at the end of each
// epoch are averaged.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <numbers>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite {

// Learning rates that are annealed from their current value to a final one.

/// One learning rate for all parameter groups, or one for each: `0.05`, `{0.05, 0.01}`.
struct GroupRates {
  std::vector<double> values;
  GroupRates(double all) : values{all} {}
  GroupRates(std::initializer_list<double> each) : values(each) {}
  GroupRates(std::vector<double> each) : values(std::move(each)) {}
};

/// How the learning rate changes to its final value.
enum class Annealing : std::uint8_t { cos, linear };

// The point of a run at which something begins, as an option gives it.

/// An epoch, counted from 1, or a fraction of max_epochs.
struct EpochStart {
  bool is_part = true;
  int epoch = 0;
  double part = 0.8;

  constexpr EpochStart(Fraction of) : part(of.part) {}
  template <std::integral I>
  constexpr EpochStart(I at) : is_part(false), epoch(static_cast<int>(at)) {}
  template <std::floating_point F>
  constexpr EpochStart(F) {
    static_assert(!loop::is_plain_fraction<F>,
                  "[fulgurite.options.plain_fraction] a number with a decimal point could mean an epoch or "
                  "a part of them: write 8 or Fraction{0.8}");
  }
};

/// Options of StochasticWeightAveraging: when averaging starts, and to which value the learning rate is annealed from
/// there; swa_lrs has no default.
struct StochasticWeightAveragingOptions {
  GroupRates swa_lrs;                          ///< above 0
  EpochStart swa_epoch_start = Fraction{0.8};  ///< the first epoch whose weights are averaged
  int annealing_epochs = 10;  ///< epochs of annealing from the current learning rate to swa_lrs; 0: immediate
  Annealing annealing_strategy = Annealing::cos;  ///< the shape of the annealing: a cosine, or linear
};

/// Averages the parameters at the end of every epoch from the start epoch through the last one:
/// `StochasticWeightAveraging{{.swa_lrs = 0.05}}`. From the start epoch on only this callback changes the learning
/// rate: other schedules stop, and groups of a BackboneFinetuning are annealed, too. (List BackboneFinetuning before
/// this callback; then LearningRateMonitor's rows of epochs are right as well.) At the end of training the model gets
/// the average; batch norms in training mode recompute their statistics in one pass over the training data. A function
/// before the options replaces the mean, as in WeightAveraging: `StochasticWeightAveraging{function, {.swa_lrs =
/// 0.05}}`, see AveragingFunction. It needs automatic optimization and one optimizer; the Error
/// [fulgurite.callback.swa_options] reports invalid options before training.
template <class Average = RunningMean>
class StochasticWeightAveraging {
 public:
  using Hooks =
      Implements<hook::on_fit_start, hook::on_train_start, hook::on_train_epoch_start, hook::on_train_batch_start,
                 hook::on_train_epoch_end, hook::on_train_end, hook::on_exception, hook::teardown>;
  static constexpr Order order = Order::tuner;  ///< it sets learning rates, which other callbacks report
  static constexpr bool needs_one_optimizer = true;
  static constexpr bool needs_automatic =
      true;  ///< the pass for statistics runs training_step, which would update weights in Manual
  static constexpr bool replaces_weights = true;
  static constexpr std::string_view reads = "weights";
  static constexpr std::string_view writes = "weights, learning rates";

  explicit StochasticWeightAveraging(StochasticWeightAveragingOptions options)
      : StochasticWeightAveraging(Average{}, std::move(options)) {}
  /// Refused at compile time: swa_lrs has no default.
  StochasticWeightAveraging() : StochasticWeightAveraging(StochasticWeightAveragingOptions{.swa_lrs = 0.0}) {
    constexpr bool is_given = sizeof(Average) == 0;
    static_assert(is_given, "[fulgurite.callback.swa_lrs] the learning rate of the averaged weights has no default: "
                            "write StochasticWeightAveraging{{.swa_lrs = 0.05}}");
  }
  /// Refused at compile time: an option without its name, or a name that none has.
  template <Unnamed T>
  explicit StochasticWeightAveraging(T const& given)
      : StochasticWeightAveraging(StochasticWeightAveragingOptions{.swa_lrs = 0.0}) {
    refuse_unnamed(given);
  }
  template <class fulgurite_callback_no_such_option_of = StochasticWeightAveragingOptions>
  explicit StochasticWeightAveraging(...) FULGURITE_REFUSED(FULGURITE_SENTENCE_NO_SUCH_OPTION);
  StochasticWeightAveraging(Average average, StochasticWeightAveragingOptions options)
      : options_(std::move(options)), average_(std::move(average)) {
    auto const& start = options_.swa_epoch_start;
    if (start.is_part ? !(start.part >= 0 && start.part <= 1) : start.epoch < 1)
      refuse("swa_options", "swa_epoch_start is an epoch from 1 on, or Fraction{...} between 0 and 1");
    auto const& rates = options_.swa_lrs.values;
    if (rates.empty() || !std::all_of(rates.begin(), rates.end(), [](double rate) { return rate > 0; }))
      refuse("swa_options", "swa_lrs are learning rates above 0");
    if (options_.annealing_epochs < 0)
      refuse("swa_options", "annealing_epochs = " + std::to_string(options_.annealing_epochs) + " is negative");
  }

  void on_fit_start(auto& ctx) {
    std::size_t groups = 0;
    ctx.each_optimizer([&](std::size_t, auto& optimizer) { groups = optimizer.groups(); });
    if (auto const given = options_.swa_lrs.values.size(); given != 1 && given != groups)
      refuse("swa_options", "swa_lrs has " + std::to_string(given) + " rates, the optimizer " + std::to_string(groups) +
                                " groups: give one, or one each");
    auto const epochs = ctx.options().max_epochs.value_or(-1);
    auto const& start = options_.swa_epoch_start;
    if (start.is_part && epochs < 0)
      refuse("swa_needs_max_epochs", "swa_epoch_start is a part of max_epochs, which is not set: give .max_epochs, or "
                                     "an epoch as .swa_epoch_start");
    start_ = std::max(start.is_part ? static_cast<int>(start.part * epochs) : start.epoch, 1) - 1;
  }

  void on_train_start(auto& ctx) {
    bool const resumed = std::exchange(resumed_, false);
    statistics_of_average_.clear();
    if (!resumed) initial_.clear(), statistics_before_.clear();
    of_ended_ = false;
    bool const of_ended = resumed && weights_.in_model();
    weights_.template bind<Average>(ctx, false);
    if (of_ended) restore_statistics(ctx);
  }

  void on_train_epoch_start(auto& ctx) {
    statistics_of_average_.clear();
    unsettled_ = ctx.current_epoch() >= start_;
    if (!unsettled_) return;
    ctx.each_scheduler([](auto& scheduler) { scheduler.retire(); });
    set_rates(ctx, false);
  }
  // A callback that is notified of the epoch's start after this one may have set other rates or added a group. This
  // replaces such rates.
  void on_train_batch_start(auto& ctx) {
    if (std::exchange(unsettled_, false)) set_rates(ctx, true);
  }

  // The pass over the training data is requested at the end of each epoch, since only afterwards it is known which
  // epoch was the last.
  void on_train_epoch_end(auto& ctx) {
    if (ctx.current_epoch() < start_) return;
    weights_.update(ctx, average_);
    if (std::remove_cvref_t<decltype(ctx)>::Backend::has_batch_norm(ctx.model())) ctx.request_statistics_pass();
  }

  /// The trainer calls this after training and before a pass for statistics, if one was requested.
  void before_statistics_pass(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    using Scope = decltype(Backend::reset_batch_norm(ctx.model()));
    struct Kept {
      Scope scope;
    };
    statistics_of_average_.clear();
    finish(ctx);
    statistics_before_ = Backend::norm_statistics(ctx.model());
    statistics_ = std::shared_ptr<Kept>(new Kept{Backend::reset_batch_norm(ctx.model())});
  }
  void on_train_end(auto& ctx) {
    statistics_.reset();
    finish(ctx);
  }
  void on_exception() {
    statistics_.reset();
    weights_.leave();
  }
  void teardown(auto&) { weights_.leave(); }

  /// Called if the fit failed before it resumed from its file.
  void do_not_continue() {
    resumed_ = of_ended_ = false;
    statistics_before_.clear();
    weights_.do_not_continue();
  }

  long n_averaged() const { return weights_.count(); }

  void state(auto& archive) {
    using Archive = std::remove_cvref_t<decltype(archive)>;
    archive("initial", initial_)("unsettled", unsettled_)("statistics", statistics_before_).child("weights", weights_);
    if constexpr (Stateful<Average, Archive>) archive.child("average", average_);
    auto const& start = options_.swa_epoch_start;
    archive.option("swa_lrs", options_.swa_lrs.values);
    archive.option("swa_epoch_start", start.is_part ? start.part : static_cast<double>(start.epoch));
    archive.option("annealing_epochs", options_.annealing_epochs);
    archive.option("annealing_strategy", std::string(options_.annealing_strategy == Annealing::cos ? "cos" : "linear"));
    if constexpr (Archive::loading) {
      resumed_ = !weights_.in_fit();
      of_ended_ = weights_.in_fit() && weights_.in_model();
    }
  }
  /// Also called when a fit resumes: a file of a fit that had ended holds the average in the model, with its own
  /// statistics, and both are taken out here.
  void after_save(auto& ctx) {
    if (!std::exchange(of_ended_, false) || !weights_.bound()) return;
    weights_.exchange(ctx);
    restore_statistics(ctx);
  }

 private:
  [[noreturn]] static void refuse(std::string const& rule, std::string const& what) {
    throw Error("fulgurite.callback." + rule, "StochasticWeightAveraging: " + what);
  }

  /// Sets the rates of all groups. With `note`, the current rate of a group becomes the start of its annealing, unless
  /// that is known already.
  void set_rates(auto& ctx, bool note) {
    int const epochs = ctx.current_epoch() - start_;
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (std::size_t g = 0; g != optimizer.groups(); ++g) {
        if (note && g == initial_.size()) initial_.push_back(optimizer.lr(g));
        if (g < initial_.size() || epochs >= options_.annealing_epochs) optimizer.set_lr(g, rate(g, epochs));
      }
    });
  }

  /// The rate of a group `epochs` epochs after the start.
  double rate(std::size_t group, int epochs) const {
    auto const& last = options_.swa_lrs.values;
    double const to = last[std::min(group, last.size() - 1)];
    if (epochs >= options_.annealing_epochs) return to;
    double const done = static_cast<double>(epochs) / static_cast<double>(options_.annealing_epochs);
    bool const linear = options_.annealing_strategy == Annealing::linear;
    double const share = linear ? done : 0.5 * (1.0 - std::cos(std::numbers::pi * done));
    return to * share + initial_[group] * (1.0 - share);
  }

  /// Restores the statistics that the pass for statistics has replaced. The results of that pass are kept, since the
  /// run may have nothing left to do but its end.
  void restore_statistics(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    if (statistics_before_.empty()) return;
    statistics_of_average_ = Backend::norm_statistics(ctx.model());
    Backend::restore_norm_statistics(ctx.model(), std::exchange(statistics_before_, {}));
  }

  void finish(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    if (!weights_.any() || weights_.in_model()) return;
    weights_.exchange(ctx);
    if (statistics_of_average_.empty()) return;
    statistics_before_ = Backend::norm_statistics(ctx.model());
    Backend::restore_norm_statistics(ctx.model(), std::exchange(statistics_of_average_, {}));
  }

  StochasticWeightAveragingOptions options_;
  Average average_;
  AveragedWeights weights_{};
  std::vector<double> initial_{};  ///< learning rates at the start epoch
  int start_ = 0;
  bool unsettled_ = false;                        ///< true until the first batch of this epoch begins
  std::vector<SavedTensor> statistics_before_{};  ///< the batch norms' statistics with which training continues
  std::vector<SavedTensor>
      statistics_of_average_{};                 ///< the result of an earlier pass, for a run that resumed from its file
  std::shared_ptr<void> statistics_ = nullptr;  ///< while it exists, batch norms average over all batches
  bool of_ended_ = false;
  bool resumed_ = false;
};
StochasticWeightAveraging() -> StochasticWeightAveraging<RunningMean>;

}  // namespace fulgurite
