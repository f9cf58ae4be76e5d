// Clipping against numbers worked out by hand, and without a read by the host.
#include "fixtures.hpp"

#include <cmath>
#include <limits>

#include <catch2/catch_approx.hpp>

#include <fulgurite/fulgurite.hpp>

namespace {
using Catch::Approx;
using fulgurite::LibTorch;

/// Lightning's conformance model: Linear(32, 2) on ones, the loss is the sum: each of its 66 gradients is the batch
/// size... of one row: 1.
struct Sum {
  torch::nn::Linear layer{32, 2};
  std::vector<torch::Tensor> parameters = layer->parameters();
  Sum() { layer->forward(torch::ones({1, 32})).sum().backward(); }
  double norm() const {
    double sum = 0;
    for (auto const& p : parameters) sum += p.grad().to(torch::kDouble).square().sum().item<double>();
    return std::sqrt(sum);
  }
  double largest() const {
    double most = 0;
    for (auto const& p : parameters) most = std::max(most, p.grad().abs().max().item<double>());
    return most;
  }
};
}  // namespace

TEST_CASE("C61: clipping by norm", "[clip]") {
  Sum sum;
  CHECK(sum.norm() == Approx(8.124).margin(5e-4));
  auto const before = LibTorch::clip_norm(sum.parameters, 0.5);
  CHECK(before.item<double>() == Approx(std::sqrt(66.0)));
  CHECK(sum.norm() == Approx(0.5).epsilon(1e-5));
  CHECK(sum.largest() == Approx(0.0615).margin(5e-5));
}

TEST_CASE("C62: clipping by value", "[clip]") {
  Sum sum;
  LibTorch::clip_value(sum.parameters, 0.5);
  CHECK(sum.largest() == 0.5);
  CHECK(sum.norm() == Approx(4.062).margin(5e-4));
}

TEST_CASE("C63: the factor is limit / (norm + 1e-6), and never enlarges", "[clip]") {
  auto p = torch::zeros({1}).requires_grad_();
  for (int step = 0; step != 3; ++step) {
    p.mutable_grad() = torch::full({1}, -1.0F);
    LibTorch::clip_norm(std::vector{p}, 0.25);
    p.data() -= p.grad();
  }
  CHECK(p.item<double>() == Approx(0.7499993).margin(5e-8));
  auto const clipped = p.grad().clone();
  LibTorch::clip_norm(std::vector{p}, 10.0);
  CHECK(fixtures::same_bits(p.grad(), clipped));
}

TEST_CASE("clipping equals torch::nn::utils, bit for bit, over several tensors", "[clip]") {
  torch::manual_seed(3);
  std::vector<torch::Tensor> ours, theirs;
  for (long n : {1, 7, 64, 1000}) {
    auto const gradient = torch::randn({n, 3});
    for (auto* list : {&ours, &theirs}) {
      list->push_back(torch::zeros({n, 3}).requires_grad_());
      list->back().mutable_grad() = gradient.clone();
    }
  }
  auto const norm = LibTorch::clip_norm(ours, 1.5).item<double>();
  CHECK(norm == torch::nn::utils::clip_grad_norm_(theirs, 1.5));
  for (std::size_t i = 0; i != ours.size(); ++i) CHECK(fixtures::same_bits(ours[i].grad(), theirs[i].grad()));
  LibTorch::clip_value(ours, 0.01);
  torch::nn::utils::clip_grad_value_(theirs, 0.01);
  for (std::size_t i = 0; i != ours.size(); ++i) CHECK(fixtures::same_bits(ours[i].grad(), theirs[i].grad()));
}

namespace {

struct Clipped : torch::nn::Module {
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(6, 33), torch::nn::Tanh(), torch::nn::Linear(33, 7),
                                    torch::nn::Tanh(), torch::nn::Linear(7, 3)));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(3, 5));
  torch::Tensor training_step(fulgurite::data::Batch const& batch) {
    return torch::mse_loss(body->forward(batch.data), batch.target);
  }
};
struct ByTheirs : Clipped {
  auto configure_optimizers() { return torch::optim::SGD(parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)); }
};
struct ByOurs : Clipped {
  auto configure_optimizers() { return fulgurite::optim::SGD(*this, {.lr = 0.1, .momentum = 0.9}); }
};

}  // namespace

TEST_CASE(
    "a fit that clips by norm: theirs, ours, recorded, and the loop by hand with clip_grad_norm_ end with equal bits",
    "[clip]") {
  using namespace fulgurite;
  auto generator = at::detail::createCPUGenerator(4);
  std::vector<data::Batch> train;
  for (int i = 0; i != 60; ++i) train.push_back({torch::randn({8, 6}, generator), torch::randn({8, 3}, generator)});
  auto const fitted = [&]<class Model>(Model, auto strategy) {
    torch::manual_seed(9);
    Model model;
    auto trainer =
        make_trainer<Model>({.max_epochs = 3}, strategy, Float32{}, Automatic{.clip = ClipNorm{0.05}}, NoDefaults{});
    trainer.fit(model, train, NoValidation{});
    return model.parameters();
  };
  torch::manual_seed(9);
  ByTheirs by_hand;
  auto optimizer = by_hand.configure_optimizers();
  for (int epoch = 0; epoch != 3; ++epoch)
    for (auto const& batch : train) {
      optimizer.zero_grad();
      by_hand.training_step(batch).backward();
      torch::nn::utils::clip_grad_norm_(by_hand.parameters(), 0.05);
      optimizer.step();
    }
  auto const hand = by_hand.parameters();
  auto const theirs = fitted(ByTheirs{}, SingleDevice{cpu}), ours = fitted(ByOurs{}, SingleDevice{cpu}),
             recorded = fitted(ByOurs{}, Captured{SingleDevice{cpu}});
  for (std::size_t i = 0; i != hand.size(); ++i)
    CHECK((fixtures::same_bits(theirs[i], hand[i]) && fixtures::same_bits(ours[i], hand[i]) &&
           fixtures::same_bits(recorded[i], hand[i])));
}

