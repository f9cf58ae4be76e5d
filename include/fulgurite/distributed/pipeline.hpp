#pragma once
// The strategy of several processes that each run a part of one model: Pipeline{.micro_batches = 8, .devices = 2}.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
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
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/distributed/connection.hpp>
#include <fulgurite/distributed/gradients.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>
#include <fulgurite/distributed/stages.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::distributed {

// Runs the stages of one process: activations from the previous process go through them to the next one, and gradients
// come back.

/// Keeps the input and output of a micro batch between its `forward` and `backward`.
class StageRunner final : public StageRun {
 public:
  StageRunner(Group& group, torch::nn::Module const& model, std::vector<NamedStage> own);
  StageRunner(StageRunner const&) = delete;
  StageRunner& operator=(StageRunner const&) = delete;
  ~StageRunner();
  bool is_first() const;
  bool is_last() const;

  /// Begins a batch with this number of micro batches.
  void begin(int micro_batches);
  /// Calls step(), in which `through_stages` does this process's part. Returns true if step() ran to its end.
  /// `fingerprint`: the batch's, which must be the same on all processes.
  template <class Step>
  bool forward(int micro_batch, std::int64_t fingerprint, Step&& step) {
    at_ = micro_batch;
    fingerprint_ = fingerprint;
    has_run_ = false;
    struct Scope {
      bool& in_step;
      ~Scope() { in_step = false; }
    } const scope{in_step_};
    in_step_ = true;
    try {
      step();
    } catch (StagesEnd) { return false; }
    if (has_run_ && !is_last())
      throw Error("fulgurite.pipeline.caught",
                  "a step has caught, by catch (...), the exception by which through_stages(model, x) ends it on all "
                  "processes but the last, and continued without an output: catch std::exception instead, which that "
                  "exception is not");
    if (!has_run_)
      throw Error("fulgurite.pipeline.unused", "a step did not call through_stages(model, x), so no stage has run: a "
                                               "model for Pipeline calls it in the forward of each of its steps");
    return true;
  }
  /// Computes the gradients of this process's part of a micro batch. On the last process, backward has already been run
  /// from the loss.
  void backward(int micro_batch);
  /// Waits until everything that was sent has arrived.
  void finish();

  std::vector<std::string> account() const;

  /// Called by through_stages, as is `run`.
  bool is_in_step(torch::nn::Module const& model) const override;
  at::Tensor run(at::Tensor x) override;

 private:
  // The header that is sent before activations.
  struct Field {
    enum At : std::size_t { batch, micro_batch, type, wants_gradient, dimensions, first_size };
  };
  static constexpr std::size_t most_dimensions = 10;
  using Header = std::array<std::int64_t, Field::first_size + most_dimensions>;

  static at::Tensor room_for_header();
  void send(at::Tensor const& output);
  at::Tensor receive();

  struct Kept {
    at::Tensor input = {}, output = {};
  };

  Group* group_;
  torch::nn::Module const* model_;
  std::vector<NamedStage> own_;
  std::optional<Channel> from_before_ = {}, to_before_ = {}, to_next_ = {}, from_next_ = {};
  std::vector<Kept> kept_ = {};
  int at_ = 0;
  std::int64_t fingerprint_ = 0;
  bool in_step_ = false, has_run_ = false;
  bool has_trained_ = false;  ///< true once the processes' weights differ
};

// Clips by the norm of gradients of which each process has a part.

/// Like libtorch::clip_norm, over the parts of all ranks in their order. The bits are those of one process that has all
/// parameters in that order. Gradients must be on the CPU.
template <class Parameters>
at::Tensor clip_split_norm(Group& group, Parameters const& parameters, double limit) {
  libtorch::Gradients const gradients(parameters);
  std::string mine;
  if (!gradients->empty()) {
    auto const norms = at::stack(libtorch::norms_of(parameters, *gradients)).to(at::kDouble);
    mine.assign(static_cast<char const*>(norms.const_data_ptr()), norms.nbytes());
  }
  std::string all;
  for (auto const& said : group.exchange(mine, "norms of all stages")) all += said;
  if (all.empty()) return at::zeros({});
  auto const count = static_cast<std::int64_t>(all.size() / sizeof(double));
  auto norms = at::empty({count}, at::TensorOptions().dtype(at::kDouble));
  std::memcpy(norms.mutable_data_ptr(), all.data(), all.size());
  auto const type = gradients->empty() ? at::kFloat : gradients->front().scalar_type();
  auto const norm = count == 1 ? norms.to(type).view({}) : at::linalg_vector_norm(norms.to(type), 2);
  auto const factor = libtorch::factor_now(norm, limit);
  if (!factor) {
    for (auto& gradient : *gradients) gradient.mul_(libtorch::factor_of(norm, limit));
  } else if (*factor != 1.0) {
    for (auto& gradient : *gradients) gradient.mul_(*factor);
  }
  return norm;
}

