#pragma once
// Trainer: owns policies, callbacks and counters; borrows model and data. The compiler assembles and checks it.

// In this order, so that each header with sentences is included from here: compilers print every #include between a
// sentence and the program.
// clang-format off
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/diagnose/callback_rules.hpp>
#include <fulgurite/diagnose/optimizer_rules.hpp>
#include <fulgurite/diagnose/trainer_rules.hpp>
#include <fulgurite/diagnose/data_rules.hpp>
#include <fulgurite/diagnose/call_rules.hpp>
#include <fulgurite/diagnose/call_stages.hpp>
#include <fulgurite/diagnose/hook_refusals.hpp>
#include <fulgurite/diagnose/near_miss_refusals.hpp>
#include <fulgurite/diagnose/option_rules.hpp>
#include <fulgurite/loop/between_runs.hpp>
// clang-format on

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::loop {

/// The functions by which code without the program's types calls the program.
template <class R>
struct ProgramCallsOf {
  static State<R>& of(RunCore& core) { return static_cast<State<R>&>(core); }
  static State<R> const& of(RunCore const& core) { return static_cast<State<R> const&>(core); }
  static auto& model_at(void* model) { return *static_cast<typename R::Model*>(model); }

  static void model_rows(RunCore& core, int max_depth, bool with_example, std::vector<report::ModelRow>& rows) {
    using Backend = typename R::Backend;
    if constexpr (requires(typename R::Model& model) { Backend::summarize(model, 1); }) {
      rows = Backend::summarize(*of(core).parts.model, max_depth);
      if constexpr (requires { Backend::run_example(*of(core).parts.model, rows); })
        if (with_example) Backend::run_example(*of(core).parts.model, rows);
    }
  }

  static bool has_other_weights([[maybe_unused]] RunCore& core) {
    bool others = false;
    if constexpr (has_switches<R>) {
      auto& parts = of(core).parts;
      typename R::Value first{};
      if (auto const weights = R::Backend::weights(*parts.model); !weights.empty()) first = weights.front();
      others = !R::Backend::same(first, parts.switches_from);
      parts.switches_from = first;
    }
    return others;
  }

  static auto& board(RunCore& core, BoardNumber number) {
    auto& measured = of(core).measured;
    return number ? measured.eval_boards[*number] : measured.train_board;
  }

  /// The value of a metric with a definition, counted so far by the running evaluation or else by the open training
  /// epoch. Returns nullopt if its epoch already has a value, or if too little was counted for one.
  static std::optional<double> counted_so_far(RunCore& core, CountedSoFar const& what) {
    using Counts = typename State<R>::Board::Counts;
    auto& run = of(core);
    std::optional<double> found;
    auto const value_of = [&](auto& meter) {
      try {
        if (what.of_all_ranks) found = counted_value(run, meter);
        else if (meter.updates() != 0) found = meter.compute();
      } catch (Error const& error) {
        if (!is_too_few(error)) throw;
      }
    };
    auto const of_metric = [&](Counts& counts, auto const& use) {
      counts.each([&](auto at, auto& meter) {
        if constexpr (!metric::counts_several<typename Counts::template Declared<at>>)
          if (at == what.metric) use(at, meter);
      });
    };
    if (what.source != MetricSource::training) {
      if (core.values.counted[what.metric].count != 0) return std::nullopt;
      if (core.facts.validating) {
        Counts so_far;
        of_metric(so_far, [&](auto at, auto& meter) {
          auto& boards = run.measured.eval_boards;
          for (std::size_t l = 0; l != boards.size(); ++l)
            if (!what.loader || l == *what.loader) meter.merge(boards[l].counts.template get<at>());
          value_of(meter);
        });
        if (found) return found;
      }
    }
    auto& board = run.measured.train_board;
    if (what.source != MetricSource::evaluation && !what.loader && core.facts.stage == Stage::fit &&
        board[what.metric].epoch.count == 0) {
      auto counts = board.counts;  // a copy: the counts of the current step may still be discarded
      counts.fold();
      of_metric(counts, [&](auto, auto& meter) { value_of(meter); });
    }
    return found;
  }
  static constexpr auto counting() -> decltype(ProgramCalls::counted_so_far) {
    if constexpr (State<R>::Board::Counts::any) return counted_so_far;
    else return nullptr;
  }

  static constexpr ProgramCalls table{
      .model_name = type_name<typename R::Model>(),
      .is_distributed = shares<R>,
      .splits_model = splits_model<R>,
      .steps_by_batch = R::automatic && !Recurrent<typename R::Model>,
      .is_recurrent = Recurrent<typename R::Model>,
      .keeps_questions = R::Strategy::captures,
      .model = [](RunCore const& core) -> void* { return of(core).parts.model; },
      .rank = [](RunCore const& core) -> int { return of(core).parts.strategy.rank(); },
      .world = [](RunCore const& core) -> int {
        if constexpr (shares<R>) return of(core).parts.strategy.world();
        else return 1;
      },
      .of_first_rank = [](RunCore& core, std::string mine) { return loop::of_first_rank(of(core), std::move(mine)); },
      .has_come = [](RunCore& core, double moment) { return loop::has_come(of(core), moment); },
      .signal_of_all = [](RunCore& core, int mine) -> int {
        if constexpr (shares<R>) {
          if (mine != 0) of(core).shared.signal = mine;
          return of(core).shared.ends_by;
        } else {
          return mine;
        }
      },
      .signal_here = [](RunCore& core, int mine) { return shared_signal(of(core), mine); },
      .unchecked_steps = [](RunCore const& core) -> long {
        if constexpr (ChecksReplays<typename R::Strategy>) return of(core).parts.strategy.unchecked();
        else return 0;
      },
      .device_stats = [](RunCore& core) -> std::vector<std::pair<std::string, double>> {
        return R::Backend::device_stats(of(core).parts.strategy.device());
      },
      .model_rows = model_rows,
      .metrics = declared_metrics<typename R::Metrics>,
      .evaluation_boards = [](RunCore const& core) { return of(core).measured.eval_boards.size(); },
      .cells = [](RunCore& core, BoardNumber number) -> std::span<Cell> { return board(core, number).cells(); },
      .collect =
          [](RunCore& core, BoardNumber number) {
            finish_replays(of(core));
            board(core, number).collect();
          },
      .counted_so_far = counting(),
      .reduce = [](RunCore& core, std::span<double> values, std::span<Reduce const> how) -> bool {
        if constexpr (shares<R>) {
          if (of(core).shared.alone) return false;
          of(core).parts.strategy.reduce_in_place(values, how);
        }
        return true;
      },
      .switches = [](void* model) -> Switches {
        if constexpr (has_switches<R>) return R::Backend::switches(model_at(model));
        else return {};
      },
      .set_switches =
          [](void* model, Switches const& off) {
            if constexpr (has_switches<R>) R::Backend::set_switches(model_at(model), off);
          },
      .eval_modules = [](void* model) -> std::vector<std::string> {
        if constexpr (has_switches<R>) return R::Backend::eval_modules(model_at(model));
        else return {};
      },
      .set_eval_modules =
          [](void* model, std::vector<std::string> const& names) {
            if constexpr (has_switches<R>) R::Backend::set_modes(model_at(model), names);
          },
      .has_other_weights = has_other_weights,
  };
};

}  // namespace fulgurite::loop

