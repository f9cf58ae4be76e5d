// Two processes over gloo: the strategy of the library against the loop that c10d's user writes by hand, step by step
// in the same pair of processes. What is sent in a step is counted.
//   gloo [--quick] [--json FILE] [--commit HASH]
//   gloo --one LOOP WORKLOAD STEPS: that loop alone, untimed, for who counts its instructions

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/distributed/connection.hpp>
#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>

#include "fitted.hpp"
#include "our_set.hpp"
#include "results.hpp"
#include <sys/socket.h>

namespace {

using namespace bench;
namespace distributed = fulgurite::distributed;
using Strategy = fulgurite::DistributedDataParallel;

/// As `Ours`, with LibTorch's optimizers.
struct LibTorchs {
  static auto sgd(std::vector<torch::Tensor> parameters) {
    return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(sgd_rate).momentum(sgd_momentum));
  }
  static auto adam(std::vector<torch::Tensor> parameters) {
    return torch::optim::Adam(std::move(parameters), torch::optim::AdamOptions(adam_rate));
  }
};

/// Every second batch.
std::vector<Batch> own_batches(NetWorkload const& workload, distributed::Place const& place) {
  std::vector<Batch> own;
  auto const all = workload.batches();
  for (auto i = static_cast<std::size_t>(place.rank); i < all.size(); i += static_cast<std::size_t>(place.world))
    own.push_back(all[i]);
  return own;
}

/// Gradients are copied into one tensor, which is summed, and back.
template <class Optimizer>
Loop by_hand(NetWorkload const& workload, distributed::Engine const& engine, distributed::Place const& place) {
  auto const net = workload.net();
  auto const batches = std::make_shared<std::vector<Batch>>(own_batches(workload, place));
  return loop_of(net, [net, batches, engine, share = 1.0 / place.world](long warm_up, long steps, Moments& moments) {
    net->train();
    auto optimizer = Optimizer::make(*net);
    auto const parameters = net->parameters();
    std::int64_t size = 0;
    for (auto const& parameter : parameters) size += parameter.numel();
    std::vector<torch::Tensor> flat{torch::empty({size})};
    Stopwatch watch(warm_up, steps);
    for (long i = 0; i != warm_up + steps; ++i) {
      watch.step();
      optimizer.zero_grad();
      auto loss = net->loss((*batches)[static_cast<std::size_t>(i) % batches->size()]);
      loss.backward();
      {
        torch::NoGradGuard const no_graph;
        std::int64_t at = 0;
        for (auto const& parameter : parameters) {
          flat[0].narrow(0, at, parameter.numel()).view(parameter.sizes()).copy_(parameter.grad());
          at += parameter.numel();
        }
        engine->allreduce(flat)->wait();
        flat[0].mul_(share);
        at = 0;
        for (auto const& parameter : parameters) {
          parameter.grad().copy_(flat[0].narrow(0, at, parameter.numel()).view(parameter.sizes()));
          at += parameter.numel();
        }
      }
      optimizer.step();
    }
    auto const taken = watch.result();
    keep(moments, optimizer);
    return taken;
  });
}

/// The same through the trainer; says what its last run has sent.
template <class Set, Rule R>
Loop by_strategy(NetWorkload const& workload, Strategy const& strategy) {
  auto& group = strategy.group();
  auto const loader = [cycle = cycle(own_batches(workload, group.place()))](long n) {
    auto made = cycle(n);
    return std::make_unique<decltype(fulgurite::data::of_this_rank(std::move(*made)))>(
        fulgurite::data::of_this_rank(std::move(*made)));
  };
  auto loop =
      fitted(std::make_shared<NetModel<Set, R>>(workload.net()), strategy, fulgurite::Automatic{}, one_epoch, loader);
  auto const said = std::make_shared<std::string>();
  loop.run = [run = std::move(loop.run), &group, said](long warm_up, long steps) {
    auto const before = group.traffic();
    auto const result = run(warm_up, steps);
    auto const now = group.traffic();
    auto const count = static_cast<double>(warm_up + steps);
    char text[200];
    std::snprintf(text, sizeof text,
                  "%.3f all-reduces (%.3f of them begun in backward) and %.0f bytes a step; %ld other messages and %ld "
                  "broadcasts a fit",
                  static_cast<double>(now.all_reduces - before.all_reduces) / count,
                  static_cast<double>(now.in_backward - before.in_backward) / count,
                  static_cast<double>(now.all_reduce_bytes - before.all_reduce_bytes) / count,
                  now.exchanges - before.exchanges, now.broadcasts - before.broadcasts);
    *said = text;
    return result;
  };
  loop.note = [said] { return *said; };
  return loop;
}

