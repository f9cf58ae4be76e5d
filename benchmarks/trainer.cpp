// The same through fulgurite's trainer with LibTorch's own optimizers: what the loop itself costs (P3).

#include <memory>

#include "workloads.hpp"

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/precision.hpp>
#include <fulgurite/torch/optimizer.hpp>
#include <fulgurite/torch/single_device.hpp>

namespace bench {

namespace {

template <class Net, class Optimizer>
struct Trained : Net {
  torch::Tensor training_step(Batch const& batch) { return this->loss(batch); }
  auto configure_optimizers() { return Optimizer::make(this->parameters()); }
};

}  // namespace

Loops trainer_loops() {
  using namespace fulgurite;
  Loops loops;
  each_workload([&]<class Net, class Optimizer>(Workload<Net, Optimizer> const& workload) {
    using Model = Trained<Net, Optimizer>;
    auto model = std::make_shared<Model>(seeded<Model>());
    auto batches = std::make_shared<std::vector<Batch>>(Net::batches());
    auto run = [model, batches](long steps) {
      auto trainer = make_trainer<Model>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{});
      Cycle loader(*batches, steps);
      trainer.fit(*model, loader);
    };
    loops.emplace(workload.name, Loop{run, [model] { return weights_of(*model); }});
  });
  return loops;
}

}  // namespace bench
