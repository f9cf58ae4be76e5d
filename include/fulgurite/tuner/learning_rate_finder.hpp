#pragma once
// Finds a learning rate when a fit starts, and again at milestones.

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::tune {

// The curve of losses over learning rates, and the rate that it suggests.

/// A suggested rate, or the reason why there is none.
struct Suggestion {
  std::optional<double> lr = std::nullopt;
  std::size_t point = 0;  ///< index of the suggested point in the curve
  std::string why = {};   ///< why there is no rate; empty if there is one

  explicit operator bool() const { return lr.has_value(); }
  double operator*() const { return *lr; }
};

/// One point for each step: the learning rate, the averaged loss, and the loss itself. The average is exponential with
/// weight 0.98 and bias correction: a := 0.98 a + 0.02 loss, and the point is a / (1 - 0.98^(t+1)) after step t = 1, 2,
/// ...
class RateCurve {
 public:
  std::vector<double> lr = {};
  std::vector<double> loss = {};
  std::vector<double> raw = {};
  std::string ended = {};  ///< why the curve ended early

  static constexpr std::size_t skip_begin = 10, skip_end = 1;
  static constexpr double average_weight = 0.98;

  /// A step without a loss adds a NaN point, and does not change the average.
  void add(double rate, std::optional<double> value);
  /// Keeps the first n points only.
  void shorten(std::size_t n);
  /// The lowest averaged loss; nullopt if there is none yet.
  std::optional<double> best() const;

  /// The averages with the full bias correction, a / (1 - 0.98^t): the first one is the first loss, where that of
  /// `loss` is half of it, as Lightning's is.
  std::vector<double> corrected() const;

  /// The rate where the corrected average falls fastest from step to step, among the finite points without the first
  /// `begin` (which are noise) and the last `end` (where the loss diverges); none if it falls nowhere. The slope at a
  /// point is that of the parabola through it and its neighbours; at both ends that of the line. Slopes are by steps,
  /// as the curve is drawn, and not by rates: at the lowest rates the same noise, divided by differences of rates that
  /// are close to 0, would be the steepest fall.
  Suggestion suggestion(std::size_t begin = skip_begin, std::size_t end = skip_end) const;

  /// A row for each point: `lr,loss,raw`. The numbers read back exactly.
  std::string csv() const;
  /// Writes `csv()`. On an Error, [fulgurite.file.write], the file is unchanged.
  void save(std::filesystem::path const& file) const { write_durably(file, csv()); }

 private:
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  static double slope_at(std::vector<std::size_t> const& points, std::vector<double> const& average, std::size_t i);
  std::string why_none(std::size_t begin, std::size_t end, std::size_t left) const;

  double average_ = 0;
  long averaged_ = 0;
};

// The result of a search for a learning rate, as numbers and as a picture.

/// `lr` and `loss` have one entry for each step; `suggested` is the suggested rate. If there are several parameter
/// groups, `lr` is the rate of the first one, and the others keep their ratio to it.
///
///     auto const found = tune::lr_find(trainer, net, loader, {});
///     std::cout << found.text();                // for a terminal
///     found.plot("lr.svg"), found.save("lr.csv");
class FoundRate : public RateCurve {
 public:
  /// Has no rate, but a reason, if there were too few points; then no rate was changed.
  Suggestion suggested = {};
  bool by_factors = true;  ///< the rates rose by a factor, so their axis is logarithmic

  /// A plot of the corrected average over the rate, with the losses themselves behind it and the suggested point.
  report::Plot plot() const;
  /// Writes the plot to a file whose name ends in .svg or .txt.
  void plot(std::filesystem::path const& file) const { plot().save(file); }
  /// The plot in characters, with the suggested rate below it, or the reason why there is none.
  std::string text() const;

 private:
  /// The upper end of the plot: all losses up to the lowest average are drawn, and of the diverging ones after it as
  /// many as leave half of the picture to the averages.
  double highest_drawn(std::vector<double> const& average) const;
  std::string rate() const;
};

/// The types in which a model may keep its learning rate.
template <class T>
inline constexpr bool is_rate = std::is_same_v<T, double> || std::is_same_v<T, float>;
/// True if the model has `lr`, the member that is used if none is named.
template <class M>
concept HasLr = requires(M& model) { model.lr; };
/// True if the model has `learning_rate`, which is used if it has no `lr`.
template <class M>
concept HasLearningRate = requires(M& model) { model.learning_rate; };

/// The member that receives the rate: `&Net::rate`; or a function, `[](Net& net) -> double& { return net.options.rate;
/// }`; or nullptr for none. If it is not given: the model's `lr`, or its `learning_rate`. The type must be double or
/// float.
template <class Model>
class RateField {
 public:
  template <class M = Model>
  RateField() {
    static_assert(HasLr<M> || HasLearningRate<M>,
                  "[fulgurite.tuner.no_field] the model has neither `lr` nor `learning_rate` to put the rate into: say "
                  "where by .update = &Net::rate, or .update = nullptr to have the result alone");
    if constexpr (HasLr<M>) use([](M& model) -> decltype(auto) { return (model.lr); });
    else if constexpr (HasLearningRate<M>) use([](M& model) -> decltype(auto) { return (model.learning_rate); });
  }
  RateField(std::nullptr_t) {}
  template <class T, class Owner>
    requires std::derived_from<Model, Owner>
  RateField(T Owner::* field) {
    use([field](Model& model) -> decltype(auto) { return (model.*field); });
  }
  template <class F>
    requires std::invocable<F&, Model&> && (!std::is_member_pointer_v<F>)
  RateField(F of) {
    use(std::move(of));
  }

  void set(Model& model, double rate) const {
    if (set_) set_(model, rate);
  }

 private:
  void use(auto of) {
    using Got = decltype(of(std::declval<Model&>()));
    constexpr bool fine = std::is_lvalue_reference_v<Got> && is_rate<std::remove_reference_t<Got>>;
    static_assert(fine, "[fulgurite.tuner.field_type] a learning rate is put into a member of type double or float: "
                        "give it that type, and a function that finds it returns a reference, [](Net& net) -> double& "
                        "{ ... }");
    if constexpr (fine)
      set_ = [of = std::move(of)](Model& model, double rate) mutable {
        of(model) = static_cast<std::remove_reference_t<Got>>(rate);
      };
  }

  std::function<void(Model&, double)> set_ = nullptr;
};

// The search for a learning rate: trial steps with rising rates.

/// How rates rise from step to step: by a factor, or by a difference.
enum class RateMode : std::uint8_t { exponential, linear };
using enum RateMode;

/// The options of a search for a learning rate, an aggregate: `{.min_lr = 1e-5, .max_lr = 0.1, .update = &Net::rate}`.
template <class Model>
struct RateSearch {
  double min_lr = 1e-8;         ///< the rate of the first step
  double max_lr = 1;            ///< the rate of the last step
  int num_training = 100;       ///< number of steps, from min_lr to max_lr
  RateMode mode = exponential;  ///< how rates rise from step to step
  /// Ends the search when the averaged loss exceeds this multiple of the lowest one, if that is positive; nullopt: no
  /// such limit. A loss that is not finite always ends it.
  std::optional<double> early_stop_threshold = 4.0;
  std::size_t skip_begin = RateCurve::skip_begin;  ///< number of first points that the suggestion ignores
  std::size_t skip_end = RateCurve::skip_end;      ///< number of last points that it ignores
  RateField<Model> update = {};                    ///< the member that receives the suggestion
};

/// Throws [fulgurite.tuner.range] if a number of the search is out of range.
template <class Model>
void check(RateSearch<Model> const& search) {
  auto const refuse = [](std::string const& what) {
    throw Error("fulgurite.tuner.range", "a search for a learning rate " + what);
  };
  bool const rises = search.min_lr < search.max_lr && std::isfinite(search.max_lr);
  if (!rises || search.min_lr < 0)
    refuse("from min_lr = " + report::formatted("%g", search.min_lr) + " to max_lr = " +
           report::formatted("%g", search.max_lr) + ": give finite rates that are not negative, the smaller one first");
  if (search.mode == exponential && search.min_lr == 0)
    refuse("from min_lr = 0, which no factor raises: begin above it, or use tune::linear");
  if (search.num_training < 2)
    refuse("of num_training = " + std::to_string(search.num_training) +
           ": it must have at least 2 steps, one at each end");
  if (search.early_stop_threshold && !(*search.early_stop_threshold > 0))
    refuse("with early_stop_threshold = " + std::to_string(*search.early_stop_threshold) +
           ": the multiple of the lowest loss must be positive, or std::nullopt for no limit");
}

/// The rate of step i of n; exactly min_lr and max_lr at the ends.
template <class Model>
double rate_of(RateSearch<Model> const& search, long i) {
  long const last = search.num_training - 1;
  if (i >= last) return search.max_lr;
  double const part = static_cast<double>(i) / static_cast<double>(last);
  return search.mode == linear ? search.min_lr + part * (search.max_lr - search.min_lr)
                               : search.min_lr * std::pow(search.max_lr / search.min_lr, part);
}

/// The rates of all groups if that of the first one is `lr`.
std::vector<double> in_ratio(std::vector<double> initial, double lr);

/// Runs the trial steps. Does not change any rate afterwards.
template <class R, class Model>
FoundRate find_rate(Rehearser<R>& rehearser, RateSearch<Model> const& search) {
  if (rehearser.context().stage() != Stage::fit)
    throw Error("fulgurite.tuner.no_rate", "an evaluation moves no learning rates, so none can be searched for in it: "
                                           "ask for this search where ctx.stage() is Stage::fit");
  auto const initial = rehearser.rates().initial();
  static_cast<void>(in_ratio(initial, 1));
  FoundRate found;
  found.by_factors = search.mode == exponential;
  RehearsalPlan plan{.steps = search.num_training, .non_finite = NonFinite::ignore};
  plan.before_step = [&](RehearsedStep& step) { step.rates().set(in_ratio(initial, rate_of(search, step.number()))); };
  std::vector<long> numbers;
  long made = 0;
  plan.after_step = [&](RehearsedStep& step) {
    while (!numbers.empty() && numbers.back() >= step.number()) numbers.pop_back();  // captured steps ran again
    found.shorten(numbers.size());
    numbers.push_back(step.number());
    made = step.made();
    auto const best = found.best();
    found.ended.clear();
    found.add(rate_of(search, step.number()), step.has_loss() ? std::optional<double>(step.loss()) : std::nullopt);
    if (!step.has_loss()) return;
    if (!std::isfinite(found.raw.back())) found.ended = "the loss was not finite";
    else if (search.early_stop_threshold && best && *best > 0 &&
             found.loss.back() > *search.early_stop_threshold * *best)
      found.ended = "the loss diverged";
    if (!found.ended.empty()) step.stop();
  };
  rehearser.rehearse(plan);
  if (found.ended.empty() && made < search.num_training)
    found.ended = rehearser.context().options().limit_train_batches.none()
                      ? "the fit has no batches: limit_train_batches is 0"
                      : "the fit has no more steps: see max_epochs";
  found.suggested = found.suggestion(search.skip_begin, search.skip_end);
  return found;
}

/// Warns if no rate was found.
template <class R>
void warn_no_rate(Rehearser<R>& rehearser, Suggestion const& suggested) {
  if (!suggested.lr)
    rehearser.context().warn_each("fulgurite.tuner.no_suggestion",
                                  "the search for a learning rate suggests none, so it stays as it is: " +
                                      suggested.why + ". Give it more steps, or a lower max_lr");
}

// Milestones: epochs before which a callback searches again.

/// Throws [fulgurite.tuner.milestone]. `whose`: the name of the callback.
void check_milestones(std::string_view whose, std::vector<int> const& epochs);

/// True if a search is due before this epoch.
bool is_milestone(int epoch, std::vector<int> const& epochs);

}  // namespace fulgurite::tune

