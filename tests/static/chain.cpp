// Chains without LibTorch: parameters, FLOPs and shapes as constants, and verdicts where layers do not fit.
#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <type_traits>

#include <fulgurite/torch/chain/shapes.hpp>

using namespace fulgurite;
using chain::Fault;
using chain::Shape;
using chain::unknown;

namespace {

template <class... Layers>
constexpr Fault fault() {
  return chain::run<Layers...>(chain::natural<Layers...>()).fault;
}
template <class... Layers>
constexpr Shape out() {
  return chain::run<Layers...>(chain::natural<Layers...>()).out;
}
/// The two numbers that disagree, and the positions of the two layers.
struct Found {
  long gives, takes;
  int giver, taker;
  friend constexpr bool operator==(Found, Found) = default;
};
template <class... Layers>
constexpr Found found() {
  constexpr auto step = chain::run<Layers...>(chain::natural<Layers...>());
  return {step.gives, step.takes, step.giver.depth ? step.giver.index[step.giver.depth - 1] : -1,
          step.at.index[step.at.depth - 1]};
}

struct Plan {
  static constexpr bool keeps_shape = true;
  static constexpr chain::Extent parameter_count = 1;
  static constexpr chain::Step step(Shape in) { return {in}; }
};
struct Scale : Plan {  // a layer of the user's own
  struct Module {};
};

}  // namespace

TEST_CASE("a chain's total of parameters is a constant", "[chain]") {
  STATIC_REQUIRE(ChainShape<Linear<784, 256>, ReLU, Linear<256, 10>>::parameter_count ==
                 784 * 256 + 256 + 256 * 10 + 10);
  STATIC_REQUIRE(ChainShape<Linear<784, 256, false>>::parameter_count == 784 * 256);
  STATIC_REQUIRE(ChainShape<Conv2d<3, 16, 3>>::parameter_count == 16 * 3 * 9 + 16);
  STATIC_REQUIRE(ChainShape<Conv2d<4, 16, Size2{3, 5}, Conv2dOptions{.groups = 2, .bias = false}>>::parameter_count ==
                 16 * 2 * 15);
  STATIC_REQUIRE(ChainShape<Conv1d<4, 6, 5>>::parameter_count == 6 * 4 * 5 + 6);
  STATIC_REQUIRE(ChainShape<BatchNorm2d<8>, BatchNorm2d<8, BatchNormOptions{.affine = false}>>::parameter_count == 16);
  STATIC_REQUIRE(ChainShape<Embedding<100, 8>, LayerNorm<8>>::parameter_count == 800 + 16);
  STATIC_REQUIRE(ChainShape<Linear<4, 4>, Residual<Chain<Linear<4, 2>, Tanh, Linear<2, 4>>>>::parameter_count ==
                 20 + 10 + 12);
  STATIC_REQUIRE(ChainShape<Linear<4, 4>, Scale, Dropout<0.1>>::parameter_count == 20 + 1);
}

TEST_CASE("a chain's FLOPs are a constant, by the formulas of PyTorch's FlopCounterMode", "[chain]") {
  STATIC_REQUIRE(ChainShape<Linear<784, 256>, ReLU, Linear<256, 10>>::flops == 2 * (784 * 256 + 256 * 10));
  STATIC_REQUIRE(ChainShape<Input<16, 64>, Linear<64, 32>>::flops == 2 * 16 * 64 * 32);
  STATIC_REQUIRE(
      ChainShape<Input<1, 28, 28>, Conv2d<1, 8, 3>, ReLU, MaxPool2d<2>, Flatten, Linear<8 * 13 * 13, 10>>::flops ==
      2 * 8 * 9 * 26 * 26 + 2 * 8 * 13 * 13 * 10);
  STATIC_REQUIRE(
      ChainShape<Input<4, 9, 9>, Conv2d<4, 8, 3, Conv2dOptions{.stride = 2, .padding = 1, .groups = 2}>>::flops ==
      2 * 8 * 2 * 9 * 5 * 5);
  STATIC_REQUIRE(ChainShape<Input<2, 10>, Conv1d<2, 3, 4>>::flops == 2 * 3 * 2 * 4 * 7);
  STATIC_REQUIRE(ChainShape<Linear<4, 4>, Residual<Linear<4, 4>>>::flops == 2 * (16 + 16));
  STATIC_REQUIRE(ChainShape<Conv2d<1, 8, 3>, Flatten>::parameter_count == 80);  // without Input: everything but flops
}

