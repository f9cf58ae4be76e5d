// Whole fits on LibTorch against the loop one would have written by hand: the same bits.

#include "fixtures.hpp"

#include <filesystem>
#include <vector>

#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;

namespace {

struct Mlp : torch::nn::Module {
  static constexpr Metric<"train/loss"> train_loss{};
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<train_loss, val_loss>;
  torch::nn::Sequential body =
      register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(),
                                                    torch::nn::Dropout(0.2), torch::nn::Linear(16, 3)));
  double lr = 1e-2;

  torch::Tensor loss(data::Batch const& batch) { return F::cross_entropy(body->forward(batch.data), batch.target); }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto value = loss(batch);
    ctx.log(train_loss, value);
    return value;
  }
  void validation_step(auto const& batch, auto& ctx) { ctx.log(val_loss, loss(batch)); }
  auto configure_optimizers() { return torch::optim::Adam(parameters(), lr); }
};

std::vector<data::Batch> batches(int n, int size, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i)
    all.push_back({torch::randn({size, 6}, generator), torch::randint(0, 3, {size}, generator, torch::kLong)});
  return all;
}

template <class Model>
void require_same_weights(Model& a, Model& b) {
  auto const left = a.parameters(), right = b.parameters();
  REQUIRE(left.size() == right.size());
  for (std::size_t i = 0; i != left.size(); ++i) REQUIRE(fixtures::same_bits(left[i], right[i]));
}

Mlp fresh() {
  torch::manual_seed(3);
  return Mlp{};
}

}  // namespace

TEST_CASE("three epochs equal the loop written by hand, bit for bit, dropout included") {
  auto const train = batches(7, 8, 1);
  auto const val = batches(3, 8, 2);

  Mlp by_hand = fresh();
  torch::manual_seed(5);
  torch::optim::Adam adam(by_hand.parameters(), 1e-2);
  for (int epoch = 0; epoch != 3; ++epoch) {
    by_hand.train();
    for (auto const& batch : train) {
      adam.zero_grad();
      by_hand.loss(batch).backward();
      adam.step();
    }
  }

  Mlp model = fresh();
  torch::manual_seed(5);
  auto trainer =
      make_trainer<Mlp>(TrainerOptions{.max_epochs = 3}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, train, val);
  REQUIRE(trainer.progress().global_step == 21);
  require_same_weights(model, by_hand);
  REQUIRE(model.is_training());
}

