// Chains of layers that the compiler knows: names, initial weights, outputs and gradients as torch::nn::Sequential's,
// bit for bit.
#include "fixtures.hpp"

#include <sstream>

#include <torch/nn/modules/container/sequential.h>
#include <torch/serialize.h>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/torch/chain/chain.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>

using namespace fulgurite;
using torch::Tensor;

namespace {
namespace nn = torch::nn;

using Mlp = Chain<Linear<12, 8>, ReLU, Dropout<0.25>, Linear<8, 3>>;
using Picture =
    Chain<Input<2, 12, 12>, Conv2d<2, 4, 3, Conv2dOptions{.padding = 1, .groups = 2}>, BatchNorm2d<4>, GELU,
          MaxPool2d<2>, Dropout2d<0.3>, Conv2d<4, 6, Size2{3, 1}, Conv2dOptions{.stride = Size2{2, 1}, .bias = false}>,
          SiLU, AvgPool2d<2, Pool2dOptions{.stride = 1}>, AdaptiveAvgPool2d<Size2{1, 2}>, Flatten,
          BatchNorm1d<12, BatchNormOptions{.momentum = 0.3}>, LayerNorm<12>, Linear<12, 5, false>, LogSoftmax<>>;
using Text = Chain<Input<9>, Embedding<11, 4>, LeakyReLU<0.2>, Residual<Chain<Linear<4, 6>, Tanh, Linear<6, 4>>>,
                   Sigmoid, Softmax<2>>;
using Wave = Chain<Conv1d<2, 3, 3, Conv1dOptions{.dilation = 2}>, ELU<0.5>, Mish, Softplus, Identity>;

// One statement a layer: the order in which arguments are evaluated differs between compilers.
nn::Sequential mlp() {
  nn::Sequential s;
  s->push_back(nn::Linear(12, 8));
  s->push_back(nn::ReLU());
  s->push_back(nn::Dropout(0.25));
  s->push_back(nn::Linear(8, 3));
  return s;
}
nn::Sequential picture() {
  nn::Sequential s;
  s->push_back(nn::Conv2d(nn::Conv2dOptions(2, 4, 3).padding(1).groups(2)));
  s->push_back(nn::BatchNorm2d(4));
  s->push_back(nn::GELU());
  s->push_back(nn::MaxPool2d(2));
  s->push_back(nn::Dropout2d(0.3));
  s->push_back(nn::Conv2d(nn::Conv2dOptions(4, 6, {3, 1}).stride({2, 1}).bias(false)));
  s->push_back(nn::SiLU());
  s->push_back(nn::AvgPool2d(nn::AvgPool2dOptions(2).stride(1)));
  s->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({1, 2})));
  s->push_back(nn::Flatten());
  s->push_back(nn::BatchNorm1d(nn::BatchNormOptions(12).momentum(0.3)));
  s->push_back(nn::LayerNorm(nn::LayerNormOptions({12})));
  s->push_back(nn::Linear(nn::LinearOptions(12, 5).bias(false)));
  s->push_back(nn::LogSoftmax(-1));
  return s;
}
nn::Sequential wave() {
  nn::Sequential s;
  s->push_back(nn::Conv1d(nn::Conv1dOptions(2, 3, 3).dilation(2)));
  s->push_back(nn::ELU(nn::ELUOptions().alpha(0.5)));
  s->push_back(nn::Mish());
  s->push_back(nn::Softplus());
  s->push_back(nn::Identity());
  return s;
}
struct AddImpl : nn::Module {  // what Residual<Chain<...>> is as a module of one's own
  nn::Linear first = register_module("0", nn::Linear(4, 6)), second = register_module("2", nn::Linear(6, 4));
  Tensor forward(Tensor x) { return x + second(torch::tanh(first(x))); }
};
TORCH_MODULE(Add);
nn::Sequential text() {
  nn::Sequential s;
  s->push_back(nn::Embedding(11, 4));
  s->push_back(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)));
  s->push_back(Add());
  s->push_back(nn::Sigmoid());
  s->push_back(nn::Softmax(2));
  return s;
}

