// The state of a trainer in memory, and other options for a trainer that has run.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/core/archive.hpp>

#include "models.hpp"

using namespace fulgurite;

namespace {

/// Draws in each step; momentum and a schedule make each step depend on all before it.
struct Draws {
  static constexpr Metric<"loss"> loss{};
  using Metrics = MetricList<loss>;
  toy::Tensor p = toy::Tensor::parameter(1.0), q = toy::Tensor::parameter(0.5);
  std::vector<toy::Tensor> parameters() const { return {p, q}; }
  toy::Tensor training_step(double batch, auto& ctx) {
    auto value = p * p * toy::Tensor(0.01 * (batch + toy::draw())) + q * p * toy::Tensor(0.01);
    ctx.log(loss, value);
    return value;
  }
  void validation_step(double) {}
  auto configure_optimizers() {
    return scheduled(
        toy::Sgd{.params = {p, q}, .rate = 0.1, .momentum = 0.9},
        [](long n) { return 1.0 / (1.0 + static_cast<double>(n)); }, ScheduleOptions{.interval = Interval::step});
  }
};
struct Wider : Draws {
  std::vector<toy::Tensor> more = {};
  std::vector<toy::Tensor> parameters() const {
    auto all = more;
    all.push_back(p);
    return all;
  }
};

/// A state that a run changes with each batch.
struct Counts {
  long batches = 0;
  void on_train_batch_end(auto&) { ++batches; }
  void state(auto& archive) { archive("batches", batches); }
};

/// Bits, not values: what a run came to.
struct Came {
  double p, q, loss;
  long steps, batches;
  int epoch;
  std::uint64_t random;
  bool operator==(Came const&) const = default;
};
template <class Trainer>
Came came(Trainer& trainer, Draws const& model) {
  return {model.p.value(),
          model.q.value(),
          trainer.value(Draws::loss).value_or(-1),
          trainer.progress().global_step,
          trainer.template callback<Counts>().batches,
          trainer.progress().epoch,
          toy::world.rng};
}
TrainerOptions::Clock::time_point stopped() { return {}; }
TrainerOptions epochs(int n) {
  return {.max_epochs = n, .num_sanity_val_steps = 0, .log_every_n_steps = 1, .now = &stopped};
}
auto of(int n) { return toy::train<Draws>(epochs(n), Automatic{.accumulate_grad_batches = 2}, Counts{}); }

/// 40 parameters.
struct Many {
  std::vector<toy::Tensor> all = [] {
    std::vector<toy::Tensor> made;
    for (int i = 0; i != 40; ++i) made.push_back(toy::Tensor::parameter(1.0 / (1 + i)));
    return made;
  }();
  std::vector<toy::Tensor> parameters() const { return all; }
  toy::Tensor training_step(double batch) {
    toy::Tensor sum(0.0);
    for (auto const& p : all) sum = sum + p * p * toy::Tensor(batch);
    return sum;
  }
  toy::Sgd configure_optimizers() { return {.params = all, .rate = 0.01}; }
};

/// Writes to a tensor when all of the state is known to fit.
struct WritesLast {
  toy::Tensor value = toy::Tensor::parameter(1.0);
  void state(auto& archive) {
    auto saved = toy::Backend::saved(value).written_last();
    archive.tensor("value", saved);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
      commit(archive, [to = value, saved]() mutable { toy::Backend::restore(to, saved); });
  }
};
/// Refuses what is above its limit.
struct Refuses {
  long value = 0, most = 100;
  void state(auto& archive) {
    archive("value", value);
    if (value > most) throw Error("fulgurite.test.limit", "it is too much");
  }
};

struct InHook {
  using Stateless = ByChoice;
  std::function<void()> then = nullptr;
  void on_train_batch_end(auto&) {
    if (then) then();
  }
};

}  // namespace

