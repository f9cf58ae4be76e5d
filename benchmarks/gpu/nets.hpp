#pragma once
// Six nets for a GPU, from one that waits for the host to one that keeps the card busy. with_pytorch.py has the same.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <fulgurite/torch/device/modules.hpp>

#include "../residual.hpp"

namespace bench {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using Batch = torch::data::Example<>;
using fulgurite::modules::Linear;  // as Python's computes; torch::nn::Linear takes another pass for its bias

/// The loss is virtual, so that each loop is compiled once and not once for each net.
struct Net : nn::Module {
  virtual torch::Tensor loss(Batch const& batch) = 0;
};

struct Mlp : Net {
  Linear one = register_module("one", Linear(784, 128)), two = register_module("two", Linear(128, 128)),
         three = register_module("three", Linear(128, 10));
  torch::Tensor loss(Batch const& b) override {
    return F::cross_entropy(three(torch::relu(two(torch::relu(one(b.data.flatten(1)))))), b.target);
  }
};

struct Cnn : Net {
  nn::Conv2d one = register_module("one", nn::Conv2d(1, 32, 3)), two = register_module("two", nn::Conv2d(32, 64, 3));
  Linear three = register_module("three", Linear(64 * 5 * 5, 128)), four = register_module("four", Linear(128, 10));
  torch::Tensor loss(Batch const& b) override {
    auto x = torch::max_pool2d(torch::relu(one(b.data)), 2);
    x = torch::max_pool2d(torch::relu(two(x)), 2);
    return F::cross_entropy(four(torch::relu(three(x.flatten(1)))), b.target);
  }
};

/// A layer of a transformer: attention and two linear maps, each behind a normalization. The mask is causal.
struct LayerImpl : nn::Module {
  std::int64_t heads;
  nn::LayerNorm first, second;
  Linear qkv, mix, wide, narrow;
  LayerImpl(std::int64_t width, std::int64_t heads_in_it)
      : heads(heads_in_it),
        first(register_module("first", nn::LayerNorm(nn::LayerNormOptions({width})))),
        second(register_module("second", nn::LayerNorm(nn::LayerNormOptions({width})))),
        qkv(register_module("qkv", Linear(width, 3 * width))),
        mix(register_module("mix", Linear(width, width))),
        wide(register_module("wide", Linear(width, 4 * width))),
        narrow(register_module("narrow", Linear(4 * width, width))) {}
  torch::Tensor forward(torch::Tensor const& x) {
    auto const parts = qkv(first(x)).unflatten(2, {3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto const seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    auto const mixed = x + mix(seen.transpose(1, 2).flatten(2));
    return mixed + narrow(torch::gelu(wide(second(mixed))));
  }
};
TORCH_MODULE(Layer);

constexpr std::int64_t characters = 96;

struct Gpt : Net {
  nn::Embedding letters, places;
  nn::Sequential body = register_module("body", nn::Sequential());
  Linear head;
  torch::Tensor numbers;
  Gpt(std::int64_t width, std::int64_t heads, int layers, std::int64_t block)
      : letters(register_module("letters", nn::Embedding(characters, width))),
        places(register_module("places", nn::Embedding(block, width))),
        head(register_module("head", Linear(width, characters))),
        numbers(register_buffer("numbers", torch::arange(block))) {
    for (int i = 0; i != layers; ++i) body->push_back(Layer(width, heads));
    body->push_back(nn::LayerNorm(nn::LayerNormOptions({width})));
  }
  torch::Tensor loss(Batch const& b) override {
    auto const x = body->forward(letters(b.data) + places(numbers));
    return F::cross_entropy(head(x).flatten(0, 1), b.target.flatten());
  }
};

/// ResNet-18 for images of 32x32: a stem of 3x3 without pooling.
struct ResNet18 : Net {
  nn::Sequential body = register_module("body", nn::Sequential());
  Linear head = register_module("head", Linear(512, 10));
  ResNet18() {
    body->push_back(ResidualImpl::convolution(3, 64, 3, 1));
    body->push_back(nn::BatchNorm2d(64));
    body->push_back(nn::ReLU());
    std::int64_t in = 64;
    for (std::int64_t const out : {64, 128, 256, 512}) {
      body->push_back(Residual(in, out, in == out ? 1 : 2));
      body->push_back(Residual(out, out, 1));
      in = out;
    }
  }
  torch::Tensor loss(Batch const& b) override {
    return F::cross_entropy(head(body->forward(b.data).mean({2, 3})), b.target);
  }
};

/// `bf16`: under autocast. `steps`: those that are timed, after `warm_up`; `more` times as many where they are
/// captured.
struct Workload {
  std::string name;
  bool bf16;
  long warm_up, steps, more;
  std::function<std::shared_ptr<Net>()> net;
  std::function<Batch()> batch;
};

inline std::vector<Workload> workloads() {
  auto const images = [](std::int64_t rows, std::int64_t channels, std::int64_t size) {
    return [=] {
      return Batch{torch::randn({rows, channels, size, size}).cuda(), torch::randint(10, {rows}, torch::kLong).cuda()};
    };
  };
  auto const text = [](std::int64_t rows, std::int64_t block) {
    auto const draw = [=] { return torch::randint(characters, {rows, block}, torch::kLong).cuda(); };
    return [=] { return Batch{draw(), draw()}; };
  };
  auto const small = [] { return std::make_shared<Gpt>(128, 4, 4, 64); };
  auto const nano = [] { return std::make_shared<Gpt>(384, 6, 6, 256); };
  return {{"mlp", false, 200, 800, 8, [] { return std::make_shared<Mlp>(); }, images(64, 1, 28)},
          {"cnn", false, 200, 400, 8, [] { return std::make_shared<Cnn>(); }, images(64, 1, 28)},
          {"char-gpt", false, 100, 200, 8, small, text(12, 64)},
          {"char-gpt-bf16", true, 100, 200, 8, small, text(12, 64)},
          {"nanogpt-bf16", true, 50, 60, 8, nano, text(64, 256)},
          {"resnet18-bf16", true, 50, 60, 8, [] { return std::make_shared<ResNet18>(); }, images(128, 3, 32)}};
}

}  // namespace bench
