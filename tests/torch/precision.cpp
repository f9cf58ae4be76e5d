// What each precision does to a model, to operators, to the loss and to the gradient.
#include "fixtures.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/device/single_device.hpp>

namespace {
using fixtures::Net;
using fulgurite::LibTorch;
using torch::Tensor;
at::Device const here(at::kCPU);

at::ScalarType product_type() { return torch::mm(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type(); }
Tensor parameter(double gradient) {
  auto p = torch::ones({2}).requires_grad_();
  p.mutable_grad() = torch::full({2}, gradient);
  return p;
}
constexpr double infinity = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("setup converts floating parameters and buffers alone, and keeps their identity", "[precision]") {
  Net net;
  auto const before = net.parameters();
  net.in->weight.mutable_grad() = torch::ones_like(net.in->weight);
  fulgurite::SingleDevice strategy{fulgurite::cpu};
  auto const check = [&](auto precision, at::ScalarType type) {
    strategy.setup(net, precision);
    auto const after = net.parameters();
    for (std::size_t i = 0; i != before.size(); ++i) CHECK(after[i].is_same(before[i]));
    for (auto const& p : after) CHECK((p.scalar_type() == type && p.is_leaf() && p.requires_grad()));
    CHECK(net.in->weight.grad().scalar_type() == type);
    CHECK(net.norm->running_mean.scalar_type() == type);
    CHECK(net.norm->num_batches_tracked.scalar_type() == at::kLong);
    strategy.teardown(net);
    CHECK(net.in->weight.scalar_type() == type);
  };
  check(fulgurite::Float64{}, at::kDouble);
  check(fulgurite::Bf16True{}, at::kBFloat16);
  check(fulgurite::Fp16True{}, at::kHalf);
  check(fulgurite::Bf16Mixed{}, at::kFloat);
  check(fulgurite::Float32{}, at::kFloat);
  auto const* where = net.in->weight.data_ptr();
  strategy.setup(net, fulgurite::Float32{});
  CHECK(net.in->weight.data_ptr() == where);  // nothing to do: nothing is done
  struct NoModule {
  } plain;
  strategy.setup(plain, fulgurite::Float32{});
}

TEST_CASE("a converted model still trains", "[precision]") {
  Net net;
  fulgurite::SingleDevice strategy{fulgurite::cpu};
  net.forward(torch::randn({8, 4})).sum().backward();  // gradient accumulators of the old type exist
  strategy.setup(net, fulgurite::Bf16True{});
  net.zero_grad();
  net.forward(torch::randn({8, 4}, torch::kBFloat16)).sum().backward();
  CHECK(net.in->weight.grad().scalar_type() == at::kBFloat16);
}

TEST_CASE("a device that is not there is an error before anything is touched", "[precision][device]") {
  Net net;
  if (!torch::cuda::is_available()) {
    fulgurite::SingleDevice strategy{fulgurite::cuda};
    static_assert(decltype(strategy)::on_gpu == fulgurite::Known::yes);
    CHECK(strategy.device() == at::Device(at::kCUDA, 0));
    CHECK_THROWS_WITH(strategy.setup(net, fulgurite::Float64{}),
                      Catch::Matchers::StartsWith("[fulgurite.strategy.cuda_absent]") &&
                          Catch::Matchers::ContainsSubstring("link the program with torch_cuda"));
    CHECK(net.in->weight.scalar_type() == at::kFloat);
    fulgurite::SingleDevice chosen{fulgurite::automatic};
    static_assert(decltype(chosen)::on_gpu == fulgurite::Known::at_run_time);
    CHECK(chosen.device().is_cpu());
    CHECK_FALSE(chosen.is_on_gpu());
    chosen.setup(net, fulgurite::Bf16Mixed{});
  } else {
    fulgurite::SingleDevice strategy{fulgurite::Cuda{99}};
    CHECK_THROWS_WITH(strategy.setup(net, fulgurite::Float32{}),
                      Catch::Matchers::StartsWith("[fulgurite.strategy.cuda_index]"));
  }
}

TEST_CASE("the number of a GPU that LibTorch cannot count to is refused, and not taken for another one's", "[device]") {
  for (int const index : {128, 256, -129})
    CHECK_THROWS_WITH(fulgurite::SingleDevice{fulgurite::cuda(index)},
                      Catch::Matchers::StartsWith("[fulgurite.strategy.cuda_index]") &&
                          Catch::Matchers::ContainsSubstring("GPU " + std::to_string(index) + " was asked for"));
}

TEST_CASE("one type serves every device that a name can choose, and a wrong name is an error", "[device]") {
  auto const chosen = [](std::string_view name) { return fulgurite::SingleDevice{fulgurite::NamedDevice{name}}; };
  static_assert(decltype(chosen(""))::on_gpu == fulgurite::Known::at_run_time);
  CHECK(chosen("cpu").device() == at::Device(at::kCPU));
  CHECK(chosen("cuda").device() == at::Device(at::kCUDA, 0));
  CHECK(chosen("cuda:1").device() == at::Device(at::kCUDA, 1));
  CHECK(chosen("auto").device() == fulgurite::SingleDevice{fulgurite::automatic}.device());
  CHECK_FALSE(chosen("cpu").is_on_gpu());
  for (auto const* name : {"", "gpu", "CPU", "cuda:", "cuda1", "cuda:-1", "cuda:1x", "cuda:128", "cudax1"})
    CHECK_THROWS_WITH(chosen(name), Catch::Matchers::StartsWith("[fulgurite.strategy.device]") &&
                                        Catch::Matchers::ContainsSubstring("\"" + std::string(name) + "\"") &&
                                        Catch::Matchers::ContainsSubstring("cpu, cuda, cuda:1"));
  Net net;
  auto absent = chosen("cuda:127");
  auto const rule =
      torch::cuda::is_available() ? "[fulgurite.strategy.cuda_index]" : "[fulgurite.strategy.cuda_absent]";
  CHECK_THROWS_WITH(absent.setup(net, fulgurite::Float64{}), Catch::Matchers::StartsWith(rule));
  CHECK(net.in->weight.scalar_type() == at::kFloat);
  auto plain = chosen("cpu");
  plain.setup(net, fulgurite::Float64{});
  CHECK(net.in->weight.scalar_type() == at::kDouble);
}

TEST_CASE("autocast is a scope that nests, restores and survives exceptions", "[precision]") {
  CHECK(product_type() == at::kFloat);
  {
    [[maybe_unused]] auto const outer = LibTorch::autocast(fulgurite::Bf16Mixed{}, here);
    CHECK(product_type() == at::kBFloat16);
    {
      [[maybe_unused]] auto const inner = LibTorch::autocast(fulgurite::Fp16Mixed{}, here);
      CHECK(product_type() == at::kHalf);
    }
    CHECK(product_type() == at::kBFloat16);
    try {
      [[maybe_unused]] auto const inner = LibTorch::autocast(fulgurite::Fp16Mixed{}, here);
      throw std::runtime_error("a step failed");
    } catch (std::runtime_error const&) { CHECK(product_type() == at::kBFloat16); }
    at::ScalarType elsewhere = at::kBFloat16;
    std::thread([&] { elsewhere = product_type(); }).join();
    CHECK(elsewhere == at::kFloat);  // of this thread alone
  }
  CHECK(product_type() == at::kFloat);
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  CHECK(at::autocast::increment_nesting() == 1);  // balanced
  at::autocast::decrement_nesting();
  auto const opens_none = [](auto precision) { return std::is_empty_v<decltype(LibTorch::autocast(precision, here))>; };
  static_assert(opens_none(fulgurite::Float32{}) && opens_none(fulgurite::Float64{}) &&
                    opens_none(fulgurite::Bf16True{}),
                "what converts parameters and inputs switches nothing");
}

TEST_CASE("under autocast a parameter is cast once a step, and its gradient is float32", "[precision]") {
  auto w = torch::ones({2, 2}).requires_grad_();
  auto const x = torch::ones({2, 2});
  {
    [[maybe_unused]] auto const scope = LibTorch::autocast(fulgurite::Bf16Mixed{}, here);
    (x.mm(w) + x.mm(w)).sum().backward();
  }
  CHECK(w.grad().scalar_type() == at::kFloat);
  CHECK(w.grad()[0][0].item<float>() == 4.0F);
  w.data().fill_(2.0);  // the next step must see the new value: the cast is not kept beyond the scope
  [[maybe_unused]] auto const scope = LibTorch::autocast(fulgurite::Bf16Mixed{}, here);
  CHECK(x.mm(w)[0][0].item<float>() == 4.0F);
}

TEST_CASE("a cast made without gradients inside a step is not reused with them", "[precision]") {
  auto w = torch::ones({2, 2}).requires_grad_();
  auto const x = torch::ones({2, 2});
  [[maybe_unused]] auto const scope = LibTorch::autocast(fulgurite::Bf16Mixed{}, here);
  {
    [[maybe_unused]] auto const off = LibTorch::no_grad();
    CHECK_FALSE(x.mm(w).requires_grad());
  }
  CHECK(x.mm(w).requires_grad());
}

TEST_CASE("backward from a seed equals backward of the divided loss, bit for bit", "[precision]") {
  for (auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    for (int k : {1, 2, 3, 4, 7, 10, 96}) {
      torch::manual_seed(static_cast<std::uint64_t>(k));
      auto const x = torch::randn({16, 5}, type);
      auto const start = torch::randn({5, 3}, type);
      auto run = [&](auto&& back) {
        auto w = start.clone().requires_grad_();
        auto loss = torch::tanh(x.mm(w)).square().mean();
        back(loss);
        return w.grad();
      };
      auto const by_hand = run([&](Tensor const& loss) { (loss / k).backward(); });
      fulgurite::SingleDevice strategy{fulgurite::cpu};
      auto const ours = run([&](Tensor const& loss) { strategy.backward(loss, LibTorch::seed(loss, 1.0 / k)); });
      CHECK(fixtures::same_bits(by_hand, ours));
    }
  }
}

TEST_CASE("a seed is made once, fits the loss, and refuses a loss of many elements", "[precision]") {
  auto const loss = torch::tensor(2.0F);
  CHECK_FALSE(LibTorch::seed(loss, 1.0).defined());
  auto const made = LibTorch::seed(loss, 0.25);
  fixtures::Operators const operators;
  CHECK(LibTorch::seed(torch::Tensor(loss), 0.25).is_same(made));
  CHECK(operators.all() == 0);
  auto const one = torch::ones({1}, torch::kDouble);
  CHECK(LibTorch::seed(one, 0.25).sizes() == one.sizes());
  CHECK(LibTorch::seed(one, 0.25).scalar_type() == at::kDouble);
  CHECK_THROWS_WITH(LibTorch::seed(torch::ones({2}), 0.25),
                    Catch::Matchers::StartsWith("[fulgurite.torch.scalar_loss]"));
}

TEST_CASE("values are read one by one or together", "[values]") {
  CHECK(LibTorch::read(torch::tensor(2.5F)) == 2.5);
  CHECK(LibTorch::read(torch::tensor({7})) == 7.0);
  CHECK(LibTorch::read(torch::tensor(true)) == 1.0);
  CHECK(LibTorch::read(torch::tensor(1.5F).to(torch::kBFloat16)) == 1.5);
  CHECK(LibTorch::read(torch::tensor(1.5F).to(torch::kHalf)) == 1.5);
  CHECK(LibTorch::read(torch::arange(4.0)[3]) == 3.0);  // a view with an offset
  CHECK_THROWS_WITH(LibTorch::read(torch::ones({2})), Catch::Matchers::StartsWith("[fulgurite.metric.one_element]"));
  CHECK_THROWS_WITH(LibTorch::read(Tensor()), Catch::Matchers::StartsWith("[fulgurite.metric.one_element]"));
  std::vector const values{torch::tensor(1.0F), torch::tensor(2.0, torch::kDouble), torch::tensor(3)};
  std::vector<double> numbers(3);
  LibTorch::read_all(values, numbers);
  CHECK((numbers == std::vector{1.0, 2.0, 3.0}));
  fixtures::Operators const operators;
  LibTorch::read(values[0]);
  auto const kept = LibTorch::keep(values[0]);
  CHECK(operators.all() == 0);
  CHECK(kept.is_same(values[0]));
  CHECK_FALSE(LibTorch::reading_waits(kept));
  CHECK(LibTorch::reading_waits(torch::empty({}, torch::kMeta)));
  auto const remote = torch::empty({}, torch::TensorOptions(torch::kMeta).requires_grad(true));
  auto const first = LibTorch::keep(remote), second = LibTorch::keep(remote);
  CHECK_FALSE(first.requires_grad());  // it would wait with its graph
  CHECK(first.is_alias_of(remote));
  CHECK(second.is_alias_of(remote));
  CHECK(operators.count("aten::detach") == 0);
}

TEST_CASE("a logged value that may be written to before it is read is copied: a parameter, a detached handle, a view; "
          "a loss is not") {
  auto const written = torch::ones({2}).requires_grad_();
  std::vector const alive{written[0], written.detach()[1], LibTorch::keep(written.detach().select(0, 1))};
  auto const parameter = torch::ones({}).requires_grad_(), also = parameter;
  auto const kept = LibTorch::keep(parameter), detached = LibTorch::keep(parameter.detach()),
             view = LibTorch::keep(alive[0]);
  torch::NoGradGuard const no_graph;
  parameter.add_(1);
  written.add_(1);
  CHECK(LibTorch::read(kept) == 1);
  CHECK(LibTorch::read(detached) == 1);
  CHECK(LibTorch::read(view) == 1);
  CHECK(LibTorch::read(alive[2]) == 1);
  CHECK_FALSE(kept.requires_grad());
  auto const loss = torch::ones({3}).sum();
  CHECK(LibTorch::keep(loss).is_same(loss));
}

TEST_CASE("the scaler starts backward from scale * factor and gives the gradient back unscaled",
          "[precision][scaler]") {
  LibTorch::Scaler<fulgurite::Fp16Mixed> scaler(fulgurite::Fp16Mixed{.init_scale = 1024}, here);
  auto w = torch::full({3}, 2.0).requires_grad_();
  auto const loss = (w * w).sum();
  auto const seed = scaler.seed(loss, 0.5);
  CHECK(LibTorch::read(seed) == 512.0);
  CHECK(scaler.seed(loss, 0.5).is_same(seed));
  loss.backward(seed);
  CHECK(w.grad()[0].item<float>() == 4.0F * 512.0F);
  scaler.unscale(std::vector{w});
  CHECK(w.grad()[0].item<float>() == 2.0F);  // (loss * 0.5)' = w
  CHECK(scaler.finite());
}

TEST_CASE("an infinite gradient skips the step and halves the scale; good steps let it grow", "[precision][scaler]") {
  LibTorch::Scaler<fulgurite::Fp16Mixed> scaler(
      fulgurite::Fp16Mixed{.init_scale = 1024, .growth_factor = 4, .growth_interval = 2}, here);
  auto const good = parameter(1024.0), bad = parameter(infinity);
  auto const step = [&](std::vector<Tensor> const& parameters) {
    scaler.unscale(parameters);
    bool const finite = scaler.finite();
    scaler.update();
    return finite;
  };
  CHECK_FALSE(step({good, bad}));
  CHECK(scaler.scale() == 512.0);
  CHECK(step({good}));
  CHECK_FALSE(step({parameter(std::numeric_limits<double>::quiet_NaN())}));  // and the run of good steps starts again
  CHECK(scaler.scale() == 256.0);
  CHECK(step({parameter(1.0)}));
  CHECK(scaler.scale() == 256.0);
  CHECK(step({parameter(1.0)}));
  CHECK(scaler.scale() == 1024.0);
  CHECK(step({torch::ones({1}).requires_grad_()}));  // no gradient at all
}

TEST_CASE("with several optimizers each is judged by its own gradients, the scale by all", "[precision][scaler]") {
  LibTorch::Scaler<fulgurite::Fp16Mixed> scaler(fulgurite::Fp16Mixed{.init_scale = 8}, here);
  scaler.unscale(std::vector{parameter(infinity)});
  CHECK_FALSE(scaler.finite());
  scaler.unscale(std::vector{parameter(1.0)});
  CHECK(scaler.finite());
  scaler.update();
  CHECK(scaler.scale() == 4.0);
}

TEST_CASE("clipping sees unscaled gradients", "[precision][scaler][clip]") {
  LibTorch::Scaler<fulgurite::Fp16Mixed> scaler(fulgurite::Fp16Mixed{.init_scale = 65536}, here);
  auto p = parameter(3.0 * 65536);
  scaler.unscale(std::vector{p});
  auto const norm = LibTorch::clip_norm(std::vector{p}, 100.0);
  CHECK(norm.item<float>() == std::sqrt(18.0F));
  CHECK(p.grad()[0].item<float>() == 3.0F);
}

TEST_CASE("the scaler's state is its scale and its run of good steps", "[precision][scaler]") {
  using Scaler = LibTorch::Scaler<fulgurite::Fp16Mixed>;
  fulgurite::Fp16Mixed const precision{.init_scale = 64, .growth_interval = 2};
  Scaler first(precision, here), second(precision, here);
  auto const step = [](Scaler& scaler, double gradient) {
    scaler.unscale(std::vector{parameter(gradient)});
    scaler.update();
  };
  step(first, infinity);
  step(first, 1.0);
  fulgurite::load_state_text(second, fulgurite::state_text(first));
  CHECK(second.scale() == 32.0);
  step(second, 1.0);
  CHECK(second.scale() == 64.0);
}
