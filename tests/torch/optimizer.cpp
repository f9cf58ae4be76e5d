// LibTorch's six optimizers, adopted as they are: the same steps, bit for bit, as when they are driven by hand.
#include "fixtures.hpp"

#include <array>
#include <optional>

#include <catch2/catch_approx.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/optim/lbfgs.hpp>

namespace {
using fulgurite::LibTorch;
using torch::Tensor;
namespace optim = torch::optim;

std::vector<Tensor> two_parameters() {
  return {torch::arange(6.0).reshape({2, 3}).clone().requires_grad_(), torch::ones({3}).requires_grad_()};
}
Tensor loss_of(std::vector<Tensor> const& p) { return ((p[0] * p[1]).sum() - 2).square(); }

template <class O>
concept steps_alone = requires(O& o) { o.step(); };
template <class O>
concept adoptable = requires(O&& o) { LibTorch::adopt(std::forward<O>(o)); };

template <class Make>
void check_same_steps(Make make, std::string_view name) {
  auto by_hand = two_parameters(), adopted = two_parameters();
  auto raw = make(by_hand);
  auto ours = LibTorch::adopt(make(adopted));
  using Ours = decltype(ours);
  static_assert(!Ours::stable_gradients && !Ours::needs_closure);
  CHECK(Ours::name() == name);
  for (int step = 0; step != 5; ++step) {
    if (step == 3) {  // a schedule at work
      CHECK(ours.lr(0) == raw.param_groups()[0].options().get_lr());
      ours.set_lr(0, 0.003);
      raw.param_groups()[0].options().set_lr(0.003);
      CHECK(ours.lr(0) == 0.003);
    }
    raw.zero_grad();
    loss_of(by_hand).backward();
    raw.step();
    ours.zero_grad();
    loss_of(adopted).backward();
    ours.step();
  }
  for (std::size_t i = 0; i != by_hand.size(); ++i) CHECK(fixtures::same_bits(by_hand[i], adopted[i]));
  CHECK(ours.groups() == 1);
  CHECK(ours.parameters().size() == 2);
  ours.zero_grad();
  CHECK_FALSE(adopted[0].grad().defined());
}
}  // namespace

TEST_CASE("adopted optimizers step as those driven by hand", "[optimizer]") {
  check_same_steps([](auto& p) { return optim::SGD(p, optim::SGDOptions(0.01).momentum(0.9)); }, "SGD");
  check_same_steps([](auto& p) { return optim::Adam(p, 0.01); }, "Adam");
  check_same_steps([](auto& p) { return optim::AdamW(p, optim::AdamWOptions(0.01).weight_decay(0.1)); }, "AdamW");
  check_same_steps([](auto& p) { return optim::RMSprop(p, optim::RMSpropOptions(0.01).centered(true)); }, "RMSprop");
  check_same_steps([](auto& p) { return optim::Adagrad(p, optim::AdagradOptions(0.01).lr_decay(0.1)); }, "Adagrad");
}

