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
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::tune {

// Losses over learning rates, and the rate that they suggest.

/// A rate, or why there is none.
struct Suggestion {
  std::optional<double> lr = std::nullopt;
  std::size_t point = 0;  ///< of the curve, where it is
  std::string why = {};   ///< empty where there is a rate

  explicit operator bool() const { return lr.has_value(); }
  double operator*() const { return *lr; }
};

/// One point for each step: the rate, the loss averaged over the steps so far, and the loss itself. The average is
/// exponential with weight 0.98, its beginning corrected: a := 0.98 a + 0.02 loss, and a / (1 - 0.98^(t+1)) after step
/// t = 1, 2, ...
class RateCurve {
 public:
  std::vector<double> lr = {};
  std::vector<double> loss = {};
  std::vector<double> raw = {};
  std::string ended = {};  ///< why there are no more points

  static constexpr std::size_t skip_begin = 10, skip_end = 1;
  static constexpr double average_weight = 0.98;

  /// A step without a loss is a point that is not a number, and no part of the average.
  void add(double rate, std::optional<double> value);
  /// The first n points alone.
  void shorten(std::size_t n);
  /// The lowest averaged loss; nothing before there is one.
  std::optional<double> best() const;

  /// The rate where the loss falls the fastest: the least derivative of the loss by the rate, among the points without
  /// the first and the last ones (which are noise, and where it diverges) and without those that are not finite. The
  /// derivative at a point is that of the parabola through it and its neighbours; at both ends that of the line.
  Suggestion suggestion(std::size_t begin = skip_begin, std::size_t end = skip_end) const;

  /// A row for each point: `lr,loss,raw`, each number with all of its bits.
  std::string csv() const;
  /// Writes `csv()`; after an Error, [fulgurite.file.write], the file is as it was.
  void save(std::filesystem::path const& file) const { write_durably(file, csv()); }

 private:
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  double derivative(std::vector<std::size_t> const& points, std::size_t i) const;
  std::string why_none(std::size_t begin, std::size_t end, std::size_t left) const;

  double average_ = 0;
  long averaged_ = 0;
};

// What a search for a learning rate has found, in numbers and as a picture.

/// `lr` and `loss`, a point for each step, and the rate that they suggest. Several groups of parameters keep the ratio
/// of their rates: `lr` is that of the first one.
///   auto const found = tune::lr_find(trainer, net, loader, {});
///   std::cout << found.text();                // for a terminal
///   found.plot("lr.svg"), found.save("lr.csv");
class FoundRate : public RateCurve {
 public:
  /// Nothing, and why, where there were too few points: then no rate was changed.
  Suggestion suggested = {};
  bool by_factors = true;  ///< the rates rose by factors, so their axis is logarithmic

  /// The averaged loss over the rate, the losses themselves behind it, and the point that is suggested. Averages are
  /// drawn with their whole correction, so that the first one is the first loss; those of `loss` begin at half of it,
  /// as Lightning's do.
  report::Plot plot() const;
  /// Into a file that ends in .svg or .txt.
  void plot(std::filesystem::path const& file) const { plot().save(file); }
  /// The plot in characters, and below it what is suggested, or why nothing is.
  std::string text() const;

 private:
  std::vector<double> drawn_average() const;
  /// All losses up to the lowest average are drawn, and of those that diverge after it as many as leave the averages
  /// half of the picture.
  double highest_drawn(std::vector<double> const& average) const;
  std::string rate() const;
};

/// The types in which a model may keep its learning rate.
template <class T>
inline constexpr bool is_rate = std::is_same_v<T, double> || std::is_same_v<T, float>;
/// The member of a model that is meant where none is named: `lr`, else `learning_rate`.
template <class M>
concept HasLr = requires(M& model) { model.lr; };
/// The second of these names.
template <class M>
concept HasLearningRate = requires(M& model) { model.learning_rate; };

/// `&Net::rate`; a function, `[](Net& net) -> double& { return net.options.rate; }`; nullptr: nowhere; not given: the
/// model's `lr`, or its `learning_rate`. The type is double or float.
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
  template <class F>
  void use(F of) {
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

// The search for a learning rate: short steps with rising rates.

/// How rates rise from step to step: by a factor, or by a difference.
enum class RateMode : std::uint8_t { exponential, linear };
using enum RateMode;

/// An aggregate: `{.min_lr = 1e-5, .max_lr = 0.1, .update = &Net::rate}`.
template <class Model>
struct RateSearch {
  double min_lr = 1e-8;
  double max_lr = 1;
  int num_training = 100;  ///< steps; the first one takes min_lr, the last one max_lr
  RateMode mode = exponential;
  /// Ends the search where the averaged loss is so many times the lowest one, if that is positive; nullopt: at no
  /// multiple. A loss that is not finite ends it in any case.
  std::optional<double> early_stop_threshold = 4.0;
  std::size_t skip_begin = RateCurve::skip_begin;  ///< points that the suggestion leaves out
  std::size_t skip_end = RateCurve::skip_end;
  RateField<Model> update = {};  ///< where the suggestion is put
};

/// Whether T says how a learning rate is searched for.
template <class T>
inline constexpr bool is_rate_search = false;
template <class Model>
inline constexpr bool is_rate_search<RateSearch<Model>> = true;

/// Error [fulgurite.tuner.range] where a number of the search cannot be.
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
    refuse("of num_training = " + std::to_string(search.num_training) + ": it has 2 steps or more, one at each end");
  if (search.early_stop_threshold && !(*search.early_stop_threshold > 0))
    refuse("with early_stop_threshold = " + std::to_string(*search.early_stop_threshold) +
           ": a loss is compared with a positive multiple of the lowest one, or with none (std::nullopt)");
}

/// The rate of step i of n: both ends are reached exactly.
template <class Model>
double rate_of(RateSearch<Model> const& search, long i) {
  long const last = search.num_training - 1;
  if (i >= last) return search.max_lr;
  double const part = static_cast<double>(i) / static_cast<double>(last);
  return search.mode == linear ? search.min_lr + part * (search.max_lr - search.min_lr)
                               : search.min_lr * std::pow(search.max_lr / search.min_lr, part);
}

/// The rates of all groups where that of the first one is `lr`.
std::vector<double> in_ratio(std::vector<double> initial, double lr);

/// Tries the rates out. Nothing is set by it.
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
    while (!numbers.empty() && numbers.back() >= step.number()) numbers.pop_back();  // captured steps were made again
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

/// Where nothing was found, that is said.
template <class R>
void tell_none(Rehearser<R>& rehearser, Suggestion const& suggested) {
  if (!suggested.lr)
    rehearser.context().warn_each("fulgurite.tuner.no_suggestion",
                                  "the search for a learning rate suggests none, so it stays as it is: " +
                                      suggested.why + ". Give it more steps, or a lower max_lr");
}

// Epochs before which a callback searches again.

/// Errors: [fulgurite.tuner.milestone]. `whose`: the callback that has them.
void check_milestones(std::string_view whose, std::vector<int> const& epochs);

/// Whether a search is due before this epoch.
bool is_milestone(int epoch, std::vector<int> const& epochs);

}  // namespace fulgurite::tune

