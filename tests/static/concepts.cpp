// What is a strategy, a precision, an optimizer, a loader, a loss; and what is not.
#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/schedule/schedule.hpp>

using namespace fulgurite;

namespace {

class NoBackend : public toy::Device {
  using Backend = toy::Backend;
};
struct Silent : toy::Device {  // of the device: hides what its base says
  struct on_gpu {};
};
struct Bare {
  using Backend = toy::Backend;
  static constexpr Known on_gpu = Known::no;
  static constexpr bool is_distributed = false, captures = false;
};
struct NoSeam : Bare {
  void setup(auto&, auto const&) {}
  void teardown(auto&) {}
  int device() const { return 0; }
  bool is_on_gpu() const { return false; }
  auto& move(auto& batch) { return batch; }
  void backward(auto&, double) {}
  void flush(auto&, double) {}
  int rank() const { return 0; }
};
struct Seam : NoSeam {
  auto gradients(auto, auto& batch, auto&, auto&& body) { return body(batch); }
};
struct Moody : toy::Device {
  bool captures = false;
};
struct MoodyPrecision : Float32 {
  bool autocasts = false;
};
struct NoWindow {
  static constexpr bool automatic = true;
};
struct OwnWindow : Automatic {};
struct OwnLoop {
  static constexpr bool automatic = false;
};
struct Half {
  static constexpr Dtype parameters = Dtype::float16;
};
/// Says its constants by other types than bool.
struct SaysInts : toy::Sgd {
  static constexpr int needs_closure = 0;
  static constexpr std::true_type stable_gradients{};
};
struct NoRates {
  static constexpr bool needs_closure = false, stable_gradients = true;
  void zero_grad() {}
  void step() {}
  std::vector<toy::Tensor> parameters() const { return {}; }
};

}  // namespace

TEST_CASE("strategies", "[concept]") {
  STATIC_REQUIRE(StrategyLike<toy::Device>);
  STATIC_REQUIRE(StrategyLike<toy::SomeDevice>);
  STATIC_REQUIRE(!StrategyLike<NoBackend>);
  STATIC_REQUIRE(!StrategyLike<Silent>);
  STATIC_REQUIRE(!StrategyLike<Float32>);
  STATIC_REQUIRE(!StrategyLike<Cpu>);
  STATIC_REQUIRE(!StrategyLike<int>);
  STATIC_REQUIRE(!StrategyLike<Moody>);
}

TEST_CASE("a strategy has all that the loops call of it", "[concept]") {
  STATIC_REQUIRE(judge::PolicyRules<toy::Device, Float32, Automatic>::judge().ok);
  STATIC_REQUIRE(judge::PolicyRules<Seam, Float32, Automatic>::judge().ok);
  STATIC_REQUIRE(judge::strategy_lacks<NoSeam>().hook == HookId::of_strategy_gradients);
  STATIC_REQUIRE(!judge::PolicyRules<NoSeam, Float32, Automatic>::judge().ok);
  STATIC_REQUIRE(judge::strategy_lacks<Bare>().hook == HookId::of_strategy_setup);
  STATIC_REQUIRE(!judge::PolicyRules<Bare, Float32, Automatic>::judge().ok);
}

TEST_CASE("precisions", "[concept]") {
  STATIC_REQUIRE(PrecisionLike<Float32>);
  STATIC_REQUIRE(PrecisionLike<Float64>);
  STATIC_REQUIRE(PrecisionLike<Bf16Mixed>);
  STATIC_REQUIRE(PrecisionLike<Fp16Mixed>);
  STATIC_REQUIRE(PrecisionLike<Bf16True>);
  STATIC_REQUIRE(PrecisionLike<Fp16True>);
  STATIC_REQUIRE(!PrecisionLike<Half>);
  STATIC_REQUIRE(!PrecisionLike<MoodyPrecision>);
  STATIC_REQUIRE(!PrecisionLike<toy::Device>);
  STATIC_REQUIRE(!PrecisionLike<int>);
}

