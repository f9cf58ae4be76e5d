// Losses and gradients that are infinite or not a number, on LibTorch: every type and place, our optimizers and theirs,
// recorded steps.
#include "fixtures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Optimizer>
struct Net : torch::nn::Module {
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(5, 9), torch::nn::Tanh(), torch::nn::Linear(9, 2)));
  long bad_gradient = -1;
  torch::Tensor training_step(data::Batch const& batch) { return F::mse_loss(body->forward(batch.data), batch.target); }
  void on_before_optimizer_step(auto& ctx) {
    if (ctx.global_step() == bad_gradient) this->parameters()[2].grad().fill_(infinity);
  }
  auto configure_optimizers() {
    if constexpr (std::is_same_v<Optimizer, optim::Adam>) return optim::Adam(*this, {.lr = 0.01});
    else return Optimizer(this->parameters(), 0.01);
  }
};

template <class Model>
Model fresh() {
  torch::manual_seed(2);
  return Model{};
}

std::vector<data::Batch> batches(int n, int bad = -1) {
  auto generator = at::detail::createCPUGenerator(7);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) all.push_back({torch::randn({4, 5}, generator), torch::randn({4, 2}, generator)});
  if (bad >= 0) all[static_cast<std::size_t>(bad)].target[3][1] = infinity;
  return all;
}

bool same(torch::nn::Module& a, torch::nn::Module& b) {
  auto const left = a.parameters(), right = b.parameters();
  bool equal = left.size() == right.size();
  for (std::size_t i = 0; equal && i != left.size(); ++i) equal = fixtures::same_bits(left[i], right[i]);
  return equal;
}

template <class Model, class Strategy>
std::string fit(Model& model, Strategy strategy, std::vector<data::Batch> const& train,
                NonFinite policy = NonFinite::stop, Clip clip = {}) {
  auto trainer = make_trainer<Model>({.max_epochs = 1, .non_finite = policy}, strategy, Float32{},
                                     Automatic{.clip = clip}, NoDefaults{});
  try {
    trainer.fit(model, train, NoValidation{});
  } catch (Error const& error) { return error.what(); }
  return trainer.warnings().empty() ? "" : trainer.warnings().front();
}

using Ours = Net<optim::Adam>;
using Theirs = Net<torch::optim::Adam>;

}  // namespace

TEMPLATE_TEST_CASE("a loss or gradient that is not finite: the weights are those of the last good step", "[nonfinite]",
                   Ours, Theirs) {
  for (bool const by_gradient : {false, true})
    for (Clip const clip : {Clip{}, Clip{ClipNorm{0.5}}, Clip{ClipValue{0.1}}}) {
      auto model = fresh<TestType>(), good = fresh<TestType>(), skips = fresh<TestType>();
      if (by_gradient) model.bad_gradient = skips.bad_gradient = 6;
      auto const train = batches(9, by_gradient ? -1 : 6);
      auto const said = fit(model, SingleDevice{cpu}, train, NonFinite::stop, clip);
      CHECK(said.starts_with(by_gradient ? "[fulgurite.loop.non_finite] a gradient is not finite"
                                         : "[fulgurite.loop.non_finite] the loss is inf"));
      CHECK(said.find("after batch 6 of epoch 0. ") != std::string::npos);
      fit(good, SingleDevice{cpu}, batches(6), NonFinite::stop, clip);
      CHECK(same(model, good));
      CHECK(fit(skips, SingleDevice{cpu}, train, NonFinite::skip, clip)
                .starts_with("[fulgurite.loop.non_finite_skipped]"));
      for (auto const& weight : skips.parameters()) CHECK(libtorch::all_finite(weight));
    }
}

TEST_CASE("a recorded step that is replayed is looked at as one that is written", "[nonfinite][capture]") {
  auto captured = fresh<Ours>(), good = fresh<Ours>();
  auto const said = fit(captured, Captured{SingleDevice{cpu}}, batches(40, 33));
  CHECK(said.starts_with("[fulgurite.loop.non_finite] the loss is inf after batch 33 of epoch 0"));
  fit(good, SingleDevice{cpu}, batches(33));
  CHECK(same(captured, good));
  auto skipped = fresh<Ours>(), eager = fresh<Ours>();
  fit(skipped, Captured{SingleDevice{cpu}}, batches(40, 33), NonFinite::skip);
  fit(eager, SingleDevice{cpu}, batches(40, 33), NonFinite::skip);
  CHECK(same(skipped, eager));
}