/// Names and values of all parameters, or all buffers.
template <class Dict>
void same(Dict const& mine, Dict const& its) {
  REQUIRE(mine.keys() == its.keys());
  for (auto const& item : mine) CHECK(fixtures::same_bits(item.value(), its[item.key()]));
}

template <class Net>
void as_sequential(nn::Sequential (*build)(), Tensor const& x) {
  torch::manual_seed(7);
  Net net;
  torch::manual_seed(7);
  auto sequential = build();
  same(net.named_parameters(), sequential->named_parameters());
  same(net.named_buffers(), sequential->named_buffers());
  CHECK(net.named_children().keys() == sequential->named_children().keys());

  long total = 0;
  for (auto const& parameter : net.parameters()) total += parameter.numel();
  CHECK(total == Net::parameter_count);

  for (bool const training : {true, true, false}) {
    net.train(training);
    sequential->train(training);
    torch::manual_seed(11);
    auto const mine = net(x);
    torch::manual_seed(11);
    auto const its = sequential->forward(x);
    REQUIRE(fixtures::same_bits(mine, its));
    auto const toward = torch::arange(its.numel()).view_as(its).to(torch::kFloat).sin();
    (mine * toward).sum().backward();
    (its * toward).sum().backward();
    auto const theirs = sequential->named_parameters();
    for (auto const& item : net.named_parameters()) {
      REQUIRE(item.value().grad().defined());
      CHECK(fixtures::same_bits(item.value().grad(), theirs[item.key()].grad()));
    }
    same(net.named_buffers(), sequential->named_buffers());  // running means
  }
  if (auto const& shape = Net::output_shape; shape.known_rank()) {
    auto const made = net(x);
    REQUIRE(made.dim() == shape.rank() + 1);
    for (int i = 0; i < shape.rank(); ++i)
      if (shape[i] != chain::unknown) CHECK(made.size(i + 1) == shape[i]);
  }
}

template <class From, class To>
void hand_over(From const& from, To to) {
  std::stringstream file;
  torch::save(from, file);
  torch::load(to, file);
}

/// As short as with a Sequential.
struct Classifier : nn::Module {
  Mlp body{*this, "body"};
  Tensor forward(Tensor x) { return body(x.flatten(1)); }
};
struct CopiedNet : nn::Cloneable<CopiedNet> {
  Mlp body{nullptr};
  nn::Linear head{nullptr};
  CopiedNet() { reset(); }
  void reset() override {
    body = Mlp(*this, "body");
    head = register_module("head", nn::Linear(3, 1));
  }
  Tensor forward(Tensor x) { return head(body(x)); }
};
struct Regression : Chain<Linear<2, 1>> {
  Tensor training_step(auto const& batch) { return torch::mse_loss((*this)(batch.data), batch.target); }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};
struct Scale {  // a layer of the user's own
  static constexpr chain::Extent parameter_count = 1;
  static constexpr chain::Step step(chain::Shape in) { return {in}; }
  struct Module : nn::Cloneable<Module> {
    Tensor factor;
    Module() { reset(); }
    void reset() override { factor = register_parameter("factor", torch::full({1}, 3.0)); }
    Tensor forward(Tensor const& x) { return x * factor; }
  };
};

}  // namespace

TEST_CASE("a chain has a Sequential's names, initial weights, outputs, gradients and buffers, bit for bit", "[chain]") {
  torch::manual_seed(1);
  as_sequential<Mlp>(mlp, torch::randn({5, 12}));
  as_sequential<Picture>(picture, torch::randn({3, 2, 12, 12}));
  as_sequential<Text>(text, torch::randint(11, {2, 9}));
  as_sequential<Wave>(wave, torch::randn({2, 2, 10}));
  CHECK(Mlp().named_parameters().keys() == std::vector<std::string>{"0.weight", "0.bias", "3.weight", "3.bias"});
}

TEST_CASE("a chain and a Sequential read each other's files", "[chain]") {
  auto const net = std::make_shared<Picture>();
  auto sequential = picture();
  hand_over(sequential, net);
  same(net->named_parameters(), sequential->named_parameters());
  same(net->named_buffers(), sequential->named_buffers());
  auto other = picture();
  hand_over(net, other);
  same(other->named_parameters(), sequential->named_parameters());
}