namespace {
/// Parameters of sizes that fill blocks, leave a rest, take several blocks and threads, and one in channels-last order.
std::vector<Tensor> of_many_sizes(at::ScalarType type) {
  torch::manual_seed(3);
  std::vector<Tensor> all;
  for (std::int64_t const size : {1, 3, 16, 33, 8192, 100003}) all.push_back(torch::randn({size}, type));
  all.push_back(torch::randn({6, 5, 3, 3}, type).contiguous(at::MemoryFormat::ChannelsLast));
  all.push_back(torch::randn({7, 4}, type));  // receives no gradient
  for (auto& one : all) one.requires_grad_();
  return all;
}
void set_gradients(std::vector<Tensor>& parameters, int step) {
  torch::manual_seed(100 + static_cast<std::uint64_t>(step));
  for (std::size_t i = 0; i + 1 != parameters.size(); ++i) {
    auto gradient = torch::randn_like(parameters[i].detach());
    if (step == 2) gradient.as_strided({1}, {1}).fill_(-0.0);
    if (gradient.numel() == 8192) {  // of all sizes, so that their squares are denormal or huge; and none
      gradient *= torch::pow(10, torch::linspace(-24, 18, 8192, gradient.scalar_type()));
      gradient.narrow(0, 3000, 900).zero_();
    }
    if (i == 1 && step == 3) gradient = Tensor();  // backward did not reach it
    parameters[i].mutable_grad() = gradient;
  }
}

/// The same bits of parameters and states as LibTorch's own step, and from the second step on without an operator.
template <class X, class Options>
void check_one_pass(Options const& options) {
  for (auto const type : {at::kFloat, at::kDouble})
    for (int const threads : {1, 3}) {
      CAPTURE(std::string(fulgurite::type_name<X>()), type, threads);
      if (threads != 1 && fixtures::under_thread_sanitizer) continue;  // it does not see OpenMP's barriers
      std::optional<fixtures::Threads> some(threads);
      auto by_hand = of_many_sizes(type), adopted = of_many_sizes(type);
      X raw(by_hand, options);
      auto ours = LibTorch::adopt(X(adopted, options));
      for (int step = 0; step != 6; ++step) {
        if (step == 4) {
          raw.param_groups()[0].options().set_lr(0.003);
          ours.set_lr(0, 0.003);
        }
        set_gradients(by_hand, step);
        set_gradients(adopted, step);
        auto const expected = by_hand[0]._version(), found = adopted[0]._version();
        raw.step();
        fixtures::Operators const operators;
        ours.step();
        if (step > 0) CHECK(operators.all() == 0);
        CHECK(adopted[0]._version() - found == by_hand[0]._version() - expected);
      }
      some.reset();
      set_gradients(by_hand, 6);  // LibTorch's step goes on from the states that ours has left
      set_gradients(adopted, 6);
      raw.step();
      ours.raw().step();
      for (std::size_t i = 0; i != by_hand.size(); ++i) CHECK(fixtures::same_bits(by_hand[i], adopted[i]));
    }
}
}  // namespace

TEST_CASE("LibTorch's own optimizers step in one pass, with their own bits", "[optimizer]") {
  check_one_pass<optim::SGD>(optim::SGDOptions(0.01));
  check_one_pass<optim::SGD>(optim::SGDOptions(0.01).momentum(0.9).dampening(0.1).weight_decay(0.01));
  check_one_pass<optim::SGD>(optim::SGDOptions(0.01).momentum(0.9).nesterov(true));
  check_one_pass<optim::Adam>(optim::AdamOptions(0.01));
  check_one_pass<optim::Adam>(optim::AdamOptions(0.01).weight_decay(0.01));
  check_one_pass<optim::Adam>(optim::AdamOptions(0.01).weight_decay(0.01).amsgrad(true));
  check_one_pass<optim::AdamW>(optim::AdamWOptions(0.01).weight_decay(0.1));
  check_one_pass<optim::RMSprop>(optim::RMSpropOptions(0.01).weight_decay(0.01));
  check_one_pass<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.9).centered(true));
  check_one_pass<optim::Adagrad>(optim::AdagradOptions(0.01).lr_decay(0.1).weight_decay(0.01));
}

#if defined(__x86_64__)
TEST_CASE("square roots have LibTorch's bits, whichever kernel of MKL it takes", "[optimizer]") {
  torch::manual_seed(5);
  auto numbers = torch::exp2(torch::rand({1 << 20}) * 300 - 160);  // from zeros and denormal numbers to infinity
  numbers.masked_fill_(torch::rand({1 << 20}) < 0.1, 0);
  numbers[7] = -0.0;
  auto const check = [&](Tensor const& of, auto roots) {
    auto found = torch::empty_like(of);
    roots(static_cast<int>(of.numel()), of.data_ptr<float>(), found.data_ptr<float>());
    CHECK(fixtures::same_bits(found, of.sqrt()));
  };
  if (auto const roots = fulgurite::libtorch::roots_of_libtorch<float>()) {
    check(numbers, roots);
    auto const usual = numbers.masked_select((numbers >= 0x1p-90).logical_and(numbers <= 0x1p120));
    check(usual.slice(0, 0, 1 << 16), roots);  // none that MKL is asked for
  }
}