TEST_CASE("a sparse gradient is clipped as the dense one that it is, whose rows for one index are added", "[clip]") {
  auto const table = [](bool sparse) {
    torch::manual_seed(1);
    torch::nn::Embedding made(torch::nn::EmbeddingOptions(7, 3).sparse(sparse));
    made->forward(torch::tensor({2, 2, 2, 5}, torch::kLong)).square().sum().backward();
    return made->weight;
  };
  for (bool const by_norm : {true, false}) {
    auto sparse = table(true), dense = table(false);
    REQUIRE(sparse.grad().is_sparse());
    REQUIRE_FALSE(sparse.grad().is_coalesced());
    for (auto const& weight : {sparse, dense})
      if (by_norm) LibTorch::clip_norm(std::vector{weight}, 1.0);
      else LibTorch::clip_value(std::vector{weight}, 1.0);
    CHECK(torch::allclose(sparse.grad().to_dense(), dense.grad()));
  }
}

TEST_CASE("a look at sparse gradients leaves their rows as they are", "[clip]") {
  auto const trained = [](fulgurite::NonFinite non_finite) {
    struct Table : torch::nn::EmbeddingImpl {
      Table() : EmbeddingImpl(torch::nn::EmbeddingOptions(7, 3).sparse(true)) {}
      torch::Tensor training_step(torch::Tensor const& ids) { return forward(ids).square().sum(); }
      auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
    };
    torch::manual_seed(1);
    Table table;
    auto trainer = fulgurite::make_trainer<Table>(fulgurite::TrainerOptions{.max_epochs = 1, .non_finite = non_finite},
                                                  fulgurite::SingleDevice{fulgurite::cpu}, fulgurite::Float32{},
                                                  fulgurite::Automatic{}, fulgurite::NoDefaults{});
    std::vector<torch::Tensor> const ids(5, torch::tensor({2, 2, 2, 5, 2, 5}, torch::kLong));
    trainer.fit(table, ids, fulgurite::NoValidation{});
    CHECK_FALSE(table.weight.grad().is_coalesced());
    return table.weight.detach().clone();
  };
  CHECK(fixtures::same_bits(trained(fulgurite::NonFinite::stop), trained(fulgurite::NonFinite::ignore)));
}

TEST_CASE("clipping asks the host for nothing", "[clip]") {
  Sum sum;
  {
    fixtures::Operators const operators;
    LibTorch::clip_norm(sum.parameters, 0.5);
    LibTorch::clip_value(sum.parameters, 0.1);
    LibTorch::scale_gradients(sum.parameters, 2.0);
    CHECK(operators.all() > 0);
    CHECK(operators.host_reads() == 0);
  }
  fixtures::Operators const operators;  // the counter does see such reads
  torch::nn::utils::clip_grad_norm_(sum.parameters, 0.5);
  CHECK(operators.host_reads() > 0);
}

TEST_CASE("clipping without gradients, with some, of mixed types, and with a nan", "[clip]") {
  auto a = torch::ones({2}).requires_grad_(), b = torch::ones({2}, torch::kBFloat16).requires_grad_(),
       c = torch::ones({2}).requires_grad_();
  std::vector const all{a, b, c};
  CHECK(LibTorch::clip_norm(all, 1.0).item<double>() == 0.0);
  LibTorch::clip_value(all, 1.0);
  LibTorch::scale_gradients(all, 3.0);
  a.mutable_grad() = torch::full({2}, 3.0);
  b.mutable_grad() = torch::full({2}, 4.0, torch::kBFloat16);
  CHECK(LibTorch::clip_norm(all, 1.0).item<double>() ==
        Approx(std::sqrt(50.0)).epsilon(1e-3));  // b's share is a bfloat16
  CHECK(a.grad()[0].item<double>() == Approx(3.0 / std::sqrt(50.0)).epsilon(1e-3));
  CHECK(b.grad()[0].item<double>() == Approx(4.0 / std::sqrt(50.0)).epsilon(1e-2));
  CHECK(b.grad().scalar_type() == torch::kBFloat16);
  CHECK_FALSE(c.grad().defined());
  a.mutable_grad() = torch::full({2}, std::numeric_limits<float>::quiet_NaN());
  CHECK(std::isnan(LibTorch::clip_norm(all, 1.0).item<double>()));
}

TEST_CASE("gradients are scaled in place", "[clip]") {
  Sum sum;
  auto const* where = sum.parameters[0].grad().data_ptr();
  LibTorch::scale_gradients(sum.parameters, 0.25);
  CHECK(sum.largest() == 0.25);
  CHECK(sum.parameters[0].grad().data_ptr() == where);
}
