#pragma once
// The names under which metrics are reported: per step, per epoch, per loader.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::action {

// The actions of the loops, under the names that Lightning's profilers give them.

using run_training_epoch = Plain<"run_training_epoch", RunPart::loop>;
using run_training_batch = Plain<"run_training_batch", RunPart::loop>;
/// Ours: Lightning has no name for a whole validation inside a fit.
using run_validation = Plain<"run_validation", RunPart::loop>;
using train_next = Plain<"[_TrainingEpochLoop].train_dataloader_next", RunPart::data>;
using save_checkpoint = Plain<"save_checkpoint", RunPart::saving>;

/// The same of a loader of validation_step, test_step, predict_step.
template <class Step>
struct EvaluationNext {
  static constexpr RunPart part = RunPart::data;
  static std::string name() {
    if constexpr (std::is_same_v<Step, hook::validation_step>) return "[_EvaluationLoop].val_next";
    else if constexpr (std::is_same_v<Step, hook::test_step>) return "[_EvaluationLoop].test_next";
    else return "[_PredictionLoop].predict_next";
  }
};

template <class R>
using batch_to_device = Of<"Strategy", typename R::Strategy, "batch_to_device", RunPart::transfer>;
template <class R>
using training_step = Of<"Strategy", typename R::Strategy, "training_step", RunPart::step>;
template <class R>
using backward = Of<"Strategy", typename R::Strategy, "backward", RunPart::backward>;
/// Of several ranks: their gradients become one.
template <class R>
using exchange = Of<"Strategy", typename R::Strategy, "reduce_gradients", RunPart::exchange>;
template <class R, class Step>
using evaluation_step = HookOf<"Strategy", typename R::Strategy, Step, RunPart::evaluation>;

/// The update alone. Lightning's time of that name has the closure in it as well, training_step and backward.
template <class R>
using optimizer_step = HookOf<"LightningModule", typename R::Model, hook::optimizer_step, RunPart::update>;
template <class R>
using zero_grad = HookOf<"LightningModule", typename R::Model, hook::optimizer_zero_grad, RunPart::update>;
/// Clipping, and the look at gradients that it takes along.
template <class R>
using clipping = HookOf<"LightningModule", typename R::Model, hook::configure_gradient_clipping, RunPart::update>;

template <class L>
using log_metrics = HookOf<"Logger", L, hook::log_metrics, RunPart::logging>;

}  // namespace fulgurite::action

namespace fulgurite {

/// One finished value of an evaluation, under its reported name.
struct MetricValue {
  std::string name;
  double value;
};

namespace loop {

/// `loss`, or `loss_step` and `loss_epoch` where a metric is reported both ways.
template <class M>
std::string reported_name(M const& metric, Origin origin, bool epoch) {
  std::string name(M::name());
  if (per_step(metric, origin) && per_epoch(metric, origin)) name += epoch ? "_epoch" : "_step";
  return name;
}

/// Whether some metric is reported per step where it is logged there.
template <class Metrics>
constexpr bool any_per_step(Origin origin) {
  bool any = false;
  Metrics::each([&](std::size_t, auto const& metric) { any = any || per_step(metric, origin); });
  return any;
}

/// f(name, value) for each metric of the board that is reported per epoch.
template <class Metrics, class Board>
void each_epoch_value(Board& board, FunctionRef<void(std::string const&, double)> f) {
  Metrics::each([&](std::size_t i, auto const& metric) {
    auto const& cell = board[i];
    if (!metric.logger || !per_epoch(metric, cell.origin)) return;
    if (auto value = cell.epoch.reduced(metric.reduce)) f(reported_name(metric, cell.origin, true), *value);
  });
}

/// f(name, latest value) for each metric of the board that is reported per step and was logged since the last such row.
template <class Metrics, class Board>
void each_step_value(Board& board, FunctionRef<void(std::string const&, double)> f) {
  Metrics::each([&](std::size_t i, auto const& metric) {
    auto& cell = board[i];
    if (metric.logger && cell.in_step_row && cell.epoch.count != 0 && per_step(metric, cell.origin))
      f(reported_name(metric, cell.origin, false), cell.epoch.last);
    cell.in_step_row = false;
  });
}

/// Rows that waited for a check of their steps.
template <class R, class Pack>
void deliver_held(State<R>& run, Pack& pack) {
  for (auto const& held : std::exchange(run.due.held_rows, {})) {
    std::vector<Scalar> row;
    for (auto const& [name, value] : held.cells) row.push_back({name, value});
    std::span<Scalar const> const cells(row);
    pack.each([&](auto& callback) {
      if constexpr (requires { callback.log_metrics(cells, held.step); }) callback.log_metrics(cells, held.step);
    });
    ++run.due.rows;
  }
}

/// Hands rows to the loggers among the callbacks: those that have `log_metrics`.
template <class R, class Pack>
void log_row(State<R>& run, Pack& pack, std::vector<MetricValue> const& values, long step, bool with_epoch = true) {
  if (values.empty() || run.parts.strategy.rank() != 0 || run.asked.options.fast_dev_run != 0) return;
  std::vector<Scalar> row;
  for (auto const& v : values) row.push_back({v.name, v.value});
  if (with_epoch) row.push_back({"epoch", static_cast<double>(run.progress.epoch)});
  if constexpr (ChecksReplays<typename R::Strategy>) {
    if (run.parts.strategy.unchecked() != 0) {
      auto& held = run.due.held_rows.emplace_back(HeldRow{{}, step});
      for (auto const& cell : row) held.cells.emplace_back(cell.name, cell.value);
      return;
    }
    deliver_held(run, pack);
  }
  std::span<Scalar const> const cells(row);
  pack.each([&]<class C>(C& callback) {
    if constexpr (requires { callback.log_metrics(cells, step); })
      hook::timed<action::log_metrics<C>>(pack)([&] { callback.log_metrics(cells, step); });
  });
  ++run.due.rows;
}

/// Some callback is a logger, so rows are worth making.
template <class Pack>
inline constexpr bool has_logger = false;
template <class... Cs>
inline constexpr bool has_logger<Pack<Cs...>> = (hook::log_metrics::named<Cs> || ...);

/// The x axis of what belongs to a whole epoch, or to the end of training: the last step's.
template <class R>
long last_step(State<R> const& run) {
  return std::max(0L, run.progress.logged_steps - 1);
}

/// Rows that callbacks posted go to the loggers at `step`, once the event at hand has been heard by all.
template <class R, class Pack>
[[gnu::always_inline]] inline void deliver_posted(State<R>& run, Pack& pack, long step) {
  if constexpr (has_logger<Pack>) {
    if (run.due.posted.empty()) [[likely]]
      return;
    std::vector<MetricValue> row;
    for (auto& [name, value] : std::exchange(run.due.posted, {})) row.push_back({std::move(name), value});
    log_row(run, pack, row, step);
  }
}

}  // namespace loop
}  // namespace fulgurite

