#pragma once
// The strategy of several processes that each run a part of one model: Pipeline{.micro_batches = 8, .devices = 2}. The
// model names its stages, one after another: `auto& stages() { return layers; }`.

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
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
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/distributed/connection.hpp>
#include <fulgurite/distributed/gradients.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite {
namespace distributed {

/// One stage. `module` is null if the stage is a function.
struct NamedStage {
  torch::nn::Module* module;
  std::function<at::Tensor(at::Tensor)> forward;
};

/// A module from one tensor to one tensor.
template <class T>
concept StageModule = std::derived_from<T, torch::nn::Module> && requires(T& module, at::Tensor x) {
  { module.forward(x) } -> std::convertible_to<at::Tensor>;
};
/// A holder of torch::nn, or a pointer.
template <class T>
concept StageHolder = requires(T& holder) { requires StageModule<std::remove_cvref_t<decltype(*holder)>>; };
/// A possible stage: a module, a holder of one, or a function from tensor to tensor.
template <class T>
concept OneStage = StageModule<T> || StageHolder<T> || std::is_invocable_r_v<at::Tensor, T&, at::Tensor>;

/// A stand-in for the function that each_layer calls for each layer of a chain.
struct AnyLayer {
  void operator()(torch::nn::Module&, std::function<at::Tensor(at::Tensor)>) const {}
};
/// A fulgurite::Chain, whose layers are the stages.
template <class T>
concept ChainOfStages = requires(T& chain) { chain.each_layer(AnyLayer{}); };
/// A torch::nn::SequentialImpl, whose modules are the stages.
template <class T>
concept SequentialStages = std::derived_from<T, torch::nn::SequentialImpl>;
/// A SequentialStages in its holder, torch::nn::Sequential, or behind a pointer.
template <class T>
concept HeldSequential = requires(T& holder) { requires SequentialStages<std::remove_cvref_t<decltype(*holder)>>; };

/// True if T is a std::tuple of stages, as std::tie returns one.
FULGURITE_OF_ARGUMENTS(is_tuple_of_stages, std::tuple, (OneStage<std::remove_cvref_t<Ts>> && ...));

/// The possible return types of a model's `stages()`.
template <class T>
concept StageList = SequentialStages<T> || HeldSequential<T> || ChainOfStages<T> || is_tuple_of_stages<T>;

/// Converts one stage. The result shares what a holder such as torch::nn::Linear has, and refers to any other `one`,
/// which must outlive it.
template <class T>
NamedStage stage_of(T& one) {
  if constexpr (StageModule<T>) return {&one, [&one](at::Tensor x) { return one.forward(std::move(x)); }};
  else if constexpr (StageHolder<T> && std::copyable<T>)
    return {&*one, [one](at::Tensor x) mutable { return one->forward(std::move(x)); }};
  else if constexpr (StageHolder<T>) return stage_of(*one);
  else return {nullptr, one};
}

/// Converts all stages of a list, in their order. The results share the layers of a Sequential or a Chain, so that
/// `stages()` may return one by value; they refer to what a tuple refers to, which must outlive them.
template <StageList List>
std::vector<NamedStage> stages_of(List& list) {
  std::vector<NamedStage> all;
  if constexpr (HeldSequential<List>) {
    return stages_of(*list);
  } else if constexpr (SequentialStages<List>) {
    for (torch::nn::AnyModule& any : list)
      all.push_back({any.ptr().get(), [any](at::Tensor x) mutable { return any.forward(std::move(x)); }});
  } else if constexpr (ChainOfStages<List>) {
    list.each_layer([&](torch::nn::Module& module, auto forward) { all.push_back({&module, forward}); });
  } else {
    std::apply([&](auto&... one) { (all.push_back(stage_of(one)), ...); }, list);
  }
  return all;
}

/// The interface that runs this process's stages if a model's stages are distributed over processes.
class StageRun {
 public:
  /// True if a step of this model is running, whose stages `run` runs. Throws an Error outside of steps, as in a hook,
  /// where this process has outdated weights of other stages.
  virtual bool is_in_step(torch::nn::Module const& model) const = 0;
  /// On the last process: the output of the model's last stage for `x`. On the other processes it throws StagesEnd.
  virtual at::Tensor run(at::Tensor x) = 0;

  /// The StageRun of the run in this thread, or nullptr.
  static StageRun*& current() {
    thread_local StageRun* run = nullptr;
    return run;
  }

