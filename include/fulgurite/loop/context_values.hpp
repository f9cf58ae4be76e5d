#pragma once
// What a context says of metrics.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/text.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/validation_timing.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::loop {

// Members of a context that exist in one place only: named anywhere else, they say where.

/// What only the context of a manual training_step has, which hides these; and what none has.
struct NotHere {
  template <bool Fine = false, class... Args>
  void backward(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("backward", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  void minimize(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("minimize", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  void step(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("step", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  int toggle(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("toggle", "use Manual{} for several optimizers"));
    return 0;
  }
  /// Lightning's name for it, which no context has.
  template <bool Fine = false, class... Args>
  void manual_backward(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_BACKWARD);
  }
};

// Where the value of a metric is found: in the running epoch or evaluation, else in the last one that is over.

/// M is the type of a metric that was declared as a constant.
template <class M>
inline constexpr bool is_metric_constant = requires { typename M::metric; };
/// Its position among the model's metrics; their number where it is none of them.
template <class Metrics, class M>
consteval std::size_t place_of() {
  if constexpr (is_metric_constant<M>) return Metrics::template index_of<M>();
  else return Metrics::size;
}

/// Looks for it, as a phase does: hooks of training and of evaluations read other boards. Each question waits for a
/// device where figures are still on it, unless it says otherwise.
template <class R, class Phase>
class MetricValues {
  using Metrics = typename R::Metrics;

 public:
  explicit MetricValues(State<R>& run) : run_(run) {}

  /// Where a metric of one number that has this name stands; their number where none has it.
  static std::size_t place_of_name(std::string_view name) {
    std::size_t place = Metrics::size;
    Metrics::each([&]<class M>(std::size_t i, M const& metric) {
      if constexpr (!metric::counts_several<M>)
        if (metric.name() == name) place = i;
    });
    return place;
  }
  /// `at`: where it stands among the metrics.
  std::optional<double> value(WatchedMetric const& metric, std::size_t at) const {
    if (auto const so_far = counted_so_far(metric, at, [](auto&, auto& meter) { return own_value(meter); }))
      return so_far;
    return find(
        metric, at, [](auto& board) { board.collect(); },
        [&](Figures const& figures, bool, bool) { return reduced(metric, at, figures); });
  }
  /// What the host knows already.
  std::optional<double> known(WatchedMetric const& metric, std::size_t at) const {
    return find(
        metric, at, [](auto&) {}, [&](Figures const& figures, bool, bool) { return reduced(metric, at, figures); });
  }
  /// As all processes together have it, with its age.
  WatchedValue watched_value(WatchedMetric const& metric, std::size_t at) const {
    if (auto const so_far =
            counted_so_far(metric, at, [](auto& run, auto& meter) { return counted_value(run, meter); }))
      return {so_far, WatchedValue::unknown};
    Figures mine;
    bool live = false, news = false;
    find(
        metric, at, [](auto& board) { board.collect(); },
        [&](Figures const& found, bool is_shared, bool is_live) {
          mine = found;
          live = is_live;
          news = !is_shared;
          return std::optional<double>();
        });
    if constexpr (shares<R>) live = share_found(run_, mine, news) || (live && !news);
    long const before = run_.measured.logged[at];
    return {reduced(metric, at, mine), live ? before + mine.count : before};
  }
  /// Whether figures of it still wait on a device: to ask for its value would wait for them.
  bool waits(std::size_t at) const {
    note_question();
    bool any = false;
    each_live_board([&](auto& running) { any = any || running[at].waiting != 0; });
    return any;
  }
  template <class F>
  void each_loader_value(F&& f) const {
    auto const& measured = run_.measured;
    Metrics::each([&](std::size_t i, auto const& metric) {
      if (!metric.logger || !per_epoch(metric, Origin::evaluation) || measured.results[i].count == 0) return;
      std::vector<std::optional<double>> values;
      for (auto const& loader : measured.loader_results) values.push_back(loader[i].reduced(metric.reduce));
      if (std::none_of(values.begin(), values.end(), [](auto const& value) { return value.has_value(); }))
        values.assign(values.size(), measured.results[i].reduced(metric.reduce));
      f(reported_name(metric, Origin::evaluation, true), values);
    });
    if constexpr (State<R>::Board::Counts::any_several) each_of_several(measured, f);
  }

 private:
  /// The boards whose running epoch `value` reads first: all loaders' together; none once an evaluation has been
  /// published.
  template <class F>
  void each_live_board(F&& f) const {
    if constexpr (!Phase::evaluates) f(run_.measured.train_board);
    else if (run_.facts.validating)
      for (auto& evaluated : run_.measured.eval_boards) f(evaluated);
  }
  /// The same for each number of the metrics that have several, in the order in which loaders have them.
  template <class F>
  static void each_of_several(auto const& measured, F& f) {
    std::vector<std::string> told;
    for (auto const& numbers : measured.several)
      for (auto const& [name, number] : numbers) {
        if (std::find(told.begin(), told.end(), name) != told.end()) continue;
        told.push_back(name);
        std::vector<std::optional<double>> values;
        for (std::size_t l = 0; l != measured.loader_results.size(); ++l) {
          auto& value = values.emplace_back();
          for (auto const& [own, number_of_loader] : measured.several[l])
            if (own == name) value = number_of_loader;
        }
        f(name, values);
      }
  }
  /// What the evaluation that runs, else the training epoch that is open, has counted so far of a metric with a
  /// definition, where it has no value of its batches yet; nothing where it has counted nothing, or too little.
  template <class Ask>
  std::optional<double> counted_so_far(WatchedMetric const& metric, std::size_t at, Ask&& ask) const {
    std::optional<double> found;
    Metrics::each([&]<class M>(std::size_t i, M const&) {
      if constexpr (is_counted<M> && !metric::counts_several<M>)
        if (i == at) found = counted_so_far_at<Metrics::template index_of<M>()>(metric, ask);
    });
    return found;
  }
  template <std::size_t At, class Ask>
  std::optional<double> counted_so_far_at(WatchedMetric const& metric, Ask& ask) const {
    note_question();
    auto& measured = run_.measured;
    auto const value_of = [&](auto& meter) -> std::optional<double> {
      try {
        return ask(run_, meter);
      } catch (Error const& error) {
        if (!is_too_few(error)) throw;
        return std::nullopt;
      }
    };
    bool const of_loader = metric.as == WatchedMetric::As::of_loader;
    if constexpr (Phase::evaluates) {
      if (measured.counted[At].count != 0) return std::nullopt;
      if (run_.facts.validating) {
        typename State<R>::Board::Counts so_far;
        auto& meter = so_far.template get<At>();
        for (std::size_t l = 0; l != measured.eval_boards.size(); ++l)
          if (!of_loader || l == loader_at(metric)) meter.merge(measured.eval_boards[l].counts.template get<At>());
        if (auto const value = value_of(meter)) return value;
      }
    }
    if constexpr (Phase::trains)
      if (!of_loader && run_.facts.stage == Stage::fit && measured.train_board[At].epoch.count == 0) {
        auto counts = measured.train_board.counts;  // those of the current step may yet be discarded
        counts.fold();
        return value_of(counts.template get<At>());
      }
    return std::nullopt;
  }
  template <class Meter>
  static std::optional<double> own_value(Meter& meter) {
    return meter.updates() == 0 ? std::nullopt : std::optional<double>(meter.compute());
  }
  /// What is asked for of the figures that were found.
  static std::optional<double> reduced(WatchedMetric const& metric, std::size_t at, Figures const& figures) {
    if (metric.as == WatchedMetric::As::last) return figures.count ? std::optional(figures.last) : std::nullopt;
    return figures.reduced(reduction_of(at));
  }

  /// use(figures, whether they are those of all processes, whether their epoch or evaluation is open) with the figures
  /// that the metric's value is made of.
  template <class Prepare, class Use>
  std::optional<double> find(WatchedMetric const& metric, std::size_t at, Prepare&& prepare, Use&& use) const {
    note_question();
    if (metric.as == WatchedMetric::As::of_loader) {
      auto const l = loader_at(metric);
      if (l == run_.loader_names.size()) return std::nullopt;
      if (Phase::evaluates && run_.facts.validating) {
        prepare(run_.measured.eval_boards[l]);
        auto const& cell = run_.measured.eval_boards[l][at];
        if (cell.epoch.count != 0) return use(cell.epoch, cell.shared, true);
      }
      return use(run_.measured.loader_results[l][at], true, false);
    }
    Figures live;
    bool is_shared = false;
    each_live_board([&](auto& running) { prepare(running); });
    if constexpr (!Phase::evaluates) {
      live = run_.measured.train_board[at].epoch;
      is_shared = run_.measured.train_board[at].shared;
    } else if (run_.facts.validating) {
      live = run_.measured.over_loaders(at);
      is_shared = Metrics::counted[at];
    }
    if (live.count == 0 && trains_on(at)) {
      prepare(run_.measured.train_board);
      live = run_.measured.train_board[at].epoch;
      is_shared = run_.measured.train_board[at].shared;
    }
    if (live.count != 0) return use(live, is_shared, true);
    return use(run_.measured.results[at], true, false);
  }

  /// The position of a metric's loader; their number where none has that name.
  std::size_t loader_at(WatchedMetric const& metric) const {
    auto const& names = run_.loader_names;
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), metric.loader) - names.begin());
  }

  /// In a validation inside fit: a metric that only training logs has its epoch so far there.
  bool trains_on(std::size_t at) const {
    if constexpr (!Phase::evaluates || !Phase::trains) return false;
    else {
      if (run_.facts.stage != Stage::fit) return false;
      for (auto const& evaluated : run_.measured.eval_boards)
        if (evaluated[at].epoch.count != 0) return false;
      return run_.measured.train_board[at].epoch.count != 0 || run_.measured.train_board[at].waiting != 0;
    }
  }

  void note_question() const {
    if (run_.keeps_questions) run_.questions.add(Question::value);
  }
  static constexpr Reduce reduction_of(std::size_t at) {
    Reduce by = Reduce::mean;
    Metrics::each([&](std::size_t i, auto const& metric) { by = i == at ? metric.reduce : by; });
    return by;
  }

  State<R>& run_;
};

/// Phases that read the same boards stand for one another.
template <class Phase>
using ReadsOf = std::conditional_t<!Phase::evaluates, phase::Train,
                                   std::conditional_t<Phase::trains, phase::Validate, phase::Test>>;

/// The functions of a program behind its contexts, for one kind of phases.
template <class R, class Reads>
struct ContextCallsOf {
  using Values = MetricValues<R, Reads>;
  static Values at(RunCore& core) { return Values(static_cast<State<R>&>(core)); }

