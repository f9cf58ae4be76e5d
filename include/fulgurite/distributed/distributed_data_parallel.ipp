#pragma once
// The bodies of distributed/distributed_data_parallel.hpp.

#include <array>

#include <fulgurite/distributed/distributed_data_parallel.hpp>

namespace fulgurite::libtorch {

// A normalization by moments over several ranks, and its gradient, for which one all-reduce sums in float64.

/// Computes (input - mean) / sqrt(variance + eps) * weight + bias, where the moments are functions of all ranks'
/// inputs. LibTorch normalizes by given moments; this adds the gradient that flows through the moments. The gradients
/// of weight and bias are this rank's part, as for any other parameter.
struct NormalizedByRanks : torch::autograd::Function<NormalizedByRanks> {
  using Context = torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, at::Tensor const& input, std::optional<at::Tensor> const& weight,
                            std::optional<at::Tensor> const& bias, Moments const& moments, double eps,
                            LayerRanks* ranks) {
    context->save_for_backward({input, weight.value_or(at::Tensor()), moments.mean, moments.variance, moments.count});
    context->saved_data["eps"] = eps;
    context->saved_data["ranks"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(ranks));
    if (input.numel() == 0) return at::empty_like(input);
    auto const x = widened(input);
    auto const type = x.scalar_type();
    return std::get<0>(at::native_batch_norm(x, given(weight.value_or(at::Tensor()), type),
                                             given(bias.value_or(at::Tensor()), type), moments.mean.to(type),
                                             moments.variance.to(type), false, 0, eps))
        .to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(Context* context, torch::autograd::variable_list const& gradients) {
    if (at::GradMode::is_enabled())
      throw Error("fulgurite.distributed.sync_batchnorm_twice",
                  "a gradient of a gradient goes through SyncBatchNorm, which does not know it: use a norm that does "
                  "not depend on the batch, such as GroupNorm, or leave create_graph out");
    auto const saved = context->get_saved_variables();
    auto const& [input, weight, mean, variance, count] = std::tie(saved[0], saved[1], saved[2], saved[3], saved[4]);
    auto const eps = context->saved_data["eps"].toDouble();
    auto* const ranks = reinterpret_cast<LayerRanks*>(static_cast<std::intptr_t>(context->saved_data["ranks"].toInt()));
    auto const x = widened(input);
    auto const type = x.scalar_type();
    auto const channels = mean.numel();

    auto own = x.numel() == 0 ? std::tuple(at::zeros_like(x), at::zeros({channels}, x.options()),
                                           at::zeros({channels}, x.options()))
                              : at::native_batch_norm_backward(gradients[0].to(type), x, given(weight, type),
                                                               mean.to(type), variance.to(type), {}, {}, false, eps,
                                                               std::array<bool, 3>{true, true, true});
    auto& [of_input, of_weight, of_bias] = own;  // of_weight sums gradients times normalized input, of_bias gradients
    if (context->needs_input_grad(0)) {
      auto const sums = at::cat({of_weight, of_bias}).to(at::kDouble);
      ranks->sum_in_place(sums);
      auto const scale = (variance + eps).rsqrt();
      auto const by_weight = weight.defined() ? scale * weight.detach() : scale;
      auto const slope = by_weight * scale * sums.narrow(0, 0, channels) / count;
      auto const offset = by_weight * sums.narrow(0, channels, channels) / count;
      of_input -= (x - along_channels(mean, x)).mul_(along_channels(slope, x)).add_(along_channels(offset, x));
    }
    auto const as = [](at::Tensor const& made, at::Tensor const& like) {
      return like.defined() ? made.to(like.scalar_type()) : at::Tensor();
    };
    return {as(of_input, input), as(of_weight, weight), as(of_bias, weight), {}, {}, {}};
  }

 private:
  static std::optional<at::Tensor> given(at::Tensor const& tensor, at::ScalarType type) {
    return tensor.defined() ? std::optional(tensor.detach().to(type)) : std::nullopt;
  }
};

}  // namespace fulgurite::libtorch

