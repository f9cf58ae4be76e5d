#pragma once
// The strategy of several processes that each have the whole model and train it on their own batches:
// DistributedDataParallel{.devices = 2}.

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/distributed/connection.hpp>
#include <fulgurite/distributed/gradients.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>
#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/optim/arena_layout.hpp>
#include <fulgurite/torch/weights/averaging.hpp>

namespace fulgurite {

/// The element type in which gradients are sent.
enum class Compression : std::uint8_t { none, bf16 };

namespace distributed {

// The layers of a model that communicate with the same layers on other ranks during a fit.

/// All SyncBatchNorms of a model.
template <class Model>
std::vector<std::shared_ptr<SyncBatchNormImpl>> synchronized_norms([[maybe_unused]] Model& model) {
  std::vector<std::shared_ptr<SyncBatchNormImpl>> all;
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    for (auto const& module : model.modules(false))
      if (auto norm = std::dynamic_pointer_cast<SyncBatchNormImpl>(module)) all.push_back(std::move(norm));
  return all;
}

/// Throws an Error that names the first batch norm that cannot be synchronized. Called if the strategy has
/// .sync_batchnorm. LibTorch's own batch norms offer no place for communication.
template <class Model>
void require_synchronized_norms([[maybe_unused]] Model& model) {
  std::string found = "the model is no torch::nn::Module, so its batch norms cannot be seen";
  if constexpr (std::derived_from<Model, torch::nn::Module>) {
    found.clear();
    for (auto const& module : model.named_modules(std::string(), false)) {
      auto const* const layer = module.value().get();
      if (!found.empty() || (dynamic_cast<torch::nn::BatchNorm1dImpl const*>(layer) == nullptr &&
                             dynamic_cast<torch::nn::BatchNorm2dImpl const*>(layer) == nullptr &&
                             dynamic_cast<torch::nn::BatchNorm3dImpl const*>(layer) == nullptr))
        continue;  // a class of the user's own may derive from SyncBatchNorm
      auto const kind = layer->name();
      found = "'" + module.key() + "' is a " + kind.substr(0, kind.rfind("Impl")) +
              ", which sees its own rank's batch alone";
    }
  }
  if (!found.empty())
    throw Error("fulgurite.distributed.sync_batchnorm",
                ".sync_batchnorm is on, and " + found +
                    ": declare batch norms as fulgurite::SyncBatchNorm (the same options, and the same weights in "
                    "files), or remove .sync_batchnorm");
}

/// While this object lives, the layers of a model have access to their group.
class LayersAcrossRanks : Pinned {
 public:
  LayersAcrossRanks(Group& group, std::vector<std::shared_ptr<SyncBatchNormImpl>> norms);
  ~LayersAcrossRanks();

 private:
  std::vector<std::shared_ptr<SyncBatchNormImpl>> norms_;
};

// Combines the running statistics of batch norms, which each rank has computed from its own batches.

/// Gives all ranks the statistics that one process with the batches of all ranks would have, if statistics are means
/// over batches: each rank's count as often as it has seen batches. Summed in float64 in the order of ranks, so that
/// all have the same bits. A SyncBatchNorm already has the statistics of all ranks, and one in eval mode has not
/// computed any. A collective.
template <class Model>
void share_statistics([[maybe_unused]] Group& group, [[maybe_unused]] Model& model) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) {
    at::NoGradGuard const no_graph;
    std::vector<at::Tensor> statistics, counts, mine;
    libtorch::each_batch_norm(model, [&](auto const& norm) {
      if (std::is_same_v<typename std::remove_cvref_t<decltype(norm)>::element_type, SyncBatchNormImpl>) return;
      auto const batches = norm->num_batches_tracked.to(norm->running_mean.device(), at::kDouble);
      for (auto const& one : {norm->running_mean, norm->running_var}) {
        statistics.push_back(one);
        mine.push_back(one.to(at::kDouble) * batches);
      }
      counts.push_back(norm->num_batches_tracked);
      mine.push_back(batches.reshape({1}));
    });
    if (mine.empty() || group.place().world == 1) return;
    auto const all = group.stack(at::cat(mine), "combining statistics of batch norms");
    auto const sum = all[0].clone();
    for (std::int64_t rank = 1; rank != all.size(0); ++rank) sum.add_(all[rank]);
    std::int64_t at = 0;
    for (std::size_t i = 0; i != counts.size(); ++i) {
      auto const size = statistics[2 * i].numel();
      auto const batches = sum[at + 2 * size];
      if (batches.item<double>() != 0)
        for (auto const k : {0, 1})
          statistics[2 * i + static_cast<std::size_t>(k)].copy_(sum.narrow(0, at + k * size, size) / batches);
      counts[i].copy_(batches);
      at += 2 * size + 1;
    }
  }
}

