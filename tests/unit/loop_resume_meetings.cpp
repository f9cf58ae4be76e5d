// Where what is kept of a failure meets what comes after it: a later file, a later failure, a stop, a sanity check, a
// window whose end is found late, a file that on_exception writes.
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <functional>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/watch.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {

/// Each step depends on all before it.
struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.5);
  long validated = 0;
  std::function<void()> in_step = nullptr;
  toy::Tensor training_step(double batch) {
    if (in_step) in_step();
    return p * toy::Tensor(batch + 1);
  }
  void validation_step(double) { ++validated; }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.125, .momentum = 0.5}; }
};

/// Tells `act` of its events.
struct Acts {
  using Stateless = ByChoice;
  std::function<Flow(std::string const&)> act = nullptr;
  Flow tell(std::string const& event) { return act ? act(event) : Flow::proceed; }
  void on_sanity_check_start() { tell("sanity"); }
  void on_train_batch_end() { tell("batch"); }
  void on_before_optimizer_step() { tell("step"); }
  Stop on_validation_epoch_end() { return Stop{tell("validation epoch") == Flow::stop}; }
  void on_validation_end() { tell("validation"); }
  void on_exception() { tell("exception"); }
};

/// It has no size, is no iterator's, and its batches are gone when the next one is there.
struct Stream {
  using Stateless = ByChoice;
  struct Iterator {
    int i, n;
    double value;
    double const& operator*() const { return value; }
    Iterator& operator++() {
      value = ++i;
      return *this;
    }
    bool operator!=(std::default_sentinel_t) const { return i != n; }
  };
  int n;
  Iterator begin() { return {0, n, 0}; }
  static std::default_sentinel_t end() { return {}; }
};

auto trainer_of(Folder const& folder, int window, Acts acts, int epochs = 1, int sanity = 0) {
  auto options = quick(epochs);
  options.num_sanity_val_steps = sanity;
  return Trainer<Net, SavingDevice, Float32, Automatic, OnExceptionCheckpoint, Acts>(
      options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = window},
      OnExceptionCheckpoint{{.dirpath = folder.path}}, std::move(acts));
}
/// Throws at the n-th of these events.
auto fails_at(std::string event, int n) {
  return [event, n](std::string const& now) mutable {
    if (now == event && --n == 0) throw std::runtime_error("failed");
    return Flow::proceed;
  };
}
constexpr auto on_exception = "on_exception.safetensors";

}  // namespace

TEST_CASE("resume: who had heard an event that failed is no part of what is saved after that fit") {
  Folder const folder;
  Net model, again;
  auto trainer = trainer_of(folder, 1, {fails_at("validation", 1)});
  said([&] { CHECK_THROWS(trainer.fit(model, toy::batches(4), toy::batches(2))); });
  trainer.save_checkpoint(folder / "later.safetensors");
  auto then = trainer_of(folder, 1, {});
  said([&] { then.fit(again, toy::batches(4), toy::batches(2), CkptPath{folder / "later.safetensors"}); });
  CHECK(again.validated == 2);
}

TEST_CASE("resume: a window whose end is found late is done again where its step fails") {
  Folder const folder;
  Net whole, model, again;
  Stream stream{3};
  trainer_of(folder, 2, {}).fit(whole, stream, NoValidation{});
  auto trainer = trainer_of(folder, 2, {fails_at("step", 2)});
  said([&] { CHECK_THROWS(trainer.fit(model, stream, NoValidation{})); });
  auto then = trainer_of(folder, 2, {});
  said([&] { then.fit(again, stream, NoValidation{}, CkptPath{folder / on_exception}); });
  CHECK(then.progress().global_step == 2);
  CHECK(again.p.value() == whole.p.value());
}

TEST_CASE("resume: a window that a stop ends is done again where its step fails") {
  Folder const folder;
  Net model, again;
  auto const stops = [&](Net& net, bool fails, std::optional<CkptPath> const& from) {
    long steps = 0;
    auto one = trainer_of(folder, 4, {});
    one.callback<Acts>().act = [&](std::string const& now) {
      if (now == "step" && ++steps == 1 && fails) throw std::runtime_error("failed");
      return Flow::proceed;
    };
    auto options = one.given_options();
    options.max_time = std::chrono::seconds(5);
    one.set_options(options);
    net.in_step = [] { fake_seconds += 10; };
    toy::Restored<double> const clock(fake_seconds);
    said([&] {
      try {
        one.fit(net, toy::batches(4), NoValidation{}, from);
      } catch (std::runtime_error const&) {}
    });
    return one.progress().global_step;
  };
  CHECK(stops(model, true, std::nullopt) == 0);
  CHECK(stops(again, false, CkptPath{folder / on_exception}) == 1);
}

TEST_CASE("resume: a file that on_exception saves inside a window goes on with that window") {
  Folder const folder;
  Net whole, model, again;
  trainer_of(folder, 2, {}).fit(whole, toy::batches(4), NoValidation{});
  auto trainer = trainer_of(folder, 2, {});
  int steps = 0;
  model.in_step = [&] {
    if (++steps == 2) throw std::runtime_error("failed");
  };
  trainer.callback<Acts>().act = [&](std::string const& now) {
    if (now == "exception") trainer.save_checkpoint(folder / "mine.safetensors");
    return Flow::proceed;
  };
  said([&] { CHECK_THROWS(trainer.fit(model, toy::batches(4), NoValidation{})); });
  auto then = trainer_of(folder, 2, {});
  said([&] { then.fit(again, toy::batches(4), NoValidation{}, CkptPath{folder / "mine.safetensors"}); });
  CHECK(then.progress().global_step == 2);
  CHECK(again.p.value() == whole.p.value());
}

TEST_CASE("resume: a stop that a validation's hook asked for holds where a later hook of it fails") {
  Folder const folder;
  Net model, again;
  auto trainer = trainer_of(folder, 1, {}, 2);
  trainer.callback<Acts>().act = [&](std::string const& now) {
    if (now == "validation") throw std::runtime_error("failed");
    return now == "validation epoch" ? Flow::stop : Flow::proceed;
  };
  said([&] { CHECK_THROWS(trainer.fit(model, toy::batches(4), toy::batches(1))); });
  auto then = trainer_of(folder, 1, {}, 2);
  said([&] { then.fit(again, toy::batches(4), toy::batches(1), CkptPath{folder / on_exception}); });
  CHECK(then.progress().global_step == 4);
}

TEST_CASE("resume: no sanity check before the rest of an epoch, be it all of its batches but the first") {
  Folder const folder;
  Net model, again;
  auto trainer = trainer_of(folder, 1, {fails_at("batch", 1)}, 1, 1);
  said([&] { CHECK_THROWS(trainer.fit(model, toy::batches(4), toy::batches(1))); });
  int checks = 0;
  auto then = trainer_of(folder, 1, {}, 1, 1);
  then.callback<Acts>().act = [&](std::string const& now) {
    checks += now == "sanity";
    return Flow::proceed;
  };
  said([&] { then.fit(again, toy::batches(4), toy::batches(1), CkptPath{folder / on_exception}); });
  CHECK(checks == 0);
  CHECK(then.progress().global_step == 4);
}