 protected:
  ~StageRun() = default;
};
/// Thrown to end a step whose remainder another process runs. Not a std::exception, so that it is not taken for a
/// failure.
struct StagesEnd {};

}  // namespace distributed

/// A model that names its stages: `stages()` returns a torch::nn::Sequential, a Chain, or a tuple of modules, holders
/// or functions of a tensor (`std::tie(encoder, decoder)`). The input of each stage is the output of the one before.
template <class M>
concept HasStages =
    requires(M& model) { requires distributed::StageList<std::remove_cvref_t<decltype(model.stages())>>; };

/// Runs the stages of a model on `x`, one after another. Call it in the model's `forward`:
///
///     auto& stages() { return layers; }
///     at::Tensor forward(at::Tensor x) { return through_stages(*this, std::move(x)); }
///
/// Under Pipeline{...} each process runs only its own stages. On all processes but the last, this call ends the step by
/// an exception that is no std::exception; the last process continues with the output. So a step must call it once, and
/// all processes run the code before it. Hooks do not have the weights of other processes: after the first step, a call
/// in a hook throws an Error.
template <HasStages Model>
at::Tensor through_stages(Model& model, at::Tensor x) {
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    if (auto* const run = distributed::StageRun::current(); run && run->is_in_step(model))
      return run->run(std::move(x));
  auto&& list = model.stages();
  for (auto const& stage : distributed::stages_of(list)) x = stage.forward(std::move(x));
  return x;
}

namespace distributed {

// Cuts a batch into micro batches, and computes a number by which processes check that they have the same batch.

/// Throws the Error for a batch that cannot be cut; `why` is the varying part of its message.
[[noreturn]] void refuse_cut(std::string const& why);

/// True if T is a std::vector, which is cut by its elements.
template <class T>
inline constexpr bool is_list = is_of<std::vector, T>;

/// Throws an Error unless a tensor or a list has one row for each sample of its batch.
void require_rows(std::int64_t rows, std::int64_t samples);

/// Keeps `count` of the object's samples, starting at `from`: of its tensors, and of std::vectors of other things, such
/// as names. A tensor without dimensions, a number and a text belong to all samples and are kept.
template <class T>
void cut_rows(T& object, std::int64_t samples, std::int64_t from, std::int64_t count) {
  constexpr bool cuttable = libtorch::TensorLike<T> || is_list<std::remove_const_t<T>>;
  if constexpr (libtorch::hides_parts<T> || libtorch::PackedSequenceLike<T> || (cuttable && std::is_const_v<T>)) {
    refuse_cut("a part of it has no rows that could be found, or is const");
  } else if constexpr (!libtorch::holds_tensors<T>) {
    if constexpr (is_list<T>) {
      require_rows(static_cast<std::int64_t>(object.size()), samples);
      object.erase(object.begin() + (from + count), object.end());
      object.erase(object.begin(), object.begin() + from);
    } else if constexpr (std::is_class_v<T> && !libtorch::walk::Container<T>) {
      libtorch::each_part(object, [&](auto& part) { cut_rows(part, samples, from, count); });
    }
  } else if constexpr (libtorch::TensorLike<T>) {
    if (!object.defined() || object.dim() == 0) return;
    require_rows(object.size(0), samples);
    object = object.narrow(0, from, count);
  } else {
    libtorch::each_part(object, [&](auto& part) { cut_rows(part, samples, from, count); });
  }
}

/// Returns views of the batch, in its order. Throws [fulgurite.pipeline.batch] if it cannot be cut.
template <class Batch>
std::vector<std::remove_const_t<Batch>> micro_batches_of(Batch const& batch, int count) {
  auto const samples = libtorch::batch_extent(batch);
  if (samples == 0 || count == 1) return {batch};
  std::vector<std::remove_const_t<Batch>> all;
  std::int64_t from = 0;
  for (auto const size : micro_batch_sizes(samples, count)) {
    all.push_back(batch);
    cut_rows(all.back(), samples, from, size);
    from += size;
  }
  return all;
}

/// A hash of the sizes of the batch's tensors and of a few of their elements: cheap, and rarely equal for two batches.
std::int64_t fingerprint_of(auto const& batch) {
  std::uint64_t sum = 1469598103934665603U;
  auto const mix = [&](std::uint64_t value) { sum = (sum ^ value) * 1099511628211U; };
  libtorch::each_tensor(batch, [&](at::Tensor const& tensor) {
    for (auto const extent : tensor.sizes()) mix(static_cast<std::uint64_t>(extent));
    if (!tensor.is_cpu() || tensor.numel() == 0 || !tensor.is_contiguous()) return;
    auto const* const bytes = static_cast<char const*>(tensor.const_data_ptr());
    std::size_t const looks = 16, size = tensor.nbytes();
    for (std::size_t i = 0; i != looks; ++i) {
      auto const at = i * (size - 1) / (looks - 1);
      mix(static_cast<unsigned char>(bytes[at]) + 256 * (at % 2));
      mix(static_cast<unsigned char>(bytes[size - 1 - at]));
    }
  });
  return static_cast<std::int64_t>(sum >> 1);
}

// Which process trains which parameters of a distributed model, and how the whole is gathered again.

/// An optimizer whose state is in an arena, so that the parts of all ranks can be gathered.
template <class O>
concept KeepsArena = requires(O& optimizer) { optimizer.parameters().arena(); };

/// Assigns stages, and with them parameters, to processes, and gathers all of them for a file or an evaluation.
class ModelParts {
 public:
  /// Assigns the stages. Throws an Error if a parameter is in none of them, or in those of two processes.
  void share_out(torch::nn::Module& model, std::vector<NamedStage> const& stages, std::vector<int> const& asked,
                 int processes);