namespace fulgurite {

/// The functions of a trainer that has passed its compile-time checks: each call is checked, then passed to the loops.
template <class M, class S, class P, class O, class... Cs>
class TrainerBody<true, M, S, P, O, Cs...> : public loop::BetweenRuns<fulgurite::Run<M, S, P, O>, Cs...>,
                                             public judge::OtherCalls<M> {
  using Owned = loop::BetweenRuns<fulgurite::Run<M, S, P, O>, Cs...>;
  using Other = judge::OtherCalls<M>;
  using Owned::none_;
  using Owned::pack_;
  using Owned::state_;

 public:
  using Run = fulgurite::Run<M, S, P, O>;
  using Results = std::vector<std::vector<MetricValue>>;  ///< for each loader

 private:
  template <class Model>
  using OwnLoaders = loop::ModuleLoaders<std::remove_reference_t<Model>, true>;
  using Calls = judge::Calls<Run, Cs...>;
  // What is checked at a call of `fit` or `open`: with data; with validation data, too; with the model's own loaders.
  // The functions below ask for the verdict: asked for in here, each alias would add a line to what g++ prints.
  template <class Model, class Source, bool Waived, bool Mixed, class... Data>
  using Fit = typename Calls::template Fit<Model, Source, Waived, Mixed, Data...>;
  template <class Model, class Data>
  using FitOn = Fit<Model, loop::SourceOf<Data>, false, false, Data>;
  template <class Model, class Source, class Data, class Val>
  using FitOnTwo = Fit<Model, Source, loop::is_waiver<Val>, loop::is_mixed<Data, Val, Source>, Data, Val>;
  template <class Model, class Source, bool Waived = false>
  using FitOnOwn = Fit<Model, Source, Waived, false>;
  template <class Model, class Kind, class Data>
  using Evaluation = typename Calls::template Evaluation<Model, Kind, Data>;

 public:
  using Other::fit;
  using Other::predict;
  using Other::test;
  using Other::validate;

  TrainerBody(TrainerOptions options, S strategy, P precision, O optimization, Cs... callbacks)
      : Owned(loop::AddedCallbacks(), std::move(options), std::move(strategy), std::move(precision),
              std::move(optimization), std::move(callbacks)...) {}
  /// For make_trainer: the last `added` callbacks are defaults that the program did not name.
  TrainerBody(loop::AddedCallbacks added, TrainerOptions&& options, S&& strategy, P&& precision, O&& optimization,
              Cs&&... callbacks)
      : Owned(added, std::move(options), std::move(strategy), std::move(precision), std::move(optimization),
              std::move(callbacks)...) {}

  /// Trains on a data module, which may have validation loaders, or on a loader, without validation. The last argument
  /// of this and the following functions may be a file or a snapshot from which the run resumes:
  ///
  ///     trainer.fit(net, data);
  ///     trainer.fit(net, data, CkptPath{"last"});
  template <class Model, class Data, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<FitOn<Model, Data>>::type>
    requires(!loop::names_file<Data>)
  void fit(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) remember<Data>(data), fit_from(model, loop::source_of(data, none_), from);
  }
  /// Trains on one loader and validates on another one, or on a std::tuple of them: `trainer.fit(net, train, val)`.
  /// NoValidation{} says that there is no validation on purpose.
  template <class Model, class Data, class Val,
            class Source = loop::SourceOfTwo<std::remove_reference_t<Data>, std::remove_reference_t<Val>>,
            loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<FitOnTwo<Model, Source, Data, Val>>::type>
    requires(!loop::names_file<Val>)
  void fit(Model&& model, Data&& data, Val&& val, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) remember<Data>(data), fit_from(model, of_two<Source>(data, val), from);
  }
  /// Trains on the model's own loaders.
  template <class Model, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<FitOnOwn<Model, OwnLoaders<Model>>>::type>
  void fit(Model&& model, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) forget_data(), fit_from(model, OwnLoaders<Model>(model), from);
  }

  /// Trains on the model's own loaders, without validation.
  template <class Model, class Source = loop::ModuleLoaders<std::remove_reference_t<Model>, false>,
            loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<FitOnOwn<Model, Source, true>>::type>
  void fit(Model&& model, NoValidation, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) forget_data(), fit_from(model, Source(model), from);
  }

  /// Opens a fit that the program's own loop advances; see OpenedFit. The arguments are those of `fit`, but the model
  /// and the data must be variables, since the fit refers to them until it is closed. While it is open, the trainer can
  /// run nothing else: [fulgurite.trainer.open_fit].
  template <class Model, class Data, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<FitOn<Model&, Data&>>::type>
    requires(!loop::names_file<Data>)
  auto open(Model& model, Data& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return remember<Data&>(data), opened(model, loop::source_of(data, none_), from);
    else return loop::NotOpened{};
  }
  template <class Model, class Data, class Val, class Source = loop::SourceOfTwo<Data, std::remove_reference_t<Val>>,
            loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<FitOnTwo<Model&, Source, Data&, Val>>::type>
    requires(!loop::names_file<Val> && (std::is_lvalue_reference_v<Val> || loop::is_waiver<Val>))
  auto open(Model& model, Data& data, Val&& val, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return remember<Data&>(data), opened(model, of_two<Source>(data, val), from);
    else return loop::NotOpened{};
  }
  template <class Model, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<FitOnOwn<Model&, OwnLoaders<Model>>>::type>
  auto open(Model& model, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return forget_data(), opened(model, OwnLoaders<Model>(model), from);
    else return loop::NotOpened{};
  }

  template <class Model, class Source = loop::ModuleLoaders<Model, false>, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<FitOnOwn<Model&, Source, true>>::type>
  auto open(Model& model, NoValidation, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return forget_data(), opened(model, Source(model), from);
    else return loop::NotOpened{};
  }

  /// Refused: the fit refers to the model and the data until it is closed.
  template <class Model, class... Data>
    requires(!std::is_lvalue_reference_v<Model> || (loop::is_temporary_data<Data> || ...))
  auto open(Model&&, Data&&...) {
    static_assert(sizeof(Model) == 0, FULGURITE_SENTENCE_OPEN_TEMPORARY);
    return loop::NotOpened{};
  }

  /// Runs one pass of validation_step without gradients. Returns the metrics of each loader.
  template <class Model, class Data, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<Evaluation<Model, loop::Validation, Data>>::type>
  Results validate(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return evaluate_from<loop::Validation>(model, loop::source_of<true>(data, none_), from);
    else return {};
  }
  /// Runs one pass of test_step without gradients. Returns the metrics of each loader.
  template <class Model, class Data, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<Evaluation<Model, loop::Testing, Data>>::type>
  Results test(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return evaluate_from<loop::Testing>(model, loop::source_of<true>(data, none_), from);
    else return {};
  }
  /// Evaluates on the model's own loaders, or else on the data module of the last fit. The trainer keeps a reference to
  /// that module, so the variable must still exist. Throws [fulgurite.trainer.no_data] if the last fit was given
  /// loaders or a temporary module.
  Results validate(M& model) {
    if constexpr (OwnLoaders<M>::template evaluates<hook::val_dataloader>) return validate(model, model);
    else return last_.template evaluate<loop::Validation>(*this, model);
  }
  Results test(M& model) {
    if constexpr (OwnLoaders<M>::template evaluates<hook::test_dataloader>) return test(model, model);
    else return last_.template evaluate<loop::Testing>(*this, model);
  }
  /// Runs one pass of predict_step. Returns a list for each loader, with the result of predict_step for each batch.
  template <class Model, class Data, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<Evaluation<Model, loop::Prediction, Data>>::type>
  auto predict(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return predict_from(model, loop::source_of<true>(data, none_), true, from);
    else return std::vector<std::vector<refusal::Nothing>>{};
  }
  /// Predicts on the model's own loader. A data module must be passed each time, since the types of its batches
  /// determine the result type.
  template <class Model>
    requires(judge::is_model<M, Model&> && OwnLoaders<M>::template evaluates<hook::predict_dataloader>)
  auto predict(Model& model) {
    return predict(model, model);
  }
  /// Predicts for callbacks that use each prediction at once: results are not collected.
  template <class Model, class Data, loop::StartingPoint From = loop::FromScratch,
            class Verdict = typename judge::VerdictOnCall<Evaluation<Model, loop::Prediction, Data>>::type>
  void predict(Model&& model, Data&& data, DiscardPredictions, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) predict_from(model, loop::source_of<true>(data, none_), false, from);
  }

 private:
  template <class Source, class Data, class Val>
  static Source of_two(Data& data, [[maybe_unused]] Val& val) {
    if constexpr (loop::ReadItself<Data>) return Source{data, val};
    else return Source(data);
  }

  template <class Source, class From>
  void fit_from(M& model, Source source, From const& from) {
    loop::check_end(state_.asked.options);
    state_.parts.model = &model;
    if constexpr (judge::of_this_run<Run, From>()) loop::fit(state_, pack_, source, from);
  }

  template <class Source, class From>
  auto opened(M& model, Source source, From const& from) {
    loop::check_end(state_.asked.options);
    state_.parts.model = &model;
    if constexpr (judge::of_this_run<Run, From>())
      return OpenedFit<Run, std::remove_reference_t<decltype(pack_)>, Source, From>(state_, pack_, std::move(source),
                                                                                    from);
    else return loop::NotOpened{};
  }

  template <class Kind, class Data>
  static constexpr bool can_evaluate = judge::VerdictOnCall<Evaluation<M&, Kind, Data&>>::type::ok;
  void forget_data() {
    loop::refuse_open(state_, "a fit", true);
    last_.forget();
  }
  template <class Data, class D>
  void remember(D& data) {
    forget_data();
    if constexpr (std::is_lvalue_reference_v<Data> && !loop::ReadItself<D>)
      last_.template remember<can_evaluate<loop::Validation, D>, can_evaluate<loop::Testing, D>>(data);
  }

  template <class Kind, class Source, class From>
  Results evaluate_from(M& model, Source source, From const& from) {
    loop::refuse_open(state_, "an evaluation", true);
    state_.parts.model = &model;
    if constexpr (judge::of_this_run<Run, From>()) return loop::run_evaluation<Kind>(state_, pack_, source, from);
    else return {};
  }

  template <class Source, class From>
  auto predict_from(M& model, Source source, bool keep, From const& from) {
    loop::refuse_open(state_, "a prediction", true);
    state_.parts.model = &model;
    return loop::run_prediction(state_, pack_, source, keep, from);
  }

  loop::LastData<TrainerBody, M> last_{};
};

