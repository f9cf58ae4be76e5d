// A captured fit against the same fit as it is written: the same bits.

#include "captured_fits.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/CPUAllocator.h>

using namespace captured_fits;

namespace {

using torch::nn::Linear, torch::nn::Sequential;
Does const mlp{.step = usual_scores,
               .layers = [] { return Sequential(Linear(6, 16), torch::nn::ReLU(), Linear(16, 3)); }};
torch::Tensor noisy(Given& net, data::Batch const& batch) {
  return net.body->forward(batch.data + 0.1 * torch::randn_like(batch.data));
}
Does const dropping{.step = noisy, .layers = [] {
                      return Sequential(Linear(6, 16), torch::nn::Tanh(), torch::nn::Dropout(0.3), Linear(16, 3));
                    }};
Does const norming{.step = usual_scores, .layers = [] {
                     return Sequential(Linear(6, 16), torch::nn::BatchNorm1d(16), torch::nn::GELU(), Linear(16, 3));
                   }};
torch::Tensor of_pictures(Given& net, data::Batch const& batch) {
  auto const rows = F::pad(batch.data, F::PadFuncOptions({0, 3})).view({-1, 1, 3, 3});
  return net.body->forward(rows.repeat({1, 1, 2, 2}).narrow(2, 0, 4).narrow(3, 0, 4));
}
Does const conv{.step = of_pictures, .layers = [] {
                  return Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)),
                                    torch::nn::BatchNorm2d(4), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                                    torch::nn::Conv2d(4, 6, 2), torch::nn::Flatten(), Linear(6, 3));
                }};

torch::Tensor indexes(Given& net, data::Batch const& batch) {
  return plain_loss(net.body, batch) + net.body->forward(batch.data).index({batch.target}).pow(2).mean();
}
torch::Tensor smooth(Given& net, data::Batch const& batch) {
  auto const x = batch.data.detach().clone().set_requires_grad(true);
  auto const scores = net.body->forward(x);
  auto const slope = torch::autograd::grad({scores.sum()}, {x}, {}, true, true)[0];
  return F::cross_entropy(scores, batch.target) + 0.1 * slope.pow(2).mean();
}

torch::Tensor squared_error(Given& net, data::Batch const& batch) {
  return F::mse_loss(net.body->forward(batch.data), batch.data.narrow(1, 0, 3).contiguous());
}
/// Results of 12288 bytes, of which two are needed at a time.
torch::Tensor forty_results(Given& net, data::Batch const& batch) {
  auto x = batch.data.repeat({8, 8});
  for (int i = 0; i != 40; ++i) x = x.sigmoid();
  return plain_loss(net.body, batch) + x.mean();
}

torch::Tensor reader(Given& net, data::Batch const& batch) {
  auto value = plain_loss(net.body, batch);
  return value.item<float>() > 1.1F ? value * 2 : value;
}

struct Sequence : Common {
  torch::nn::Embedding words = register_module("words", torch::nn::Embedding(5, 8));
  torch::nn::LSTM lstm = register_module(
      "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(8, 8).num_layers(2).dropout(0.2).batch_first(true)));
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const letters = batch.data.mul(2).remainder(5).to(torch::kLong);
    auto const hidden = norm->forward(std::get<0>(lstm->forward(words->forward(letters))).select(1, 5));
    auto const mixed = at::scaled_dot_product_attention(hidden.view({1, 1, -1, 8}), hidden.view({1, 1, -1, 8}),
                                                        hidden.view({1, 1, -1, 8}));
    return classified(out->forward(mixed.view({-1, 8})), batch.target, ctx);
  }
};

}  // namespace

TEST_CASE(
    "captured MLP: the same weights, losses, metrics and generator; after five steps of a shape most are replays") {
  auto const [report, ran] = twice(mlp, batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 30);
  CHECK(report.tapes.size() == 1);
  CHECK(report.tapes[0].replayed < report.tapes[0].recorded);
}

TEST_CASE(
    "captured dropout and noise: random numbers are drawn anew in each replay, the generator ends where it would") {
  auto const [report, ran] = twice(dropping, batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 30);
}

TEST_CASE("captured BatchNorm: running statistics move as they would") {
  auto const [report, ran] = twice(norming, batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 30);
}

TEST_CASE("captured convolutions") {
  auto const [report, ran] = twice(conv, batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 30);
}

TEST_CASE("captured accumulation, clipping and a short last batch: one tape for each kind and shape") {
  auto const [report, ran] =
      twice(dropping, batches(8, 8, 5), Automatic{.accumulate_grad_batches = 3, .clip = ClipNorm{0.5}}, 12);
  CHECK(report.reasons.empty());
  // First, middle and last of 3; first of 2; last of 2, which is the short one.
  CHECK(report.tapes.size() == 5);
  CHECK(report.replayed > 12);
}

TEST_CASE("a seed of backward that is made in the first recorded step does not keep the step from being captured") {
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto model = fresh(mlp), other = fresh(mlp);
  Automatic const how{.accumulate_grad_batches = 7};  // 1/7 is used nowhere else in this program
  auto const replayed = fit(strategy, *model, batches(7, 8), how, 10);
  CHECK(report->reasons.empty());
  CHECK(report->replayed > 7);
  same(replayed, fit(SingleDevice{cpu}, *other, batches(7, 8), how, 10));
}

