// The same loops by somebody who knows LibTorch well and has an afternoon: parameters and gradients in one flat tensor
// each, LibTorch's fused update over them, batches gathered by one index_select into memory that is used again. What a
// loop can reach that records nothing.

#include <array>

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/index_select.h>

#include <fulgurite/data/sampler.hpp>

#include "nets.hpp"

namespace bench {

namespace {

/// The parameters become slices of `values`, their gradients of `gradients`: backward adds into them.
struct Flat {
  torch::Tensor values, gradients;
  std::vector<std::array<std::int64_t, 2>> slices = {};  ///< where each begins, and how long it is

  explicit Flat(std::vector<torch::Tensor> const& parameters) {
    std::int64_t size = 0;
    for (auto const& p : parameters) size += aligned(p.numel());
    values = torch::zeros({size});
    gradients = torch::zeros({size});
    std::int64_t at = 0;
    for (auto p : parameters) {
      auto const part = values.narrow(0, at, p.numel()).view(p.sizes());
      part.copy_(p.detach());
      p.mutable_grad().reset();
      p.set_data(part);
      p.mutable_grad() = gradients.narrow(0, at, p.numel()).view(p.sizes());
      slices.push_back({at, p.numel()});
      at += aligned(p.numel());
    }
  }
  /// The slices of these flat tensors, parameter by parameter.
  void keep(Moments& moments, std::vector<torch::Tensor> const& flat) const {
    for (auto const& [begin, length] : slices)
      for (auto const& all : flat) moments.push_back(all.narrow(0, begin, length));
  }
  static std::int64_t aligned(std::int64_t count) { return (count + 15) / 16 * 16; }
};

class FlatSgd : Flat {
 public:
  explicit FlatSgd(std::vector<torch::Tensor> const& parameters)
      : Flat(parameters), momentum_(torch::zeros_like(values)) {}
  void zero_grad() { gradients.zero_(); }
  void step() {
    at::_fused_sgd_({values}, {gradients}, {momentum_}, 0, sgd_momentum, sgd_rate, 0, false, false, first_);
    first_ = false;
  }
  void keep(Moments& moments) const { Flat::keep(moments, {momentum_}); }

 private:
  torch::Tensor momentum_;
  bool first_ = true;
};

class FlatAdam : Flat {
 public:
  explicit FlatAdam(std::vector<torch::Tensor> const& parameters)
      : Flat(parameters),
        mean_(torch::zeros_like(values)),
        square_(torch::zeros_like(values)),
        steps_(torch::zeros({})) {}
  void zero_grad() { gradients.zero_(); }
  void step() {
    *steps_.data_ptr<float>() += 1;
    at::_fused_adam_({values}, {gradients}, {mean_}, {square_}, {}, {steps_}, adam_rate, 0.9, 0.999, 0, 1e-8, false,
                     false);
  }
  void keep(Moments& moments) const { Flat::keep(moments, {mean_, square_}); }

 private:
  torch::Tensor mean_, square_, steps_;
};

template <class Optimizer>
Loop net_loop(NetWorkload const& workload) {
  auto const net = workload.net();
  auto const batches = std::make_shared<std::vector<Batch>>(workload.batches());
  return loop_of(net, [net, batches](long warm_up, long steps, Moments& moments) {
    net->train();
    Optimizer optimizer(net->parameters());
    auto const count = static_cast<long>(batches->size());
    Stopwatch watch(warm_up, steps);
    for (long i = 0; i != warm_up + steps; ++i) {
      watch.step();
      optimizer.zero_grad();
      net->loss((*batches)[static_cast<std::size_t>(i % count)]).backward();
      optimizer.step();
    }
    auto const taken = watch.result();
    optimizer.keep(moments);
    return taken;
  });
}

Loop loader_loop() {
  auto const net = loader_net();
  return loop_of(net, [net](long warm_up, long steps, Moments& moments) {
    net->train();
    FlatAdam optimizer(net->parameters());
    auto const& [images, labels, source] = digits();
    fulgurite::data::Shuffle const shuffle{static_cast<std::size_t>(images.size(0)), shuffle_seed};
    Batch batch{torch::empty({loader_batch, images.size(1)}), torch::empty({loader_batch}, torch::kLong)};
    auto const batches = images.size(0) / loader_batch;
    auto const order = torch::empty({images.size(0)}, torch::kLong);
    Stopwatch watch(warm_up, steps);
    for (long i = 0; i != warm_up + steps; ++i) {
      watch.step();
      if (i % batches == 0) {
        auto const indices = shuffle.indices(i / batches);
        std::copy(indices.begin(), indices.end(), order.data_ptr<std::int64_t>());
      }
      auto const chosen = order.narrow(0, i % batches * loader_batch, loader_batch);
      at::index_select_out(batch.data, images, 0, chosen);
      at::index_select_out(batch.target, labels, 0, chosen);
      optimizer.zero_grad();
      net->loss(batch).backward();
      optimizer.step();
    }
    auto const taken = watch.result();
    optimizer.keep(moments);
    return taken;
  });
}

Loop sequence_loop() {
  auto const net = std::make_shared<Sequence>();
  auto const batches = std::make_shared<std::vector<Batch>>(sequences());
  return loop_of(net, [net, batches](long warm_up, long steps, Moments& moments) {
    net->train();
    FlatAdam optimizer(net->parameters());
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
    optimizer.keep(moments);
    return taken;
  });
}

Loop gan_loop() {
  auto const net = std::make_shared<Gan>();
  auto const batches = std::make_shared<std::vector<Batch>>(real_images());
  return loop_of(net, [net, batches](long warm_up, long steps, Moments& moments) {
    net->train();
    auto const discriminator = net->discriminator();
    FlatAdam g(net->generator()), d(discriminator);
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
    g.keep(moments);
    d.keep(moments);
    return taken;
  });
}

}  // namespace

Loops hand_tuned_loops() {
  auto const with_note = [](Loop loop) {
    loop.note = [] { return std::string("LibTorch's fused Adam rounds otherwise than its plain one"); };
    return loop;
  };
  Loops loops;
  for (auto const& workload : net_workloads())
    loops[workload.name] = [=, &workload] {
      return workload.rule == Rule::sgd ? net_loop<FlatSgd>(workload) : with_note(net_loop<FlatAdam>(workload));
    };
  loops["mnist-mlp-loader-adam"] = [=] { return with_note(loader_loop()); };
  loops["lstm-tbptt-adam"] = [=] { return with_note(sequence_loop()); };
  loops["gan-adam"] = [=] { return with_note(gan_loop()); };
  return loops;
}

}  // namespace bench
