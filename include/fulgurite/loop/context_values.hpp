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

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
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

// What every context says: where its run is.

template <class R>
class PlaceContext : public NotHere {
 public:
  using Run = R;
  using Metrics = typename R::Metrics;
  using Backend = typename R::Backend;
  using Asks = Question;

  explicit constexpr PlaceContext(State<R>& state) : state_(&state) {}

  /// Optimizer steps of this fit so far, over all optimizers; a fit that goes on from a file counts on from there.
  /// Steps that were skipped count, too.
  long global_step() const { return asked(Asks::global_step), state_->progress.global_step; }
  /// How many of the steps above changed no weight, because a loss or a gradient was not finite (NonFinite::skip).
  long skipped_steps() const { return asked(Asks::skipped_steps), state_->progress.skipped_steps; }
  /// The epoch at hand, counted from 0: how many were completed before it.
  int current_epoch() const { return asked(Asks::current_epoch), state_->progress.epoch; }
  /// The batch, counted from 0 in its epoch or in its evaluation loader. Between batches the one before; 0 before the
  /// first, and in on_train_end.
  long batch_idx() const { return asked(Asks::batch_idx), state_->facts.batch_idx; }
  /// Samples in the batch, on this process. 0 between batches, while a batch is transferred, and for one that does not
  /// tell its size.
  long batch_size() const { return asked(Asks::batch_size), state_->facts.in_batch ? state_->facts.batch_size : 0; }
  /// Of its epoch, or of its evaluation loader. A loader that has no size and does not promise that batches stay valid
  /// is read one batch at a time: false until the end is found, after the end hook of the last batch; true in what
  /// follows.
  bool is_last_batch() const { return asked(Asks::is_last_batch), state_->facts.is_last_batch; }
  /// True where the batch at hand does not end its accumulation window: no optimizer step follows it.
  bool accumulating() const { return asked(Asks::accumulating), state_->facts.accumulating; }
  /// True in the few validation batches before training (num_sanity_val_steps).
  bool sanity_checking() const { return state_->facts.sanity_checking; }
  /// These steps are tried out: nothing of them stays, but what you keep outside of weights, buffers and `state`.
  bool rehearsing() const { return state_->searching.rehearsing; }
  /// Which of the trainer's functions is at work: fit, validate, test or predict. In the validation of a fit it is fit.
  Stage stage() const { return state_->facts.stage; }
  /// Which evaluation loader is at hand, counted from 0, where there are several; else 0.
  std::size_t loader() const { return state_->facts.loader; }
  /// In predict: the place of this process's i-th sample of the loader among the samples of all processes; i itself
  /// where there is one process, or each reads a loader of its own.
  long sample_place(long i) const { return state_->facts.first_sample + i * state_->facts.sample_step; }
  /// fast_dev_run is on: what would be saved, stopped or logged on behalf of a run is not.
  bool dev_run() const { return state_->asked.options.fast_dev_run != 0; }

  /// The model that is trained or evaluated. A callback may change it in its hooks.
  typename R::Model& model() const { return *state_->parts.model; }
  /// What the run goes by: the trainer's options, where fast_dev_run, overfit_batches and barebones have replaced those
  /// that they stand for.
  TrainerOptions const& options() const { return state_->asked.options; }
  /// Where batches and weights are, in the tensor library's type (torch::Device).
  auto device() const { return state_->parts.strategy.device(); }
  /// This process's number among those that train the model together, from 0; 0 where there is one. Let rank 0 alone
  /// print and write.
  int rank() const { return state_->parts.strategy.rank(); }