TEST_CASE("numbers as indices, double backward, an LSTM with dropout and attention are captured") {
  for (auto const& report : {twice({indexes}, batches(7, 8)).first, twice({smooth}, batches(7, 8)).first,
                             twice<Sequence>(batches(7, 8)).first}) {
    CHECK(report.reasons.empty());
    CHECK(report.replayed > 30);
  }
}
TEST_CASE("tapes die in setup: the same strategy on another model") {
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto first = fresh(mlp), second = fresh(mlp);
  auto trainer = make_trainer<Given>({.max_epochs = 8}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(*first, batches(7, 8));
  auto again = make_trainer<Given>({.max_epochs = 8}, strategy, Float32{}, Automatic{}, NoDefaults{});
  again.fit(*second, batches(7, 8));
  CHECK(report->tapes.size() == 2);
  auto const a = first->parameters(), b = second->parameters();
  for (std::size_t i = 0; i != a.size(); ++i) CHECK(fixtures::same_bits(a[i], b[i]));
}
TEST_CASE("a checked step runs the model's code once, and what it draws is drawn once") {
  auto model = fresh(dropping);
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  fit(strategy, *model, batches(5, 8), {}, 1);
  CHECK(model->ran == 5);
  CHECK(report->recorded == 5);
  CHECK(report->checked == 3);
  CHECK(report->replayed == 0);
}

TEST_CASE("captured Bf16Mixed: the casts of autocast are on the tape") {
  auto written = fresh(mlp), captured = fresh(mlp);
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto plain = make_trainer<Given>({.max_epochs = 8}, SingleDevice{cpu}, Bf16Mixed{}, Automatic{}, NoDefaults{});
  auto replayed = make_trainer<Given>({.max_epochs = 8}, strategy, Bf16Mixed{}, Automatic{}, NoDefaults{});
  plain.fit(*written, batches(7, 8));
  replayed.fit(*captured, batches(7, 8));
  CHECK(report->reasons.empty());
  CHECK(report->replayed > 30);
  auto const a = written->parameters(), b = captured->parameters();
  for (std::size_t i = 0; i != a.size(); ++i) CHECK(fixtures::same_bits(a[i], b[i]));
  CHECK(written->losses == captured->losses);
}
TEST_CASE(
    "describe() tells what was recorded, replayed, dropped, kept and checked, and why steps stay as they are written") {
  auto const described = [](Does does) {
    auto const model = fresh(does);
    auto trainer =
        make_trainer<Given>({.max_epochs = 4}, Captured{SingleDevice{cpu}}, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(*model, batches(7, 8));
    return describe(trainer);
  };
  auto const says = [](std::string const& text, std::string const& what) {
    INFO(text);
    CHECK(text.find(what) != std::string::npos);
  };
  auto const text = described(mlp);
  says(text, "\nstrategy\n  steps replayed: ");
  says(text, ", checked against a replay: ");
  says(text, "\n  tape of ");
  says(text, " operators: ");
  says(text, "; keeps ");
  CHECK(text.find("stays as written") == std::string::npos);
  says(described({reader}), "\n  stays as written: aten::_local_scalar_dense reads a value on the host");
}
TEST_CASE("results that are never needed at the same time share memory, others never do") {
  std::vector<at::Storage> storages;
  for (std::int64_t const bytes : {100, 60, 30, 100, 10})
    storages.emplace_back(at::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, at::kCPU), c10::GetCPUAllocator(),
                          true);
  auto const at = [&](std::size_t i) { return storages[i].unsafeGetStorageImpl(); };
  libtorch::capture::MemoryPlan plan;
  plan.use(at(0), 0);
  plan.use(at(0), 1);
  plan.use(at(1), 1);  // made of the first
  plan.use(at(1), 4);
  plan.use(at(2), 2);  // the first is free: here is room for two
  plan.use(at(2), 3);
  plan.use(at(4), 2);
  plan.use(at(3), 3);  // but not for this beside them
  plan.use(at(3), 4);
  plan.leave_out(at(4));
  plan.lay_out();
  auto const place = [&](std::size_t i) {
    return static_cast<char const*>(storages[i].data()) - static_cast<char const*>(storages[0].data());
  };
  CHECK(place(1) == 128);
  CHECK(place(2) == 0);
  CHECK(place(3) == 192);
  CHECK(storages[4].data() == nullptr);
  CHECK(plan.bytes() == 320);
  CHECK(reinterpret_cast<std::uintptr_t>(storages[0].data()) % 64 == 0);
  CHECK(plan.last_use(at(4)) == 2);
}
TEST_CASE("a tape keeps what is needed at a time, not all that the step computes") {
  auto const [report, ran] = twice({forty_results}, batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 30);
  REQUIRE(report.tapes.size() == 1);
  CHECK(report.tapes[0].bytes > 2 * 12288);
  CHECK(report.tapes[0].bytes < 5 * 12288);
}
TEST_CASE("the mean of squared differences is computed in place, with the same bits") {
  CHECK(twice({squared_error}, batches(7, 8, 5)).first.replayed > 30);
  REQUIRE(libtorch::capture::available());
  auto const form = [](torch::Tensor const& x, torch::Tensor const& y) {
    libtorch::capture::Recorder recorder;
    {
      libtorch::capture::Recording const on(recorder);
      at::mse_loss(x, y);
    }
    REQUIRE(recorder.calls.size() == 1);
    return libtorch::capture::out_form(recorder.calls[0]);
  };
  for (auto const type : {torch::kFloat, torch::kDouble}) {
    auto const x = torch::randn({7, 3}, type), y = torch::randn({7, 3}, type);
    auto const found = form(x, y);
    REQUIRE(found.has_value());
    CHECK(found->divisor == 21);
    CHECK_FALSE(form(x.t().contiguous().t(), y).has_value());
  }
}
