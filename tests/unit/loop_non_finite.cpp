// Losses and gradients that are infinite or not a number: stop, skip, ignore; windows, closures, manual steps, a device
// that is not waited for.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "models.hpp"

using namespace fulgurite;
using toy::Tensor;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Each step of SGD(lr 1) adds 1; the loss of one batch is infinite, or a gradient after its backward.
struct Spoiled : toy::P {
  int bad_loss = -1, bad_gradient = -1;
  std::vector<double> clipped = {};
  std::vector<std::pair<long, long>> counters = {};  // global_step, skipped_steps
  Tensor training_step(double batch, auto& ctx) {
    auto value = -p;
    if (int(batch) == bad_loss) value = value + Tensor(infinity);
    ctx.log(loss, value);
    return value;
  }
  void on_after_backward(auto& ctx) {
    if (ctx.batch_idx() == bad_gradient) p.set_grad(std::nan(""));
  }
  void on_train_batch_end(auto& ctx) { counters.emplace_back(ctx.global_step(), ctx.skipped_steps()); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .momentum = 0.5}; }
};

template <class M, class Device = toy::Device, class Opt = Automatic, class... Cs>
std::string outcome(M& model, TrainerOptions options, int n, Opt how = {}, Cs... callbacks) {
  if (!options.max_epochs) options.max_epochs = 1;
  auto trainer = make_trainer<M>(options, Device{}, Float32{}, how, callbacks...);
  try {
    trainer.fit(model, toy::batches(n));
  } catch (Error const& error) { return error.what(); }
  return trainer.warnings().empty() ? "" : trainer.warnings().front();
}

bool says(std::string const& what, std::string const& part) { return what.find(part) != std::string::npos; }

struct Waits {
  Waits() { toy::world.device_waits = true; }
  ~Waits() { toy::world.device_waits = false; }
};

/// Asks for a file after each step.
struct Saves {
  void on_train_batch_end(auto& ctx) { ctx.request_checkpoint("step" + std::to_string(ctx.global_step())); }
};

struct WritesLast {
  void on_exception(std::exception const&, auto& ctx) { ctx.request_checkpoint("saved"); }
};

}  // namespace

TEST_CASE(
    "a loss that is not finite ends the fit before the update: batch, epoch and loss are told, the weights are good") {
  Spoiled model;
  model.bad_loss = 3;
  auto const said = outcome(model, {}, 6);
  CHECK(said.starts_with("[fulgurite.loop.non_finite] the loss is inf after batch 3 of epoch 0"));
  CHECK(says(said, "the weights are those after step 3"));
  Spoiled three;
  outcome(three, {}, 3);
  CHECK(model.p.value() == three.p.value());
  CHECK(model.counters.size() == 3);
}

TEST_CASE("so does a gradient, whatever the loss is, and before clipping makes a number of it") {
  for (Automatic const how : {Automatic{}, Automatic{.clip = ClipValue{0.5}}, Automatic{.clip = ClipNorm{0.5}}}) {
    Spoiled model;
    model.bad_gradient = 2;
    auto const said = outcome(model, {}, 6, how);
    CHECK(said.starts_with("[fulgurite.loop.non_finite] a gradient is not finite (the loss is -"));
    CHECK(says(said, "after batch 2 of epoch 0"));
    CHECK(std::isfinite(model.p.value()));
    CHECK(model.counters.size() == 2);
  }
}

TEST_CASE("what was asked to be written on an exception is written") {
  toy::world.saved.clear();
  Spoiled model;
  model.bad_loss = 3;
  outcome(model, {}, 6, Automatic{}, WritesLast{});
  CHECK(toy::world.saved == std::vector<std::string>{"saved"});
}

TEST_CASE("skip leaves the update out, counts it, says it once, and momentum does not move the weights") {
  for (bool const by_gradient : {false, true}) {
    Spoiled model;
    (by_gradient ? model.bad_gradient : model.bad_loss) = 1;
    auto const said = outcome(model, {.max_epochs = 2, .non_finite = NonFinite::skip}, 3);
    CHECK(said.starts_with("[fulgurite.loop.non_finite_skipped] " +
                           std::string(by_gradient ? "a gradient" : "the loss")));
    CHECK(model.counters == std::vector<std::pair<long, long>>{{1, 0}, {2, 1}, {3, 1}, {4, 1}, {5, 2}, {6, 2}});
    Spoiled good;
    outcome(good, {}, 4);
    CHECK(model.p.value() == good.p.value());  // four updates in either
  }
}

TEST_CASE("skip drops the whole window, also one that ends early; the next begins anew") {
  Spoiled model, good;
  model.bad_loss = 1;
  outcome(model, {.non_finite = NonFinite::skip}, 9, Automatic{.accumulate_grad_batches = 3});
  outcome(good, {}, 6, Automatic{.accumulate_grad_batches = 3});
  CHECK(model.p.value() == good.p.value());
  CHECK(model.counters.back() == std::pair<long, long>{3, 1});
  Spoiled early;
  early.bad_loss = 0;
  outcome(early, {.non_finite = NonFinite::skip}, 8, Automatic{.accumulate_grad_batches = 8}, toy::stop_at(0, 1));
  CHECK(early.p.value() == 0);
}

TEST_CASE("ignore goes on, as a loop by hand would") {
  Spoiled model;
  model.bad_gradient = 1;
  CHECK(outcome(model, {.non_finite = NonFinite::ignore}, 3).empty());
  CHECK(std::isnan(model.p.value()));
}