namespace fulgurite {

/// The search of a LearningRateFinder, and the epochs before which it searches again.
template <class Model>
struct LearningRateFinderOptions {
  /// The range of rates, and the number of steps; see tune::RateSearch.
  tune::RateSearch<Model> search = {};
  std::vector<int> milestones = {};  ///< epochs before which it searches again, such as those that unfreeze layers
};

/// A callback that finds a learning rate when the fit starts:
///
///     LearningRateFinder<Net>{{.search = {.max_lr = 0.1}, .milestones = {5, 10}}}
///
/// It runs trial steps with rising rates (see tune::lr_find), restores all state, and continues with the rate where the
/// loss fell fastest: the optimizer's groups keep their ratio, schedules start from it, and the model's member receives
/// it. It does the same at each milestone, from the current weights and moments. If too few steps were possible, it
/// warns and keeps the rates. It searches after all other callbacks were notified of `on_fit_start` or
/// `on_train_epoch_start`; they are not notified of the trial steps.
///
/// A fit that resumes from a file does not repeat a search that was done before, and the model's member receives the
/// rate that it found. To search at other times, derive from
/// this class, hide its hooks, and call `lr_find(ctx)` from yours.
template <class Model>
class LearningRateFinder {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_start, hook::on_train_epoch_start>;
  static constexpr Order order = Order::tuner;
  static constexpr bool searches = true, finds_rate = true, needs_automatic = true, needs_one_optimizer = true,
                        inert_in_dev_run = true;
  static constexpr std::string_view writes = "learning rates, the model's field of them";