TEST_CASE("optimizations", "[concept]") {
  STATIC_REQUIRE(OptimizationLike<Automatic>);
  STATIC_REQUIRE(OptimizationLike<Manual>);
  STATIC_REQUIRE(!OptimizationLike<ClipNorm>);
  STATIC_REQUIRE(!OptimizationLike<Float32>);
  STATIC_REQUIRE(OptimizationLike<OwnWindow>);
  STATIC_REQUIRE(OptimizationLike<OwnLoop>);
  STATIC_REQUIRE(!OptimizationLike<NoWindow>);
}

TEST_CASE("optimizers", "[concept]") {
  STATIC_REQUIRE(OptimizerLike<toy::Sgd>);
  STATIC_REQUIRE(OptimizerLike<toy::Repeating>);
  STATIC_REQUIRE(OptimizerLike<SaysInts>);
  STATIC_REQUIRE(!OptimizerLike<NoRates>);
  STATIC_REQUIRE(!OptimizerLike<double>);
  STATIC_REQUIRE(judge::Optimizes<toy::Backend, toy::Sgd>);
  STATIC_REQUIRE(!judge::Optimizes<toy::Backend, std::unique_ptr<toy::Sgd>>);
}

TEST_CASE("schedules", "[concept]") {
  STATIC_REQUIRE(schedule::Schedule<schedule::Constant>);
  STATIC_REQUIRE(schedule::Schedule<double (*)(long)>);
  STATIC_REQUIRE(!schedule::Schedule<double>);
  STATIC_REQUIRE(!schedule::Schedule<std::string (*)(long)>);
}

TEST_CASE("loaders", "[concept]") {
  STATIC_REQUIRE(LoaderLike<std::vector<double>>);
  STATIC_REQUIRE(LoaderLike<std::vector<double> const>);
  STATIC_REQUIRE(LoaderLike<double[3]>);
  STATIC_REQUIRE(LoaderLike<toy::Unsized>);
  STATIC_REQUIRE(!LoaderLike<std::unique_ptr<std::vector<double>>>);
  STATIC_REQUIRE(!LoaderLike<std::tuple<std::vector<double>>>);
  STATIC_REQUIRE(!LoaderLike<NoValidation>);
  STATIC_REQUIRE(!LoaderLike<int>);
  STATIC_REQUIRE(SizedLoader<std::vector<double>>);
  STATIC_REQUIRE(!SizedLoader<toy::Unsized>);
  STATIC_REQUIRE(BatchesStayValid<std::vector<double>>);
  STATIC_REQUIRE(BatchesStayValid<toy::Unsized>);
  STATIC_REQUIRE(!BatchesStayValid<NoValidation>);
}

namespace {
struct WithLoss {
  toy::Tensor loss;
  int correct;
};
struct WithCost {
  toy::Tensor cost;
};
struct WithNumber {
  double loss;
};
template <class T>
concept Output = loop::StepOutput<toy::Backend, T>;
}  // namespace

TEST_CASE("what a training step may return (W47)", "[concept]") {
  STATIC_REQUIRE(Output<toy::Tensor>);
  STATIC_REQUIRE(Output<WithLoss>);
  STATIC_REQUIRE(Output<std::optional<toy::Tensor>>);
  STATIC_REQUIRE(Output<std::optional<WithLoss>>);
  STATIC_REQUIRE(!Output<WithCost>);
  STATIC_REQUIRE(!Output<WithNumber>);
  STATIC_REQUIRE(!Output<double>);
  STATIC_REQUIRE(!Output<void>);
  STATIC_REQUIRE(!Output<std::optional<double>>);
  STATIC_REQUIRE(!Output<std::unique_ptr<toy::Tensor>>);
}

namespace {
struct Empty {};
struct Members {
  int n = 0;
};
struct Configured {
  using Stateless = ByChoice;
  int patience = 3;
};
struct Saved {
  int n = 0;
  void state(auto& archive) { archive("n", n); }
};
struct SavedPrivately {
  int n = 0;

 private:
  void state(auto& archive) { archive("n", n); }
};
}  // namespace

