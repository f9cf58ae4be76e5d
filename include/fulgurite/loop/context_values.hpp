#pragma once
// What a context says of metrics.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/context_ranks.hpp>
#include <fulgurite/loop/counted_value.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/shared_figures.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/keeps.hpp>

namespace fulgurite::loop {

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
  bool is_newer_than(long before) const { return value && (logged == unknown || logged != before); }
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
