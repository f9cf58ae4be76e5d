#pragma once
// The stages of a model, one after another, as the model names them: `auto& stages() { return layers; }`.

#include <concepts>
#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <fulgurite/core/error.hpp>

namespace fulgurite {
namespace distributed {

/// One of them. A function has no module.
struct NamedStage {
  torch::nn::Module* module;
  std::function<at::Tensor(at::Tensor)> forward;
};

/// A module from one tensor to one tensor.
template <class T>
concept StageModule = std::derived_from<T, torch::nn::Module> && requires(T& module, at::Tensor x) {
  { module.forward(x) } -> std::convertible_to<at::Tensor>;
};
/// torch::nn's holder, or a pointer.
template <class T>
concept StageHolder = requires(T& holder) { requires StageModule<std::remove_cvref_t<decltype(*holder)>>; };
/// What can be a stage: a module, what holds one, or a function from tensor to tensor.
template <class T>
concept OneStage = StageModule<T> || StageHolder<T> || std::is_invocable_r_v<at::Tensor, T&, at::Tensor>;

/// What is called for each layer of a chain.
struct AnyLayer {
  void operator()(torch::nn::Module&, std::function<at::Tensor(at::Tensor)>) const {}
};
/// A fulgurite::Chain, each layer of which is a stage.
template <class T>
concept ChainOfStages = requires(T& chain) { chain.each_layer(AnyLayer{}); };
/// A torch::nn::SequentialImpl, each module of which is a stage.
template <class T>
concept SequentialStages = std::derived_from<T, torch::nn::SequentialImpl>;
/// The same behind its holder, torch::nn::Sequential, or behind a pointer.
template <class T>
concept HeldSequential = requires(T& holder) { requires SequentialStages<std::remove_cvref_t<decltype(*holder)>>; };

/// Whether T is a std::tuple of stages, as std::tie makes one.
template <class T>
inline constexpr bool is_tuple_of_stages = false;
template <class... Ts>
inline constexpr bool is_tuple_of_stages<std::tuple<Ts...>> = (OneStage<std::remove_cvref_t<Ts>> && ...);

/// What a model's `stages()` may return.
template <class T>
concept StageList = SequentialStages<T> || HeldSequential<T> || ChainOfStages<T> || is_tuple_of_stages<T>;

/// One stage as what a pipeline runs. It refers to `one`, which has to outlive it.
template <class T>
NamedStage stage_of(T& one) {
  if constexpr (StageModule<T>) return {&one, [&one](at::Tensor x) { return one.forward(std::move(x)); }};
  else if constexpr (StageHolder<T>) return stage_of(*one);
  else return {nullptr, one};
}

/// All stages of a list, in their order. They refer to the list's modules, which have to outlive them.
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

/// Where a model's stages are shared out between processes: who runs those of this one.
class StageRun {
 public:
  /// Whether a step of this model is under way, whose stages are `run`. An Error outside of steps, as in a hook, where
  /// this process has old weights of other stages.
  virtual bool is_in_step(torch::nn::Module const& model) const = 0;
  /// What the model's last stage makes of `x`, on the last process. On the others it throws StagesEnd.
  virtual at::Tensor run(at::Tensor x) = 0;

  /// Of the run that this thread is in.
  static StageRun*& current() {
    thread_local StageRun* run = nullptr;
    return run;
  }

 protected:
  ~StageRun() = default;
};
/// The rest of a step is another process's matter. No std::exception, so that nobody takes it for a failure.
struct StagesEnd {};

}  // namespace distributed

/// A model that names its stages: `stages()` returns a torch::nn::Sequential, a Chain, or a tuple of modules, holders
/// or functions of a tensor (`std::tie(encoder, decoder)`). Each takes the tensor that the one before has made.
template <class M>
concept HasStages =
    requires(M& model) { requires distributed::StageList<std::remove_cvref_t<decltype(model.stages())>>; };

/// What the stages of a model make of `x`, one after another: what its `forward` calls.
///
///     auto& stages() { return layers; }
///     at::Tensor forward(at::Tensor x) { return through_stages(*this, std::move(x)); }
///
/// Under Pipeline{...} each process runs its own stages alone. A step that calls this then ends here in all but the
/// last process, by an exception of no standard type; the last one goes on with the output. So a step calls it once,
/// and what it does before is done by all. Hooks have no weights of other processes: after the first step a call there
/// is an Error.
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
