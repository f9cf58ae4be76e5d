#pragma once
// What a context logs.

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/context_dynamic.hpp>
#include <fulgurite/loop/phase.hpp>

namespace fulgurite {

namespace loop {

/// An option of Lightning's `self.log` that is one of the metric's declaration here: no call can give it. `Which`
/// makes each a type of its own, so that none takes room.
template <int Which>
struct DeclaredOption {
  constexpr DeclaredOption() = default;
  template <class T>
  DeclaredOption(T const&) {
    constexpr bool belongs_here = std::same_as<T, DeclaredOption>;
    static_assert(belongs_here, FULGURITE_SENTENCE_METRIC_LOG_OPTIONS);
  }
};

}  // namespace loop

/// Per call: the weight of the value in the epoch's mean. What concerns the metric itself stands in its declaration:
/// the other options are refused.
struct LogOptions {
  [[no_unique_address]] loop::DeclaredOption<0> on_step = {};    ///< refused: an option of the metric's declaration
  [[no_unique_address]] loop::DeclaredOption<1> on_epoch = {};   ///< refused
  [[no_unique_address]] loop::DeclaredOption<2> prog_bar = {};   ///< refused
  [[no_unique_address]] loop::DeclaredOption<3> logger = {};     ///< refused
  [[no_unique_address]] loop::DeclaredOption<4> sync_dist = {};  ///< refused: the declaration's sync_on_step
  long batch_size = 0;                                           ///< 0: inferred from the batch
};

namespace loop {

[[noreturn]] FULGURITE_COLD void refuse_log_place(std::string_view name, bool by_step) {
  if (by_step)
    throw Error("fulgurite.metric.no_step",
                std::string(name) +
                    " is declared with .on_step = Report::yes and logged in a hook of the epoch, where there is no "
                    "step: leave on_step out, or log it in training_step");
  throw Error("fulgurite.metric.two_places",
              std::string(name) +
                  " is logged both in steps and in a hook of the epoch: declare a second metric for one of them");
}
[[noreturn]] FULGURITE_COLD void refuse_no_rows(std::string_view name, long batch) {
  throw Error("fulgurite.metric.no_rows",
              "batch " + std::to_string(batch) + " has 0 rows, over which " + std::string(name) +
                  " has no mean: let the loader leave such a batch out, or log with {.batch_size = ...}");
}
[[noreturn]] FULGURITE_COLD void refuse_no_size(std::string_view name) {
  throw Error("fulgurite.metric.batch_size", "the batch holds no tensor to take its size from: log " +
                                                 std::string(name) +
                                                 " with {.batch_size = ...}, or give the batch a batch_size() member");
}

template <class R, class Phase>
class LogContext : public DynamicContext<R, Phase> {
  using Base = DynamicContext<R, Phase>;

 public:
  // Not inherited: the compiler would need the whole State before a model's configure_optimizers(ctx) is known.
  explicit constexpr LogContext(State<R>& state) : Base(state) {}

  using typename Base::Backend;
  using typename Base::Metrics;

  /// Stores the value; reduced over the epoch, reported as the metric's declaration says. No look-up, no allocation, no
  /// wait for a device.
  template <class M, class V>
    requires(Phase::logs)
  void log(M const&, V const& value, LogOptions how = {}) {
    constexpr std::size_t at = place_of<Metrics, M>();
    constexpr bool constant = is_metric_constant<M>;
    constexpr bool declared = !constant || at < Metrics::size;
    constexpr bool tensor = Backend::template is_value<V>;
    constexpr bool loggable = !is_counted<M>;
    constexpr bool readable = !constant || !declared || tensor || std::is_arithmetic_v<V>;
    constexpr bool replayable =
        tensor || !std::is_arithmetic_v<V> || !R::Strategy::captures || !std::same_as<Phase, phase::Train>;
    static_assert(constant, FULGURITE_SENTENCE_METRIC_CONSTANT);
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(loggable, FULGURITE_SENTENCE_METRIC_COUNTED);
    static_assert(readable, FULGURITE_SENTENCE_METRIC_VALUE);
    static_assert(replayable, FULGURITE_SENTENCE_CAPTURE_HOST_NUMBER);
    if constexpr (at < Metrics::size) {
      if (is_lost()) return;
      check_place(at);
      // Read at once where that waits for nothing: a parameter that is logged will have been updated before the slot is
      // folded. A captured step needs the tensor itself, to post it again.
      if constexpr (tensor) {
        if (!R::Strategy::captures && !Backend::reading_waits(value))
          board().log_number(at, Backend::read(value), weight<M>(how), origin());
        else board().log_tensor(at, value, weight<M>(how), origin());
      } else if constexpr (std::is_arithmetic_v<V>)
        board().log_number(at, static_cast<double>(value), weight<M>(how), origin());
    }
  }

