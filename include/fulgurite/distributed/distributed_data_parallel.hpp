#pragma once
// The strategy of several processes that each have the whole model and train it on their own batches:
// DistributedDataParallel{.devices = 2}.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/known.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/distributed/gradients.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/layers_across_ranks.hpp>
#include <fulgurite/distributed/numbers.hpp>
#include <fulgurite/distributed/processors.hpp>
#include <fulgurite/distributed/replica.hpp>
#include <fulgurite/distributed/shared_statistics.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/matmul.hpp>
#include <fulgurite/torch/data/move.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/current_device.hpp>
#include <fulgurite/torch/device/relocate.hpp>
#include <fulgurite/torch/native/products.hpp>

namespace fulgurite {

/// How the gradients travel.
enum class Compression : std::uint8_t { none, bf16 };

namespace distributed {
/// What a strategy keeps during a fit. A copy of the strategy begins with nothing.
struct FitState {
  Replica replica = {};
  std::unique_ptr<GradientExchange> gradients = {};
  std::optional<AsBytes> buffers = std::nullopt;
  std::unique_ptr<LayersAcrossRanks> layers = {};
  Group* group = nullptr;                           ///< once a run has begun
  std::optional<at::Device> device = std::nullopt;  ///< likewise
  int unsynchronized = 0;                           ///< scopes that are open
  bool exchanges_next = true;                       ///< gradients are asked for after the next backward
  bool as_written = true;                           ///< steps are no recordings

  FitState() = default;
  FitState(FitState const&) : FitState() {}
  FitState(FitState&&) noexcept = default;
  FitState& operator=(FitState const&) { return *this = FitState(); }
  FitState& operator=(FitState&&) noexcept = default;
};

/// While it lives, gradients stay where they are made.
class Unsynchronized {
 public:
  Unsynchronized(FitState& state, bool on) : state_(on ? &state : nullptr) {
    if (state_) ++state_->unsynchronized;
  }
  ~Unsynchronized() {
    if (state_) --state_->unsynchronized;
  }
  Unsynchronized(Unsynchronized&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Unsynchronized& operator=(Unsynchronized&&) = delete;

 private:
  FitState* state_;
};
}  // namespace distributed

/// Each process computes the gradients of its own batch; before an update they become the mean over all of them, so
/// that k processes with batches of b samples take the step of one with k * b. A window of several batches is exchanged
/// once.
///
/// Under torchrun, srun or mpirun, which say how many processes there are, each is one of them. Else the program itself
/// starts ranks 1 to devices - 1, as itself with the same arguments, when its first run begins: main() then runs in
/// each of them from its first line, so it has to do the same in all, and what only one may do asks for `rank()`.
///
/// An aggregate; all has a default. Errors are thrown before anything is started where they can be.
struct DistributedDataParallel {
  Collectives backend = Collectives::by_device;
  int devices =
      0;  ///< processes on this machine; 0: as many as the launcher started, else one (nccl: one for each GPU)
  int num_nodes = 0;                            ///< machines; 0: as many as the launcher used
  Compression compression = Compression::none;  ///< bf16: half the bytes, gradients rounded to 8 bits
  double bucket_cap_mb = 1;            ///< of gradients that travel while backward goes on; 0: all in one, after it
  bool broadcast_buffers = true;       ///< after each step all ranks have the buffers of rank 0
  bool find_unused_parameters = true;  ///< false: one that a step of this rank does not use is an Error by its name
  bool static_graph = false;  ///< all steps use the parameters that the first one used: no bucket waits for the others
  bool sync_batchnorm = false;  ///< every batch norm has to be a SyncBatchNorm: an Error names one that is not
  OtherRanks others = OtherRanks::prefixed;
  std::chrono::milliseconds timeout = std::chrono::minutes(2);  ///< for a rank that does not come, or prepares data
  Matmul matmul = Matmul::faster;                               ///< of the CPU, as in SingleDevice
  distributed::MakeEngine engine = nullptr;                     ///< a c10d backend of yours in place of gloo

  distributed::FitState fit = {};  ///< not to be set

  using Backend = LibTorch;
  using Stateless = ByChoice;
  static constexpr Known on_gpu = Known::at_run_time;
  static constexpr bool is_distributed = true;
  static constexpr bool captures = false;

  // Known before the group is made: loggers and files ask early.
  int rank() const { return distributed::launched_place() ? distributed::launched_place()->rank : 0; }
  int local_rank() const { return distributed::launched_place() ? distributed::launched_place()->local_rank : 0; }
  int world() const { return fit.group ? fit.group->place().world : options().place().world; }

  bool is_on_gpu() const { return fit.device ? fit.device->is_cuda() : !engine && options().uses_nccl(); }
  at::Device device() const {
    if (fit.device) return *fit.device;
    if (!is_on_gpu()) return at::Device(at::kCPU);
    return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(local_rank()));
  }

