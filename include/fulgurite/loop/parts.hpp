#pragma once
// The parts of a run that follow from a program's types: optimizers and schedulers, made from the result of
// configure_optimizers; what a training step reads from its context; and what the trainer watches during a fit.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/scheduler.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite {

/// `NoOptimizer configure_optimizers() { return {}; }`: for measuring a model, or for a model that updates itself.
/// Backward runs, hooks are called, steps are counted; no parameter changes and no gradient is cleared.
struct NoOptimizer {};

// The properties that distinguish recorded training steps.

/// Passed to `Strategy::gradients`. A strategy that records steps keeps one recording for each key and batch shape.
struct StepKey {
  bool first;   ///< the first batch of an accumulation window: gradients are cleared in it
  bool closes;  ///< the last batch of its window: an optimizer step follows
  int divisor;  ///< the window's length: backward starts from 1 / divisor

  friend constexpr bool operator==(StepKey const&, StepKey const&) = default;
};

// Truncated back-propagation through time: a batch is cut along time, each slice is a step, and a state is carried from
// slice to slice.

/// A model that declares `using Hidden = ...;` is trained slice by slice (`Automatic{.tbptt = k}`). Its step is
/// `training_step(batch, std::optional<Hidden> const& hidden, ctx)`. `hidden` is empty for the first slice of a batch.
/// The step returns a struct with `.loss` and `.hidden`; the next slice receives that `.hidden`, detached.
template <class M>
concept Recurrent = requires { typename M::Hidden; };

namespace loop {

/// The type in place of what a program does not need.
struct Nothing {};

/// One entry of the result of configure_optimizers: a plain optimizer, or a scheduled one, which may have several
/// schedules. A plain one gets a scheduler that does nothing.
template <class Backend, class T>
struct Entry {
  static constexpr bool scheduled = false;
  using Optimizer = std::remove_cvref_t<decltype(Backend::adopt(std::declval<T>()))>;
  using Schedulers = std::tuple<Scheduler<Optimizer, NoSchedule>>;
  static Optimizer optimizer(T&& from) { return Backend::adopt(std::move(from)); }
  static Schedulers schedulers(T&) { return {}; }
};
template <class Backend, class O, class S, bool Configured>
struct Entry<Backend, Scheduled<O, S, Configured>> {
  static constexpr bool scheduled = true;
  using Earlier = Entry<Backend, O>;
  using Optimizer = typename Earlier::Optimizer;
  static Optimizer optimizer(Scheduled<O, S, Configured>&& from) {
    return Earlier::optimizer(std::move(from.optimizer));
  }
  static auto schedulers(Scheduled<O, S, Configured>& from) {
    auto last = std::tuple(Scheduler<Optimizer, S>(std::move(from.schedule), std::move(from.options)));
    if constexpr (Earlier::scheduled) return std::tuple_cat(Earlier::schedulers(from.optimizer), std::move(last));
    else return last;
  }
  using Schedulers = decltype(schedulers(std::declval<Scheduled<O, S, Configured>&>()));
};

template <class T>
struct AsList {
  using type = OptimizerList<T>;
  static type make(T&& one) { return {std::tuple<T>(std::move(one))}; }
};
template <>
struct AsList<void> {
  using type = OptimizerList<>;  // a rule refuses a configure_optimizers that returns nothing, by name
};
template <class... Os>
struct AsList<OptimizerList<Os...>> {
  using type = OptimizerList<Os...>;
  static type make(type&& list) { return std::move(list); }
};

/// The optimizers and schedulers of a run. Never moved, since schedulers point to optimizers. An optimizer with several
/// schedules has as many schedulers, one after the other.
template <class Backend, class List>
struct OptimizerSet;
template <class Backend, class... Os>
struct OptimizerSet<Backend, OptimizerList<Os...>> : Pinned {
  static constexpr std::size_t count = sizeof...(Os);
  static constexpr bool needs_closure = (Entry<Backend, Os>::Optimizer::needs_closure || ...);
  using Schedulers = decltype(std::tuple_cat(std::declval<typename Entry<Backend, Os>::Schedulers>()...));
  Schedulers schedulers;
  std::tuple<typename Entry<Backend, Os>::Optimizer...> optimizers;