  LearningRateFinder() : LearningRateFinder(LearningRateFinderOptions<Model>{}) {}
  /// Refused at compile time: other names, or none.
  template <class fulgurite_tuner_finder_options_are = LearningRateFinderOptions<Model>>
  explicit LearningRateFinder(...)
      FULGURITE_REFUSED("[fulgurite.tuner.finder_options] the rates of a LearningRateFinder are options of its search: "
                        "write LearningRateFinder<Net>{{.search = {.max_lr = 0.1}, .milestones = {5}}}");
  explicit LearningRateFinder(LearningRateFinderOptions<Model> options) : options_(std::move(options)) {
    tune::check(options_.search);
    tune::check_milestones("LearningRateFinder", options_.milestones);
  }

  void setup(auto& ctx) {
    if (ctx.stage() != Stage::fit) return;
    searched_ = false;
    rate_.reset();
  }
  void on_fit_start(auto& ctx) {
    if (!searched_) lr_find(ctx);
  }
  void on_train_start(auto& ctx) {
    if (searched_ && rate_) options_.search.update.set(ctx.model(), *rate_);
  }
  void on_train_epoch_start(auto& ctx) {
    if (tune::is_milestone(ctx.current_epoch(), options_.milestones)) lr_find(ctx);
  }

  /// The result of the last search; empty before.
  tune::FoundRate const& results() const { return found_; }