namespace fulgurite {

/// What a LearningRateFinder tries out, and when it does so again.
template <class Model>
struct LearningRateFinderOptions {
  /// How it searches: from which rate to which, in how many steps; see tune::RateSearch.
  tune::RateSearch<Model> search = {};
  std::vector<int> milestones = {};  ///< epochs before which it searches again, such as those that unfreeze a part
};

/// `LearningRateFinder<Net>{{.search = {.max_lr = 0.1}, .milestones = {5, 10}}}`: when the fit starts, tries rising
/// rates out (tune::lr_find says how), puts everything back, and goes on with the rate where the loss fell the fastest:
/// the optimizer's groups keep their ratio, schedules start from it, and it is put into the model. At a milestone the
/// same, from the weights and moments at hand. Where too few steps could be made that is a warning, and the rates stay.
/// All others have heard `on_fit_start`, or `on_train_epoch_start`, when it searches; they hear nothing of its steps.
///
/// A fit that goes on from a file does not search again for what was found before. To search at other times derive from
/// it, hide its hooks, and call `lr_find(ctx)` from yours.
template <class Model>
class LearningRateFinder {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_epoch_start>;
  static constexpr Order order = Order::tuner;
  static constexpr bool searches = true, finds_rate = true, needs_automatic = true, needs_one_optimizer = true,
                        inert_in_dev_run = true;
  static constexpr std::string_view writes = "learning rates, the model's field of them";

  LearningRateFinder() : LearningRateFinder(LearningRateFinderOptions<Model>{}) {}
  explicit LearningRateFinder(LearningRateFinderOptions<Model> options) : options_(std::move(options)) {
    tune::check(options_.search);
    tune::check_milestones("LearningRateFinder", options_.milestones);
  }

