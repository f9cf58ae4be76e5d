#pragma once
// The gradients of a step become their mean over all processes, in one all-reduce.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/exchange_plan.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/distributed/replica.hpp>

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

/// Keeps the tensor that is exchanged. Its end tells, for each parameter, how many ranks have a gradient for it, and
/// has the riders: numbers of the loops, which are summed with the gradients in place of a collective of their own.
///
/// A parameter that no rank has a gradient for stays without. One that some have receives it on all ranks; a rank
/// without a gradient counts as one of zero.
class GradientExchange {
 public:
  explicit GradientExchange(bool compressed) : compressed_(compressed) {}

  void forget() {
    plan_ = {};
    signature_ = 0;
    agreed_.clear();
  }

  template <class Optimizers>
  void mean(Group& group, Replica const& replica, std::span<double> riders, Optimizers& optimizers) {
    at::NoGradGuard const no_graph;
    follow(group, replica, optimizers);
    plan_.look();
    bool const rides = !plan_.stages.empty() && plan_.stages.front().device.is_cpu();
    std::vector<double> tail = rides ? std::vector<double>() : exchanged_tail(group, riders);
    for (std::size_t i = 0; i != plan_.stages.size(); ++i) fill(i, rides && i == 0, riders);
    for (auto const& stage : plan_.stages) group.all_reduce(stage.buffer, "exchanging gradients");
    if (rides) tail = read_tail(plan_.stages.front(), riders.size());
    double const share = 1.0 / group.place().world;
    for (std::size_t i = 0; i != riders.size(); ++i) riders[i] = tail[plan_.items.size() + i];
    for (auto const& stretch : plan_.stretches) put_back(stretch, tail, share);
    for (auto const i : plan_.loose) put_back(plan_.items[i], tail[i], share);
  }

 private:
  /// The layout of this step, which all ranks have to have. One that was seen before is known to be theirs.
  template <class Optimizers>
  void follow(Group& group, Replica const& replica, Optimizers& optimizers) {
    auto const signature = ExchangePlan::signature(optimizers);
    if (signature == signature_) return;
    plan_.lay_out(optimizers, compressed_);
    std::vector<std::string> lines;
    std::string all;
    for (auto const& item : plan_.items) {
      lines.push_back(Replica::line(replica.name(item.parameter), item.parameter));
      all.append(lines.back()).append("\n");
    }
    if (agreed_.insert(std::move(all)).second) require_same(group, lines, "parameters of its optimizers");
    for (std::size_t i = 0; i != plan_.stages.size(); ++i) {
      auto& stage = plan_.stages[i];
      auto const tail = i == 0 ? static_cast<std::int64_t>(plan_.items.size() + most_riders) : 0;
      stage.buffer = at::empty({stage.size + tail}, at::TensorOptions().dtype(stage.type).device(stage.device));
    }
    signature_ = signature;
  }
  at::Tensor part(Item const& item) const {
    return plan_.stages[item.stage].buffer.narrow(0, item.offset, item.parameter.numel()).view(item.parameter.sizes());
  }

  void fill(std::size_t index, bool with_tail, std::span<double const> riders) {
    auto& stage = plan_.stages[index];
    for (auto const& stretch : plan_.stretches)
      if (stretch.stage == index) stage.buffer.narrow(0, stretch.offset, stretch.size).copy_(stretch.gradients);
    for (auto const i : plan_.loose) {
      auto const& item = plan_.items[i];
      if (item.stage != index) continue;
      auto const& gradient = item.parameter.grad();
      if (item.received) part(item).copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
      else part(item).zero_();
    }
    if (index != 0) return;
    auto const tail = stage.buffer.narrow(0, stage.size, stage.buffer.numel() - stage.size);
    if (!with_tail) {
      tail.zero_();
      return;
    }
    tail.copy_(tensor_of(tail_of(riders)));
  }
  std::vector<double> tail_of(std::span<double const> riders) const {
    std::vector<double> tail;
    for (auto const& item : plan_.items) tail.push_back(item.received ? 1.0 : 0.0);
    tail.insert(tail.end(), riders.begin(), riders.end());
    tail.resize(plan_.items.size() + most_riders);
    return tail;
  }
  static at::Tensor tensor_of(std::vector<double> const& values) {
    auto made = at::empty({static_cast<std::int64_t>(values.size())}, at::TensorOptions().dtype(at::kDouble));
    std::memcpy(made.mutable_data_ptr(), values.data(), values.size() * sizeof(double));
    return made;
  }
  std::vector<double> read_tail(Stage const& stage, std::size_t riders) const {
    auto const tail = stage.buffer.narrow(0, stage.size, static_cast<std::int64_t>(plan_.items.size() + riders));
    auto const numbers = tail.to(at::kDouble).contiguous();
    auto const* begin = static_cast<double const*>(numbers.const_data_ptr());
    return {begin, begin + numbers.numel()};
  }
  /// Beside gradients on a GPU, where reading numbers would wait for it.
  std::vector<double> exchanged_tail(Group& group, std::span<double const> riders) const {
    auto const mine = tail_of(riders);
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
  void put_back(Stretch const& stretch, std::vector<double> const& tail, double share) {
    bool whole = true;
    for (auto i = stretch.first; i != stretch.last; ++i) whole = whole && (tail[i] > 0) == plan_.items[i].received;
    if (!whole) {
      for (auto i = stretch.first; i != stretch.last; ++i) put_back(plan_.items[i], tail[i], share);
      return;
    }
    auto const sum = plan_.stages[stretch.stage].buffer.narrow(0, stretch.offset, stretch.size);
    scale_into(stretch.gradients, sum, share);
  }
  /// Writing to an arena's slice says that it is received.
  void put_back(Item const& item, double count, double share) {
    if (count == 0) return;
    auto& gradient = item.parameter.mutable_grad();
    if (!gradient.defined() || gradient.is_sparse())
      gradient = item.slot ? item.slot->gradient : at::empty_like(item.parameter.detach());
    scale_into(gradient, part(item), share);
  }
  static void scale_into(at::Tensor const& to, at::Tensor const& sum, double share) {
    if (to.scalar_type() == sum.scalar_type()) {
      to.copy_(sum.mul_(share));
    } else {
      to.copy_(sum);
      to.mul_(share);
    }
  }

  static constexpr std::size_t most_riders = 8;

  bool compressed_;
  ExchangePlan plan_ = {};
  std::size_t signature_ = 0;
  std::unordered_set<std::string> agreed_ = {};
};

}  // namespace fulgurite::distributed
