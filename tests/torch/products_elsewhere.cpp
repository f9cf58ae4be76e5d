// The strategy's word for matrix products reaches the steps of manual optimization, and validation, test and predict.
#include "products.hpp"

#include <vector>

#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/distributed/pipeline.hpp>
#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;
using products::tried;

namespace {

/// Its widths say which products are whose: no other test has them.
template <int width>
struct ByHand : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(width, 16)),
                    out = register_module("out", torch::nn::Linear(16, 2));
  std::vector<torch::Tensor> seen = {};
  torch::Tensor loss(data::Batch const& batch) {
    auto value = torch::cross_entropy_loss(out->forward(torch::relu(in->forward(batch.data))), batch.target);
    seen.push_back(value.detach());
    return value;
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 0.01}); }
  void training_step(data::Batch const& batch, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    ctx.minimize(optimizer, loss(batch));
  }
  void validation_step(data::Batch const& batch) { loss(batch); }
  void test_step(data::Batch const& batch) { loss(batch); }
  torch::Tensor predict_step(data::Batch const& batch) { return loss(batch); }
};

template <int width>
std::vector<data::Batch> batches() {
  torch::manual_seed(7);
  std::vector<data::Batch> all;
  for (int i = 0; i != 3; ++i) all.push_back({torch::randn({8, width}), torch::randint(0, 2, {8}, torch::kLong)});
  return all;
}

template <int width>
std::vector<torch::Tensor> all_stages(Matmul how) {
  torch::manual_seed(3);
  ByHand<width> model;
  auto data = batches<width>();
  auto trainer = make_trainer<ByHand<width>>({.max_epochs = 2, .num_sanity_val_steps = 0}, SingleDevice{cpu, how},
                                             Float32{}, Manual{}, NoDefaults{});
  trainer.fit(model, data, data);
  trainer.validate(model, data);
  trainer.test(model, data);
  trainer.predict(model, data);
  auto all = model.parameters();
  all.insert(all.end(), model.seen.begin(), model.seen.end());
  return all;
}

}  // namespace

TEST_CASE("manual steps and evaluations have their products by the strategy's word, with the same bits") {
  auto const before = tried();
  auto const wanted = all_stages<24>(Matmul::libtorch);
  CHECK(tried() == before);
  auto const got = all_stages<24>(Matmul::certified);
  CHECK((tried() > before) == (libtorch::native::process_kernels() != nullptr));
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i != got.size(); ++i) CHECK(fixtures::same_bits(got[i], wanted[i]));
}

TEST_CASE("validation alone has its products by the strategy's word; nothing of it stays behind") {
  ByHand<40> model;
  auto data = batches<40>();
  auto trainer = make_trainer<ByHand<40>>({.max_epochs = 1}, SingleDevice{cpu, Matmul::certified}, Float32{}, Manual{},
                                          NoDefaults{});
  auto const before = tried();
  trainer.validate(model, data);
  auto const after = tried();
  CHECK((after > before) == (libtorch::native::process_kernels() != nullptr));
  ByHand<56> outside;
  outside.loss(batches<56>().front());
  CHECK(tried() == after);
}

TEST_CASE("a fit whose strategy is told nothing of products has the faster way") {
  ByHand<72> model;
  auto data = batches<72>();
  auto trainer = make_trainer<ByHand<72>>({.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Manual{}, NoDefaults{});
  auto const before = tried();
  trainer.fit(model, data, NoValidation{});
  CHECK((tried() > before) == (libtorch::native::process_kernels() != nullptr));
}

TEST_CASE("the steps of several processes have their products by the strategy's word") {
  auto const seen = [](auto strategy) {
    Matmul how{};
    int batch = 0, board = 0;
    auto const step = [&](int&) { return how = libtorch::native::on_this_thread(); };
    strategy.gradients(StepKey{true, true, 1}, batch, board, step);
    return how;
  };
  bool const has = libtorch::native::process_kernels() != nullptr;
  CHECK(seen(DistributedDataParallel{}) == (has ? Matmul::faster : Matmul::libtorch));
  CHECK(seen(DistributedDataParallel{.matmul = Matmul::certified}) == (has ? Matmul::certified : Matmul::libtorch));
  CHECK(seen(DistributedDataParallel{.matmul = Matmul::libtorch}) == Matmul::libtorch);
  auto const opened = [](Pipeline const& strategy) {
    auto const scope = strategy.matmul_scope();
    return libtorch::native::on_this_thread();
  };
  CHECK(opened(Pipeline{.matmul = Matmul::certified}) == (has ? Matmul::certified : Matmul::libtorch));
}
