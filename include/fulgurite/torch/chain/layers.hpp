#pragma once
// The layer types that a chain is made of.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace fulgurite::chain {

// The shape of one sample as a compile-time constant: the input and output of a layer. A batch has one more dimension
// in front, which shapes here leave out.

/// The size of a shape along one dimension, such as channels or pixels; also used for counts of parameters and FLOPs.
using Extent = std::int64_t;

/// An extent or count that the types do not determine, such as the height of an image without `Input<...>`.
inline constexpr Extent unknown = -1;

/// `Shape{3, 28, 28}` is three channels of 28 by 28. A default-constructed shape has unknown rank.
class Shape {
 public:
  static constexpr std::size_t most = 8;  ///< the largest number of dimensions, without that of the batch

  constexpr Shape() = default;
  constexpr Shape(std::integral auto... extents)
    requires(sizeof...(extents) <= most)
      : rank_(static_cast<int>(sizeof...(extents))), extents_{static_cast<Extent>(extents)...} {}
  /// The shape of a sample that is one number, such as a token.
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
  /// The shape with one more dimension. The caller makes sure that there are at most `most`.
  constexpr Shape then(Extent extent) const {
    auto other = *this;
    other.extents_[static_cast<std::size_t>(other.rank_++)] = extent;
    return other;
  }

  /// The product of the extents in [from, to); unknown if one of them is.
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

/// True if both extents are known and differ.
constexpr bool differ(Extent a, Extent b) { return a != unknown && b != unknown && a != b; }

/// A product of counts, unknown if one of them is.
constexpr Extent times(Extent a, Extent b) { return a == unknown || b == unknown ? unknown : a * b; }
/// A sum of counts, unknown if one of them is.
constexpr Extent plus(Extent a, Extent b) { return a == unknown || b == unknown ? unknown : a + b; }

/// What is wrong with a layer, or with two consecutive layers. chain/shapes.hpp has a refusal for each but `none`.
enum class Fault : std::uint8_t {
  none,
  empty,     ///< there is no layer at all
  layer,     ///< a type that is not a layer
  extents,   ///< a layer of a size below 1, a stride of 0, or a negative padding
  rate,      ///< a dropout rate outside [0, 1)
  groups,    ///< groups that do not divide the channels
  padding,   ///< a pool's padding that exceeds half its window
  features,  ///< two layers that disagree on a number of features
  channels,
  rank,
  window,    ///< a window that is larger than its input
  residual,  ///< a branch whose output shape differs from its input shape
};

/// The position of a layer in a chain and, for nested chains, the positions inside of it.
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

/// The result of `step(shape)`. A layer sets `out` and `flops`, or returns `refuse(...)`; the chain sets the rest.
struct Step {
  Shape out{};
  Extent flops = 0;  ///< of forward, for one sample
  Fault fault = Fault::none;
  Extent gives = 0, takes = 0;  ///< the two numbers that disagree
  Path at{}, giver{};           ///< the layer at fault, and the one whose output it does not take
};

/// The result of a layer's `step` for a shape that it does not take: the fault, and the two numbers that disagree.
constexpr Step refuse(Fault fault, Extent gives = 0, Extent takes = 0) {
  return {.fault = fault, .gives = gives, .takes = takes};
}

/// Marks a layer whose module chain/chain.hpp knows.
struct BuiltIn {};

/// The interface of a layer: `parameter_count`, the number of trainable numbers, and `step(shape)`, which computes the
/// output shape. Optional: `keeps_shape`, true for an elementwise layer, and `natural`, the input shape that is assumed
/// if neither another layer nor an Input determines it. A layer of your own also names its LibTorch module, which is
/// constructed without arguments: `using Module = ScaleImpl;`.
template <class L>
concept Layer = (std::derived_from<L, BuiltIn> || requires { typename L::Module; }) && requires(Shape shape) {
  { L::parameter_count } -> std::convertible_to<Extent>;
  { L::step(shape) } -> std::same_as<Step>;
};

/// True if a layer's output has the shape of its input, for any shape.
template <class L>
constexpr bool keeps_shape() {
  if constexpr (requires { L::keeps_shape; }) return L::keeps_shape;
  else return false;
}

// How many positions a window has along one dimension.

/// A window along one dimension, with stride, padding and dilation.
struct Window {
  Extent kernel, stride, padding, dilation;

