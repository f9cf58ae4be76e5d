// Searches on a GPU: memory that really runs out, and training that goes on as if nothing had been tried.

#include "gpu.hpp"
#include "searched.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#if defined(FULGURITE_HAS_CUDA_RUNTIME)

using namespace gpu;

namespace {

/// The GPU has so much memory for tensors while this lives.
class Memory {
 public:
  explicit Memory(double bytes) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    auto const [free, total] = c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(0);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(bytes / static_cast<double>(total), 0);
  }
  ~Memory() { c10::cuda::CUDACachingAllocator::setMemoryFraction(1.0, 0); }
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
};

/// Four megabytes for each row, some times over; it draws for its dropout.
struct Wide : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 1));
  torch::Tensor training_step(data::Batch const& batch) {
    auto const hidden = torch::dropout(torch::relu(norm->forward(in->forward(batch.data))), 0.3, is_training());
    auto const answer = out->forward(hidden);
    auto const much = (answer * torch::ones({1, 1 << 20}, answer.options())).tanh().mean();
    return torch::mse_loss(answer, batch.target) + much * 0;
  }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 1e-2}); }
};
auto loader() {
  torch::manual_seed(5);
  auto const x = torch::randn({4096, 4});
  return data::TensorLoader{x, x.sum(1, true), {.batch_size = 8, .shuffle = true, .seed = 7}};
}

/// Weights and random numbers after two fits of 12 steps, with a search before each of them or without.
template <class Make>
std::vector<torch::Tensor> trained(bool searches, Make make) {
  auto all = loader();
  torch::manual_seed(1);
  Wide net;
  auto trainer =
      make_trainer<Wide>({.max_steps = 12}, make(), Float32{}, Automatic{.accumulate_grad_batches = 2}, NoDefaults{});
  auto const search = [&] {
    if (!searches) return;
    Memory const limited(2e9);
    auto const before = c10::cuda::CUDACachingAllocator::getDeviceStats(0).num_ooms;
    auto const found = tune::scale_batch_size(trainer, net, all, {.mode = tune::binsearch, .show = false});
    INFO(found.table());
    CHECK(found.size >= 16);
    CHECK(found.size <= 400);
    CHECK(c10::cuda::CUDACachingAllocator::getDeviceStats(0).num_ooms > before);
    double most = 0;
    for (auto const& trial : found.trials)
      if (trial.fits) most = std::max(most, trial.peak_bytes.value_or(0));
    CHECK(most > 2e8);
    CHECK(most < 2e9);
    all.set_batch_size(8);
  };
  search();
  trainer.fit(net, all);
  search();
  trainer.set_options({.max_steps = 24});
  trainer.fit(net, all);
  auto left = fixtures::copied_weights(net);
  left.push_back(torch::rand({3}));
  left.push_back(torch::rand({3}, torch::kCUDA));
  return left;
}

}  // namespace

TEST_CASE("a GPU whose memory ends: the batch size that fits is found, and all is put back", "[tuner]") {
  if (absent()) SKIP(none);
  auto const check = [](auto make) { CHECK(same(trained(true, make), trained(false, make))); };
  check([] { return SingleDevice{cuda}; });
  check([] { return Captured{SingleDevice{cuda}}; });
}

TEST_CASE("a GPU whose memory ends in a fit: one exception that is known as such, and the next fit runs", "[tuner]") {
  if (absent()) SKIP(none);
  auto all = loader();
  all.set_batch_size(4096);
  Wide net;
  auto const fit = [&](auto strategy) {
    auto trainer = make_trainer<Wide>({.max_steps = 2}, strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(net, all);
  };
  {
    Memory const limited(2e9);
    for (int i = 0; i != 2; ++i) {
      try {
        i == 0 ? fit(SingleDevice{cuda}) : fit(Captured{SingleDevice{cuda}});
        FAIL("there was enough memory");
      } catch (std::exception const& error) {
        INFO(error.what());
        CHECK(LibTorch::out_of_memory(error));
      }
      for (auto const& weight : net.parameters()) CHECK(weight.is_cpu());
    }
  }
  all.set_batch_size(8);
  fit(Captured{SingleDevice{cuda}});
}

TEST_CASE("on a GPU training after a search has the bits of a run that never searched", "[tuner]") {
  if (absent()) SKIP(none);
  using searched::Optimizer;
  auto const on_cuda = [] { return SingleDevice{cuda}; };
  auto const graphs = [] { return Captured{SingleDevice{cuda}}; };
  CHECK(searched::traces<Optimizer::ours>(on_cuda, Float32{}, searched::shuffled) == 0);
  CHECK(searched::traces<Optimizer::torch>(on_cuda, Bf16Mixed{}, searched::with_workers) == 0);
  CHECK(searched::traces<Optimizer::ours>(on_cuda, Fp16Mixed{}, searched::shuffled) == 0);
  CHECK(searched::traces<Optimizer::ours>(graphs, Float32{}, searched::shuffled) == 0);
}

TEST_CASE("what the allocator of a GPU holds is told, and given back") {
  if (absent()) SKIP(none);
  at::Device const device(at::kCUDA, 0);
  { auto const held = torch::zeros({1 << 20}, torch::kCUDA); }
  auto const value = [&](std::string const& name) {
    for (auto const& [known, number] : libtorch::device_stats(device))
      if (known == name) return number;
    return -1.0;
  };
  CHECK(value("reserved_bytes.all.current") > 0);
  CHECK(value("allocated_bytes.all.peak") >= 4e6);
  libtorch::restart_peak_memory(device);
  double const before = value("allocated_bytes.all.current");
  { auto const held = torch::zeros({1 << 20}, torch::kCUDA); }
  CHECK(libtorch::peak_memory(device).value_or(0) >= before + 4e6);
  CHECK(value("allocated_bytes.all.current") == before);
  libtorch::free_caches(device);
  CHECK(value("reserved_bytes.all.current") >= before);
  CHECK(value("num_ooms") >= 0);
}

#endif