  /// Counts a batch for a metric that is declared with a definition, such as `Metric<"val/f1", metric::F1>`; most take
  /// (predictions, target). In a step, or a hook of a batch, of training, validation or test. Reads nothing on the
  /// host: the value is computed when the last batch is over. A captured step counts in each replay.
  template <class M, class... Args>
  void update(M const&, Args const&... args) {
    constexpr std::size_t at = place_of<Metrics, M>();
    constexpr bool here = Phase::logs;
    constexpr bool declared = at < Metrics::size;
    constexpr bool counted = !declared || is_counted<M>;
    constexpr bool replayable =
        !(std::is_arithmetic_v<Args> || ...) || !R::Strategy::captures || !std::same_as<Phase, phase::Train>;
    static_assert(here, FULGURITE_SENTENCE_METRIC_UPDATE_HERE);
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(counted, FULGURITE_SENTENCE_METRIC_NO_DEFINITION);
    static_assert(replayable, FULGURITE_SENTENCE_CAPTURE_HOST_NUMBER_COUNTED);
    if constexpr (here && declared && counted && replayable) {
      if (is_lost()) return;
      if (!state_->facts.in_batch)
        throw Error("fulgurite.metric.no_batch", "ctx.update counts " + std::string(M::name()) +
                                                     " outside of a batch, where no value would be made of it: call it "
                                                     "in the step, or in a hook of a batch");
      if constexpr (Phase::evaluates) board().counts.template get<at>().update(args...);
      else board().template count<at>(args...);
    }
  }

  /// Refused: predictions and a target are counted, and options have names.
  template <class M, class V, class Third, class... More>
    requires(Phase::logs && !(std::same_as<Third, LogOptions> && sizeof...(More) == 0))
  void log(M const&, V const&, Third const&, More const&...) {
    constexpr bool loggable = !is_counted<M>, options_alone = !loggable;
    static_assert(loggable, FULGURITE_SENTENCE_METRIC_COUNTED);
    static_assert(options_alone, FULGURITE_SENTENCE_METRIC_LOG_OPTIONS);
  }

  template <class M, class V, bool Fine = Phase::logs>
    requires(!Phase::logs)
  void log(M const&, V const&, LogOptions = {}) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_NO_LOG);
  }

  /// Several at once: `ctx.log_dict(Net::loss, loss, Net::accuracy, accuracy)`.
  template <class M, class V, class... Rest>
    requires(Phase::logs)
  void log_dict(M const& metric, V const& value, Rest const&... rest) {
    log(metric, value);
    if constexpr (sizeof...(Rest) != 0) log_dict(rest...);
  }

 protected:
  using Base::board;
  using Base::is_lost;
  using Base::state_;

 private:
  /// One metric has one meaning: values of steps and a value of the epoch, merged into one mean, would be neither.
  void check_place(std::size_t at) const {
    auto const& cell = board()[at];
    bool const by_step = origin() == Origin::train_epoch && Metrics::by_step[at];
    if (!by_step && (cell.epoch.count == 0 || cell.origin == origin())) [[likely]]
      return;
    refuse_log_place(Metrics::names[at], by_step);
  }

  Origin origin() const {
    if constexpr (Phase::evaluates) return Origin::evaluation;
    else return state_->facts.in_batch ? Origin::train_step : Origin::train_epoch;
  }

  template <class M>
  double weight(LogOptions how) const {
    if (how.batch_size > 0) return static_cast<double>(how.batch_size);
    if (!state_->facts.in_batch) return 1.0;
    if (state_->facts.left_out) return 1.0;
    if (state_->facts.batch_size == 0 && state_->facts.no_rows) [[unlikely]]
      refuse_no_rows(M::name(), this->batch_idx());
    if (state_->facts.batch_size == 0) [[unlikely]]
      refuse_no_size(M::name());
    return static_cast<double>(state_->facts.batch_size);
  }
};

}  // namespace loop
}  // namespace fulgurite
