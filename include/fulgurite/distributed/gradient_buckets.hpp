#pragma once
// The sums of gradients over all processes, bucket by bucket, some of which begin while backward still runs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <fulgurite/distributed/exchange_plan.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/ready_hooks.hpp>

namespace fulgurite::distributed {

/// Keeps the tensors that are summed. Each bucket is begun once, in the order of the plan, on every rank: as soon as
/// backward has made all of its gradients and those of the ones before it, the rest in `sum`. What a rank has made or
/// left out therefore never makes its collectives others than those of the other ranks.
///
/// Gradients are copied when their bucket is begun; `changed` says that one was written to later.
class GradientBuckets {
 public:
  ExchangePlan plan = {};

  GradientBuckets() = default;
  GradientBuckets(GradientBuckets const&) = delete;  // hooks have its address
  GradientBuckets& operator=(GradientBuckets const&) = delete;

  /// A plan that was laid out anew gets its tensors, with room for `head` numbers in front of the first.
  void prepare(Group& group, std::int64_t head) {
    hooks_.clear();
    for (std::size_t i = 0; i != plan.tensors.size(); ++i) {
      auto& tensor = plan.tensors[i];
      tensor.head = i == 0 ? (head + unit - 1) / unit * unit : 0;
      tensor.buffer =
          at::empty({tensor.head + tensor.size}, at::TensorOptions().dtype(tensor.type).device(tensor.device));
    }
    look_at_parts();
    if (!plan.overlaps()) return;
    group.open_buckets();
    for (std::size_t i = 0; i != plan.items.size(); ++i)
      hooks_.add(plan.items[i].parameter, i, [this](std::size_t item) { ready(item); });
  }

  /// backward() makes gradients that `sum` is asked for next: of all items, or of those that are `used`, where that is
  /// known. Nothing waits for the others.
  template <class Backward>
  void during(Group& group, std::vector<bool> const* used, Backward&& backward) {
    if (!plan.overlaps() || any_begun()) return backward();
    ready_.assign(plan.items.size(), false);
    left_.clear();
    for (auto const& bucket : plan.buckets) left_.push_back(bucket.items);
    if (used)
      for (std::size_t i = 0; i != used->size(); ++i)
        if (!(*used)[i]) ready_[i] = true, --left_[plan.items[i].bucket];
    struct Open {
      GradientBuckets& all;
      ~Open() { all.group_ = nullptr; }
    } const open{*this};
    group_ = &group;
    backward();
  }

  bool any_begun() const { return !begun_.empty(); }
  /// A gradient is another than the one that was sent.
  bool changed() const {
    return std::any_of(sent_.begin(), sent_.end(), [&](Sent const& one) {
      if (one.item != none && !plan.items[one.item].parameter.grad().is_same(one.tensor)) return true;
      return one.tensor.defined() && version_of(one.tensor) != one.version;
    });
  }

  /// Begins the buckets that are left, and waits for all of them.
  void sum(Group& group) {
    for (auto next = begun_.size(); next != plan.buckets.size(); ++next) {
      fill(plan.buckets[next]);
      if (plan.overlaps()) begin(group, next, false);
      else group.all_reduce(of_buckets_[next], occasion);
    }
    for (auto const& work : begun_) group.end(*work, occasion);
    begun_.clear();
    sent_.clear();
  }

  /// All that was summed is multiplied, but for what travels in another type than that of its gradients: those are left
  /// to who puts them back, in their own type.
  void scale(double by) {
    for (auto const& tensor : plan.tensors)
      if (tensor.as_gradients) tensor.sums.mul_(by);
  }

  at::Tensor const& part_of_item(std::size_t i) const { return of_items_[i]; }
  at::Tensor const& part_of_stretch(std::size_t i) const { return of_stretches_[i]; }
  /// The numbers in front.
  at::Tensor const& head() const { return head_; }

 private:
  static constexpr std::string_view occasion = "exchanging gradients";
  static constexpr std::int64_t unit = 16;
  static constexpr auto none = static_cast<std::size_t>(-1);
  struct Sent {
    at::Tensor tensor;  ///< undefined: the item had no gradient
    std::uint32_t version;
    std::size_t item = none;  ///< whose gradient it has to be still
  };
  static std::uint32_t version_of(at::Tensor const& tensor) {
    return tensor.unsafeGetTensorImpl()->version_counter().current_version();
  }

