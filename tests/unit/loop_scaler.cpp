// A scaled loss (Fp16Mixed): overflow, growth, accumulation, steps without a loss, manual optimization; clipping sees
// unscaled gradients.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <string>

#include "models.hpp"

using namespace fulgurite;
using toy::Tensor;

namespace {

/// The toy's float16 overflows above 65504, so a gradient of 1 under a scale of 65536 does.
struct Scaled : toy::P {
  std::vector<double> after_backward = {}, before_step = {}, at_clipping = {}, after_clipping = {};
  std::vector<std::pair<long, long>> counters = {};  // global_step, skipped_steps
  void on_after_backward() { after_backward.push_back(p.grad()); }
  void on_before_optimizer_step() { before_step.push_back(p.grad()); }
  void configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx) {
    at_clipping.push_back(p.grad());
    ctx.clip_gradients(optimizer, clip);
    after_clipping.push_back(p.grad());
  }
  void on_train_batch_end(auto& ctx) { counters.emplace_back(ctx.global_step(), ctx.skipped_steps()); }
};

template <class M>
M on_gpu(int n, Fp16Mixed precision, Automatic how) {
  M model;
  make_trainer<M>({.max_epochs = 1}, toy::Gpu{}, precision, how).fit(model, toy::batches(n));
  return model;
}

/// The gradient of batch 0 is infinite, its loss is not.
struct Infinite : Scaled {
  void on_after_backward(auto& ctx) {
    if (ctx.batch_idx() == 0) p.set_grad(std::numeric_limits<double>::infinity());
    after_backward.push_back(p.grad());
  }
};

/// No loss in odd batches; momentum would move p without a gradient.
struct Nothing : Scaled {
  std::optional<Tensor> training_step(double batch) {
    seen.push_back(p.value());
    if (int(batch) % 2 == 1) return std::nullopt;
    return -p;
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .momentum = 0.5}; }
};

struct ManualScaled {
  Tensor a = Tensor::parameter(0), b = Tensor::parameter(0);
  bool out_of_order = false;
  std::vector<double> clipped = {}, stepped = {};
  auto configure_optimizers() { return optimizers(toy::Sgd{{a}}, toy::Sgd{{b}}); }
  void on_before_optimizer_step() { stepped.push_back(a.grad()); }
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    first.zero_grad();
    second.zero_grad();
    ctx.backward(-a);
    ctx.backward(-b);
    ctx.clip_gradients(first, ClipValue{0.5});
    clipped.push_back(a.grad());
    if (out_of_order) ctx.clip_gradients(second, ClipValue{0.5});
    ctx.step(first);
    ctx.step(second);
  }
};

}  // namespace

TEST_CASE("C158: an overflow: the step is skipped, the scale halved, global_step counts it, skipped_steps tells") {
  auto const m = on_gpu<Scaled>(3, {}, {.clip = ClipValue{0.5}});
  CHECK(m.after_backward == std::vector<double>{-65536, -32768, -32768});
  CHECK(m.counters == std::vector<std::pair<long, long>>{{1, 1}, {2, 1}, {3, 1}});
  CHECK(m.p.value() == 1.0);  // two steps of the clipped 0.5
}

TEST_CASE("C158: hooks and clipping see unscaled gradients, whatever the scale") {
  auto const m = on_gpu<Scaled>(2, {.init_scale = 1024}, {.clip = ClipValue{0.5}});
  CHECK(m.after_backward == std::vector<double>{-1024, -1024});
  CHECK(m.before_step == std::vector<double>{-1, -1});
  CHECK(m.at_clipping == std::vector<double>{-1, -1});
  CHECK(m.after_clipping == std::vector<double>{-0.5, -0.5});
  CHECK(m.p.value() == 1.0);
}

TEST_CASE("an infinite gradient is an overflow at any scale") {
  auto const m = on_gpu<Infinite>(2, {.init_scale = 4}, {});
  CHECK(m.counters == std::vector<std::pair<long, long>>{{1, 1}, {2, 1}});
  CHECK(m.after_backward[1] == -2);
  CHECK(m.p.value() == 1.0);
}

TEST_CASE("the scale grows after growth_interval good steps") {
  auto const m = on_gpu<Scaled>(5, {.init_scale = 2, .growth_factor = 4, .growth_interval = 2}, {});
  CHECK(m.after_backward == std::vector<double>{-2, -2, -8, -8, -32});
  CHECK(m.p.value() == 5.0);
}

