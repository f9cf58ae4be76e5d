#pragma once
// The block of ResNet-18, for the nets of the CPU and of the GPU.

#include <torch/torch.h>

namespace bench {

struct ResidualImpl : torch::nn::Module {
  torch::nn::Conv2d one, two, side{nullptr};
  torch::nn::BatchNorm2d norm1, norm2, side_norm{nullptr};

  static torch::nn::Conv2d convolution(long in, long out, long size, long stride) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
  }
  ResidualImpl(long in, long out, long stride)
      : one(register_module("one", convolution(in, out, 3, stride))),
        two(register_module("two", convolution(out, out, 3, 1))),
        norm1(register_module("norm1", torch::nn::BatchNorm2d(out))),
        norm2(register_module("norm2", torch::nn::BatchNorm2d(out))) {
    if (stride == 1) return;
    side = register_module("side", convolution(in, out, 1, stride));
    side_norm = register_module("side_norm", torch::nn::BatchNorm2d(out));
  }
  torch::Tensor forward(torch::Tensor const& x) {
    auto const y = norm2(two(torch::relu(norm1(one(x)))));
    return torch::relu(y + (side.is_empty() ? x : side_norm(side(x))));
  }
};
TORCH_MODULE(Residual);

}  // namespace bench