  /// Batches of a training epoch after limits; nullopt where the loader has no size.
  std::optional<long> num_training_batches() const {
    return asked(Asks::num_training_batches), state_->facts.train_batches;
  }
  /// Batches of the evaluation loader at hand, after limits.
  std::optional<long> num_eval_batches() const { return state_->facts.eval_batches; }
  /// Optimizer steps of the whole fit; nullopt where neither max_steps nor a sized loader and max_epochs tell.
  std::optional<long> estimated_steps() const { return asked(Asks::estimated_steps), loop::estimated_steps(*state_); }
  /// Whether the fit validates at all: there is a loader for it, and limit_val_batches leaves some of it.
  bool has_validation() const { return state_->facts.has_validation; }
  /// Validation runs exactly once, at the end of every epoch.
  bool validating_each_epoch_end() const {
    return has_validation() && options().val_check_interval.epoch_end() && options().check_val_every_n_epoch == 1;
  }
  /// Seconds of training, on the clock `options().now`, which max_time is compared with: it runs from on_train_start
  /// on. Where a fit goes on from a file, those before the file was written count, too.
  double training_seconds() const { return asked(Asks::seconds), state_->training_seconds(); }
  /// The clock `options().now` in seconds, from a beginning of its own: only differences mean something.
  double seconds_now() const { return asked(Asks::seconds), Seconds(options().now().time_since_epoch()).count(); }

  /// What may be meant and mostly is not: on stderr unless `.silence` names it, and in `trainer.warnings()`. Said once
  /// for each identifier: `warn("mine.rate.high", "the rate is above 1: lower it")`. An Error where the identifier is
  /// not of that form.
  void warn(std::string_view identifier, std::string_view sentence) const {
    require_identifier(identifier);
    state_->warn(identifier, sentence);
  }
  /// The same, said once for each sentence.
  void warn_each(std::string_view identifier, std::string_view sentence) const {
    require_identifier(identifier);
    state_->warn_each(identifier, sentence);
  }

 protected:
  /// A strategy that replays steps has to know what a recorded one went by.
  void asked(Asks question) const { state_->watch.questions.add(question); }

  State<R>* state_;

 private:
  void require_identifier(std::string_view identifier) const {
    asked(Asks::warn);
    if (!is_identifier(identifier))
      throw Error("fulgurite.context.warning", "'" + std::string(identifier) +
                                                   "' does not identify a warning: use words in lower case with points "
                                                   "between them, as mine.rate.high");
  }
};

// What a context says of the processes that train one model together.

/// With one process each of these is its own answer.
template <class R>
class RanksContext : public PlaceContext<R> {
  using Base = PlaceContext<R>;

 public:
  // Not inherited: the compiler would need the whole State before a model's configure_optimizers(ctx) is known.
  explicit constexpr RanksContext(State<R>& state) : Base(state) {}

  using typename Base::Asks;

