// Every strategy with every precision, optimization and usual set of callbacks: which cells are admitted, and why the
// others are not.
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cstddef>
#include <string_view>

#include <boost/hana/cartesian_product.hpp>
#include <boost/hana/count_if.hpp>
#include <boost/hana/equal.hpp>
#include <boost/hana/integral_constant.hpp>
#include <boost/hana/size.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <boost/hana/unpack.hpp>

#include <rows.hpp>
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/timer.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;
namespace hana = boost::hana;

// What the sentences and pages write for the second GPU.
static_assert(cuda(1).index == 1 && cuda.index == 0);

namespace {

/// Records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct RecordedGpu : toy::Gpu {
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

/// The identifier of the rule that is broken.
using Id = std::string_view;
constexpr Id replay = "a hook that replays leave out";
template <class V>
constexpr Id id_of(V verdict) {
  if constexpr (requires { V::Whom::fault; }) return V::Whom::fault == HookFault::captured ? replay : "a hook";
  else return verdict.id();
}

template <class S, class P, class O, class Optimizer = toy::Sgd>
constexpr Id fault = id_of(judge::trainer<Net<O, Optimizer>, S, P, O>());

constexpr auto strategies = hana::tuple_t<toy::Device, toy::Gpu, toy::SomeDevice, Recorded, RecordedGpu>;
constexpr auto precisions = hana::tuple_t<Float32, Float64, Bf16Mixed, Fp16Mixed, Bf16True, Fp16True>;
constexpr auto optimizations = hana::tuple_t<Automatic, Manual>;
constexpr auto matrix = hana::cartesian_product(hana::make_tuple(strategies, precisions, optimizations));

/// The verdict of each cell, in the order of the product.
constexpr auto verdicts = hana::unpack(matrix, [](auto... cells) {
  return std::array{hana::unpack(cells, [](auto... p) { return fault<typename decltype(p)::type...>; })...};
});

constexpr Id fine;
constexpr Id fp16 = "fulgurite.policy.fp16_needs_gpu";
constexpr Id caps = "fulgurite.capture.automatic";

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
  return hana::unpack(cell, [](auto... p) { return hana::bool_c < fault<typename decltype(p)::type...> == fine > ; });
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
constexpr Id once = "fulgurite.policy.closure_needs_unscaled";
constexpr Id wild = "fulgurite.capture.stable_gradients";
}  // namespace

TEST_CASE("optimizers against strategies and precisions (W7)", "[policy]") {
  STATIC_REQUIRE(fault<toy::Gpu, Float32, Automatic, toy::Repeating> == fine);
  STATIC_REQUIRE(fault<toy::Gpu, Bf16Mixed, Automatic, toy::Repeating> == fine);
  STATIC_REQUIRE(fault<toy::Gpu, Fp16Mixed, Automatic, toy::Repeating> == once);
  STATIC_REQUIRE(fault<toy::Gpu, Fp16Mixed, Manual, toy::Repeating> == once);
  STATIC_REQUIRE(fault<toy::SomeDevice, Fp16Mixed, Automatic, toy::Repeating> == once);
  STATIC_REQUIRE(fault<toy::Device, Float32, Automatic, Wandering> == fine);
  STATIC_REQUIRE(fault<Recorded, Float32, Automatic, Wandering> == wild);
  STATIC_REQUIRE(fault<RecordedGpu, Fp16Mixed, Automatic, Wandering> == wild);
  STATIC_REQUIRE(fault<RecordedGpu, Fp16Mixed, Automatic, toy::Sgd> == fine);
}

namespace {

/// Each hook of a model that lies inside the seam of a step; `Says`: that it acts on tensors alone.
template <bool Says>
struct Model {
  static constexpr bool acts_on_tensors = Says;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double) { return -p; }
  toy::Sgd configure_optimizers() { return {}; }
};
template <bool Says>
struct Clears : Model<Says> {
  void on_before_zero_grad() {}
};
template <bool Says>
struct OwnClearing : Model<Says> {
  void optimizer_zero_grad(auto&) {}
};
template <bool Says>
struct Before : Model<Says> {
  void on_before_backward() {}
};
template <bool Says>
struct OwnBackward : Model<Says> {
  void backward(auto&) {}
};
template <bool Says>
struct After : Model<Says> {
  void on_after_backward() {}
};
template <bool Says>
struct Outside : Model<Says> {
  void on_train_batch_start() {}
  void on_before_optimizer_step() {}
  void configure_gradient_clipping(auto&, Clip) {}
  void optimizer_step(auto& optimizer, auto closure) { optimizer.step(closure); }
  void on_train_batch_end() {}
};
template <class S, class P, template <bool> class M>
constexpr std::array<Id, 2> inside{id_of(judge::trainer<M<false>, S, P, Automatic>()),
                                   id_of(judge::trainer<M<true>, S, P, Automatic>())};
using Pair = std::array<Id, 2>;  // silent, and saying that it acts on tensors alone
constexpr Pair kept{fine, fine}, lost{replay, fine}, scaled{replay, "fulgurite.capture.scale"};

}  // namespace

