// Manual optimization's sequence (4.4), transfer hooks without a data module, and the path of an exception (4.8).
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <stdexcept>

#include "models.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::add;
using toy::both;
using toy::note;
using toy::Trace;
using toy::trace;

namespace {

struct ManualModel {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  FULGURITE_EVENTS(TOY_MANUAL_M)
  void backward(toy::Tensor& loss) {
    note("backward");
    loss.backward();
  }
  void training_step(double, auto& ctx) {
    note("training_step");
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.backward(-p);
    ctx.step(optimizer);
    note("stepped");
  }
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, [](long) { return 1.0; }, {.interval = Interval::step});
  }
};

/// Transfer hooks of the model, on a strategy that says when it moves.
struct Mover : toy::Device {
  double move(double batch) {
    note("S.move");
    return batch + 100;
  }
};
struct Transfers : toy::P {
  std::vector<double> got = {};
  double on_before_batch_transfer(double batch, auto& ctx) {
    note("before " + std::to_string(ctx.loader()));
    return batch + 10;
  }
  double on_after_batch_transfer(double batch) {
    note("after");
    return batch + 1000;
  }
  toy::Tensor training_step(double batch) {
    got.push_back(batch);
    return -p;
  }
  void validation_step(double) {}
};

/// Throws in batch 1; a callback asks for a checkpoint.
template <class What>
struct Throwing : toy::P {
  toy::Tensor training_step(double batch) {
    if (batch == 1) throw What("batch 1");
    return -p;
  }
  void on_exception(std::exception const& error, auto&) { note(std::string("M ") + error.what()); }
};
struct Unknown {
  explicit Unknown(char const*) {}
};
struct SavesOnException {
  using Stateless = ByChoice;
  void on_exception(std::exception const& error, auto& ctx) {
    note("C.on_exception " + std::to_string(ctx.global_step()) + " " + std::string(error.what()).substr(0, 32));
    ctx.request_checkpoint("rescue");
  }
};
struct Finalized {
  using Stateless = ByChoice;
  void log_metrics(std::span<Scalar const>, long) {}
  void finalize(Status status) { note(status == Status::failed ? "failed" : "success"); }
};
struct Ends {
  void on_train_epoch_end() { note("ended"); }
  void on_train_end() { note("ended"); }
  void on_fit_end() { note("ended"); }
  void teardown() { note("ended"); }
};

template <class What>
auto throwing() {
  return toy::train<Throwing<What>>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2}, SavesOnException{}, Ends{}, Finalized{});
}

/// A model that is its own data module.
struct Whole : toy::P {
  int heard = 0;
  auto train_dataloader() { return toy::batches(1); }
  toy::Tensor training_step(double) { throw std::runtime_error("whole"); }
  void on_exception() { ++heard; }
};

}  // namespace

TEST_CASE("C67, C73, C154: manual: per batch step, backward, before_optimizer_step; never zero_grad, clipping or schedule hooks") {
  ManualModel model;
  trace.clear();
  auto trainer = make_trainer<ManualModel>({.max_epochs = 1}, toy::Device{}, Float32{}, Manual{}, toy::ManualWitness{});
  trainer.fit(model, toy::batches(2));
  Trace expected;
  for (auto const* name : {"setup", "on_fit_start", "on_train_start", "on_train_epoch_start"}) both(expected, name);
  for (int b = 0; b != 2; ++b) {
    both(expected, "on_train_batch_start");
    expected.push_back("training_step");
    both(expected, "on_before_backward");
    expected.push_back("backward");
    both(expected, "on_after_backward");
    both(expected, "on_before_optimizer_step");
    expected.push_back("stepped");
    both(expected, "on_train_batch_end");
  }
  for (auto const* name : {"on_train_epoch_end", "on_train_end", "on_fit_end", "teardown"}) both(expected, name);
  CHECK(trace == expected);
  CHECK(trainer.progress().global_step == 2);
}

TEST_CASE("transfer hooks of the model surround the strategy's move, for training and for each evaluation loader") {
  Transfers model;
  trace.clear();
  auto trainer = make_trainer<Transfers>({.max_epochs = 1, .num_sanity_val_steps = 0}, Mover{}, Float32{}, Automatic{});
  trainer.fit(model, toy::batches(1), std::tuple(toy::batches(1), toy::batches(1)));
  CHECK(model.got == std::vector<double>{0 + 10 + 100 + 1000});
  CHECK(trace == Trace{"before 0", "S.move", "after", "before 0", "S.move", "after", "before 1", "S.move", "after"});
}

TEST_CASE("C147: an exception: on_exception for callbacks, then the model; no end hooks; the requested checkpoint, loggers told, rethrown") {
  Throwing<std::runtime_error> model;
  auto trainer = throwing<std::runtime_error>();
  trace.clear();
  toy::world.saved.clear();
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(4)), std::runtime_error);
  CHECK(trace == Trace{"C.on_exception 0 batch 1", "M batch 1", "failed"});
  CHECK(toy::world.saved == std::vector<std::string>{"rescue"});
  trace.clear();
  trainer.fit(model, toy::batches(4, 2));  // the trainer can be used again
  CHECK(trace == Trace{"ended", "ended", "ended", "ended", "success"});
}

TEST_CASE("what is no std::exception goes the same way, under a name that says so") {
  Throwing<Unknown> model;
  auto trainer = throwing<Unknown>();
  trace.clear();
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(4)), Unknown);
  CHECK(trace.front() == "C.on_exception 0 [fulgurite.exception.unknown] wh");
  CHECK(trace.back() == "failed");
}

TEST_CASE("a data module hears of the exception, too; a model that is its own data module hears of it once") {
  Whole model;
  CHECK_THROWS(toy::train<Whole>({.max_epochs = 1}, Automatic{}).fit(model));
  CHECK(model.heard == 1);

  Throwing<std::runtime_error> other;
  toy::Everywhere data;
  trace.clear();
  CHECK_THROWS(throwing<std::runtime_error>().fit(other, data, NoValidation{}));
  CHECK(toy::noted("D.on_exception") == 1);
  CHECK(toy::noted("D.teardown") == 0);
}

TEST_CASE("a checkpoint that cannot be written on the way out does not hide the first error") {
  Throwing<std::runtime_error> model;
  auto trainer = throwing<std::runtime_error>();
  trace.clear();
  toy::world.disk_full = true;
  CHECK_THROWS_WITH(trainer.fit(model, toy::batches(4)), "batch 1");
  toy::world.disk_full = false;
  CHECK(trace.back() == "failed");
}
