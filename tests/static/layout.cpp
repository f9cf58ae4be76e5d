// What things weigh: empty callbacks nothing, a context one pointer, options no more than their members.
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <tuple>
#include <type_traits>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

namespace {

template <int Which>
struct Empty {
  void on_train_start() {}
};
struct Counting {
  using Stateless = ByChoice;
  long n = 0;
  void on_train_batch_end() { ++n; }
};

using Plain = Run<toy::P, toy::Device, Float32, Automatic>;
using Manually = Run<toy::P, toy::Device, Float32, Manual>;

}  // namespace

TEST_CASE("empty callbacks cost nothing", "[layout]") {
  STATIC_REQUIRE(std::is_empty_v<Slots<>>);
  STATIC_REQUIRE(sizeof(Pack<>) == 1);
  STATIC_REQUIRE(std::is_empty_v<Slots<Empty<0>, Empty<1>, Empty<2>>>);
  STATIC_REQUIRE(sizeof(Pack<Empty<0>, Empty<1>, Empty<2>>) == 1);
  STATIC_REQUIRE(sizeof(Slots<Empty<0>, Empty<1>, Counting>) == sizeof(Counting));
  STATIC_REQUIRE(sizeof(Slots<Empty<0>, Counting, Empty<1>>) == sizeof(Counting));
  STATIC_REQUIRE(sizeof(Pack<Counting, Empty<0>, Empty<1>>) == sizeof(Counting));
  STATIC_REQUIRE(sizeof(Slots<Empty<0>, Empty<0>, Counting>) <=
                 2 * sizeof(Counting));  // two of one type need two addresses
}

TEST_CASE("the position of a type, and its absence", "[layout]") {
  STATIC_REQUIRE(Slots<Empty<0>, Counting>::index_of<Empty<0>>() == 0);
  STATIC_REQUIRE(Slots<Empty<0>, Counting>::index_of<Counting>() == 1);
  STATIC_REQUIRE(Slots<Empty<0>, Counting>::index_of<int>() == 2);
  STATIC_REQUIRE(std::is_same_v<Slots<Empty<0>, Counting>::Type<1>, Counting>);
}

TEST_CASE("a context is two pointers, that of a manual step four and two for each optimizer", "[layout]") {
  STATIC_REQUIRE(sizeof(RunContext<Plain, phase::Fit>) == 2 * sizeof(void*));
  STATIC_REQUIRE(sizeof(RunContext<Plain, phase::Train>) == 2 * sizeof(void*));
  STATIC_REQUIRE(sizeof(StepContext<Manually, Pack<>>) == 6 * sizeof(void*));
  STATIC_REQUIRE(std::is_trivially_copyable_v<RunContext<Plain, phase::Train>>);
}

TEST_CASE("policies are plain values", "[layout]") {
  STATIC_REQUIRE(std::is_aggregate_v<Automatic>);
  STATIC_REQUIRE(!std::is_empty_v<Automatic>);
  STATIC_REQUIRE(std::is_empty_v<Manual>);
  STATIC_REQUIRE(std::is_empty_v<Float32>);
  STATIC_REQUIRE(std::is_aggregate_v<Fp16Mixed>);
  STATIC_REQUIRE(std::is_aggregate_v<TrainerOptions>);
  STATIC_REQUIRE(sizeof(Flow) == 1);
}

TEST_CASE("metrics weigh nothing but their options, and are found by type", "[layout]") {
  static constexpr Metric<"a"> a{};
  static constexpr Metric<"b"> b{.reduce = Reduce::max};
  static constexpr Metric<"c"> c{};
  using List = MetricList<a, b>;
  STATIC_REQUIRE(List::size == 2);
  STATIC_REQUIRE(List::index_of<Metric<"b">>() == 1);
  STATIC_REQUIRE(List::contains<Last<Metric<"a">>>);
  STATIC_REQUIRE(!List::contains<std::remove_const_t<decltype(c)>>);
  STATIC_REQUIRE(b.name() == "b");
}
