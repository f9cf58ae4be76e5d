// Steps whose matrix products are LIBXSMM's, as they are written and captured: the same bits as LibTorch's, step by
// step.
#include "captured_fits.hpp"

using namespace captured_fits;

namespace {

using torch::nn::Linear;

struct Mlp : Common {
  torch::nn::Sequential body =
      register_module("body", torch::nn::Sequential(Linear(6, 32), torch::nn::Tanh(), Linear(32, 64), torch::nn::ReLU(),
                                                    Linear(64, 16), torch::nn::ReLU(), Linear(16, 3)));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(body->forward(batch.data), batch.target, ctx);
  }
};

/// A block of a transformer on four tokens, with its attention in plain products.
struct Block : Common {
  torch::nn::LayerNorm first = register_module("first", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16}))),
                       second = register_module("second", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
  Linear in = register_module("in", Linear(6, 64)), keys = register_module("keys", Linear(16, 48)),
         out = register_module("out", Linear(16, 16)), up = register_module("up", Linear(16, 64)),
         down = register_module("down", Linear(64, 16)), head = register_module("head", Linear(16, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto x = in->forward(batch.data).view({-1, 4, 16});
    auto const parts = keys->forward(first->forward(x)).chunk(3, 2);
    auto const weights = torch::softmax(torch::bmm(parts[0], parts[1].transpose(1, 2)) * 0.25, 2);
    x = x + out->forward(torch::bmm(weights, parts[2]));
    x = x + down->forward(torch::gelu(up->forward(second->forward(x))));
    return classified(head->forward(x.mean(1)), batch.target, ctx);
  }
};

/// From the sixth epoch on LibTorch may use two threads.
struct MoreThreads {
  using Stateless = ByChoice;
  void on_train_epoch_start(auto& ctx) { at::set_num_threads(ctx.current_epoch() < 5 ? 1 : 2); }
};

template <class M>
void same_in_all_ways(Automatic how) {
  auto const data = batches(10, 16);
  auto by_libtorch = fresh<M>(), written = fresh<M>(), captured = fresh<M>();
  auto const wanted = fit(SingleDevice{cpu, Matmul::libtorch}, *by_libtorch, data, how, 20);
  same(fit(SingleDevice{cpu, Matmul::certified}, *written, data, how, 20), wanted);
  Captured strategy{SingleDevice{cpu, Matmul::certified}};
  auto const report = strategy.report();
  same(fit(strategy, *captured, data, how, 20), wanted);
  CHECK(report->replayed > 100);
  CHECK(report->reasons.empty());
  REQUIRE_FALSE(report->tapes.empty());
  for (auto const& tape : report->tapes) CHECK((tape.products > 3) == (libtorch::native::process_kernels() != nullptr));
}

}  // namespace

TEST_CASE("200 steps of an MLP: written and captured, the bits are LibTorch's") {
  same_in_all_ways<Mlp>({});
  same_in_all_ways<Mlp>({.accumulate_grad_batches = 2});
}

TEST_CASE("in the later batches of an accumulation window products add themselves to the gradients") {
  auto const data = batches(9, 16);
  auto by_libtorch = fresh<Mlp>(), captured = fresh<Mlp>();
  Automatic const how{.accumulate_grad_batches = 3};
  Captured strategy{SingleDevice{cpu, Matmul::certified}};
  auto const report = strategy.report();
  same(fit(strategy, *captured, data, how, 20), fit(SingleDevice{cpu, Matmul::libtorch}, *by_libtorch, data, how, 20));
  REQUIRE(report->tapes.size() == 3);
  std::size_t adding = 0;
  for (auto const& tape : report->tapes) adding += tape.direct > 0;
  CHECK(adding == (libtorch::native::process_kernels() ? 3 : 1));  // the first batch's gradients are cleared
}

TEST_CASE("200 steps of a transformer's block: written and captured, the bits are LibTorch's") {
  same_in_all_ways<Block>({});
}

TEST_CASE("a tape whose number of threads changes goes on with LibTorch's products") {
  auto const threads = at::get_num_threads();
  auto const go = [&](auto strategy) {
    at::set_num_threads(1);
    auto model = fresh<Mlp>();
    auto data = batches(10, 16);
    return fit(strategy, *model, data, {}, 10, MoreThreads{});
  };
  same(go(Captured{SingleDevice{cpu, Matmul::certified}}), go(SingleDevice{cpu, Matmul::libtorch}));
  at::set_num_threads(threads);
}

TEST_CASE("describe() says whose products a trainer's steps use") {
  auto const told = [](auto strategy) {
    auto model = fresh<Mlp>();
    auto trainer = make_trainer<Mlp>({.max_epochs = 1}, strategy, Float32{}, Automatic{}, NoDefaults{});
    auto data = batches(3, 16);
    trainer.fit(*model, data);
    return describe(trainer);
  };
  auto const on = told(SingleDevice{cpu, Matmul::certified}), captured = told(Captured{SingleDevice{cpu}});
  INFO(on);
  CHECK(on.find("matrix products") != std::string::npos);
  CHECK(captured.find("matrix products") != std::string::npos);
  CHECK(told(SingleDevice{cpu, Matmul::libtorch}).find("matrix products: LibTorch's, as was asked for") !=
        std::string::npos);
}
