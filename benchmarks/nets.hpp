#pragma once
// What is trained: nets and prepared batches, the same for all loops of a workload.
//
// The loss is virtual, so that a loop is compiled once and not once for each net. The call costs every kind of loop the
// same nanosecond.

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "workloads.hpp"

namespace bench {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using Batch = torch::data::Example<>;

struct Net : nn::Module {
  virtual torch::Tensor loss(Batch const& batch) = 0;
};

enum class Rule { sgd, adam };

/// A workload of prepared batches and one optimizer: loading is measured elsewhere.
struct NetWorkload {
  std::string name;
  Rule rule;
  std::shared_ptr<Net> (*net)();  ///< always with the same weights at first
  std::vector<Batch> (*batches)();
};
std::vector<NetWorkload> const& net_workloads();

/// LibTorch's optimizers, as all workloads use them. Others take these numbers from here.
inline constexpr double sgd_rate = 1e-2, sgd_momentum = 0.9, adam_rate = 1e-3;
struct Sgd {
  static auto make(nn::Module const& net) {
    return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(sgd_rate).momentum(sgd_momentum));
  }
};
struct Adam {
  static auto make(nn::Module const& net) {
    return torch::optim::Adam(net.parameters(), torch::optim::AdamOptions(adam_rate));
  }
};

/// What the optimizers of a run keep of their parameters, one parameter after the other.
using Moments = std::vector<torch::Tensor>;
/// Adds those of LibTorch's optimizers: zeros for a parameter that has none, since LibTorch makes them at its first
/// step, and an arena has them from the start.
void keep(Moments& moments, torch::optim::SGD const& optimizer);
void keep(Moments& moments, torch::optim::Adam const& optimizer);

/// Weights and buffers, byte by byte.
std::string bits_of(nn::Module const& net);
/// Of what ends with a run: moments, and the state that the CPU's generator is in now. A hash, since they are large.
std::string bits_of_run(Moments const& moments);

/// A loop over `body(warm_up, steps, moments)`, which trains `net` and says what its optimizers keep at the end; random
/// numbers are the same in each run.
template <class Body>
Loop loop_of(std::shared_ptr<nn::Module> net, Body body) {
  auto const run = std::make_shared<std::string>();
  return {.run =
              [body, run](long warm_up, long steps) {
                torch::manual_seed(3);
                Moments moments;
                auto const taken = body(warm_up, steps, moments);
                *run = bits_of_run(moments);
                return taken;
              },
          .bits = [net, run] { return bits_of(*net) + *run; }};
}

/// W5: an LSTM, 10 in, 20 hidden, over sequences of 100 steps of time with a class at each; trained in slices of 10.
struct Sequence : nn::Module {
  using Hidden = std::tuple<torch::Tensor, torch::Tensor>;
  struct Output {
    torch::Tensor loss;
    Hidden hidden;
  };
  static constexpr long time = 100, slice = 10;
  nn::LSTM lstm{nullptr};
  nn::Linear out{nullptr};

  Sequence();
  Output step(Batch const& slice, std::optional<Hidden> const& hidden);
};
std::vector<Batch> sequences();

/// W6: generator 64-128-784, discriminator 784-128-1, batch 64. Its random numbers are drawn in the step.
struct Gan : nn::Module {
  static constexpr long latent = 64;
  nn::Linear g1{nullptr}, g2{nullptr}, d1{nullptr}, d2{nullptr};

  Gan();
  torch::Tensor draw(long count);
  torch::Tensor judged(torch::Tensor const& images, double truth);
  std::vector<torch::Tensor> generator() const, discriminator() const;
};
std::vector<Batch> real_images();

/// W2 with a loader: images as rows of 784 numbers and their labels. MNIST where its files are ($FULGURITE_DATA,
/// data/mnist,
/// ../shared/data/mnist), else drawn digits.
struct Digits {
  torch::Tensor images, labels;
  std::string source;
};
Digits const& digits();
inline constexpr long loader_batch = 64;
inline constexpr std::uint64_t shuffle_seed = 1;
std::shared_ptr<Net> loader_net();

}  // namespace bench
