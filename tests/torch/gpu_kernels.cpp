// Kernels that are compiled for a GPU while the program runs: update rules in one pass, layer norm and sums over rows.
// What a rule does is written down and compared on the CPU; the kernels themselves need a GPU.

#include "gpu.hpp"
#include "interpreted.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

using namespace fulgurite;
using namespace gpu;

namespace {

using libtorch::TracedValue;
using libtorch::UpdateTrace;

template <class Rule>
constexpr std::size_t inputs_of = 2 + Rule::states.size();

template <class Rule>
UpdateTrace traced(Rule const& rule) {
  UpdateTrace trace(inputs_of<Rule>);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    rule(TracedValue(trace, I)...);
  }(std::make_index_sequence<inputs_of<Rule>>{});
  return trace;
}

template <class Rule>
void as_operators(Rule const& rule, std::span<at::Tensor const> inputs) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    rule(at::Tensor(inputs[I])...);
  }(std::make_index_sequence<inputs_of<Rule>>{});
}

std::vector<at::Tensor> numbers(std::size_t count, at::Device device = at::kCPU) {
  torch::manual_seed(4);
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i != count; ++i) {
    auto const drawn = torch::randn({512});
    all.push_back((i < 2 ? drawn : drawn.abs()).to(device));
  }
  return all;
}

bool same_bits(std::span<at::Tensor const> a, std::span<at::Tensor const> b) {
  for (std::size_t i = 0; i != a.size(); ++i)
    if (!torch::equal(a[i].view(at::kByte), b[i].view(at::kByte))) return false;
  return true;
}

/// Calls f with each rule, with options that reach its branches, for a step that is not the first.
void each_rule(auto&& f) {
  using namespace optim;
  f(rule::Adam<AdamOptions, false>({}, 3));
  f(rule::Adam<AdamOptions, false>({.weight_decay = 0.1, .amsgrad = true}, 3));
  f(rule::Adam<AdamWOptions, true>({.weight_decay = 0.1}, 3));
  f(rule::SGD({.lr = 0.1}, 3));
  f(rule::SGD({.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1}, 3));
  f(rule::SGD({.lr = 0.1, .momentum = 0.9, .nesterov = true}, 0));
  f(rule::RMSprop({.weight_decay = 0.1, .momentum = 0.9, .centered = true}, 3));
  f(rule::RMSprop({}, 3));
  f(rule::Adagrad({.lr_decay = 0.1, .weight_decay = 0.1}, 3));
}

}  // namespace

TEST_CASE("what an update rule does is written down whole") {
  int rules = 0;
  each_rule([&](auto const& rule) {
    auto const trace = traced(rule);
    CHECK(trace.whole());
    auto const count = inputs_of<std::remove_cvref_t<decltype(rule)>>;
    auto const expected = numbers(count), got = numbers(count);
    as_operators(rule, expected);
    interpreted::interpret(trace, trace.numbers(), got);
    INFO("rule " << rules << ", " << trace.operations().size() << " operations");
    CHECK(same_bits(expected, got));
    ++rules;
  });
  CHECK(rules == 9);
}

TEST_CASE("a kernel multiplies by the inverse that LibTorch computes on a GPU, in each step of Adam") {
  for (double const beta : {0.9, 0.99, 0.999})
    for (long before = 0; before != 2000; ++before) {
      auto const trace = traced(optim::rule::Adam<optim::AdamOptions, false>({.betas = {0.9, beta}}, before));
      auto const place =
          std::ranges::find(trace.operations(), UpdateTrace::What::divide, &UpdateTrace::Operation::what);
      auto const at = static_cast<std::size_t>(place - trace.operations().begin());
      REQUIRE(at < trace.operations().size());
      double const divisor = trace.numbers()[at];
      std::array<double, UpdateTrace::most> floats{}, doubles{}, of_cpu{};
      libtorch::write_numbers(trace, at::kFloat, at::kCUDA, floats.data());
      libtorch::write_numbers(trace, at::kDouble, at::kCUDA, doubles.data());
      libtorch::write_numbers(trace, at::kFloat, at::kCPU, of_cpu.data());
      INFO("beta " << beta << ", after " << before << " steps");
      REQUIRE(static_cast<float>(floats[at]) == 1.0F / static_cast<float>(divisor));
      REQUIRE(doubles[at] == 1.0 / divisor);
      REQUIRE(of_cpu[at] == divisor);
    }
}

