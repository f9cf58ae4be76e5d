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

/// Its transfer hook takes another batch than the data module makes, which has one itself.
struct OfTexts : toy::P {
  double on_after_batch_transfer(std::string const& text) { return static_cast<double>(text.size()); }
};
struct OfNumbers {
  using OverridesModel = void;
  auto train_dataloader() { return toy::batches(1); }
  double on_after_batch_transfer(double batch) { return note("D.after"), batch; }
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
  return toy::train<Throwing<What>>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2}, SavesOnException{},
                                    Ends{}, Finalized{});
}

/// A model that is its own data module.
struct Whole : toy::P {
  int heard = 0;
  auto train_dataloader() { return toy::batches(1); }
  toy::Tensor training_step(double) { throw std::runtime_error("whole"); }
  void on_exception() { ++heard; }
};

}  // namespace

TEST_CASE("transfer hooks of the model surround the strategy's move, for training and for each evaluation loader") {
  Transfers model;
  trace.clear();
  auto trainer = make_trainer<Transfers>({.max_epochs = 1, .num_sanity_val_steps = 0}, Mover{}, Float32{}, Automatic{});
  trainer.fit(model, toy::batches(1), std::tuple(toy::batches(1), toy::batches(1)));
  CHECK(model.got == std::vector<double>{0 + 10 + 100 + 1000});
  CHECK(trace == Trace{"before 0", "S.move", "after", "before 0", "S.move", "after", "before 1", "S.move", "after"});
}

TEST_CASE("a data module that overrides the model's transfer hook may have batches that the model's does not take") {
  OfTexts model;
  OfNumbers data;
  trace.clear();
  toy::train<OfTexts>({.max_epochs = 1}, Automatic{}).fit(model, data);
  CHECK(trace == Trace{"D.after"});
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
