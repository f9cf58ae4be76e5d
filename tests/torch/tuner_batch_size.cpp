// Batch sizes tried out on LibTorch: what says that memory has ended, and that training goes on as if nothing had been.
#include "fixtures.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <fulgurite/fulgurite.hpp>

namespace {
using namespace fulgurite;

/// A small network that draws for its dropout.
struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 1));
  torch::Tensor training_step(auto const& batch) {
    auto const hidden = torch::dropout(torch::relu(norm->forward(in->forward(batch.data))), 0.3, is_training());
    return torch::mse_loss(out->forward(hidden), batch.target);
  }
  auto configure_optimizers() { return optim::AdamW(parameters(), {.lr = 1e-2}); }
};
data::TensorLoader<> loader(long batch_size) {
  torch::manual_seed(5);
  auto const x = torch::randn({100, 4});
  return {x, x.sum(1, true), {.batch_size = batch_size, .shuffle = true, .seed = 7}};
}

/// All weights after two fits, with a search before each of them or without.
template <class Strategy>
std::vector<torch::Tensor> trained(bool searches, Strategy strategy) {
  auto all = loader(16);
  torch::manual_seed(1);
  Net net;
  auto trainer =
      make_trainer<Net>({.max_epochs = 2}, strategy, Float32{}, Automatic{.accumulate_grad_batches = 2}, NoDefaults{});
  auto const search = [&] {
    if (!searches) return;
    auto const found = tune::scale_batch_size(trainer, net, all, {.show = false});
    CHECK(found.size == 100);
    CHECK(all.batch_size() == 100);
    CHECK(found.trials.size() == 7);
    for (auto const& trial : found.trials) CHECK(trial.peak_bytes.value_or(0) > 1e6);
    all.set_batch_size(16);
  };
  search();
  trainer.fit(net, all);
  search();
  trainer.set_options({.max_epochs = 4});
  trainer.fit(net, all);
  auto weights = fixtures::copied_weights(net);
  weights.push_back(torch::rand({3}));
  return weights;
}

/// Two megabytes for each row, some times over.
struct Large : torch::nn::Module {
  torch::Tensor w = register_parameter("w", torch::ones({1}));
  torch::Tensor training_step(auto const& batch) {
    return (w * torch::ones({batch.data.size(0), 1 << 19})).square().mean() + batch.data.mean() * 0;
  }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};

}  // namespace

TEST_CASE("training after a search for a batch size has the bits of one that never searched", "[tuner]") {
  auto const same = [](auto strategy) {
    auto const searched = trained(true, strategy), never = trained(false, strategy);
    REQUIRE(searched.size() == never.size());
    for (std::size_t i = 0; i != never.size(); ++i) CHECK(fixtures::same_bits(searched[i], never[i]));
  };
  same(SingleDevice{cpu});
  same(Captured{SingleDevice{cpu}});
}

TEST_CASE("LibTorch's words for memory that has ended are known", "[tuner]") {
  std::string said;
  try {
    torch::empty({std::int64_t{1} << 46});
  } catch (std::exception const& error) {
    said = error.what();
    CHECK(LibTorch::out_of_memory(error));
  }
  CHECK(said.find("DefaultCPUAllocator: can't allocate memory") != said.npos);
  CHECK(LibTorch::out_of_memory(c10::OutOfMemoryError({"f", "g", 1}, "anything")));
  for (char const* words :
       {"CUDA out of memory. Tried to allocate 20.00 GiB.", "CUDA error: out of memory\nCUDA kernel errors might",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"})
    CHECK(LibTorch::out_of_memory(std::runtime_error(words)));
  for (char const* words : {"mat1 and mat2 shapes cannot be multiplied (64x3 and 4x8)",
                            "CUDA error: device-side assert triggered", "a file about memory"})
    CHECK_FALSE(LibTorch::out_of_memory(std::runtime_error(words)));
}

// Run by the case below in a process of its own.
TEST_CASE("within a limit of memory", "[.limited]") {
  torch::set_num_threads(1);
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  auto const now = static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  // Threads that start during the search reserve addresses, too: up to 128 MB each for their memory, and their stacks.
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = now + (512U << 20);
  REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  data::TensorLoader all{torch::zeros({2000, 1}), torch::zeros({2000}), {.batch_size = 4}};
  Large net;
  auto trainer = make_trainer<Large>({.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  auto const found = tune::scale_batch_size(trainer, net, all, {.mode = tune::binsearch, .show = false});
  CHECK(found.trials.front().fits);
  bool ended = false;
  for (auto const& trial : found.trials) ended = ended || !trial.fits;
  CHECK(ended);
  CHECK(found.size >= 8);
  CHECK(found.size <= 128);
  CHECK(net.w.item<float>() == 1);
  // So much again for a thread that starts now: the search tells what tensors of a step take, not of addresses.
  limit.rlim_cur += 128U << 20;
  REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  trainer.set_options({.max_steps = 2});
  trainer.fit(net, all);
  CHECK(trainer.progress().global_step == 2);
}

TEST_CASE("a process with little memory finds the batch size that fits, and trains with it", "[tuner]") {
  if (fixtures::under_address_sanitizer) SKIP("the sanitizer takes more addresses than any limit");
  CHECK(fixtures::status_alone("[.limited]") == 0);
}
