// Functions on few numbers that a replay calls instead of LibTorch's operators: with the operators' bits, or not at
// all.
#include "captured_fits.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Version.h>

#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/torch/capture/tape.hpp>

using namespace captured_fits;
using fixtures::same_bits;
namespace capture = fulgurite::libtorch::capture;
namespace native = fulgurite::libtorch::native;

namespace {

/// The one call of an operator that `step` makes.
template <class Step>
capture::Call call_of(Step step) {
  REQUIRE(capture::available());
  at::AutoDispatchBelowAutograd const below;
  capture::Recorder recorder;
  {
    capture::Recording const on(recorder);
    step();
  }
  REQUIRE(recorder.calls.size() == 1);
  return recorder.calls[0];
}

/// Whether a function takes the operator's place, and has its bits on values that no trial has seen.
template <class Step>
bool replaced(Step step) {
  auto const call = call_of(step);
  INFO(call.name());
  auto const form = capture::out_form(call);
  REQUIRE(form);
  auto const small = capture::small_call(call, &*form, nullptr);
  if (!small) return false;
  std::vector<float> const odd{-0.0F, 0.0F, std::numeric_limits<float>::infinity(), 1e-42F, -1e30F};
  for (int round = 0; round != 20; ++round) {
    capture::each_tensor_of(call.in, [&](at::Tensor const& tensor) {
      if (tensor.scalar_type() != at::kFloat) return;
      tensor.normal_();
      if (round % 2 == 1)
        tensor.as_strided({tensor.numel()}, {1})[round % tensor.numel()] =
            odd[static_cast<std::size_t>(round) % odd.size()];
    });
    capture::Stack theirs = call.in;
    call.op.callBoxed(theirs);
    small->run();
    for (std::size_t i = 0; i != call.out.size(); ++i) {
      INFO("round " << round);
      CHECK(same_bits(call.out[i].toTensor(), theirs[i].toTensor()));
    }
  }
  return true;
}

/// The same for an operator that writes to its first argument; the generator ends in the same state.
template <class Step>
bool replaced_in_place(Step step) {
  auto const call = call_of(step);
  INFO(call.name());
  auto const small = capture::small_call(call, nullptr, nullptr);
  if (!small) return false;
  auto const& x = call.in[0].toTensor();
  auto generator = at::detail::getDefaultCPUGenerator();
  for (int round = 0; round != 20; ++round) {
    INFO("round " << round);
    x.normal_();
    if (round % 2 == 1) generator.get<at::CPUGeneratorImpl>()->random();  // an odd number of draws before
    auto const values = x.clone(), state = generator.get_state();
    capture::Stack theirs = call.in;
    call.op.callBoxed(theirs);
    auto const wanted = x.clone(), end = generator.get_state();
    x.copy_(values);
    generator.set_state(state);
    small->run();
    CHECK(same_bits(x, wanted));
    CHECK(same_bits(generator.get_state(), end));
  }
  return true;
}

at::Tensor classes(std::int64_t samples, std::int64_t count) {
  auto const all = torch::randint(0, count, {samples});
  if (samples > 4) all[2] = -100;  // the one that is ignored
  return all;
}

/// How many rows and columns are summed, and that a wrong order of summing is found out.
bool wrong_order_passes() {
  auto const call = call_of([x = torch::randn({64, 128})] { return at::sum(x, at::IntArrayRef{0}, true); });
  auto const form = capture::out_form(call);
  auto wrong = *capture::small_call(call, &*form, nullptr);
  wrong.number = wrong.number == 0 ? 128 : 0;
  wrong.run();
  return same_bits(call.out[0].toTensor(), at::sum(call.in[0].toTensor(), at::IntArrayRef{0}, true));
}

struct Dropped : Common {
  torch::nn::Linear one = register_module("one", torch::nn::Linear(6, 32)),
                    two = register_module("two", torch::nn::Linear(32, 3));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
  torch::Tensor training_step(auto const& batch) {
    ++ran;
    return torch::cross_entropy_loss(two(drop(torch::relu(one(batch.data)))), batch.target);
  }
};

struct Wide : Common {
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(6, 32), torch::nn::ReLU(), torch::nn::Linear(32, 3)));
  torch::Tensor training_step(auto const& batch) {
    ++ran;
    return plain_loss(body, batch);
  }
};

}  // namespace

