// The same through the dynamic twin with eight callbacks that hear nothing of a step.

#include <memory>

#include "workloads.hpp"

#include "twin/on_libtorch.hpp"

namespace bench {

struct IdleCallback : twin::Callback<twin::LibTorch> {
  void on_fit_start(Trainer&) override {}
};

template <class Net, class Optimizer>
struct TwinModule final : twin::Module<twin::LibTorch> {
  Net net = seeded<Net>();
  torch::Tensor training_step(Trainer&, Batch const& batch) override { return net.loss(batch); }
  std::unique_ptr<twin::Optimizer> configure_optimizer() override {
    using O = decltype(Optimizer::make(net.parameters()));
    return std::make_unique<twin::TorchOptimizer<O>>(Optimizer::make(net.parameters()));
  }
  void train(bool on) override { net.train(on); }
};

Loops twin_loops() {
  Loops loops;
  each_workload([&]<class Net, class Optimizer>(Workload<Net, Optimizer> const& workload) {
    auto module = std::make_shared<TwinModule<Net, Optimizer>>();
    auto batches = std::make_shared<std::vector<Batch>>(Net::batches());
    auto run = [module, batches](long steps) {
      twin::Trainer<twin::LibTorch> trainer({.max_epochs = 1});
      for (int i = 0; i != 8; ++i) trainer.add(std::make_unique<IdleCallback>());
      Cycle cycle(*batches, steps);
      twin::RangeLoader<twin::LibTorch, Cycle> loader(cycle);
      trainer.fit(*module, loader);
    };
    loops.emplace(workload.name, Loop{run, [module] { return weights_of(module->net); }});
  });
  return loops;
}

}  // namespace bench