  /// The stages of one process.
  std::vector<NamedStage> of_rank(std::vector<NamedStage> const& stages, int rank) const;

  /// Gives every rank all weights and buffers, each from the rank that trains it.
  void gather(Group& group) const;
  /// Gives every rank an optimizer's whole state, and with `gradients` the gradients of an open accumulation window.
  void gather(Group& group, KeepsArena auto& optimizer, bool gradients) const {
    at::NoGradGuard const no_graph;
    auto& slots = optimizer.parameters().arena().slots();
    auto received = optimizer.received();
    std::vector<std::int64_t> mine;
    for (std::size_t i = 0; i != slots.size(); ++i) mine.insert(mine.end(), {slots[i].steps, received[i] ? 1 : 0});
    auto const all = group.exchange({reinterpret_cast<char const*>(mine.data()), mine.size() * sizeof(std::int64_t)},
                                    "steps of all stages");
    for (std::size_t i = 0; i != slots.size(); ++i) {
      auto& slot = slots[i];
      int const owner = owner_of(slot.parameter);
      std::int64_t sent[2];
      std::memcpy(sent, all[static_cast<std::size_t>(owner)].data() + i * sizeof sent, sizeof sent);
      slot.steps = static_cast<long>(sent[0]);
      for (auto const& state : slot.states)
        if (state.defined()) take(group, state, owner, "optimizer state of all stages");
      if (!gradients) continue;
      received[i] = sent[1] != 0;
      if (received[i]) take(group, slot.gradient, owner, "gradients of all stages");
    }
    if (gradients) optimizer.set_received(received);
  }
  /// Drops the gradients of other processes' stages, which were gathered for a file or loaded from one. If that is
  /// impossible (`any_expected` is false), the step has used weights other than through its stages: throws an Error.
  void keep_own_gradients(KeepsArena auto& optimizer, int rank, bool any_expected) const {
    at::NoGradGuard const no_graph;
    auto& slots = optimizer.parameters().arena().slots();
    auto received = optimizer.received();
    bool any = false;
    for (std::size_t i = 0; i != slots.size(); ++i) {
      if (!received[i] || owner_of(slots[i].parameter) == rank) continue;
      if (!any_expected) refuse_use(slots[i].parameter, rank);
      slots[i].gradient.zero_();
      received[i] = false;
      any = true;
    }
    if (any) optimizer.set_received(received);
  }

 private:
  /// Adds a tensor and returns its owner: `rank`, or an earlier rank that already has it.
  int add(at::Tensor const& tensor, int rank);
  void own(torch::nn::Module& model, torch::nn::Module& module, int rank);
  [[noreturn]] void refuse_use(at::Tensor const& parameter, int rank) const;
  [[noreturn]] static void refuse_shared(torch::nn::Module& model, at::Tensor const& tensor, int one, int other);
  int owner_of(at::Tensor const& parameter) const;
  static void take(Group& group, at::Tensor const& tensor, int owner, std::string_view what);