TEST_CASE("a fit goes on from a snapshot as from a file of the same moment, and as the unbroken one") {
  toy::world.rng = 7;
  Draws whole;
  auto unbroken = of(4);
  unbroken.fit(whole, toy::batches(5), NoValidation{});
  auto const wanted = came(unbroken, whole);

  toy::world.rng = 7;
  Draws model;
  auto trainer = of(2);
  trainer.fit(model, toy::batches(5), NoValidation{});
  auto const kept = snapshot(trainer);
  trainer.save_checkpoint("two epochs");

  auto from_file = of(4);
  Draws second;
  from_file.fit(second, toy::batches(5), NoValidation{}, CkptPath{"two epochs"});
  CHECK(came(from_file, second) == wanted);

  trainer.set_options(epochs(4));
  for (int times = 0; times != 2; ++times) {  // it can be gone on from again
    toy::draw();
    trainer.fit(model, toy::batches(5), NoValidation{}, kept);
    CHECK(came(trainer, model) == wanted);
  }
  auto another = of(4);
  Draws third;
  another.fit(third, toy::batches(5), NoValidation{}, std::as_const(kept));
  CHECK(came(another, third) == wanted);
}

TEST_CASE("restore puts weights, optimizers, callbacks, counters, values and random numbers back; a snapshot is of its "
          "own moment") {
  toy::world.rng = 3;
  Draws model;
  auto trainer = of(2);
  trainer.fit(model, toy::batches(5), NoValidation{});
  auto const then = came(trainer, model);
  auto const kept = snapshot(trainer);
  auto const copy = kept;
  trainer.save_checkpoint("then");
  trainer.set_options(epochs(5));
  trainer.fit(model, toy::batches(3), NoValidation{});
  CHECK_FALSE(came(trainer, model) == then);
  restore(trainer, copy);
  CHECK(came(trainer, model) == then);
  trainer.set_options(epochs(2));  // a file also says under which limits the run is
  trainer.save_checkpoint("now");
  CHECK(toy::world.files["now"].state == toy::world.files["then"].state);
}

TEST_CASE("a stop that was requested is in a snapshot and in a file until a limit changes between fits") {
  auto const steps_after = [](long batch, auto change, bool through_file) {
    Draws model;
    auto trainer = toy::train<Draws>(epochs(3), Automatic{}, toy::stop_at(0, batch));
    trainer.fit(model, toy::batches(4), NoValidation{});
    CHECK(trainer.progress().global_step == batch + 1);
    auto options = trainer.given_options();
    change(options);
    trainer.set_options(options);
    if (through_file) {
      trainer.save_checkpoint("stopped");
      trainer.fit(model, toy::batches(4), NoValidation{}, CkptPath{"stopped"});
    } else {
      trainer.fit(model, toy::batches(4), NoValidation{}, snapshot(trainer));
    }
    return trainer.progress().global_step;
  };
  for (bool const through_file : {false, true})
    for (long const batch : {1, 3}) {  // inside of the epoch, and at its end
      CAPTURE(through_file, batch);
      CHECK(steps_after(batch, [](auto& options) { options.max_epochs = 4; }, through_file) == 16);
      CHECK(steps_after(batch, [](auto& options) { options.max_steps = 7; }, through_file) == 7);
      CHECK(steps_after(batch, [](auto& options) { options.log_every_n_steps = 9; }, through_file) == batch + 1);
    }
}

TEST_CASE("a stop that was requested after a snapshot is gone when that is restored") {
  Draws model;
  auto trainer = toy::train<Draws>(epochs(1), Automatic{}, toy::stop_at(1, 3));
  trainer.fit(model, toy::batches(4), NoValidation{});
  trainer.set_options(epochs(3));
  auto const kept = snapshot(trainer);
  trainer.save_checkpoint("then");
  trainer.fit(model, toy::batches(4), NoValidation{});
  CHECK(trainer.progress().epoch == 2);
  restore(trainer, kept);
  trainer.save_checkpoint("now");
  CHECK(toy::world.files["now"].state == toy::world.files["then"].state);
}

