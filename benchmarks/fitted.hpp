#pragma once
// The workloads through fulgurite's trainer. `Set` says with which optimizers: `adam(parameters)` and
// `sgd(parameters)`.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/single_device.hpp>

#include "cycle.hpp"

namespace bench {

struct Watched {
  using Stateless = fulgurite::ByChoice;
  Stopwatch* watch;
  Moments* moments;
  void on_train_batch_start() { watch->step(); }
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      if constexpr (requires { optimizer.operator->(); }) keep(*moments, *optimizer.operator->());
      else
        for (auto const& parameter : optimizer.parameters())
          for (auto const& [name, tensor] : optimizer.state(parameter).tensors) moments->push_back(tensor);
    });
  }
};

template <class Set, Rule R>
struct NetModel : nn::Module {
  std::shared_ptr<Net> net;
  explicit NetModel(std::shared_ptr<Net> trained) : net(register_module("net", std::move(trained))) {}
  torch::Tensor training_step(Batch const& batch) { return net->loss(batch); }
  auto configure_optimizers() {
    if constexpr (R == Rule::sgd) return Set::sgd(net->parameters());
    else return Set::adam(net->parameters());
  }
};

template <class Set>
struct SequenceModel : nn::Module {
  using Hidden = Sequence::Hidden;
  std::shared_ptr<Sequence> net = register_module("net", std::make_shared<Sequence>());
  Sequence::Output training_step(Batch const& slice, std::optional<Hidden> const& hidden) {
    return net->step(slice, hidden);
  }
  auto configure_optimizers() { return Set::adam(net->parameters()); }
};

template <class Set>
struct GanModel : nn::Module {
  std::shared_ptr<Gan> net = register_module("net", std::make_shared<Gan>());
  auto configure_optimizers() {
    return fulgurite::optimizers(Set::adam(net->generator()), Set::adam(net->discriminator()));
  }
  void training_step(Batch const& batch, auto& ctx) {
    auto& [g, d] = ctx.optimizers();
    auto const fake = net->draw(batch.data.size(0));
    ctx.minimize(d, net->judged(batch.data, 0.9) + net->judged(fake.detach(), 0.0));
    auto const only_generator = ctx.toggle(g);
    g.zero_grad();
    ctx.backward(net->judged(fake, 1.0));
    ctx.step(g);
  }
};

/// One fit a run, of `options(steps)` with what `loader(steps)` makes; `steps` in batches, each of which is `slices`
/// steps.
template <class Model, class Strategy, class How, class Options, class Loader>
Loop fitted(std::shared_ptr<Model> model, Strategy strategy, How how, Options options, Loader loader, long slices = 1) {
  return loop_of(model->net, [=](long warm_up, long steps, Moments& moments) {
    Stopwatch watch(warm_up / slices, steps / slices);
    auto trainer = fulgurite::make_trainer<Model>(options(warm_up + steps), strategy, fulgurite::Float32{}, how,
                                                  Watched{&watch, &moments}, fulgurite::NoDefaults{});
    auto batches = loader((warm_up + steps) / slices);
    trainer.fit(*model, *batches);
    return watch.result() / static_cast<double>(slices);
  });
}

inline fulgurite::TrainerOptions one_epoch(long) { return {.max_epochs = 1}; }
inline fulgurite::TrainerOptions so_many_steps(long steps) { return {.max_steps = steps}; }

inline auto cycle(std::vector<Batch> batches) {
  return [held = std::make_shared<std::vector<Batch>>(std::move(batches))](long n) {
    return std::make_unique<Cycle>(*held, n);
  };
}

/// All workloads; `digits_loader(steps)` makes the loader of the digits.
template <class Set, class Strategy, class DigitsLoader>
Loops fitted_loops(std::function<Strategy()> const& strategy, DigitsLoader digits_loader,
                   std::function<void(Loop&, Strategy const&)> const& said = {}) {
  using fulgurite::Automatic;
  auto const with_note = [said](Strategy const& of, Loop loop) {
    if (said) said(loop, of);
    return loop;
  };
  Loops loops;
  for (auto const& workload : net_workloads())
    loops[workload.name] = [=, &workload] {
      auto const of = strategy();
      auto const loop = [&]<Rule R>() {
        return fitted(std::make_shared<NetModel<Set, R>>(workload.net()), of, Automatic{}, one_epoch,
                      cycle(workload.batches()));
      };
      return with_note(of, workload.rule == Rule::sgd ? loop.template operator()<Rule::sgd>()
                                                      : loop.template operator()<Rule::adam>());
    };
  loops["mnist-mlp-loader-adam"] = [=] {
    auto const of = strategy();
    return with_note(of, fitted(std::make_shared<NetModel<Set, Rule::adam>>(loader_net()), of, Automatic{},
                                so_many_steps, digits_loader));
  };
  loops["lstm-tbptt-adam"] = [=] {
    auto const of = strategy();
    return with_note(of, fitted(std::make_shared<SequenceModel<Set>>(), of, Automatic{.tbptt = Sequence::slice},
                                one_epoch, cycle(sequences()), Sequence::time / Sequence::slice));
  };
  loops["gan-adam"] = [=] {
    auto const of = strategy();
    return with_note(
        of, fitted(std::make_shared<GanModel<Set>>(), of, fulgurite::Manual{}, one_epoch, cycle(real_images())));
  };
  return loops;
}

}  // namespace bench