template <class M, class S, class P, class O, class... Cs>
class Trainer;

namespace loop {

/// The positions of the arguments of a kind in `Given`.
template <judge::Argument Kind, class... Given>
consteval auto places() {
  std::array<std::size_t, judge::count_of<Kind, Given...>> places{};
  std::size_t at = 0, found = 0;
  ((judge::argument_of<Given>() == Kind ? void(places[found++] = at) : void(), ++at), ...);
  return places;
}

template <class T>
struct ByDefault {
  static T make() { return {}; }
};

/// Assembles a trainer from the arguments of make_trainer. The type is known before anything is made, so that the error
/// of a violated rule points to the program's line. `type` is an empty stand-in if the arguments themselves are
/// refused.
template <class M, bool Sound, class... Given>
struct Assembly {
  using type = TrainerBody<false, M, int, int, int>;
};
template <class M, class... Given>
struct Assembly<M, true, Given...> {
  using All = Slots<Given*...>;
  static constexpr auto callbacks = places<judge::Argument::callback, Given...>();

  /// The policy that the program named, or the default.
  template <judge::Argument Kind, class Otherwise>
  static auto policy([[maybe_unused]] All& given) {
    constexpr auto place = places<Kind, Given...>();
    if constexpr (place.size() != 0) return std::move(*given.template get<place[0]>());
    else return Otherwise::make();
  }
  static auto strategy(All& given) { return policy<judge::Argument::strategy, DefaultStrategy<M>>(given); }
  static auto precision(All& given) { return policy<judge::Argument::precision, ByDefault<Float32>>(given); }
  static auto optimization(All& given) { return policy<judge::Argument::optimization, ByDefault<Automatic>>(given); }
  static auto added() {
    if constexpr (judge::PartRules<M, Given...>::adds) return DefaultCallbacks<Given...>::make();
    else return std::tuple<>();
  }