TEST_CASE("Adam in one loop has the bits of Adam in blocks", "[optimizer]") {
  constexpr std::int64_t count = 4096;
  torch::manual_seed(7);
  auto const number = [](Tensor const& tensor) { return tensor.data_ptr<float>(); };
  auto gradient = torch::randn({count}) * torch::exp2(torch::randn({count}) * 20);
  gradient.masked_fill_(torch::rand({count}) < 0.3, -0.0);
  auto const check = [&](auto const& rule, bool apart) {
    torch::manual_seed(8);
    std::array<Tensor, 3> looped = {torch::randn({count}), torch::randn({count}),
                                    torch::exp2(torch::randn({count}) * 15)};
    looped[2].masked_fill_(torch::rand({count}) < 0.3, 0);
    auto blocks = looped;
    for (auto& one : blocks) one = one.clone();
    std::array<float*, 3> const moments = {number(looped[1]), number(looped[2]), nullptr};
    if (!rule.in_one_loop(number(looped[0]), number(gradient), apart, moments, count)) return;  // no AVX-512
    fulgurite::libtorch::fused_blocks<float, 3>(rule, number(blocks[0]), number(gradient), apart,
                                                {number(blocks[1]), number(blocks[2]), nullptr}, count);
    for (std::size_t i = 0; i != 3; ++i) CHECK(fixtures::same_bits(looped[i], blocks[i]));
  };
  namespace ours = fulgurite::optim;
  for (bool const apart : {false, true})
    for (double const decay : {0.0, 0.1}) {
      CAPTURE(apart, decay);
      check(ours::rule::Adam<ours::AdamOptions, false>({.weight_decay = decay}, 6), apart);
      check(ours::rule::Adam<ours::AdamWOptions, true>({.weight_decay = decay}, 6), apart);
    }
}
#endif

TEST_CASE("where one pass over memory would not do, LibTorch's own step is taken", "[optimizer]") {
  // One parameter of another type, one whose gradient lies in another order, one whose state came later.
  auto const own_step = [](auto change) {
    auto by_hand = two_parameters(), adopted = two_parameters();
    by_hand = change(std::move(by_hand)), adopted = change(std::move(adopted));
    optim::Adam raw(by_hand, 0.01);
    auto ours = LibTorch::adopt(optim::Adam(adopted, 0.01));
    for (int step = 0; step != 3; ++step)
      for (auto* const all : {&by_hand, &adopted}) {
        for (auto& one : *all) one.mutable_grad() = (torch::ones_like(one.detach()) * (step + 1)).t().contiguous().t();
        if (all == &by_hand) {
          raw.step();
        } else {
          fixtures::Operators const operators;
          ours.step();
          CHECK(operators.saw("aten::addcdiv_"));
        }
      }
    for (std::size_t i = 0; i != by_hand.size(); ++i) CHECK(fixtures::same_bits(by_hand[i], adopted[i]));
  };
  own_step([](std::vector<Tensor> p) { return p; });
  own_step([](std::vector<Tensor> p) {
    return std::vector<Tensor>{p[1], torch::ones({3}, at::kBFloat16).requires_grad_()};
  });

  SECTION("gradients that are no plain memory of their own") {
    auto const same = [](auto gradient) {
      auto by_hand = torch::ones({1}).requires_grad_(), adopted = torch::ones({1}).requires_grad_();
      optim::AdamW raw({by_hand}, optim::AdamWOptions(0.1).weight_decay(0.1));
      auto ours = LibTorch::adopt(optim::AdamW({adopted}, optim::AdamWOptions(0.1).weight_decay(0.1)));
      for (int step = 0; step != 3; ++step) {
        by_hand.mutable_grad() = gradient(by_hand), adopted.mutable_grad() = gradient(adopted);
        raw.step();
        ours.step();
      }
      CHECK(fixtures::same_bits(by_hand, adopted));
    };
    same([](Tensor const&) { return torch::imag(torch::complex(torch::ones({1}), torch::ones({1})).conj()); });
    same([](Tensor const&) { return at::_efficientzerotensor({1}); });
    same([](Tensor const& parameter) { return parameter.detach(); });
  }
  SECTION("a class of the user's") {
    struct Counting : optim::SGD {
      using optim::SGD::SGD;
      int steps = 0;
      Tensor step(LossClosure closure = nullptr) override {
        ++steps;
        return optim::SGD::step(std::move(closure));
      }
    };
    auto p = two_parameters();
    auto ours = LibTorch::adopt(Counting(p, optim::SGDOptions(0.1)));
    loss_of(p).backward();
    ours.step();
    CHECK(ours->steps == 1);
  }
}