TEST_CASE("accumulation: scale / K is the seed, one unscaling for the window, also for one that a stop ends early") {
  auto const m = on_gpu<Scaled>(4, {.init_scale = 1024}, {.accumulate_grad_batches = 2});
  CHECK(m.after_backward == std::vector<double>{-512, -1024, -512, -1024});
  CHECK(m.before_step == std::vector<double>{-1, -1});
  CHECK(m.p.value() == 2.0);

  Scaled flushed;
  make_trainer<Scaled>({.max_epochs = 1}, toy::Gpu{}, Fp16Mixed{.init_scale = 1024},
                       Automatic{.accumulate_grad_batches = 8}, toy::stop_at(0, 1))
      .fit(flushed, toy::batches(8));
  CHECK(flushed.before_step == std::vector<double>{-1});
  CHECK(flushed.p.value() == 1.0);
}

TEST_CASE("C159: a step without a loss: no update (momentum would move p), no change of scale, hooks and global_step "
          "as ever") {
  auto const m = on_gpu<Nothing>(4, {.init_scale = 2, .growth_interval = 2}, {});
  CHECK(m.before_step.size() == 4);
  CHECK(m.counters.back() == std::pair<long, long>{4, 0});
  CHECK(m.after_backward == std::vector<double>{-2, -2});  // two good steps: it would have grown after the second
  CHECK(m.seen == std::vector<double>{0, 1, 1, 2.5});
}

TEST_CASE("a window whose last batch has no loss: the gradients of the others are unscaled and stepped") {
  auto const m = on_gpu<Nothing>(4, {.init_scale = 1024}, {.accumulate_grad_batches = 2});
  CHECK(m.before_step == std::vector<double>{-0.5, -0.5});
  CHECK(m.seen == std::vector<double>{0, 0, 0.5, 0.5});
}

TEST_CASE("manual: clip_gradients sees unscaled gradients, the step does not unscale again") {
  ManualScaled model;
  auto trainer = make_trainer<ManualScaled>({.max_epochs = 1}, toy::Gpu{}, Fp16Mixed{.init_scale = 1024}, Manual{});
  trainer.fit(model, toy::batches(2));
  CHECK(model.clipped == std::vector<double>{-0.5, -0.5});
  CHECK(model.stepped == std::vector<double>{-0.5, -0.5, -0.5, -0.5});
  CHECK(model.a.value() == 1.0);
  CHECK(model.b.value() == 2.0);
  model.out_of_order = true;
  CHECK(toy::refusal([&] { trainer.fit(model, toy::batches(2)); }) == "");  // max_epochs is reached: nothing runs
  CHECK(toy::refusal([&] {
          make_trainer<ManualScaled>({.max_epochs = 1}, toy::Gpu{}, Fp16Mixed{}, Manual{}).fit(model, toy::batches(2));
        }) == "fulgurite.manual.clip_order");
}

/// Says that it is there for GPUs alone.
struct GpuAlone : toy::SomeDevice {
  static constexpr bool needs_gpu = true;
};

TEST_CASE("a device found at run time that is no GPU: an Error before anything trains") {
  toy::P model;
  CHECK(toy::refusal([&] {
          make_trainer<toy::P>({.max_epochs = 1}, toy::SomeDevice{}, Fp16Mixed{}, Automatic{})
              .fit(model, toy::batches(1));
        }) == "fulgurite.policy.fp16_needs_gpu");
  CHECK(toy::refusal([&] {
          make_trainer<toy::P>({.max_epochs = 1}, GpuAlone{}, Float32{}, Automatic{}).fit(model, toy::batches(1));
        }) == "fulgurite.policy.strategy_needs_gpu");
  CHECK(model.seen.empty());
}

