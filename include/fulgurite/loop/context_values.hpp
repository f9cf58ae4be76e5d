#pragma once
// What gives a program's types to code that does not know them, and members that contexts refuse.

#include <cstddef>
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
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/validation_timing.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::loop {

// Members that only one kind of context has. In any other context, calling one is a compile error that says where it
// exists.

/// The members of the context of a manual training_step, which hides these, and one that no context has.
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
  /// Lightning's name for `backward`; no context has it.
  template <bool Fine = false, class... Args>
  void manual_backward(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_BACKWARD);
  }
};

// Metrics that were declared as constants.

/// True if M is the type of a metric that was declared as a constant.
template <class M>
inline constexpr bool is_metric_constant = requires { typename M::metric; };
/// The metric's position among the model's metrics; Metrics::size if the model does not declare it.
template <class Metrics, class M>
consteval std::size_t place_of() {
  if constexpr (is_metric_constant<M>) return Metrics::template index_of<M>();
  else return Metrics::size;
}

/// The functions by which code without the program's types calls the program.
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

  static void device_stats(RunCore& core, FunctionRef<void(std::string const&, double)> f) {
    for (auto const& [name, value] : R::Backend::device_stats(of(core).parts.strategy.device())) f(name, value);
  }

  static std::size_t evaluation_boards(RunCore const& core) {
    return static_cast<State<R> const&>(core).measured.eval_boards.size();
  }
  static auto& board(RunCore& core, BoardNumber number) {
    auto& measured = of(core).measured;
    return number ? measured.eval_boards[*number] : measured.train_board;
  }
  static std::span<Cell> cells(RunCore& core, BoardNumber number) { return board(core, number).cells(); }
  static void collect(RunCore& core, BoardNumber number) { board(core, number).collect(); }

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

  static bool reduce(RunCore& core, std::span<double> values, std::span<Reduce const> how) {
    auto& run = of(core);
    if (run.shared.alone) return false;
    run.parts.strategy.reduce_in_place(values, how);
    return true;
  }
  static constexpr auto reducing() -> decltype(ProgramCalls::reduce) {
    if constexpr (shares<R>) return reduce;
    else return nullptr;
  }

  static constexpr ProgramCalls table{
      .model_name = type_name<typename R::Model>(),
      .is_distributed = shares<R>,
      .splits_model = splits_model<R>,
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
      .metrics = declared_metrics<typename R::Metrics>,
      .evaluation_boards = evaluation_boards,
      .cells = cells,
      .collect = collect,
      .counted_so_far = counting(),
      .reduce = reducing(),
  };
};

}  // namespace fulgurite::loop