TEST_CASE("an evaluation takes the weights of a snapshot, and leaves counters and callbacks") {
  Draws model;
  auto trainer = of(1);
  trainer.fit(model, toy::batches(2), NoValidation{});
  auto const kept = snapshot(trainer);
  auto const p = model.p.value();
  trainer.set_options(epochs(2));
  trainer.fit(model, toy::batches(2), NoValidation{});
  auto const batches = trainer.callback<Counts>().batches;
  CHECK(model.p.value() != p);
  trainer.validate(model, toy::batches(1), kept);
  CHECK(model.p.value() == p);
  CHECK(trainer.callback<Counts>().batches == batches);
}

TEST_CASE("an average is in a snapshot, beside the weights in training: both go on") {
  auto const fit = [](bool through) {
    toy::world.rng = 5;
    Draws model;
    auto trainer = toy::train<Draws>(epochs(2), {}, EMAWeightAveraging{{.decay = 0.5}}, Counts{});
    trainer.fit(model, toy::batches(3), NoValidation{});
    if (through) {
      auto const kept = snapshot(trainer);
      model.p.set(99);
      restore(trainer, kept);
    }
    auto const ended = came(trainer, model);
    auto const kept = snapshot(trainer);
    trainer.set_options(epochs(4));
    trainer.fit(model, toy::batches(3), NoValidation{}, kept);
    return std::pair(ended, came(trainer, model));
  };
  CHECK(fit(true) == fit(false));
}

TEST_CASE("a snapshot of a model that was built differently changes nothing: fulgurite.resume.snapshot") {
  Wider model;
  model.more = {toy::Tensor::parameter(2.0)};
  auto trainer = toy::train<Wider>(epochs(1), {}, Counts{});
  trainer.fit(model, toy::batches(2), NoValidation{});
  auto const kept = snapshot(trainer);
  Wider narrow;
  trainer.set_options(epochs(2));
  std::string said;
  CHECK(toy::refusal([&] { trainer.fit(narrow, toy::batches(2), NoValidation{}, kept); }, &said) ==
        "fulgurite.resume.snapshot");
  CHECK(said.find("1 weights where there were 2") != std::string::npos);
  CHECK(narrow.p.value() == 1.0);
}

TEST_CASE("before the first fit there is nothing to keep, and inside of one snapshots and options are refused: "
          "fulgurite.trainer.open_fit") {
  Draws model;
  auto trainer = toy::train<Draws>(epochs(1), {}, Counts{}, InHook{});
  CHECK(toy::refusal([&] { snapshot(trainer); }) == "fulgurite.trainer.nothing_to_save");
  std::vector<std::string> refused;
  trainer.callback<InHook>().then = [&] {
    refused = {toy::refusal([&] { snapshot(trainer); }), toy::refusal([&] { trainer.set_options(epochs(9)); })};
  };
  trainer.fit(model, toy::batches(1), NoValidation{});
  CHECK(refused == std::vector<std::string>(2, "fulgurite.trainer.open_fit"));
  CHECK(trainer.options().max_epochs == 1);
  trainer.callback<InHook>().then = [] { throw std::runtime_error("ends the fit"); };
  trainer.set_options(epochs(2));
  CHECK_THROWS(trainer.fit(model, toy::batches(1), NoValidation{}));
  trainer.set_options(epochs(3));  // however a fit ended
  CHECK(trainer.options().max_epochs == 3);
}

TEST_CASE("limits are raised on a trainer that has run: it does the epochs that are missing") {
  Draws model;
  auto trainer = of(1);
  trainer.fit(model, toy::batches(4), NoValidation{});
  CHECK(trainer.progress().global_step == 2);
  auto options = trainer.given_options();
  options.max_epochs = 3;
  trainer.set_options(options);
  trainer.fit(model, toy::batches(4), NoValidation{});
  CHECK(trainer.progress().epoch == 3);
  CHECK(trainer.progress().global_step == 6);
}