TEST_CASE("LBFGS takes a closure, and steps as by hand", "[optimizer]") {
  auto by_hand = two_parameters(), adopted = two_parameters();
  optim::LBFGS raw(by_hand, optim::LBFGSOptions(0.1).max_iter(4));
  auto ours = LibTorch::adopt(optim::LBFGS(adopted, optim::LBFGSOptions(0.1).max_iter(4)));
  static_assert(decltype(ours)::needs_closure);
  static_assert(!steps_alone<decltype(ours)>);
  CHECK(ours.name() == "LBFGS");
  int calls = 0;
  for (int step = 0; step != 3; ++step) {
    auto const expected = raw.step([&] {
      raw.zero_grad();
      auto loss = loss_of(by_hand);
      loss.backward();
      return loss;
    });
    auto const loss = ours.step([&] {
      ++calls;
      ours.zero_grad();
      auto value = loss_of(adopted);
      value.backward();
      return value;
    });
    CHECK(fixtures::same_bits(loss, expected));
  }
  CHECK(calls > 3);
  CHECK(ours.lr(0) == 0.1);
  ours.set_lr(0, 0.2);
  CHECK(ours->param_groups()[0].options().get_lr() == 0.2);
  for (std::size_t i = 0; i != by_hand.size(); ++i) CHECK(fixtures::same_bits(by_hand[i], adopted[i]));
}

TEST_CASE("what already is an optimizer passes through; lvalues are refused, since adopting moves", "[optimizer]") {
  auto p = two_parameters();
  auto once = LibTorch::adopt(optim::SGD(p, 0.1));
  auto twice = LibTorch::adopt(std::move(once));
  static_assert(std::is_same_v<decltype(once), decltype(twice)>);
  CHECK(twice.parameters().size() == 2);
  static_assert(adoptable<optim::SGD> && !adoptable<optim::SGD&>);
}

TEST_CASE("all groups' parameters are one list, and follow later additions", "[optimizer]") {
  auto p = two_parameters();
  optim::SGD sgd({optim::OptimizerParamGroup({p[0]}), optim::OptimizerParamGroup({p[1]})}, optim::SGDOptions(0.1));
  auto ours = LibTorch::adopt(std::move(sgd));
  CHECK(ours.groups() == 2);
  auto const& list = ours.parameters();
  REQUIRE(list.size() == 2);
  CHECK((list[0].is_same(p[0]) && list[1].is_same(p[1])));
  CHECK(&ours.parameters() == &list);
  ours.set_lr(1, 0.5);
  CHECK((ours.lr(0) == 0.1 && ours.lr(1) == 0.5));
  ours->add_param_group(optim::OptimizerParamGroup({torch::ones({1}).requires_grad_()}));
  CHECK(ours.parameters().size() == 3);
  CHECK(&ours.raw() == ours.operator->());
  auto const other = torch::ones({4}).requires_grad_();
  ours->param_groups()[1].params()[0] = other;
  CHECK(ours.parameters()[1].is_same(other));
  other.mutable_grad() = torch::ones({4});
  ours.zero_grad();
  CHECK_FALSE(other.grad().defined());
}

TEST_CASE("zero_grad drops gradients that are views, where LibTorch's own throws", "[optimizer]") {
  auto p = torch::ones({4}).requires_grad_();
  auto const bucket = torch::ones({8});
  auto ours = LibTorch::adopt(optim::SGD(std::vector{p}, 0.1));
  p.mutable_grad() = bucket.split(4)[0];  // one of several views from one call, as in a communication bucket
  CHECK_THROWS(ours->zero_grad());
  ours.zero_grad();
  CHECK_FALSE(p.grad().defined());
}