  constexpr bool sane() const { return kernel > 0 && stride > 0 && padding >= 0 && dilation > 0; }
  /// The smallest extent in which the window fits.
  constexpr Extent least() const { return std::max<Extent>(dilation * (kernel - 1) + 1 - 2 * padding, 1); }
  constexpr bool fits(Extent in) const { return in == unknown || in >= least(); }
  constexpr Extent places(Extent in) const {
    return in == unknown ? unknown : (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

/// The result for a sample with channels, followed by one dimension for each window. `channels` 0 accepts any number.
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

/// The result of a convolution for the shape of a sample: channels `from` to `to`, then a window for each dimension.
/// FLOPs count a multiplication and an addition separately, and no bias.
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

// Bases of layers without parameters that keep the shape.

/// An elementwise layer: each output depends on one input.
struct Pointwise : BuiltIn {
  static constexpr bool keeps_shape = true;
  static constexpr Extent parameter_count = 0;
  static constexpr Step step(Shape in) { return {in}; }
};

/// Rate is `auto`, since 0 does not convert to a template argument of type double. NaN fails the test, too.
template <auto Rate>
struct Dropping : Pointwise {
  static constexpr Step step(Shape in) {
    if (!(Rate >= 0 && Rate < 1)) return refuse(Fault::rate);
    return {in};
  }
};

/// A layer along one dimension. The batch is dimension 0; negative numbers count from the end.
template <int Dimension>
struct Along : Pointwise {
  static constexpr Step step(Shape in) {
    if (in.known_rank() && (Dimension > in.rank() || Dimension < -in.rank() - 1))
      return refuse(Fault::rank, in.rank(), Dimension < 0 ? -Dimension - 1 : Dimension);
    return {in};
  }
};

}  // namespace fulgurite::chain

namespace fulgurite {

/// A height and a width, for a kernel, a stride or a padding. One number stands for both: `Conv2d<1, 8, 3>`, `Conv2d<1,
/// 8, Size2{3, 5}>`.
struct Size2 {
  chain::Extent height, width;

  constexpr Size2(std::integral auto both) : height(both), width(both) {}
  constexpr Size2(std::integral auto high, std::integral auto wide) : height(high), width(wide) {}
  friend constexpr bool operator==(Size2, Size2) = default;
};

// Layers that count features: Linear, Embedding, Flatten; and Input, which declares the input shape of a chain.

/// The shape of one sample, without the batch dimension. `Input<1, 28, 28>` as the first type of a chain lets the
/// compiler check every extent. It is not a layer: it has no index and costs nothing. Later in a chain it asserts the
/// shape at that point. Extents below 1 do not compile.
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

/// Like torch::nn::Linear, over the last dimension. FLOPs: 2 In Out for each row; the bias is not counted.
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

/// Like torch::nn::Embedding: Count vectors of length Features. Takes integers, and adds one dimension. FLOPs: none,
/// since it only looks up.
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

/// Like torch::nn::Flatten: each sample becomes one row of features.
struct Flatten : chain::BuiltIn {
  static constexpr chain::Extent parameter_count = 0;

  static constexpr chain::Step step(chain::Shape in) {
    if (in.rank() == 0) return chain::refuse(chain::Fault::rank, 0, 1);
    return {chain::Shape{in.elements()}};
  }
};

// Convolutions over one and two dimensions. A sample has its channels first.

/// Options of Conv1d. They are constants, so they can be template arguments: `Conv2d<3, 16, 3, Conv2dOptions{.stride =
/// 2, .padding = 1}>`.
struct Conv1dOptions {
  chain::Extent stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
};
/// Options of Conv2d; each pair is height and width, and one number means both.
struct Conv2dOptions {
  Size2 stride = 1, padding = 0, dilation = 1;
  chain::Extent groups = 1;
  bool bias = true;
};

/// Like torch::nn::Conv1d, padded with zeros. FLOPs: 2 Out (In / groups) Kernel for each output position; the bias is
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

/// Like torch::nn::Conv2d, padded with zeros. FLOPs: 2 Out (In / groups) times the kernel's height and width for each
/// output position; the bias is not counted.
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

/// The common base of BatchNorm1d and BatchNorm2d. `over` takes shapes of `least` to `most` dimensions, of which the
/// first must be Features.
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

/// Like torch::nn::BatchNorm1d: normalises a row of features, or the channels of a sequence, for which the chain has to
/// begin with Input<channels, length>.
template <chain::Extent Features, BatchNormOptions Options = {}>
struct BatchNorm1d : chain::BatchNorm<Features, Options> {
  static constexpr chain::Shape natural{Features};

  static constexpr chain::Step step(chain::Shape in) { return BatchNorm1d::over(in.known_rank() ? in : natural, 1, 2); }
};

/// Like torch::nn::BatchNorm2d: normalises the channels of images.
template <chain::Extent Features, BatchNormOptions Options = {}>
struct BatchNorm2d : chain::BatchNorm<Features, Options> {
  static constexpr chain::Shape natural{Features, chain::unknown, chain::unknown};

  static constexpr chain::Step step(chain::Shape in) { return BatchNorm2d::over(in.known_rank() ? in : natural, 3, 3); }
};

/// Like torch::nn::LayerNorm: `LayerNorm<64>` normalises over the last dimension, `LayerNorm<8, 8>` over the last two,
/// and so on; with scale and shift.
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

// Layers without parameters that keep the shape: activations and dropout. FLOPs: none counted.

// Elementwise layers are like those of torch::nn with the same name and default options: they take and keep any shape.
/// Returns its input.
struct Identity : chain::Pointwise {};
/// The larger of x and 0.
struct ReLU : chain::Pointwise {};
/// x times the normal distribution function of x.
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
/// x, or Slope times x if x is negative.
template <auto Slope = 0.01>
struct LeakyReLU : chain::Pointwise {};
/// x, or Alpha (exp(x) - 1) if x is negative.
template <auto Alpha = 1.0>
struct ELU : chain::Pointwise {};

/// Softmax over the last dimension or a given one: `Softmax<1>` is over channels.
template <int Dimension = -1>
struct Softmax : chain::Along<Dimension> {};
/// The logarithm of Softmax, computed so that small probabilities are not lost.
template <int Dimension = -1>
struct LogSoftmax : chain::Along<Dimension> {};

/// `Dropout<0.1>` zeroes a tenth of the numbers in training and scales up the others. The rate is in [0, 1).
template <auto Rate = 0.5>
struct Dropout : chain::Dropping<Rate> {};
/// Like Dropout, but zeroes whole channels.
template <auto Rate = 0.5>
struct Dropout2d : chain::Dropping<Rate> {};

// Pools over images, without parameters. FLOPs: none counted.

/// Options of MaxPool2d and AvgPool2d as a template argument: MaxPool2d<3, Pool2dOptions{.stride = 2, .padding = 1}>.
struct Pool2dOptions {
  Size2 stride = 0;  ///< 0: the size of the window
  Size2 padding = 0;
};

namespace chain {

/// The common base of MaxPool2d and AvgPool2d: it computes the output shape.
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

/// Like torch::nn::MaxPool2d: the largest number in each window.
template <Size2 Kernel, Pool2dOptions Options = {}>
struct MaxPool2d : chain::Pool2d<Kernel, Options> {};
/// Like torch::nn::AvgPool2d: the mean over each window.
template <Size2 Kernel, Pool2dOptions Options = {}>
struct AvgPool2d : chain::Pool2d<Kernel, Options> {};

/// Like torch::nn::AdaptiveAvgPool2d: pools images of any size to the size Out. `AdaptiveAvgPool2d<1>` gives the mean
/// of each channel.
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