  void setup(auto& ctx) {
    if (ctx.stage() == Stage::fit) searched_ = false;
  }
  void on_fit_start(auto& ctx) {
    if (!searched_) lr_find(ctx);
  }
  void on_train_epoch_start(auto& ctx) {
    if (tune::is_milestone(ctx.current_epoch(), options_.milestones)) lr_find(ctx);
  }

  /// What the last search found; empty before.
  tune::FoundRate const& results() const { return found_; }

  void state(auto& archive) { archive("searched", searched_).option("milestones", options_.milestones); }

 protected:
  /// Asks for a search at the next place between two epochs.
  void lr_find(auto& ctx) {
    if (ctx.dev_run()) return;
    ctx.request_search([this](auto& rehearser) {
      found_ = tune::find_rate(rehearser, options_.search);
      searched_ = true;
      tune::tell_none(rehearser, found_.suggested);
      if (!found_.suggested) return;
      auto& rates = rehearser.rates();
      rates.begin_from(tune::in_ratio(rates.initial(), *found_.suggested));
      options_.search.update.set(rehearser.context().model(), *found_.suggested);
    });
  }

 private:
  LearningRateFinderOptions<Model> options_;
  tune::FoundRate found_{};
  bool searched_ = false;
};

}  // namespace fulgurite

namespace fulgurite::tune {

// A learning rate found before training.

/// The model of a trainer.
template <class Trainer>
using ModelOf = typename Trainer::Run::Model;

/// Runs num_training steps with rates that rise from min_lr to max_lr, on the trainer's own optimizer with its windows,
/// precision and strategy, its schedule standing still; puts everything back, as tune::rehearse does; and puts the rate
/// at which the loss fell the fastest into the model, from where its configure_optimizers takes it in the next fit.
/// Between fits; automatic optimization. In a fast_dev_run nothing is tried.
///   auto const found = tune::lr_find(trainer, net, loader, {.max_lr = 0.1, .update = &Net::rate});
///   if (found.suggested) std::cout << *found.suggested << '\n';
///   found.save("lr.csv");
template <class Trainer, class Data>
  requires(!is_rate_search<std::remove_cvref_t<Data>>)
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
        tell_none(rehearser, found.suggested);
      });
      if (found.suggested) options.update.set(model, *found.suggested);
    }
  }
  return found;
}
/// The model has the loaders itself.
template <class Trainer>
FoundRate lr_find(Trainer& trainer, ModelOf<Trainer>& model, RateSearch<ModelOf<Trainer>> options = {}) {
  return lr_find(trainer, model, model, std::move(options));
}

// Steps of the real trainer, tried out and put back.

/// Runs `plan.steps` optimizer steps of the trainer on the data, a loader or a data module (or the model itself, where
/// it has the loaders), and puts everything back bit for bit: weights, buffers, gradients, what model and data module
/// save in `state(archive)`, optimizers, schedules, counters, logged values, places of loaders, random numbers. Also
/// where a step, the loader or an allocation throws; the exception goes on its way then. Between fits; a callback asks
/// for the same inside of one by `ctx.request_search`.
///
/// The steps are those that a fit would make now: its optimizers made anew (inside of a fit: those at hand), its
/// precision, its windows, its strategy. They end where max_epochs is reached. What was recorded of captured steps is
/// freed. There is no validation and no sanity check; nothing is written, no row, no file, no line.
///
/// The model hears what a fit tells it (setup, on_fit_start, on_train_start, hooks of epochs, batches and steps,
/// on_fit_end, teardown; not on_train_end), and may ask `ctx.rehearsing()`. Callbacks and loggers hear nothing. One
/// that freezes parts of the model has not done so between fits, and one that sets the window has not before the first
/// epoch. Members of the model outside of `state(archive)` stay as the steps leave them; a loader that neither draws
/// from the generators of its library, nor has set_epoch or state(archive), is not put back.
///
/// With `Signals{}` among the callbacks, SIGINT and SIGTERM end it after the batch at hand, all is put back, and
/// Interrupted is thrown.
///   tune::rehearse(trainer, net, loader, {.steps = 20, .after_step = [&](RehearsedStep& step) {
///                                           losses.push_back(step.loss());
///                                         }});
template <class Trainer, class Model, class Data>
void rehearse(Trainer& trainer, Model& model, Data&& data, RehearsalPlan const& plan) {
  trainer.search(model, data, [&](auto& rehearser) { rehearser.rehearse(plan); });
}
/// The model has the loaders itself.
template <class Trainer, class Model>
void rehearse(Trainer& trainer, Model& model, RehearsalPlan const& plan) {
  rehearse(trainer, model, model, plan);
}

}  // namespace fulgurite::tune

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/tuner/learning_rate_finder.ipp>
#endif