TEST_CASE("windows and clipping by norm equal the loop written by hand") {
  auto const train = batches(5, 8, 1);  // windows of 2, 2 and 1: the last is the mean of what it has (D1)

  Mlp by_hand = fresh();
  torch::manual_seed(5);
  torch::optim::Adam adam(by_hand.parameters(), 1e-2);
  for (int epoch = 0; epoch != 3; ++epoch)
    for (int b = 0; b != 5; ++b) {
      if (b % 2 == 0) adam.zero_grad();
      (by_hand.loss(train[std::size_t(b)]) / (b == 4 ? 1 : 2)).backward();
      if (b % 2 == 0 && b != 4) continue;
      torch::nn::utils::clip_grad_norm_(by_hand.parameters(), 0.25);
      adam.step();
    }

  Mlp model = fresh();
  torch::manual_seed(5);
  auto trainer = make_trainer<Mlp>(TrainerOptions{.max_epochs = 3}, SingleDevice{cpu}, Float32{},
                                   Automatic{.accumulate_grad_batches = 2, .clip = ClipNorm{0.25}}, NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  REQUIRE(trainer.progress().global_step == 9);
  auto const left = model.parameters(), right = by_hand.parameters();
  for (std::size_t i = 0; i != left.size(); ++i) REQUIRE(torch::allclose(left[i], right[i], 1e-5, 1e-7));
}

TEST_CASE("the mean of a metric is weighted by batch size") {
  std::vector<data::Batch> val = batches(2, 8, 2);
  val.push_back(batches(1, 3, 9)[0]);
  Mlp model = fresh();
  model.eval();
  double expected = 0;
  for (auto const& batch : val) expected += model.loss(batch).item<double>() * double(batch.data.size(0));
  auto trainer =
      make_trainer<Mlp>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  auto const results = trainer.validate(model, val);
  REQUIRE(results.size() == 1);
  REQUIRE(results[0][0].name == "val/loss");
  REQUIRE(std::abs(results[0][0].value - expected / 19) < 1e-12);
}

TEST_CASE("the best file holds the weights that had the best value") {
  auto const folder = std::filesystem::temp_directory_path() / "fulgurite_fit_best";
  std::filesystem::remove_all(folder);
  auto const train = batches(6, 8, 1), val = batches(2, 8, 2);
  Mlp model = fresh();
  model.lr = 0.2;  // too fast on purpose: the last epoch is not the best
  auto trainer = make_trainer<Mlp>(TrainerOptions{.max_epochs = 12}, SingleDevice{cpu}, Float32{}, Automatic{},
                                   ModelCheckpoint{Mlp::val_loss, {.dirpath = folder}}, NoDefaults{});
  trainer.fit(model, train, val);
  auto const& best = trainer.callback<ModelCheckpoint<std::remove_const_t<decltype(Mlp::val_loss)>>>();
  Mlp loaded;
  load_weights(loaded, best.best_model_path());
  trainer.validate(loaded, val);
  REQUIRE(*trainer.value(Mlp::val_loss) == *best.best_model_score());
  std::filesystem::remove_all(folder);
}

TEST_CASE("Bf16Mixed trains parameters that stay in single precision") {
  auto const train = batches(4, 8, 1);
  Mlp model = fresh();
  auto const before = model.parameters()[0].clone();
  auto trainer = make_trainer<Mlp>(TrainerOptions{.max_epochs = 1}, SingleDevice{automatic}, Bf16Mixed{}, Automatic{},
                                   NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  REQUIRE(model.parameters()[0].scalar_type() == torch::kFloat);
  REQUIRE_FALSE(fixtures::same_bits(model.parameters()[0], before));
}

TEST_CASE("Float64 computes in double precision, inputs included") {
  auto const train = batches(2, 8, 1);
  Mlp model = fresh();
  auto trainer =
      make_trainer<Mlp>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float64{}, Automatic{}, NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  REQUIRE(model.parameters()[0].scalar_type() == torch::kDouble);
}

TEST_CASE("Fp16Mixed on a machine without a GPU is refused before training starts") {
  if (torch::cuda::is_available()) SKIP("there is a GPU");
  auto const train = batches(2, 8, 1);
  Mlp model = fresh();
  auto const before = model.parameters()[0].clone();
  auto trainer = make_trainer<Mlp>(TrainerOptions{.max_epochs = 1}, SingleDevice{automatic}, Fp16Mixed{}, Automatic{},
                                   NoDefaults{});
  try {
    trainer.fit(model, train, NoValidation{});
    FAIL("it trained");
  } catch (Error const& error) { REQUIRE(error.identifier() == "fulgurite.policy.fp16_needs_gpu"); }
  REQUIRE(fixtures::same_bits(model.parameters()[0], before));
}

namespace {

struct Gan : torch::nn::Module {
  torch::nn::Linear g = register_module("g", torch::nn::Linear(2, 6));
  torch::nn::Linear d = register_module("d", torch::nn::Linear(6, 1));
  auto configure_optimizers() {
    return optimizers(torch::optim::SGD(g->parameters(), 0.1), torch::optim::SGD(d->parameters(), 0.1));
  }
  std::pair<torch::Tensor, torch::Tensor> losses(torch::Tensor const& x) {
    auto const fake = g->forward(torch::randn({x.size(0), 2}));
    auto const d_loss = F::softplus(-d->forward(x)).mean() + F::softplus(d->forward(fake.detach())).mean();
    return {d_loss, fake};
  }
  torch::Tensor g_loss(torch::Tensor const& fake) { return F::softplus(-d->forward(fake)).mean(); }
  void training_step(auto const& batch, auto& ctx) {
    auto& [opt_g, opt_d] = ctx.optimizers();
    auto [d_loss, fake] = losses(batch.data);
    ctx.minimize(opt_d, d_loss);
    ctx.minimize(opt_g, g_loss(fake));
  }
};

struct Quadratic : torch::nn::Module {
  torch::Tensor x = register_parameter("x", torch::full({1}, 4.0));
  int evaluations = 0;
  torch::Tensor training_step(auto const&) {
    ++evaluations;
    return ((x - 1) * (x - 1)).sum();
  }
  auto configure_optimizers() {
    return torch::optim::LBFGS(parameters(),
                               torch::optim::LBFGSOptions(0.5).max_iter(4).tolerance_grad(0).tolerance_change(0));
  }
};

}  // namespace

TEST_CASE("a GAN by hand and through minimize: the same bits, and gradients of one network do not reach the other") {
  auto const train = batches(4, 5, 1);
  torch::manual_seed(3);
  Gan by_hand;
  torch::optim::SGD opt_g(by_hand.g->parameters(), 0.1), opt_d(by_hand.d->parameters(), 0.1);
  torch::manual_seed(5);
  for (auto const& batch : train) {
    auto [d_loss, fake] = by_hand.losses(batch.data);
    opt_d.zero_grad();
    d_loss.backward();
    opt_d.step();
    auto const loss = by_hand.g_loss(fake);
    opt_g.zero_grad();
    loss.backward();
    opt_g.step();
    opt_d.zero_grad();
  }
  torch::manual_seed(3);
  Gan model;
  torch::manual_seed(5);
  auto trainer =
      make_trainer<Gan>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Manual{}, NoDefaults{});
  trainer.fit(model, train);
  REQUIRE(trainer.progress().global_step == 8);
  require_same_weights(model, by_hand);
}

TEST_CASE("LBFGS evaluates training_step as often as it asks, and counts one step a batch") {
  auto const train = batches(2, 1, 1);
  Quadratic model;
  auto trainer =
      make_trainer<Quadratic>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, train);
  REQUIRE(trainer.progress().global_step == 2);
  REQUIRE(model.evaluations == 8);
  REQUIRE(std::abs(model.x.item<double>() - 1) < 0.1);
}

TEST_CASE("a warm step on the CPU reads nothing on the host") {
  auto const train = batches(6, 8, 1);
  Mlp model = fresh();
  auto trainer = make_trainer<Mlp>(TrainerOptions{.max_epochs = 1, .log_every_n_steps = 0}, SingleDevice{cpu},
                                   Float32{}, Automatic{.clip = ClipNorm{0.5}}, NoDefaults{});
  fixtures::Operators const operators;
  trainer.fit(model, train, NoValidation{});
  REQUIRE(operators.host_reads() == 0);
}
