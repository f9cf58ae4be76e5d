#pragma once
// The layer types that a chain is made of.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace fulgurite::chain {

// The shape of one sample as a constant: what a layer takes and gives. A batch adds a dimension in front, which no
// shape here has.

/// How many numbers a shape has along a dimension, such as channels or pixels; also counts of parameters and FLOPs.
using Extent = std::int64_t;

/// An extent or a count that the types do not tell, as the height of an image without `Input<...>`.
inline constexpr Extent unknown = -1;

/// `Shape{3, 28, 28}`: three channels of 28 by 28. A default one is of unknown rank.
class Shape {
 public:
  static constexpr std::size_t most = 8;  ///< dimensions beside the batch's

  constexpr Shape() = default;
  constexpr Shape(std::integral auto... extents)
    requires(sizeof...(extents) <= most)
      : rank_(static_cast<int>(sizeof...(extents))), extents_{static_cast<Extent>(extents)...} {}
  /// A sample that is one number, such as a token.
  static constexpr Shape scalar() {
    Shape one;
    one.rank_ = 0;
    return one;
  }

  constexpr bool known_rank() const { return rank_ >= 0; }
  constexpr int rank() const { return rank_; }
  constexpr Extent operator[](int i) const { return extents_[static_cast<std::size_t>(i)]; }
  constexpr Extent last() const { return rank_ > 0 ? (*this)[rank_ - 1] : unknown; }
  constexpr Shape with(int i, Extent extent) const {
    auto other = *this;
    other.extents_[static_cast<std::size_t>(i)] = extent;
    return other;
  }
  constexpr Shape with_last(Extent extent) const { return with(rank_ - 1, extent); }
  /// The shape with one dimension more. There are at most `most`, which the caller checks.
  constexpr Shape then(Extent extent) const {
    auto other = *this;
    other.extents_[static_cast<std::size_t>(other.rank_++)] = extent;
    return other;
  }

  /// The product of the extents [from, to); unknown if one of them is.
  constexpr Extent elements(int from, int to) const {
    if (!known_rank()) return unknown;
    Extent all = 1;
    for (int i = from; i < to; ++i) {
      if ((*this)[i] == unknown) return unknown;
      all *= (*this)[i];
    }
    return all;
  }
  constexpr Extent elements() const { return elements(0, rank_); }

  friend constexpr bool operator==(Shape const&, Shape const&) = default;

 private:
  int rank_ = -1;
  std::array<Extent, most> extents_{};
};

/// Whether two extents are both known and differ.
constexpr bool differ(Extent a, Extent b) { return a != unknown && b != unknown && a != b; }

/// A product of counts, unknown if one of them is.
constexpr Extent times(Extent a, Extent b) { return a == unknown || b == unknown ? unknown : a * b; }
/// A sum of counts, unknown if one of them is.
constexpr Extent plus(Extent a, Extent b) { return a == unknown || b == unknown ? unknown : a + b; }

}  // namespace fulgurite::chain

namespace fulgurite {

/// A height and a width, as of a kernel, a stride or a padding. One number stands for both: `Conv2d<1, 8, 3>`,
/// `Conv2d<1, 8, Size2{3, 5}>`.
struct Size2 {
  chain::Extent height, width;

  constexpr Size2(std::integral auto both) : height(both), width(both) {}
  constexpr Size2(std::integral auto high, std::integral auto wide) : height(high), width(wide) {}
  friend constexpr bool operator==(Size2, Size2) = default;
};

}  // namespace fulgurite

namespace fulgurite::chain {

/// What is wrong with a layer, or with two that follow each other. Each but `none` has a refusal in chain/shapes.hpp.
enum class Fault : std::uint8_t {
  none,
  empty,     ///< no layer at all
  layer,     ///< something that is no layer
  extents,   ///< a layer of a size below 1, a stride of 0, a negative padding
  rate,      ///< a dropout's
  groups,    ///< that do not divide the channels
  padding,   ///< of a pool, beyond half its window
  features,  ///< two layers, two numbers
  channels,
  rank,
  window,    ///< larger than what it slides over
  residual,  ///< a branch that gives another shape than it takes
};

/// Which layer is meant: its position and, if chains are nested, the position inside of it.
struct Path {
  static constexpr std::size_t most = 8;
  std::array<int, most> index{};
  std::size_t depth = 0;

  constexpr Path inside(int outer) const {
    Path longer;
    longer.index[0] = outer;
    for (std::size_t i = 0; i + 1 < most && i < depth; ++i) longer.index[i + 1] = index[i];
    longer.depth = std::min(depth + 1, most);
    return longer;
  }
};

/// The answer of `step(shape)`. A layer fills `out` and `flops`, or gives `refuse(...)`; the rest is filled by the
/// chain.
struct Step {
  Shape out{};
  Extent flops = 0;  ///< forward, of one sample
  Fault fault = Fault::none;
  Extent gives = 0, takes = 0;  ///< the two numbers that disagree
  Path at{}, giver{};           ///< the layer that is wrong, and the one whose number it does not take
};

/// What a layer's `step` returns where it does not take a shape: the fault, and the two numbers that disagree.
constexpr Step refuse(Fault fault, Extent gives = 0, Extent takes = 0) {
  return {.fault = fault, .gives = gives, .takes = takes};
}

/// Marks a layer whose module chain/chain.hpp knows.
struct BuiltIn {};

/// What a layer declares: how many trainable numbers it has, and what it makes of a shape. Optional are `keeps_shape`,
/// true for a layer that works on each number alone, and `natural`, the shape that it takes if no other layer and no
/// Input tells. A layer of your own names its LibTorch module, too, which is made without arguments: `using Module =
/// ScaleImpl;`.
template <class L>
concept Layer = (std::derived_from<L, BuiltIn> || requires { typename L::Module; }) && requires(Shape shape) {
  { L::parameter_count } -> std::convertible_to<Extent>;
  { L::step(shape) } -> std::same_as<Step>;
};

/// Whether a layer gives the shape that it takes, whatever that is.
template <class L>
constexpr bool keeps_shape() {
  if constexpr (requires { L::keeps_shape; }) return L::keeps_shape;
  else return false;
}

// How many places a window finds along one dimension.

/// A window along one dimension, with stride, padding and dilation.
struct Window {
  Extent kernel, stride, padding, dilation;