/// What a strategy keeps during a fit. A copy of the strategy starts without it.
struct FitState {
  Replica replica = {};
  std::unique_ptr<GradientExchange> gradients = {};
  std::optional<AsBytes> buffers = std::nullopt;
  std::unique_ptr<LayersAcrossRanks> layers = {};
  Group* group = nullptr;                           ///< set once a run has begun
  std::optional<at::Device> device = std::nullopt;  ///< set once a run has begun
  int unsynchronized = 0;                           ///< number of open no_sync scopes
  bool exchanges_next = true;                       ///< the gradients of the next backward will be exchanged
  bool as_written = true;                           ///< false if steps are recorded by Captured

  FitState() = default;
  FitState(FitState const&) : FitState() {}
  FitState(FitState&&) noexcept = default;
  FitState& operator=(FitState const&) { return *this = FitState(); }
  FitState& operator=(FitState&&) noexcept = default;
};

/// Ends such a scope.
struct ExchangesAgain {
  void operator()(FitState* state) const { --state->unsynchronized; }
};
/// While this object lives, gradients are not exchanged, unless it is null.
using Unsynchronized = std::unique_ptr<FitState, ExchangesAgain>;
}  // namespace distributed

/// Data-parallel training: each process computes the gradients of its own batch, and before an update they are replaced
/// by their mean over all processes. So k processes with batches of b samples take the step of one process with k * b.
/// An accumulation window is exchanged once. Use it with:
///
///     auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 5}, DistributedDataParallel{.devices = 2});
///
/// Under torchrun, srun or mpirun, which set the number of processes, each process is one rank. Otherwise the program
/// itself starts ranks 1 to devices - 1 when its first run begins, as further processes of itself with the same
/// arguments. main() then runs in each of them from its first line, so it must do the same in all; code for one process
/// only checks `rank() == 0`.
///
/// An aggregate in which everything has a default. Errors are thrown before a process is started if possible.
struct DistributedDataParallel {
  Collectives backend = Collectives::by_device;  ///< the library that sums gradients
  int devices =
      0;  ///< processes on this machine; 0: as many as the launcher started, else one (nccl: one for each GPU)
  int num_nodes = 0;                            ///< machines; 0: as many as the launcher used
  Compression compression = Compression::none;  ///< bf16: half the bytes, gradients rounded to 8 bits
  double bucket_cap_mb = 1;                   ///< MiB of gradients sent at once during backward; 0: all after backward
  bool broadcast_buffers = true;              ///< after each step all ranks get rank 0's buffers
  bool find_unused_parameters = true;         ///< false: Error if a step does not use one
  bool static_graph = false;                  ///< all steps use the same parameters as the first
  bool sync_batchnorm = false;                ///< true: Error if a batch norm is no SyncBatchNorm
  OtherRanks others = OtherRanks::prefixed;   ///< what is done with the output of the other processes
  Timeout timeout = std::chrono::minutes(2);  ///< wait for a missing rank, or one that prepares data
  Matmul matmul = Matmul::faster;             ///< the library for matrix products on the CPU, as in SingleDevice
  distributed::MakeEngine engine = nullptr;   ///< makes a custom c10d backend in place of gloo

  distributed::FitState fit = {};  ///< internal; do not set

  using Backend = LibTorch;
  using Stateless = ByChoice;
  static constexpr Known on_gpu = Known::at_run_time;
  static constexpr bool is_distributed = true;
  static constexpr bool captures = false;

  // These work before the group is made, since loggers and files need them early.
  int rank() const { return distributed::launched_rank(); }
  int local_rank() const { return distributed::launched_local_rank(); }
  int world() const;

  bool is_on_gpu() const;
  at::Device device() const;

