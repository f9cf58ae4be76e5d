// W0: a model that computes nothing, silent and with one logged scalar a step (P8), by the trainer and by its dynamic
// twin. Without LibTorch.

#include <memory>
#include <span>

#include <fulgurite/loop/trainer.hpp>

#include "null.hpp"
#include "twin/trainer.hpp"
#include "workloads.hpp"

// Named, so that other files could derive from its classes: a compiler that sees all of them calls none virtually.
namespace bench::null_model {

using null::Count;
using null::Value;

struct Silent {
  Value training_step(long batch, auto&) { return null::work(batch); }
  null::Optimizer configure_optimizers() { return {}; }
};
struct Logged {
  static constexpr fulgurite::Metric<"loss"> loss{};
  using Metrics = fulgurite::MetricList<loss>;
  Value training_step(long batch, auto& ctx) {
    auto const value = null::work(batch);
    ctx.log(loss, value);
    return value;
  }
  null::Optimizer configure_optimizers() { return {}; }
};

/// Takes the rows, every 50 steps.
struct Rows {
  using Stateless = fulgurite::ByChoice;
  long rows = 0;
  void log_metrics(std::span<fulgurite::Scalar const>, long) { ++rows; }
};

struct Library {
  using Tensor = Value;
  using Batch = long;
  static long batch_size(Batch const&) { return 1; }
  static Tensor detached(Tensor const& t) { return t; }
  static double read(Tensor const& t) { return t.number; }
  static void backward(Tensor&, double) {}
  static int no_grad() { return 0; }
};
using TwinTrainer = twin::Trainer<Library>;

struct TwinOptimizer final : twin::Optimizer {
  void zero_grad() override {}
  void step() override {}
  void scale_gradients(double) override {}
  void clip_norm(double) override {}
};
struct TwinSilent final : twin::Module<Library> {
  Value training_step(TwinTrainer&, long const& batch) override { return null::work(batch); }
  std::unique_ptr<twin::Optimizer> configure_optimizer() override { return std::make_unique<TwinOptimizer>(); }
};
struct TwinLogged final : twin::Module<Library> {
  Value training_step(TwinTrainer& trainer, long const& batch) override {
    auto const value = null::work(batch);
    trainer.log("loss", value);
    return value;
  }
  std::unique_ptr<twin::Optimizer> configure_optimizer() override { return std::make_unique<TwinOptimizer>(); }
};
struct TwinRows final : twin::Logger {
  long rows = 0;
  void log_metrics(Row const&, long) override { ++rows; }
};

template <class Model>
double fit(long, long steps) {
  Model model;
  auto trainer = fulgurite::make_trainer<Model>(fulgurite::TrainerOptions{.max_epochs = 1}, null::Device{},
                                                fulgurite::Float32{}, fulgurite::Automatic{}, Rows{});
  Count batches(steps);
  Stopwatch watch(0, steps);
  watch.step();
  trainer.fit(model, batches);
  return watch.result();
}

template <class Module>
double twin_fit(long, long steps) {
  Module module;
  TwinTrainer trainer({.max_epochs = 1});
  trainer.add(std::make_unique<TwinRows>());
  Count batches(steps);
  twin::RangeLoader<Library, Count> loader(batches);
  Stopwatch watch(0, steps);
  watch.step();
  trainer.fit(module, loader);
  return watch.result();
}

Loops only(double (*run)(long, long)) {
  return {{"null-logged", [run] { return Loop{.run = run}; }}};
}

}  // namespace bench::null_model

namespace bench {

Loops silent_loops() { return null_model::only(null_model::fit<null_model::Silent>); }
Loops logged_loops() { return null_model::only(null_model::fit<null_model::Logged>); }
Loops twin_silent_loops() { return null_model::only(null_model::twin_fit<null_model::TwinSilent>); }
Loops twin_logged_loops() { return null_model::only(null_model::twin_fit<null_model::TwinLogged>); }

}  // namespace bench