  std::vector<int> counts_ = {};
  std::unordered_map<c10::TensorImpl const*, int> owners_ = {};
  std::vector<std::pair<at::Tensor, int>> tensors_ = {};
  std::unordered_map<c10::TensorImpl const*, std::string> names_ = {};
};

// Runs the stages of one process: activations from the previous process go through them to the next one, and gradients
// come back.

/// Keeps the input and output of a micro batch between its `forward` and `backward`.
class StageRunner final : public StageRun, Pinned {
 public:
  StageRunner(Group& group, torch::nn::Module const& model, std::vector<NamedStage> own);
  ~StageRunner();
  bool is_first() const;
  bool is_last() const;

  /// Begins a batch with this number of micro batches.
  void begin(int micro_batches);
  /// Calls step(), in which `through_stages` does this process's part. Returns true if step() ran to its end.
  /// `fingerprint`: the batch's, which must be the same on all processes.
  bool forward(int micro_batch, std::int64_t fingerprint, auto&& step) {
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
at::Tensor clip_split_norm(Group& group, auto const& parameters, double limit) {
  libtorch::sum_sparse_rows(parameters);
  libtorch::Gradients const gradients(parameters);
  std::string mine;
  if (!gradients->empty()) {
    auto const norms = at::stack(libtorch::norms_of(parameters, *gradients)).to(at::kDouble);
    mine.assign(static_cast<char const*>(norms.const_data_ptr()), norms.nbytes());
  }
  std::string all;
  for (auto const& said : group.exchange(mine, "norms of all stages")) all += said;
  if (all.empty()) return at::zeros({}, at::TensorOptions(at::kFloat));
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
  double take(auto& batch, int micro_batches, PipelineSchedule schedule, auto& step) {
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

}  // namespace distributed

/// Pipeline-parallel training: each process runs a part of the model, its stages, and a batch is cut into micro
/// batches, so that all processes have work. Use it for a model whose activations are too large for one machine, or
/// whose layers are too slow on one processor; if the batch is what is large, DistributedDataParallel is simpler and
/// idles less.
///
///     auto trainer = make_trainer<Net>(options, Pipeline{.micro_batches = 8, .devices = 2});
///
/// The model names its stages, and its steps call them once each by `through_stages(*this, x)`. All
/// processes read the same batches. training_step runs to its end only on the last process, once for each micro batch:
/// it returns the mean loss over the micro batch, and what it logs reaches rank 0. Processes are started as with
/// DistributedDataParallel.
///
/// The gradients are those of one process that takes the same micro batches one after another, with the bits of
/// `Automatic{.accumulate_grad_batches = micro_batches}`. Works on the CPU, with optimizers of fulgurite::optim, which
/// clip, save and resume as in one process. An aggregate.
struct Pipeline {
  int micro_batches = 4;  ///< per batch: with more micro batches, processes idle less
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  ///< the order of forward and backward passes
  ListOption<int> balance = {};  ///< stages per process; empty: by their numbers of parameters
  int devices = 0;               ///< processes on this machine; 0: as many as the launcher started, else one
  int num_nodes = 0;             ///< machines; 0: as many as the launcher used
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

  int rank() const { return distributed::launched_rank(); }
  int local_rank() const { return distributed::launched_local_rank(); }
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
    distributed::share_processors(all.place());
    libtorch::relocate(libtorch::module_if_any(model), device(), libtorch::scalar_type(Precision::parameters));
    distributed::Replica().take(all, model);
    auto&& list = model.stages();
    auto const stages = distributed::stages_of(list);
    run.parts.share_out(model, stages, balance, world());
    run.runner = std::make_unique<distributed::StageRunner>(all, model, run.parts.of_rank(stages, rank()));
  }
  /// Gives all processes the whole model again, unless the run has failed.
  void teardown(auto& model) {
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
  void flush(auto& optimizer, double scale) { Backend::scale_gradients(optimizer.parameters(), scale); }
  /// Runs a step of an evaluation, with the batch as a whole. Returns true if this process ran it to its end.
  bool evaluate(auto& batch, auto&& step) {
    run.runner->begin(1);
    bool const ended = run.runner->forward(0, distributed::fingerprint_of(batch), step);
    run.runner->finish();
    return ended;
  }

  /// Each process has the gradients of its own stages and updates those only. The riders are summed. No riders means
  /// that a file is about to be written inside an accumulation window: then all processes get all gradients.
  void reduce_gradients(std::span<double> riders, auto& optimizers) {
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
  at::Tensor clip_norm(auto const& parameters, double limit) {
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
