// An event that fails after some have heard of it: the fit that goes on does nothing again that the event tells of, and
// tells the others alone.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/data/loader.hpp>

#include "callback_stderr.hpp"
#include "models.hpp"
#include "reference/show.hpp"

using namespace fulgurite;
using reference::Lines;
using reference::text;

namespace {

Lines heard;
/// It fails there once: at an event, of an epoch, after so many steps; says what it hears.
struct Fault {
  std::string event = {};
  int epoch = 0;
  long steps = 0;
};
Fault fault;

template <class Who, Order Group>
struct Hears {
  static constexpr Order order = Group;
  static constexpr std::string_view name = Who::name;
  long ends = 0;

  void on_train_epoch_start(auto& ctx) { hear("epoch_start", ctx); }
  void on_train_batch_end(auto& ctx) { hear("batch_end " + std::to_string(ctx.batch_idx()), ctx); }
  void on_validation_end(auto& ctx) { hear("validation_end", ctx); }
  void on_train_epoch_end(auto& ctx) { hear("epoch_end", ctx); }
  void on_exception(auto& ctx) { ctx.request_checkpoint("failed"); }
  void state(auto& archive) { archive("ends", ends); }

 private:
  void hear(std::string const& event, auto& ctx) {
    if (Who::fails && event.starts_with(fault.event) && !fault.event.empty() && ctx.current_epoch() == fault.epoch &&
        ctx.global_step() == fault.steps) {
      fault = {};
      throw Error("fulgurite.test.failed", "a hook failed");
    }
    ++ends;
    heard.push_back(std::string(name) + " " + event + " epoch " + std::to_string(ctx.current_epoch()) + " steps " +
                    std::to_string(ctx.global_step()) + " weight " + text(ctx.model().p.value()) + " count " +
                    std::to_string(ends) + " random " + std::to_string(toy::world.rng));
  }
};
struct A {
  static constexpr std::string_view name = "first";
  static constexpr bool fails = false;
};
struct B {
  static constexpr std::string_view name = "second";
  static constexpr bool fails = true;
};
struct C {
  static constexpr std::string_view name = "third";
  static constexpr bool fails = false;
};
struct First : Hears<A, Order::tuner> {};
struct Second : Hears<B, Order::normal> {};
struct Third : Hears<C, Order::checkpoint> {};

struct Plain {
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<v>;
  toy::Tensor p = toy::Tensor::parameter(0.5);
  toy::Tensor training_step(double batch) {
    heard.push_back("batch " + text(batch));
    return p * toy::Tensor(batch + toy::draw());
  }
  void validation_step(double batch, auto& ctx) { ctx.log(v, p.value() * batch); }
  void on_train_epoch_end() { heard.push_back("model epoch_end"); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.125, .momentum = 0.5}; }
};
/// Takes the batch at its end, too.
struct Net : Plain {
  void on_train_batch_end(double batch, auto&) { heard.push_back("model batch_end " + text(batch)); }
};

/// Yields n numbers; counts the batches that were moved past, and knows where it is.
template <bool Sized, bool StayValid>
struct Keeps {
  static constexpr bool batches_stay_valid = StayValid;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    Keeps* of;
    double operator*() const { return static_cast<double>(of->consumed); }
    Iterator& operator++() { return ++of->consumed, *this; }
    void operator++(int) { ++of->consumed; }
    bool operator==(std::default_sentinel_t) const { return of->consumed == 5; }
  };
  long consumed = 5;
  Iterator begin() {
    if (consumed == 5) consumed = 0;
    return {this};
  }
  std::default_sentinel_t end() const { return {}; }
  std::size_t size() const
    requires Sized
  {
    return 5;
  }
  void state(auto& archive) { archive("consumed", consumed); }
};
/// Each batch is made when it is asked for.
struct Made {
  using Stateless = ByChoice;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    int at = 0;
    double operator*() const { return at; }
    Iterator& operator++() { return ++at, *this; }
    void operator++(int) { ++at; }
    bool operator==(std::default_sentinel_t) const { return at == 5; }
  };
  Iterator begin() const { return {}; }
  std::default_sentinel_t end() const { return {}; }
};

/// What one fit said, from its beginning or from the file of a failure.
template <class Loader, class Model = Net>
Lines lines(Loader loader, int window, std::optional<long> limit, std::optional<CkptPath> const& from = std::nullopt) {
  heard.clear();
  Model model;
  if (!from) toy::world.rng = 7;
  TrainerOptions options{.max_epochs = 2, .num_sanity_val_steps = 0};
  if (limit) options.limit_train_batches = Batches{*limit};
  auto trainer = toy::train<Model>(options, Automatic{.accumulate_grad_batches = window}, Third{}, Second{}, First{});
  said([&] {
    try {
      if (from) toy::world.restored = [] { heard.clear(); };
      trainer.fit(model, loader, toy::batches(2), from);
      heard.push_back("steps " + std::to_string(trainer.progress().global_step) + " batches " +
                      std::to_string(trainer.progress().total_batches) + " weight " + text(model.p.value()));
    } catch (Error const&) {}
  });
  toy::world.restored = nullptr;
  return heard;
}