TEST_CASE("hooks inside the seam of a step against strategies that capture", "[policy]") {
  STATIC_REQUIRE(inside<Recorded, Float32, Clears> == lost);
  STATIC_REQUIRE(inside<Recorded, Float32, OwnClearing> == lost);
  STATIC_REQUIRE(inside<Recorded, Float32, Before> == lost);
  STATIC_REQUIRE(inside<Recorded, Float32, OwnBackward> == lost);
  STATIC_REQUIRE(inside<Recorded, Float32, After> == lost);
  STATIC_REQUIRE(inside<Recorded, Float32, Outside> == kept);
  STATIC_REQUIRE(inside<toy::Device, Float32, Clears> == kept);
  STATIC_REQUIRE(inside<toy::Device, Float32, OwnClearing> == kept);
  STATIC_REQUIRE(inside<toy::Device, Float32, Before> == kept);
  STATIC_REQUIRE(inside<toy::Device, Float32, OwnBackward> == kept);
  STATIC_REQUIRE(inside<toy::Device, Float32, After> == kept);
  STATIC_REQUIRE(inside<RecordedGpu, Fp16Mixed, After> == lost);
  STATIC_REQUIRE(inside<RecordedGpu, Fp16Mixed, OwnBackward> == scaled);
  STATIC_REQUIRE(inside<RecordedGpu, Bf16Mixed, OwnBackward> == lost);
  STATIC_REQUIRE(inside<toy::Gpu, Fp16Mixed, OwnBackward> == kept);
}

namespace {

/// A model that the usual callbacks can watch.
template <class Optimization>
struct Watched;
template <>
struct Watched<Automatic> : toy::P {};
template <>
struct Watched<Manual> : toy::P {
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
};

/// A set of callbacks as one type.
template <class... Cs>
struct Set {};
using Loss = Metric<"loss">;
constexpr auto sets =
    hana::tuple_t<Set<>, Set<ProgressBar, toy::Rows>, Set<LearningRateMonitor, toy::Rows>, Set<LearningRateMonitor>,
                  Set<GradientAccumulationScheduler>, Set<StochasticWeightAveraging<>>,
                  Set<EarlyStopping<Loss>, ModelCheckpoint<Loss>>, Set<EMAWeightAveraging, StochasticWeightAveraging<>>,
                  Set<Timer, Timer>, Set<ProgressBar, ProgressBar>>;
constexpr auto with_callbacks = hana::cartesian_product(hana::make_tuple(matrix, sets));

template <class S, class P, class O, class Callbacks>
constexpr Id of_cell = fine;
template <class S, class P, class O, class... Cs>
constexpr Id of_cell<S, P, O, Set<Cs...>> = id_of(judge::trainer<Watched<O>, S, P, O, Cs...>());
/// The verdicts of one cell of the policies with each set.
template <class S, class P, class O>
constexpr auto row =
    hana::unpack(sets, [](auto... set) { return std::array{of_cell<S, P, O, typename decltype(set)::type>...}; });
constexpr auto found = hana::unpack(matrix, [](auto... cells) {
  return std::array{hana::unpack(cells, [](auto... p) { return row<typename decltype(p)::type...>; })...};
});

constexpr Id logs = "fulgurite.callback.needs_logger";
constexpr Id auts = "fulgurite.callback.needs_automatic";
constexpr Id mean = "fulgurite.callback.one_average";
constexpr Id twice = "fulgurite.callback.twice";

// clang-format off
/// What callbacks make of a cell that the policies alone admit: under Automatic, under Manual.
constexpr std::array<std::array<Id, 2>, 10> of_set{{
    {fine,  fine},   // none
    {fine,  fine},   // a bar and a logger
    {fine,  fine},   // learning rates, and a logger to take them
    {logs,  logs},   // learning rates alone
    {fine,  auts},   // windows that change
    {fine,  auts},   // stochastic weight averaging
    {fine,  fine},   // early stopping and checkpoints
    {mean,  auts},   // two averages; under Manual the second one's need comes first
    {twice, twice},  // two timers
    {twice, twice},  // two bars
}};
// clang-format on

/// The verdict of the policies, if it is one; else that of the callbacks.
constexpr bool as_the_tables_say() {
  for (std::size_t cell = 0; cell != found.size(); ++cell)
    for (std::size_t set = 0; set != of_set.size(); ++set)
      if (found[cell][set] != (expected[cell] != fine ? expected[cell] : of_set[set][cell % 2])) return false;
  return true;
}

template <class S, class P, class O>
bool runs_a_step() {
  if constexpr (fault<S, P, O> == fine) {
    Watched<O> model;
    auto trainer = make_trainer<Watched<O>>(TrainerOptions{.max_steps = 1}, S{}, P{}, O{},
                                            EarlyStopping{Loss{}, {.strict = false}}, toy::Rows{});
    try {
      trainer.fit(model, toy::batches(2));
      return trainer.progress().global_step == 1;
    } catch (Error const& error) {  // the device is found out at run time, and is none
      return S::on_gpu == Known::at_run_time && P::scales_loss &&
             error.identifier() == "fulgurite.policy.fp16_needs_gpu";
    }
  } else {
    return true;
  }
}

}  // namespace

TEST_CASE("600 cells with callbacks are admitted, or refused by the one rule that the tables name", "[policy]") {
  STATIC_REQUIRE(decltype(hana::size(with_callbacks))::value == 600);
  STATIC_REQUIRE(found.size() * of_set.size() == 600);
  STATIC_REQUIRE(as_the_tables_say());
}

TEST_CASE("each cell that the policies admit runs a step, or finds out before it that there is no GPU", "[policy]") {
  bool const all = hana::unpack(matrix, [](auto... cells) {
    return (hana::unpack(cells, [](auto... p) { return runs_a_step<typename decltype(p)::type...>(); }) && ...);
  });
  CHECK(all);
}