namespace fulgurite::distributed {

/// The collectives of layers. There is one object per process, like the group, since an autograd graph may outlive the
/// fit that made it.
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

FULGURITE_BODY LayersAcrossRanks::LayersAcrossRanks(Group& group, std::vector<std::shared_ptr<SyncBatchNormImpl>> norms)
    : norms_(std::move(norms)) {
  if (group.place().world == 1) norms_.clear();
  for (auto const& norm : norms_) norm->connect(GroupOfLayers::of(group));
}

FULGURITE_BODY LayersAcrossRanks::~LayersAcrossRanks() {
  for (auto const& norm : norms_) norm->connect(nullptr);
}

}  // namespace fulgurite::distributed

namespace fulgurite {

FULGURITE_BODY int DistributedDataParallel::world() const {
  return fit.group ? fit.group->place().world : options().place().world;
}

FULGURITE_BODY bool DistributedDataParallel::is_on_gpu() const {
  return fit.device ? fit.device->is_cuda() : !engine && options().uses_nccl();
}

FULGURITE_BODY at::Device DistributedDataParallel::device() const {
  if (fit.device) return *fit.device;
  if (!is_on_gpu()) return at::Device(at::kCPU);
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(local_rank()));
}

FULGURITE_BODY std::optional<MatmulScope> DistributedDataParallel::matmul_scope() const {
  bool const any = !is_on_gpu() || matmul == Matmul::fastest;
  return any ? std::optional<MatmulScope>(std::in_place, matmul, device().type()) : std::nullopt;
}

FULGURITE_BODY void DistributedDataParallel::backward(at::Tensor const& loss, at::Tensor const& seed) {
  bool const overlaps = fit.as_written && fit.exchanges_next && syncs();
  if (overlaps) fit.gradients->backward(group(), [&] { loss.backward(seed); });
  else loss.backward(seed);
}

FULGURITE_BODY distributed::Unsynchronized DistributedDataParallel::no_sync(bool on) {
  if (on) ++fit.unsynchronized;
  return distributed::Unsynchronized(on ? &fit : nullptr);
}

FULGURITE_BODY bool DistributedDataParallel::agree(bool any) const { return distributed::agree(group(), any); }

FULGURITE_BODY void DistributedDataParallel::reduce_in_place(std::span<double> values,
                                                             std::span<Reduce const> how) const {
  distributed::reduce_in_place(group(), values, how);
}

FULGURITE_BODY std::string DistributedDataParallel::broadcast(std::string bytes, int from) const {
  return group()
      .exchange(rank() == from ? std::string_view(bytes) : std::string_view(), "broadcast")
      .at(static_cast<std::size_t>(from));
}

FULGURITE_BODY std::vector<std::string> DistributedDataParallel::gather(std::string const& bytes) const {
  return group().exchange(bytes, "gather");
}

FULGURITE_BODY void DistributedDataParallel::barrier(std::string_view what) const { group().exchange({}, what); }

FULGURITE_BODY void DistributedDataParallel::abort(std::string_view text) const {
  if (distributed::Group::is_open()) group().abort(text);
}

FULGURITE_BODY std::vector<std::string> DistributedDataParallel::account() const {
  std::vector<std::string> lines;
  if (!is_on_gpu()) lines = libtorch::native::products_account(matmul);
  if (distributed::Group::is_open()) {
    auto const& traffic = group().traffic();
    lines.push_back(std::to_string(traffic.all_reduces) + " all-reduces of gradients, " +
                    std::to_string(traffic.all_reduce_bytes) + " bytes in all, " + std::to_string(traffic.in_backward) +
                    " begun in backward");
  }
  return lines;
}

FULGURITE_BODY distributed::Group& DistributedDataParallel::group() const {
  if (fit.group) return *fit.group;
  if (compression == Compression::bf16) distributed::require_counts(at::kBFloat16, options().place().world);
  return distributed::Group::of(options());
}

FULGURITE_BODY distributed::GroupOptions DistributedDataParallel::options() const {
  return {backend, devices, num_nodes, others, timeout, engine};
}

FULGURITE_BODY std::vector<std::string> ShardedDataParallel::account() const {
  auto lines = DistributedDataParallel::account();
  if (distributed::Group::is_open()) {
    auto const& traffic = group().traffic();
    lines.push_back(std::to_string(traffic.all_gathers) + " all-gathers of parameters and states, " +
                    std::to_string(traffic.all_gather_bytes) + " bytes in all");
  }
  return lines;
}

}  // namespace fulgurite
