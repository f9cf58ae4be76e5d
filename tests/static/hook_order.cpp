// In which order callbacks hear an event, and who is asked at all: decided by the compiler.
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cstddef>

#include <toy.hpp>

#include <fulgurite/hook/pack.hpp>

using namespace fulgurite;

namespace {

struct Ctx {};

template <Order Group, int Which = 0>
struct At {
  static constexpr Order order = Group;
  void on_train_start() {}
};
template <int Which>
struct Plain {
  void on_train_end() {}
};
struct Both {
  void on_train_start() {}
  void on_train_end(auto&) {}
};
struct Model {};

template <std::size_t... I>
constexpr std::array<std::size_t, sizeof...(I)> positions{I...};

using Mixed =
    Pack<At<Order::checkpoint>, Plain<0>, At<Order::monitor>, At<Order::tuner>, Both, At<Order::progress>, Plain<1>>;

}  // namespace

TEST_CASE("callbacks fire by group, inside a group in the user's order", "[order]") {
  STATIC_REQUIRE(Pack<>::firing_order == positions<>);
  STATIC_REQUIRE(Pack<Plain<0>, Plain<1>, Plain<2>>::firing_order == positions<0, 1, 2>);
  STATIC_REQUIRE(Mixed::firing_order == positions<3, 1, 4, 6, 5, 2, 0>);
  STATIC_REQUIRE(Pack<At<Order::checkpoint>, At<Order::monitor>, At<Order::summary>, At<Order::progress>,
                      At<Order::timer>, Plain<0>, At<Order::tuner>>::firing_order == positions<6, 5, 4, 3, 2, 1, 0>);
  STATIC_REQUIRE(Pack<At<Order::monitor, 1>, At<Order::normal>, At<Order::monitor, 2>>::firing_order ==
                 positions<1, 0, 2>);
}

TEST_CASE("only those that have the hook are asked", "[order]") {
  STATIC_REQUIRE(Mixed::subscribers<hook::on_train_end, Ctx>() == positions<1, 4, 6>);
  STATIC_REQUIRE(Mixed::subscribers<hook::on_train_start, Ctx>() == positions<3, 4, 5, 2, 0>);
  STATIC_REQUIRE(Mixed::subscribers<hook::on_fit_end, Ctx>() == positions<>);
}

TEST_CASE("of one event alone the model hears before those that watch and save", "[order]") {
  STATIC_REQUIRE(hook::model_before_monitors<hook::on_train_epoch_end>);
  STATIC_REQUIRE(!hook::model_before_monitors<hook::on_train_batch_end>);
  STATIC_REQUIRE(!hook::model_before_monitors<hook::on_validation_end>);
}

namespace {
struct TakesOutputs {
  void on_train_batch_end(auto&, auto&, auto&) {}
};
struct TakesBatch {
  void on_train_batch_end(auto&, auto&) {}
};
template <class Subject, class... Cs>
constexpr bool built =
    Pack<Cs...>::template wants_outputs<hook::on_train_batch_end, Subject, toy::Device, int, double, Ctx>();
}  // namespace

TEST_CASE("outputs are built only where somebody takes them", "[order]") {
  STATIC_REQUIRE(!built<Model>);
  STATIC_REQUIRE(!built<TakesBatch, TakesBatch, Both>);
  STATIC_REQUIRE(built<Model, TakesBatch, TakesOutputs>);
  STATIC_REQUIRE(built<TakesOutputs>);
}

TEST_CASE("the most severe answer wins, whatever its place", "[order]") {
  STATIC_REQUIRE(more_severe(Flow::proceed, Flow::stop) == Flow::stop);
  STATIC_REQUIRE(more_severe(Flow::stop, Flow::skip_epoch) == Flow::stop);
  STATIC_REQUIRE(more_severe(Flow::skip_epoch, Flow::proceed) == Flow::skip_epoch);
  STATIC_REQUIRE(as_flow(Stop{}) == Flow::stop);
  STATIC_REQUIRE(as_flow(Stop{false}) == Flow::proceed);
}
