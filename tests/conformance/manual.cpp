// Section 11.6: manual optimization.
#include "observed.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::note;
using toy::Tensor;
using toy::trace;

namespace {

template <class M, class... Cs>
auto manual(TrainerOptions options, Cs... callbacks) {
  return make_trainer<M>(std::move(options), toy::Device{}, Float32{}, Manual{}, std::move(callbacks)...);
}

/// Every event there is in manual mode: never zero_grad, optimizer_step, clipping or schedule hooks.
struct Witnessed {
  Tensor p = Tensor::parameter(0.0);
  FULGURITE_EVENTS(TOY_MANUAL_M)
  void training_step(double, auto& ctx) {
    note("training_step");
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.backward(-p);
    ctx.step(optimizer);
  }
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, [](long) { return 1.0; });
  }
};

struct MovesByHand : toy::P {
  std::vector<double> rates = {};
  bool moves = false;
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, [](long n) { return 1.0 / static_cast<double>(1 + n); });
  }
  void training_step(double batch, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    auto& [schedule] = ctx.lr_schedulers();
    rates.push_back(optimizer.lr(0));
    ctx.minimize(optimizer, -p);
    if (moves && int(batch) % 2 == 1) schedule.step();
  }
};

/// Half the loss each batch, a step every second one.
struct Halves : toy::P {
  void training_step(double, auto& ctx) {
    seen.push_back(p.value());
    auto& [optimizer] = ctx.optimizers();
    ctx.backward(p * Tensor(-0.5));
    if ((ctx.batch_idx() + 1) % 2 != 0) return;
    ctx.step(optimizer);
    optimizer.zero_grad();
  }
};

struct Accumulates {
  using Stateless = ByChoice;
  bool can = true;
  void on_train_epoch_start(auto& ctx) {
    can = requires { ctx.accumulate(2); };
  }
};

template <class How>
concept Clips = requires { How{.clip = ClipNorm{0.5}}; };
template <class How>
concept HasWindow = requires { How{.accumulate_grad_batches = 2}; };

}  // namespace

TEST_CASE("C67 per batch: step, before_backward, after_backward, before_optimizer_step; gs 2") {
  Witnessed model;
  trace.clear();
  auto trainer = manual<Witnessed>({.max_epochs = 1}, toy::ManualWitness{});
  trainer.fit(model, toy::batches(2));
  toy::Trace expected;
  for (auto const* name : {"setup", "on_fit_start", "on_train_start", "on_train_epoch_start"})
    toy::both(expected, name);
  for (int b = 0; b != 2; ++b) {
    toy::both(expected, "on_train_batch_start");
    expected.push_back("training_step");
    for (auto const* name :
         {"on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_train_batch_end"})
      toy::both(expected, name);
  }
  for (auto const* name : {"on_train_epoch_end", "on_train_end", "on_fit_end", "teardown"}) toy::both(expected, name);
  CHECK(observed("C67", "trace", trace) == expected);
  CHECK(observed("C67", "gs", trainer.progress().global_step) == 2);
}

// Lightning: clipping 0 is accepted under manual optimization.
TEST_CASE("C69 manual optimization has neither clipping nor windows to set") {
  STATIC_REQUIRE(Clips<Automatic>);
  STATIC_REQUIRE(HasWindow<Automatic>);
  CHECK(observed("C69", "clip .5", Clips<Manual> ? "runs" : "error") == "error");
  CHECK(observed("C69", "K2", HasWindow<Manual> ? "runs" : "error") == "error");
  toy::P automatic;
  Halves model;
  auto trainer = manual<Halves>({.max_epochs = 1}, Accumulates{});
  trainer.fit(model, toy::batches(1));
  CHECK_FALSE(trainer.callback<Accumulates>().can);
  auto other = toy::train<toy::P>({.max_epochs = 1}, Automatic{}, Accumulates{false});
  other.fit(automatic, toy::batches(1));
  CHECK(other.callback<Accumulates>().can);
}

TEST_CASE("C73 schedules move when the user says so (Lightning: an interval is dropped with a warning; here it is "
          "refused, nocompile schedule.manual)") {
  auto rates = [](bool moves) {
    MovesByHand model;
    model.moves = moves;
    manual<MovesByHand>({.max_epochs = 1}).fit(model, toy::batches(5));
    return model.rates;
  };
  CHECK(observed("C73", "not told", rates(false)) == Numbers{1, 1, 1, 1, 1});
  CHECK(observed("C73", "told after b 1, 3", rates(true)) == Numbers{1, 1, 0.5, 0.5, 1.0 / 3});
}

TEST_CASE("C74 half the loss, a step every second batch, n3 E2: p seen 0, 0, 1, 1, 1, 2.5; gs 2") {
  Halves model;
  auto trainer = manual<Halves>({.max_epochs = 2});
  trainer.fit(model, toy::batches(3));
  CHECK(observed("C74", "seen", model.seen) == Numbers{0, 0, 1, 1, 1, 2.5});
  CHECK(observed("C74", "gs", trainer.progress().global_step) == 2);
}