TEST_CASE("shapes go through every layer down to each extent", "[chain]") {
  STATIC_REQUIRE(out<Linear<784, 256>, ReLU, Linear<256, 10>>() == Shape{10});
  STATIC_REQUIRE(out<Input<3, 32, 20>, Conv2d<3, 16, Size2{3, 5}>>() == Shape{16, 30, 16});
  STATIC_REQUIRE(out<Input<3, 32, 32>, Conv2d<3, 16, 3, Conv2dOptions{.stride = 2, .padding = 1}>>() ==
                 Shape{16, 16, 16});
  STATIC_REQUIRE(out<Input<1, 9, 9>, Conv2d<1, 1, 3, Conv2dOptions{.dilation = 2}>>() == Shape{1, 5, 5});
  STATIC_REQUIRE(out<Input<3, 7, 8>, MaxPool2d<2>>() == Shape{3, 3, 4});
  STATIC_REQUIRE(out<Input<3, 7, 8>, AvgPool2d<3, Pool2dOptions{.stride = 2, .padding = 1}>>() == Shape{3, 4, 4});
  STATIC_REQUIRE(out<Input<3, 7, 8>, AdaptiveAvgPool2d<Size2{2, 1}>, Flatten>() == Shape{6});
  STATIC_REQUIRE(out<Input<2, 10>, Conv1d<2, 5, 3, Conv1dOptions{.stride = 3}>>() == Shape{5, 3});
  STATIC_REQUIRE(out<Input<16>, Embedding<100, 8>, LayerNorm<8>, Linear<8, 4>, Softmax<>>() == Shape{16, 4});
  STATIC_REQUIRE(out<Input<>, Embedding<100, 8>, Linear<8, 2>>() == Shape{2});
  STATIC_REQUIRE(ChainShape<Input<3, 8, 8>, BatchNorm2d<3>>::input_shape == Shape{3, 8, 8});
}

TEST_CASE("without an input's shape what is known is checked, and the rest is unknown", "[chain]") {
  STATIC_REQUIRE(out<Conv2d<3, 16, 3>, ReLU, MaxPool2d<2>>() == Shape{16, unknown, unknown});
  STATIC_REQUIRE(out<Conv2d<3, 16, 3>, AdaptiveAvgPool2d<1>, Flatten>() == Shape{16});
  STATIC_REQUIRE(out<Dropout<0.2>, ReLU, Linear<5, 3>>() == Shape{3});
  STATIC_REQUIRE_FALSE(out<ReLU, Tanh>().known_rank());
  STATIC_REQUIRE(fault<Conv2d<3, 16, 3>, Flatten, Linear<99, 10>>() == Fault::none);
  STATIC_REQUIRE(fault<Conv2d<3, 16, 3>, AdaptiveAvgPool2d<1>, Flatten, Linear<99, 10>>() == Fault::features);
  STATIC_REQUIRE(fault<Conv2d<3, 16, 3>, Conv2d<8, 16, 3>>() == Fault::channels);
  STATIC_REQUIRE(fault<Embedding<100, 8>, ReLU, Linear<9, 2>>() == Fault::features);
  STATIC_REQUIRE(ChainShape<Linear<784, 10>>::input_shape == Shape{784});
}

TEST_CASE("a mismatch names two layers and two numbers", "[chain]") {
  STATIC_REQUIRE(found<Linear<784, 256>, ReLU, Dropout<0.5>, Linear<128, 10>>() == Found{256, 128, 0, 3});
  STATIC_REQUIRE(found<Input<1, 28, 28>, Conv2d<1, 8, 3>, MaxPool2d<2>, Flatten, Linear<1000, 10>>() ==
                 Found{1352, 1000, 3, 4});
  STATIC_REQUIRE(found<Conv2d<3, 16, 3>, BatchNorm2d<16>, ReLU, Conv2d<8, 8, 3>>() == Found{16, 8, 0, 3});
  STATIC_REQUIRE(found<Input<1, 4, 8>, MaxPool2d<5>>() == Found{4, 5, 0, 1});
  STATIC_REQUIRE(found<Input<1, 8, 8>, Conv2d<1, 1, 5>, Conv2d<1, 1, 7, Conv2dOptions{.padding = 1}>>() ==
                 Found{4, 5, 1, 2});
  STATIC_REQUIRE(found<Conv2d<1, 8, 3>, Linear<8, 8>, MaxPool2d<2>, Flatten, MaxPool2d<2>>() == Found{1, 3, 3, 4});
  // inside of a branch, the layer before the branch is the one that gives
  STATIC_REQUIRE(found<Linear<8, 8>, Residual<Chain<Linear<9, 4>, Linear<4, 8>>>>() == Found{8, 9, 0, 0});
  STATIC_REQUIRE(found<Linear<8, 8>, Residual<Chain<Linear<8, 4>, ReLU, Linear<5, 8>>>>() == Found{4, 5, 0, 2});
}

