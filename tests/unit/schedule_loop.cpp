// When schedules move: per epoch, per step, every `frequency`-th; what the batches see of it; the estimate of steps.
#include <catch2/catch_test_macros.hpp>

#include <cmath>

#include <fulgurite/schedule/schedule.hpp>

#include "models.hpp"

using namespace fulgurite;

namespace {

double half(long moves) { return std::pow(0.5, static_cast<double>(moves)); }

/// lr 0.1 (or what is given), halved at each move; the rate that each batch saw, and the moves after each.
struct Halving : toy::Validated {
  ScheduleOptions how = {};
  double rate = 1.0;
  std::vector<double> rates = {};
  std::vector<long> moves = {};
  auto configure_optimizers() { return scheduled(toy::Sgd{.params = {p}, .rate = rate}, half, how); }
  void on_train_batch_start(auto& ctx) { rates.push_back(ctx.optimizer().lr(0)); }
  void on_train_batch_end(auto& ctx) {
    ctx.each_scheduler([&](auto& s) { moves.push_back(s.moves()); });
  }
};
Halving halving(ScheduleOptions how, double rate = 1.0) {
  Halving model;
  model.how = std::move(how);
  model.rate = rate;
  return model;
}

struct PerStep {
  static constexpr bool per_step = true;
  double operator()(long moves) const { return half(moves); }
};
struct Natural : Halving {
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, PerStep{}); }
};

/// A schedule of the library, with or without options of its own.
template <class S, class... Options>
struct Falling : toy::P {
  S schedule;
  std::tuple<Options...> how;
  auto configure_optimizers() {
    return std::apply([&](auto... options) { return scheduled(toy::Sgd{{p}}, schedule, options...); }, how);
  }
};

/// Checks its constants.
struct Checked {
  int* checks;
  double operator()(long moves) const { return half(moves); }
  void check() const { ++*checks; }
};
/// An optimizer none of whose functions is const.
struct Changing : toy::Sgd {
  int* asked;
  std::size_t groups() { return ++*asked, toy::Sgd::groups(); }
  double lr(std::size_t group) { return ++*asked, toy::Sgd::lr(group); }
};
struct Asking : toy::P {
  int asked = 0;
  auto configure_optimizers() { return scheduled(Changing{{.params = {p}}, &asked}, half); }
};

/// Overrides how its scheduler moves.
struct MovesItself : Halving {
  int asked = 0;
  void lr_scheduler_step(auto& scheduler) {
    ++asked;
    scheduler.step();
    scheduler.step();
  }
};

struct Estimates : toy::P {
  std::vector<std::optional<long>> seen = {};
  toy::Sgd configure_optimizers(auto& ctx) {
    seen.push_back(ctx.estimated_steps());
    return toy::Sgd{{p}};
  }
  void on_fit_start(auto& ctx) { seen.push_back(ctx.estimated_steps()); }
  void on_train_start(auto& ctx) { seen.push_back(ctx.estimated_steps()); }
};
std::vector<std::optional<long>> estimates(TrainerOptions options, auto loader, int k = 1) {
  Estimates model;
  auto stop = toy::stop_at(0, 0);
  toy::train<Estimates>(std::move(options), Automatic{.accumulate_grad_batches = k}, stop).fit(model, loader);
  return model.seen;
}
/// A loader that a strategy can divide, and one that does so among two processes.
struct Divided {
  std::vector<double> all;
  std::size_t parts = 1;
  auto begin() const { return all.begin(); }
  auto end() const { return all.begin() + static_cast<std::ptrdiff_t>(size()); }
  std::size_t size() const { return all.size() / parts; }
};
struct Divides : toy::Device {
  void process_dataloader(auto& loader) {
    if constexpr (requires { loader.parts; }) loader.parts = 2;
  }
};
/// The same everywhere: while optimizers are made, at fit's start, at training's start.
std::vector<std::optional<long>> thrice(std::optional<long> n) { return {n, n, n}; }

}  // namespace

TEST_CASE("a schedule checks its constants once a fit, also in a product and without its momentum") {
  int checks = 0;
  Falling<Checked> alone{{}, {&checks}, {}};
  toy::train<decltype(alone)>({.max_epochs = 3}, Automatic{}).fit(alone, toy::batches(2));
  CHECK(checks == 1);
  auto const several = schedule::rate_only(Checked{&checks}) * Checked{&checks};
  Falling<std::remove_const_t<decltype(several)>> product{{}, several, {}};
  toy::train<decltype(product)>({.max_epochs = 3}, Automatic{}).fit(product, toy::batches(2));
  CHECK(checks == 3);
}

TEST_CASE("an optimizer's functions need not be const") {
  Asking model;
  toy::train<Asking>({.max_epochs = 2}, Automatic{}).fit(model, toy::batches(2));
  CHECK(model.p.value() == 2 * 1.0 + 2 * 0.5);
  CHECK(model.asked > 0);
}

TEST_CASE("a schedule made of a number of steps moves every step without being told") {
  Natural model;
  toy::train<Natural>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(3), NoValidation{});
  CHECK(model.moves == std::vector<long>{1, 2, 3});
}

