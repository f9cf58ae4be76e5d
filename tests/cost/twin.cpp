// The dynamic twin is the same trainer: the same weights and the same events as fulgurite's, so comparing them is fair.

#include <memory>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <fulgurite/loop/trainer.hpp>

#include "../../benchmarks/twin/on_toy.hpp"
#include "rows.hpp"

namespace {

using Events = std::vector<std::string>;

toy::Tensor training_loss(toy::Tensor const& p, double batch) { return p * toy::Tensor(batch + 1) * p; }

struct Ours {
  static constexpr fulgurite::Metric<"loss"> loss{.on_step = fulgurite::Report::yes,
                                                  .on_epoch = fulgurite::Report::yes};
  using Metrics = fulgurite::MetricList<loss>;
  toy::Tensor p = toy::Tensor::parameter(0.5);
  toy::Tensor training_step(double batch, auto& ctx) {
    auto value = training_loss(p, batch);
    ctx.log(loss, value);
    return value;
  }
  void validation_step(double) {}
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.01, .momentum = 0.9}; }
};

struct Theirs final : twin::Module<twin::Toy> {
  toy::Tensor p = toy::Tensor::parameter(0.5);
  toy::Tensor training_step(Trainer& trainer, double const& batch) override {
    auto value = training_loss(p, batch);
    trainer.log("loss", value);
    return value;
  }
  std::unique_ptr<twin::Optimizer> configure_optimizer() override {
    return std::make_unique<twin::ToyOptimizer<toy::Sgd>>(toy::Sgd{.params = {p}, .rate = 0.01, .momentum = 0.9});
  }
};

struct Listens {
  using Stateless = fulgurite::ByChoice;
  Events* events;
  std::optional<long> stop_after = std::nullopt;
  void note(char const* what, auto& ctx) {
    events->push_back(what + std::string(" ") + std::to_string(ctx.batch_idx()));
  }
  void on_train_epoch_start(auto& ctx) { events->push_back("epoch " + std::to_string(ctx.current_epoch())); }
  void on_train_batch_start(auto& ctx) { note("start", ctx); }
  void on_before_zero_grad(auto&, auto& ctx) { note("clear", ctx); }
  void on_before_backward(auto&, auto& ctx) { note("backward", ctx); }
  void on_after_backward(auto& ctx) { note("gradients", ctx); }
  void on_before_optimizer_step(auto&, auto& ctx) { note("step", ctx); }
  void on_train_batch_end(auto& ctx) {
    note("end", ctx);
    if (stop_after == ctx.batch_idx()) ctx.request_stop();
  }
  void on_validation_batch_end(auto& ctx) { note("validated", ctx); }
  void on_validation_end(auto&) { events->push_back("validation"); }
  void on_train_end(auto&) { events->push_back("over"); }
};

struct TwinListens final : twin::Callback<twin::Toy> {
  Events* events;
  std::optional<long> stop_after;
  TwinListens(Events& to, std::optional<long> stop) : events(&to), stop_after(stop) {}
  void note(char const* what, Trainer& t) {
    events->push_back(what + std::string(" ") + std::to_string(t.batch_idx()));
  }
  void on_train_epoch_start(Trainer& t) override { events->push_back("epoch " + std::to_string(t.current_epoch())); }
  void on_train_batch_start(Trainer& t, double const&) override { note("start", t); }
  void on_before_zero_grad(Trainer& t) override { note("clear", t); }
  void on_before_backward(Trainer& t, toy::Tensor const&) override { note("backward", t); }
  void on_after_backward(Trainer& t) override { note("gradients", t); }
  void on_before_optimizer_step(Trainer& t) override { note("step", t); }
  void on_train_batch_end(Trainer& t, toy::Tensor const&, double const&) override {
    note("end", t);
    if (stop_after == t.batch_idx()) t.request_stop();
  }
  void on_validation_batch_end(Trainer& t, double const&) override { note("validated", t); }
  void on_validation_end(Trainer&) override { events->push_back("validation"); }
  void on_train_end(Trainer&) override { events->push_back("over"); }
};

struct TwinRows final : twin::Logger {
  std::vector<double>* losses;
  explicit TwinRows(std::vector<double>& to) : losses(&to) {}
  void log_metrics(Row const& row, long) override { losses->push_back(row.at(0).second); }
};

struct Run {
  int window;
  std::optional<long> interval = std::nullopt, stop_after = std::nullopt, max_steps = std::nullopt;
  double clip = 0;
};

}  // namespace

TEST_CASE("the dynamic twin trains the same weights through the same events, to the bit") {
  auto const run = GENERATE(Run{1}, Run{4}, Run{3, 5}, Run{4, 3, 6}, Run{2, std::nullopt, std::nullopt, 7},
                            Run{.window = 3, .clip = 0.1}, Run{4, 2, 1, std::nullopt, 0.5});
  CAPTURE(run.window, run.interval, run.stop_after, run.max_steps, run.clip);
  auto train = toy::batches(10), validation = toy::batches(2);

  Events ours, theirs;
  Ours our_model;
  fulgurite::TrainerOptions options{
      .max_epochs = 2, .max_steps = run.max_steps, .num_sanity_val_steps = 0, .log_every_n_steps = 2};
  if (run.interval) options.val_check_interval = fulgurite::Batches{*run.interval};
  auto trainer = fulgurite::make_trainer<Ours>(
      options, toy::Device{}, fulgurite::Float32{},
      fulgurite::Automatic{.accumulate_grad_batches = run.window,
                           .clip = run.clip > 0 ? fulgurite::Clip(fulgurite::ClipNorm{run.clip}) : fulgurite::Clip{}},
      Listens{&ours, run.stop_after}, toy::Rows{});
  trainer.fit(our_model, train, validation);

  Theirs their_model;
  twin::Trainer<twin::Toy> twin({.max_epochs = 2,
                                 .max_steps = run.max_steps,
                                 .val_check_interval = run.interval,
                                 .num_sanity_val_steps = 0,
                                 .log_every_n_steps = 2,
                                 .accumulate_grad_batches = run.window,
                                 .clip_norm = run.clip});
  std::vector<double> losses;
  twin.add(std::make_unique<TwinListens>(theirs, run.stop_after));
  twin.add(std::make_unique<TwinRows>(losses));
  twin::RangeLoader<twin::Toy, std::vector<double>> batches(train), val_batches(validation);
  twin.fit(their_model, batches, &val_batches);

  CHECK(ours == theirs);
  CHECK(our_model.p.value() == their_model.p.value());
  CHECK(trainer.progress().global_step == twin.global_step());
  std::vector<double> logged;
  for (auto const& row : trainer.callback<toy::Rows>().rows) logged.push_back(row.cells.at(0).second);
  CHECK(logged == losses);
}

TEST_CASE("functions hung into the twin are called at their event") {
  auto train = toy::batches(6);
  Theirs model;
  twin::Trainer<twin::Toy> trainer({.max_epochs = 2, .accumulate_grad_batches = 2});
  int starts = 0, steps = 0, epochs = 0;
  trainer.hooks().train_batch_start.push_back([&](auto&) { ++starts; });
  trainer.hooks().before_optimizer_step.push_back([&](auto&) { ++steps; });
  trainer.hooks().train_epoch_end.push_back([&](auto&) { ++epochs; });
  twin::RangeLoader<twin::Toy, std::vector<double>> batches(train);
  trainer.fit(model, batches);
  CHECK(starts == 12);
  CHECK(steps == 6);
  CHECK(epochs == 2);
}
