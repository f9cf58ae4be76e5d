// Optimizers over flat buffers: the steps of torch::optim, bit for bit, whatever happens to the parameters meanwhile.
#include "fixtures.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/optim/lbfgs.hpp>

namespace {
using fixtures::same_bits;
using fulgurite::LibTorch;
using torch::Tensor;
namespace ours = fulgurite::optim;
namespace theirs = torch::optim;

/// Sizes on both sides of every width of a vector register, one empty; all together above a block.
std::vector<Tensor> parameters(at::ScalarType type = at::kFloat) {
  torch::manual_seed(5);
  std::vector<Tensor> all;
  for (auto const& sizes : std::vector<std::vector<std::int64_t>>{{1}, {3, 5}, {16}, {7, 11}, {300}, {0}, {40, 50}, {}})
    all.push_back(torch::randn(sizes, type).requires_grad_());
  return all;
}

/// The same gradients for both, by some orders of magnitude apart.
void give_gradients(std::vector<Tensor> const& a, std::vector<Tensor> const& b, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(1000 + step));
  for (std::size_t i = 0; i != a.size(); ++i) {
    auto const gradient = torch::randn_like(a[i]).detach() * std::pow(10.0, step % 7 - 3);
    for (auto const& p : {a[i], b[i]})
      if (p.grad().defined()) p.grad().copy_(gradient);
      else p.mutable_grad() = gradient.clone();
  }
}

bool same(std::vector<Tensor> const& a, std::vector<Tensor> const& b) {
  for (std::size_t i = 0; i != a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return true;
}

/// 1000 steps of both.
template <class Theirs, class Ours>
void check_same(std::vector<Tensor>& by_torch, Theirs raw, std::vector<Tensor>& flat, Ours optimizer,
                int steps = 1000) {
  static_assert(fulgurite::OptimizerLike<Ours>);
  static_assert(Ours::stable_gradients && !Ours::needs_closure);
  static_assert(std::is_same_v<Ours, decltype(LibTorch::adopt(std::move(optimizer)))>);
  int first_difference = -1;
  for (int step = 0; step != steps && first_difference < 0; ++step) {
    raw.zero_grad();
    optimizer.zero_grad();
    give_gradients(by_torch, flat, step);
    if (step == steps / 2) {
      raw.param_groups()[0].options().set_lr(0.003);
      optimizer.set_lr(0, 0.003);
    }
    raw.step();
    optimizer.step();
    if (!same(by_torch, flat)) first_difference = step;
  }
  CHECK(first_difference == -1);
}

template <class Raw, class Optimizer, class RawOptions, class Options>
void check_kind(RawOptions const& raw, Options const& options) {
  for (auto const type : {at::kFloat, at::kDouble}) {
    auto by_torch = parameters(type), flat = parameters(type);
    check_same(by_torch, Raw(by_torch, raw), flat, Optimizer(flat, options));
  }
}
}  // namespace

