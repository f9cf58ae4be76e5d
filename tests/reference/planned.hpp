#pragma once
// A plan as a program: models and a callback that say what happens to them in the words of the reference.

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "../toy/models.hpp"
#include "reference.hpp"

namespace reference {

using namespace fulgurite;
using Stops = reference::Where;
using Moves = reference::Schedule;

inline Lines heard;
inline bool hearing = false;  ///< from on_fit_start on
inline void hear(std::string line) {
  if (hearing) heard.push_back(std::move(line));
}

/// Says what is done to it.
struct Telling : toy::Sgd {
  void zero_grad() {
    hear("cleared");
    toy::Sgd::zero_grad();
  }
  void step() {
    hear("step rate=" + text(rate) + " gradient=" + text(params.front().grad()));
    toy::Sgd::step();
  }
  void set_lr(std::size_t group, double to) {
    if (to != lr(group)) hear("rate=" + text(to));
    toy::Sgd::set_lr(group, to);
  }
};

/// What is left of the rate after so many moves.
struct Falls {
  using Stateless = ByChoice;
  double part;
  double operator()(long times) const { return std::pow(part, static_cast<double>(times)); }
};

/// Says what it sees, where it is asked for. Not smaller: half the rate.
template <class M>
struct Observed : schedule::ReduceOnPlateau<M> {
  Observed(M metric, bool looks)
      : schedule::ReduceOnPlateau<M>(metric, {.factor = 0.5, .patience = 0, .threshold = 0, .eps = 0, .strict = false}),
        looks_(looks) {}
  void observe(double value, auto& optimizer) {
    if (!looks_) return;
    hear("plateau sees " + text(value));
    schedule::ReduceOnPlateau<M>::observe(value, optimizer);
  }

 private:
  bool looks_;
};

/// What the models of all modes have in common. Plans differ in values, since each type of a model costs seconds.
struct Common {
  static constexpr Metric<"t"> t{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"te"> te{};
  static constexpr Metric<"v"> v{};
  static constexpr Metric<"w"> w{.logger = false};
  using Metrics = MetricList<t, te, v, w>;

  Plan const* plan = nullptr;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  long validations = 0;

  void state(auto& archive) { archive("validations", validations); }

  void on_train_epoch_end(auto& ctx) { ctx.log(te, ctx.current_epoch()); }
  void validation_step(double batch, auto& ctx) {
    long const i = static_cast<long>(batch);
    hear("validation_step " + std::to_string(i) + " p=" + text(p.value()));
    bool const checking = ctx.sanity_checking();
    ctx.log(v, checking ? unseen : reference::validation_value(validations, i));
    if (!plan->watches_training) ctx.log(w, checking ? unseen : reference::watched_in_validation(validations, i));
  }
  void on_validation_end(auto& ctx) {
    if (!ctx.sanity_checking()) ++validations;
  }

 protected:
  static Place here(auto& ctx) { return {ctx.current_epoch(), ctx.batch_idx()}; }
  void log_training(Place at, double more, auto& ctx) const {
    ctx.log(t, reference::training_value(at) + more, {.batch_size = 1});
    if (plan->watches_training) ctx.log(w, reference::watched_in_training(at) + more, {.batch_size = 1});
  }
  Telling telling() const {
    Telling optimizer;
    optimizer.params = {p};
    return optimizer;
  }
  /// When a schedule moves; one that the plan has not never does.
  static ScheduleOptions when(Moves moves, long frequency) {
    bool const per_step = moves == Moves::step || moves == Moves::plateau_step;
    return {.interval = per_step ? Interval::step : Interval::epoch,
            .frequency = moves == Moves::none ? 1'000'000 : frequency};
  }
  auto all_schedules() const {
    auto const falling = plan->plateau() ? Moves::none : plan->schedule;
    auto const observing = plan->plateau() ? plan->schedule : Moves::none;
    auto const one = scheduled(telling(), Falls{0.5}, when(falling, plan->frequency));
    auto const two = scheduled(one, Falls{0.75}, when(plan->further, plan->further_frequency));
    return scheduled(two, Observed(w, plan->plateau()), when(observing, plan->frequency));
  }
};

/// Trained by the trainer, batch by batch.
struct Planned : Common {
  std::optional<toy::Tensor> training_step(auto const& batch, auto& ctx) {
    auto const at = here(ctx);
    hear("training_step " + words(batch));
    log_training(at, 0, ctx);
    if (plan->none_loss(at)) return std::nullopt;
    return p * toy::Tensor(reference::gradient(at));
  }
  auto configure_optimizers() const { return all_schedules(); }