  /// All ranks have the same model from here on: their names, types and shapes are compared, and the values are those
  /// of rank 0.
  template <class Model, class Precision>
  void setup(Model& model, Precision const&) {
    if (!(bucket_cap_mb >= 0))
      throw Error("fulgurite.distributed.options",
                  "bucket_cap_mb is a size in MiB, or 0 for one exchange after backward");
    if (sync_batchnorm) distributed::require_synchronized_norms(model);
    if (is_on_gpu()) distributed::require_nccl(options().place().local_world);
    bool const compresses = compression == Compression::bf16;
    auto const parameters = libtorch::scalar_type(Precision::parameters);
    distributed::require_counts(compresses ? at::kBFloat16 : parameters, options().place().world);
    auto& group = *(fit.group = &distributed::Group::of(options()));
    fit.device = device();
    libtorch::make_current(device());
    distributed::share_processors();
    fit.gradients = std::make_unique<distributed::GradientExchange>(
        compresses, bucket_cap_mb, distributed::PromisedUse{!find_unused_parameters, static_graph});
    fit.exchanges_next = fit.as_written = true;
    fit.buffers.reset();
    libtorch::relocate(model, device(), parameters);
    fit.replica.take(group, model);
    fit.layers.reset();  // before others are connected: where it goes, it disconnects
    fit.layers = std::make_unique<distributed::LayersAcrossRanks>(group, model);
    if (broadcast_buffers && !fit.replica.buffers().empty()) fit.buffers.emplace(fit.replica.buffers());
  }
  template <class Model>
  void teardown(Model& model) {
    fit.gradients.reset();
    fit.buffers.reset();
    fit.layers.reset();
    fit.unsynchronized = 0;
    libtorch::relocate(model, at::Device(at::kCPU), std::nullopt);
  }

  template <class B>
  static constexpr bool moves = !libtorch::is_opaque<B>;
  template <class B>
  decltype(auto) move(B&& batch) const {
    return libtorch::moved(std::forward<B>(batch), device());
  }

  template <class Batch, class Board, class Body>
  auto gradients(StepKey key, Batch& batch, Board&, Body&& body) {
    auto const products = matmul_scope();
    fit.exchanges_next = key.closes;
    return body(batch);
  }
  std::optional<MatmulScope> matmul_scope() const {
    return is_on_gpu() ? std::nullopt : std::optional<MatmulScope>(std::in_place, matmul);
  }
  void backward(at::Tensor const& loss, at::Tensor const& seed) {
    bool const overlaps = fit.as_written && fit.exchanges_next && syncs();
    if (overlaps) fit.gradients->backward(group(), [&] { loss.backward(seed); });
    else loss.backward(seed);
  }
  template <class Optimizer>
  void flush(Optimizer& optimizer, double scale) {
    Backend::scale_gradients(optimizer.parameters(), scale);
  }

  /// Once a step, before anything reads its gradients. `optimizers`: a tuple of all of the fit. `riders`, whole
  /// numbers whose sum is at most `world`, become their sums in the same all-reduce.
  template <class Optimizers>
  void reduce_gradients(std::span<double> riders, Optimizers& optimizers) {
    fit.gradients->mean(group(), fit.replica, riders, optimizers);
    if (fit.buffers) fit.buffers->broadcast(group(), "buffers of rank 0");
  }
  /// While the returned object lives, `syncs()` is false, and the loops leave gradients where they are.
  [[nodiscard]] distributed::Unsynchronized no_sync(bool on) { return {fit, on}; }
  bool syncs() const { return fit.unsynchronized == 0; }

  /// After a pass over the training data that batch norms took their statistics from: they become those of all ranks.
  template <class Model>
  void share_statistics(Model& model) const {
    distributed::share_statistics(group(), model);
  }

  // What all ranks decide together; every one of these is a collective.
  bool agree(bool any) const { return distributed::agree(group(), any); }
  template <class V>
  V reduce(V value, Reduce how) const {
    return distributed::reduce(group(), value, how);
  }
  void reduce_in_place(std::span<double> values, std::span<Reduce const> how) const {
    distributed::reduce_in_place(group(), values, how);
  }
  std::string broadcast(std::string bytes, int from = 0) const {
    return group()
        .exchange(rank() == from ? std::string_view(bytes) : std::string_view(), "broadcast")
        .at(static_cast<std::size_t>(from));
  }
  std::vector<std::string> gather(std::string const& bytes) const { return group().exchange(bytes, "gather"); }
  void barrier(std::string_view what) const { group().exchange({}, what); }

  /// Tells the others that this rank's run has failed: their next collective throws.
  void abort(std::string_view text) const {
    if (distributed::Group::is_open()) group().abort(text);
  }

  /// What describe(trainer) prints of a strategy's work.
  std::vector<std::string> account() const {
    std::vector<std::string> lines;
    if (!is_on_gpu()) lines = libtorch::native::products_account(matmul);
    if (distributed::Group::is_open()) {
      auto const& traffic = group().traffic();
      lines.push_back(std::to_string(traffic.all_reduces) + " all-reduces of gradients, " +
                      std::to_string(traffic.all_reduce_bytes) + " bytes in all, " +
                      std::to_string(traffic.in_backward) + " begun in backward");
    }
    return lines;
  }
  void state(auto&) {}

  /// Of this process; the first who asks has the others started.
  distributed::Group& group() const {
    if (fit.group) return *fit.group;
    if (compression == Compression::bf16) distributed::require_counts(at::kBFloat16, options().place().world);
    return distributed::Group::of(options());
  }

 private:
  distributed::GroupOptions options() const { return {backend, devices, num_nodes, others, timeout, engine}; }
};

}  // namespace fulgurite
