// What changes between steps, and what notices it.

#include "captured_fits.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <torch/library.h>

using namespace captured_fits;

namespace {

constexpr long changes_at = 30;
void sets_data(Given& net, long batch) {
  if (batch == changes_at) net.parameters()[0].set_data(net.parameters()[0].detach().clone() * 0.5);
}
void freezes(Given& net, long batch) {
  if (batch == changes_at) net.parameters()[0].set_requires_grad(false);
}
void hooks(Given& net, long batch) {
  if (batch == changes_at)
    net.parameters()[0].register_hook([](torch::Tensor const& gradient) { return gradient * 0.5; });
}
void new_gradient(Given& net, long batch) {
  if (batch == changes_at) net.parameters()[0].mutable_grad() = torch::ones_like(net.parameters()[0].detach());
}
void loses_gradient(Given& net, long batch) {
  if (batch == changes_at) net.parameters()[0].mutable_grad().reset();
}
void autocasts(Given&, long batch) {
  bool const on = batch >= changes_at && batch < 50;
  at::autocast::set_autocast_enabled(at::kCPU, on);
  at::autocast::set_autocast_cache_enabled(!on);  // which would keep results of a step for the next
}
void no_graph(Given&, long batch) {
  if (batch == changes_at) torch::GradMode::set_enabled(false);
}
torch::Tensor reads_buffer(Given& net, data::Batch const& batch) {
  return (plain_loss(net.body, batch) * (1 + net.counter)).sum();
}
void new_buffer(Given& net, long batch) {
  if (batch == changes_at) net.counter.set_data(torch::ones({1}));
}
/// A buffer that is written between steps is read by the next replay.
void writes_buffer(Given& net, long batch) { net.counter.fill_(double(batch % 3)); }
torch::Tensor drops(Given& net, data::Batch const& batch) {
  return F::cross_entropy(torch::dropout(net.body->forward(batch.data), 0.3, net.body->is_training()), batch.target);
}
void evaluates(Given& net, long batch) {
  if (batch == changes_at) net.body->eval();
}
void deterministic(Given&, long batch) {
  at::globalContext().setDeterministicAlgorithms(batch >= changes_at && batch < 50, true);
}
void toggles(Given& net, long batch) { batch % 2 == 0 ? net.body->eval() : net.body->train(); }
/// The number is the same for long, and then another.
torch::Tensor reads_factor(Given& net, data::Batch const& batch) { return plain_loss(net.body, batch) * net.factor; }
void later(Given& net, long batch) {
  if (batch == changes_at) net.factor = 0.5;
}
/// A tensor that is not the model's, later.
torch::Tensor reads_memory(Given& net, data::Batch const& batch) {
  auto const value = plain_loss(net.body, batch);
  return net.memory.defined() ? value * net.memory : value;
}
void later_outside(Given& net, long batch) {
  if (batch == changes_at) net.memory = torch::full({}, 0.5);
}
/// Batches of any type.
torch::Tensor casts(Given& net, data::Batch const& batch) {
  return F::cross_entropy(net.body->forward(batch.data.to(torch::kFloat)), batch.target.to(torch::kLong));
}
/// A step reads its targets as a type of another size.
torch::Tensor reads_bytes(Given& net, data::Batch const& batch) {
  auto const share = batch.target.view(torch::kByte).slice(0, 3, 7).to(torch::kFloat).mean();
  return plain_loss(net.body, batch) * (1 + share);
}
torch::Tensor reads_floats(Given& net, data::Batch const& batch) {
  return net.body->forward(batch.target.view(torch::kFloat)).pow(2).mean();
}
/// As an operator of a later LibTorch may be, which no list knows: the values of a buffer decide how many rows it
/// returns, and it does not say so.
at::Tensor some_rows(at::Tensor const& rows, at::Tensor const& lengths) {
  return rows.narrow(0, 0, lengths.data_ptr<std::int64_t>()[7]).clone();
}
TORCH_LIBRARY_FRAGMENT(aten, library) {
  library.def("fulgurite_test_some_rows(Tensor rows, Tensor lengths) -> Tensor");
  library.impl("fulgurite_test_some_rows", c10::DispatchKey::CPU, TORCH_FN(some_rows));
}
torch::Tensor cuts(Given& net, data::Batch const& batch) {
  static auto const cut = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("aten::fulgurite_test_some_rows", "")
                              .typed<at::Tensor(at::Tensor const&, at::Tensor const&)>();
  return plain_loss(net.body, batch) + cut.call(batch.data, net.lengths).pow(2).mean();
}
void shortens(Given& net, long batch) {
  if (batch == changes_at) net.lengths.narrow(0, 7, 1).fill_(1);
}

/// It changes at one step, and back where there are more tapes: the step is recorded anew, and the bits stay right.
void recorded_anew(Does does, std::size_t tapes = 2) {
  auto const [report, ran] = twice(does, batches(7, 8), {}, 10);
  CHECK(report.reasons.empty());
  CHECK(report.tapes.size() == tapes);
  CHECK(report.replayed > 30);
}

}  // namespace