  /// Makes the model the same on all ranks: compares names, types and shapes, and gives all ranks the values of rank 0.
  template <class Model, class Precision>
  void setup(Model& model, Precision const&) {
    if (!(bucket_cap_mb >= 0))
      throw Error("fulgurite.distributed.options",
                  "bucket_cap_mb must be a size in MiB, or 0 for one exchange after backward");
    if (sync_batchnorm) distributed::require_synchronized_norms(model);
    if (is_on_gpu()) distributed::require_nccl(options().place().local_world);
    bool const compresses = compression == Compression::bf16;
    auto const parameters = libtorch::scalar_type(Precision::parameters);
    distributed::require_counts(compresses ? at::kBFloat16 : parameters, options().place().world);
    auto& group = *(fit.group = &distributed::Group::of(options()));
    fit.device = device();
    libtorch::make_current(device());
    distributed::share_processors(group.place());
    fit.gradients = std::make_unique<distributed::GradientExchange>(
        compresses, bucket_cap_mb, distributed::PromisedUse{!find_unused_parameters, static_graph});
    fit.exchanges_next = fit.as_written = true;
    fit.buffers.reset();
    libtorch::relocate(libtorch::module_if_any(model), device(), parameters);
    fit.replica.take(group, model);
    fit.layers.reset();  // destroyed before new ones are connected, since its destructor disconnects
    fit.layers = std::make_unique<distributed::LayersAcrossRanks>(group, distributed::synchronized_norms(model));
    if (broadcast_buffers && !fit.replica.buffers().empty()) fit.buffers.emplace(fit.replica.buffers());
  }
  /// Called once the optimizers of a fit are made. Every rank calls it.
  void share_state(auto& optimizers) { fit.replica.take_others(group(), optimizers); }
  void teardown(auto& model) {
    fit.gradients.reset();
    fit.buffers.reset();
    fit.layers.reset();
    fit.unsynchronized = 0;
    libtorch::relocate(libtorch::module_if_any(model), at::Device(at::kCPU), std::nullopt);
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
  std::optional<MatmulScope> matmul_scope() const;
  void backward(at::Tensor const& loss, at::Tensor const& seed);
  void flush(auto& optimizer, double scale) { Backend::scale_gradients(optimizer.parameters(), scale); }

  /// Called once per step, before the gradients are read. `optimizers`: a tuple of all optimizers of the fit. `riders`,
  /// integers whose sum is at most `world`, are replaced by their sums in the same all-reduce.
  void reduce_gradients(std::span<double> riders, auto& optimizers) {
    fit.gradients->mean(group(), fit.replica, riders, optimizers);
    if (fit.buffers) fit.buffers->broadcast(group(), "buffers of rank 0");
  }
  /// While the returned object lives, `syncs()` is false, and the loops do not exchange gradients.
  [[nodiscard]] distributed::Unsynchronized no_sync(bool on);
  bool syncs() const { return fit.unsynchronized == 0; }

  /// Called after a pass over the training data from which batch norms computed their statistics: gives all ranks the
  /// combined statistics.
  void share_statistics(auto& model) const { distributed::share_statistics(group(), model); }

  // Decisions that all ranks take together. Each of these is a collective.
  bool agree(bool any) const;
  template <class V>
  V reduce(V value, Reduce how) const {
    return distributed::reduce(group(), value, how);
  }
  void reduce_in_place(std::span<double> values, std::span<Reduce const> how) const;
  std::string broadcast(std::string bytes, int from = 0) const;
  std::vector<std::string> gather(std::string const& bytes) const;
  void barrier(std::string_view what) const;

  /// Notifies the others that this rank's run has failed: their next collective throws.
  void abort(std::string_view text) const;

  /// The lines that describe(trainer) prints about the strategy's work.
  std::vector<std::string> account() const;
  void state(auto&) {}

  /// The group of this process. The first call starts the other processes.
  distributed::Group& group() const;

 private:
  distributed::GroupOptions options() const;
};

// DistributedDataParallel in which each process keeps a part of the optimizers' state: ZeRO's first stage.

namespace distributed {

/// Calls f(optimizer) for each optimizer of which the processes keep parts.
void each_sharded(auto& optimizers, auto&& f) {
  auto const one = [&](auto& optimizer) {
    if constexpr (requires { optimizer.drop_gathered(); }) f(optimizer);
  };
  std::apply([&](auto&... all) { (one(all), ...); }, optimizers);
}
/// Ends the scope of a WholeState.
struct DropsGathered {
  template <class Optimizers>
  void operator()(Optimizers* optimizers) const {
    each_sharded(*optimizers, [](auto& one) { one.drop_gathered(); });
  }
};
/// While this object lives, rank 0 has the whole state of a tuple's optimizers.
template <class Optimizers>
using WholeState = std::unique_ptr<Optimizers, DropsGathered>;

}  // namespace distributed

/// DistributedDataParallel with the optimizers' state distributed over the processes. Use it if the state is too large
/// for each process to keep all of it:
///
///     auto trainer = make_trainer<Net>(options, ShardedDataParallel{{.devices = 2}});
///
/// Each of k processes keeps one k-th of the state, updates the parameters of that part, and receives the other
/// parameters. Steps, files and possible errors are the same as with DistributedDataParallel, to the bit; parameters
/// are sent in addition to gradients.
///
/// Weights and gradients are whole in each process, so clipping, hooks and callbacks see all of them. A file has all of
/// the state, and can be resumed by any number of processes, with this strategy or another. Needs optimizers of
/// fulgurite::optim other than LBFGS.
struct ShardedDataParallel : DistributedDataParallel {
  static constexpr bool shards_state = true;

  /// Called once the optimizers of a fit are made, before they have state. Every rank calls it.
  void share_state(auto& optimizers) {
    DistributedDataParallel::share_state(optimizers);
    auto& all = group();
    auto const one = [&](auto& optimizer) {
      if constexpr (requires { optimizer.kept_numbers(); }) {
        optimizer.keep_part({rank(), world(), [&all](at::Tensor const& flat) {
                               if (flat.numel() != 0) all.all_gather(flat, "gathering parts of all ranks");
                             }});
      }
    };
    std::apply([&](auto&... each) { (one(each), ...); }, optimizers);
  }
  /// While the returned object lives, rank 0 has the optimizers' whole state, for a file. Every rank calls it.
  template <class Optimizers>
  [[nodiscard]] distributed::WholeState<Optimizers> whole_state(Optimizers& optimizers) {
    distributed::each_sharded(optimizers, [&](auto& one) { one.gather_state(rank() == 0); });
    return distributed::WholeState<Optimizers>(&optimizers);
  }

  /// The lines that describe(trainer) prints about the strategy's work.
  std::vector<std::string> account() const;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/distributed_data_parallel.ipp>
#endif