TEST_CASE("steps run under autocast where the precision says so, and only they") {
  struct Depths : toy::P {
    std::vector<int> inside = {}, outside = {};
    Tensor training_step(double) {
      inside.push_back(toy::world.autocast_depth);
      return -p;
    }
    void validation_step(double) { inside.push_back(toy::world.autocast_depth); }
    void on_before_backward() { outside.push_back(toy::world.autocast_depth); }
    void on_validation_batch_end() { outside.push_back(toy::world.autocast_depth); }
  } model;
  make_trainer<Depths>({.max_epochs = 1, .num_sanity_val_steps = 0}, toy::Device{}, Bf16Mixed{}, Automatic{})
      .fit(model, toy::batches(1), toy::batches(1));
  CHECK(model.inside == std::vector<int>{1, 1});
  CHECK(model.outside == std::vector<int>{0, 0});
  Depths plain;
  make_trainer<Depths>({.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{})
      .fit(plain, toy::batches(1), NoValidation{});
  CHECK(plain.inside == std::vector<int>{0});
}

namespace {

/// Its loss is not a number from a batch on, or all of its gradients are infinite.
struct Bad {
  int bad_loss = -1;
  bool bad_gradients = false, constant = false;
  long skipped = 0, steps = 0;
  Tensor p = Tensor::parameter(0);
  toy::Sgd configure_optimizers() { return {{p}}; }
  Tensor training_step(double batch) {
    if (int(batch) != bad_loss) return -p;
    return constant ? -p + Tensor(std::nan("")) : -p * Tensor(std::nan(""));
  }
  void on_after_backward() {
    if (bad_gradients) p.set_grad(std::numeric_limits<double>::infinity());
  }
  void on_train_batch_end(auto& ctx) { skipped = ctx.skipped_steps(), steps = ctx.global_step(); }
};

std::string said(Bad& model, NonFinite policy, Fp16Mixed precision = {.init_scale = 1024}, int n = 150) {
  auto trainer = make_trainer<Bad>({.max_epochs = 1, .non_finite = policy}, toy::Gpu{}, precision, Automatic{});
  try {
    trainer.fit(model, toy::batches(n));
  } catch (Error const& error) { return error.what(); }
  return trainer.warnings().empty() ? "" : trainer.warnings().front();
}

struct Waits {
  Waits() { toy::world.device_waits = true; }
  ~Waits() { toy::world.device_waits = false; }
};

}  // namespace

TEST_CASE("a loss that is not finite is no matter of the scale: it ends the fit, or its update is left out") {
  for (bool const constant : {false, true}) {
    Bad stops{.bad_loss = 3, .constant = constant};
    CHECK(said(stops, NonFinite::stop).starts_with("[fulgurite.loop.non_finite] the loss is nan after batch 3"));
    CHECK((stops.steps == 3 && stops.p.value() == 3));
    for (bool const waits : {false, true}) {
      toy::world.device_waits = waits;
      Bad skips{.bad_loss = 3, .constant = constant};
      auto const warning = said(skips, NonFinite::skip);
      toy::world.device_waits = false;
      if (!waits || constant) CHECK(warning.starts_with("[fulgurite.loop.non_finite_skipped]"));
      CHECK((skips.skipped == 1 && skips.p.value() == 149));
    }
  }
  Waits const device;
  Bad noted{.bad_loss = 3};
  CHECK(said(noted, NonFinite::stop).find("since one of the steps 1 to") != std::string::npos);
}

TEST_CASE("a loss that is noted for a scaled step is not waited for") {
  Waits const device;
  auto const reads = [](NonFinite policy) {
    Bad model;
    long const before = toy::world.reads;
    CHECK(said(model, policy) == "");
    return toy::world.reads - before;
  };
  CHECK(reads(NonFinite::stop) <= reads(NonFinite::ignore) + 150 / 50 + 1);
}

TEST_CASE("a scaler that skips 100 updates in a row, or has no scale left, ends the fit; skip and ignore are warned") {
  Bad stops{.bad_gradients = true};
  auto const stopped = said(stops, NonFinite::stop);
  CHECK(stopped.starts_with("[fulgurite.loop.scaler_skips] the scaler of 16-mixed has left out the last 100 updates"));
  CHECK((stops.steps == 99 && stops.p.value() == 0));
  Bad small{.bad_gradients = true};
  CHECK(said(small, NonFinite::stop, {.init_scale = 1024, .backoff_factor = 0.01})
            .starts_with("[fulgurite.loop.scaler_skips] the scaler of 16-mixed has left out the last 21 updates"));
  for (auto const policy : {NonFinite::skip, NonFinite::ignore}) {
    Bad goes_on{.bad_gradients = true};
    CHECK(said(goes_on, policy).starts_with("[fulgurite.loop.scaler_skips]"));
    CHECK((goes_on.steps == 150 && goes_on.skipped == 150));
  }
}