TEST_CASE("LibTorch's parameter-group traps, and the way around them", "[optimizer]") {
  auto p = two_parameters();
  auto const common = optim::AdamOptions(1e-4).weight_decay(0.1);
  std::vector<optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{p[0]});
  groups.emplace_back(std::vector{p[1]}, std::make_unique<optim::AdamOptions>(1e-3));  // on purpose Adam's own default
  optim::Adam trapped(groups, common);
  auto const& options = static_cast<optim::AdamOptions&>(trapped.param_groups()[1].options());
  if (options.lr() != 1e-3) WARN("this LibTorch replaces a group's value that equals the class's default");
  if (options.weight_decay() != 0.1) SUCCEED("this LibTorch takes a group's options whole");

  optim::Adam adam({optim::OptimizerParamGroup({p[0]}), optim::OptimizerParamGroup({p[1]})}, common);
  adam.param_groups()[1].options().set_lr(1e-3);
  auto ours = LibTorch::adopt(std::move(adam));
  CHECK((ours.lr(0) == 1e-4 && ours.lr(1) == 1e-3));
  for (auto& group : ours->param_groups())
    CHECK(static_cast<optim::AdamOptions&>(group.options()).weight_decay() == 0.1);
}

TEST_CASE("momentum and weight decay of each class, by group; those that have none say so", "[optimizer]") {
  auto const said = [](auto optimizer) {
    auto const adopted = LibTorch::adopt(std::move(optimizer));
    return std::array{adopted.momentum(0).value_or(-1), adopted.weight_decay(0).value_or(-1)};  // -1: none
  };
  using Said = std::array<double, 2>;
  auto const p = two_parameters();
  CHECK(said(optim::SGD(p, optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01))) == Said{0.9, 0.01});
  CHECK(said(optim::Adam(p, optim::AdamOptions(0.1).betas({0.8, 0.99}).weight_decay(0.02))) == Said{0.8, 0.02});
  CHECK(said(optim::AdamW(p, optim::AdamWOptions(0.1))) == Said{0.9, 0.01});
  CHECK(said(optim::RMSprop(p, optim::RMSpropOptions(0.1).momentum(0.5))) == Said{0.5, 0.0});
  CHECK(said(optim::Adagrad(p, optim::AdagradOptions(0.1).weight_decay(0.03))) == Said{-1, 0.03});
  CHECK(said(optim::LBFGS(p, optim::LBFGSOptions(0.1))) == Said{-1, -1});
}

namespace {

/// The same layer under two names: its output is (x w) w.
struct Tied : torch::nn::Module {
  torch::nn::Linear a = register_module("a", torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)));
  torch::nn::Linear b = register_module("b", a);
  int steps = 0;
  Tied() {
    torch::NoGradGuard const no_graph;
    a->weight.fill_(0.5);
  }
  Tensor training_step(Tensor const& x) { return ++steps, b->forward(a->forward(x)).sum(); }
};
using Groups = std::vector<optim::OptimizerParamGroup>;

template <class Make>
double fitted(Make) {
  struct Model : Tied {
    auto configure_optimizers() { return Make{}(*this); }
  } model;
  auto trainer = fulgurite::make_trainer<Model>(fulgurite::TrainerOptions{.max_epochs = 1},
                                                fulgurite::SingleDevice{fulgurite::cpu}, fulgurite::Float32{},
                                                fulgurite::Automatic{}, fulgurite::NoDefaults{});
  try {
    trainer.fit(model, std::vector(2, torch::ones({1, 1})));
  } catch (...) {
    CHECK(model.steps == 0);
    throw;
  }
  return model.a->weight.template item<double>();
}

}  // namespace

TEST_CASE("a fit refuses an optimizer that lists a tensor twice before it trains, and names it", "[optimizer]") {
  using Catch::Matchers::StartsWith;
  auto const refused = [](auto make, char const* sentence) { CHECK_THROWS_WITH(fitted(make), StartsWith(sentence)); };
  char const* const both =
      "[fulgurite.optimizer.twice] SGD lists a parameter 'a.weight', which is also 'b.weight', twice, so that "
      "each step would move it twice: give it filter_params(*this)";
  refused([](auto& model) { return optim::SGD(model.parameters(), 0.1); }, both);
  refused(
      [](auto& model) {
        return optim::SGD(
            Groups{optim::OptimizerParamGroup({model.a->weight}), optim::OptimizerParamGroup({model.b->weight})},
            optim::SGDOptions(0.1));
      },
      both);
  refused([](auto& model) { return optim::LBFGS(model.parameters(), 0.1); }, "[fulgurite.optimizer.twice] LBFGS lists");
  refused(
      [](auto& model) {
        using Group = fulgurite::optim::Group<fulgurite::optim::SGDOptions>;
        return fulgurite::optim::SGD(std::vector<Group>{{{model.a->weight}, {}}, {{model.b->weight}, {}}});
      },
      "[fulgurite.optimizer.twice] SGD lists a parameter 'a.weight', which is also 'b.weight', in two groups, which "
      "may have different options: give it to one of them");
  // Twice 0.1 times the gradient 2 w: 0.5 becomes 0.4, and 0.32.
  auto const moved = [](auto make) { return fitted(make); };
  CHECK(moved([](auto& model) { return optim::SGD(fulgurite::filter_params(model), 0.1); }) == Catch::Approx(0.32));
  CHECK(moved([](auto& model) { return fulgurite::optim::SGD(model, 0.1); }) == Catch::Approx(0.32));
  CHECK(moved([](auto& model) { return fulgurite::optim::SGD(model.parameters(), 0.1); }) == Catch::Approx(0.32));
}