namespace {

/// From a given evaluation of the run on the gradient is infinite: the loss at first, of a step or within one.
struct Trials : toy::P {
  int evaluations = 0, bad = -1;
  Tensor training_step(double, auto&) {
    return ++evaluations == bad ? -p * Tensor(infinity) + Tensor(evaluations % 4 == 1 ? infinity : 0.0) : -p;
  }
  toy::Repeating configure_optimizers() {
    toy::Repeating optimizer;
    optimizer.params = {p};
    return optimizer;
  }
};

}  // namespace

TEST_CASE(
    "an optimizer with a closure: a bad first evaluation ends or skips its step, bad weights at its end are put back") {
  for (int const bad : {5, 7}) {  // the first and the third evaluation of the second step
    for (auto const policy : {NonFinite::stop, NonFinite::skip}) {
      Trials model;
      model.p.set(1);
      model.bad = bad;
      auto const said = outcome(model, {.non_finite = policy}, 2);
      CHECK(says(said, bad == 5 ? "the loss is" : "the weights that the optimizer arrived at are not finite"));
      CHECK(model.p.value() == 5);  // four updates of the first step
      CHECK(model.evaluations == bad + (bad == 7 ? 1 : 0));
    }
  }
}

namespace {

struct TwoByHand {
  Tensor a = Tensor::parameter(0), b = Tensor::parameter(0);
  bool bad_first = false, clips = false;
  long skipped = 0;
  auto configure_optimizers() { return optimizers(toy::Sgd{{a}}, toy::Sgd{{b}}); }
  void training_step(double batch, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    bool const bad = int(batch) == 1 && bad_first;
    if (clips) {
      first.zero_grad();
      ctx.backward(-a);
      if (bad) a.set_grad(infinity);
      ctx.clip_gradients(first, ClipValue{0.5});
      ctx.step(first);
    } else {
      ctx.minimize(first, bad ? -a + Tensor(infinity) : -a);
    }
    ctx.minimize(second, -b);
    skipped = ctx.skipped_steps();
  }
};

}  // namespace

TEST_CASE(
    "manual optimization: ctx.backward and ctx.step look, and skip leaves out the update of that optimizer alone") {
  for (bool const clips : {false, true}) {
    TwoByHand model{.bad_first = true, .clips = clips};
    auto const said = outcome(model, {}, 3, Manual{});
    CHECK(said.starts_with("[fulgurite.loop.non_finite] "));
    CHECK((model.a.value() == (clips ? 0.5 : 1) && model.b.value() == 1));
    TwoByHand skips{.bad_first = true, .clips = clips};
    outcome(skips, {.non_finite = NonFinite::skip}, 3, Manual{});
    CHECK((skips.a.value() == (clips ? 1 : 2) && skips.b.value() == 3));
    CHECK(skips.skipped == 1);
  }
}

TEST_CASE(
    "on a device stop waits for nothing: it is found with the rows of the logs, and nothing is written in between") {
  Waits const device;
  toy::world.saved.clear();
  Spoiled model;
  model.bad_loss = 7;
  auto const said = outcome(model, {.log_every_n_steps = 5}, 20);
  CHECK(says(said, "since one of the steps 6 to 10"));
  Spoiled saving;
  saving.bad_loss = 7;
  auto const earlier = outcome(saving, {.log_every_n_steps = 0}, 20, Automatic{}, Saves{});
  CHECK(says(earlier, "since one of the steps 8 to 8"));
  CHECK(toy::world.saved.back() == "step7");
  Spoiled waiting;  // longer than single losses are kept
  waiting.bad_loss = 3;
  CHECK(says(outcome(waiting, {.log_every_n_steps = 0}, 200, Automatic{}, WritesLast{}),
             "since one of the steps 1 to 200"));
  CHECK(toy::world.saved.back() == "step7");
  Spoiled good;
  CHECK(outcome(good, {.log_every_n_steps = 0}, 200).empty());
  Spoiled weights;  // a gradient alone: the weights tell
  weights.bad_gradient = 19;
  CHECK(says(outcome(weights, {.log_every_n_steps = 0}, 20), "[fulgurite.loop.non_finite]"));
}

TEST_CASE("on a device stop reads no more often than the logs do; skip reads once a step") {
  Waits const device;
  auto const reads = [](NonFinite policy, int n) {
    Spoiled model;
    long const before = toy::world.reads;
    outcome(model, {.log_every_n_steps = 10, .non_finite = policy}, n);
    return toy::world.reads - before;
  };
  CHECK(reads(NonFinite::stop, 100) == reads(NonFinite::ignore, 100));
  CHECK(reads(NonFinite::skip, 100) == reads(NonFinite::ignore, 100) + 100);
  Spoiled model;
  model.bad_loss = 3;
  outcome(model, {.non_finite = NonFinite::skip}, 6);
  CHECK(model.counters.back() == std::pair<long, long>{6, 1});
  CHECK(std::isfinite(model.p.value()));
}

namespace {

/// Makes its update itself, or by the optimizer that knows what is to be left out.
template <bool By>
struct OwnStep : Spoiled {
  void optimizer_step(auto& optimizer, auto& closure) {
    if (By) return optimizer.step(closure);
    closure();
    optimizer.optimizer().step();
  }
};

}  // namespace

TEST_CASE("skip: an optimizer_step that makes its update past optimizer.step(closure) is an Error") {
  OwnStep<false> past;
  past.bad_loss = 1;
  CHECK(outcome(past, {.non_finite = NonFinite::skip}, 4).starts_with("[fulgurite.hook.stepped_past_skip]"));
  CHECK(past.counters.size() == 1);
  OwnStep<true> through;
  through.bad_loss = 1;
  CHECK(outcome(through, {.non_finite = NonFinite::skip}, 4).starts_with("[fulgurite.loop.non_finite_skipped]"));
  CHECK(through.counters.back() == std::pair<long, long>{4, 1});
}