  static WatchedValue watched_value(RunCore& core, WatchedMetric const& metric) {
    auto const place = Values::place_of_name(metric.name);
    return place == R::Metrics::size ? WatchedValue{} : at(core).watched_value(metric, place);
  }
  static std::optional<double> value(RunCore& core, std::string_view name) {
    WatchedMetric const metric(name);
    auto const place = Values::place_of_name(name);
    return place == R::Metrics::size ? std::nullopt : at(core).value(metric, place);
  }
  static void each_metric(RunCore& core, FunctionRef<void(DeclaredMetric const&, std::optional<double>)> f) {
    auto const values = at(core);
    R::Metrics::each([&]<class M>(std::size_t i, M const& metric) {
      if constexpr (!metric::counts_several<M>)
        f({metric.name(), metric.prog_bar, metric.logger}, values.known(WatchedMetric(metric), i));
    });
  }
  static void each_loader_value(RunCore& core,
                                FunctionRef<void(std::string_view, std::vector<std::optional<double>> const&)> f) {
    at(core).each_loader_value(f);
  }
  static constexpr ContextCalls table{watched_value, value, each_metric, each_loader_value};
};

/// The functions of a program behind its run.
template <class R>
struct ProgramCallsOf {
  static State<R>& of(RunCore& core) { return static_cast<State<R>&>(core); }