TEST_CASE("on a GPU each update rule is one kernel with the bits of LibTorch's operators") {
  if (absent()) SKIP(none);
  for (auto const type : {at::kFloat, at::kDouble})
    each_rule([&](auto const& rule) {
      auto const trace = traced(rule);
      auto const count = inputs_of<std::remove_cvref_t<decltype(rule)>>;
      std::vector<at::Tensor> expected, got;
      std::vector<void*> memory;
      for (auto const& tensor : numbers(count, at::kCUDA)) {
        expected.push_back(tensor.to(type).clone());
        got.push_back(tensor.to(type).clone());
        memory.push_back(got.back().mutable_data_ptr());
      }
      as_operators(rule, expected);
      CHECK(libtorch::updated_by_kernel(trace, memory, 512, type, got[0].device(),
                                        [&](std::span<at::Tensor const> tensors) { as_operators(rule, tensors); }));
      INFO("type " << type << ", " << trace.operations().size() << " operations");
      CHECK(same_bits(expected, got));
    });
}

TEST_CASE("on a GPU each update rule has a kernel for graphs, which reads its numbers from a table") {
  if (absent()) SKIP(none);
  for (auto const type : {at::kFloat, at::kDouble})
    each_rule([&](auto const& rule) {
      libtorch::TracedUpdate update{traced(rule), type, at::Device(at::kCUDA, 0), 512};
      std::vector<at::Tensor> expected, got;
      for (auto const& tensor : numbers(inputs_of<std::remove_cvref_t<decltype(rule)>>, at::kCUDA)) {
        expected.push_back(tensor.to(type).clone());
        got.push_back(tensor.to(type).clone());
        update.memory[got.size() - 1] = got.back().mutable_data_ptr();
      }
      REQUIRE(libtorch::has_kernel_in_graph(update,
                                            [&](std::span<at::Tensor const> tensors) { as_operators(rule, tensors); }));
      auto const most = static_cast<std::int64_t>(UpdateTrace::most);
      auto const head = static_cast<std::int64_t>(libtorch::UpdateTable::head);
      auto const table = torch::zeros({head + 2 * most}, at::kDouble);
      auto* const row = static_cast<double*>(table.mutable_data_ptr());
      libtorch::write_numbers(update.trace, type, at::kCUDA, row + head + most);
      auto const off = table.cuda();
      libtorch::launch_update_in_graph(update, off, 1, 2);
      CHECK(same_bits(expected, got));
      row[0] = 1;
      auto const on = table.cuda();
      as_operators(rule, expected);
      libtorch::launch_update_in_graph(update, on, 1, 2);
      CHECK(same_bits(expected, got));
      CHECK(on.cpu().select(0, 1).item<double>() == 1);
      on.select(0, static_cast<std::int64_t>(libtorch::UpdateTable::left_out)).fill_(1);
      libtorch::launch_update_in_graph(update, on, 0, 1);
      CHECK(same_bits(expected, got));
    });
}

TEST_CASE("on a GPU a kernel with other bits than the operators is not used, and changes nothing") {
  if (absent()) SKIP(none);
  UpdateTrace trace(3);  // a rule that no optimizer has, since the result of the comparison is kept
  TracedValue(trace, 0).mul_(0.5).add_(TracedValue(trace, 1).sqrt(), 0.25);
  auto const got = numbers(3, at::kCUDA), before = numbers(3, at::kCUDA);
  std::vector<void*> memory;
  for (auto const& tensor : got) memory.push_back(tensor.mutable_data_ptr());
  memory[2] = nullptr;
  CHECK_FALSE(libtorch::updated_by_kernel(trace, memory, 512, at::kFloat, got[0].device(),
                                          [&](std::span<at::Tensor const> tensors) { tensors[0].add_(1); }));
  CHECK(same_bits(before, got));
}

