#pragma once
// What the units about a real GPU share: whether there is one, batches, a net, and how often the host waits for it.
// Where there is no GPU their cases are skipped.

#include "fixtures.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace gpu {

using namespace fulgurite;
namespace F = torch::nn::functional;

inline bool absent() { return !torch::cuda::is_available(); }
constexpr char const* none = "there is no GPU";

inline std::vector<data::Batch> batches(int n, int rows, int last = 0, std::uint64_t seed = 11) {
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) {
    int const here = i == n - 1 && last != 0 ? last : rows;
    all.push_back({torch::randn({here, 6}, generator), torch::randint(0, 3, {here}, generator, torch::kLong)});
  }
  return all;
}
inline std::vector<data::Batch> on_gpu(std::vector<data::Batch> all) {
  for (auto& batch : all) batch = {batch.data.cuda(), batch.target.cuda()};
  return all;
}

/// Batch norm, dropout: buffers and random numbers of the GPU.
template <class Optimizer>
struct Net : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<loss, val_loss>;
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16), torch::nn::Tanh(),
                                    torch::nn::Dropout(0.3), torch::nn::Linear(16, 3)));
  int ran = 0;  ///< how often the step's code did
  std::vector<torch::Tensor> losses = {};

  torch::Tensor forward(torch::Tensor const& x) { return body->forward(x); }
  torch::Tensor loss_of(data::Batch const& batch) { return F::cross_entropy(forward(batch.data), batch.target); }
  torch::Tensor training_step(data::Batch const& batch, auto& ctx) {
    ++ran;
    auto value = loss_of(batch);
    ctx.log(loss, value);
    return value;
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { losses.push_back(outputs.loss); }
  void validation_step(data::Batch const& batch, auto& ctx) { ctx.log(val_loss, loss_of(batch)); }
  void test_step(data::Batch const& batch, auto& ctx) { ctx.log(val_loss, loss_of(batch)); }
  torch::Tensor predict_step(data::Batch const& batch) { return forward(batch.data); }
  auto configure_optimizers() {
    if constexpr (std::is_base_of_v<torch::optim::Optimizer, Optimizer>) return Optimizer(this->parameters(), 0.01);
    else
      return scheduled(Optimizer(*this, {.lr = 0.01}), schedule::Cosine{.total = 60},
                       ScheduleOptions{.interval = Interval::step});
  }
};
using Ours = Net<optim::AdamW>;

template <class Model>
Model fresh() {
  torch::manual_seed(3);
  return Model{};
}

inline bool same(std::vector<torch::Tensor> const& a, std::vector<torch::Tensor> const& b) {
  bool equal = a.size() == b.size();
  for (std::size_t i = 0; equal && i != a.size(); ++i) equal = fixtures::same_bits(a[i], b[i]);
  return equal;
}
inline bool same(torch::nn::Module const& a, torch::nn::Module const& b) {
  return same(a.parameters(), b.parameters()) && same(a.buffers(), b.buffers());
}
/// The largest difference between two lists of tensors.
inline double apart(std::vector<torch::Tensor> const& a, std::vector<torch::Tensor> const& b) {
  double most = a.size() == b.size() ? 0 : 1e300;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (a[i].numel() != 0)
      most = std::max(
          most,
          (a[i].detach().cpu().to(torch::kDouble) - b[i].detach().cpu().to(torch::kDouble)).abs().max().item<double>());
  return most;
}

/// What a fit leaves: weights and buffers, losses, and the next random numbers of both generators.
struct Left {
  std::vector<torch::Tensor> weights = {}, losses = {}, random = {};
  int ran = 0;
};
template <class Model, class Strategy, class Precision = Float32>
Left left_by(Strategy strategy, std::vector<data::Batch> const& train, Automatic how = {}, int epochs = 1,
             Precision precision = {}, auto... callbacks) {
  auto model = fresh<Model>();
  torch::manual_seed(5);
  auto trainer = make_trainer<Model>({.max_epochs = epochs, .log_every_n_steps = 1}, strategy, precision, how,
                                     callbacks..., NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  Left left{model.parameters(), model.losses, {torch::rand({4}), torch::rand({4}, torch::kCUDA)}, model.ran};
  for (auto const& buffer : model.buffers()) left.weights.push_back(buffer);
  return left;
}
inline bool same(Left const& a, Left const& b) {
  return same(a.weights, b.weights) && same(a.losses, b.losses) && same(a.random, b.random);
}
inline std::string all_of(std::vector<std::string> const& lines) {
  std::string text;
  for (auto const& line : lines) text += line + "\n";
  return text;
}

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
/// Counts how often the host waits for the GPU while this lives, by LibTorch's own warnings.
class Waits : public c10::WarningHandler {
 public:
  Waits() : guard_(this), mode_(c10::cuda::warning_state().get_sync_debug_mode()) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  ~Waits() override { c10::cuda::warning_state().set_sync_debug_mode(mode_); }
  Waits(Waits const&) = delete;
  Waits& operator=(Waits const&) = delete;
  void process(c10::Warning const& warning) override {
    count += warning.msg().find("synchronizing CUDA operation") != std::string::npos;
  }
  long count = 0;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_;
  c10::cuda::SyncDebugMode mode_;
};
#endif

}  // namespace gpu
