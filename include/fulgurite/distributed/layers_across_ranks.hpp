#pragma once
// The layers of a model that talk to the same layers of other ranks while a fit runs.

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/torch/device/normalized_by_ranks.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>

namespace fulgurite::distributed {

/// The collectives of layers. One in a process, as the group, since a graph may outlive the fit that made it.
class GroupOfLayers final : public libtorch::LayerRanks {
 public:
  static GroupOfLayers* of(Group& group) {
    static auto* const one = new GroupOfLayers(group);
    return one;
  }
  at::Tensor stack(at::Tensor const& mine) override { return group_.stack(mine, "normalizing a batch"); }
  void sum_in_place(at::Tensor const& tensor) override { group_.sum(tensor, "the gradient of a normalization"); }
  at::Tensor normalize(at::Tensor const& input, std::optional<at::Tensor> const& weight,
                       std::optional<at::Tensor> const& bias, libtorch::Moments const& moments, double eps) override {
    return libtorch::NormalizedByRanks::apply(input, weight, bias, moments, eps, this);
  }

 private:
  explicit GroupOfLayers(Group& group) : group_(group) {}
  Group& group_;
};

/// Every SyncBatchNorm of a model.
template <class Model>
std::vector<std::shared_ptr<SyncBatchNormImpl>> synchronized_norms([[maybe_unused]] Model& model) {
  std::vector<std::shared_ptr<SyncBatchNormImpl>> all;
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    for (auto const& module : model.modules(false))
      if (auto norm = std::dynamic_pointer_cast<SyncBatchNormImpl>(module)) all.push_back(std::move(norm));
  return all;
}

/// Where a strategy was told that batch norms are synchronized: an Error that names the first that cannot be.
/// LibTorch's own are called without a way in between.
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
        continue;  // a class of the model's own may derive from one
      auto const kind = layer->name();
      found = "'" + module.key() + "' is a " + kind.substr(0, kind.rfind("Impl")) +
              ", which sees its own rank's batch alone";
    }
  }
  if (!found.empty())
    throw Error("fulgurite.distributed.sync_batchnorm",
                ".sync_batchnorm is on, and " + found +
                    ": declare batch norms as fulgurite::SyncBatchNorm (the same options, and the same weights in "
                    "files), or take .sync_batchnorm off");
}

/// While it lives, the layers of a model know their group.
class LayersAcrossRanks {
 public:
  template <class Model>
  LayersAcrossRanks(Group& group, Model& model) : norms_(synchronized_norms(model)) {
    if (group.place().world == 1) norms_.clear();
    for (auto const& norm : norms_) norm->connect(GroupOfLayers::of(group));
  }
  LayersAcrossRanks(LayersAcrossRanks const&) = delete;
  LayersAcrossRanks& operator=(LayersAcrossRanks const&) = delete;
  ~LayersAcrossRanks() {
    for (auto const& norm : norms_) norm->connect(nullptr);
  }

 private:
  std::vector<std::shared_ptr<SyncBatchNormImpl>> norms_;
};

}  // namespace fulgurite::distributed