TEST_CASE("a chain as a member registers itself, and follows the model", "[chain]") {
  Classifier model;
  CHECK(model.named_parameters().keys() ==
        std::vector<std::string>{"body.0.weight", "body.0.bias", "body.3.weight", "body.3.bias"});
  CHECK(model.parameters()[0].is_same(model.body.layer<0>().weight));
  model.eval();
  CHECK_FALSE(model.body.is_training());
  CHECK_FALSE(model.body.layer<2>().is_training());
  auto const x = torch::randn({2, 3, 4});
  CHECK(fixtures::same_bits(model.forward(x), model.forward(x)));  // no dropout
  model.train();
  CHECK((model.body.is_training() && model.body.layer<2>().is_training()));
  model.to(torch::kDouble);
  CHECK(model.forward(x.to(torch::kDouble)).dtype() == torch::kDouble);

  try {
    Mlp(nullptr).forward(x);
    FAIL("a chain without layers computed something");
  } catch (Error const& error) { CHECK(error.identifier() == "fulgurite.chain.unassigned"); }

  nn::Sequential outer(std::make_shared<Mlp>());  // or as a layer of a Sequential, or of a chain
  CHECK(outer->named_parameters().keys()[0] == "0.0.weight");
  CHECK(Chain<Mlp, ReLU>().named_parameters().keys()[0] == "0.0.weight");
}

TEST_CASE("a clone is deep, whether of a chain or of a model around one", "[chain]") {
  torch::manual_seed(5);
  auto const x = torch::randn({4, 12});
  auto const check = [&](auto const& original) {
    using Net = std::remove_cvref_t<decltype(*original)>;
    original->eval();
    auto const before = original->forward(x).clone();
    auto const copy = std::dynamic_pointer_cast<Net>(original->clone());
    REQUIRE(copy);
    CHECK(fixtures::same_bits(original->forward(x), before));
    copy->eval();
    CHECK(fixtures::same_bits(copy->forward(x), before));
    {
      torch::NoGradGuard const off;
      for (auto& parameter : copy->parameters()) parameter.add_(1);
    }
    CHECK_FALSE(fixtures::same_bits(copy->forward(x), before));  // what is registered is what computes
    CHECK(fixtures::same_bits(original->forward(x), before));
  };
  check(std::make_shared<Mlp>());
  check(std::make_shared<CopiedNet>());
  check(std::make_shared<Chain<Mlp, Residual<Chain<Linear<3, 3>>>>>());

  auto const quiet = std::make_shared<Mlp>();
  quiet->eval();
  CHECK_FALSE(quiet->clone()->is_training());
  try {
    Regression().clone();
    FAIL("a Regression was cut down to its chain");
  } catch (Error const& error) { CHECK(error.identifier() == "fulgurite.chain.clone"); }
}

TEST_CASE("a chain can be the model itself", "[chain]") {
  torch::manual_seed(3);
  Regression model;
  auto const x = torch::randn({32, 2});
  auto const y = x.matmul(torch::tensor({{2.0f}, {-1.0f}}));
  auto trainer = make_trainer<Regression>(TrainerOptions{.max_epochs = 60}, SingleDevice{cpu}, Float32{}, Automatic{},
                                          NoDefaults{});
  std::vector<torch::data::Example<>> batches{{x, y}};
  trainer.fit(model, batches);
  CHECK(torch::allclose(model.layer<0>().weight, torch::tensor({{2.0f, -1.0f}}), 1e-3, 1e-3));
}

TEST_CASE("a layer of one's own names its module", "[chain]") {
  Chain<Linear<2, 2>, Scale> net;
  CHECK(net.named_parameters().keys() == std::vector<std::string>{"0.weight", "0.bias", "1.factor"});
  auto const x = torch::randn({3, 2});
  CHECK(fixtures::same_bits(net(x), net.layer<0>().forward(x) * 3));
  CHECK(decltype(net)::parameter_count == 7);
}