  void state(auto& archive) { archive("searched", searched_)("rate", rate_).option("milestones", options_.milestones); }

 protected:
  /// Requests a search at the next boundary between two epochs.
  void lr_find(auto& ctx) {
    if (ctx.dev_run()) return;
    ctx.request_search([this](auto& rehearser) {
      found_ = tune::find_rate(rehearser, options_.search);
      searched_ = true;
      tune::warn_no_rate(rehearser, found_.suggested);
      if (!found_.suggested) return;
      auto& rates = rehearser.rates();
      rates.begin_from(tune::in_ratio(rates.initial(), *found_.suggested));
      rate_ = *found_.suggested;
      options_.search.update.set(rehearser.context().model(), *rate_);
    });
  }

 private:
  LearningRateFinderOptions<Model> options_;
  tune::FoundRate found_{};
  std::optional<double> rate_{};  ///< that of the last search that found one
  bool searched_ = false;
};

/// Refused by the compiler: the type of the model is missing.
template <>
class LearningRateFinder<void> {
 public:
  template <class fulgurite_tuner_finder_model_is_missing = void>
  explicit LearningRateFinder(...) FULGURITE_REFUSED(
      "[fulgurite.tuner.finder_model] LearningRateFinder needs the type of the model: write LearningRateFinder<Net>{}");
  void on_fit_start() {}
  using Stateless = ByChoice;
};
template <class = void>
LearningRateFinder(...) -> LearningRateFinder<void>;

}  // namespace fulgurite