  template <class Named, class Added>
  struct Of;
  template <std::size_t... I, class... Added>
  struct Of<std::index_sequence<I...>, std::tuple<Added...>> {
    using type = Trainer<M, decltype(strategy(std::declval<All&>())), decltype(precision(std::declval<All&>())),
                         decltype(optimization(std::declval<All&>())), TypeAt<callbacks[I], Given...>..., Added...>;
    static type make(TrainerOptions&& options, All given, [[maybe_unused]] std::tuple<Added...>&& added) {
      return type(AddedCallbacks{sizeof...(Added)}, std::move(options), strategy(given), precision(given),
                  optimization(given), std::move(*given.template get<callbacks[I]>())...,
                  std::move(std::get<Added>(added))...);
    }
  };
  using Whole = Of<std::make_index_sequence<callbacks.size()>, decltype(added())>;
  using type = typename Whole::type;

  static type make(TrainerOptions&& options, Given&... given) {
    return Whole::make(std::move(options), All(&given...), added());
  }
};
/// The assembly for a call that uses defaults. A call that names everything needs none: its `type` is void.
template <class M, bool AsWritten, class... Given>
struct AssemblyOf {
  using type = void;
};
template <class M, class... Given>
struct AssemblyOf<M, false, Given...> : Assembly<M, decltype(judge::PartRules<M, Given...>::judge())::ok, Given...> {};

}  // namespace loop