template <Rule R, class Optimizer>
std::vector<std::pair<std::string, Loop>> variants(NetWorkload const& workload, distributed::Engine const& engine,
                                                   Strategy const& strategy) {
  auto const& place = strategy.group().place();
  return {{"by hand", by_hand<Optimizer>(workload, engine, place)},
          {"by hand again", by_hand<Optimizer>(workload, engine, place)},
          {"strategy", by_strategy<LibTorchs, R>(workload, strategy)},
          {"strategy, fast", by_strategy<Ours, R>(workload, strategy)}};
}

/// Eight layers of 1024 by 1024, 33.6 MB of gradients, on batches of 32: the size of the buckets in turns.
struct Wide : Net {
  nn::Sequential layers = register_module("layers", nn::Sequential());

  Wide() {
    for (int i = 0; i != 8; ++i) {
      layers->push_back(nn::Linear(1024, 1024));
      layers->push_back(nn::Tanh());
    }
  }
  torch::Tensor loss(Batch const& batch) override { return F::mse_loss(layers->forward(batch.data), batch.target); }
};
NetWorkload wide() {
  return {"wide-mlp-sgd", Rule::sgd,
          [] {
            torch::manual_seed(1);
            return std::shared_ptr<Net>(std::make_shared<Wide>());
          },
          [] {
            torch::manual_seed(2);
            std::vector<Batch> made;
            for (int i = 0; i != 8; ++i) made.emplace_back(torch::randn({32, 1024}), torch::randn({32, 1024}));
            return made;
          }};
}
std::vector<std::pair<std::string, Loop>> sizes_of_buckets(NetWorkload const& workload, Strategy const& strategy) {
  std::vector<std::pair<std::string, Loop>> all;
  for (double const size : {0, 1, 5, 25}) {
    auto with = strategy;
    with.bucket_cap_mb = size;
    auto const name = size == 0 ? "after backward" : "buckets of " + std::to_string(static_cast<int>(size)) + " MiB";
    all.emplace_back(name, by_strategy<Ours, Rule::sgd>(workload, with));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  std::string json, commit = "unknown", loop, only;
  long steps = 0;
  for (int i = 1; i != argc; ++i) {
    std::string_view const word = argv[i];
    if (word == "--quick") quick = true;
    else if (word == "--json" && i + 1 != argc) json = argv[++i];
    else if (word == "--commit" && i + 1 != argc) commit = argv[++i];
    else if (word == "--one" && i + 3 < argc) {
      loop = argv[++i];
      only = argv[++i];
      steps = std::atol(argv[++i]);
    } else {
      std::fprintf(stderr, "'%s': known are --quick, --json FILE, --commit HASH and --one LOOP WORKLOAD STEPS\n",
                   argv[i]);
      return 2;
    }
  }
  Results results{commit, first_of("/proc/cpuinfo", "model name"), kind_of_processor(), prepare_libtorch(1),
                  first_of("/proc/loadavg", "")};
  Strategy const strategy{.backend = fulgurite::Collectives::gloo,
                          .devices = 2,
                          .others = fulgurite::OtherRanks::silent,
                          .matmul = fulgurite::Matmul::libtorch};
  auto const& place = strategy.group().place();
  auto const limit = std::chrono::minutes(1);
  auto const keys = c10::make_intrusive<c10d::PrefixStore>("by hand", distributed::connect(place, limit));
  auto const engine = distributed::gloo_engine(keys, place, limit);
  if (steps == 0) print_head(results);
  bool good = true;
  for (auto const& workload : net_workloads()) {
    if (workload.name != "tiny-mlp-sgd" && workload.name != "mnist-mlp-sgd" && workload.name != "mnist-mlp-adam")
      continue;
    auto const loops = workload.rule == Rule::sgd ? variants<Rule::sgd, Sgd>(workload, engine, strategy)
                                                  : variants<Rule::adam, Adam>(workload, engine, strategy);
    if (steps != 0) {
      for (auto const& [name, one] : loops)
        if (name == loop && workload.name == only) return one.run(0, steps), 0;
      continue;
    }
    auto const& measured =
        results.measured.emplace_back(workload.name, measure(loops, 100, quick ? 200 : 1500, quick ? 3 : 11));
    print(measured);
    auto const& rows = measured.rows;
    // Whether the bar is met is counted in instructions (tools/bench/gloo_counted.py): most of a step's time is spent
    // waiting for the other process, and on a virtual machine that is as long as waking it takes.
    std::printf("    strategy over by hand: %.3f (two equal loops: %.3f)\n", rows[2].least() / rows[0].least(),
                rows[1].least() / rows[0].least());
    good = good && rows[2].same_bits;
  }
  if (steps != 0) return std::fprintf(stderr, "no loop '%s' of '%s'\n", loop.c_str(), only.c_str()), 2;
  auto const large = wide();
  print(results.measured.emplace_back(large.name,
                                      measure(sizes_of_buckets(large, strategy), 3, quick ? 10 : 30, quick ? 5 : 11)));
  if (!json.empty() && place.rank == 0) write(json, results);
  return good ? 0 : 1;
}