namespace {

/// What the loops ask of an optimizer, and no more: it has no name.
struct Nameless {
  static constexpr bool needs_closure = false, stable_gradients = false;
  std::vector<Tensor> list = {};
  void zero_grad() {
    for (auto& parameter : list) parameter.mutable_grad().reset();
  }
  void step() {
    torch::NoGradGuard const no_graph;
    for (auto& parameter : list) parameter.sub_(0.1 * parameter.grad());
  }
  auto const& parameters() const { return list; }
  std::size_t groups() const { return 1; }
  double lr(std::size_t) const { return 0.1; }
  void set_lr(std::size_t, double) {}
};
static_assert(fulgurite::OptimizerLike<Nameless>);

}  // namespace

TEST_CASE("a fit refuses an optimizer without a parameter before it trains", "[optimizer]") {
  auto const refused = [](auto make, std::string const& name) {
    CHECK_THROWS_WITH(fitted(make),
                      Catch::Matchers::StartsWith("[fulgurite.optimizer.no_parameter] " + name + " has "));
  };
  refused([](auto&) { return optim::SGD(std::vector<Tensor>(), 0.1); }, "SGD");
  refused([](auto&) { return fulgurite::optim::Adam(torch::nn::Module()); }, "Adam");
  refused([](auto&) { return Nameless(); }, "Nameless");
}

namespace {
/// A layer that is registered or not, beside one that is; and a leaf of the step's own, as for a gradient penalty.
struct Halves : torch::nn::Module {
  torch::nn::Linear body = register_module("body", torch::nn::Linear(2, 3));
  torch::nn::Linear head{3, 1};
  bool by_hand = false;
  auto training_step(torch::Tensor const& x, auto&) {
    return head(torch::relu(body(x.clone().requires_grad_(true)))).square().mean();
  }
  auto configure_optimizers() {
    auto trained = parameters();
    if (by_hand)
      for (auto const& parameter : head->parameters()) trained.push_back(parameter);
    return optim::SGD(trained, 0.1);
  }
};
struct HalvesByHand : Halves {
  void training_step(torch::Tensor const& x, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.backward(body(x).square().mean());
    ctx.backward(Halves::training_step(x, ctx));
    ctx.step(optimizer);
  }
};

template <class Model = Halves>
std::string warned_of_leaves(auto prepare, auto... parts) {
  Model model;
  prepare(model);
  auto trainer =
      fulgurite::make_trainer<Model>(fulgurite::TrainerOptions{.max_epochs = 1}, fulgurite::NoDefaults{}, parts...);
  trainer.fit(model, std::vector(4, torch::ones({5, 2})));
  for (auto const& said : trainer.warnings())
    if (said.starts_with("[fulgurite.model.unregistered]")) return said;
  return {};
}
}  // namespace

