// The scope for matrix products: what takes the faster way in it, and that nobody outside of it notices.
#include "products.hpp"

#include <thread>
#include <utility>
#include <vector>

#include <ATen/ThreadLocalState.h>
#include <c10/util/Exception.h>

#include <fulgurite/torch/native/matmul_scope.hpp>

using namespace fulgurite;
using namespace fulgurite::libtorch::native;
using fixtures::same_bits;
using fixtures::Threads, products::tried;

namespace {

/// Forward and backward through every operator that the scope knows, and some that it must leave alone.
std::vector<at::Tensor> everything(std::int64_t width) {
  torch::manual_seed(4);
  auto const leaf = torch::TensorOptions().requires_grad(true);
  auto const x = torch::randn({8, width}, leaf), w = torch::randn({width, 32}, leaf), bias = torch::randn({32}, leaf),
             z = torch::randn({2, 16, width}, leaf), column = torch::randn({8, 1}, leaf);
  auto const whole = torch::randn({8, 32}, leaf), batched = torch::randn({2, 16, 16}, leaf);
  std::vector<at::Tensor> all{
      torch::mm(x, w),
      torch::addmm(bias, x, w),
      torch::addmm(whole, x, w),
      torch::addmm(column, x, w),
      torch::addmm(bias, x, w, 2, 0.5),
      torch::linear(x, w.t(), bias),
      torch::linear(z, w.t(), bias),
      torch::bmm(z, z.transpose(1, 2)),
      torch::baddbmm(batched, z, z.transpose(1, 2)),
      torch::mm(x.to(torch::kDouble), w.to(torch::kDouble)).to(torch::kFloat),
      torch::mm(x.index({torch::indexing::Slice(), torch::indexing::Slice(0, torch::indexing::None, 2)}),
                w.index({torch::indexing::Slice(0, torch::indexing::None, 2)})),
      torch::mm(torch::zeros({0, 4}), torch::zeros({4, 3})).sum() +
          torch::mm(torch::ones({3, 0}), torch::ones({0, 2})).sum(),
  };
  auto loss = torch::zeros({});
  for (auto const& one : all) loss = loss + one.sin().sum();
  loss.backward();
  for (auto const& one : {x, w, bias, z, column, whole, batched}) all.push_back(one.grad());
  return all;
}
void same(std::vector<at::Tensor> const& a, std::vector<at::Tensor> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i != a.size(); ++i) {
    INFO("result " << i);
    CHECK(same_bits(a[i], b[i]));
  }
}
struct Count : c10::WarningHandler {
  int warnings = 0;
  void process(c10::Warning const&) override { ++warnings; }
};

/// How many products are tried in it that nobody has asked for before.
template <class F>
std::size_t new_ones(F const& f) {
  auto const before = tried();
  f();
  return tried() - before;
}
at::Tensor leaf(std::vector<std::int64_t> const& sizes) { return torch::randn(sizes).requires_grad_(true); }