// What a pipeline keeps during a fit, and how it processes a batch.

/// What the strategy keeps during a fit. A copy of the strategy starts without it.
struct PipelineState {
  ModelParts parts = {};
  std::unique_ptr<StageRunner> runner = nullptr;
  std::vector<std::string> account = {};  ///< the account of the previous run
  Group* group = nullptr;
  bool has_failed = false;
  bool has_all_gradients = true;  ///< a file inside an accumulation window was written or may have been loaded

  PipelineState() = default;
  PipelineState(PipelineState const&) : PipelineState() {}
  PipelineState(PipelineState&&) noexcept = default;
  PipelineState& operator=(PipelineState const&) { return *this = PipelineState(); }
  PipelineState& operator=(PipelineState&&) noexcept = default;

  /// Runs forward and backward of all micro batches of a batch. Returns their mean loss on the last process.
  template <class Batch, class Step>
  double take(Batch& batch, int micro_batches, PipelineSchedule schedule, Step& step) {
    auto parts_of_batch = micro_batches_of(batch, micro_batches);
    auto const fingerprint = fingerprint_of(batch);
    auto const count = static_cast<int>(parts_of_batch.size());
    std::vector<at::Tensor> losses(parts_of_batch.size());
    double sum = 0;
    runner->begin(count);
    auto const& place = group->place();
    for (auto const& [kind, at] : pipeline_actions(schedule, place.rank, place.world, count)) {
      auto const i = static_cast<std::size_t>(at);
      if (kind == PipelineAction::Kind::forward) {
        runner->forward(at, fingerprint, [&] { losses[i] = step.forward(parts_of_batch[i]); });
        continue;
      }
      if (runner->is_last()) {
        step.backward(losses[i], count);
        sum += libtorch::read(losses[i]);
        losses[i].reset();
      }
      runner->backward(at);
    }
    runner->finish();
    return sum / count;
  }
};

}  // namespace fulgurite::distributed

namespace fulgurite {
/// Pipeline-parallel training: each process runs a part of the model, its stages, and a batch is cut into micro
/// batches, so that all processes have work. Use it for a model whose activations are too large for one machine, or
/// whose layers are too slow on one processor; if the batch is what is large, DistributedDataParallel is simpler and
/// idles less.
///
///     auto trainer = make_trainer<Net>(options, Pipeline{.micro_batches = 8, .devices = 2});
///
/// The model names its stages, and its steps call them once each by `through_stages(*this, x)` (see
/// distributed/stages.hpp). All processes read the same batches. training_step runs to its end only on the last
/// process, once for each micro batch: it returns the mean loss over the micro batch, and what it logs reaches rank 0.
/// Processes are started as with DistributedDataParallel.
///
/// The gradients are those of one process that takes the same micro batches one after another, with the bits of
/// `Automatic{.accumulate_grad_batches = micro_batches}`. Works on the CPU, with optimizers of fulgurite::optim, which
/// clip, save and resume as in one process. An aggregate.
struct Pipeline {
  int micro_batches = 4;  ///< per batch: with more micro batches, processes idle less
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  ///< the order of forward and backward passes
  std::vector<int> balance = {};  ///< stages per process; empty: by their numbers of parameters
  int devices = 0;                ///< processes on this machine; 0: as many as the launcher started, else one
  int num_nodes = 0;              ///< machines; 0: as many as the launcher used
  OtherRanks others = OtherRanks::prefixed;   ///< what is done with the output of the other processes
  Timeout timeout = std::chrono::minutes(2);  ///< wait for a missing rank, or one that prepares data
  Matmul matmul = Matmul::faster;             ///< as in SingleDevice

  distributed::PipelineState run = {};  ///< internal; do not set

  using Backend = LibTorch;
  using Stateless = ByChoice;
  static constexpr Known on_gpu = Known::no;
  static constexpr bool is_distributed = true;
  static constexpr bool captures = false;
  static constexpr bool splits_model = true;
  static constexpr bool shards_parameters = true;
  template <class Precision>
  static constexpr bool supports = !Precision::scales_loss;
  template <class Model>
  static constexpr bool splits = HasStages<Model> && std::is_base_of_v<torch::nn::Module, Model>;
  template <class Optimizer>
  static constexpr bool gathers = distributed::KeepsArena<Optimizer>;

  int rank() const;
  int local_rank() const;
  int world() const;
  bool is_on_gpu() const { return false; }
  at::Device device() const { return at::Device(at::kCPU); }