TEST_CASE("a fit warns of a layer that is not registered: it gets gradients, and nothing trains it", "[optimizer]") {
  using fulgurite::SingleDevice, fulgurite::cpu;
  auto const nothing = [](auto&) {};
  auto const sizes = Catch::Matchers::StartsWith(
      "[fulgurite.model.unregistered] the loss gives gradients to tensors of the sizes [1, 3], [1], which");
  CHECK_THAT(warned_of_leaves(nothing, SingleDevice{cpu}), sizes);
  CHECK_THAT(warned_of_leaves(nothing, SingleDevice{cpu}, fulgurite::Automatic{.accumulate_grad_batches = 4}), sizes);
  CHECK_THAT(warned_of_leaves<HalvesByHand>(nothing, SingleDevice{cpu}, fulgurite::Manual{}), sizes);
  auto const silent = [&](auto prepare) { CHECK(warned_of_leaves(prepare, SingleDevice{cpu}).empty()); };
  silent([](auto& model) { model.register_module("head", model.head); });
  silent([](auto& model) { model.by_hand = true; });
  silent([](auto& model) {
    for (auto& parameter : model.head->parameters()) parameter.requires_grad_(false);
  });
}

TEST_CASE("an optimizer may have no parameter where the model has frozen all: a callback may thaw some later",
          "[optimizer]") {
  Tied model;
  for (auto& parameter : model.parameters()) parameter.set_requires_grad(false);
  auto sgd = LibTorch::adopt(optim::SGD(fulgurite::filter_params(model), 0.1));
  CHECK(sgd.parameters().empty());
  CHECK_NOTHROW(fulgurite::libtorch::require_listed_once(model, sgd));
}

TEST_CASE("an optimizer of the user's own needs no name", "[optimizer]") {
  CHECK(fitted([](auto& model) { return Nameless{fulgurite::filter_params(model)}; }) == Catch::Approx(0.32));
  CHECK_THROWS_WITH(fitted([](auto& model) { return Nameless{model.parameters()}; }),
                    Catch::Matchers::StartsWith("[fulgurite.optimizer.twice] Nameless lists a parameter 'a.weight', "
                                                "which is also 'b.weight', twice"));
}

TEST_CASE("a group that is added during a fit has no tensor of the optimizer, and none twice", "[optimizer]") {
  Tied model;
  auto other = torch::ones({1}).requires_grad_();
  auto ours = LibTorch::adopt(optim::SGD(std::vector{other}, 0.1));
  fulgurite::UnfreezeOptions const how{.lr = 0.2};
  CHECK(fulgurite::unfreeze_and_add_param_group(model, ours, how) == 1);
  CHECK(ours.parameters().size() == 2);
  using Catch::Matchers::StartsWith;
  CHECK_THROWS_WITH(ours.add_group({other}, 0.1),
                    StartsWith("[fulgurite.optimizer.twice] SGD lists a parameter twice"));
  auto const more = torch::ones({1}).requires_grad_();
  CHECK_THROWS_WITH(ours.add_group({more, more}, 0.1), StartsWith("[fulgurite.optimizer.twice]"));
  CHECK(ours.groups() == 2);
}

TEST_CASE("a refusal of an option has its value as it is, and the rule for it", "[optimizer]") {
  using Catch::Matchers::Equals;
  std::vector const p{torch::ones({1}).requires_grad_()};
  CHECK_THROWS_WITH(fulgurite::optim::Adam(p, {.lr = -1e-8}),
                    Equals("[fulgurite.optim.option] Adam's lr = -1e-08 is not allowed: rates, eps, decays and momenta "
                           "must not be negative, betas must be in [0, 1)"));
  CHECK_THROWS_WITH(fulgurite::optim::SGD(p, {.lr = 0.1, .nesterov = true}),
                    Equals("[fulgurite.optim.option] SGD's nesterov = true is not allowed: it needs a momentum above "
                           "0, and a dampening of 0"));
  CHECK_THROWS_WITH(fulgurite::optim::LBFGS(p, {.max_iter = 0}),
                    Equals("[fulgurite.optim.option] LBFGS's max_iter = 0 is not allowed: it must be at least 1"));
  CHECK_THROWS_WITH(fulgurite::optim::LBFGS(p, {.history_size = 0}),
                    Equals("[fulgurite.optim.option] LBFGS's history_size = 0 is not allowed: it must be at least 1"));
  CHECK_THROWS_WITH(fulgurite::optim::LBFGS(p, {.line_search_fn = "wolfe"}),
                    Equals("[fulgurite.optim.option] LBFGS's line_search_fn = \"wolfe\" is not allowed: it is "
                           "\"strong_wolfe\" or nullopt"));
}
