#pragma once
// The strategy of several processes that each run a part of one model: Pipeline{.micro_batches = 8, .devices = 2}.

#include <chrono>
#include <cstddef>
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
#include <ATen/ops/scalar_tensor.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/known.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/micro_batches.hpp>
#include <fulgurite/distributed/model_parts.hpp>
#include <fulgurite/distributed/numbers.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>
#include <fulgurite/distributed/pipeline_state.hpp>
#include <fulgurite/distributed/processors.hpp>
#include <fulgurite/distributed/replica.hpp>
#include <fulgurite/distributed/split_norm.hpp>
#include <fulgurite/distributed/stage_runner.hpp>
#include <fulgurite/distributed/stages.hpp>
#include <fulgurite/loop/rank_ended.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/matmul.hpp>
#include <fulgurite/torch/data/move.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/relocate.hpp>
#include <fulgurite/torch/native/products.hpp>

namespace fulgurite {
/// Each process runs a part of the model, its stages; a batch is cut into micro batches, so that all processes have
/// something to do. The gradients are those of one process that takes the same micro batches one after another, with
/// the bits of `Automatic{.accumulate_grad_batches = micro_batches}`. Use it for a model whose activations are too
/// large for one machine, or whose layers are too slow on one processor; where the batch is what is large,
/// DistributedDataParallel is simpler and idles less.
///
/// The model names its stages, and its steps call them by `through_stages(*this, x)`, once each (distributed/stages.hpp
/// shows it). All processes read the same batches. training_step goes on to its end on the last process alone, once for
/// each micro batch: what it returns is the mean loss over its micro batch, what it logs reaches rank 0. Processes are
/// started as with DistributedDataParallel.
///
/// On the CPU, with optimizers of fulgurite::optim, which clip, save and resume as in one process. An aggregate.
struct Pipeline {
  int micro_batches = 4;  ///< of a batch: the more they are, the less a process idles
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::vector<int> balance = {};  ///< how many stages each process has; empty: by their numbers of parameters
  int devices = 0;                ///< processes on this machine; 0: as many as the launcher started, else one
  int num_nodes = 0;              ///< machines; 0: as many as the launcher used
  OtherRanks others = OtherRanks::prefixed;
  std::chrono::milliseconds timeout = std::chrono::minutes(2);  ///< for a rank that does not come, or prepares data
  Matmul matmul = Matmul::faster;                               ///< as in SingleDevice

  distributed::PipelineState run = {};  ///< not to be set

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

  int rank() const { return distributed::launched_place() ? distributed::launched_place()->rank : 0; }
  int local_rank() const { return distributed::launched_place() ? distributed::launched_place()->local_rank : 0; }
  int world() const { return run.group ? run.group->place().world : options().place().world; }
  bool is_on_gpu() const { return false; }
  at::Device device() const { return at::Device(at::kCPU); }

  /// The model is that of rank 0 in all, and its stages are shared out.
  template <class Model, class Precision>
  void setup(Model& model, Precision const&) {
    if (micro_batches < 1)
      throw Error("fulgurite.pipeline.micro_batches",
                  ".micro_batches = " + std::to_string(micro_batches) + ": a batch is cut into 1 at least");
    auto& all = *(run.group = &distributed::Group::of(options()));
    run.has_failed = false;
    run.has_all_gradients = true;
    distributed::share_processors();
    libtorch::relocate(model, device(), libtorch::scalar_type(Precision::parameters));
    distributed::Replica().take(all, model);
    auto&& list = model.stages();
    auto const stages = distributed::stages_of(list);
    run.parts.share_out(model, stages, balance, world());
    run.runner = std::make_unique<distributed::StageRunner>(all, model, run.parts.of_rank(stages, rank()));
  }
  /// All processes have the whole model again, unless the run has failed.
  template <class Model>
  void teardown(Model& model) {
    if (run.runner) run.account = run.runner->account();
    if (std::exchange(run.runner, nullptr) && !run.has_failed) run.parts.gather(group());
    libtorch::relocate(model, at::Device(at::kCPU), std::nullopt);
  }