TEST_CASE("a schedule of steps that ends within the first epochs is warned of, unless its interval was given") {
  auto const warned = [](TrainerOptions const& options, int batches, auto how, auto... interval) {
    Falling<decltype(how), decltype(interval)...> model{{}, how, {interval...}};
    auto trainer = toy::train<decltype(model)>(options, Automatic{});
    trainer.fit(model, toy::batches(batches));
    return std::vector<std::string>(trainer.warnings().begin(), trainer.warnings().end());
  };
  CHECK(warned({.max_epochs = 3}, 4, schedule::Cosine{3}) ==
        std::vector<std::string>{"[fulgurite.schedule.short] the schedule Cosine moves with optimizer steps and ends "
                                 "after 3 of 12: add {.interval = Interval::epoch} if its total counts epochs, else "
                                 "{.interval = Interval::step}"});
  CHECK(warned({.max_epochs = 3}, 4, schedule::Linear{1, 0, 2}).size() == 1);
  CHECK(warned({.max_epochs = 3}, 4, schedule::Linear{0, 1, 2}).empty());  // a warm-up
  CHECK(warned({.max_epochs = 3}, 4, schedule::Cosine{12}).empty());
  CHECK(warned({.max_epochs = 3}, 4, schedule::Cosine{2}, ScheduleOptions{.frequency = 2}).empty());
  CHECK(warned({.max_epochs = 3}, 1, schedule::Cosine{3}).empty());
  CHECK(warned({.max_epochs = 30, .max_steps = 8}, 4, schedule::Cosine{8}).empty());
  CHECK(warned({.max_epochs = 3}, 4, schedule::Cosine{3}, ScheduleOptions{.interval = Interval::epoch}).empty());
  CHECK(warned({.max_epochs = 3}, 4, schedule::Cosine{3}, ScheduleOptions{.interval = Interval::step}).empty());
  CHECK(warned({.max_epochs = 3}, 4, schedule::Step{.size = 1}).empty());
}

TEST_CASE("lr_scheduler_step is asked only where the schedule is due") {
  MovesItself model;
  model.how = {.interval = Interval::step, .frequency = 2};
  toy::train<MovesItself>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(5), NoValidation{});
  CHECK(model.asked == 2);
  CHECK(model.moves == std::vector<long>{0, 2, 2, 4, 4});
}

TEST_CASE("a window flushed by a stop moves a schedule per step") {
  auto model = halving({.interval = Interval::step});
  toy::train<Halving>({.max_epochs = 5}, Automatic{.accumulate_grad_batches = 4}, toy::stop_at(0, 5))
      .fit(model, toy::batches(8), NoValidation{});
  CHECK(model.moves.size() == 6);
  CHECK(model.p.value() == 1.5);  // 1, then the flush at half the rate
}

TEST_CASE("a frequency below 1 is an Error, not a division by zero") {
  auto model = halving({.frequency = 0});
  std::string said;
  CHECK(toy::refusal(
            [&] { toy::train<Halving>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(1), NoValidation{}); },
            &said) == "fulgurite.options.frequency");
  CHECK(said.find("frequency = 0") != std::string::npos);
}

TEST_CASE("frequency of a schedule per epoch counts epochs; a stop inside an epoch does not move it") {
  auto epochs = halving({.frequency = 2});
  toy::train<Halving>({.max_epochs = 5}, Automatic{}).fit(epochs, toy::batches(1), NoValidation{});
  CHECK(epochs.moves == std::vector<long>{0, 1, 1, 2, 2});
  auto stop = halving({});
  toy::train<Halving>({.max_epochs = 5}, Automatic{}, toy::stop_at(1, 1)).fit(stop, toy::batches(4), NoValidation{});
  CHECK(stop.moves.back() == 1);
}

TEST_CASE("frequency counts the whole run: a second fit of one trainer, whose schedules are new, goes on counting") {
  auto const rates = [](ScheduleOptions how, int epochs) {
    auto model = halving(how);
    auto trainer = toy::train<Halving>({.max_epochs = epochs}, Automatic{}, toy::stop_at(0, 2));
    trainer.fit(model, toy::batches(3), NoValidation{});
    model.rates.clear();
    trainer.fit(model, toy::batches(3), NoValidation{});
    return model.rates;
  };
  // Steps 4 and 6 are due, and epochs 1 and 3 (from 0).
  CHECK(rates({.interval = Interval::step, .frequency = 2}, 3) == std::vector<double>{1, 0.5, 0.5, 0.25, 0.25, 0.125});
  CHECK(rates({.frequency = 2}, 4) == std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
}

TEST_CASE("the estimate of steps is the same in configure_optimizers, at fit's and at training's start; of parts, of "
          "unsized loaders") {
  CHECK(estimates({.max_epochs = 2, .limit_train_batches = Fraction{0.5}}, toy::batches(64)) == thrice(64));
  CHECK(estimates({.max_epochs = 2, .max_steps = 10}, toy::batches(64)) == thrice(10));
  CHECK(estimates({.max_epochs = 0}, toy::batches(64)) == std::vector<std::optional<long>>{64, 64});
  CHECK(estimates({.max_epochs = 2}, toy::Unsized(3)) == thrice(std::nullopt));
  CHECK(estimates({.max_epochs = 2, .max_steps = 4}, toy::Unsized(3)) == thrice(4));
}

TEST_CASE("the estimate counts the loader that the strategy has divided, from configure_optimizers on") {
  Estimates model;
  auto trainer = make_trainer<Estimates>(TrainerOptions{.max_epochs = 2}, Divides{}, Float32{}, Automatic{});
  trainer.fit(model, Divided{toy::batches(10)});
  CHECK(model.seen == thrice(10));
  CHECK(trainer.progress().global_step == 10);
}
