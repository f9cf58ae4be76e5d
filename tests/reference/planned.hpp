#pragma once
// A plan as a program: a model, a callback and loaders that say what happens to them in the words of the reference.

#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/schedule/plateau.hpp>

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

/// A factor of the rate that halves at each move, or stays.
struct Halves {
  using Stateless = ByChoice;
  bool moves = false;
  double operator()(long times) const { return moves ? std::pow(0.5, static_cast<double>(times)) : 1.0; }
};

/// Says what it sees. Not smaller: half the rate.
template <class M>
struct Observed : schedule::ReduceOnPlateau<M> {
  explicit Observed(M metric)
      : schedule::ReduceOnPlateau<M>(metric,
                                     {.factor = 0.5, .patience = 0, .threshold = 0, .eps = 0, .strict = false}) {}
  void observe(double value, auto& optimizer) {
    hear("plateau sees " + text(value));
    schedule::ReduceOnPlateau<M>::observe(value, optimizer);
  }
};

template <bool Plateau>
struct Planned {
  static constexpr Metric<"t"> t{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"te"> te{};
  static constexpr Metric<"v"> v{};
  static constexpr Metric<"w"> w{.logger = false};
  using Metrics = MetricList<t, te, v, w>;

  Plan const* plan = nullptr;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  long validations = 0;

  void state(auto& archive) { archive("validations", validations); }

  std::optional<toy::Tensor> training_step(double batch, auto& ctx) {
    Place const at{ctx.current_epoch(), static_cast<long>(batch)};
    hear("training_step " + std::to_string(at.batch));
    ctx.log(t, reference::training_value(at));
    if (plan->watches_training) ctx.log(w, reference::watched_in_training(at));
    if (plan->none_loss(at)) return std::nullopt;
    return p * toy::Tensor(reference::gradient(at));
  }
  void on_train_epoch_end(auto& ctx) { ctx.log(te, ctx.current_epoch()); }
  void validation_step(double batch, auto& ctx) {
    long const i = static_cast<long>(batch);
    hear("validation_step " + std::to_string(i));
    bool const checking = ctx.sanity_checking();
    ctx.log(v, checking ? unseen : reference::validation_value(validations, i));
    if (!plan->watches_training) ctx.log(w, checking ? unseen : reference::watched_in_validation(validations, i));
  }
  void on_validation_end(auto& ctx) {
    if (!ctx.sanity_checking()) ++validations;
  }
  auto configure_optimizers() {
    Telling optimizer;
    optimizer.params = {p};
    bool const per_step = plan->schedule == Moves::step || plan->schedule == Moves::plateau_step;
    ScheduleOptions const how{.interval = per_step ? Interval::step : Interval::epoch, .frequency = plan->frequency};
    if constexpr (Plateau) return scheduled(optimizer, Observed(w), how);
    else return scheduled(optimizer, Halves{plan->schedule != Moves::none}, how);
  }
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
  void on_fit_end(auto& ctx) { say("fit_end", ctx); }
  void on_sanity_check_start(auto& ctx) { say("sanity_check_start", ctx); }
  void on_sanity_check_end(auto& ctx) { say("sanity_check_end", ctx); }
  void on_train_start(auto& ctx) { say("train_start", ctx); }
  void on_train_end(auto& ctx) { say("train_end", ctx); }
  void on_train_epoch_start(auto& ctx) {
    say("train_epoch_start", ctx);
    int const window = plan->window(ctx.current_epoch());
    if (window != ctx.accumulate_grad_batches()) ctx.accumulate(window);
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
  void on_before_zero_grad(auto& ctx) { say("before_zero_grad", ctx); }
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

 private:
  static void say(std::string const& event, auto& ctx) {
    hear(reference::counted(event, ctx.current_epoch(), ctx.global_step(), ctx.logged_steps()));
  }
  void stop(Stops where, auto& ctx) {
    if (plan->stop(where, {ctx.current_epoch(), batch})) ctx.request_stop();
  }
};

/// Only its end tells how long it was.
template <class B>
struct WithoutSize {
  static constexpr bool batches_stay_valid = true;
  std::vector<B> all;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = B;
    B const* at;
    B operator*() const { return *at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    void operator++(int) { ++at; }
    bool operator==(Iterator const&) const = default;
  };
  Iterator begin() const { return {all.data()}; }
  Iterator end() const { return {all.data() + all.size()}; }
};

/// Each batch is put into the same place when it is asked for; behind the last there is nonsense.
template <class B>
struct Generated {
  std::vector<B> all;
  B place{};
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = B;
    Generated* from;
    std::size_t at;
    B& operator*() const { return from->place; }
    Iterator& operator++() {
      from->put(++at);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return at == from->all.size(); }
  };
  Iterator begin() {
    put(0);
    return {this, 0};
  }
  std::default_sentinel_t end() const { return {}; }
  void put(std::size_t at) { place = at < all.size() ? all[at] : B(1e9); }
};

inline TrainerOptions options(Plan const& plan) {
  TrainerOptions o{.max_epochs = plan.max_epochs,
                   .min_epochs = plan.min_epochs,
                   .max_steps = plan.max_steps,
                   .min_steps = plan.min_steps,
                   .check_val_every_n_epoch = plan.check_val_every_n_epoch,
                   .num_sanity_val_steps = plan.num_sanity_val_steps,
                   .log_every_n_steps = plan.log_every_n_steps};
  if (plan.limit_train_batches) o.limit_train_batches = *plan.limit_train_batches;
  if (plan.limit_train_fraction) o.limit_train_batches = Fraction{*plan.limit_train_fraction};
  if (plan.limit_val_batches) o.limit_val_batches = *plan.limit_val_batches;
  if (plan.limit_val_fraction) o.limit_val_batches = Fraction{*plan.limit_val_fraction};
  if (plan.val_check_batches) o.val_check_interval = *plan.val_check_batches;
  if (plan.val_check_fraction) o.val_check_interval = Fraction{*plan.val_check_fraction};
  return o;
}

}  // namespace reference
