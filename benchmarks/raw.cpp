// The loops that a careful user of LibTorch writes: tensors prepared, nothing read back, gradients dropped instead of
// zeroed.

#include <utility>

#include <fulgurite/torch/native/matmul_scope.hpp>

#include "nets.hpp"
#include "torch_digits.hpp"

namespace bench {

namespace {

template <class Optimizer>
Loop net_loop(NetWorkload const& workload) {
  auto const net = workload.net();
  auto const batches = std::make_shared<std::vector<Batch>>(workload.batches());
  return loop_of(net, [net, batches](long warm_up, long steps, Moments& moments) {
    net->train();
    auto optimizer = Optimizer::make(*net);
    auto const count = static_cast<long>(batches->size());
    Stopwatch watch(warm_up, steps);
    for (long i = 0; i != warm_up + steps; ++i) {
      watch.step();
      Batch const& batch = (*batches)[static_cast<std::size_t>(i % count)];
      optimizer.zero_grad();
      auto loss = net->loss(batch);
      loss.backward();
      optimizer.step();
    }
    auto const taken = watch.result();
    keep(moments, optimizer);
    return taken;
  });
}

/// LibTorch's own loader: samples by index, stacked, in a new order each epoch.
Loop loader_loop() {
  auto const net = loader_net();
  return loop_of(net, [net](long warm_up, long steps, Moments& moments) {
    net->train();
    auto optimizer = Adam::make(*net);
    auto const loader = torch_digits();
    Stopwatch watch(warm_up, steps);
    for (long i = 0; i != warm_up + steps;)
      for (auto& batch : *loader) {
        watch.step();
        optimizer.zero_grad();
        auto loss = net->loss(batch);
        loss.backward();
        optimizer.step();
        if (++i == warm_up + steps) break;
      }
    auto const taken = watch.result();
    keep(moments, optimizer);
    return taken;
  });
}

/// A step is a slice of ten steps of time; the state goes on to the next slice without its graph.
Loop sequence_loop() {
  auto const net = std::make_shared<Sequence>();
  auto const batches = std::make_shared<std::vector<Batch>>(sequences());
  return loop_of(net, [net, batches](long warm_up, long steps, Moments& moments) {
    net->train();
    auto optimizer = Adam::make(*net);
    constexpr long slices = Sequence::time / Sequence::slice;
    Stopwatch watch(warm_up / slices, steps / slices);
    std::optional<Sequence::Hidden> hidden;
    for (long i = 0; i != warm_up + steps; ++i) {
      long const from = i % slices * Sequence::slice;
      if (from == 0) {
        hidden.reset();
        watch.step();
      }
      Batch const& batch = (*batches)[static_cast<std::size_t>(i / slices) % batches->size()];
      auto [loss, next] = net->step(
          {batch.data.narrow(1, from, Sequence::slice), batch.target.narrow(1, from, Sequence::slice)}, hidden);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      hidden.emplace(std::get<0>(next).detach(), std::get<1>(next).detach());
    }
    auto const taken = watch.result() / slices;
    keep(moments, optimizer);
    return taken;
  });
}

/// While the generator is trained no gradient of the discriminator's weights is computed.
Loop gan_loop() {
  auto const net = std::make_shared<Gan>();
  auto const batches = std::make_shared<std::vector<Batch>>(real_images());
  return loop_of(net, [net, batches](long warm_up, long steps, Moments& moments) {
    net->train();
    auto const generator = net->generator(), discriminator = net->discriminator();
    torch::optim::Adam g(generator, torch::optim::AdamOptions(adam_rate)),
        d(discriminator, torch::optim::AdamOptions(adam_rate));
    Stopwatch watch(warm_up, steps);
    for (long i = 0; i != warm_up + steps; ++i) {
      watch.step();
      auto const& real = (*batches)[static_cast<std::size_t>(i) % batches->size()].data;
      auto const fake = net->draw(real.size(0));
      d.zero_grad();
      (net->judged(real, 0.9) + net->judged(fake.detach(), 0.0)).backward();
      d.step();

      for (auto const& p : discriminator) p.set_requires_grad(false);
      g.zero_grad();
      net->judged(fake, 1.0).backward();
      g.step();
      for (auto const& p : discriminator) p.set_requires_grad(true);
    }
    auto const taken = watch.result();
    keep(moments, g);
    keep(moments, d);
    return taken;
  });
}

/// The same loop in a scope for matrix products, which it has opened before anything is timed.
std::function<Loop()> in_scope(std::function<Loop()> make, fulgurite::Matmul products) {
  return [make = std::move(make), products] {
    auto loop = make();
    loop.run = [run = std::move(loop.run), products](long warm_up, long steps) {
      fulgurite::MatmulScope const scope(products);
      return run(warm_up, steps);
    };
    return loop;
  };
}

}  // namespace

Loops raw_loops(fulgurite::Matmul products) {
  Loops loops;
  for (auto const& workload : net_workloads())
    loops[workload.name] = [&workload] {
      return workload.rule == Rule::sgd ? net_loop<Sgd>(workload) : net_loop<Adam>(workload);
    };
  loops["mnist-mlp-loader-adam"] = loader_loop;
  loops["lstm-tbptt-adam"] = sequence_loop;
  loops["gan-adam"] = gan_loop;
  if (products != fulgurite::Matmul::libtorch)
    for (auto& [name, make] : loops) make = in_scope(std::move(make), products);
  return loops;
}

}  // namespace bench