TEST_CASE("1000 steps of each optimizer are those of torch::optim, bit for bit", "[arena]") {
  SECTION("SGD") {
    check_kind<theirs::SGD, ours::SGD>(theirs::SGDOptions(0.01), ours::SGDOptions{.lr = 0.01});
    check_kind<theirs::SGD, ours::SGD>(
        theirs::SGDOptions(0.01).momentum(0.9).dampening(0.1).weight_decay(0.02),
        ours::SGDOptions{.lr = 0.01, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.02});
    check_kind<theirs::SGD, ours::SGD>(theirs::SGDOptions(0.01).momentum(0.9).nesterov(true),
                                       ours::SGDOptions{.lr = 0.01, .momentum = 0.9, .nesterov = true});
  }
  SECTION("Adam") {
    check_kind<theirs::Adam, ours::Adam>(theirs::AdamOptions(0.01), ours::AdamOptions{.lr = 0.01});
    check_kind<theirs::Adam, ours::Adam>(
        theirs::AdamOptions(0.01).betas({0.8, 0.99}).eps(1e-6).weight_decay(0.02).amsgrad(true),
        ours::AdamOptions{.lr = 0.01, .betas = {0.8, 0.99}, .eps = 1e-6, .weight_decay = 0.02, .amsgrad = true});
  }
  SECTION("AdamW") {
    check_kind<theirs::AdamW, ours::AdamW>(theirs::AdamWOptions(0.01).weight_decay(0.1),
                                           ours::AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
    check_kind<theirs::AdamW, ours::AdamW>(theirs::AdamWOptions(0.01).amsgrad(true),
                                           ours::AdamWOptions{.lr = 0.01, .amsgrad = true});
  }
  SECTION("RMSprop") {
    check_kind<theirs::RMSprop, ours::RMSprop>(theirs::RMSpropOptions(0.01), ours::RMSpropOptions{});
    check_kind<theirs::RMSprop, ours::RMSprop>(
        theirs::RMSpropOptions(0.01).centered(true).momentum(0.9).weight_decay(0.02),
        ours::RMSpropOptions{.lr = 0.01, .weight_decay = 0.02, .momentum = 0.9, .centered = true});
  }
  SECTION("Adagrad") {
    check_kind<theirs::Adagrad, ours::Adagrad>(theirs::AdagradOptions(0.01), ours::AdagradOptions{.lr = 0.01});
    check_kind<theirs::Adagrad, ours::Adagrad>(
        theirs::AdagradOptions(0.01).lr_decay(0.1).weight_decay(0.02).initial_accumulator_value(0.5),
        ours::AdagradOptions{.lr = 0.01, .lr_decay = 0.1, .weight_decay = 0.02, .initial_accumulator_value = 0.5});
  }
}

TEST_CASE("as operators the same text takes the same steps, also for other element types", "[arena]") {
  for (auto const type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    auto by_torch = parameters(type), flat = parameters(type);
    theirs::Adam raw(by_torch, theirs::AdamOptions(0.01).amsgrad(true));
    fulgurite::libtorch::Arena arena(3);
    arena.add(flat, 0, {0.0, 0.0, 0.0});
    ours::AdamOptions const options{.lr = 0.01, .amsgrad = true};
    for (int step = 0; step != 50; ++step) {
      raw.zero_grad();
      arena.zero_grad();
      give_gradients(by_torch, flat, step);
      raw.step();
      arena.update([&](auto const& run, auto const& buffer) {
        fulgurite::libtorch::as_operators<3>(ours::rule::Adam<ours::AdamOptions, false>(options, run.steps), run,
                                             buffer);
      });
    }
    // Of bfloat16 LibTorch rounds the last numbers of a tensor otherwise than the rest, and a slice's last is not the
    // buffer's.
    for (std::size_t i = 0; i != flat.size(); ++i)
      CHECK((type == at::kBFloat16 ? torch::allclose(flat[i], by_torch[i], 0.02, 0.02)
                                   : same_bits(flat[i], by_torch[i])));
  }
}

TEST_CASE("parameters and gradients are slices of one buffer each, and clearing keeps them", "[arena]") {
  auto p = parameters();
  auto const before = parameters();
  ours::SGD sgd(p, {.lr = 0.1});
  CHECK(same(p, before));
  auto const* storage = p[0].storage().unsafeGetStorageImpl();
  auto const* gradients = p[0].grad().storage().unsafeGetStorageImpl();
  for (auto const& one : p) {
    CHECK(one.storage().unsafeGetStorageImpl() == storage);
    CHECK(one.grad().storage().unsafeGetStorageImpl() == gradients);
    if (one.numel() != 0) CHECK(reinterpret_cast<std::uintptr_t>(one.data_ptr()) % 64 == 0);
  }
  auto const kept = p[1].grad();
  (p[1] * 2).sum().backward();
  CHECK(p[1].grad().is_same(kept));
  CHECK(kept.sum().item<double>() == 30);
  sgd.step();
  fixtures::Operators const operators;
  sgd.zero_grad();
  CHECK(operators.all() <= 2);  // zero_, and what it is made of
  CHECK(p[1].grad().is_same(kept));
  CHECK(kept.abs().sum().item<double>() == 0);
}

TEST_CASE("a parameter that backward did not reach is left alone, as by torch::optim", "[arena]") {
  auto by_torch = parameters(), flat = parameters();
  theirs::Adam raw(by_torch, 0.01);
  ours::Adam optimizer(flat, {.lr = 0.01});
  for (int step = 0; step != 20; ++step) {
    raw.zero_grad();
    optimizer.zero_grad();
    for (auto* p : {&by_torch, &flat})
      for (std::size_t i = 0; i != p->size(); ++i)
        if ((static_cast<std::size_t>(step) + i) % 3 != 0) (*p)[i].square().sum().backward();
    LibTorch::scale_gradients(optimizer.parameters(), 0.5);  // writes to all slices, which is no gradient
    LibTorch::scale_gradients(by_torch, 0.5);
    raw.step();
    optimizer.step();
    CHECK(same(by_torch, flat));
  }
  CHECK(optimizer.state("0").step == 13);
  optimizer.zero_grad();
  CHECK(LibTorch::no_gradients(optimizer.parameters()));
  flat[2].sum().backward();
  CHECK_FALSE(LibTorch::no_gradients(optimizer.parameters()));
  CHECK((optimizer.parameters().has_gradient(2) && !optimizer.parameters().has_gradient(3)));
}

TEST_CASE("gradients that are not cleared go on counting; a replay is seen by the counters it bumps", "[arena]") {
  auto by_torch = parameters(), flat = parameters();
  theirs::SGD raw(by_torch, theirs::SGDOptions(0.01).momentum(0.9));
  ours::SGD optimizer(flat, {.lr = 0.01, .momentum = 0.9});
  for (auto* p : {&by_torch, &flat}) (*p)[3].square().sum().backward();
  for (int step = 0; step != 3; ++step) {
    raw.step();
    optimizer.step();
  }
  CHECK(same(by_torch, flat));
  fulgurite::libtorch::Arena arena(0);
  auto p = parameters();
  arena.add(p, 0, {});
  arena.zero_grad();
  p[0].sum().backward();
  auto const received = [&] {
    std::vector<std::size_t> all;
    arena.look();
    for (std::size_t i = 0; i != p.size(); ++i)
      if (arena.slots()[i].received) all.push_back(i);
    return all;
  };
  CHECK(received() == std::vector<std::size_t>{0});
  CHECK(received() == std::vector<std::size_t>{0});  // a replay that bumps nothing: as when it was recorded
  arena.buffers()[0].gradients.unsafeGetTensorImpl()->bump_version();
  p[4].grad().unsafeGetTensorImpl()->bump_version();
  CHECK(received() == std::vector<std::size_t>{4});
}

TEST_CASE("parameters that are frozen, thawed, dropped or given a gradient between steps", "[arena]") {
  auto by_torch = parameters(), flat = parameters();
  theirs::Adam raw(by_torch, 0.01);
  ours::Adam optimizer(flat, {.lr = 0.01});
  for (int step = 0; step != 12; ++step) {
    for (auto* p : {&by_torch, &flat}) {
      if (step == 3) (*p)[1].set_requires_grad(false);
      if (step == 3) (*p)[1].mutable_grad().reset();
      if (step == 6) (*p)[1].set_requires_grad(true);
    }
    raw.zero_grad();
    optimizer.zero_grad();
    for (auto* p : {&by_torch, &flat}) {
      for (auto& one : *p)
        if (one.requires_grad()) one.square().sum().backward();
      if (step == 8) (*p)[3].mutable_grad().reset();
      if (step == 9) (*p)[3].mutable_grad() = torch::ones({7, 11});
      if (step == 10) (*p)[4].mutable_grad().zero_();  // zero is a gradient: momentum moves on
    }
    raw.step();
    optimizer.step();
    CHECK(same(by_torch, flat));
  }
  CHECK(flat[3].grad().storage().is_alias_of(flat[4].grad().storage()));
}

TEST_CASE("a graph through the gradients makes new ones, which are taken in", "[arena]") {
  auto by_torch = parameters(at::kDouble), flat = parameters(at::kDouble);
  theirs::SGD raw(by_torch, 0.01);
  ours::SGD optimizer(flat, {.lr = 0.01});
  for (auto* p : {&by_torch, &flat}) (*p)[3].pow(3).sum().backward({}, true, true);
  raw.step();
  optimizer.step();
  CHECK(same(by_torch, flat));
  // Such a gradient holds its parameter, which holds the gradient.
  for (auto* p : {&by_torch, &flat}) (*p)[3].mutable_grad().reset();
}

TEST_CASE("a rate alone is taken as torch::optim takes it", "[arena]") {
  torch::nn::Linear const net(2, 1);
  CHECK(fulgurite::optim::Adam(net->parameters(), 0.25).lr(0) == 0.25);
  CHECK(fulgurite::optim::SGD(*net, 0.5).lr(0) == 0.5);
}

TEST_CASE("a frozen parameter stays where it is when a group is added inside of a window", "[arena]") {
  for (bool const frozen_first : {false, true}) {
    std::vector<Tensor> all;
    for (int i = 0; i != 3; ++i) all.push_back(torch::ones({2}).requires_grad_());
    ours::Adam adam(std::vector{all[0], all[1]}, {.lr = 0.1});
    adam.zero_grad();
    (all[0].sum() + all[1].sum()).backward();
    adam.step();
    auto const before = all[0].detach().clone();
    if (frozen_first) all[0].set_requires_grad(false);
    adam.zero_grad();
    if (!frozen_first) all[0].set_requires_grad(false);
    adam.add_group({all[2]}, {.lr = 0.1});
    all[1].sum().backward();
    adam.step();
    CHECK(torch::equal(all[0], before));
  }
}

TEST_CASE("groups have options of their own; tied and doubly given parameters", "[arena]") {
  auto by_torch = parameters(), flat = parameters();
  theirs::Adam raw(
      {theirs::OptimizerParamGroup({by_torch[1], by_torch[4]}), theirs::OptimizerParamGroup({by_torch[3]})},
      theirs::AdamOptions(1e-4));
  static_cast<theirs::AdamOptions&>(raw.param_groups()[1].options()).lr(1e-3).weight_decay(0.1);
  ours::Adam adam({{{flat[1], flat[4]}, {.lr = 1e-4}}, {{flat[3]}, {.lr = 1e-3, .weight_decay = 0.1}}});
  CHECK((adam.groups() == 2 && adam.lr(0) == 1e-4 && adam.lr(1) == 1e-3 && adam.weight_decay(1) == 0.1 &&
         adam.momentum(0) == 0.9));
  CHECK(adam.name() == "Adam");
  for (int step = 0; step != 20; ++step) {
    if (step == 10) {
      raw.add_param_group(theirs::OptimizerParamGroup({by_torch[6]}, std::make_unique<theirs::AdamOptions>(0.002)));
      adam.add_group({flat[6]}, 0.002);
    }
    raw.zero_grad();
    adam.zero_grad();
    give_gradients(by_torch, flat, step);
    raw.step();
    adam.step();
    CHECK(same(by_torch, flat));
  }
  CHECK(adam.parameters().size() == 4);
  CHECK(adam.parameters()[3].is_same(flat[6]));
  using Catch::Matchers::StartsWith;
  CHECK_THROWS_WITH(adam.add_group({flat[6]}, 0.1), StartsWith("[fulgurite.optimizer.twice]"));
  CHECK_THROWS_WITH(adam.add_group({flat[0]}, -1.0), StartsWith("[fulgurite.optim.option]"));
  CHECK_THROWS_WITH(adam.add_group({flat[0] * 2}, 0.1), StartsWith("[fulgurite.optim.parameter]"));
  CHECK_THROWS_WITH(adam.state("nobody"), StartsWith("[fulgurite.optim.unknown_parameter]"));
  CHECK_THROWS_WITH(adam.state("0")["max_exp_avg_sq"], StartsWith("[fulgurite.optim.state_name]"));
  auto const twice = torch::zeros({4});
  std::vector<Tensor> const overlapping{twice.narrow(0, 0, 3).detach().requires_grad_(),
                                        twice.narrow(0, 2, 2).detach().requires_grad_()};
  CHECK_THROWS_WITH(ours::SGD(overlapping), StartsWith("[fulgurite.optim.shared_memory]"));

  auto tied = torch::ones({3}).requires_grad_();
  ours::SGD sgd(std::vector{tied, tied}, {.lr = 0.5});
  CHECK(sgd.parameters().size() == 1);
  (tied.sum() + tied.sum()).backward();
  sgd.step();
  CHECK(tied.sum().item<double>() == 0);
}

TEST_CASE("mixed element types are separate buffers; conversion and set_data move everything along", "[arena]") {
  fixtures::Net by_torch, flat;
  for (std::size_t i = 0; i != by_torch.parameters().size(); ++i)
    flat.parameters()[i].set_data(by_torch.parameters()[i].detach().clone());
  auto const* running_mean = flat.norm->running_mean.data_ptr();
  by_torch.out->to(at::kDouble);
  flat.out->to(at::kDouble);
  theirs::Adam raw(by_torch.parameters(), 0.01);
  ours::Adam optimizer(flat, {.lr = 0.01});
  CHECK_FALSE(flat.in->weight.storage().is_alias_of(flat.out->weight.storage()));
  auto const check = [&](int steps) {
    for (int step = 0; step != steps; ++step) {
      raw.zero_grad();
      optimizer.zero_grad();
      give_gradients(by_torch.parameters(), flat.parameters(), step);
      raw.step();
      optimizer.step();
    }
    CHECK(same(by_torch.parameters(), flat.parameters()));
  };
  check(5);
  CHECK(same_bits(
      optimizer.state("in.weight")["exp_avg"],
      static_cast<theirs::AdamParamState&>(*raw.state()[by_torch.in->weight.unsafeGetTensorImpl()]).exp_avg()));
  CHECK(optimizer.state(flat.in->weight).step == 5);
  // weights from elsewhere, by both ways that LibTorch has
  for (auto* net : {&by_torch, &flat}) {
    at::NoGradGuard const no_graph;
    net->in->weight.fill_(0.25);
    net->in->bias.set_data(torch::full({3}, 0.5));
    net->zero_grad();  // the module's own clearing drops gradients
  }
  check(5);
  CHECK(flat.in->bias.storage().is_alias_of(flat.in->weight.storage()));
  CHECK(flat.norm->running_mean.data_ptr() == running_mean);
  // all to double: torch::optim would need its state converted by hand
  flat.to(at::kDouble);
  optimizer.zero_grad();
  CHECK(flat.in->weight.storage().is_alias_of(flat.out->weight.storage()));
  CHECK(optimizer.state("in.weight")["exp_avg"].scalar_type() == at::kDouble);
  CHECK(optimizer.state("in.weight")["exp_avg"].abs().sum().item<double>() > 0);
  optimizer.step();
  flat.in->weight.set_data(torch::zeros({9, 9}, at::kDouble));
  CHECK_THROWS_WITH(optimizer.step(), Catch::Matchers::StartsWith("[fulgurite.optim.parameter_changed]"));
}

TEST_CASE("state is saved and loaded to the bit; a state that does not fit is refused", "[arena]") {
  auto first = parameters(), second = parameters(), other = parameters();
  ours::Adam saved(first, {.lr = 0.01}), loaded(second, {.lr = 0.5});
  for (int step = 0; step != 5; ++step) {
    saved.zero_grad();
    give_gradients(first, other, step);
    saved.step();
  }
  auto const text = fulgurite::state_text(saved);
  fulgurite::load_state_text(loaded, text);
  CHECK(loaded.lr(0) == 0.01);
  CHECK(loaded.state("3").step == 5);
  {
    at::NoGradGuard const no_graph;
    for (std::size_t i = 0; i != first.size(); ++i) second[i].copy_(first[i]);
  }
  for (int step = 5; step != 9; ++step) {
    saved.zero_grad();
    loaded.zero_grad();
    give_gradients(first, second, step);
    saved.step();
    loaded.step();
  }
  CHECK(same(first, second));
  ours::Adam smaller(std::vector{other[1]});
  CHECK_THROWS_WITH(fulgurite::load_state_text(smaller, text),
                    Catch::Matchers::StartsWith("[fulgurite.optim.state_mismatch]"));
}

namespace {
/// Its parts in either order.
struct Reversed : torch::nn::Module {
  torch::nn::Linear out{nullptr}, in{nullptr};
  explicit Reversed(bool reversed, std::int64_t outputs = 1) {
    if (reversed) out = register_module("out", torch::nn::Linear(3, outputs));
    in = register_module("in", torch::nn::Linear(4, 3));
    if (!reversed) out = register_module("out", torch::nn::Linear(3, outputs));
  }
  void learn(auto& optimizer, int steps) {
    torch::manual_seed(static_cast<std::uint64_t>(steps));
    for (int step = 0; step != steps; ++step) {
      optimizer.zero_grad();
      out(torch::relu(in(torch::randn({8, 4})))).square().mean().backward();
      optimizer.step();
    }
  }
};
}  // namespace

TEST_CASE("state is found by name: a net that lists its parts in another order goes on with the same bits", "[arena]") {
  Reversed net(false), other(true);
  ours::Adam optimizer(net, {.lr = 0.01, .amsgrad = true});
  ours::Adam late(other, {.amsgrad = true});
  net.learn(optimizer, 10);
  auto const text = fulgurite::state_text(optimizer);
  for (auto const& parameter : net.named_parameters()) {
    at::NoGradGuard const no_graph;
    other.named_parameters()[parameter.key()].copy_(parameter.value());
  }
  fulgurite::load_state_text(late, text);
  CHECK(late.lr(0) == 0.01);
  net.learn(optimizer, 9);
  other.learn(late, 9);
  for (auto const& parameter : net.named_parameters()) {
    CHECK(same_bits(parameter.value(), other.named_parameters()[parameter.key()]));
    for (auto const& [name, tensor] : optimizer.state(parameter.key()).tensors)
      CHECK(same_bits(tensor, late.state(parameter.key())[name]));
  }
  CHECK(late.state("out.bias").step == 19);

  // What does not fit changes nothing: neither rates nor a single moment.
  auto const refused = [&](auto& into, std::string const& why) {
    auto const before = fulgurite::state_text(into);
    CHECK_THROWS_WITH(fulgurite::load_state_text(into, text),
                      Catch::Matchers::StartsWith("[fulgurite.optim.state_mismatch]") &&
                          Catch::Matchers::ContainsSubstring(why));
    CHECK(fulgurite::state_text(into) == before);
  };
  Reversed wider(false, 2), doubled(false);
  ours::Adam another_shape(wider, {.amsgrad = true}), without_names(net.parameters(), {.amsgrad = true});
  refused(another_shape, "of 'out.weight' is F32 [1, 3], here of type F32 [2, 3]");
  refused(without_names, "no '0' is in it");
  doubled.out->to(at::kDouble);
  ours::Adam another_type(doubled, {.amsgrad = true});
  refused(another_type, "here of type F64");
  ours::Adam two_groups({{net.in->parameters(), {.amsgrad = true}}, {net.out->parameters(), {.amsgrad = true}}});
  refused(two_groups, "4 parameters in 1 groups, here 4 in 2");

  // A state that no option needs any more is left out; one that is missing is refused.
  ours::Adam plain(net), amsgrad(net, {.amsgrad = true});
  fulgurite::load_state_text(plain, text);
  CHECK(plain.state("in.bias").step == 10);
  CHECK(plain.state("in.bias").tensors.size() == 2);
  CHECK_THROWS_WITH(
      fulgurite::load_state_text(amsgrad, fulgurite::state_text(plain)),
      Catch::Matchers::ContainsSubstring("of 'in.bias' it has no 'max_exp_avg_sq', which the options here need"));
}

namespace {
template <class Optimizer>
Tensor learn(Optimizer& optimizer, std::vector<Tensor> const& p, int& evaluations) {
  return optimizer.step([&] {
    ++evaluations;
    optimizer.zero_grad();
    auto loss = (1 - p[0]).square().sum() + 100 * (p[1] - p[0].square()).square().sum();  // Rosenbrock's valley
    loss.backward();
    return loss;
  });
}
std::vector<Tensor> valley() {
  return {torch::full({3}, -1.2).requires_grad_(), torch::ones({3}).requires_grad_(),
          torch::ones({2}).requires_grad_()};
}
}  // namespace

TEST_CASE("LBFGS takes the steps of torch::optim over flat buffers, also from a saved state", "[arena]") {
  static_assert(fulgurite::OptimizerLike<ours::LBFGS> && ours::LBFGS::needs_closure && ours::LBFGS::stable_gradients);
  for (bool const search : {false, true}) {
    auto by_torch = valley(), flat = valley(), later = valley();
    auto torch_options = theirs::LBFGSOptions(search ? 1 : 0.001).max_iter(5).history_size(4);
    ours::LBFGSOptions options{.lr = search ? 1 : 0.001, .max_iter = 5, .history_size = 4};
    if (search) torch_options.line_search_fn("strong_wolfe"), options.line_search_fn = "strong_wolfe";
    theirs::LBFGS raw(by_torch, torch_options);
    ours::LBFGS optimizer(flat, options), resumed(later, options);
    int evaluations[3] = {};
    auto const gradients = flat[1].grad();
    for (int step = 0; step != 20; ++step) {
      if (step == 8) {
        fulgurite::load_state_text(resumed, fulgurite::state_text(optimizer));
        at::NoGradGuard const no_graph;
        for (std::size_t i = 0; i != flat.size(); ++i) later[i].copy_(flat[i]);
        evaluations[2] = evaluations[1];
      }
      if (step == 12) {
        raw.param_groups()[0].options().set_lr(0.5);
        optimizer.set_lr(0, 0.5);
        resumed.set_lr(0, 0.5);
      }
      auto const loss = learn(raw, by_torch, evaluations[0]);
      CHECK(same_bits(loss, learn(optimizer, flat, evaluations[1])));
      if (step >= 8) CHECK(same_bits(loss, learn(resumed, later, evaluations[2])));
      CHECK(same(by_torch, flat));
    }
    CHECK(same(flat, later));
    CHECK((evaluations[0] == evaluations[1] && evaluations[1] == evaluations[2] && evaluations[0] > 40));
    CHECK((flat[1].grad().is_same(gradients) && flat[0].storage().is_alias_of(flat[2].storage())));
    auto const& torch_state = static_cast<theirs::LBFGSParamState&>(*raw.state()[by_torch[0].unsafeGetTensorImpl()]);
    CHECK(optimizer.state().step == torch_state.n_iter());
    CHECK(same_bits(optimizer.state()["d"], torch_state.d()));
    CHECK(same_bits(optimizer.state()["old_dirs.3"], torch_state.old_dirs()[3]));
  }
  auto p = valley(), fewer = std::vector{p[0]};
  using Catch::Matchers::StartsWith;
  ours::LBFGS optimizer(p), small(std::vector{torch::ones({2}).requires_grad_()});
  int evaluations = 0;
  CHECK(optimizer.state().tensors.empty());
  learn(optimizer, p, evaluations);
  CHECK_THROWS_WITH(fulgurite::load_state_text(small, fulgurite::state_text(optimizer)),
                    StartsWith("[fulgurite.optim.state_mismatch]"));
  CHECK(small.state().tensors.empty());
  CHECK_THROWS_WITH(optimizer.add_group(fewer, 0.1), StartsWith("[fulgurite.optimizer.one_group]"));
  CHECK_THROWS_WITH(ours::LBFGS(p, {.line_search_fn = "armijo"}), StartsWith("[fulgurite.optim.option]"));
  CHECK_THROWS_WITH(ours::LBFGS(std::vector<Tensor>{}),
                    StartsWith("[fulgurite.optim.parameter] LBFGS was given no parameters"));
}

TEST_CASE("clipping and unscaling are operations on the flat gradient", "[arena]") {
  auto by_torch = parameters(at::kDouble), flat = parameters(at::kDouble);
  ours::SGD optimizer(flat, {.lr = 0.1});
  give_gradients(by_torch, flat, 3);
  auto const expected = LibTorch::clip_norm(by_torch, 0.5);
  auto const norm = LibTorch::clip_norm(optimizer.parameters(), 0.5);
  CHECK(fixtures::same_bits(norm, expected));
  for (std::size_t i = 0; i != flat.size(); ++i) CHECK(torch::allclose(flat[i].grad(), by_torch[i].grad(), 1e-12));
  {
    fixtures::Operators const operators;
    LibTorch::clip_value(optimizer.parameters(), 0.01);
    CHECK(operators.all() <= 3);
  }
  LibTorch::clip_value(by_torch, 0.01);
  for (std::size_t i = 0; i != flat.size(); ++i) CHECK(torch::allclose(flat[i].grad(), by_torch[i].grad(), 1e-12));
  optimizer.zero_grad();
  CHECK(LibTorch::clip_norm(optimizer.parameters(), 0.5).item<double>() == 0);
}

namespace {
std::vector<fulgurite::data::Batch> batches(int n) {
  torch::manual_seed(9);
  std::vector<fulgurite::data::Batch> all;
  for (int i = 0; i != n; ++i) all.push_back({torch::randn({8, 4}), torch::randn({8, 1})});
  return all;
}

/// Trained by what `Make` makes of it.
template <class Make>
struct Trained : fixtures::Net {
  torch::Tensor training_step(auto const& batch) { return torch::mse_loss(forward(batch.data), batch.target); }
  void validation_step(auto const&) {}
  auto configure_optimizers() { return Make{}(*this); }
};
using ByTorch = Trained<decltype([](auto& model) { return theirs::Adam(model.parameters(), 0.01); })>;
using ByTorchSGD = Trained<decltype([](auto& model) { return theirs::SGD(model.parameters(), 0.1); })>;
using FlatSGD = Trained<decltype([](auto& model) { return ours::SGD(model, {.lr = 0.1}); })>;
using Flat = Trained<decltype([](auto& model) { return ours::Adam(model, {.lr = 0.01}); })>;
using ByTorchLBFGS = Trained<decltype([](auto& model) {
  return theirs::LBFGS(model.parameters(), theirs::LBFGSOptions(0.1).max_iter(3));
})>;
using FlatLBFGS = Trained<decltype([](auto& model) { return ours::LBFGS(model, {.lr = 0.1, .max_iter = 3}); })>;

/// The weights after some epochs, and those that were averaged, if any.
template <class Model, class Strategy, class... More>
std::vector<Tensor> fitted_by(Strategy strategy, fulgurite::Automatic const& optimization, More... callbacks) {
  torch::manual_seed(3);
  Model model;
  auto const data = batches(12);
  auto trainer = fulgurite::make_trainer<Model>(
      fulgurite::TrainerOptions{.max_epochs = 4, .num_sanity_val_steps = 0, .log_every_n_steps = 0},
      std::move(strategy), fulgurite::Float32{}, optimization, std::move(callbacks)..., fulgurite::NoDefaults{});
  trainer.fit(model, data, batches(1));
  return model.parameters();
}
template <class Model, class... More>
std::vector<Tensor> fitted(fulgurite::Automatic const& optimization, More... callbacks) {
  return fitted_by<Model>(fulgurite::SingleDevice{fulgurite::cpu}, optimization, std::move(callbacks)...);
}
}  // namespace

TEST_CASE("fit with a flat optimizer ends with the weights of fit with torch::optim", "[arena]") {
  using fulgurite::Automatic;
  CHECK(same(fitted<ByTorch>(Automatic{}), fitted<Flat>(Automatic{})));
  CHECK(same(fitted<ByTorchLBFGS>(Automatic{}), fitted<FlatLBFGS>(Automatic{})));
  auto const captured = fulgurite::Captured{fulgurite::SingleDevice{fulgurite::cpu}};
  CHECK(same(fitted<ByTorchLBFGS>(Automatic{}), fitted_by<FlatLBFGS>(captured, Automatic{})));
  CHECK(captured.report()->replayed > 100);
  Automatic const windows{.accumulate_grad_batches = 5};
  CHECK(same(fitted<ByTorch>(windows), fitted<Flat>(windows)));
  fulgurite::EMAWeightAveraging const average{{.decay = 0.9}};
  CHECK(same(fitted<ByTorch>(Automatic{}, average), fitted<Flat>(Automatic{}, average)));
  fulgurite::StochasticWeightAveraging const late{{.swa_lrs = 0.05, .swa_epoch_start = 2, .annealing_epochs = 1}};
  CHECK(same(fitted<ByTorch>(Automatic{}, late), fitted<Flat>(Automatic{}, late)));
  CHECK_FALSE(same(fitted<Flat>(Automatic{}), fitted<Flat>(Automatic{}, late)));
  Automatic const clipped{.clip = fulgurite::ClipNorm{0.1}};
  CHECK(same(fitted<ByTorchSGD>(clipped), fitted<FlatSGD>(clipped)));
}

TEST_CASE("norms of gradients leave out what backward did not reach", "[arena]") {
  fixtures::Net net;
  ours::SGD optimizer(net, {.lr = 0.1});
  net.in->weight.sum().backward();
  auto const norms = LibTorch::gradient_norms(net, optimizer, 2.0);
  REQUIRE(norms.size() == 2);
  CHECK(norms[0].first == "in.weight");
  CHECK(norms[1].second == norms[0].second);
}

TEST_CASE("a part that is thawed becomes a group, and trains on", "[arena]") {
  fixtures::Net by_torch, flat;
  for (std::size_t i = 0; i != by_torch.parameters().size(); ++i)
    flat.parameters()[i].set_data(by_torch.parameters()[i].detach().clone());
  fulgurite::freeze(by_torch.in);
  fulgurite::freeze(flat.in);
  auto raw = LibTorch::adopt(theirs::SGD(fulgurite::filter_params(by_torch), theirs::SGDOptions(0.1).momentum(0.9)));
  ours::SGD optimizer(fulgurite::filter_params(flat), {.lr = 0.1, .momentum = 0.9});
  auto const data = batches(6);
  for (std::size_t i = 0; i != data.size(); ++i) {
    if (i == 2) CHECK(fulgurite::unfreeze_and_add_param_group(by_torch.in, raw) == 2);
    if (i == 2) CHECK(fulgurite::unfreeze_and_add_param_group(flat.in, optimizer) == 2);
    if (i == 4) fulgurite::freeze(by_torch.in);
    if (i == 4) fulgurite::freeze(flat.in);
    raw.zero_grad();
    optimizer.zero_grad();
    torch::mse_loss(by_torch.forward(data[i].data), data[i].target).backward();
    torch::mse_loss(flat.forward(data[i].data), data[i].target).backward();
    raw.step();
    optimizer.step();
    CHECK(same(by_torch.parameters(), flat.parameters()));
  }
  CHECK(flat.in->weight.storage().is_alias_of(flat.out->weight.storage()));
}

TEST_CASE("a module with a flat optimizer is written and read by LibTorch as any other", "[arena]") {
  fixtures::Net net, other;
  ours::Adam optimizer(net), late(other);
  std::stringstream file;
  torch::save(std::make_shared<fixtures::Net>(net)->parameters(), file);
  std::vector<Tensor> back;
  torch::load(back, file);
  CHECK(same(back, net.parameters()));
}

TEST_CASE(
    "gradients that a graph will overwrite are listed in place of clearing them, and gaps between them are cleared",
    "[arena]") {
  using fulgurite::libtorch::Arena;
  auto const flat = parameters();
  ours::SGD optimizer(flat, {.lr = 0.1});
  auto const& buffer = optimizer.parameters().arena().buffers().front();
  buffer.gradients_too.fill_(std::nan(""));  // as where the norm of a nan has been divided by
  std::vector<Arena::Stale> stale;
  {
    fulgurite::libtorch::capture::SetFor<std::vector<Arena::Stale>*> const here(Arena::to_overwrite, &stale);
    optimizer.zero_grad();
  }
  std::int64_t numbers = 0;
  for (auto const& parameter : flat) numbers += parameter.numel();
  CHECK(stale.size() == flat.size());
  CHECK(buffer.gradients.isnan().sum().item<std::int64_t>() == numbers);
  CHECK(buffer.gradients.numel() > numbers);
  optimizer.zero_grad();
  CHECK(buffer.gradients.eq(0).all().item<bool>());
  CHECK(stale.size() == flat.size());
}