  explicit OptimizerSet(OptimizerList<Os...>&& list)
      : OptimizerSet(std::move(list), std::index_sequence_for<Os...>{}) {}

  /// Calls f(scheduler) for each scheduler that has a schedule.
  template <class F>
  void each_scheduler(F&& f) {
    each_of(schedulers, [&]<class S>([[maybe_unused]] S& scheduler) {
      if constexpr (S::exists) f(scheduler);
    });
  }
  /// The position of `wanted`, which is one of the optimizers.
  template <class O>
  std::size_t place_of(O const& wanted) {
    std::size_t at = 0, place = 0;
    each_of(optimizers, [&](auto& one) {
      if (static_cast<void const*>(&one) == &wanted) place = at;
      ++at;
    });
    return place;
  }
  /// The rates of each optimizer. All of its schedules share what the first one's composed() returns.
  std::array<OptimizerRates, count> of_each() {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<OptimizerRates, count>{
          OptimizerRates{std::get<I>(optimizers), &std::get<first[I]>(schedulers).composed()}...};
    }(std::index_sequence_for<Os...>{});
  }
  /// Saves or loads the rates and momenta of all groups, and the schedules that change them.
  template <class Archive>
  void state(Archive& archive) {
    auto const rates = of_each();
    fold_rates(rates, archive);
    archive.child("schedulers", [&](auto& inner) {
      each_of(schedulers, [&, at = std::size_t{0}]<class S>(S& scheduler) mutable {
        if constexpr (S::exists) inner.child(key(at), scheduler);
        ++at;
      });
    });
    if constexpr (Archive::loading)
      for (auto const& [optimizer, composed] : rates) composed->settle(optimizer);
  }

  /// The key of a schedule in files, by its position among the schedulers.
  static std::string key(std::size_t scheduler) { return schedule_key(first, scheduler); }
  /// The keys and kinds of all schedules.
  static std::vector<std::string> schedule_names() {
    auto const of = []<class... Ss>(std::tuple<Ss...> const*) {
      return loop::schedule_names(first, {Ss::exists ? Ss::kind() : std::string_view()...});
    };
    return of(static_cast<Schedulers const*>(nullptr));
  }

 private:
  /// The position of each optimizer's first scheduler.
  static constexpr auto first = [] {
    std::array<std::size_t, count> begin{};
    std::array<std::size_t, count> const size{std::tuple_size_v<typename Entry<Backend, Os>::Schedulers>...};
    for (std::size_t i = 1; i < count; ++i) begin[i] = begin[i - 1] + size[i - 1];
    return begin;
  }();

  template <std::size_t... I>
  OptimizerSet(OptimizerList<Os...>&& list, std::index_sequence<I...>)
      : schedulers(std::tuple_cat(Entry<Backend, Os>::schedulers(std::get<I>(list.all))...)),
        optimizers(Entry<Backend, Os>::optimizer(std::move(std::get<I>(list.all)))...) {
    (attach<first[I]>(std::get<I>(optimizers),
                      std::make_index_sequence<std::tuple_size_v<typename Entry<Backend, Os>::Schedulers> - 1>{}),
     ...);
  }
  template <std::size_t First, class O, std::size_t... Further>
  void attach(O& optimizer, std::index_sequence<Further...>) {
    auto& begins = std::get<First>(schedulers);
    begins.attach(optimizer);
    (std::get<First + 1 + Further>(schedulers).join(begins), ...);
  }
};

// Training without an optimizer: steps are counted, parameters do not change.

/// The optimizer that the loops use for NoOptimizer.
template <class Value>
struct AbsentOptimizer {
  static constexpr bool needs_closure = false;
  static constexpr bool stable_gradients = true;
  static constexpr bool state_in_parts = true;
  static constexpr std::string_view name() { return "NoOptimizer"; }
  void zero_grad() {}
  void step() {}
  std::size_t groups() const { return 0; }
  double lr(std::size_t) const { return 0; }
  void set_lr(std::size_t, double) {}
  std::vector<Value> const& parameters() const { return none; }
  void state(auto&) {}
  std::vector<Value> none = {};
};