TEST_CASE(
    "accumulation and clipping are changed between fits; wrong ones leave those before, and a fit keeps its own") {
  Draws model;
  auto trainer = of(1);
  trainer.fit(model, toy::batches(4), NoValidation{});
  CHECK(trainer.progress().global_step == 2);
  auto how = trainer.optimization();
  how.accumulate_grad_batches = 0;
  CHECK(toy::refusal([&] { trainer.set_optimization(how); }) == "fulgurite.options.accumulate");
  CHECK(trainer.optimization().accumulate_grad_batches == 2);
  how.accumulate_grad_batches = 4;
  how.clip = ClipValue{0.125};
  trainer.set_optimization(how);
  trainer.set_options(epochs(2));
  trainer.fit(model, toy::batches(4), NoValidation{});
  CHECK(trainer.progress().global_step == 3);
  for (auto const& p : model.parameters()) CHECK(std::abs(p.grad()) <= 0.125);
}

namespace {
struct Widens {
  using Stateless = ByChoice;
  void on_train_epoch_start(auto& ctx) {
    if (ctx.current_epoch() == 0) ctx.accumulate(4);
  }
};
}  // namespace

TEST_CASE("another accumulation that is set between fits is in the snapshot and the file of that moment") {
  Draws model;
  auto trainer = of(1);
  trainer.fit(model, toy::batches(4), NoValidation{});
  CHECK(trainer.progress().global_step == 2);
  trainer.set_optimization({.accumulate_grad_batches = 4});
  trainer.set_options(epochs(2));
  trainer.save_checkpoint("fours");
  trainer.fit(model, toy::batches(4), NoValidation{}, snapshot(trainer));
  CHECK(trainer.progress().global_step == 3);
  trainer.fit(model, toy::batches(4), NoValidation{}, CkptPath{"fours"});
  CHECK(trainer.progress().global_step == 3);

  auto widened = toy::train<Draws>(epochs(1), Automatic{.accumulate_grad_batches = 2}, Widens{});
  widened.fit(model, toy::batches(4), NoValidation{});
  CHECK(widened.progress().global_step == 1);
  widened.set_optimization({.accumulate_grad_batches = 2, .clip = ClipValue{0.125}});  // the hook's windows stay
  widened.set_options(epochs(2));
  widened.fit(model, toy::batches(4), NoValidation{}, snapshot(widened));
  CHECK(widened.progress().global_step == 2);
}

TEST_CASE("a program that asks for other windows than the one that wrote the file has its own") {
  Draws model, then, same;
  auto first = of(1);
  first.fit(model, toy::batches(4), NoValidation{});
  first.save_checkpoint("pairs");
  auto wider = toy::train<Draws>(epochs(2), Automatic{.accumulate_grad_batches = 4}, Counts{});
  wider.fit(then, toy::batches(4), NoValidation{}, CkptPath{"pairs"});
  CHECK(wider.progress().global_step == 2 + 1);
  auto as_it_was = of(2);
  as_it_was.fit(same, toy::batches(4), NoValidation{}, CkptPath{"pairs"});
  CHECK(as_it_was.progress().global_step == 2 + 2);
}

namespace {
/// Each pass begins where the one before has ended.
struct Onward {
  double passed = 0;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    Onward* of;
    int left = 3;
    double operator*() const { return of->passed; }
    Iterator& operator++() { return ++of->passed, --left, *this; }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return left == 0; }
  };
  Iterator begin() { return {this}; }
  std::default_sentinel_t end() const { return {}; }
  void state(auto& archive) { archive("passed", passed); }
};
}  // namespace