TEST_CASE("what a checkpoint would forget", "[concept]") {
  STATIC_REQUIRE(Remembers<Empty>);
  STATIC_REQUIRE(Remembers<Configured>);
  STATIC_REQUIRE(Remembers<Saved>);
  STATIC_REQUIRE(!Remembers<Members>);
  STATIC_REQUIRE(!Remembers<SavedPrivately>);
}

namespace {
template <class O>
concept Clips = requires { O{.clip = ClipNorm{1.0}}; };
template <class O>
concept Accumulates = requires { O{.accumulate_grad_batches = 4}; };

template <class Optimization, class Phase>
using Ctx = RunContext<Run<toy::P, toy::Device, Float32, Optimization>, Phase>;
template <class C>
concept HasOptimizers = requires(C& ctx) { ctx.optimizers(); };
template <class C>
concept HasOptimizer = requires(C& ctx) { ctx.optimizer(); };
template <class C>
concept HasAccumulate = requires(C& ctx) { ctx.accumulate(2); };
template <class C>
concept HasClipping = requires(C& ctx, toy::Sgd& sgd) { ctx.clip_gradients(sgd, Clip{}); };
template <class C>
concept RequestsStop = requires(C& ctx) { ctx.request_stop(); };
}  // namespace

TEST_CASE("Manual has neither clipping nor windows (W19, W25)", "[concept]") {
  STATIC_REQUIRE(Clips<Automatic>);
  STATIC_REQUIRE(!Clips<Manual>);
  STATIC_REQUIRE(Accumulates<Automatic>);
  STATIC_REQUIRE(!Accumulates<Manual>);
}

TEST_CASE("members of a context that make no sense in a phase do not exist", "[concept]") {
  STATIC_REQUIRE(HasOptimizer<Ctx<Automatic, phase::Train>>);
  STATIC_REQUIRE(HasOptimizers<Ctx<Manual, phase::Train>>);
  STATIC_REQUIRE(!HasOptimizers<Ctx<Automatic, phase::Test>>);
  STATIC_REQUIRE(!HasOptimizers<Ctx<Automatic, phase::Predict>>);
  STATIC_REQUIRE(HasAccumulate<Ctx<Automatic, phase::Train>>);
  STATIC_REQUIRE(!HasAccumulate<Ctx<Manual, phase::Train>>);
  STATIC_REQUIRE(!HasAccumulate<Ctx<Automatic, phase::Validate>>);
  STATIC_REQUIRE(HasClipping<Ctx<Automatic, phase::Train>>);
  STATIC_REQUIRE(!HasClipping<Ctx<Automatic, phase::Validate>>);
  STATIC_REQUIRE(RequestsStop<Ctx<Automatic, phase::Validate>>);
  STATIC_REQUIRE(!RequestsStop<Ctx<Automatic, phase::Test>>);
}

namespace {

struct Inert {};
struct Forgetful {
  int count = 0;
  void on_fit_start() {}
};
struct Careful {
  int count = 0;
  void on_fit_start() {}
  void state(auto& archive) { archive("count", count); }
};
struct Log {
  void log_metrics(std::span<Scalar const>, long) {}
};
struct Data {
  std::vector<double> train_dataloader() { return {}; }
};
struct Stepless {
  toy::Sgd configure_optimizers() { return {}; }
};

}  // namespace

TEST_CASE("models, callbacks, loggers, data modules", "[concept]") {
  STATIC_REQUIRE(ModelLike<toy::P>);
  STATIC_REQUIRE(!ModelLike<Stepless>);
  STATIC_REQUIRE(!ModelLike<int>);
  STATIC_REQUIRE(CallbackLike<Careful>);
  STATIC_REQUIRE(CallbackLike<Log>);
  STATIC_REQUIRE(!CallbackLike<Inert>);
  STATIC_REQUIRE(!CallbackLike<Forgetful>);
  STATIC_REQUIRE(!CallbackLike<int>);
  STATIC_REQUIRE(LoggerLike<Log>);
  STATIC_REQUIRE(!LoggerLike<Careful>);
  STATIC_REQUIRE(DataModuleLike<Data>);
  STATIC_REQUIRE(!DataModuleLike<std::vector<double>>);
}