  constexpr bool sane() const { return kernel > 0 && stride > 0 && padding >= 0 && dilation > 0; }
  /// The least extent in which it fits.
  constexpr Extent least() const { return std::max<Extent>(dilation * (kernel - 1) + 1 - 2 * padding, 1); }
  constexpr bool fits(Extent in) const { return in == unknown || in >= least(); }
  constexpr Extent places(Extent in) const {
    return in == unknown ? unknown : (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

/// A sample of channels and of the dimensions along which windows slide. `channels` 0: any number of them.
template <std::size_t N>
constexpr Step slide(Shape in, Extent channels, std::array<Window, N> const& windows) {
  for (auto const& window : windows)
    if (!window.sane()) return refuse(Fault::extents);
  if (!in.known_rank()) {
    in = Shape{unknown};
    for (std::size_t i = 0; i < N; ++i) in = in.then(unknown);
  }
  constexpr auto rank = static_cast<int>(N) + 1;
  if (in.rank() != rank) return refuse(Fault::rank, in.rank(), rank);
  if (channels != 0 && differ(in[0], channels)) return refuse(Fault::channels, in[0], channels);
  for (int i = 1; i < rank; ++i) {
    auto const& window = windows[static_cast<std::size_t>(i - 1)];
    if (!window.fits(in[i])) return refuse(Fault::window, in[i], window.least());
    in = in.with(i, window.places(in[i]));
  }
  return {in};
}

}  // namespace fulgurite::chain

namespace fulgurite {

// Layers that count features: Linear, Embedding, Flatten; and Input, which tells a chain what it is given.

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

// Convolutions over one and two dimensions. A sample has its channels first.

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

// Norm layers. FLOPs: none counted.

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

// Layers that leave the shape as it is and have nothing to learn: activations and dropout. FLOPs: none counted.

namespace chain {

/// A layer that computes each number from itself alone.
struct Pointwise : BuiltIn {
  static constexpr bool keeps_shape = true;
  static constexpr Extent parameter_count = 0;
  static constexpr Step step(Shape in) { return {in}; }
};

/// The rate is `auto`, since 0 does not convert to a constant of type double. NaN fails the test, too.
template <auto Rate>
struct Dropping : Pointwise {
  static constexpr Step step(Shape in) {
    if (!(Rate >= 0 && Rate < 1)) return refuse(Fault::rate);
    return {in};
  }
};

/// A layer along a dimension, which is counted with the batch's as 0; negative numbers count from the end.
template <int Dimension>
struct Along : Pointwise {
  static constexpr Step step(Shape in) {
    if (in.known_rank() && (Dimension > in.rank() || Dimension < -in.rank() - 1))
      return refuse(Fault::rank, in.rank(), Dimension < 0 ? -Dimension - 1 : Dimension);
    return {in};
  }
};

}  // namespace chain

// Layers for chains, as those of torch::nn with the same name and default options: any shape in, the same shape out.
/// Hands on what it receives.
struct Identity : chain::Pointwise {};
/// The greater of x and 0.
struct ReLU : chain::Pointwise {};
/// x times the normal distribution's share below x.
struct GELU : chain::Pointwise {};
/// The hyperbolic tangent: numbers between -1 and 1.
struct Tanh : chain::Pointwise {};
/// 1 / (1 + exp(-x)): numbers between 0 and 1.
struct Sigmoid : chain::Pointwise {};
/// x times the sigmoid of x.
struct SiLU : chain::Pointwise {};
/// x times the hyperbolic tangent of softplus(x).
struct Mish : chain::Pointwise {};
/// log(1 + exp(x)), a smooth ReLU.
struct Softplus : chain::Pointwise {};
/// x, or Slope times x where x is negative.
template <auto Slope = 0.01>
struct LeakyReLU : chain::Pointwise {};
/// x, or Alpha (exp(x) - 1) where x is negative.
template <auto Alpha = 1.0>
struct ELU : chain::Pointwise {};

/// Over the last dimension, unless another is given: `Softmax<1>` is over channels.
template <int Dimension = -1>
struct Softmax : chain::Along<Dimension> {};
/// Its logarithm, computed so that small shares are not lost.
template <int Dimension = -1>
struct LogSoftmax : chain::Along<Dimension> {};

/// `Dropout<0.1>` zeroes a tenth of the numbers in training, and scales the others up. The rate is in [0, 1).
template <auto Rate = 0.5>
struct Dropout : chain::Dropping<Rate> {};
/// The same of whole channels.
template <auto Rate = 0.5>
struct Dropout2d : chain::Dropping<Rate> {};

// Pools over images; they have nothing to learn. FLOPs: none counted.

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
