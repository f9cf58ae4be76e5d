#pragma once
// Convolutions over one and two dimensions. A sample has its channels first.

#include <fulgurite/torch/chain/window.hpp>

namespace fulgurite {

// These options hold constants only, so that they can be template arguments: Conv2d<3, 16, 3, Conv2dOptions{.stride =
// 2, .padding = 1}>.
struct Conv1dOptions {
  chain::Extent stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
};
/// The same for images; each pair is height and width, and one number means both.
struct Conv2dOptions {
  Size2 stride = 1, padding = 0, dilation = 1;
  chain::Extent groups = 1;
  bool bias = true;
};

namespace chain {

/// The answer of a convolution to the shape of a sample: channels `from` to `to`, a window for each dimension after
/// them. Its work in FLOPs counts a multiplication and an addition apart, and no bias.
template <std::size_t N>
constexpr Step convolve(Shape in, Extent from, Extent to, Extent groups, std::array<Window, N> const& windows) {
  if (from < 1 || to < 1 || groups < 1) return refuse(Fault::extents);
  if (from % groups != 0 || to % groups != 0) return refuse(Fault::groups);
  auto step = slide(in, from, windows);
  if (step.fault != Fault::none) return step;
  step.out = step.out.with(0, to);
  step.flops = times(2 * (from / groups), step.out.elements());
  for (auto const& window : windows) step.flops = times(step.flops, window.kernel);
  return step;
}

}  // namespace chain

/// As torch::nn::Conv1d, padded with zeros. FLOPs: 2 Out (In / groups) Kernel for each place of the result; the bias is
/// not counted.
template <chain::Extent In, chain::Extent Out, chain::Extent Kernel, Conv1dOptions Options = {}>
struct Conv1d : chain::BuiltIn {
  static constexpr chain::Extent parameter_count =
      Out * (In / (Options.groups < 1 ? 1 : Options.groups)) * Kernel + (Options.bias ? Out : 0);
  static constexpr chain::Shape natural{In, chain::unknown};

  static constexpr chain::Step step(chain::Shape in) {
    constexpr std::array windows{chain::Window{Kernel, Options.stride, Options.padding, Options.dilation}};
    return chain::convolve(in, In, Out, Options.groups, windows);
  }
};

/// As torch::nn::Conv2d, padded with zeros. FLOPs: 2 Out (In / groups) times the kernel's height and width for each
/// place of the result; the bias is not counted.
template <chain::Extent In, chain::Extent Out, Size2 Kernel, Conv2dOptions Options = {}>
struct Conv2d : chain::BuiltIn {
  static constexpr chain::Extent parameter_count =
      Out * (In / (Options.groups < 1 ? 1 : Options.groups)) * Kernel.height * Kernel.width + (Options.bias ? Out : 0);
  static constexpr chain::Shape natural{In, chain::unknown, chain::unknown};

  static constexpr chain::Step step(chain::Shape in) {
    constexpr auto& o = Options;
    constexpr std::array windows{chain::Window{Kernel.height, o.stride.height, o.padding.height, o.dilation.height},
                                 chain::Window{Kernel.width, o.stride.width, o.padding.width, o.dilation.width}};
    return chain::convolve(in, In, Out, Options.groups, windows);
  }
};

}  // namespace fulgurite