template <class Backend>
struct Entry<Backend, NoOptimizer> {
  static constexpr bool scheduled = false;
  using Optimizer = AbsentOptimizer<typename Backend::Value>;
  using Schedulers = std::tuple<Scheduler<Optimizer, NoSchedule>>;
  static Optimizer optimizer(NoOptimizer&&) { return {}; }
  static Schedulers schedulers(NoOptimizer&) { return {}; }
};

// Part of a run's state: the parts that it was assembled from.

template <class R>
decltype(auto) configure_optimizers(typename R::Model& model, RunContext<R, phase::Fit>& ctx) {
  if constexpr (requires { model.configure_optimizers(ctx); }) return model.configure_optimizers(ctx);
  else return model.configure_optimizers();
}

template <class R>
using Optimizers =
    OptimizerSet<typename R::Backend,
                 typename AsList<std::remove_cvref_t<decltype(configure_optimizers<R>(
                     std::declval<typename R::Model&>(), std::declval<RunContext<R, phase::Fit>&>()))>>::type>;

/// True if the tensor library can check large gradients as soon as backward has made them.
template <class Backend>
inline constexpr bool looks_at_gradients = requires { typename Backend::GradientLooks; };
template <class Backend>
struct LooksOf {
  using type = Nothing;
  using Leaves = Nothing;
};
template <class Backend>
  requires looks_at_gradients<Backend>
struct LooksOf<Backend> {
  using type = typename Backend::GradientLooks;
  using Leaves = typename Backend::UntrainedLeaves;
};

template <class R>
struct Parts {
  typename R::Strategy strategy;
  typename R::Precision precision;
  typename R::Model* model = nullptr;   ///< borrowed; set by the first call with a model
  typename R::Model* fitted = nullptr;  ///< the last fit's model, to which optimizers and counters belong
  typename R::Value switches_from{};    ///< the first weight of the model of `ModelSwitches`
  std::optional<Optimizers<R>> optimizers = std::nullopt;
  std::conditional_t<R::Precision::scales_loss,
                     std::optional<typename R::Backend::template Scaler<typename R::Precision>>, Nothing>
      scaler{};
  bool leaves_gradients = false;  ///< large gradients stay where backward makes them
  [[no_unique_address]] typename LooksOf<typename R::Backend>::type looks{};  ///< see non_finite.hpp
  /// Finds what receives gradients and is not updated.
  [[no_unique_address]] typename LooksOf<typename R::Backend>::Leaves leaves{};
};

// What a training step reads from its context. A strategy that replays steps compares these values before each replay.

// clang-format off
// Each question, with the member of the context that the user calls. First those that return a number that can be
// compared and set.
#define FULGURITE_COMPARABLE_QUESTIONS(ROW)                                                                            \
  ROW(global_step, "global_step") ROW(skipped_steps, "skipped_steps") ROW(logged_steps, "logged_steps")                \
  ROW(current_epoch, "current_epoch") ROW(batch_idx, "batch_idx") ROW(batch_size, "batch_size")                        \
  ROW(is_last_batch, "is_last_batch") ROW(accumulating, "accumulating") ROW(stop_requested, "stop_requested")          \
  ROW(accumulate_grad_batches, "accumulate_grad_batches") ROW(num_training_batches, "num_training_batches")            \
  ROW(estimated_steps, "estimated_steps")
// The others return something that may change at any time, or ask the trainer to do something.
#define FULGURITE_OTHER_QUESTIONS(ROW)                                                                                 \
  ROW(value, "value") ROW(optimizers, "optimizers") ROW(seconds, "seconds_now") ROW(rate, "optimizers().lr")           \
  ROW(request_stop, "request_stop") ROW(log_scalars, "log_scalars") ROW(log_dynamic, "log_dynamic")                    \
  ROW(request_checkpoint, "request_checkpoint") ROW(accumulate, "accumulate")                                          \
  ROW(request_statistics_pass, "request_statistics_pass") ROW(set_log_dir, "set_log_dir") ROW(warn, "warn")            \
  ROW(outcome, "outcome") ROW(set_rate, "optimizers().set_lr") ROW(schedulers, "lr_schedulers")