TEST_CASE("the guard of each step: set_data, freezing, a new hook, gradient or buffer, a gradient that is gone, "
          "eval(), autocast and switches of LibTorch are noticed at once") {
  recorded_anew({usual_step, sets_data});
  recorded_anew({usual_step, freezes});
  recorded_anew({usual_step, hooks});
  recorded_anew({usual_step, new_gradient});
  recorded_anew({usual_step, loses_gradient});
  recorded_anew({usual_step, autocasts}, 3);
  recorded_anew({reads_buffer, new_buffer});
  recorded_anew({drops, evaluates});
  recorded_anew({usual_step, deterministic}, 3);
}
TEST_CASE("a model that changes all the time stays eager in the end") {
  auto const [report, ran] = twice({usual_step, toggles}, batches(7, 8), {}, 10);
  CHECK(report.replayed == 0);
  REQUIRE(report.reasons.size() == 1);
  CHECK(report.reasons[0].find("again and again") != std::string::npos);
}
TEST_CASE("a buffer that is written between steps is what the next replay reads") {
  auto const [report, ran] = twice({reads_buffer, writes_buffer}, batches(7, 8), {}, 10);
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 30);
}
TEST_CASE("graphs switched off: the captured fit fails as the plain one does, instead of replaying") {
  auto model = fresh({usual_step, no_graph});
  CHECK_THROWS(fit(Captured{SingleDevice{cpu}}, *model, batches(7, 8), {}, 10));
  torch::GradMode::set_enabled(true);
  CHECK(model->now == changes_at + 1);
}

TEST_CASE("a member of the model that changes later: a number makes the step another, a tensor from outside keeps it "
          "as written from then on; the bits stay right") {
  recorded_anew({reads_factor, later});
  auto const [report, ran] = twice({reads_memory, later_outside}, batches(7, 8), {}, 20);
  REQUIRE(report.reasons.size() == 1);
  CHECK(report.reasons[0].find("register it as a buffer") != std::string::npos);
  CHECK(report.replayed > 10);
}
TEST_CASE("batches of other sizes, types and strides have tapes of their own") {
  auto data = batches(6, 8, 5);
  data[1].data = data[1].data.to(torch::kDouble);
  data[2].target = data[2].target.to(torch::kInt);
  data[3].data = data[3].data.t().contiguous().t();
  data[4].data = data[4].data.to(torch::kBFloat16);
  for (int i = 0; i != 12; ++i)
    data.push_back(data[static_cast<std::size_t>(i)]);  // each three times an epoch, of which the first is a check
  auto const [report, ran] = twice({casts}, data, {}, 12);
  CHECK(report.reasons.empty());
  CHECK(report.tapes.size() == 6);
  CHECK(report.replayed > 30);
}
TEST_CASE("batches that are parts of one tensor, which a step reads as a type of another size") {
  auto numbers = batches(8, 8), bytes = batches(8, 8);
  std::vector<torch::Tensor> targets, floats;
  for (auto const& batch : numbers) {
    targets.push_back(batch.target);
    floats.push_back(batch.data);
  }
  auto const of_numbers = torch::cat(targets).chunk(8);
  auto const of_bytes = torch::cat(floats).view(torch::kByte).chunk(8);
  for (std::size_t i = 0; i != 8; ++i) {
    numbers[i].target = of_numbers[i];
    bytes[i].target = of_bytes[i];
  }
  for (auto const& [report, ran] : {twice({reads_bytes}, numbers), twice({reads_floats}, bytes)}) {
    CHECK(report.reasons.empty());
    CHECK(report.replayed > 30);
  }
  auto const odd = torch::empty({192 + 2}, torch::kByte);
  auto* const at = odd.data_ptr<std::uint8_t>() + 2;
  for (auto& batch : bytes) batch.target = torch::from_blob(at, {8, 24}, torch::kByte).copy_(batch.target);
  auto const [report, ran] = twice({reads_floats}, bytes);
  CHECK(report.replayed == 0);
  REQUIRE(report.reasons.size() == 1);
  CHECK(report.reasons[0].find("at an address that is no multiple of its size") != std::string::npos);
}
TEST_CASE("a result of another shape than recorded ends the fit with an error") {
  auto model = fresh({cuts, shortens});
  try {
    fit(Captured{SingleDevice{cpu}}, *model, batches(7, 8), {}, 10);
    FAIL("replayed");
  } catch (Error const& error) { CHECK(error.identifier() == "fulgurite.capture.layout"); }
  CHECK(model->now == changes_at + 1);
}

