// Every strategy with every precision and optimization: which cells are admitted, and why the others are not.
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cstddef>

#include <boost/hana/cartesian_product.hpp>
#include <boost/hana/count_if.hpp>
#include <boost/hana/equal.hpp>
#include <boost/hana/integral_constant.hpp>
#include <boost/hana/size.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <boost/hana/unpack.hpp>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;
namespace hana = boost::hana;

namespace {

/// Records its step once and replays it.
struct Captured : toy::Device {
  static constexpr bool captures = true;
};
struct CapturedGpu : toy::Gpu {
  static constexpr bool captures = true;
};
/// Its gradients move from step to step.
struct Wandering : toy::Sgd {
  static constexpr bool stable_gradients = false;
};

/// A model for each optimization, on each optimizer.
template <class Optimization, class Optimizer>
struct Net;
template <class Optimizer>
struct Net<Automatic, Optimizer> {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double) { return -p; }
  Optimizer configure_optimizers() { return {}; }
};
template <class Optimizer>
struct Net<Manual, Optimizer> : Net<Automatic, Optimizer> {
  void training_step(double, auto&) {}
};

template <class S, class P, class O, class Optimizer = toy::Sgd>
constexpr Fault fault = judge::trainer<Net<O, Optimizer>, S, P, O>().fault;

constexpr auto strategies = hana::tuple_t<toy::Device, toy::Gpu, toy::SomeDevice, Captured, CapturedGpu>;
constexpr auto precisions = hana::tuple_t<Float32, Float64, Bf16Mixed, Fp16Mixed, Bf16True, Fp16True>;
constexpr auto optimizations = hana::tuple_t<Automatic, Manual>;
constexpr auto matrix = hana::cartesian_product(hana::make_tuple(strategies, precisions, optimizations));

/// The verdict of each cell, in the order of the product.
constexpr auto verdicts = hana::unpack(matrix, [](auto... cells) {
  return std::array{hana::unpack(cells, [](auto... p) { return fault<typename decltype(p)::type...>; })...};
});

constexpr Fault fine = Fault::none;
constexpr Fault fp16 = Fault::fp16_needs_gpu;
constexpr Fault caps = Fault::capture_needs_automatic;

// clang-format off
// A new policy makes the table too small; its cells are decided here, one by one.
constexpr std::array expected{
    // Float32     Float64     Bf16Mixed   Fp16Mixed   Bf16True    Fp16True;   each under Automatic, then Manual
    fine, fine, fine, fine, fine, fine, fp16, fp16, fine, fine, fine, fine,  // on the CPU
    fine, fine, fine, fine, fine, fine, fine, fine, fine, fine, fine, fine,  // on a GPU
    fine, fine, fine, fine, fine, fine, fine, fine, fine, fine, fine, fine,  // on either: then an early Error
    fine, caps, fine, caps, fine, caps, fp16, fp16, fine, caps, fine, caps,  // captured on the CPU
    fine, caps, fine, caps, fine, caps, fine, caps, fine, caps, fine, caps,  // captured on a GPU
};
// clang-format on

constexpr auto admitted = hana::count_if(matrix, [](auto cell) {
  return hana::unpack(cell, [](auto... p) { return hana::bool_c<fault<typename decltype(p)::type...> == fine>; });
});

}  // namespace

TEST_CASE("the matrix of strategies, precisions and optimizations", "[policy]") {
  STATIC_REQUIRE(verdicts.size() == decltype(hana::size(matrix))::value);
  STATIC_REQUIRE(verdicts == expected);
}

TEST_CASE("45 of its 60 cells are admitted", "[policy]") {
  STATIC_REQUIRE(decltype(hana::size(matrix))::value == 60);
  STATIC_REQUIRE(decltype(admitted)::value == 45);
}

namespace {
constexpr Fault once = Fault::closure_needs_unscaled;
constexpr Fault wild = Fault::capture_needs_stable_gradients;
}  // namespace

TEST_CASE("optimizers against strategies and precisions (W7)", "[policy]") {
  STATIC_REQUIRE(fault<toy::Gpu, Float32, Automatic, toy::Repeating> == fine);
  STATIC_REQUIRE(fault<toy::Gpu, Bf16Mixed, Automatic, toy::Repeating> == fine);
  STATIC_REQUIRE(fault<toy::Gpu, Fp16Mixed, Automatic, toy::Repeating> == once);
  STATIC_REQUIRE(fault<toy::Gpu, Fp16Mixed, Manual, toy::Repeating> == once);
  STATIC_REQUIRE(fault<toy::SomeDevice, Fp16Mixed, Automatic, toy::Repeating> == once);
  STATIC_REQUIRE(fault<toy::Device, Float32, Automatic, Wandering> == fine);
  STATIC_REQUIRE(fault<Captured, Float32, Automatic, Wandering> == wild);
  STATIC_REQUIRE(fault<CapturedGpu, Fp16Mixed, Automatic, Wandering> == wild);
  STATIC_REQUIRE(fault<CapturedGpu, Fp16Mixed, Automatic, toy::Sgd> == fine);
}
