#pragma once
// The bodies of distributed/stages.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/stages.hpp>

namespace fulgurite::distributed {

FULGURITE_BODY void refuse_cut(std::string const& why) {
  throw Error(
      "fulgurite.pipeline.batch",
      "a batch cannot be cut into micro batches: " + why +
          ". Its tensors need one row for each sample, in dimension 0, and its lists one element; .micro_batches = 1 "
          "leaves it whole");
}

FULGURITE_BODY void require_rows(std::int64_t rows, std::int64_t samples) {
  if (rows != samples)
    refuse_cut("one of its tensors or lists has " + std::to_string(rows) + " rows, and the batch " +
               std::to_string(samples) + " samples");
}

FULGURITE_BODY void ModelParts::share_out(torch::nn::Module& model, std::vector<NamedStage> const& stages,
                                          std::vector<int> const& asked, int processes) {
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
  // A buffer outside of all stages belongs to the last process, since only code after the stages can change it.
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

FULGURITE_BODY std::vector<NamedStage> ModelParts::of_rank(std::vector<NamedStage> const& stages, int rank) const {
  auto first = stages.begin();
  for (int before = 0; before != rank; ++before) first += counts_[static_cast<std::size_t>(before)];
  return {first, first + counts_[static_cast<std::size_t>(rank)]};
}

FULGURITE_BODY void ModelParts::gather(Group& group) const {
  at::NoGradGuard const no_graph;
  for (auto const& [tensor, owner] : tensors_) take(group, tensor, owner, "weights of all stages");
}

FULGURITE_BODY int ModelParts::add(at::Tensor const& tensor, int rank) {
  if (!tensor.defined()) return rank;
  auto const [found, is_new] = owners_.try_emplace(tensor.unsafeGetTensorImpl(), rank);
  if (is_new) tensors_.emplace_back(tensor, rank);
  return found->second;
}

FULGURITE_BODY void ModelParts::own(torch::nn::Module& model, torch::nn::Module& module, int rank) {
  for (auto const& parameter : module.parameters())
    if (int const owner = add(parameter, rank); owner != rank) refuse_shared(model, parameter, owner, rank);
  for (auto const& buffer : module.buffers()) add(buffer, rank);
}

FULGURITE_BODY void ModelParts::refuse_use(at::Tensor const& parameter, int rank) const {
  auto const found = names_.find(parameter.unsafeGetTensorImpl());
  throw Error("fulgurite.pipeline.other_stages",
              "a step on rank " + std::to_string(rank) + " has a gradient of the parameter '" +
                  (found == names_.end() ? "" : found->second) + "', which rank " +
                  std::to_string(owner_of(parameter)) +
                  " trains and would not receive: a step must use its parameters only by through_stages(*this, x), and "
                  "a penalty on weights is the optimizer's .weight_decay");
}

FULGURITE_BODY void ModelParts::refuse_shared(torch::nn::Module& model, at::Tensor const& tensor, int one, int other) {
  std::string name = "a parameter";
  for (auto const& parameter : model.named_parameters())
    if (parameter.value().is_same(tensor)) name = "the parameter '" + parameter.key() + "'";
  throw Error(
      "fulgurite.pipeline.shared",
      name + " belongs to stages of rank " + std::to_string(one) + " and of rank " + std::to_string(other) +
          ", which would train separate copies: name these stages as one, or set .balance so that one process has "
          "both");
}

FULGURITE_BODY int ModelParts::owner_of(at::Tensor const& parameter) const {
  auto const found = owners_.find(parameter.unsafeGetTensorImpl());
  return found == owners_.end() ? 0 : found->second;
}

FULGURITE_BODY void ModelParts::take(Group& group, at::Tensor const& tensor, int owner, std::string_view what) {
  auto const here = tensor.detach();
  auto const sent = here.contiguous();
  group.broadcast(sent, owner, what);
  if (group.place().rank != owner && !sent.is_same(here) && sent.const_data_ptr() != here.const_data_ptr())
    here.copy_(sent);
}

}  // namespace fulgurite::distributed
