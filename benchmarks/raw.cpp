// The loop that a careful user of LibTorch writes: tensors prepared, nothing read back, gradients dropped instead of zeroed.

#include <memory>

#include "workloads.hpp"

namespace bench {

Loops raw_loops() {
  Loops loops;
  each_workload([&]<class Net, class Optimizer>(Workload<Net, Optimizer> const& workload) {
    auto net = std::make_shared<Net>(seeded<Net>());
    auto batches = std::make_shared<std::vector<Batch>>(Net::batches());
    auto run = [net, batches](long steps) {
      net->train();
      auto optimizer = Optimizer::make(net->parameters());
      auto const count = static_cast<long>(batches->size());
      for (long i = 0; i != steps; ++i) {
        Batch const& batch = (*batches)[static_cast<std::size_t>(i % count)];
        optimizer.zero_grad();
        auto loss = net->loss(batch);
        loss.backward();
        optimizer.step();
      }
    };
    loops.emplace(workload.name, Loop{run, [net] { return weights_of(*net); }});
  });
  return loops;
}

}  // namespace bench