  static int rank(RunCore const& core) { return static_cast<State<R> const&>(core).parts.strategy.rank(); }
  static int world([[maybe_unused]] RunCore const& core) {
    if constexpr (shares<R>) return static_cast<State<R> const&>(core).parts.strategy.world();
    else return 1;
  }
  static std::string of_first_rank(RunCore& core, std::string mine) {
    return loop::of_first_rank(of(core), std::move(mine));
  }
  static bool has_come(RunCore& core, double moment) { return loop::has_come(of(core), moment); }
  static int signal_of_all([[maybe_unused]] RunCore& core, int mine) {
    if constexpr (shares<R>) {
      if (mine != 0) of(core).shared.signal = mine;
      return of(core).shared.ends_by;
    } else {
      return mine;
    }
  }
  static int signal_here(RunCore& core, int mine) { return shared_signal(of(core), mine); }
  static std::optional<long> estimated_steps(RunCore const& core) {
    return loop::estimated_steps(static_cast<State<R> const&>(core));
  }
  static long unchecked_steps([[maybe_unused]] RunCore const& core) {
    if constexpr (ChecksReplays<typename R::Strategy>)
      return static_cast<State<R> const&>(core).parts.strategy.unchecked();
    else return 0;
  }
  static void model_rows(RunCore& core, int max_depth, bool with_example, std::vector<report::ModelRow>& rows) {
    using Backend = typename R::Backend;
    if constexpr (requires(typename R::Model& model) { Backend::summarize(model, 1); }) {
      rows = Backend::summarize(*of(core).parts.model, max_depth);
      if constexpr (requires { Backend::run_example(*of(core).parts.model, rows); })
        if (with_example) Backend::run_example(*of(core).parts.model, rows);
    }
  }

  static void device_stats([[maybe_unused]] RunCore& core,
                           [[maybe_unused]] FunctionRef<void(std::string const&, double)> f) {
    if constexpr (requires { R::Backend::device_stats(of(core).parts.strategy.device()); })
      for (auto const& [name, value] : R::Backend::device_stats(of(core).parts.strategy.device())) f(name, value);
  }

  static constexpr ProgramCalls table{
      .model_name = type_name<typename R::Model>(),
      .is_distributed = shares<R>,
      .steps_by_batch = R::automatic && !Recurrent<typename R::Model>,
      .keeps_questions = R::Strategy::captures,
      .rank = rank,
      .world = world,
      .of_first_rank = of_first_rank,
      .has_come = has_come,
      .signal_of_all = signal_of_all,
      .signal_here = signal_here,
      .estimated_steps = estimated_steps,
      .unchecked_steps = unchecked_steps,
      .device_stats = device_stats,
      .model_rows = model_rows,
  };
};

}  // namespace fulgurite::loop