/// A trainer exactly as written, for when the tensor library adds no defaults. It compiles fastest.
template <class M, class S, class P, class O, class... Cs>
  requires(judge::as_written<TrainerOptions, S, P, O, Cs...>)
Trainer<M, S, P, O, Cs...> make_trainer(TrainerOptions options, S strategy, P precision, O optimization,
                                        Cs... callbacks) {
  return Trainer<M, S, P, O, Cs...>(std::move(options), std::move(strategy), std::move(precision),
                                    std::move(optimization), std::move(callbacks)...);
}

/// Makes a trainer from options, then policies, callbacks and words in any order. fulgurite/defaults.hpp lists the
/// defaults for policies that are not named, and the callbacks that are always added. A callback of the same kind
/// replaces a default one; a word such as NoLogger{} removes one, and NoDefaults{} removes all of them.
///
///     auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10});
///     auto other = make_trainer<Net>(TrainerOptions{.max_epochs = 10}, EarlyStopping{Net::val_loss}, Bf16Mixed{});
///     auto bare = make_trainer<Net>(TrainerOptions{.max_epochs = 10}, SingleDevice{cpu}, NoDefaults{});
template <class M, class... Given>
  requires(!judge::as_written<TrainerOptions, Given...>)
auto make_trainer(TrainerOptions options, Given... given) ->
    typename loop::AssemblyOf<M, judge::as_written<TrainerOptions, Given...>, Given...>::type {
  using Rules = judge::PartRules<M, Given...>;
  static_cast<void>(Rules::template judge<true>());
  if constexpr (decltype(Rules::judge())::ok)
    return loop::Assembly<M, true, Given...>::make(std::move(options), given...);
  else return {};
}
/// Refused: options must come first.
template <class M, class... Args>
  requires(!judge::begins_with_options<Args...>)
