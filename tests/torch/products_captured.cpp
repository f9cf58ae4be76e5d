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

/// Its second product has an inner length that LibTorch and Matmul::fastest sum in other blocks, and so few
/// multiplications that the rule takes it on every processor.
struct Long : Common {
  Linear wide = register_module("wide", Linear(6, 784)), narrow = register_module("narrow", Linear(784, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const hidden = torch::tanh(wide->forward(batch.data.view({2, 2, 6})));
    return classified(narrow->forward(hidden).view({4, 3}), batch.target, ctx);
  }
};

/// Attention in one operator, of eight tokens with two heads.
struct Attentive : Common {
  Linear in = register_module("in", Linear(6, 96)), head = register_module("head", Linear(32, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const parts = in->forward(batch.data).view({2, 8, 3, 2, 16}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto const seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
    return classified(head->forward(seen.transpose(1, 2).reshape({16, 32})), batch.target, ctx);
  }
};

/// An LSTM over three steps of time, whose state has whole vectors of each width and numbers beyond them.
struct Lstm : Common {
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(2, 28).batch_first(true)));
  Linear head = register_module("head", Linear(28, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const states = std::get<0>(lstm->forward(batch.data.view({-1, 3, 2})));
    return classified(head->forward(states.select(1, -1)), batch.target, ctx);
  }
};

/// For the rows of a batch of 34 the rule gives its wide product to LIBXSMM with one thread, and to LibTorch with five.
struct Rows : Common {
  Linear in = register_module("in", Linear(6, 400)), wide = register_module("wide", Linear(400, 100)),
         head = register_module("head", Linear(100, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const hidden = torch::tanh(wide->forward(torch::tanh(in->forward(batch.data))));
    return classified(head->forward(hidden), batch.target, ctx);
  }
};

/// From the sixth epoch on LibTorch may use five threads.
struct MoreThreads {
  using Stateless = ByChoice;
  void on_train_epoch_start(auto& ctx) { at::set_num_threads(ctx.current_epoch() < 5 ? 1 : 5); }
};

template <class M>
void same_in_all_ways(Automatic how, std::size_t biases = 0) {
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
  bool const ours = libtorch::native::process_kernels() != nullptr;
  for (auto const& tape : report->tapes) {
    // On some processors LibTorch's bits are those of a small function, which then makes a product, too.
    CHECK((tape.products >= 3) == ours);
    CHECK(tape.biases == (ours ? biases : 0));
  }
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
  same_in_all_ways<Block>({}, 4);  // the layers whose inputs have three dimensions
}

TEST_CASE(
    "with kernels::fastest replays have the bits of the step as written, in each run, and the values of LibTorch's") {
  auto const data = batches(10, 4);
  auto model = fresh<Long>(), again = fresh<Long>(), written = fresh<Long>(), by_libtorch = fresh<Long>();
  Captured strategy{SingleDevice{cpu}, kernels::fastest};
  auto const report = strategy.report();
  auto const got = fit(strategy, *model, data, {}, 20);
  CHECK(report->reasons.empty());
  CHECK(report->checked > 3);
  CHECK(report->replayed > 100);
  bool const ours = libtorch::native::process_kernels() != nullptr;
  for (auto const& tape : report->tapes) {
    // On some processors LibTorch's bits are those of a small function, which then makes a product, too.
    CHECK((tape.products >= 3) == ours);
    CHECK(tape.biases == (ours ? 1 : 0));
  }
  CaptureOptions const options{.kernels = kernels::fastest};
  same(fit(Captured{SingleDevice{cpu}, options}, *again, data, {}, 20), got);
  same(fit(SingleDevice{cpu, Matmul::fastest}, *written, data, {}, 20), got);
  auto const theirs = fit(SingleDevice{cpu, Matmul::libtorch}, *by_libtorch, data, {}, 20);
  for (std::size_t i = 0; i != data.size(); ++i)  // one epoch: later, small differences have grown
    CHECK(std::abs(theirs.losses[i] - got.losses[i]) < 1e-4F * (1 + std::abs(theirs.losses[i])));
}

namespace {
/// A captured fit with kernels::fastest is replayed with the bits of the fit as it is written, and `ours` kinds of
/// calls of each of its tapes, whose names begin so, are functions of this library. `last`: the rows of the last batch,
/// if they are others.
template <class Model>
void check_fastest(std::string_view begin, long ours, int last = 0) {
  auto const data = batches(10, 16, last);
  auto model = fresh<Model>(), written = fresh<Model>();
  Captured strategy{SingleDevice{cpu}, kernels::fastest};
  auto const report = strategy.report();
  auto const got = fit(strategy, *model, data, {}, 20);
  CHECK(report->reasons.empty());
  CHECK(report->replayed > 100);
  same(fit(SingleDevice{cpu, Matmul::fastest}, *written, data, {}, 20), got);
  if (!libtorch::native::process_kernels()) return;
  auto const is_ours = [&](auto const& calls) { return calls.what.starts_with(begin) && calls.kernel == "function"; };
  for (auto const& tape : report->tapes) CHECK(std::count_if(tape.calls.begin(), tape.calls.end(), is_ours) == ours);
}
}  // namespace

TEST_CASE("with kernels::fastest gelu is ours, forward and backward, written and captured, as near to float64 as "
          "LibTorch's") {
  check_fastest<Block>("gelu_backward", 1);
  if (!libtorch::native::process_kernels()) return;

  auto const x = torch::cat({torch::linspace(-30, 30, 100003), torch::tensor({0.0F, -0.0F, 1e-20F, -1e30F, 1e30F})});
  auto const gradient = torch::randn_like(x),
             exact = at::gelu_backward(gradient.to(torch::kDouble), x.to(torch::kDouble));
  auto const error = [&](at::Tensor const& is) {
    return ((is.to(torch::kDouble) - exact).abs() / gradient.abs().clamp_min(1e-6)).max().template item<double>();
  };
  double const theirs = error(at::gelu_backward(gradient, x));
  MatmulScope const scope(Matmul::fastest);
  auto const ours = at::gelu_backward(gradient, x);
  CHECK(error(ours) < 4 * theirs);
  auto const part = [](at::Tensor const& of) { return of.narrow(0, 70000, 9).clone(); };
  CHECK(fixtures::same_bits(part(ours), at::gelu_backward(part(gradient), part(x))));
  CHECK(at::gelu_backward(torch::ones({3}), torch::full({3}, NAN)).isnan().all().item<bool>());
}

TEST_CASE("attention of Matmul::fastest and its gradients are as near to float64 as LibTorch's, causal and not") {
  if (!libtorch::native::process_kernels()) return;
  for (bool const causal : {false, true})
    for (auto const rows : {1, 7, 64, 100}) {
      INFO(rows << " rows, causal " << causal);
      // As a transformer has them: parts of one tensor, in which heads lie side by side.
      auto const all = torch::randn({2, rows, 3, 4, 32}), gradient = torch::randn({2, rows, 4, 32}).transpose(1, 2);
      auto const computed = [&](at::ScalarType type) {
        auto const parts = all.to(type).permute({2, 0, 3, 1, 4}).contiguous().requires_grad_();
        auto const view = parts.transpose(2, 3).contiguous().transpose(2, 3);
        auto const out = at::scaled_dot_product_attention(view[0], view[1], view[2], {}, 0, causal);
        out.backward(gradient.to(type));
        return std::vector{out.detach().to(torch::kDouble), parts.grad().to(torch::kDouble)};
      };
      auto const exact = computed(torch::kDouble), theirs = computed(torch::kFloat);
      MatmulScope const scope(Matmul::fastest);
      fixtures::Operators const called;
      auto const ours = computed(torch::kFloat);
      for (std::size_t i = 0; i != exact.size(); ++i) {
        auto const error = [&](at::Tensor const& is) {
          return ((is - exact[i]).norm() / exact[i].norm()).item<double>();
        };
        CHECK(error(ours[i]) < 4 * error(theirs[i]) + 1e-8);
        if (rows > 1) CHECK_FALSE(ours[i].equal(theirs[i]));  // else this compares LibTorch with itself
      }
    }
}

TEST_CASE("a tape of attention by kernels of ours repeats the step as it is written") {
  check_fastest<Attentive>("_scaled_dot_product", 2);
}

namespace {
/// `asked`: 0 asks for gradients of all results, 1 of the outputs alone, 2 of the last state alone.
void check_lstm(std::int64_t in, std::int64_t hidden, double large, int asked) {
  INFO(in << " inputs, " << hidden << " outputs, gradients " << asked);
  torch::nn::LSTM net(torch::nn::LSTMOptions(in, hidden).num_layers(2).bidirectional(true));
  auto const x = torch::randn({7, 5, in}) * large, h = torch::randn({4, 5, hidden}), c = torch::randn({4, 5, hidden}),
             by = torch::randn({5, 7, 2 * hidden}).transpose(0, 1);
  auto const computed = [&](at::ScalarType type) {
    std::vector<at::Tensor> leaves;
    for (auto const& tensor : {x, h, c}) leaves.push_back(tensor.to(type, false, true).requires_grad_());
    std::vector<at::Tensor> weights;
    for (auto const& weight : net->parameters())
      weights.push_back(weight.detach().to(type, false, true).requires_grad_());
    auto const [out, last_h, last_c] =
        at::lstm(leaves[0], {leaves[1], leaves[2]}, weights, true, 2, 0, true, true, false);
    at::Tensor loss = torch::zeros({}, type);
    if (asked != 2) loss = loss + (out * by.to(type)).sum();
    if (asked != 1) loss = loss + last_h.sum() + last_c.square().sum();
    loss.backward();
    leaves.insert(leaves.end(), weights.begin(), weights.end());
    std::vector<at::Tensor> all{out, last_h, last_c};
    for (auto const& leaf : leaves) all.push_back(leaf.grad());
    for (auto& one : all) one = one.detach().to(torch::kDouble);
    return all;
  };
  auto const exact = computed(torch::kDouble), theirs = computed(torch::kFloat);
  MatmulScope const scope(Matmul::fastest);
  auto const ours = computed(torch::kFloat);
  for (std::size_t i = 0; i != exact.size(); ++i) {
    INFO("result " << i);
    auto const error = [&](at::Tensor const& is) { return ((is - exact[i]).norm() / exact[i].norm()).item<double>(); };
    CHECK(error(ours[i]) < 4 * error(theirs[i]) + 1e-7);
  }
  CHECK_FALSE(ours[3].equal(theirs[3]));  // else this compares LibTorch with itself
  torch::NoGradGuard const no_graph;      // without a workspace
  auto const again = at::lstm(x, {h, c}, net->parameters(), true, 2, 0, true, true, false);
  CHECK(fixtures::same_bits(std::get<0>(again).to(torch::kDouble), ours[0]));
}
}  // namespace

TEST_CASE("an LSTM of Matmul::fastest and its gradients are as near to float64 as LibTorch's, in both directions") {
  if (!libtorch::native::process_kernels()) return;
  for (int const asked : {0, 1, 2}) {
    check_lstm(10, 20, 1, asked);
    check_lstm(3, 4, 1, asked);
    check_lstm(33, 128, 30, asked);
  }
}

TEST_CASE("an LSTM whose results have no gradient gives none to its weights") {
  MatmulScope const scope(Matmul::fastest);
  auto const x = torch::randn({3, 2, 4}), weight = torch::randn({16, 4}), bias = torch::randn({16}),
             h = torch::randn({2, 4}), c = torch::randn({2, 4});
  auto const [out, last_h, last_c, kept] =
      at::mkldnn_rnn_layer(x, weight, weight, bias, bias, h, c, false, {}, 2, 4, 1, true, false, false, true);
  REQUIRE(kept.scalar_type() == at::kFloat);  // else it is LibTorch's layer
  auto const none = at::mkldnn_rnn_layer_backward(x, weight, weight, bias, bias, h, c, out, last_h, last_c, {}, {}, {},
                                                  false, 2, 4, 1, true, true, false, {}, false, kept);
  std::apply([](auto const&... each) { CHECK((!each.defined() && ...)); }, none);
}

TEST_CASE("a tape of an LSTM by kernels of ours repeats the step as it is written") {
  check_fastest<Lstm>("mkldnn_rnn_layer", 2);
}
TEST_CASE("replays by kernels of ours before a batch of another shape are confirmed by the same kernels") {
  check_fastest<Lstm>("mkldnn_rnn_layer", 2, 5);
}

TEST_CASE("a tape whose number of threads changes goes on with LibTorch's products") {
  auto const go = [&](auto strategy) {
    fixtures::Threads const begun_with(1);
    auto model = fresh<Mlp>();
    auto data = batches(10, 16);
    return fit(strategy, *model, data, {}, 10, MoreThreads{});
  };
  same(go(Captured{SingleDevice{cpu, Matmul::certified}}), go(SingleDevice{cpu, Matmul::libtorch}));
}

TEST_CASE("a tape of Matmul::fastest whose number of threads changes takes the products of the step as it is written") {
  fixtures::skip_under_thread_sanitizer();
  auto const go = [&](auto strategy) {
    fixtures::Threads const begun_with(1);
    auto model = fresh<Rows>();
    auto data = batches(10, 34);
    return fit(strategy, *model, data, {}, 10, MoreThreads{});
  };
  Captured strategy{SingleDevice{cpu}, kernels::fastest};
  auto const report = strategy.report();
  same(go(strategy), go(SingleDevice{cpu, Matmul::fastest}));
  CHECK(report->replayed > 70);
  CHECK(report->eager == 0);
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