  /// How many processes there are; `rank()` counts them from 0.
  int world() const {
    if constexpr (shares<R>) return state_->parts.strategy.world();
    else return 1;
  }
  /// A line on stdout, or several, of rank 0 alone. On a terminal it comes out above a progress bar.
  void print(std::string_view line) const {
    asked(Asks::warn);
    if (speaks_for_all(*state_)) fulgurite::tell(stdout, std::string(line) + "\n");
  }
  /// The numbers that each rank gives, in the order of ranks. Every rank has to come here, each as often as the others:
  /// never inside of an `if (ctx.rank() == 0)`, or in a step of an evaluation, of which ranks may have different
  /// numbers.
  std::vector<std::vector<double>> all_gather(std::span<double const> mine) const {
    asked(Asks::optimizers);
    std::vector<std::vector<double>> all;
    if constexpr (shares<R>) {
      std::string bytes(mine.size_bytes(), '\0');
      if (!mine.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
      for (auto const& one : state_->parts.strategy.gather(std::move(bytes))) {
        auto& numbers = all.emplace_back(one.size() / sizeof(double));
        if (!one.empty()) std::memcpy(numbers.data(), one.data(), one.size());
      }
    } else {
      all.emplace_back(mine.begin(), mine.end());
    }
    return all;
  }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  std::vector<Number> all_gather(Number mine) const {
    auto const number = static_cast<double>(mine);
    std::vector<Number> all;
    for (auto const& one : all_gather(std::span<double const>(&number, 1)))
      all.push_back(static_cast<Number>(one.front()));
    return all;
  }

  /// Rank 0's text for all: what was looked up outside of the program, such as the name of a folder. Every rank asks.
  std::string of_first_rank(std::string mine) const { return loop::of_first_rank(*state_, std::move(mine)); }
  /// Whether a moment in `seconds_now()` has come, by rank 0's clock. Every rank asks after each step, and as long as
  /// no moment has come that somebody asks for, that costs no message.
  bool has_come(double moment) const { return asked(Asks::seconds), loop::has_come(*state_, moment); }
  /// The signal by which the run ends, 0: none. `mine`: what has come to this process; the others hear of it with the
  /// next step's gradients, and then all of them get it at the end of the same batch.
  int signal_of_all(int mine) const {
    if constexpr (shares<R>) {
      if (mine != 0) state_->shared.signal = mine;
      return state_->shared.ends_by;
    } else {
      return mine;
    }
  }
  /// The same where all ranks meet, such as in teardown.
  int signal_here(int mine) const { return shared_signal(*state_, mine); }

 protected:
  using Base::asked;
  using Base::state_;
};

/// M is the type of a metric that was declared as a constant.
template <class M>
inline constexpr bool is_metric_constant = requires { typename M::metric; };
/// Its position among the model's metrics; their number where it is none of them.
template <class Metrics, class M>
consteval std::size_t place_of() {
  if constexpr (is_metric_constant<M>) return Metrics::template index_of<M>();
  else return Metrics::size;
}

/// What a monitor sees of a metric.
struct WatchedValue {
  static constexpr long unknown = -1;
  std::optional<double> value = std::nullopt;
  long logged = 0;  ///< how often the metric was logged so far in the run, for all that `value` knows

  /// Whether it was logged since a look that saw `before`.
  bool is_newer_than(long before) const;
};

template <class R, class Phase>
class ValuesContext : public RanksContext<R> {
  using Base = RanksContext<R>;

 public:
  // Not inherited: the compiler would need the whole State before a model's configure_optimizers(ctx) is known.
  explicit constexpr ValuesContext(State<R>& state) : Base(state) {}

  using typename Base::Asks;
  using typename Base::Metrics;

  /// The metric's value over the running epoch so far, else over the last finished one: the mean weighted by batch size
  /// (or the declared reduction, or definition); `metric.last()` asks for the latest value. May read a device: then it
  /// waits, and is worth counting.
  template <class M>
  std::optional<double> value(M const& metric) const {
    constexpr bool declared = place_of<Metrics, M>() < Metrics::size, one = !of_several<M>();
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(one, FULGURITE_SENTENCE_METRIC_SEVERAL);
    if constexpr (computes_so_far<M>)
      if (auto const so_far = counted_so_far(metric, [](auto&, auto& meter) { return own_value(meter); }))
        return so_far;
    return find(metric, [](auto& board) { board.collect(); }, Reduced<M>{});
  }
  /// The same as all processes together have it: for what decides something, in a hook of an epoch's or a validation's
  /// end. Every rank has to ask.
  template <class M>
  std::optional<double> shared_value(M const& metric) const {
    return watched_value(metric).value;
  }
  /// The same with its age, for a monitor: a value that it has judged before is no second value. It keeps `logged` in
  /// its state and looks again when there is something new:
  ///     auto const seen = ctx.watched_value(metric);
  ///     if (!seen.is_newer_than(logged_)) return;
  ///     logged_ = seen.logged;
  template <class M>
  WatchedValue watched_value(M const& metric) const {
    constexpr bool declared = place_of<Metrics, M>() < Metrics::size, one = !of_several<M>();
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(one, FULGURITE_SENTENCE_METRIC_SEVERAL);
    if constexpr (declared && one) {
      if constexpr (computes_so_far<M>)
        if (auto const so_far =
                counted_so_far(metric, [](auto& run, auto& meter) { return counted_value(run, meter); }))
          return {so_far, WatchedValue::unknown};
      Figures mine;
      bool live = false, news = false;
      find(
          metric, [](auto& board) { board.collect(); },
          [&](Figures const& found, bool is_shared, bool is_live) {
            mine = found;
            live = is_live;
            news = !is_shared;
            return std::optional<double>();
          });
      if constexpr (shares<R>) live = share_found(*state_, mine, news) || (live && !news);
      long const before = state_->measured.logged[place_of<Metrics, M>()];
      return {Reduced<M>{}(mine, true, live), live ? before + mine.count : before};
    } else {
      return {};
    }
  }
  /// The same without ever waiting: what the host knows already.
  template <class M>
  std::optional<double> known(M const& metric) const {
    constexpr bool declared = place_of<Metrics, M>() < Metrics::size;
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    return find(metric, [](auto&) {}, Reduced<M>{});
  }
  /// Whether figures of a metric still wait on a device: to ask for its value would wait for them.
  template <class M>
  bool value_waits(M const&) const {
    asked(Asks::value);
    bool waits = false;
    each_live_board([&](auto& running) { waits = waits || running[Metrics::template index_of<M>()].waiting != 0; });
    return waits;
  }