TEST_CASE("one bad number is found at every place, in every type, also in a gradient that is not contiguous",
          "[nonfinite]") {
  for (auto const type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    for (long const size : {1L, 15L, 16L, 31L, 32L, 33L, 67L}) {
      auto tensor = torch::full({size}, 3e4, type);
      CHECK(libtorch::all_finite(tensor));
      for (double const bad : {infinity, -infinity, std::nan("")})
        for (long i = 0; i != size; ++i) {
          tensor[i] = bad;
          CHECK_FALSE(libtorch::all_finite(tensor));
          tensor[i] = 1;
        }
    }
  CHECK(libtorch::all_finite(torch::full({100}, std::numeric_limits<float>::max())));
  auto wide = torch::zeros({4, 6});
  CHECK(libtorch::all_finite(wide.t()));
  wide[3][5] = infinity;
  CHECK_FALSE(libtorch::all_finite(wide.t()));
  CHECK(libtorch::all_finite(wide.slice(1, 0, 5)));
  CHECK_FALSE(libtorch::all_finite(wide.slice(1, 1, 6)));
  CHECK(libtorch::all_finite(torch::zeros({0})));
}

TEST_CASE("what is noted on a device shows a bad value however often it is condensed, and asks the host for nothing",
          "[nonfinite]") {
  auto const finite = [](std::vector<torch::Tensor> const& noted) {
    return std::ranges::all_of(noted, [](torch::Tensor const& one) { return std::isfinite(LibTorch::read(one)); });
  };
  std::vector<torch::Tensor> noted;
  fixtures::Operators const operators;
  for (double const good : {1.0, 3e38, 3e38, -2.0}) noted.push_back(torch::full({}, good));
  noted.push_back(torch::full({1}, 1e300, torch::kDouble));
  LibTorch::note_weights(noted, std::vector{torch::ones({3}), torch::full({2}, 3e38), torch::full({2}, 3e38),
                                            torch::ones({2}, torch::kLong), torch::ones({0})});
  CHECK(noted.size() == 8);
  LibTorch::condense(noted);
  CHECK(noted.size() == 2);  // the floats and the double
  CHECK(finite(noted));
  for (double const bad : {infinity, -infinity, std::nan("")}) {
    auto with = noted;
    with.insert(with.begin() + 1, torch::full({}, bad, torch::kBFloat16));
    for (int i = 0; i != 2; ++i) {
      LibTorch::condense(with);
      CHECK_FALSE(finite(with));
      with.push_back(torch::full({}, 1.0));
    }
    auto weights = noted;
    LibTorch::note_weights(weights, std::vector{torch::ones({3}), torch::full({2}, bad)});
    LibTorch::condense(weights);
    CHECK_FALSE(finite(weights));
  }
  CHECK(operators.host_reads() == 0);
}

TEST_CASE("LBFGS: a bad first evaluation leaves the weights alone, and a step that ends in no number is put back",
          "[nonfinite]") {
  struct Cubic : torch::nn::Module {
    torch::Tensor x = register_parameter("x", torch::full({1}, 4.0));
    int evaluations = 0, bad = 0;
    torch::Tensor training_step(data::Batch const&) {
      auto const loss = ((x - 1) * (x - 1)).sum();
      return ++evaluations >= bad ? loss * torch::full({}, infinity) : loss;
    }
    auto configure_optimizers() {
      return optim::LBFGS(*this, {.lr = 0.3, .max_iter = 4, .tolerance_grad = 0, .tolerance_change = 0});
    }
  };
  for (int const bad : {5, 7}) {
    Cubic model, good;
    model.bad = bad;
    good.bad = 1000;
    auto const said = fit(model, SingleDevice{cpu}, batches(3));
    CHECK(said.find("[fulgurite.loop.non_finite]") != std::string::npos);
    fit(good, SingleDevice{cpu}, batches(1));
    CHECK(fixtures::same_bits(model.x, good.x));
  }
}

namespace {

/// Two layers with as many parameters of other shapes, each updated by its own LBFGS.
struct TwoByHand : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(5, 9));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(9, 2));
  int evaluations = 0, bad = -1;
  std::vector<torch::Tensor> before{};
  auto configure_optimizers() {
    auto const options = optim::LBFGSOptions{.lr = 0.1, .max_iter = 3, .tolerance_grad = 0, .tolerance_change = 0};
    return optimizers(optim::LBFGS(*first, options), optim::LBFGS(*second, options));
  }
  void training_step(data::Batch const& batch, auto& ctx) {
    auto& [of_first, of_second] = ctx.optimizers();
    auto const minimize = [&](auto& optimizer) {
      ctx.step(optimizer, [&] {
        optimizer.zero_grad();
        auto loss = F::mse_loss(second->forward(torch::tanh(first->forward(batch.data))), batch.target);
        if (++evaluations == bad) loss = loss * infinity;
        ctx.backward(loss);
        return loss;
      });
    };
    minimize(of_first);
    before.clear();
    for (auto const& weight : second->parameters()) before.push_back(weight.detach().clone());
    minimize(of_second);
  }
};

}  // namespace

