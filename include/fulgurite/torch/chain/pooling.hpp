#pragma once
// Pools over images; they have nothing to learn. FLOPs: none counted.

#include <fulgurite/torch/chain/window.hpp>

namespace fulgurite {

/// Options as a template argument: MaxPool2d<3, Pool2dOptions{.stride = 2, .padding = 1}>.
struct Pool2dOptions {
  Size2 stride = 0;  ///< 0: the window's own size
  Size2 padding = 0;
};

namespace chain {

/// What MaxPool2d and AvgPool2d have in common: the shape that they give. No FLOPs are counted.
template <Size2 Kernel, Pool2dOptions Options>
struct Pool2d : BuiltIn {
  static constexpr Size2 stride{Options.stride.height ? Options.stride.height : Kernel.height,
                                Options.stride.width ? Options.stride.width : Kernel.width};
  static constexpr Extent parameter_count = 0;
  static constexpr Shape natural{unknown, unknown, unknown};

  static constexpr Step step(Shape in) {
    constexpr std::array windows{Window{Kernel.height, stride.height, Options.padding.height, 1},
                                 Window{Kernel.width, stride.width, Options.padding.width, 1}};
    if (2 * Options.padding.height > Kernel.height || 2 * Options.padding.width > Kernel.width)
      return refuse(Fault::padding);
    return slide(in, 0, windows);
  }
};

}  // namespace chain

/// These are as those of torch::nn.
template <Size2 Kernel, Pool2dOptions Options = {}>
struct MaxPool2d : chain::Pool2d<Kernel, Options> {};
/// The mean over each window, in place of the greatest.
template <Size2 Kernel, Pool2dOptions Options = {}>
struct AvgPool2d : chain::Pool2d<Kernel, Options> {};

/// Brings images of any size to the size Out: `AdaptiveAvgPool2d<1>` gives the mean of each channel.
template <Size2 Out>
struct AdaptiveAvgPool2d : chain::BuiltIn {
  static constexpr chain::Extent parameter_count = 0;
  static constexpr chain::Shape natural{chain::unknown, chain::unknown, chain::unknown};

  static constexpr chain::Step step(chain::Shape in) {
    if (Out.height < 1 || Out.width < 1) return chain::refuse(chain::Fault::extents);
    if (!in.known_rank()) in = natural;
    if (in.rank() != 3) return chain::refuse(chain::Fault::rank, in.rank(), 3);
    return {in.with(1, Out.height).with(2, Out.width)};
  }
};

}  // namespace fulgurite