TEST_CASE("on a GPU Matmul::fastest has its own layer norm and sums, as near to the exact result as LibTorch's") {
  if (absent()) SKIP(none);
  std::vector<std::int64_t> const rows_only{0}, both{0, 1};
  auto const wide = [](at::Tensor const& x) { return x.to(at::kDouble); };
  auto const error = [&](at::Tensor const& x, at::Tensor const& exact) {
    return (wide(x) - exact).abs().max().item<double>();
  };
  for (auto const& size :
       {std::pair<std::int64_t, std::int64_t>{64, 128}, {100, 10}, {640, 36}, {700, 129}, {5000, 384}, {4099, 1024}}) {
    auto const rows = size.first, columns = size.second;
    torch::manual_seed(2);
    auto const on_gpu = at::TensorOptions(at::kCUDA);
    auto const x = torch::randn({rows, columns}, on_gpu), gradient = torch::randn({rows, columns}, on_gpu);
    auto const weight = torch::randn({columns}, on_gpu), bias = torch::randn({columns}, on_gpu);
    auto const all = [&](auto const& f) {
      auto [y, mean, rstd] = at::native_layer_norm(f(x), {columns}, f(weight), f(bias), 1e-5);
      auto [of_x, of_weight, of_bias] = at::native_layer_norm_backward(f(gradient), f(x), {columns}, mean, rstd,
                                                                       f(weight), f(bias), {true, true, true});
      auto const half = f(x).scalar_type() == at::kFloat ? x.to(at::kBFloat16) : wide(x.to(at::kBFloat16));
      return std::vector<at::Tensor>{y,
                                     mean,
                                     rstd,
                                     of_x,
                                     of_weight,
                                     of_bias,
                                     f(x).sum(rows_only),
                                     f(x).view({rows, 1, columns}).sum(both, true),
                                     half.sum(rows_only)};
    };
    auto const plain = [](at::Tensor const& t) { return t; };
    auto const exact = all(wide), theirs = all(plain);
    std::vector<at::Tensor> ours, again;
    {
      MatmulScope const scope(Matmul::fastest, at::kCUDA);
      ours = all(plain);
      again = all(plain);
    }
    INFO(rows << " x " << columns);
    CHECK_FALSE(same_bits(ours, theirs));
    for (std::size_t i = 0; i != ours.size(); ++i) {
      INFO("result " << i);
      CHECK(ours[i].sizes() == theirs[i].sizes());
      CHECK(ours[i].strides() == theirs[i].strides());
      CHECK(ours[i].scalar_type() == theirs[i].scalar_type());
      CHECK(error(ours[i], exact[i]) <= 4 * error(theirs[i], exact[i]) + 1e-6);
    }
    CHECK(same_bits(ours, again));
  }
}

TEST_CASE("on a GPU a step of our optimizers calls none of LibTorch's arithmetic operators") {
  if (absent()) SKIP(none);
  torch::nn::Linear net(64, 32);
  net->to(torch::kCUDA);
  optim::Adam adam(*net, {.lr = 0.1});
  net->forward(torch::ones({4, 64}, at::kCUDA)).sum().backward();
  adam.step();
  fixtures::Operators const operators;
  adam.step();
  for (auto const* name : {"aten::mul_", "aten::add_", "aten::addcmul_", "aten::sqrt", "aten::addcdiv_"})
    CHECK_FALSE(operators.saw(name));
}

TEST_CASE("on a GPU what our layer norm and sums do not take stays LibTorch's, also its errors") {
  if (absent()) SKIP(none);
  MatmulScope const scope(Matmul::fastest, at::kCUDA);
  auto const on_gpu = at::TensorOptions(at::kCUDA);
  auto const x = torch::randn({600, 256}, on_gpu), half = torch::ones({128}, on_gpu);
  CHECK_THROWS(at::native_layer_norm(x, {128}, half, half, 1e-5));
  CHECK_THROWS(at::native_layer_norm(x, {256}, half, half, 1e-5));
  CHECK(std::get<0>(at::native_layer_norm(x, {256}, {}, {}, 1e-5)).sizes() == x.sizes());
  CHECK(at::layer_norm(torch::randn({4, 2, 128}, on_gpu), {2, 128}).sizes() == at::IntArrayRef{4, 2, 128});
  std::vector<std::int64_t> const last{-1}, first{-2}, both{1, 0};
  CHECK(torch::allclose(x.sum(last), x.cpu().sum(last).cuda(), 1e-4, 1e-3));
  CHECK(torch::allclose(x.sum(first), x.cpu().sum(first).cuda(), 1e-4, 1e-3));
  CHECK(torch::allclose(x.sum(both), x.cpu().sum().cuda(), 1e-4, 1e-2));
  CHECK(torch::allclose(half.expand({600, 128}).sum(first), half * 600));
}
