// Steps that cannot be replayed: they stay eager with the same bits, and one warning says why.

#include "captured_fits.hpp"

#include "../unit/callback_stderr.hpp"

#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <ATen/ops/_pack_padded_sequence.h>
#include <ATen/ops/_unique.h>

using namespace captured_fits;

namespace {

torch::Tensor item(Given& net, data::Batch const& batch) {
  auto value = plain_loss(net.body, batch);
  return value.item<float>() > 1.1F ? value * 2 : value;
}
torch::Tensor equal(Given& net, data::Batch const& batch) {
  auto value = plain_loss(net.body, batch);
  return torch::equal(batch.data, batch.data) ? value : value * 2;
}
torch::Tensor anneals(Given& net, data::Batch const& batch) { return plain_loss(net.body, batch) * (1.0 / net.ran); }
torch::Tensor hook_factor(Given& net, data::Batch const& batch) {
  auto const scores = net.body->forward(batch.data);
  scores.register_hook([by = 1.0 / net.ran](torch::Tensor const& gradient) { return gradient * by; });
  return F::cross_entropy(scores, batch.target);
}
torch::Tensor every_fifth(Given& net, data::Batch const& batch) {
  auto value = plain_loss(net.body, batch);
  return net.ran % 5 == 0 ? value * 2 : value;
}
torch::Tensor reads_memory(Given& net, data::Batch const& batch) {
  return plain_loss(net.body, batch) * double(batch.data.data_ptr<float>()[0]);
}
torch::Tensor makes_tensor(Given& net, data::Batch const& batch) {
  return plain_loss(net.body, batch) * torch::tensor(1.0F / float(net.ran));
}
torch::Tensor fills_tensor(Given& net, data::Batch const& batch) {
  auto by = torch::empty({1});
  by.data_ptr<float>()[0] = 1.0F / float(net.ran);
  return (plain_loss(net.body, batch) * by).sum();
}
torch::Tensor partly_fills(Given& net, data::Batch const& batch) {
  auto by = torch::empty({2});
  by.narrow(0, 0, 1).fill_(0.5);
  by.data_ptr<float>()[1] = 0.25F;
  return (plain_loss(net.body, batch) * by).sum();
}
torch::Tensor from_blob(Given& net, data::Batch const& batch) {
  static float number = 0.5F;
  return plain_loss(net.body, batch) * torch::from_blob(&number, {});
}
torch::Tensor unregistered(Given& net, data::Batch const& batch) {
  return F::cross_entropy(net.body->forward(batch.data), batch.target,
                          F::CrossEntropyFuncOptions().weight(net.weights));
}
torch::Tensor keeps(Given& net, data::Batch const& batch) {
  auto scores = net.body->forward(batch.data);
  net.memory = scores.detach();
  return F::cross_entropy(scores, batch.target);
}
torch::Tensor carries(Given& net, data::Batch const& batch) {
  auto value = plain_loss(net.body, batch);
  auto sum = net.memory.defined() ? value + 0.1 * net.memory : value;
  net.memory = value.detach();
  return sum;
}
torch::Tensor masks(Given& net, data::Batch const& batch) {
  auto scores = net.body->forward(batch.data);
  return F::cross_entropy(scores, batch.target) + scores.index({batch.target > 0}).pow(2).mean();
}
/// Its rows are sequences of as many steps as the target says, and one more.
torch::Tensor packs(Given& net, data::Batch const& batch) {
  auto const lengths = std::get<0>((batch.target + 1).sort(0, /*descending=*/true));
  return plain_loss(net.body, batch) +
         std::get<0>(at::_pack_padded_sequence(batch.data, lengths, /*batch_first=*/true)).mean();
}
torch::Tensor distinct(Given& net, data::Batch const& batch) {
  return plain_loss(net.body, batch) + std::get<0>(at::_unique(batch.target)).to(torch::kFloat).mean();
}
torch::Tensor writes_batch(Given& net, data::Batch const& batch) {
  batch.data.add_(0.01);
  return plain_loss(net.body, batch);
}
torch::Tensor resizes(Given& net, data::Batch const& batch) {
  auto x = batch.data.clone();
  x.t_();
  return plain_loss(net.body, batch) + x.pow(2).mean();
}
torch::Tensor hidden_state(Given& net, data::Batch const& batch) {
  net.counter.data_ptr<float>()[0] += 1.0F;
  return (plain_loss(net.body, batch) * net.counter).sum();
}
torch::Tensor threads(Given& net, data::Batch const& batch) {
  torch::Tensor by;
  std::thread([&] { by = batch.data.pow(2).mean(); }).join();
  return plain_loss(net.body, batch) * by;
}
torch::Tensor complex(Given& net, data::Batch const& batch) {
  return plain_loss(net.body, batch) + torch::real(torch::fft_fft(net.body->forward(batch.data))).pow(2).mean();
}
torch::Tensor sparse(Given& net, data::Batch const& batch) {
  return plain_loss(net.body, batch) + batch.data.detach().to_sparse().sum() * 0.0;
}

}  // namespace

