#pragma once
// The running statistics of batch norms that each rank has taken from its own batches become those of all batches.

#include <concepts>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <torch/nn/module.h>

#include <fulgurite/distributed/group.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>
#include <fulgurite/torch/weights/averaging.hpp>

namespace fulgurite::distributed {

/// As one process that sees the batches of all ranks has them, where statistics are means over batches: each rank's
/// count as often as it has seen batches. In float64, summed in the order of ranks, so that all have the same bits. A
/// SyncBatchNorm has those of all ranks already, and one that was set to eval() has taken none. A collective.
template <class Model>
void share_statistics([[maybe_unused]] Group& group, [[maybe_unused]] Model& model) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) {
    at::NoGradGuard const no_graph;
    std::vector<at::Tensor> statistics, counts, mine;
    libtorch::each_batch_norm(model, [&](auto const& norm) {
      if (std::is_same_v<typename std::remove_cvref_t<decltype(norm)>::element_type, SyncBatchNormImpl>) return;
      auto const batches = norm->num_batches_tracked.to(at::kDouble);
      for (auto const& one : {norm->running_mean, norm->running_var}) {
        statistics.push_back(one);
        mine.push_back(one.to(at::kDouble).mul_(batches));
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

}  // namespace fulgurite::distributed