  /// Gives all processes the model of rank 0, and assigns its stages to processes.
  template <class Model, class Precision>
  void setup(Model& model, Precision const&) {
    if (micro_batches < 1)
      throw Error("fulgurite.pipeline.micro_batches",
                  ".micro_batches = " + std::to_string(micro_batches) + ": it must be at least 1");
    auto& all = *(run.group = &distributed::Group::of(options()));
    run.has_failed = false;
    run.has_all_gradients = true;
    distributed::share_processors();
    libtorch::relocate(libtorch::module_if_any(model), device(), libtorch::scalar_type(Precision::parameters));
    distributed::Replica().take(all, model);
    auto&& list = model.stages();
    auto const stages = distributed::stages_of(list);
    run.parts.share_out(model, stages, balance, world());
    run.runner = std::make_unique<distributed::StageRunner>(all, model, run.parts.of_rank(stages, rank()));
  }
  /// Gives all processes the whole model again, unless the run has failed.
  template <class Model>
  void teardown(Model& model) {
    if (run.runner) run.account = run.runner->account();
    if (std::exchange(run.runner, nullptr) && !run.has_failed) run.parts.gather(group());
    libtorch::relocate(libtorch::module_if_any(model), at::Device(at::kCPU), std::nullopt);
  }

  template <class B>
  decltype(auto) move(B&& batch) const {
    return std::forward<B>(batch);
  }
  std::optional<MatmulScope> matmul_scope() const;

  /// Runs forward and backward of all micro batches: step.forward(micro_batch) is training_step, and
  /// step.backward(loss, count) does the backward pass from its loss. Returns the mean loss, in float64.
  template <class Batch, class Board, class Step>
  at::Tensor gradients(StepKey, Batch& batch, Board&, Step& step) {
    auto const products = matmul_scope();
    return at::scalar_tensor(of_last(run.take(batch, micro_batches, schedule, step)), at::kDouble);
  }
  void backward(at::Tensor const& loss, at::Tensor const& seed) { loss.backward(seed); }
  template <class Optimizer>
  void flush(Optimizer& optimizer, double scale) {
    Backend::scale_gradients(optimizer.parameters(), scale);
  }
  /// Runs a step of an evaluation, with the batch as a whole. Returns true if this process ran it to its end.
  template <class Batch, class Step>
  bool evaluate(Batch& batch, Step&& step) {
    run.runner->begin(1);
    bool const ended = run.runner->forward(0, distributed::fingerprint_of(batch), step);
    run.runner->finish();
    return ended;
  }

  /// Each process has the gradients of its own stages and updates those only. The riders are summed. No riders means
  /// that a file is about to be written inside an accumulation window: then all processes get all gradients.
  template <class Optimizers>
  void reduce_gradients(std::span<double> riders, Optimizers& optimizers) {
    if (riders.empty()) {
      std::apply([&](auto&... one) { (run.parts.gather(group(), one, true), ...); }, optimizers);
      run.has_all_gradients = true;
      return;
    }
    bool const any_expected = std::exchange(run.has_all_gradients, false);
    std::apply([&](auto&... one) { (run.parts.keep_own_gradients(one, rank(), any_expected), ...); }, optimizers);
    distributed::fold_all(group(), riders, [](std::size_t) { return Reduce::sum; });
  }
  /// Clips over the gradients of all stages, with the bits of one process that has all of them.
  template <class Parameters>
  at::Tensor clip_norm(Parameters const& parameters, double limit) {
    return distributed::clip_split_norm(group(), parameters, limit);
  }
  /// Called before a file is written: gives all processes all weights and the whole optimizer state.
  template <class Model, class Optimizers>
  void gather(Model&, Optimizers& optimizers) {
    if (run.runner) run.parts.gather(group());
    std::apply([&](auto&... one) { (run.parts.gather(group(), one, false), ...); }, optimizers);
  }

  // Decisions that all ranks take together. Steps run to their end only on the last rank, so a sum over ranks is that
  // rank's value; what hooks have logged on all ranks counts once.
  bool agree(bool any) const;
  template <class V>
  V reduce(V value, Reduce how) const {
    return distributed::reduce(group(), value, how);
  }
  void reduce_in_place(std::span<double> values, std::span<Reduce const> how) const;
  std::string broadcast(std::string bytes, int from = 0) const;
  std::vector<std::string> gather(std::string const& bytes) const;
  void barrier(std::string_view what) const;

  /// If another rank has failed, this rank's model is left as it is.
  void on_exception(std::exception const& error, auto& /*ctx*/) {
    if (dynamic_cast<loop::RankEnded const*>(&error)) run.has_failed = true;
  }
  /// Notifies the others that this rank's run has failed: their next wait throws.
  void abort(std::string_view text);

  /// The lines that describe(trainer) prints about the strategy's work.
  std::vector<std::string> account() const;
  void state(auto&) {}

  /// The group of this process. The first call starts the other processes.
  distributed::Group& group() const;

 private:
  distributed::GroupOptions options() const;
  std::vector<double> of_last(std::span<double const> values) const;
  double of_last(double value) const;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/pipeline.ipp>
#endif
