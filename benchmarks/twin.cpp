// Through the dynamic twin with eight callbacks without a hook of a step: LibTorch's optimizers, prepared batches.

#include <memory>
#include <utility>

#include "cycle.hpp"
#include "twin/on_libtorch.hpp"

namespace bench {

namespace {

struct IdleCallback : twin::Callback<twin::LibTorch> {
  void on_fit_start(Trainer&) override {}
};

struct Watched : twin::Callback<twin::LibTorch> {
  Stopwatch& watch;
  explicit Watched(Stopwatch& started) : watch(started) {}
  void on_train_batch_start(Trainer&, Batch const&) override { watch.step(); }
};

template <class Optimizer>
struct NetModule final : twin::Module<twin::LibTorch> {
  std::shared_ptr<Net> net;
  explicit NetModule(std::shared_ptr<Net> trained) : net(std::move(trained)) {}
  torch::Tensor training_step(Trainer&, Batch const& batch) override { return net->loss(batch); }
  using Held = twin::TorchOptimizer<decltype(Optimizer::make(std::declval<Net const&>()))>;
  Held* held = nullptr;  ///< the trainer's
  std::unique_ptr<twin::Optimizer> configure_optimizer() override {
    auto made = std::make_unique<Held>(Optimizer::make(*net));
    held = made.get();
    return made;
  }
  void train(bool on) override { net->train(on); }
};

template <class Optimizer>
Loop net_loop(NetWorkload const& workload) {
  auto const module = std::make_shared<NetModule<Optimizer>>(workload.net());
  auto const batches = std::make_shared<std::vector<Batch>>(workload.batches());
  return loop_of(module->net, [module, batches](long warm_up, long steps, Moments& moments) {
    Stopwatch watch(warm_up, steps);
    twin::Trainer<twin::LibTorch> trainer({.max_epochs = 1});
    for (int i = 0; i != 8; ++i) trainer.add(std::make_unique<IdleCallback>());
    trainer.add(std::make_unique<Watched>(watch));
    Cycle cycle(*batches, warm_up + steps);
    twin::RangeLoader<twin::LibTorch, Cycle> loader(cycle);
    trainer.fit(*module, loader);
    auto const taken = watch.result();
    keep(moments, module->held->optimizer());
    return taken;
  });
}

}  // namespace

/// Where steps are short enough to show it.
Loops twin_loops() {
  Loops loops;
  for (auto const& workload : net_workloads())
    if (workload.name.starts_with("tiny-mlp") || workload.name == "regression-sgd")
      loops[workload.name] = [&workload] {
        return workload.rule == Rule::sgd ? net_loop<Sgd>(workload) : net_loop<Adam>(workload);
      };
  return loops;
}

}  // namespace bench
