#pragma once
// The gradients of a step become their mean over all processes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/exchange_plan.hpp>
#include <fulgurite/distributed/gradient_buckets.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/replica.hpp>
#include <fulgurite/distributed/used_parameters.hpp>

namespace fulgurite::distributed {

/// What travels beside the gradients, in their type, counts ranks. An Error where that type does not count so far.
inline void require_counts(at::ScalarType type, int world) {
  int const most = type == at::kBFloat16 ? 256 : type == at::kHalf ? 2048 : 1 << 24;
  if (world > most)
    throw Error("fulgurite.distributed.too_many",
                std::to_string(world) + " processes exchange gradients of type " + c10::toString(type) +
                    ", which counts to " + std::to_string(most) +
                    " only: exchange float32, without compression and with parameters in float32");
}

/// In front of the gradients, and with their last bucket, travel numbers: for each parameter how many ranks have a
/// gradient for it, and the riders, which are numbers of the loops that need no collective of their own so.
///
/// A parameter that no rank has a gradient for stays without. One that some have receives it on all ranks; a rank
/// without a gradient counts as one of zero.
class GradientExchange {
 public:
  /// `bucket_cap_mb`: of several buckets, the first are summed while backward makes the gradients of the next ones.
  GradientExchange(bool compressed, double bucket_cap_mb, PromisedUse promised)
      : compressed_(compressed),
        most_(static_cast<std::int64_t>(std::min(bucket_cap_mb, 1e9) * 1024 * 1024)),
        used_(promised) {}

  /// run() is backward; `mean` is asked for its gradients next. Parameters that were frozen, added or moved since the
  /// last exchange are exchanged after it.
  template <class Backward>
  void backward(Group& group, Backward&& run) {
    bool const as_before = buckets_.plan.overlaps() && changes_ < most_changes && current_() == signature_;
    if (as_before) buckets_.during(group, used_.used(list_), run);
    else run();
  }

  template <class Optimizers>
  void mean(Group& group, Replica const& replica, std::span<double> riders, Optimizers& optimizers) {
    at::NoGradGuard const no_graph;
    follow(group, replica, optimizers, riders.size());
    auto& plan = buckets_.plan;
    plan.look();
    used_.check(plan.items, list_, replica);
    std::vector<double> numbers;
    if (!plan.tensors.empty() && plan.tensors.front().device.is_cpu()) {
      bool const early = buckets_.any_begun();
      numbers = summed(group, riders, buckets_.changed());
      if (numbers[again()] > 0) {  // of some rank: what was sent in backward was not the gradient that it has now
        ++changes_;
        numbers = summed(group, riders, false);
      } else if (early) {
        changes_ = 0;
      }
    } else {
      numbers = exchanged_numbers(group, riders);
      if (!plan.tensors.empty()) buckets_.head().zero_();
      buckets_.sum(group);
    }
    double const share = 1.0 / group.place().world;
    for (std::size_t i = 0; i != riders.size(); ++i) riders[i] = numbers[plan.items.size() + i];
    buckets_.scale(share);
    for (std::size_t i = 0; i != plan.stretches.size(); ++i) put_back_stretch(i, numbers, share);
    for (auto const i : plan.loose) put_back_item(i, numbers[i], share);
  }

 private:
  /// The layout of this step, which all ranks have to have. Each is compared once; where a program goes back and forth
  /// between some, ranks tell each other in front of each sum which one it is: sums of two that are as large would be
  /// taken for each other, and gloo ends the process by those that are not. Who has one layout tells nothing, and
  /// neither does one optimizer whose parameters are frozen or freed for good.
  template <class Optimizers>
  void follow(Group& group, Replica const& replica, Optimizers& optimizers, std::size_t riders) {
    auto const signature = ExchangePlan::signature(optimizers);
    if (signature != signature_ || riders > most_riders_) lay_out(group, replica, optimizers, riders, signature);
    if (alternates_ || (agreed_.size() > 1 && std::tuple_size_v<Optimizers> > 1))
      group.exchange({}, "gradients of list " + std::to_string(list_) + " of parameters");
  }
  template <class Optimizers>
  void lay_out(Group& group, Replica const& replica, Optimizers& optimizers, std::size_t riders,
               std::size_t signature) {
    if (buckets_.any_begun())
      throw Error("fulgurite.distributed.parameters_changed",
                  "parameters were frozen, added or moved between backward and the exchange of gradients, which had "
                  "begun: do that before the step or after it, or set .bucket_cap_mb = 0");
    auto& plan = buckets_.plan;
    plan.lay_out(optimizers, compressed_, most_);
    std::vector<std::string> lines{"an exchange in buckets of " + std::to_string(most_) + " bytes" +
                                   (compressed_ ? ", as bf16" : "")};
    std::string all = lines.front();
    for (auto const& item : plan.items) {
      lines.push_back(Replica::line(replica.name(item.parameter), item.parameter));
      all.append(lines.back()).append("\n");
    }
    auto const [known, is_new] = agreed_.try_emplace(std::move(all), agreed_.size() + 1);
    if (is_new) require_same(group, lines, "parameters of its optimizers");
    else alternates_ = alternates_ || known->second != list_;
    list_ = known->second;
    most_riders_ = std::max(most_riders_, riders);
    buckets_.prepare(group, static_cast<std::int64_t>(again() + 1));
    current_ = [&optimizers] { return ExchangePlan::signature(optimizers); };
    signature_ = signature;
  }