TEST_CASE("elements: relu, its backward, sums, products and squared differences have LibTorch's bits") {
  torch::manual_seed(1);
  for (auto const& sizes : std::vector<std::vector<std::int64_t>>{{8, 32}, {3, 5}, {1}, {7, 3, 2}}) {
    auto const x = torch::randn(sizes), y = torch::randn(sizes), one = torch::ones({});
    CHECK(replaced([&] { return at::relu(x); }));
    CHECK(replaced([&] { return at::threshold_backward(x, y, 0); }));
    CHECK(replaced([&] { return at::clamp_min(x, 0.0); }));
    replaced([&] { return at::clamp_min(x, -0.0); });  // another number, and so a trial of its own
    CHECK(replaced([&] { return at::add(x, y); }));
    CHECK(replaced([&] { return at::mul(x, y); }));
    CHECK(replaced([&] { return at::tanh(x); }));
    CHECK(replaced([&] { return at::sigmoid(x); }));
    CHECK(replaced([&] { return at::tanh_backward(x, y); }));
    CHECK(replaced([&] { return at::sigmoid_backward(x, y); }));
    CHECK(replaced([&] { return at::mse_loss_backward(one, x, y, at::Reduction::Mean); }));
    CHECK(replaced([&] { return at::mse_loss(x, y); }));
    CHECK_FALSE(replaced([&] { return at::threshold_backward(x, y, 0.5); }));
    CHECK_FALSE(replaced([&] { return at::add(x, y, 2); }));
  }
  auto const many = torch::randn({256, 128}), row = torch::ones({128});
  CHECK_FALSE(replaced([&] { return at::relu(many); }));
  CHECK_FALSE(replaced([&] { return at::add(many, row); }));
  auto const doubles = torch::randn({8, 32}, torch::kDouble);
  CHECK_FALSE(replaced([&] { return at::mul(doubles, doubles); }));
}

TEST_CASE("products of matrices, also of transposed ones, are LibTorch's own without its dispatcher") {
  torch::manual_seed(7);
  auto const x = torch::randn({8, 32}), y = torch::randn({32, 2}), turned = torch::randn({2, 32}).t(),
             doubles = torch::randn({4, 4}, torch::kDouble);
  CHECK(replaced([&] { return at::mm(x, y); }));
  CHECK(replaced([&] { return at::mm(x, turned); }));
  auto const y_turned = y.t(), x_turned = x.t(), column = torch::randn({1, 32}).t(), one = torch::randn({8, 1}),
             row = torch::randn({1, 2});
  CHECK(replaced([&] { return at::mm(y_turned, x_turned); }));
  CHECK(replaced([&] { return at::mm(x, column); }));
  CHECK(replaced([&] { return at::mm(one, row); }));
  CHECK_FALSE(replaced([&] { return at::mm(doubles, doubles); }));

  // BLAS itself takes what it has LibTorch's bits for; matrices with gaps between their numbers are LibTorch's.
  auto const by_blas = [](at::Tensor const& a, at::Tensor const& b) {
    auto const call = call_of([&] { return at::mm(a, b); });
    auto const form = capture::out_form(call);
    auto const small = capture::small_call(call, &*form, nullptr);
    return small && small->product.rows != 0;
  };
  bool const blas = by_blas(x, y);
  CHECK(by_blas(x, turned) == blas);
  CHECK_FALSE(by_blas(x, torch::randn({32, 4}).slice(1, 0, 4, 2)));
  CHECK_FALSE(by_blas(x, torch::randn({1}).expand({32, 2})));
  CHECK_FALSE(by_blas(torch::randn({1}).expand({8, 1}), row));
}

TEST_CASE("numbers of a dropout are LibTorch's, and so is its generator afterwards; division by a number, too") {
  torch::manual_seed(4);
  for (auto const& sizes : std::vector<std::vector<std::int64_t>>{{32, 64}, {1}, {3, 5}, {311}, {1000}}) {
    auto const x = torch::randn(sizes);
    for (double const rate : {0.5, 0.1, 0.9, 0.0, 1.0}) {
      INFO(rate);
      CHECK(replaced_in_place([&] { at::Tensor(x).bernoulli_(rate); }));
    }
    CHECK(replaced_in_place([&] { at::Tensor(x).div_(0.7); }));
  }
  auto own = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{5});
  auto const x = torch::zeros({100}), doubles = torch::zeros({100}, torch::kDouble);
  CHECK(capture::small_call(call_of([&] { at::Tensor(x).bernoulli_(0.5, own); }), nullptr, nullptr)->generator == own);
  CHECK_FALSE(replaced_in_place([&] { at::Tensor(doubles).bernoulli_(0.5); }));
  CHECK_FALSE(replaced_in_place([&] { at::Tensor(x).uniform_(0, 1); }));
}

#if defined(__x86_64__)  // elsewhere LibTorch's registers are of another width, and its order may be none of ours
TEST_CASE("the gradient of a bias is summed in LibTorch's order, whatever the shape") {
  torch::manual_seed(2);
  for (std::int64_t const rows : {1, 3, 8, 16, 33, 64, 257})
    for (std::int64_t const columns : {1, 2, 3, 7, 10, 16, 32, 65, 100}) {
      INFO(rows << "x" << columns);
      CHECK(replaced([x = torch::randn({rows, columns})] { return at::sum(x, at::IntArrayRef{0}, true); }));
    }
  CHECK_FALSE(wrong_order_passes());
  for (std::int64_t const columns : {1, 2, 7, 16, 100}) {  // so a tape adds no zero to such a gradient
    auto const call = call_of([x = torch::full({8, columns}, -0.0F)] { return at::sum(x, at::IntArrayRef{0}, true); });
    auto const form = capture::out_form(call);
    auto const small = capture::small_call(call, &*form, nullptr);
    CHECK(small->plus_zero);
    small->run();
    CHECK(same_bits(call.out[0].toTensor(), torch::zeros({1, columns})));
  }
  CHECK_FALSE(replaced([x = torch::randn({8, 4})] { return at::sum(x, at::IntArrayRef{1}, true); }));
}
#endif