TrainerBody<false, M, int, int, int> make_trainer(Args&&...) {
  static_cast<void>(judge::ArgumentRules<M, false>::template judge<true>());
  return {};
}

/// Takes the model's type from a model: `make_trainer(net, TrainerOptions{...})` is
/// make_trainer<Net>(TrainerOptions{...}). The trainer does not keep the model; pass it to `fit(net, data)`.
template <int = 0, class Model, class... Args>
  requires(std::is_class_v<std::remove_cvref_t<Model>> &&
           !std::is_convertible_v<std::remove_cvref_t<Model>, TrainerOptions>)
auto make_trainer(Model&&, Args&&... args)
    -> decltype(make_trainer<std::remove_cvref_t<Model>>(std::forward<Args>(args)...)) {
  return make_trainer<std::remove_cvref_t<Model>>(std::forward<Args>(args)...);
}
/// Refused: neither a type in angle brackets nor a model. The int parameter keeps calls with a type away from this
/// overload.
template <int = 0, class... Args>
TrainerBody<false, int, int, int, int> make_trainer(Args&&...) {
  static_cast<void>(judge::NamelessRules<Args...>::template judge<true>());
  return {};
}

/// A trainer for one model type, with a strategy, a precision, an optimization and callbacks. Use make_trainer to make
/// one.
template <class M, class S = refusal::Nothing, class P = refusal::Nothing, class O = refusal::Nothing, class... Cs>
class Trainer : public TrainerBody<judge::VerdictOn<M, S, P, O, Cs...>::ok, M, S, P, O, Cs...> {
  using Verdict = judge::VerdictOn<M, S, P, O, Cs...>;
  using Said = decltype(Verdict::Rules::template judge<true, typename Verdict::Whom>());
  using Body = TrainerBody<Verdict::ok, M, S, P, O, Cs...>;

 public:
  using Body::Body;

  // Refused by a static_assert, which prints a sentence; a deleted function would not.
  Trainer(Trainer&&) noexcept : Trainer(refusal::Nothing{}) { static_assert(!stays, FULGURITE_SENTENCE_TRAINER_MOVE); }
  Trainer(Trainer const&) noexcept : Trainer(refusal::Nothing{}) {
    static_assert(!stays, FULGURITE_SENTENCE_TRAINER_MOVE);
  }
  Trainer& operator=(Trainer const&) { static_assert(!stays, FULGURITE_SENTENCE_TRAINER_MOVE); }

 private:
  static constexpr bool stays = sizeof(M*) != 0;  // depends on the template, so that only a use is refused
  explicit Trainer(refusal::Nothing)
      : Body(refusal::nothing<TrainerOptions>(), std::move(refusal::nothing<S>()), std::move(refusal::nothing<P>()),
             std::move(refusal::nothing<O>()), std::move(refusal::nothing<Cs>())...) {}
};

/// Refused: `Trainer trainer{options}` names no model. make_trainer makes the type.
template <class... Args>
Trainer(Args const&...) -> Trainer<refusal::given<Args...>>;

}  // namespace fulgurite
