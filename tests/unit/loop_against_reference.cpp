// Random plans of a fit: what the loops do is, event by event, what the plain reference in tests/reference says.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/schedule/plateau.hpp>

#include "callback_stderr.hpp"
#include "models.hpp"
#include "reference/random.hpp"
#include "reference/reference.hpp"
#include "reference/show.hpp"

using namespace fulgurite;
using reference::Lines;
using reference::Place;
using reference::Plan;
using reference::Plans;
using reference::text;
using Stops = reference::Where;
using Moves = reference::Schedule;

namespace {

Lines heard;
bool hearing = false;  ///< from on_fit_start on
void hear(std::string line) {
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
  long validations = 0, validation_batch = 0;

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
    bool const unseen = ctx.sanity_checking();
    ctx.log(v, unseen ? reference::unseen : reference::validation_value(validations, i));
    if (!plan->watches_training)
      ctx.log(w, unseen ? reference::unseen : reference::watched_in_validation(validations, i));
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
  using Stateless = ByChoice;
  Plan const* plan;
  long batch = 0;  ///< the last one that ended

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

TrainerOptions options(Plan const& plan) {
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

template <bool Plateau>
void fit(Plan const& plan, auto const& loader) {
  Planned<Plateau> model;
  model.plan = &plan;
  auto trainer = toy::train<Planned<Plateau>>(options(plan), Automatic{.accumulate_grad_batches = plan.window(0)},
                                              Tells{.plan = &plan});
  if (plan.validation) trainer.fit(model, loader, toy::batches(static_cast<int>(*plan.validation)));
  else trainer.fit(model, loader, NoValidation{});
}
template <class B>
void fit(Plan const& plan) {
  std::vector<B> all;
  for (long b = 0; b != plan.n; ++b)
    if constexpr (std::is_same_v<B, double>) all.push_back(static_cast<double>(b));
    else all.push_back(plan.none_batch(b) ? B() : B(static_cast<double>(b)));
  if (plan.plateau()) plan.sized ? fit<true>(plan, all) : fit<true>(plan, WithoutSize<B>{all});
  else plan.sized ? fit<false>(plan, all) : fit<false>(plan, WithoutSize<B>{all});
}
Lines loops(Plan const& plan) {
  heard.clear();
  hearing = false;
  try {
    if (plan.none_batches.empty()) fit<double>(plan);
    else fit<std::optional<double>>(plan);
  } catch (Error const& error) { heard.push_back(std::string("Error ") + error.what()); }
  return heard;
}

bool differs(Plan const& plan) { return loops(plan) != reference::events(plan); }

/// What is wrong, said with a plan as small as leaving things out makes it; "" where nothing is.
std::string difference(Plan plan) {
  if (!differs(plan)) return "";
  auto const still = [](Plan const& less) { return reference::acceptable(less) && differs(less); };
  for (bool found = true; found;) {
    auto const smaller = reference::smaller(plan);
    auto const less = std::ranges::find_if(smaller, still);
    found = less != smaller.end();
    if (found) plan = *less;
  }
  return reference::shown(plan) + "\n" + reference::parting(reference::events(plan), loops(plan));
}

/// The number behind `mark` in each line that begins with `event`.
std::vector<double> numbers(Lines const& lines, std::string const& event, std::string const& mark) {
  std::vector<double> all;
  for (auto const& line : lines)
    if (line.starts_with(event)) all.push_back(std::stod(line.substr(line.find(mark) + mark.size())));
  return all;
}

/// A plan with the gradients of its steps, and global_step at each validation, by the specification's own cases.
struct Case {
  char const* what;
  Plan plan;
  std::vector<double> gradients = {}, validated_at = {};
};
std::vector<Case> const hard = {
    {"C47, D2: a stop inside a window",
     {.max_epochs = 5,
      .n = 8,
      .validation = 1,
      .accumulate_grad_batches = {{0, 4}},
      .stops = {{Stops::train_batch_end, 1, 1}}},
     {2.5, 6.5, 101.5},
     {2, 3}},
    {"D2: a stop that validation asks for inside a window",
     {.max_epochs = 5,
      .n = 8,
      .validation = 1,
      .val_check_batches = 2,
      .accumulate_grad_batches = {{0, 4}},
      .stops = {{Stops::validation_end, 0, 1}},
      .log_every_n_steps = 1},
     {1.5},
     {0}},
    {"C48: a stop before training, borne until min_steps",
     {.max_epochs = 5, .min_steps = 3, .n = 2, .validation = 1, .stops = {{Stops::fit_start}}},
     {1, 2, 101},
     {2, 3}},
    {"C54, D2: skip_epoch inside a window",
     {.max_epochs = 2,
      .n = 5,
      .validation = 1,
      .accumulate_grad_batches = {{0, 4}},
      .schedule = Moves::epoch,
      .skips = {{0, 2}, {1, 2}}},
     {1.5, 101.5}},
    {"C36: max_steps inside an epoch",
     {.max_epochs = 9, .max_steps = 5, .n = 4, .validation = 1, .schedule = Moves::epoch},
     {1, 2, 3, 4, 101},
     {4}},
    {"C25, D11: an unsized loader that is shorter than the limit; D1: its last window",
     {.n = 7, .sized = false, .limit_train_batches = 20, .validation = 1, .accumulate_grad_batches = {{0, 3}}},
     {2, 5, 7},
     {3}},
    {"C17: validation every 3 batches, counted across epochs",
     {.max_epochs = -1,
      .max_steps = 12,
      .n = 4,
      .validation = 1,
      .val_check_batches = 3,
      .check_val_every_n_epoch = std::nullopt},
     {1, 2, 3, 4, 101, 102, 103, 104, 201, 202, 203, 204},
     {3, 6, 9, 12}},
    {"validation inside a window, before it and at its end",
     {.n = 5, .validation = 2, .val_check_batches = 1, .num_sanity_val_steps = -1, .accumulate_grad_batches = {{0, 2}}},
     {1.5, 3.5, 5},
     {0, 0, 1, 1, 2, 3}},
    {"C56: steps that return none, one of them a window's first",
     {.n = 4, .accumulate_grad_batches = {{0, 2}}, .none_losses = {{0, 1}, {0, 2}}},
     {0.5, 2}},
    {"a window closed by a batch that is none",
     {.n = 4, .none_batches = {1}, .accumulate_grad_batches = {{0, 2}}, .log_every_n_steps = 0},
     {1, 3.5}},
    {"windows that change with the epoch, D1",
     {.max_epochs = 2, .n = 6, .accumulate_grad_batches = {{0, 2}, {1, 4}}},
     {1.5, 3.5, 5.5, 102.5, 105.5}},
};

}  // namespace

TEST_CASE("the plans that are known to be hard: the loops do what the reference says, and both what section 11 says") {
  for (auto const& known : hard) {
    INFO(known.what);
    std::string wrong;
    said([&] { wrong = difference(known.plan); });
    CHECK(wrong == "");
    auto const events = reference::events(known.plan);
    CHECK(numbers(events, "step rate", "gradient=") == known.gradients);
    CHECK(numbers(events, "validation_start", "gs ") == known.validated_at);
  }
}

TEST_CASE("3000 random plans: every event, gradient, rate, counter and row of a fit is that of the reference") {
  Plans random(1);
  std::string first;
  int different = 0;
  said([&] {  // warnings of rare rows
    for (int i = 0; i != 3000; ++i) {
      Plan const plan = random.next();
      if (differs(plan) && different++ == 0) first = difference(plan);
    }
  });
  INFO(different << " plans differ; the first, made smaller:\n" << first);
  CHECK(different == 0);
}

TEST_CASE("a plan that differs is shown as it is written, and where the traces part") {
  Plan const plan{
      .n = 3, .validation = 1, .accumulate_grad_batches = {{0, 2}, {1, 3}}, .stops = {{Stops::validation_end, 0, 2}}};
  CHECK(reference::shown(plan) == "Plan{.n = 3, .validation = 1, .accumulate_grad_batches = {{0, 2}, {1, 3}}, "
                                  ".stops = {{reference::Where::validation_end, 0, 2}}}");
  CHECK(reference::shown({}) == "Plan{}");
  Lines const expected{"1", "2", "3", "4", "5", "6", "7"};
  CHECK(reference::parting(expected, {"1", "2", "3", "4", "5", "6"}) ==
        "    2\n    3\n    4\n    5\n    6\n  reference: 7\n  loops:     (the end)\n");
}
