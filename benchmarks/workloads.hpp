#pragma once
// The nets and the data of the workloads; every kind of loop trains these.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "protocol.hpp"

namespace bench {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using Batch = torch::data::Example<>;

/// Prepared batches, the same for all loops of a workload: loading is measured elsewhere.
inline std::vector<Batch> classes(std::vector<std::int64_t> shape, std::int64_t count) {
  torch::manual_seed(2);
  std::vector<Batch> batches;
  for (int i = 0; i != 32; ++i) batches.push_back({torch::randn(shape), torch::randint(count, {shape[0]}, torch::kLong)});
  return batches;
}

/// W1: 32-32-32-2, batch 8.
struct TinyMlp : nn::Module {
  nn::Linear one = register_module("one", nn::Linear(32, 32)), two = register_module("two", nn::Linear(32, 32)),
             three = register_module("three", nn::Linear(32, 2));
  torch::Tensor loss(Batch const& b) { return F::cross_entropy(three(torch::relu(two(torch::relu(one(b.data))))), b.target); }
  static std::vector<Batch> batches() { return classes({8, 32}, 2); }
  static constexpr long steps = 1500;
};

/// W2: 784-128-128-10, batch 64.
struct MnistMlp : nn::Module {
  nn::Linear one = register_module("one", nn::Linear(784, 128)), two = register_module("two", nn::Linear(128, 128)),
             three = register_module("three", nn::Linear(128, 10));
  torch::Tensor loss(Batch const& b) { return F::cross_entropy(three(torch::relu(two(torch::relu(one(b.data))))), b.target); }
  static std::vector<Batch> batches() { return classes({64, 784}, 10); }
  static constexpr long steps = 1500;
};

/// W2: the classic two-convolution net of MNIST without its dropout, batch 16.
struct MnistCnn : nn::Module {
  nn::Conv2d one = register_module("one", nn::Conv2d(1, 16, 3)), two = register_module("two", nn::Conv2d(16, 32, 3));
  nn::Linear three = register_module("three", nn::Linear(32 * 5 * 5, 64)), four = register_module("four", nn::Linear(64, 10));
  torch::Tensor loss(Batch const& b) {
    auto x = torch::max_pool2d(torch::relu(one(b.data)), 2);
    x = torch::max_pool2d(torch::relu(two(x)), 2);
    return F::cross_entropy(four(torch::relu(three(x.flatten(1)))), b.target);
  }
  static std::vector<Batch> batches() { return classes({16, 1, 28, 28}, 10); }
  static constexpr long steps = 300;
};

/// W5: an LSTM, 10 in, 20 hidden, slices of 10 steps of time, batch 8. The slices are separate here.
struct Lstm : nn::Module {
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(10, 20).batch_first(true)));
  nn::Linear out = register_module("out", nn::Linear(20, 2));
  torch::Tensor loss(Batch const& b) { return F::cross_entropy(out(std::get<0>(lstm(b.data)).select(1, -1)), b.target); }
  static std::vector<Batch> batches() { return classes({8, 10, 10}, 2); }
  static constexpr long steps = 500;
};

/// W7: linear regression, batch 1.
struct Regression : nn::Module {
  nn::Linear line = register_module("line", nn::Linear(1, 1));
  torch::Tensor loss(Batch const& b) { return F::mse_loss(line(b.data), b.target); }
  static std::vector<Batch> batches() {
    torch::manual_seed(2);
    std::vector<Batch> batches;
    for (int i = 0; i != 32; ++i) {
      auto const x = torch::randn({1, 1});
      batches.push_back({x, 2 * x + 1});
    }
    return batches;
  }
  static constexpr long steps = 1500;
};

struct Sgd {
  static auto make(std::vector<torch::Tensor> parameters) {
    return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(1e-2).momentum(0.9));
  }
};
struct Adam {
  static auto make(std::vector<torch::Tensor> parameters) { return torch::optim::Adam(std::move(parameters), torch::optim::AdamOptions(1e-3)); }
};

template <class N, class O>
struct Workload {
  using Net = N;
  using Optimizer = O;
  std::string name;
};

/// f(workload) for each.
template <class Visit>
void each_workload(Visit&& f) {
  f(Workload<TinyMlp, Sgd>{"tiny-mlp-sgd"});
  f(Workload<TinyMlp, Adam>{"tiny-mlp-adam"});
  f(Workload<MnistMlp, Sgd>{"mnist-mlp-sgd"});
  f(Workload<MnistMlp, Adam>{"mnist-mlp-adam"});
  f(Workload<MnistCnn, Adam>{"mnist-cnn-adam"});
  f(Workload<Lstm, Adam>{"lstm-adam"});
  f(Workload<Regression, Sgd>{"regression-sgd"});
}

/// The net of a workload, always with the same weights at first.
template <class Net>
Net seeded() {
  torch::manual_seed(1);
  return Net();
}

inline std::vector<float> weights_of(nn::Module const& net) {
  std::vector<float> all;
  for (auto const& p : net.parameters()) {
    auto const flat = p.detach().flatten().contiguous();
    all.insert(all.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return all;
}

/// n batches, from the prepared ones over and over: what a trainer is given as its loader.
class Cycle {
 public:
  using value_type = Batch;
  Cycle(std::vector<Batch>& batches, long n) : batches_(batches), n_(n) {}
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = Batch;
    std::vector<Batch>* batches;
    long at;
    Batch& operator*() const { return (*batches)[static_cast<std::size_t>(at) % batches->size()]; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    void operator++(int) { ++at; }
    bool operator==(Iterator const& other) const { return at == other.at; }
  };
  Iterator begin() { return {&batches_, 0}; }
  Iterator end() { return {&batches_, n_}; }
  std::size_t size() const { return static_cast<std::size_t>(n_); }

 private:
  std::vector<Batch>& batches_;
  long n_;
};

Loops raw_loops();      ///< raw.cpp
Loops trainer_loops();  ///< trainer.cpp
Loops twin_loops();     ///< twin.cpp

}  // namespace bench