TEST_CASE("a step that reads a value on the host stays eager") {
  stays_eager({item}, "aten::_local_scalar_dense reads a value on the host");
  stays_eager({equal}, "aten::equal");
  stays_eager({masks}, "aten::index has a result whose shape depends on values");
}
TEST_CASE(
    "a step whose tensors are as long as values say stays eager, though these operators have no tag that says so") {
  stays_eager({packs}, "aten::_pack_padded_sequence has a result whose shape depends on values");
  stays_eager({distinct}, "aten::_unique has a result whose shape depends on values");
}
TEST_CASE("what stays eager says so once in a fit, with the identifier and the reason") {
  auto model = fresh({item});
  auto const text =
      said([&] { fit(Captured{SingleDevice{cpu}}, *model, batches(8, 8, 5), {.accumulate_grad_batches = 2}, 4); });
  CHECK(text == "warning: [fulgurite.capture.eager] steps of a captured fit run as they are written, because of this: "
                "aten::_local_scalar_dense reads a value on the host\n");
}
TEST_CASE("a number of the host that changes each step: two recordings differ") {
  stays_eager({anneals}, "not the same each time: aten::mul");
  stays_eager({hook_factor}, "not the same each time: aten::mul");
  stays_eager({every_fifth}, "not the same each time");
  stays_eager({reads_memory}, "not the same each time: aten::mul");
  stays_eager({makes_tensor}, "not the same each time: aten::scalar_tensor");
}
TEST_CASE("a tensor that the host fills stays eager, even where an operator has set a part of it") {
  stays_eager({fills_tensor}, "the host has filled");
  stays_eager({partly_fills}, "a replay does not give the same bits");
}
TEST_CASE("closed world: a tensor that is not the model's stays eager") {
  stays_eager({from_blob}, "register it as a buffer");
  stays_eager({unregistered}, "register it as a buffer");
  stays_eager({carries}, "register it as a buffer");
  stays_eager({threads}, "register it as a buffer");
}
TEST_CASE("a result of the step that the model keeps would not change: it stays eager") {
  stays_eager({keeps}, "aten::addmm is kept after the step");
}
TEST_CASE("a step that writes into its batch, or changes shapes in place, stays eager") {
  stays_eager({writes_batch}, "aten::add_ writes into the batch");
  stays_eager({resizes}, "aten::t_ changes the shape");
}
TEST_CASE("memory that changes without an operator: replay and step differ in their bits") {
  stays_eager({hidden_state}, "the same bits");
}
TEST_CASE("complex and sparse tensors stay eager") {
  stays_eager({complex}, "dense real");
  stays_eager({sparse}, "dense real");
}

namespace {

/// What it points to cannot be compared.
struct Pointing {
  torch::Tensor data, target;
  std::shared_ptr<double> scale;
};
struct Scaled : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 3)));
  torch::Tensor training_step(Pointing const& batch) { return plain_loss(body, batch) * *batch.scale; }
};
struct Outputs {
  torch::Tensor loss, scores;
};
struct Answers : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 3)));
  std::vector<torch::Tensor> scores = {};
  Outputs training_step(auto const& batch) {
    ++ran;
    auto const y = body->forward(batch.data);
    return {F::cross_entropy(y, batch.target), y};
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) {
    losses.push_back(outputs.scores.sum().template item<float>());
    kept.push_back(outputs.scores.sum());
  }
};
struct WithPointer {
  torch::Tensor loss;
  std::shared_ptr<int> right;
};
struct AnswersPointer : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 3)));
  WithPointer training_step(auto const& batch) {
    ++ran;
    return {plain_loss(body, batch), nullptr};
  }
};

}  // namespace

TEST_CASE("a batch or a result that holds what cannot be looked into stays eager; a struct of tensors is replayed") {
  std::vector<Pointing> pointing;
  for (auto const& batch : batches(7, 8)) pointing.push_back({batch.data, batch.target, std::make_shared<double>(0.5)});
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  Scaled model;
  auto trainer = make_trainer<Scaled>({.max_epochs = 2}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, pointing);
  REQUIRE(report->reasons.size() == 1);
  CHECK(report->reasons[0].find("the batch holds more than tensors") == 0);
  CHECK(report->eager == 14);

  auto const [answers, some] = twice<Answers>(batches(7, 8));
  CHECK(answers.reasons.empty());
  CHECK(answers.replayed > 30);
  auto const [pointer, all] = twice<AnswersPointer>(batches(7, 8));
  CHECK(pointer.replayed == 0);
  CHECK(pointer.reasons.size() == 1);
}