TEST_CASE("a snapshot has what the loader of the last fit keeps, and a fit goes on from it with the same data") {
  toy::world.rng = 7;
  Draws whole, model;
  Onward all, loader;
  auto unbroken = of(4);
  unbroken.fit(whole, all, NoValidation{});
  auto const wanted = came(unbroken, whole);
  toy::world.rng = 7;
  auto trainer = of(2);
  trainer.fit(model, loader, NoValidation{});
  auto const kept = snapshot(trainer);
  trainer.set_options(epochs(4));
  for (int times = 0; times != 2; ++times) {
    loader.passed = 1000;
    trainer.fit(model, loader, NoValidation{}, kept);
    CHECK(came(trainer, model) == wanted);
    CHECK(loader.passed == all.passed);
  }
  restore(trainer, kept);
  trainer.save_checkpoint("restored");
  loader.passed = 1000;
  trainer.fit(model, loader, NoValidation{}, CkptPath{"restored"});
  CHECK(came(trainer, model) == wanted);
}

TEST_CASE("options that are wrong leave those before; what fast_dev_run replaced comes back with the given ones") {
  auto trainer = toy::train<Draws>({.max_epochs = 7, .limit_train_batches = 3, .fast_dev_run = 1}, {}, Counts{});
  CHECK(trainer.options().max_epochs == 1);
  CHECK(trainer.given_options().max_epochs == 7);
  auto options = trainer.given_options();
  options.num_sanity_val_steps = -5;
  CHECK(toy::refusal([&] { trainer.set_options(options); }) == "fulgurite.options.range");
  CHECK(trainer.options().fast_dev_run == 1);
  options = trainer.given_options();
  options.fast_dev_run = 0;
  trainer.set_options(options);
  Draws model;
  trainer.fit(model, toy::batches(9), NoValidation{});
  CHECK(trainer.progress().global_step == 21);
}

TEST_CASE("a snapshot of 40 parameters takes none of them to the host: all are copied together, as are their averages, "
          "and so they come back") {
  Many model;
  auto trainer = toy::train<Many>(epochs(1), {}, EMAWeightAveraging{{.decay = 0.5}});
  trainer.fit(model, toy::batches(3), NoValidation{});
  auto const values = [&] {
    std::vector<double> all;
    for (auto const& p : model.all) all.push_back(p.value());
    return all;
  };
  auto const then = values();
  auto& world = toy::world;
  trainer.save_checkpoint("a file");
  CHECK(world.fetched >= 40);  // a file takes them one by one
  world.fetched = world.copied_together = 0;
  auto const kept = snapshot(trainer);
  CHECK(world.copied_together == 2);
  for (auto p : model.all) p.set(9);
  world.copied_together = 0;
  restore(trainer, kept);
  CHECK(world.copied_together == 1);  // averages are taken over when the next fit begins
  CHECK(values() == then);
  trainer.set_options(epochs(2));
  trainer.fit(model, toy::batches(3), NoValidation{}, kept);
  CHECK(world.fetched == 0);
}

TEST_CASE("what is written last needs no copy to go back to: it is written when all of the state fits, or not at all") {
  WritesLast first;
  Refuses second{.value = 7};
  auto const fold = [&](auto& archive) { archive.child("first", first).child("second", second); };
  StateMemory kept;
  kept.save(fold);
  first.value.set(2.0);
  second.value = 3;
  toy::world.copied_together = 0;
  kept.load(fold);
  CHECK(first.value.value() == 1.0);
  CHECK(second.value == 7);

  first.value.set(2.0);
  second = {.value = 3, .most = 5};
  CHECK(toy::refusal([&] { kept.load(fold); }) == "fulgurite.test.limit");
  CHECK(first.value.value() == 2.0);
  CHECK(second.value == 3);
  CHECK(toy::world.copied_together == 0);

  second.most = 100;
  kept.restore(fold);  // what it was saved from is written at once
  CHECK(first.value.value() == 1.0);
  CHECK(second.value == 7);
}