namespace fulgurite::tune {

// Finds a learning rate before training.

/// The model of a trainer.
template <class Trainer>
using ModelOf = typename Trainer::Run::Model;

/// Finds a learning rate. Runs num_training trial steps with rates that rise from min_lr to max_lr, with the trainer's
/// own optimizer, accumulation windows, precision and strategy, and with schedules paused; then restores all state, as
/// tune::rehearse does. The rate at which the loss fell fastest is put into the model, whose configure_optimizers uses
/// it in the next fit. Call it between fits; needs automatic optimization. In a fast_dev_run nothing is tried.
///
///     auto const found = tune::lr_find(trainer, net, loader, {.max_lr = 0.1, .update = &Net::rate});
///     if (found.suggested) std::cout << *found.suggested << '\n';
///     found.save("lr.csv");
template <class Trainer, class Data>
  requires(!is_of<RateSearch, std::remove_cvref_t<Data>>)
FoundRate lr_find(Trainer& trainer, ModelOf<Trainer>& model, Data&& data, RateSearch<ModelOf<Trainer>> options = {}) {
  using R = typename Trainer::Run;
  FoundRate found;
  if constexpr (requires { typename R::Strategy; }) {
    using Rules = judge::NeedRules<R, loop::Optimizers<R>::count, LearningRateFinder<ModelOf<Trainer>>>;
    static_cast<void>(Rules::template judge<true>());
    if constexpr (decltype(Rules::judge())::ok) {
      check(options);
      if (trainer.options().fast_dev_run != 0) {
        found.suggested.why = found.ended = "nothing is tried in a fast_dev_run";
        return found;
      }
      trainer.search(model, data, [&](Rehearser<R>& rehearser) {
        found = find_rate(rehearser, options);
        warn_no_rate(rehearser, found.suggested);
      });
      if (found.suggested) options.update.set(model, *found.suggested);
    }
  }
  return found;
}
/// For a model that has the loaders itself.
template <class Trainer>
FoundRate lr_find(Trainer& trainer, ModelOf<Trainer>& model, RateSearch<ModelOf<Trainer>> options = {}) {
  return lr_find(trainer, model, model, std::move(options));
}

// Trial steps of the real trainer, after which all state is restored.

/// Runs `plan.steps` optimizer steps of the trainer on the data (a loader, a data module, or the model itself if it has
/// the loaders), and then restores the state bit for bit: weights, buffers, gradients, what model and data module save
/// in `state(archive)`, optimizers, schedules, counters, logged values, positions of loaders, random numbers. It does
/// so, too, if a step, the loader or an allocation throws, and rethrows. Call it between fits; inside a fit, a callback
/// uses `ctx.request_search`.
///
///     tune::rehearse(trainer, net, loader, {.steps = 20, .after_step = [&](RehearsedStep& step) {
///                                             losses.push_back(step.loss());
///                                           }});
///
/// The steps are those that a fit would make now: with newly made optimizers (inside a fit: the current ones), and the
/// trainer's precision, accumulation windows and strategy. They end when max_epochs is reached. Recordings of captured
/// steps are dropped. There is no validation and no sanity check, and nothing is logged, saved or printed.
///
/// The model's hooks are called as in a fit (setup, on_fit_start, on_train_start, hooks of epochs, batches and steps,
/// on_fit_end, teardown; not on_train_end), and may read `ctx.rehearsing()`. Callbacks and loggers are not notified, so
/// between fits a callback has not yet frozen parts of the model, or set the accumulation window of the first epoch.
/// Members of the model outside of `state(archive)` are not restored; neither is a loader that has no set_epoch or
/// state(archive) and does not draw from its library's generators.
///
/// With `Signals{}` among the callbacks, SIGINT and SIGTERM end it after the current batch; the state is restored, and
/// Interrupted is thrown.
void rehearse(auto& trainer, auto& model, auto&& data, RehearsalPlan const& plan) {
  trainer.search(model, data, [&](auto& rehearser) { rehearser.rehearse(plan); });
}
/// For a model that has the loaders itself.
void rehearse(auto& trainer, auto& model, RehearsalPlan const& plan) { rehearse(trainer, model, model, plan); }

}  // namespace fulgurite::tune

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/tuner/learning_rate_finder.ipp>
#endif
