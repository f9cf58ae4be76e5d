#pragma once
// Which process trains which parameters of a model that is taken apart, and how the whole comes together again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>
#include <fulgurite/distributed/stages.hpp>
#include <fulgurite/torch/optim/arena.hpp>

namespace fulgurite::distributed {

/// An optimizer whose state lies in an arena, where the parts of all ranks can be brought together.
template <class O>
concept KeepsArena = requires(O& optimizer) { optimizer.parameters().arena(); };

/// Which process has which stages of a split model, and with them which parameters: who trains each, and how all of
/// them are brought together for a file or an evaluation.
class ModelParts {
 public:
  /// Shares the stages out. An Error where a parameter is in none of them, or in those of two processes.
  void share_out(torch::nn::Module& model, std::vector<NamedStage> const& stages, std::vector<int> const& asked,
                 int processes) {
    std::vector<std::int64_t> sizes;
    for (auto const& stage : stages) {
      sizes.push_back(0);
      if (stage.module)
        for (auto const& parameter : stage.module->parameters()) sizes.back() += parameter.numel();
    }
    counts_ = stages_of_ranks(asked, sizes, processes);
    owners_.clear();
    tensors_.clear();
    names_.clear();
    std::size_t at = 0;
    for (int rank = 0; rank != processes; ++rank)
      for (int i = 0; i != counts_[static_cast<std::size_t>(rank)]; ++i)
        if (auto* const module = stages[at++].module) own(model, *module, rank);
    // What belongs to no stage is changed by what follows the stages, if at all.
    for (auto const& buffer : model.buffers()) add(buffer, processes - 1);
    for (auto const& parameter : model.named_parameters()) {
      names_.emplace(parameter.value().unsafeGetTensorImpl(), parameter.key());
      if (!owners_.contains(parameter.value().unsafeGetTensorImpl()))
        throw Error("fulgurite.pipeline.outside",
                    "the parameter '" + parameter.key() +
                        "' is in none of the model's stages(), so no process of the pipeline would train it: name its "
                        "module there, in the place where it computes");
    }
  }

  /// The stages of one process.
  std::vector<NamedStage> of_rank(std::vector<NamedStage> const& stages, int rank) const {
    auto first = stages.begin();
    for (int before = 0; before != rank; ++before) first += counts_[static_cast<std::size_t>(before)];
    return {first, first + counts_[static_cast<std::size_t>(rank)]};
  }

  /// Every rank has all weights and buffers as they are where they are trained.
  void gather(Group& group) const {
    at::NoGradGuard const no_graph;
    for (auto const& [tensor, owner] : tensors_) take(group, tensor, owner, "weights of all stages");
  }
  /// The same of what an optimizer keeps, and with `gradients` of the gradients of a window that is open.
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
      std::int64_t told[2];
      std::memcpy(told, all[static_cast<std::size_t>(owner)].data() + i * sizeof told, sizeof told);
      slot.steps = static_cast<long>(told[0]);
      for (auto const& state : slot.states)
        if (state.defined()) take(group, state, owner, "optimizer state of all stages");
      if (!gradients) continue;
      received[i] = told[1] != 0;
      if (received[i]) take(group, slot.gradient, owner, "gradients of all stages");
    }
    if (gradients) optimizer.set_received(received);
  }
  /// Gradients of other processes' stages count no more: they were gathered for a file, or came from one. Where neither
  /// can be (`any_expected`), the step has used weights in another way than by its stages, which is an Error.
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
  /// Who has it; a rank before keeps it.
  int add(at::Tensor const& tensor, int rank) {
    if (!tensor.defined()) return rank;
    auto const [found, is_new] = owners_.try_emplace(tensor.unsafeGetTensorImpl(), rank);
    if (is_new) tensors_.emplace_back(tensor, rank);
    return found->second;
  }
  void own(torch::nn::Module& model, torch::nn::Module& module, int rank) {
    for (auto const& parameter : module.parameters())
      if (int const owner = add(parameter, rank); owner != rank) refuse_shared(model, parameter, owner, rank);
    for (auto const& buffer : module.buffers()) add(buffer, rank);
  }
  [[noreturn]] void refuse_use(at::Tensor const& parameter, int rank) const {
    auto const found = names_.find(parameter.unsafeGetTensorImpl());
    throw Error("fulgurite.pipeline.other_stages",
                "a step on rank " + std::to_string(rank) + " has a gradient of the parameter '" +
                    (found == names_.end() ? "" : found->second) + "', which rank " +
                    std::to_string(owner_of(parameter)) +
                    " trains and would not hear of: a step uses its parameters by through_stages(*this, x) alone, and "
                    "a penalty on weights is the optimizer's .weight_decay");
  }
  [[noreturn]] static void refuse_shared(torch::nn::Module& model, at::Tensor const& tensor, int one, int other) {
    std::string name = "a parameter";
    for (auto const& parameter : model.named_parameters())
      if (parameter.value().is_same(tensor)) name = "the parameter '" + parameter.key() + "'";
    throw Error("fulgurite.pipeline.shared",
                name + " belongs to stages of rank " + std::to_string(one) + " and of rank " + std::to_string(other) +
                    ", which would train it apart: name these stages as one, or set .balance so that one process has "
                    "both");
  }
  int owner_of(at::Tensor const& parameter) const {
    auto const found = owners_.find(parameter.unsafeGetTensorImpl());
    return found == owners_.end() ? 0 : found->second;
  }
  static void take(Group& group, at::Tensor const& tensor, int owner, std::string_view what) {
    auto const here = tensor.detach();
    auto const sent = here.contiguous();
    group.broadcast(sent, owner, what);
    if (group.place().rank != owner && !sent.is_same(here) && sent.const_data_ptr() != here.const_data_ptr())
      here.copy_(sent);
  }

  std::vector<int> counts_ = {};
  std::unordered_map<c10::TensorImpl const*, int> owners_ = {};
  std::vector<std::pair<at::Tensor, int>> tensors_ = {};
  std::unordered_map<c10::TensorImpl const*, std::string> names_ = {};
};

}  // namespace fulgurite::distributed