TEST_CASE("cross entropy, there and back, has LibTorch's bits, with samples that are ignored") {
  torch::manual_seed(3);
  for (auto const& [samples, count] : std::vector<std::pair<std::int64_t, std::int64_t>>{{8, 2}, {64, 10}, {300, 5}}) {
    INFO(samples << "x" << count);
    auto const x = torch::randn({samples, count}), y = torch::randn({samples, count}), target = classes(samples, count);
    auto const one = torch::ones({}), weight = torch::ones({count}), total = torch::ones({});
    CHECK(replaced([&] { return at::_log_softmax(x, 1, false); }));
    CHECK(replaced([&] { return at::_log_softmax_backward_data(x, y, 1, at::kFloat); }));
    CHECK(replaced([&] { return at::nll_loss_forward(x, target, {}, at::Reduction::Mean, -100); }));
    CHECK(replaced([&] { return at::nll_loss_backward(one, x, target, {}, at::Reduction::Mean, -100, total); }));
    CHECK_FALSE(replaced([&] { return at::nll_loss_forward(x, target, {}, at::Reduction::Sum, -100); }));
    CHECK_FALSE(replaced([&] { return at::nll_loss_forward(x, target, weight, at::Reduction::Mean, -100); }));
    CHECK_FALSE(replaced([&] { return at::_log_softmax(x, 0, false); }));
  }
}

TEST_CASE(
    "a log softmax of rows shorter and longer than a register is by LibTorch's exponentials, not by its operator") {
  torch::manual_seed(8);
  bool const vectors = at::get_cpu_capability() == "AVX2" || at::get_cpu_capability() == "AVX512";
  auto const by_itself = [](auto step) {
    auto const call = call_of(step);
    auto const form = capture::out_form(call);
    auto const small = capture::small_call(call, &*form, nullptr);
    return small && !small->ready;
  };
  for (auto const& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {8, 2}, {64, 10}, {3, 16}, {5, 17}, {2, 100}}) {
    INFO(rows << "x" << columns);
    auto const x = torch::randn({rows, columns}), y = torch::randn({rows, columns});
    CHECK(replaced([&] { return at::_log_softmax(x, 1, false); }));
    CHECK(replaced([&] { return at::_log_softmax_backward_data(x, y, 1, at::kFloat); }));
    CHECK(by_itself([&] { return at::_log_softmax(x, 1, false); }) == vectors);
    CHECK(by_itself([&] { return at::_log_softmax_backward_data(x, y, 1, at::kFloat); }) == vectors);
  }
}

TEST_CASE("a class that does not exist is LibTorch's error in a replay, too") {
  auto const target = classes(8, 2);
  auto const call = call_of(
      [x = torch::randn({8, 2}), &target] { return at::nll_loss_forward(x, target, {}, at::Reduction::Mean, -100); });
  auto const form = capture::out_form(call);
  auto const small = capture::small_call(call, &*form, nullptr);
  REQUIRE(small);
  target[3] = 2;
  CHECK_THROWS_WITH(small->run(), Catch::Matchers::ContainsSubstring("Target 2 is out of bounds"));
  target[3] = -1;
  CHECK_THROWS_WITH(small->run(), Catch::Matchers::ContainsSubstring("Target -1 is out of bounds"));
}

#if defined(__x86_64__)
TEST_CASE("the mean of squared differences is summed in LibTorch's order, whatever the size") {
  torch::manual_seed(6);
  for (std::int64_t const n : {1, 2, 15, 16, 17, 63, 64, 100, 1000, 4099}) {
    INFO(n);
    CHECK(replaced([x = torch::randn({n}), y = torch::randn({n})] { return at::mse_loss(x, y); }));
  }
  CHECK_FALSE(
      replaced([x = torch::randn({8}), y = torch::randn({8})] { return at::mse_loss(x, y, at::Reduction::None); }));
}
#endif

TEST_CASE("of a step with dropout, no operator is left either") {
  auto const [report, ran] = twice<Dropped>(batches(7, 8));
  REQUIRE(report.tapes.size() == 1);
  auto const& tape = report.tapes[0];
  INFO(tape.replayed << " replayed, " << tape.small << " small, " << tape.products << " products");
  CHECK(tape.small + tape.products == tape.replayed);
}

TEST_CASE("of a small net's step, no operator is left to call") {
  auto const [report, ran] = twice<Wide>(batches(7, 8));
  REQUIRE(report.tapes.size() == 1);
  auto const& tape = report.tapes[0];
  CHECK(tape.small + tape.products == tape.replayed);
  CHECK(report.replayed > 30);
}