  template <class B>
  decltype(auto) move(B&& batch) const {
    return std::forward<B>(batch);
  }
  std::optional<MatmulScope> matmul_scope() const { return std::optional<MatmulScope>(std::in_place, matmul); }

  /// Forward and backward of all micro batches: step.forward(micro_batch) is training_step, step.backward(loss, count)
  /// goes back from its loss. Returns the mean loss, in float64.
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
  /// A step of an evaluation, which takes the batch as a whole. Whether this process has gone on to its end.
  template <class Batch, class Step>
  bool evaluate(Batch& batch, Step&& step) {
    run.runner->begin(1);
    bool const ended = run.runner->forward(0, distributed::fingerprint_of(batch), step);
    run.runner->finish();
    return ended;
  }

  /// Each process has the gradients of its own stages, and steps with them. What rides is summed; with nothing that
  /// rides, a file is about to be written inside a window, and all have the gradients of all.
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
  /// Over the gradients of all stages, with the bits of one process that has all.
  template <class Parameters>
  at::Tensor clip_norm(Parameters const& parameters, double limit) {
    return distributed::clip_split_norm(group(), parameters, limit);
  }
  /// Before a file is written: all have the weights, and the optimizer's state, of all.
  template <class Model, class Optimizers>
  void gather(Model&, Optimizers& optimizers) {
    if (run.runner) run.parts.gather(group());
    std::apply([&](auto&... one) { (run.parts.gather(group(), one, false), ...); }, optimizers);
  }

  // What all ranks decide together. Steps are finished on the last rank alone, so that a sum over ranks is its value:
  // what hooks have logged on all of them counts once.
  bool agree(bool any) const { return distributed::agree(group(), any); }
  template <class V>
  V reduce(V value, Reduce how) const {
    return distributed::reduce(group(), value, how);
  }
  void reduce_in_place(std::span<double> values, std::span<Reduce const> how) const {
    auto const last = of_last(values);
    distributed::reduce_in_place(group(), values, how);
    for (std::size_t i = 0; i != values.size(); ++i)
      if (how[i] == Reduce::sum) values[i] = last[i];
  }
  std::string broadcast(std::string bytes, int from = 0) const {
    return group()
        .exchange(rank() == from ? std::string_view(bytes) : std::string_view(), "broadcast")
        .at(static_cast<std::size_t>(from));
  }
  std::vector<std::string> gather(std::string const& bytes) const { return group().exchange(bytes, "gather"); }
  void barrier(std::string_view what) const { group().exchange({}, what); }

  /// Where another rank has ended, the model stays as this one has it.
  void on_exception(std::exception const& error, auto& /*ctx*/) {
    if (dynamic_cast<loop::RankEnded const*>(&error)) run.has_failed = true;
  }
  /// Tells the others that this rank's run has failed: what they wait for throws.
  void abort(std::string_view text) {
    run.has_failed = true;
    if (distributed::Group::is_open()) group().abort(text);
  }

  /// What describe(trainer) prints of a strategy's work.
  std::vector<std::string> account() const {
    auto lines = libtorch::native::products_account(matmul);
    auto const sent = run.runner ? run.runner->account() : run.account;
    lines.insert(lines.end(), sent.begin(), sent.end());
    return lines;
  }
  void state(auto&) {}

  /// Of this process; the first who asks has the others started.
  distributed::Group& group() const { return run.group ? *run.group : distributed::Group::of(options()); }

 private:
  distributed::GroupOptions options() const {
    return {Collectives::gloo, devices, num_nodes, others, timeout, nullptr};
  }
  std::vector<double> of_last(std::span<double const> values) const {
    std::string_view const mine(reinterpret_cast<char const*>(values.data()), values.size_bytes());
    auto const said = group().exchange(mine, "values of the last rank");
    std::vector<double> last(values.size());
    std::memcpy(last.data(), said.back().data(), values.size_bytes());
    return last;
  }
  double of_last(double value) const { return of_last(std::span<double const>(&value, 1)).front(); }
};

}  // namespace fulgurite
