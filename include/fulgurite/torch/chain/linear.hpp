#pragma once
// Layers that count features: Linear, Embedding, Flatten; and Input, which tells a chain what it is given.

#include <fulgurite/torch/chain/step.hpp>

namespace fulgurite {

/// The shape of one sample, without the dimension of the batch. `Input<1, 28, 28>` as the first of a chain's types lets
/// the compiler check each extent. It is no layer: it has no index and costs nothing. Further on in a chain it asserts
/// the shape that is reached. Extents below 1 are refused.
template <chain::Extent... Extents>
struct Input : chain::BuiltIn {
  static constexpr bool keeps_shape = false;
  static constexpr chain::Extent parameter_count = 0;
  static constexpr chain::Shape natural = sizeof...(Extents) ? chain::Shape(Extents...) : chain::Shape::scalar();

  static constexpr chain::Step step(chain::Shape in) {
    if (!(true && ... && (Extents > 0))) return chain::refuse(chain::Fault::extents);
    if (!in.known_rank()) return {natural};
    if (in.rank() != natural.rank()) return chain::refuse(chain::Fault::rank, in.rank(), natural.rank());
    for (int i = 0; i < in.rank(); ++i)
      if (chain::differ(in[i], natural[i])) return chain::refuse(chain::Fault::features, in[i], natural[i]);
    return {natural};
  }
};

/// As torch::nn::Linear, over the last dimension. FLOPs: 2 In Out for each row; the bias is not counted.
template <chain::Extent In, chain::Extent Out, bool Bias = true>
struct Linear : chain::BuiltIn {
  static constexpr chain::Extent parameter_count = In * Out + (Bias ? Out : 0);
  static constexpr chain::Shape natural{In};

  static constexpr chain::Step step(chain::Shape in) {
    if (In < 1 || Out < 1) return chain::refuse(chain::Fault::extents);
    if (!in.known_rank()) in = natural;
    if (in.rank() < 1) return chain::refuse(chain::Fault::rank, in.rank(), 1);
    if (chain::differ(in.last(), In)) return chain::refuse(chain::Fault::features, in.last(), In);
    return {in.with_last(Out), chain::times(2 * In * Out, in.elements(0, in.rank() - 1))};
  }
};

/// As torch::nn::Embedding: Count vectors of length Features. Takes whole numbers, and gives one dimension more. FLOPs:
/// none, since it only looks up.
template <chain::Extent Count, chain::Extent Features>
struct Embedding : chain::BuiltIn {
  static constexpr chain::Extent parameter_count = Count * Features;
  static constexpr chain::Shape natural{chain::unknown};  // a sequence of tokens

  static constexpr chain::Step step(chain::Shape in) {
    if (Count < 1 || Features < 1) return chain::refuse(chain::Fault::extents);
    if (!in.known_rank()) in = natural;
    constexpr auto most = static_cast<int>(chain::Shape::most);
    if (in.rank() == most) return chain::refuse(chain::Fault::rank, most, most - 1);
    return {in.then(Features)};
  }
};

/// As torch::nn::Flatten: each sample becomes one row of features.
struct Flatten : chain::BuiltIn {
  static constexpr chain::Extent parameter_count = 0;

  static constexpr chain::Step step(chain::Shape in) {
    if (in.rank() == 0) return chain::refuse(chain::Fault::rank, 0, 1);
    return {chain::Shape{in.elements()}};
  }
};

}  // namespace fulgurite