TEST_CASE("two LBFGS by hand: a step that ends in no number puts its own weights back", "[nonfinite]") {
  for (int const bad : {-1, 5, 11}) {  // the second of three evaluations, in a step of the second one
    auto model = fresh<TwoByHand>();
    model.bad = bad;
    auto trainer = make_trainer<TwoByHand>({.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Manual{}, NoDefaults{});
    std::string failure;
    try {
      trainer.fit(model, batches(2), NoValidation{});
    } catch (Error const& error) { failure = error.identifier(); }
    CHECK(failure == (bad < 0 ? "" : "fulgurite.loop.non_finite"));
    auto const now = model.second->parameters();
    for (std::size_t i = 0; i != now.size(); ++i) CHECK(fixtures::same_bits(now[i], model.before[i]) == (bad > 0));
  }
}

namespace {

/// Its loss has lost its graph, or it logs over a batch.
struct Careless : torch::nn::Module {
  static constexpr Metric<"loss"> train_loss{};
  using Metrics = MetricList<train_loss>;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(5, 2));
  enum { detaches, frozen, logs } mistake = detaches;
  torch::Tensor training_step(data::Batch const& batch, auto& ctx) {
    auto const loss = F::mse_loss(layer->forward(batch.data), batch.target);
    if (mistake == logs) ctx.log(train_loss, loss);
    return mistake == detaches ? loss.detach() : loss;
  }
  auto configure_optimizers() { return torch::optim::SGD(this->parameters(), 0.1); }
};

struct ByHand : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(5, 2));
  void training_step(data::Batch const& batch, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    ctx.minimize(optimizer, layer->forward(batch.data).argmax(1).to(torch::kFloat).mean());
  }
  auto configure_optimizers() { return optimizers(torch::optim::SGD(this->parameters(), 0.1)); }
};

}  // namespace

TEST_CASE("a loss without graph is one sentence of ours before backward, in automatic and in manual optimization") {
  for (auto const mistake : {Careless::detaches, Careless::frozen}) {
    auto model = fresh<Careless>();
    model.mistake = mistake;
    if (mistake == Careless::frozen)
      for (auto& parameter : model.parameters()) parameter.set_requires_grad(false);
    CHECK(fit(model, SingleDevice{cpu}, batches(2))
              .starts_with("[fulgurite.torch.loss_without_graph] the loss depends on no parameter"));
  }
  auto by_hand = fresh<ByHand>();
  auto const train = batches(1);
  auto trainer = make_trainer<ByHand>({.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Manual{}, NoDefaults{});
  CHECK_THROWS_WITH(trainer.fit(by_hand, train, NoValidation{}),
                    Catch::Matchers::StartsWith("[fulgurite.torch.loss_without_graph]"));
}

TEST_CASE("a batch of 0 rows has a sentence of its own, whether it is logged over or makes a loss of no number") {
  auto train = batches(3);
  train[1] = {torch::zeros({0, 5}), torch::zeros({0, 2})};
  auto model = fresh<Careless>();
  model.mistake = Careless::logs;
  CHECK(fit(model, SingleDevice{cpu}, train)
            .starts_with("[fulgurite.metric.no_rows] batch 1 has 0 rows, over which loss has no mean"));
  auto silent = fresh<Ours>();
  CHECK(fit(silent, SingleDevice{cpu}, train).find("nan after batch 1 of epoch 0, which has no rows,") !=
        std::string::npos);
}

namespace {

/// A loss of several elements, which its own backward makes a number of.
struct OwnBackward : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(5, 2));
  torch::Tensor training_step(data::Batch const& batch) {
    return (layer->forward(batch.data) - batch.target).square().sum(1);
  }
  void backward(torch::Tensor& loss) { loss.sum().backward(); }
  auto configure_optimizers() { return torch::optim::SGD(this->parameters(), 0.05); }
};

/// Its batch norm sees a batch before its loss is known. The mask is infinite by intention.
struct Normed : torch::nn::Module {
  torch::Tensor mask = register_buffer("mask", torch::full({2}, -infinity));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(5));
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(5, 2));
  torch::Tensor training_step(data::Batch const& batch) {
    return F::mse_loss(layer->forward(norm->forward(batch.data)), batch.target);
  }
  auto configure_optimizers() { return torch::optim::SGD(this->parameters(), 0.05); }
};

}  // namespace

TEST_CASE("a loss of several elements with a backward of its own is left to its gradients", "[nonfinite]") {
  for (auto const policy : {NonFinite::stop, NonFinite::skip, NonFinite::ignore}) {
    auto model = fresh<OwnBackward>();
    CHECK(fit(model, SingleDevice{cpu}, batches(3), policy).empty());
    auto bad = fresh<OwnBackward>();
    auto const said = fit(bad, SingleDevice{cpu}, batches(3, 1), policy);
    CHECK(said.starts_with(policy == NonFinite::stop   ? "[fulgurite.loop.non_finite] a gradient is not finite after"
                           : policy == NonFinite::skip ? "[fulgurite.loop.non_finite_skipped] a gradient is not finite"
                                                       : ""));
  }
}

TEST_CASE("a buffer that a bad batch has spoiled is named, since it is not put back", "[nonfinite]") {
  for (auto const policy : {NonFinite::stop, NonFinite::skip}) {
    auto train = batches(3);
    train[1].data[2][3] = infinity;
    auto model = fresh<Normed>();
    CHECK(fit(model, SingleDevice{cpu}, train, policy).find("The buffer 'norm.running_") != std::string::npos);
    auto target = fresh<Normed>();  // the batch norm sees nothing of it
    CHECK(fit(target, SingleDevice{cpu}, batches(3, 1), policy).find("buffer") == std::string::npos);
  }
}