namespace {

/// Where the operator's argument lies, at each call.
std::vector<void const*> read_at;
at::Tensor noted(at::Tensor const& tensor) {
  read_at.push_back(tensor.const_data_ptr());
  return tensor.clone();
}
TORCH_LIBRARY_FRAGMENT(aten, library) {
  library.def("fulgurite_test_noted(Tensor tensor) -> Tensor");
  library.impl("fulgurite_test_noted", c10::DispatchKey::CPU, TORCH_FN(noted));
}
struct Notes : torch::nn::Module {
  struct Output {
    torch::Tensor loss, rows;
  };
  static inline bool returns_batch = false;
  torch::nn::Linear body = register_module("body", torch::nn::Linear(6, 3));
  double sum = 0;
  Output training_step(data::Batch const& batch) {
    static auto const note = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("aten::fulgurite_test_noted", "")
                                 .typed<at::Tensor(at::Tensor const&)>();
    auto const rows = note.call(batch.data);
    return {F::cross_entropy(body(rows), batch.target), returns_batch ? batch.data.slice(0, 2) : rows};
  }
  void on_train_batch_end(auto& outputs, auto& batch, auto&) {
    CHECK(torch::equal(outputs.rows, returns_batch ? batch.data.slice(0, 2) : batch.data));
    sum += outputs.loss.template item<double>();
  }
  auto configure_optimizers() { return optim::SGD(parameters(), {.lr = 0.1}); }
};
/// How many calls of the operator, in replays and in steps as they are written, read other memory than that of a batch.
/// There are more than `least` replays.
long read_elsewhere(std::vector<data::Batch> data, long least) {
  auto const run = [&](auto strategy) {
    torch::manual_seed(3);
    Notes model;
    auto trainer = make_trainer<Notes>({.max_epochs = 30}, strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(model, data);
    return std::pair(fixtures::copied_weights(model), model.sum);
  };
  auto const written = run(SingleDevice{cpu});
  read_at.clear();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto const captured = run(strategy);
  CHECK(captured.second == written.second);
  for (std::size_t i = 0; i != written.first.size(); ++i)
    CHECK(fixtures::same_bits(captured.first[i], written.first[i]));
  CHECK(report->reasons.empty());
  CHECK(report->replayed > least);
  return std::count_if(read_at.begin(), read_at.end(), [&](void const* where) {
    return std::none_of(data.begin(), data.end(), [&](auto& batch) { return batch.data.const_data_ptr() == where; });
  });
}

}  // namespace

TEST_CASE("a replay reads a large batch where it is, unless the step returns it; a small one is copied") {
  auto data = batches(4, 800);
  CHECK(read_elsewhere(data, 30) == 0);
  // It begins elsewhere in a line of the cache, where kernels may add in another order.
  for (auto* const batch : {&data[1], &data[2]})
    batch->data = torch::empty({800 * 6 + 1}).narrow(0, 1, 800 * 6).view({800, 6}).copy_(batch->data);
  CHECK(read_elsewhere(data, 10) == 0);
  CHECK(read_elsewhere(batches(4, 8), 30) > 30);
  libtorch::capture::SetFor<bool> const returns(Notes::returns_batch, true);
  CHECK(read_elsewhere(batches(4, 800), 30) > 30);
}
