#pragma once
// The larger nets: a small character transformer and ResNet-18, written with LibTorch's own modules.

#include "nets.hpp"
#include "residual.hpp"

namespace bench {

/// A layer of W4: attention and two linear maps, each behind a normalization. The mask is causal.
struct TransformerLayerImpl : nn::Module {
  static constexpr long width = 128, heads = 4;
  nn::LayerNorm first = register_module("first", nn::LayerNorm(nn::LayerNormOptions({width}))),
                second = register_module("second", nn::LayerNorm(nn::LayerNormOptions({width})));
  nn::Linear qkv = register_module("qkv", nn::Linear(width, 3 * width)),
             mix = register_module("mix", nn::Linear(width, width)),
             wide = register_module("wide", nn::Linear(width, 4 * width)),
             narrow = register_module("narrow", nn::Linear(4 * width, width));

  torch::Tensor forward(torch::Tensor const& x) {
    auto const parts = qkv(first(x)).unflatten(2, {3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto const seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    auto const mixed = x + mix(seen.transpose(1, 2).flatten(2));
    return mixed + narrow(torch::gelu(wide(second(mixed))));
  }
};
TORCH_MODULE(TransformerLayer);

/// W4: 4 layers, 4 heads, width 128, block 64, 65 characters.
struct CharGpt : Net {
  static constexpr long characters = 65, block = 64, layers = 4, width = TransformerLayerImpl::width;
  nn::Embedding letters = register_module("letters", nn::Embedding(characters, width)),
                places = register_module("places", nn::Embedding(block, width));
  std::vector<TransformerLayer> body;
  nn::LayerNorm last = register_module("last", nn::LayerNorm(nn::LayerNormOptions({width})));
  nn::Linear head = register_module("head", nn::Linear(width, characters));
  torch::Tensor numbers = register_buffer("numbers", torch::arange(block));

  CharGpt() {
    for (long i = 0; i != layers; ++i) body.push_back(register_module("layer" + std::to_string(i), TransformerLayer()));
  }
  torch::Tensor loss(Batch const& b) override {
    auto x = letters(b.data) + places(numbers);
    for (auto& layer : body) x = layer(x);
    return F::cross_entropy(head(last(x)).flatten(0, 1), b.target.flatten());
  }
  static std::vector<Batch> batches() {
    torch::manual_seed(2);
    std::vector<Batch> batches;
    for (int i = 0; i != 8; ++i) {
      auto const text = torch::randint(characters, {12, block + 1}, torch::kLong);
      batches.push_back({text.narrow(1, 0, block).contiguous(), text.narrow(1, 1, block).contiguous()});
    }
    return batches;
  }
};

/// W3: ResNet-18 with torchvision's layers, on 3x32x32, ten classes.
struct ResNet18 : Net {
  nn::Conv2d stem = register_module("stem", ResidualImpl::convolution(3, 64, 7, 2));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(64));
  std::vector<Residual> body;
  nn::Linear head = register_module("head", nn::Linear(512, 10));

  ResNet18() {
    long in = 64;
    for (long const out : {64, 128, 256, 512})
      for (int i = 0; i != 2; ++i) {
        body.push_back(register_module("block" + std::to_string(body.size()), Residual(in, out, in == out ? 1 : 2)));
        in = out;
      }
  }
  torch::Tensor loss(Batch const& b) override {
    auto x = torch::max_pool2d(torch::relu(norm(stem(b.data))), 3, 2, 1);
    for (auto& block : body) x = block(x);
    return F::cross_entropy(head(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1)), b.target);
  }
};

}  // namespace bench
