// The seam of a step carries capture: a strategy that records each kind of step once and replays it gives the same run.
#include <catch2/catch_test_macros.hpp>

#include "models.hpp"
#include "recording.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Tensor;

namespace {

/// loss = (p x + q)^2; logs it, a detached part of it, and a metric twice.
struct Net {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"line"> line{.on_epoch = Report::yes};
  static constexpr Metric<"twice"> twice{.reduce = Reduce::sum, .on_epoch = Report::yes};
  static constexpr Metric<"hook"> hook{.reduce = Reduce::sum, .on_epoch = Report::yes};
  using Metrics = MetricList<loss, line, twice, hook>;
  Tensor p = Tensor::parameter(0.3), q = Tensor::parameter(-0.2);
  static constexpr bool acts_on_tensors = true;  // untrue of `inside`: it counts how often it is called
  int forwards = 0, inside = 0, outside = 0;
  std::vector<double> outputs = {}, gradients = {};

  Tensor training_step(Tensor const& x, auto& ctx) {
    ++forwards;
    auto const y = p * x + q;
    auto const value = y * y;
    ctx.log(loss, value);
    ctx.log(line, y.detach());
    ctx.log(twice, value);
    ctx.log(twice, y);
    return value;
  }
  void on_before_backward() { ++inside; }
  void on_train_batch_start(auto& ctx) { ctx.log(hook, Tensor(1.0)); }
  void on_before_optimizer_step() {
    ++outside;
    gradients.push_back(p.grad());
  }
  void on_train_batch_end(auto& result, auto&, auto&) { outputs.push_back(result.loss.value()); }
  toy::Sgd configure_optimizers() { return {.params = {p, q}, .rate = 0.01, .momentum = 0.9}; }
};
struct RepeatingNet : Net {
  toy::Repeating configure_optimizers() {
    toy::Repeating optimizer;
    optimizer.params = {p, q};
    optimizer.rate = 0.01;
    return optimizer;
  }
};

struct Result {
  std::vector<double> weights, outputs, gradients;
  std::vector<toy::Row> rows;
  long steps;
  int forwards, inside, outside;
  std::vector<std::optional<double>> values;
};

std::vector<Tensor> inputs(int n) {
  std::vector<Tensor> all;
  for (int i = 0; i != n; ++i) all.emplace_back(0.5 + 0.25 * i);
  return all;
}

/// The same without a size.
struct Stream {
  std::vector<Tensor> all;
  auto begin() { return all.begin(); }
  auto end() { return all.end(); }
};

template <class M, class Strategy>
Result fit(Strategy strategy, Automatic how, auto loader, bool waits = false, auto... callbacks) {
  M model;
  auto trainer =
      make_trainer<M>({.max_epochs = 3, .log_every_n_steps = 1}, strategy, Float32{}, how, toy::Rows{}, callbacks...);
  toy::world.device_waits = waits;
  trainer.fit(model, loader);
  toy::world.device_waits = false;
  return {{model.p.value(), model.q.value()},
          model.outputs,
          model.gradients,
          trainer.template callback<toy::Rows>().rows,
          trainer.progress().global_step,
          model.forwards,
          model.inside,
          model.outside,
          {trainer.value(Net::loss), trainer.value(Net::line), trainer.value(Net::twice), trainer.value(Net::hook)}};
}

void same(Result const& replayed, Result const& plain) {
  CHECK(replayed.weights == plain.weights);
  CHECK(replayed.outputs == plain.outputs);
  CHECK(replayed.gradients == plain.gradients);
  CHECK(replayed.rows == plain.rows);
  CHECK(replayed.values == plain.values);
  CHECK(replayed.steps == plain.steps);
  CHECK(replayed.outside == plain.outside);
}

}  // namespace

TEST_CASE("replayed steps: the same weights, gradients, outputs, rows and steps, bit for bit; one training_step for "
          "each key") {
  for (bool waits : {false, true})
    for (int k : {1, 2, 3}) {
      Automatic const how{.accumulate_grad_batches = k, .clip = ClipNorm{0.5}};
      auto const plain = fit<Net>(toy::Device{}, how, inputs(7), waits);
      auto const replayed = fit<Net>(toy::Recording{}, how, inputs(7), waits);
      same(replayed, plain);
      CHECK(plain.forwards == 21);
      // K 1: (first, closes, 1). K 2, 3: those of a window, and the last window's, which is one batch long.
      CHECK(replayed.forwards == (k == 1 ? 1 : k + 1));
      CHECK(plain.weights[0] != 0.3);
    }
}

TEST_CASE("what a hook logs outside of the step is neither recorded nor posted twice") {
  auto const replayed = fit<Net>(toy::Recording{}, {}, inputs(7));
  CHECK(replayed.values[3] == 7.0);
}

TEST_CASE("hooks outside of the seam are called each step, hooks inside only where it is recorded") {
  auto const replayed = fit<Net>(toy::Recording{}, {}, inputs(7));
  CHECK(replayed.outside == 21);
  CHECK(replayed.inside == 1);
}

TEST_CASE("a window of an unsized loader that ends early, and one that a stop ends, are rescaled outside of the seam") {
  Automatic const how{.accumulate_grad_batches = 3};
  auto const replayed = fit<Net>(toy::Recording{}, how, Stream{inputs(5)});
  same(replayed, fit<Net>(toy::Device{}, how, Stream{inputs(5)}));
  CHECK(replayed.forwards == 3);

  auto const stopped = fit<Net>(toy::Recording{}, how, inputs(9), false, toy::stop_at(1, 4));
  same(stopped, fit<Net>(toy::Device{}, how, inputs(9), false, toy::stop_at(1, 4)));
  CHECK(stopped.steps == 3 + 2);
  CHECK(stopped.forwards == 3);
}

TEST_CASE("a repeated closure replays, too: the last evaluation is logged") {
  auto const replayed = fit<RepeatingNet>(toy::Recording{}, {}, inputs(4));
  same(replayed, fit<RepeatingNet>(toy::Device{}, {}, inputs(4)));
  CHECK(replayed.forwards == 1);
  CHECK(replayed.outside == 3 * 4 * 4);
  CHECK(replayed.values[3] == 4.0);
}

TEST_CASE("recordings die in setup: a second fit records anew, on another model") {
  Net first, second;
  auto trainer = make_trainer<Net>({.max_epochs = 1}, toy::Recording{}, Float32{}, Automatic{});
  trainer.fit(first, inputs(3));
  auto again = make_trainer<Net>({.max_epochs = -1, .max_steps = 6}, toy::Recording{}, Float32{}, Automatic{},
                                 toy::stop_at(0, 2));
  again.fit(first, inputs(3));
  again.fit(second, inputs(3));
  CHECK(first.forwards == 2);
  CHECK(second.forwards == 1);
  CHECK(second.p.value() != 0.3);
}
