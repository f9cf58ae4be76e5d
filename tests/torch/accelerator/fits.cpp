// Fits on the fake accelerator: the CPU's bits, what is copied and when, and how often the host waits. These are counts
// that a real GPU does not give; the same fits on one are in tests/torch/gpu_*.cpp.

#include "fake_device.hpp"

#include "../gpu.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/generated/variable_factories.h>

using namespace gpu;
using Catch::Matchers::StartsWith;

namespace {

auto fake_strategy(std::string_view name = "fake") { return SingleDevice{Accelerator{name}}; }

/// What a fit leaves: weights and buffers, losses, and the next random numbers of the device.
struct Fitted {
  std::vector<torch::Tensor> weights = {}, losses = {};
  torch::Tensor random = {};
};
template <class Strategy, class Precision = Float32>
Fitted fitted(Strategy strategy, std::vector<data::Batch> const& train, Automatic how = {}, int epochs = 2,
              Precision precision = {}) {
  auto model = fresh<Ours>();
  torch::manual_seed(5);
  auto trainer = make_trainer<Ours>({.max_epochs = epochs, .log_every_n_steps = 1}, strategy, precision, how,
                                    NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  return {fixtures::copied_weights(model), model.losses,
          torch::rand({4}, torch::TensorOptions(trainer.strategy().device()))};
}
bool same(Fitted const& a, Fitted const& b) {
  return gpu::same(a.weights, b.weights) && gpu::same(a.losses, b.losses) && fixtures::same_bits(a.random, b.random);
}

/// What the device counts in a fit of `n` steps.
template <class Data, class Model = Ours, class... Parts>
fake::Counts counted(Data&& train, TrainerOptions options, Parts... parts) {
  auto model = fresh<Model>();
  options.max_epochs = 1;
  auto trainer = make_trainer<Model>(options, fake_strategy(), parts..., NoDefaults{});
  fake::counts = {};
  trainer.fit(model, train, NoValidation{});
  return fake::counts;
}

}  // namespace

TEST_CASE("a fit on an accelerator has the CPU's bits, and its model is on the CPU afterwards") {
  auto const train = batches(7, 8, 5);
  auto const here = fitted(SingleDevice{cpu}, train);
  CHECK(same(fitted(fake_strategy(), train), here));
  CHECK(same(fitted(fake_strategy("privateuseone:1"), train), here));
  CHECK(same(fitted(SingleDevice{NamedDevice{"fake:1"}}, train), here));
  CHECK(same(fitted(SingleDevice{automatic}, train), here));
  Automatic const windows{.accumulate_grad_batches = 3, .clip = ClipNorm{0.5}};
  CHECK(same(fitted(fake_strategy(), train, windows), fitted(SingleDevice{cpu}, train, windows)));

  auto const there = fitted(fake_strategy(), train);
  CHECK(there.losses.back().device() == fake::device());
  for (auto const& weight : there.weights) CHECK(weight.is_cpu());
}

TEST_CASE("devices are named as LibTorch names them, and one that is not there is an error before anything changes") {
  static_assert(decltype(fake_strategy())::on_gpu == Known::yes);
  CHECK(fake_strategy("fake:1").device() == fake::device(1));
  CHECK(fake_strategy().is_on_gpu());
  CHECK(SingleDevice{NamedDevice{"fake"}}.is_on_gpu());
  CHECK_FALSE(SingleDevice{NamedDevice{"cpu"}}.is_on_gpu());
  CHECK(SingleDevice{Accelerator{"xpu:1"}}.device() == at::Device(at::kXPU, 1));
  CHECK(SingleDevice{Accelerator{"mps"}}.device() == at::Device(at::kMPS, 0));
  for (auto const* name : {"", "cpu", "meta", "gpu", "fake:", "fake:-1", "fake:1x", "fake:128", "xpu1"})
    CHECK_THROWS_WITH(SingleDevice{Accelerator{name}}, StartsWith("[fulgurite.strategy.accelerator] "));

  auto model = fresh<Ours>();
  for (auto const* name : {"fake:2", "xpu", "mps", "hpu", "mtia"}) {
    auto trainer = make_trainer<Ours>({.max_epochs = 1}, fake_strategy(name), NoDefaults{});
    CHECK_THROWS_WITH(trainer.fit(model, batches(1, 8), NoValidation{}),
                      StartsWith("[fulgurite.strategy.accelerator_absent] "));
  }
  CHECK(model.ran == 0);
  CHECK(model.parameters().front().is_cpu());
}

TEST_CASE("each tensor of a batch is copied to the device once, with its bytes") {
  auto const train = [](int n) { return batches(n, 8); };
  auto const few = counted(train(4), {}), many = counted(train(20), {});
  CHECK(many.uploads - few.uploads == 16 * 2);
  CHECK(many.uploaded - few.uploaded == 16 * (8 * 6 * 4 + 8 * 8));
  CHECK(many.downloads == few.downloads);
  CHECK(many.streams == 0);

  auto const there = [](int n) {
    auto all = batches(n, 8);
    for (auto& batch : all) batch = {batch.data.to(fake::device()), batch.target.to(fake::device())};
    return all;
  };
  CHECK(counted(there(20), {}).uploads == counted(there(4), {}).uploads);
}

TEST_CASE("logged values are read once in log_every_n_steps steps, together, and no step waits else") {
  auto const train = [](int n) {
    auto all = batches(n, 8);
    for (auto& batch : all) batch = {batch.data.to(fake::device()), batch.target.to(fake::device())};
    return all;
  };
  auto const more = [&](auto... parts) { return counted(train(72), parts...).waits - counted(train(24), parts...).waits; };
  Automatic const windows{.accumulate_grad_batches = 2, .clip = ClipNorm{0.5}};
  CHECK(more(TrainerOptions{.log_every_n_steps = 0}) == 0);
  CHECK(more(TrainerOptions{.log_every_n_steps = 8}) == 48 / 8);
  CHECK(more(TrainerOptions{.log_every_n_steps = 0}, windows, EMAWeightAveraging()) == 0);
  CHECK(more(TrainerOptions{.log_every_n_steps = 0}, Bf16Mixed{}, Automatic{.clip = ClipValue{0.1}}) == 0);
}