/// A failure at each place of an event: both fits together say what the unbroken one says.
template <class Model = Net, class Loader>
int check_each(std::string const& event, Loader const& loader, int window, std::optional<long> limit = {}) {
  toy::Restored<std::uint64_t> const random(toy::world.rng);
  toy::world.files.clear();
  fault = {};
  auto const whole = lines<Loader, Model>(loader, window, limit);
  int places = 0;
  std::string all;
  for (int epoch = 0; epoch != 2; ++epoch)
    for (long steps = 0; steps != 11; ++steps) {
      fault = {event, epoch, steps};
      auto both = lines<Loader, Model>(loader, window, limit);
      if (!std::exchange(fault, {}).event.empty()) continue;
      ++places;
      auto const rest = lines<Loader, Model>(loader, window, limit, CkptPath{"failed"});
      both.insert(both.end(), rest.begin(), rest.end());
      if (both != whole)
        all += event + " of epoch " + std::to_string(epoch) + " after " + std::to_string(steps) + " steps\n" +
               reference::parting(whole, both) + "\n";
    }
  INFO(all);
  CHECK(all.empty());
  return places;
}

}  // namespace

TEST_CASE("resume: a batch whose end fails has made its step, and those that have not heard of its end hear of it") {
  for (int const window : {1, 2, 3}) {
    CAPTURE(window);
    int const least = window == 1 ? 10 : 4;
    CHECK(check_each("batch_end", toy::batches(5), window) >= least);
    CHECK(check_each("batch_end", toy::Unsized(5), window) >= least);
    CHECK(check_each("batch_end", Made{}, window) >= least);
    CHECK(check_each("batch_end", Keeps<true, false>{}, window) >= least);
    CHECK(check_each("batch_end", Keeps<false, false>{}, window) >= least);
    CHECK(check_each("batch_end", toy::Unsized(5), window, 4) >= least - 2);
    // It is one batch ahead, and has none of those before: the batch cannot be had again.
    CHECK(check_each<Plain>("batch_end", Keeps<false, true>{}, window) >= least);
    CHECK(check_each<Plain>("batch_end", Keeps<false, true>{}, window, 4) >= 2);  // its second pass goes on
    CHECK(check_each("batch_end", std::vector<std::optional<double>>{1, {}, 3, {}, 5}, window) >= 4);
    CHECK(check_each("batch_end", std::vector<std::optional<double>>{{}, 2, {}, {}}, window) >= 2);
  }
}

TEST_CASE("resume: starts and ends of epochs and of validations that fail are heard once by everybody") {
  for (int const window : {1, 2}) {
    CAPTURE(window);
    for (char const* const event : {"epoch_start", "validation_end", "epoch_end"}) {
      CHECK(check_each(event, toy::batches(5), window) == 2);
      CHECK(check_each(event, Keeps<true, false>{}, window) == 2);
      CHECK(check_each(event, toy::Unsized(5), window, 3) == 2);
    }
  }
}

namespace {
struct TakesOutputs : Net {
  void on_train_batch_end(auto const& outputs, double, auto&) {
    if (std::exchange(fault, {}).event == "model") throw Error("fulgurite.test.failed", "a hook failed");
    heard.push_back("model batch_end with " + text(outputs.loss.value()));
  }
};
}  // namespace

TEST_CASE("resume: who takes the outputs of a step whose end failed is not told, which is said; the step is not made "
          "again") {
  toy::Restored<std::uint64_t> const random(toy::world.rng);
  TakesOutputs model, again;
  auto const trainer = [] { return toy::train<TakesOutputs>(TrainerOptions{.max_epochs = 1}, Automatic{}, First{}); };
  auto first = trainer(), then = trainer();
  fault = {.event = "model"};
  said([&] { CHECK_THROWS_AS(first.fit(model, toy::batches(2), NoValidation{}), Error); });
  heard.clear();
  auto const warnings = said([&] { then.fit(again, toy::batches(2), NoValidation{}, CkptPath{"failed"}); });
  CHECK(
      warnings.find("[fulgurite.resume.untold] the model takes arguments of on_train_batch_end that were lost when the "
                    "run was stopped") != std::string::npos);
  CHECK(std::count(heard.begin(), heard.end(), "batch 0") == 0);
  CHECK(std::count(heard.begin(), heard.end(), "batch 1") == 1);
  CHECK(std::count_if(heard.begin(), heard.end(),
                      [](auto const& line) { return line.starts_with("model batch_end"); }) == 1);
  CHECK(then.progress().global_step == 2);
}