 private:
  static std::string words(double batch) { return std::to_string(static_cast<long>(batch)); }
  static std::string words(std::tuple<double, double> const& both) {
    return words(std::get<0>(both)) + " and " + words(std::get<1>(both));
  }
};

/// Does by hand what the trainer does for others, where a window closes.
struct ByHand : Common {
  void training_step(double batch, auto& ctx) {
    auto const at = here(ctx);
    hear("training_step " + std::to_string(static_cast<long>(batch)));
    log_training(at, 0, ctx);
    int const window = plan->window(at.epoch);
    ctx.backward(p * toy::Tensor(reference::gradient(at) / window));
    if (!ctx.closes_window(window)) return;
    auto& [optimizer] = ctx.optimizers();
    auto& [half, three_quarters] = ctx.lr_schedulers();
    if (plan->clip_norm) ctx.clip_gradients(optimizer, ClipNorm{*plan->clip_norm});
    if (plan->clip_value) ctx.clip_gradients(optimizer, ClipValue{*plan->clip_value});
    ctx.step(optimizer);
    optimizer.zero_grad();
    if (plan->schedule == Moves::step) half.step();
    if (plan->further == Moves::step) three_quarters.step();
  }
  auto configure_optimizers() const { return scheduled(scheduled(telling(), Falls{0.5}), Falls{0.75}); }
};

/// Trained slice by slice: a batch says its number and the time of each of its steps.
struct InSlices : Common {
  using Hidden = toy::Tensor;
  struct Output {
    toy::Tensor loss, hidden;
  };
  Output training_step(std::vector<double> const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    auto const at = here(ctx);
    long const number = static_cast<long>(slice.front()) / 100, from = static_cast<long>(slice.front()) % 100;
    hear("training_step " + std::to_string(number) + " from " + std::to_string(from) + " with " +
         (hidden ? text(hidden->value()) : "none"));
    log_training(at, reference::of_slice(from), ctx);
    auto const loss = p * toy::Tensor(reference::gradient(at) + reference::of_slice(from));
    return {loss, toy::Tensor(reference::hidden_after(hidden ? hidden->value() : 0.0, from))};
  }
  auto configure_optimizers() const { return all_schedules(); }
};

/// Says every event with the counters that it sees, asks for what the plan asks for, and writes rows.
struct Tells {
  Plan const* plan;
  long batch = 0;  ///< the last one that ended

  void state(auto& archive) { archive("batch", batch); }

  void on_fit_start(auto& ctx) {
    hearing = true;
    say("fit_start", ctx);
    stop(Stops::fit_start, ctx);
  }
  void on_fit_end(auto& ctx) { say("fit_end p=" + text(ctx.model().p.value()), ctx); }
  void on_sanity_check_start(auto& ctx) { say("sanity_check_start", ctx); }
  void on_sanity_check_end(auto& ctx) { say("sanity_check_end", ctx); }
  void on_train_start(auto& ctx) { say("train_start", ctx); }
  void on_train_end(auto& ctx) { say("train_end", ctx); }
  void on_train_epoch_start(auto& ctx) {
    say("train_epoch_start", ctx);
    if constexpr (requires { ctx.accumulate(1); })
      if (int const window = plan->window(ctx.current_epoch()); window != ctx.accumulate_grad_batches())
        ctx.accumulate(window);
  }
  void on_train_epoch_end(auto& ctx) {
    say("train_epoch_end", ctx);
    stop(Stops::train_epoch_end, ctx);
  }
  Flow on_train_batch_start(auto& ctx) {
    say("train_batch_start " + std::to_string(ctx.batch_idx()), ctx);
    return plan->skip({ctx.current_epoch(), ctx.batch_idx()}) ? Flow::skip_epoch : Flow::proceed;
  }
  void on_train_batch_end(auto& ctx) {
    batch = ctx.batch_idx();
    say("train_batch_end " + std::to_string(batch), ctx);
    stop(Stops::train_batch_end, ctx);
  }
  void on_before_backward(auto& ctx) { say("before_backward", ctx); }
  void on_after_backward(auto& ctx) { say("after_backward", ctx); }
  void on_before_optimizer_step(auto& ctx) { say("before_optimizer_step gradient=" + text(ctx.model().p.grad()), ctx); }
  void on_validation_start(auto& ctx) { say("validation_start", ctx); }
  void on_validation_epoch_end(auto& ctx) { say("validation_epoch_end", ctx); }
  void on_validation_end(auto& ctx) {
    say("validation_end", ctx);
    if (!ctx.sanity_checking()) stop(Stops::validation_end, ctx);
  }
  void log_metrics(std::span<Scalar const> cells, long x) {
    std::string line = "row x=" + std::to_string(x);
    for (auto const& cell : cells) line += " " + std::string(cell.name) + "=" + text(cell.value);
    hear(line);
  }

 protected:
  static void say(std::string const& event, auto& ctx) {
    hear(reference::counted(event, ctx.current_epoch(), ctx.global_step(), ctx.logged_steps()));
  }

 private:
  void stop(Stops where, auto& ctx) {
    if (plan->stop(where, {ctx.current_epoch(), batch})) ctx.request_stop();
  }
};

/// Where the trainer clears, it says when.
struct TellsOfClearing : Tells {
  void on_before_zero_grad(auto& ctx) { say("before_zero_grad", ctx); }
};
template <class M>
auto telling_of(Plan const& plan) {
  if constexpr (std::is_same_v<M, ByHand>) return Tells{.plan = &plan};
  else return TellsOfClearing{{.plan = &plan}};
}

}  // namespace reference