  /// The evaluation loaders' own names, else their positions.
  std::vector<std::string> const& loader_names() const { return state_->measured.loader_names; }
  /// f(reported name, the value of each loader, where it has one) for each metric that an evaluation reports, when it
  /// is over. What was logged outside of its loaders belongs to each of them.
  template <class F>
  void each_loader_value(F&& f) const {
    asked(Asks::value);
    auto const& measured = state_->measured;
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
  /// f(metric, value the host knows already) for each declared metric of one number, in order.
  template <class F>
  void each_metric(F&& f) const {
    Metrics::each([&]<class M>(std::size_t, M const& metric) {
      if constexpr (!metric::counts_several<M>) f(metric, known(metric));
    });
  }

 protected:
  using Base::asked;
  using Base::state_;

  auto& board() const {
    if constexpr (Phase::evaluates) return state_->measured.eval_boards[state_->facts.board];
    else return state_->measured.train_board;
  }
  /// The boards whose running epoch `value` reads first: all loaders' together; none once an evaluation has been
  /// published.
  template <class F>
  void each_live_board(F&& f) const {
    if constexpr (!Phase::evaluates) f(state_->measured.train_board);
    else if (state_->facts.validating)
      for (auto& evaluated : state_->measured.eval_boards) f(evaluated);
  }

 private:
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
  template <class M>
  static consteval bool of_several() {
    if constexpr (is_metric_constant<M>) return metric::counts_several<typename M::metric>;
    else return false;
  }
  /// A counted metric of one number, of all loaders or of one.
  template <class M>
  static consteval bool computes_so_far_of() {
    if constexpr (!is_counted<M>) return false;
    else return !metric::counts_several<typename M::metric>;
  }
  template <class M>
  static constexpr bool computes_so_far = computes_so_far_of<M>();

  /// What the evaluation that runs, else the training epoch that is open, has counted so far, where it has no value of
  /// its batches yet; nothing where it has counted nothing, or too little.
  template <class M, class Ask>
  std::optional<double> counted_so_far(M const& metric, Ask&& ask) const {
    constexpr std::size_t at = place_of<Metrics, M>();
    constexpr bool of_loader = requires { metric.loader; };
    asked(Asks::value);
    auto& measured = state_->measured;
    auto const value_of = [&](auto& meter) -> std::optional<double> {
      try {
        return ask(*state_, meter);
      } catch (Error const& error) {
        if (!is_too_few(error)) throw;
        return std::nullopt;
      }
    };
    if constexpr (Phase::evaluates) {
      if (measured.counted[at].count != 0) return std::nullopt;
      if (state_->facts.validating) {
        typename State<R>::Board::Counts so_far;
        auto& meter = so_far.template get<at>();
        for (std::size_t l = 0; l != measured.eval_boards.size(); ++l) {
          if constexpr (of_loader)
            if (l != loader_at(metric)) continue;
          meter.merge(measured.eval_boards[l].counts.template get<at>());
        }
        if (auto const value = value_of(meter)) return value;
      }
    }
    if constexpr (Phase::trains && !of_loader)
      if (state_->facts.stage == Stage::fit && measured.train_board[at].epoch.count == 0) {
        auto counts = measured.train_board.counts;  // those of the current step may yet be discarded
        counts.fold();
        return value_of(counts.template get<at>());
      }
    return std::nullopt;
  }
  template <class Meter>
  static std::optional<double> own_value(Meter& meter) {
    return meter.updates() == 0 ? std::nullopt : std::optional<double>(meter.compute());
  }
  /// What M asks for of the figures that were found.
  template <class M>
  struct Reduced {
    std::optional<double> operator()(Figures const& figures, bool, bool) const {
      constexpr bool last = !requires(M metric) { metric.loader; } && !std::is_same_v<typename M::metric, M>;
      if constexpr (last) return figures.count ? std::optional(figures.last) : std::nullopt;
      else return figures.reduced(reduction_of(place_of<Metrics, M>()));
    }
  };

  /// use(figures, whether they are those of all processes, whether their epoch or evaluation is open) with the figures
  /// that the metric's value is made of.
  template <class M, class Prepare, class Use>
  std::optional<double> find(M const& metric, Prepare&& prepare, Use&& use) const {
    asked(Asks::value);
    constexpr std::size_t at = place_of<Metrics, M>();
    if constexpr (requires { metric.loader; }) {
      auto const l = loader_at(metric);
      if (l == state_->measured.loader_names.size()) return std::nullopt;
      if (Phase::evaluates && state_->facts.validating) {
        prepare(state_->measured.eval_boards[l]);
        auto const& cell = state_->measured.eval_boards[l][at];
        if (cell.epoch.count != 0) return use(cell.epoch, cell.shared, true);
      }
      return use(state_->measured.loader_results[l][at], true, false);
    } else if constexpr (at < Metrics::size) {
      Figures live;
      bool is_shared = false;
      each_live_board([&](auto& running) { prepare(running); });
      if constexpr (!Phase::evaluates) {
        live = state_->measured.train_board[at].epoch;
        is_shared = state_->measured.train_board[at].shared;
      } else if (state_->facts.validating) {
        live = state_->measured.over_loaders(at);
        is_shared = Metrics::counted[at];
      }
      if (live.count == 0 && trains_on(at)) {
        prepare(state_->measured.train_board);
        live = state_->measured.train_board[at].epoch;
        is_shared = state_->measured.train_board[at].shared;
      }
      if (live.count != 0) return use(live, is_shared, true);
      return use(state_->measured.results[at], true, false);
    } else {
      return std::nullopt;
    }
  }

  /// The position of a metric's loader; their number where none has that name.
  std::size_t loader_at(auto const& metric) const {
    auto const& names = state_->measured.loader_names;
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), metric.loader) - names.begin());
  }

  /// In a validation inside fit: a metric that only training logs has its epoch so far there.
  bool trains_on(std::size_t at) const {
    if constexpr (!Phase::evaluates || !Phase::trains) return false;
    else {
      if (state_->facts.stage != Stage::fit) return false;
      for (auto const& evaluated : state_->measured.eval_boards)
        if (evaluated[at].epoch.count != 0) return false;
      return state_->measured.train_board[at].epoch.count != 0 || state_->measured.train_board[at].waiting != 0;
    }
  }

  static constexpr Reduce reduction_of(std::size_t at) {
    Reduce by = Reduce::mean;
    Metrics::each([&](std::size_t i, auto const& metric) { by = i == at ? metric.reduce : by; });
    return by;
  }
};

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/context_values.ipp>
#endif