  /// Views are made once: a small model would spend more time on them than on what they show.
  void look_at_parts() {
    of_items_.clear();
    of_stretches_.clear();
    of_buckets_.clear();
    for (auto& tensor : plan.tensors) tensor.sums = tensor.buffer.narrow(0, tensor.head, tensor.size);
    head_ = plan.tensors.empty() ? at::Tensor() : plan.tensors.front().buffer.narrow(0, 0, plan.tensors.front().head);
    for (auto const& item : plan.items) of_items_.push_back(part(item));
    for (auto const& stretch : plan.stretches)
      of_stretches_.push_back(plan.tensors[stretch.tensor].sums.narrow(0, stretch.offset, stretch.size));
    // The last bucket takes the numbers in front with it.
    for (auto const& bucket : plan.buckets) {
      auto const& tensor = plan.tensors[bucket.tensor];
      auto const begin = of_buckets_.size() + 1 == plan.buckets.size() ? 0 : tensor.head + bucket.begin;
      of_buckets_.push_back(tensor.buffer.narrow(0, begin, tensor.head + bucket.end - begin));
    }
  }
  /// With the strides of the gradient, where it lies in an arena: a stretch of an arena is copied as it lies in memory.
  at::Tensor part(Item const& item) const {
    auto const flat = plan.tensors[item.tensor].sums.narrow(0, item.offset, item.parameter.numel());
    if (!item.slot) return flat.view(item.parameter.sizes());
    auto const& gradient = item.slot->gradient;
    return flat.as_strided(gradient.sizes(), gradient.strides(), flat.storage_offset());
  }

  void begin(Group& group, std::size_t index, bool in_backward) {
    begun_.push_back(group.begin_sum(of_buckets_[index], in_backward));
  }

  /// Backward has added to the gradient of an item. One that it has put elsewhere is left for later.
  void ready(std::size_t index) {
    if (!group_ || ready_[index]) return;
    auto const& item = plan.items[index];
    if (item.slot && !item.parameter.grad().is_same(item.slot->gradient)) return;
    ready_[index] = true;
    --left_[item.bucket];
    for (auto next = begun_.size(); next + 1 < plan.buckets.size() && left_[next] == 0; ++next) {
      at::NoGradGuard const no_graph;
      fill(plan.buckets[next]);
      note(plan.buckets[next]);
      begin(*group_, next, true);
    }
  }

  void fill(Bucket const& bucket) {
    for (auto const i : bucket.stretches) of_stretches_[i].copy_(plan.stretches[i].gradients);
    for (auto const i : bucket.loose) {
      auto const& gradient = plan.items[i].parameter.grad();
      if (gradient.defined()) of_items_[i].copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
      else of_items_[i].zero_();
    }
  }
  void note(Bucket const& bucket) {
    auto const add = [&](at::Tensor const& tensor, std::size_t item) {
      sent_.push_back({tensor, tensor.defined() ? version_of(tensor) : 0, item});
    };
    for (auto const i : bucket.stretches) {
      auto const& stretch = plan.stretches[i];
      add(stretch.gradients, none);
      add(stretch.cleared, none);
      for (auto item = stretch.first; item != stretch.last; ++item) add(plan.items[item].parameter.grad(), item);
    }
    for (auto const i : bucket.loose) add(plan.items[i].parameter.grad(), i);
  }

  std::vector<at::Tensor> of_items_ = {}, of_stretches_ = {}, of_buckets_ = {};  ///< their parts of the tensors
  at::Tensor head_ = {};
  ReadyHooks hooks_ = {};
  Group* group_ = nullptr;  ///< while backward may begin sums
  std::vector<bool> ready_ = {};
  std::vector<std::size_t> left_ = {};  ///< of each bucket, gradients that are not made yet
  std::vector<c10::intrusive_ptr<c10d::Work>> begun_ = {};
  std::vector<Sent> sent_ = {};
};

}  // namespace fulgurite::distributed