/// One kind of read from a context.
enum class Question : std::uint8_t {
#define FULGURITE_ROW(NAME, MEMBER) NAME,
  FULGURITE_COMPARABLE_QUESTIONS(FULGURITE_ROW) comparable, last_comparable = comparable - 1,
  FULGURITE_OTHER_QUESTIONS(FULGURITE_ROW) count
#undef FULGURITE_ROW
};
inline constexpr std::size_t comparable_questions = static_cast<std::size_t>(Question::comparable);

/// The name of the context member that the user calls.
constexpr std::string_view name_of(Question question) {
#define FULGURITE_ROW(NAME, MEMBER) MEMBER,
  constexpr std::array<std::string_view, static_cast<std::size_t>(Question::count)> names{
      FULGURITE_COMPARABLE_QUESTIONS(FULGURITE_ROW) FULGURITE_OTHER_QUESTIONS(FULGURITE_ROW)};
#undef FULGURITE_ROW
  return names[static_cast<std::size_t>(question)];
}
#undef FULGURITE_COMPARABLE_QUESTIONS
#undef FULGURITE_OTHER_QUESTIONS
// clang-format on

/// Where the trainer acts in the middle of a step of manual optimization: it looks at a loss, updates with the
/// optimizer of this number, or looks at the gradients of one before they are clipped. A strategy that replays steps
/// lets it act there in each replay.
enum class Turn : std::int64_t { looks_at_loss = -1, first_optimizer = 0 };
constexpr Turn turn_of(std::size_t optimizer) {
  return static_cast<Turn>(static_cast<std::int64_t>(Turn::first_optimizer) + static_cast<std::int64_t>(optimizer));
}
constexpr Turn looks_at_gradients_of(std::size_t optimizer) {
  return static_cast<Turn>(static_cast<std::int64_t>(Turn::looks_at_loss) - 1 - static_cast<std::int64_t>(optimizer));
}
constexpr bool updates(Turn turn) { return turn >= Turn::first_optimizer; }

/// An average of the weights that follows the update of a step: `kept` moves to `live` by `share` of the distance. A
/// strategy that replays steps may make it together with the update; it then sets `*made`. Empty: none follows, or it
/// differs from step to step.
template <class Value>
struct AverageOfStep {
  std::span<Value> kept = {};
  std::span<Value const> live = {};
  double share = 0;
  bool* made = nullptr;
};

/// A set of questions.
class Questions {
 public:
  constexpr void add(Question question) { bits_ |= std::uint32_t{1} << static_cast<unsigned>(question); }
  constexpr bool has(Question question) const { return (bits_ >> static_cast<unsigned>(question) & 1U) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool within(Questions const& other) const { return (bits_ & ~other.bits_) == 0; }
  template <class F>
  constexpr void each(F&& f) const {
    for (unsigned i = 0; bits_ >> i != 0; ++i)
      if ((bits_ >> i & 1U) != 0) f(static_cast<Question>(i));
  }

 private:
  std::uint32_t bits_ = 0;
};

/// The reads of a step, with the values that it got.
struct Answers {
  Questions asked = {};
  std::array<std::int64_t, comparable_questions> numbers = {};
};

/// Calls f(question) for those that can be compared.
template <class F>
constexpr void each_comparable(Questions const& asked, F&& f) {
  asked.each([&](Question question) {
    if (question < Question::comparable) f(question);
  });
}

/// What a model carries from one slice to the next; empty before the first one.
template <class M>
struct HiddenOf {
  using kept = Nothing;
};
template <Recurrent M>
struct HiddenOf<M> {
  using kept = std::optional<typename M::Hidden>;
};

// State of the search for losses and gradients that are infinite or not a number.

/// Whether the run searches. `found`: the current window has a non-finite value, and its update is skipped.
enum class Look : std::uint8_t { off, on, found };

/// `Value` is the backend's tensor type.
template <class Value>
struct FiniteWatch {
  static constexpr std::size_t most_noted = 64;