  std::size_t again() const { return buckets_.plan.items.size() + most_riders_; }
  std::vector<double> numbers_of(std::span<double const> riders, bool changed) const {
    std::vector<double> numbers;
    for (auto const& item : buckets_.plan.items) numbers.push_back(item.received ? 1.0 : 0.0);
    numbers.insert(numbers.end(), riders.begin(), riders.end());
    numbers.resize(again());
    numbers.push_back(changed ? 1.0 : 0.0);
    return numbers;
  }
  std::vector<double> summed(Group& group, std::span<double const> riders, bool changed) {
    auto numbers = numbers_of(riders, changed);
    auto const head = buckets_.head();
    numbers.resize(static_cast<std::size_t>(head.numel()));
    auto as_tensor = at::empty({head.numel()}, at::TensorOptions().dtype(at::kDouble));
    std::memcpy(as_tensor.mutable_data_ptr(), numbers.data(), numbers.size() * sizeof(double));
    head.copy_(as_tensor);
    buckets_.sum(group);
    as_tensor.copy_(head);
    std::memcpy(numbers.data(), as_tensor.const_data_ptr(), numbers.size() * sizeof(double));
    return numbers;
  }
  /// Beside gradients on a GPU, where reading numbers would wait for it.
  std::vector<double> exchanged_numbers(Group& group, std::span<double const> riders) const {
    auto const mine = numbers_of(riders, false);
    std::vector<double> sum(mine.size());
    std::string_view const bytes(reinterpret_cast<char const*>(mine.data()), mine.size() * sizeof(double));
    for (auto const& said : group.exchange(bytes, "exchanging who has gradients"))
      for (std::size_t i = 0; i != sum.size(); ++i) {
        double number = 0;
        std::memcpy(&number, said.data() + i * sizeof(double), sizeof(double));
        sum[i] += number;
      }
    return sum;
  }

  /// Where all that some rank has was received here, too, a whole stretch is one copy; nothing in it is received anew.
  void put_back_stretch(std::size_t index, std::vector<double> const& numbers, double share) {
    auto const& stretch = buckets_.plan.stretches[index];
    bool whole = true;
    auto const& items = buckets_.plan.items;
    for (auto i = stretch.first; i != stretch.last; ++i) whole = whole && (numbers[i] > 0) == items[i].received;
    if (whole) return write(stretch.gradients, buckets_.part_of_stretch(index), stretch.tensor, share);
    for (auto i = stretch.first; i != stretch.last; ++i) put_back_item(i, numbers[i], share);
  }
  /// Writing to an arena's slice says that it is received.
  void put_back_item(std::size_t index, double count, double share) {
    if (count == 0) return;
    auto& item = buckets_.plan.items[index];
    auto& gradient = item.parameter.mutable_grad();
    if (!gradient.defined() || gradient.is_sparse())
      gradient = item.slot ? item.slot->gradient : at::empty_like(item.parameter.detach());
    write(gradient, buckets_.part_of_item(index), item.tensor, share);
  }
  void write(at::Tensor const& to, at::Tensor const& sum, std::size_t tensor, double share) const {
    to.copy_(sum);
    if (!buckets_.plan.tensors[tensor].as_gradients) to.mul_(share);
  }

  static constexpr int most_changes = 3;

  bool compressed_;
  std::int64_t most_;
  GradientBuckets buckets_ = {};
  UsedParameters used_;
  std::function<std::size_t()> current_ = nullptr;  ///< the signature as it is now
  std::size_t signature_ = 0;
  std::size_t most_riders_ = 11;  ///< of any exchange, or more than an automatic step has: a file has one alone
  int changes_ = 0;               ///< of gradients that were sent; after some, nothing is sent in backward any more
  std::unordered_map<std::string, std::size_t> agreed_ = {};  ///< layouts that all ranks have had, and their numbers
  std::size_t list_ = 0;                                      ///< the number of the layout at hand
  bool alternates_ = false;                                   ///< a layout has come back after another one
};

}  // namespace fulgurite::distributed
