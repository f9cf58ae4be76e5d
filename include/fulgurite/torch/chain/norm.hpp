#pragma once
// Norm layers. FLOPs: none counted.

#include <fulgurite/torch/chain/step.hpp>

namespace fulgurite {

/// The options of torch::nn::BatchNormOptions as a template argument: BatchNorm2d<64, BatchNormOptions{.momentum =
/// 0.01}>.
struct BatchNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = true, track_running_stats = true;
};

namespace chain {

/// What BatchNorm1d and BatchNorm2d have in common. `over` takes shapes of `least` to `most` dimensions, the first of
/// which has to be Features.
template <Extent Features, BatchNormOptions Options>
struct BatchNorm : BuiltIn {
  static constexpr bool keeps_shape = true;
  static constexpr Extent parameter_count = Options.affine ? 2 * Features : 0;

  static constexpr Step over(Shape in, int least, int most) {
    if (Features < 1) return refuse(Fault::extents);
    if (in.rank() < least) return refuse(Fault::rank, in.rank(), least);
    if (in.rank() > most) return refuse(Fault::rank, in.rank(), most);
    if (differ(in[0], Features)) return refuse(Fault::channels, in[0], Features);
    return {in.with(0, Features)};
  }
};

}  // namespace chain

/// Normalises a row of features, or the channels of a sequence (begin the chain with Input<channels, length> then).
template <chain::Extent Features, BatchNormOptions Options = {}>
struct BatchNorm1d : chain::BatchNorm<Features, Options> {
  static constexpr chain::Shape natural{Features};

  static constexpr chain::Step step(chain::Shape in) { return BatchNorm1d::over(in.known_rank() ? in : natural, 1, 2); }
};

/// Normalises the channels of images.
template <chain::Extent Features, BatchNormOptions Options = {}>
struct BatchNorm2d : chain::BatchNorm<Features, Options> {
  static constexpr chain::Shape natural{Features, chain::unknown, chain::unknown};

  static constexpr chain::Step step(chain::Shape in) { return BatchNorm2d::over(in.known_rank() ? in : natural, 3, 3); }
};

/// `LayerNorm<64>` normalises over the last dimension, `LayerNorm<8, 8>` over the last two, and so on; with scale and
/// shift.
template <chain::Extent... Extents>
struct LayerNorm : chain::BuiltIn {
  static constexpr bool keeps_shape = true;
  static constexpr chain::Extent parameter_count = 2 * (chain::Extent{1} * ... * Extents);
  static constexpr chain::Shape natural{Extents...};

  static constexpr chain::Step step(chain::Shape in) {
    if (sizeof...(Extents) == 0 || !(true && ... && (Extents > 0))) return chain::refuse(chain::Fault::extents);
    if (!in.known_rank()) in = natural;
    auto const before = in.rank() - natural.rank();
    if (before < 0) return chain::refuse(chain::Fault::rank, in.rank(), natural.rank());
    for (int i = 0; i < natural.rank(); ++i) {
      if (chain::differ(in[before + i], natural[i]))
        return chain::refuse(chain::Fault::features, in[before + i], natural[i]);
      in = in.with(before + i, natural[i]);
    }
    return {in};
  }
};

}  // namespace fulgurite