  Look look = Look::off;
  /// Losses and norms on a device that were not read yet, so that the host need not wait. A step adds handles and calls
  /// no operator; `most_noted` of them are condensed into one.
  std::vector<Value> noted = {};
  long read_at = 0;    ///< global_step when `noted` was last read
  int scaled_out = 0;  ///< updates that the scaler has skipped in a row
  /// Of each optimizer that evaluates a closure: its weights before its step.
  std::map<void const*, std::vector<Value>> before = {};
};

// In manual optimization the user decides the order of clear, backward and step. An order that is almost always a
// mistake gives one warning.

/// The history of one optimizer's gradients, as far as calls on the context show it.
struct GradientHistory {
  bool stepped = false;  ///< a step has used the gradients
  bool cleared = true;   ///< they were cleared after that step
  bool gained = false;   ///< a backward has made gradients that no step has used
  int dropped = 0;       ///< how often unused gradients were cleared
};

/// Checks the first steps of a fit only: such mistakes show from the start, and a check walks over all parameters.
template <std::size_t Optimizers>
class ManualWatch {
 public:
  template <class Run, class Set>
  void before_backward(Run& run, Set& set) {
    if (looks_ == most_looks) return;
    ++looks_;
    each<typename Run::Key::Backend>(set, [&](std::size_t i, auto const&, bool none) {
      auto& is = history_[i];
      empty_[i] = none;
      if (!none) return;
      if (is.gained && ++is.dropped == 2)
        run.warn("fulgurite.manual.dropped_gradients",
                 "gradients of optimizer " + std::to_string(i) +
                     " were cleared before any step used them: clear them after a step, or step "
                     "each time you run backward");
      is.cleared = true;
      is.gained = false;
    });
  }

  template <class Run, class Set>
  void after_backward(Run&, Set& set) {
    if (looks_ == most_looks) return;
    each<typename Run::Key::Backend>(set, [&](std::size_t i, auto const&, bool none) {
      if (empty_[i] && !none) history_[i].gained = true;
    });
  }

  template <class Run, class Set, class Optimizer>
  void before_step(Run& run, Set& set, Optimizer const& stepped) {
    if (looks_ == most_looks) return;
    each<typename Run::Key::Backend>(set, [&](std::size_t i, auto const& optimizer, bool none) {
      if (static_cast<void const*>(&optimizer) != &stepped) return;
      auto& is = history_[i];
      if (none)
        run.warn("fulgurite.manual.no_gradients", "optimizer " + std::to_string(i) +
                                                      " stepped without gradients: call ctx.backward(loss) "
                                                      "before ctx.step, or ctx.minimize, which does both");
      else if (is.stepped && !is.cleared)
        run.warn("fulgurite.manual.not_cleared",
                 "optimizer " + std::to_string(i) +
                     " steps again with the gradients of its last step still in: "
                     "call optimizer.zero_grad() before ctx.backward, or ctx.minimize, which does it");
      is.stepped = true;
      is.cleared = is.gained = false;
    });
  }

 private:
  static constexpr int most_looks = 256;

  /// Calls f(position, optimizer, has no gradients) for the optimizers whose gradients become undefined when cleared.
  /// If gradients stay in place, clearing cannot be detected.
  template <class Backend, class Set, class F>
  void each(Set& set, F&& f) {
    each_of(set, [&, i = std::size_t{0}]<class O>(O& optimizer) mutable {
      if constexpr (!O::stable_gradients) f(i, optimizer, Backend::no_gradients(optimizer.parameters()));
      ++i;
    });
  }

  std::array<GradientHistory, Optimizers> history_{};
  std::array<bool, Optimizers> empty_{};
  int looks_ = 0;
};

// Part of a run's state: what is watched while it runs.

template <class R>
struct Watch {
  FiniteWatch<typename R::Value> finite{};
  std::conditional_t<R::automatic, ManualWatch<0>, ManualWatch<Optimizers<R>::count>> manual{};
};

}  // namespace loop
}  // namespace fulgurite
