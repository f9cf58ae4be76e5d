#pragma once
// The stages of a model, one after another, as the model names them: `auto& stages() { return layers; }`.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/optim/arena.hpp>

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
template <class T>
inline constexpr bool is_tuple_of_stages = false;
template <class... Ts>
inline constexpr bool is_tuple_of_stages<std::tuple<Ts...>> = (OneStage<std::remove_cvref_t<Ts>> && ...);

/// The possible return types of a model's `stages()`.
template <class T>
concept StageList = SequentialStages<T> || HeldSequential<T> || ChainOfStages<T> || is_tuple_of_stages<T>;

/// Converts one stage. The result refers to `one`, which must outlive it.
template <class T>
NamedStage stage_of(T& one) {
  if constexpr (StageModule<T>) return {&one, [&one](at::Tensor x) { return one.forward(std::move(x)); }};
  else if constexpr (StageHolder<T>) return stage_of(*one);
  else return {nullptr, one};
}

/// Converts all stages of a list, in their order. The results refer to the list's modules, which must outlive them.
template <StageList List>
std::vector<NamedStage> stages_of(List& list) {
  std::vector<NamedStage> all;
  if constexpr (HeldSequential<List>) {
    return stages_of(*list);
  } else if constexpr (SequentialStages<List>) {
    for (torch::nn::AnyModule& any : list)
      all.push_back({any.ptr().get(), [&any](at::Tensor x) { return any.forward(std::move(x)); }});
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

}  // namespace fulgurite

namespace fulgurite::distributed {

// Cuts a batch into micro batches, and computes a number by which processes check that they have the same batch.

/// Throws the Error for a batch that cannot be cut; `why` is the varying part of its message.
[[noreturn]] void refuse_cut(std::string const& why);

/// True if T is a std::vector, which is cut by its elements.
template <class T>
inline constexpr bool is_list = false;
template <class T, class A>
inline constexpr bool is_list<std::vector<T, A>> = true;

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
template <class Batch>
std::int64_t fingerprint_of(Batch const& batch) {
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
  template <KeepsArena Optimizer>
  void gather(Group& group, Optimizer& optimizer, bool gradients) const {
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
  template <KeepsArena Optimizer>
  void keep_own_gradients(Optimizer& optimizer, int rank, bool any_expected) const {
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

}  // namespace fulgurite::distributed

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/stages.ipp>
#endif