namespace fulgurite::loop {

// Options that stand for several others: fast_dev_run, overfit_batches, barebones. What they replace, and what they
// silence, is said.

/// fast_dev_run = n: one epoch of n batches, as many of validation, test and predict, no sanity check. A batch may take
/// several steps, and validation comes all the same, so no limit of steps is below that of batches.
void apply_dev_run(TrainerOptions& o);

/// The options that the run goes by, of options that were checked.
TrainerOptions effective(TrainerOptions given);

/// Reports, measures or saves, so barebones has no use for it.
template <class C>
inline constexpr bool is_output = hook::log_metrics::named<C> || Profiler<C> || order_of<C>() == Order::progress ||
                                  order_of<C>() == Order::summary || order_of<C>() == Order::checkpoint;
/// Reads metrics, of which barebones keeps none.
template <class Watches>
inline constexpr bool watches_some = false;
template <class M, class... Ms>
inline constexpr bool watches_some<MetricTypes<M, Ms...>> = true;
template <class C>
consteval bool is_watcher() {
  if constexpr (requires { typename C::Watches; }) return watches_some<typename C::Watches>;
  else return false;
}
/// Does nothing in a fast_dev_run: it would save, stop or log on behalf of a run that is none.
template <class C>
consteval bool is_inert_in_dev_run() {
  if constexpr (FULGURITE_SAYS(C, bool, inert_in_dev_run)) return C::inert_in_dev_run;
  else return hook::log_metrics::named<C>;
}

[[noreturn]] void refuse_output(std::string_view callback);
void warn_of_dev_run(Warn warn, long batches, std::string const& idle);

/// Before anything starts: barebones has no callback that reports, but for those that make_trainer has added, which are
/// idle then; a fast_dev_run says what it replaces and who is idle.
template <class R, class... Cs>
void check_special(State<R>& run, Pack<Cs...> const&) {
  auto const& o = run.asked.options;
  if (o.barebones) {
    std::string_view output;
    [[maybe_unused]] std::size_t left = sizeof...(Cs);  // of these the last ones are added
    ((left-- > run.asked.added && (is_output<Cs> || is_watcher<Cs>()) ? void(output = type_name<Cs>()) : void()), ...);
    if (!output.empty()) refuse_output(output);
  }
  if (o.fast_dev_run != 0) {
    std::string idle;
    ((is_inert_in_dev_run<Cs>() ? void(idle += (idle.empty() ? "; idle: " : ", ") + std::string(type_name<Cs>()))
                                : void()),
     ...);
    warn_of_dev_run(Warn::to<&State<R>::warn>(run), o.fast_dev_run, idle);
  }
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/names.ipp>
#endif