/// Its backward pass runs backward passes within each other, so deep that autograd goes on in a thread of its own.
struct Deep : torch::autograd::Function<Deep> {
  static inline std::thread::id thread = {};
  static inline Matmul how = Matmul::libtorch;
  static inline std::size_t tried_there = 0;

  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::Tensor const& x, std::int64_t depth) {
    ctx->saved_data["depth"] = depth;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list gradients) {
    auto const depth = ctx->saved_data["depth"].toInt();
    at::AutoGradMode const with_graph(true);
    if (depth != 0) {
      apply(leaf({1}), depth - 1).sum().backward();
    } else {
      thread = std::this_thread::get_id();
      how = on_this_thread();
      tried_there = new_ones([] { torch::mm(torch::randn({8, 38}), torch::randn({38, 16})); });
    }
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

TEST_CASE("in the scope the same bits forward and backward; outside nothing is tried and nothing is left behind") {
  Threads const one(1);
  Count count;
  c10::WarningUtils::WarningHandlerGuard const listen(&count);
  auto const before = everything(48);
  auto const nothing = tried();
  {
    MatmulScope const scope(Matmul::certified);
    CHECK(on_this_thread() == (process_kernels() ? Matmul::certified : Matmul::libtorch));
    same(everything(48), before);
    {
      MatmulScope const as_ever(Matmul::libtorch);
      CHECK(on_this_thread() == Matmul::libtorch);
      auto const now = tried();
      same(everything(80), everything(80));
      CHECK(tried() == now);
    }
    CHECK((tried() > nothing) == (process_kernels() != nullptr));
  }
  CHECK(on_this_thread() == Matmul::libtorch);
  auto const all = tried();
  same(everything(48), before);
  everything(112);
  CHECK(tried() == all);
  CHECK(count.warnings == 0);
  {
    MatmulScope const scope;
    torch::mm(torch::randn({112, 112}), torch::randn({112, 112}));
    CHECK((tried() == all || this_processor() != Processor::other));  // it is large
  }
}

TEST_CASE("products of few results have LibTorch's bits for all numbers, also for those after their first") {
  Threads const one(1);
  torch::manual_seed(7);
  for (std::int64_t const k : {1, 2, 3, 4, 5, 7, 8, 16, 33})
    for (std::int64_t const n : {1, 2, 3})
      for (std::int64_t const m : {1, 2, 3, 4, 5, 8, 17}) {
        CAPTURE(m, k, n);
        int different = 0;
        for (int draw = 0; draw != 100; ++draw) {
          auto const x = torch::randn({m, k}), w = torch::randn({n, k}), bias = torch::randn({n});
          auto const theirs = torch::linear(x, w, bias);
          MatmulScope const scope;
          different += !same_bits(torch::linear(x, w, bias), theirs);
        }
        CHECK(different == 0);
      }
}

TEST_CASE("the scope belongs to its thread, and to those that autograd starts from it") {
  if (!process_kernels()) SKIP("built without LIBXSMM");
  MatmulScope const scope(Matmul::certified);
  at::ThreadLocalState const handed_on;  // what autograd gives to its threads
  Matmul plain{}, of_autograd{};
  std::thread([&] {
    plain = on_this_thread();
    at::ThreadLocalStateGuard const taken(handed_on);
    of_autograd = on_this_thread();
  }).join();
  CHECK(plain == Matmul::libtorch);
  CHECK(of_autograd == Matmul::certified);
}

TEST_CASE("a scope that is told nothing has the faster way where the rule says so, and a small product is") {
  if (!process_kernels()) SKIP("built without LIBXSMM");
  MatmulScope const scope;
  CHECK(on_this_thread() == Matmul::faster);
  CHECK(new_ones([] { torch::mm(torch::randn({8, 34}), torch::randn({34, 24})); }) == 1);
}

TEST_CASE("each operator by itself takes this way") {
  if (!process_kernels()) SKIP("built without LIBXSMM");
  MatmulScope const scope(Matmul::certified);
  auto const a = torch::randn({8, 36}), b = torch::randn({36, 24}), x = torch::randn({3, 8, 36}),
             y = torch::randn({3, 36, 24});
  CHECK(new_ones([&] { torch::mm(a, b); }) == 1);
  CHECK(new_ones([&] { torch::addmm(torch::randn({24}), a, b); }) == 1);
  CHECK(new_ones([&] { torch::addmm(torch::randn({8, 24}), a, b); }) == 1);
  CHECK(new_ones([&] { torch::bmm(x, y); }) == 1);
  CHECK(new_ones([&] { torch::baddbmm(torch::randn({3, 8, 24}), x, y); }) == 1);
  CHECK(new_ones([&] { torch::linear(a, torch::randn({24, 36}), torch::randn({24})); }) == 1);
  CHECK(new_ones([&] { torch::linear(x, torch::randn({24, 36}), torch::randn({24})); }) == 1);
  CHECK(new_ones([&] { torch::linear(a, torch::randn({20, 36})); }) == 1);
}

TEST_CASE("a backward pass by itself takes this way, for both factors") {
  if (!process_kernels()) SKIP("built without LIBXSMM");
  auto const backward = [](at::Tensor const& made) {
    auto const loss = (made * torch::randn(made.sizes())).sum();
    MatmulScope const scope(Matmul::certified);
    return new_ones([&] { loss.backward(); });
  };
  CHECK(backward(torch::mm(leaf({8, 44}), leaf({44, 24}))) == 2);
  CHECK(backward(torch::linear(leaf({8, 52}), leaf({24, 52}), leaf({24}))) == 2);
  CHECK(backward(torch::bmm(leaf({3, 8, 44}), leaf({3, 44, 24}))) == 2);
  CHECK(backward(torch::baddbmm(leaf({3, 8, 24}), leaf({3, 8, 52}), leaf({3, 52, 24}))) == 2);
}

TEST_CASE("a backward pass that autograd goes on with in another thread takes this way") {
  if (!process_kernels()) SKIP("built without LIBXSMM");
  MatmulScope const scope(Matmul::certified);
  Deep::apply(leaf({1}), 70).sum().backward();
  CHECK(Deep::thread != std::thread::id());
  CHECK(Deep::thread != std::this_thread::get_id());
  CHECK(Deep::how == Matmul::certified);
  CHECK(Deep::tried_there == 1);
}

TEST_CASE("where LibTorch may compute products in less than float32, a scope leaves all to it") {
  auto const set = [](at::Float32Precision precision) {
    at::globalContext().setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, precision);
  };
  auto const a = torch::randn({64, 776}), b = torch::randn({776, 128});
  for (auto const less : {at::Float32Precision::BF16, at::Float32Precision::TF32}) {
    set(less);
    auto const wanted = torch::mm(a, b);
    Matmul how{};
    auto const asked = new_ones([&] {
      MatmulScope const scope(Matmul::certified);
      how = on_this_thread();
      CHECK(same_bits(torch::mm(a, b), wanted));
    });
    set(at::Float32Precision::NONE);
    CHECK(how == Matmul::libtorch);
    CHECK(asked == 0);
  }
  MatmulScope const scope(Matmul::certified);
  CHECK((on_this_thread() == Matmul::certified) == (process_kernels() != nullptr));
}