TEST_CASE("what no layer can work with is a fault of its own", "[chain]") {
  STATIC_REQUIRE(fault<>() == Fault::empty);
  STATIC_REQUIRE(fault<Input<3>>() == Fault::empty);
  STATIC_REQUIRE(fault<Linear<8, 8>, Chain<>>() == Fault::empty);
  STATIC_REQUIRE(fault<Linear<8, 8>, int>() == Fault::layer);
  STATIC_REQUIRE(fault<Linear<8, 8>, Scale>() == Fault::none);
  STATIC_REQUIRE(fault<Linear<8, 8>, Plan>() == Fault::layer);  // nothing would compute it
  STATIC_REQUIRE(fault<Linear<8, 0>>() == Fault::extents);
  STATIC_REQUIRE(fault<Conv2d<1, 1, 3, Conv2dOptions{.stride = 0}>>() == Fault::extents);
  STATIC_REQUIRE(fault<Conv2d<1, 1, 3, Conv2dOptions{.groups = 0}>>() == Fault::extents);
  STATIC_REQUIRE(fault<Input<1, 0, 3>, Flatten>() == Fault::extents);
  STATIC_REQUIRE(fault<Conv2d<8, 6, 3, Conv2dOptions{.groups = 4}>>() == Fault::groups);
  STATIC_REQUIRE(fault<Conv2d<8, 4, 3, Conv2dOptions{.groups = 4}>>() == Fault::none);
  STATIC_REQUIRE(fault<MaxPool2d<2, Pool2dOptions{.padding = 2}>>() == Fault::padding);
  STATIC_REQUIRE(fault<Dropout<1>>() == Fault::rate);
  STATIC_REQUIRE(fault<Dropout2d<-0.1>>() == Fault::rate);
  STATIC_REQUIRE(fault<Dropout<std::numeric_limits<double>::quiet_NaN()>>() == Fault::rate);
  STATIC_REQUIRE(fault<Dropout<0.0>, Dropout<0>>() == Fault::none);
  STATIC_REQUIRE(fault<Linear<8, 8>, Residual<Linear<8, 4>>>() == Fault::residual);
  STATIC_REQUIRE(fault<Input<3, 8, 8>, Residual<Conv2d<3, 3, 3>>>() == Fault::residual);
  STATIC_REQUIRE(fault<Input<3, 8, 8>, Residual<Flatten>>() == Fault::residual);
  STATIC_REQUIRE(fault<Input<3, 8, 8>, Residual<Conv2d<3, 3, 3, Conv2dOptions{.padding = 1}>>>() == Fault::none);
  STATIC_REQUIRE(fault<Linear<8, 8>, Softmax<2>>() == Fault::rank);
  STATIC_REQUIRE(fault<Linear<8, 8>, Softmax<1>>() == Fault::none);
  STATIC_REQUIRE(fault<Input<4, 6>, Linear<6, 6>, Input<4, 6>, Linear<6, 1>>() == Fault::none);
  STATIC_REQUIRE(fault<Linear<8, 8>, Input<7>>() == Fault::features);
  STATIC_REQUIRE(fault<BatchNorm1d<8>, Linear<8, 8>, BatchNorm1d<7>>() == Fault::channels);
  STATIC_REQUIRE(fault<Input<8, 5>, BatchNorm1d<8>>() == Fault::none);
  STATIC_REQUIRE(fault<Linear<8, 8>, LayerNorm<8, 8>>() == Fault::rank);
}

TEST_CASE("layers are types without contents", "[chain]") {
  STATIC_REQUIRE(std::is_empty_v<Linear<784, 256>>);
  STATIC_REQUIRE(std::is_empty_v<ChainShape<Linear<784, 256>, ReLU, Linear<256, 10>>>);
}
