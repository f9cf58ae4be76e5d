#pragma once
// Replaces the gradients of a step by their mean over all processes.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/gradient_buckets.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::distributed {

// What a multi-process strategy knows about its model: the names, by which ranks compare their models, and the buffers.

/// Throws an Error on all ranks that names the first difference, unless all ranks pass the same lines. `of`: what the
/// lines describe.
void require_same(Group& group, std::vector<std::string> const& lines, std::string const& of);

/// The bytes of a list of tensors, one after another, so that one broadcast sends them all, whatever their types.
class AsBytes {
 public:
  explicit AsBytes(std::vector<at::Tensor> tensors);
  bool is_empty() const { return tensors_.empty(); }

  /// Gives all ranks the values of rank 0.
  void broadcast(Group& group, std::string_view what);

 private:
  static constexpr std::int64_t unit = 16;

  at::Tensor part(std::size_t i) const;

  std::vector<at::Tensor> tensors_;
  std::vector<std::int64_t> places_ = {};
  at::Tensor bytes_ = {};
};

/// The model of this rank.
class Replica {
 public:
  /// Compares the names, types, shapes and order of parameters and buffers over all ranks, and gives all ranks the
  /// values of rank 0.
  template <class Model>
  void take(Group& group, [[maybe_unused]] Model& model) {
    names_.clear();
    buffers_.clear();
    if constexpr (std::derived_from<Model, torch::nn::Module>) {
      std::vector<std::string> lines;
      std::vector<at::Tensor> all;
      auto const add = [&](std::string const& name, at::Tensor const& tensor) {
        if (!tensor.defined()) return false;
        if (!names_.try_emplace(tensor.unsafeGetTensorImpl(), name).second) return false;
        lines.push_back(line(name, tensor));
        all.push_back(tensor);
        return true;
      };
      for (auto const& one : model.named_parameters()) add(one.key(), one.value());
      for (auto const& one : model.named_buffers())
        if (add(one.key(), one.value())) buffers_.push_back(one.value());
      require_same(group, lines, "parameters and buffers");
      if (!all.empty()) AsBytes(all).broadcast(group, "weights of rank 0");
    }
  }

  std::vector<at::Tensor> const& buffers() const { return buffers_; }
  std::string name(at::Tensor const& parameter) const;

  static std::string line(std::string const& name, at::Tensor const& tensor);

 private:
  std::unordered_map<c10::TensorImpl const*, std::string> names_ = {};
  std::vector<at::Tensor> buffers_ = {};
};

// Which parameters the steps of this rank use, if the program has made a promise about that.

/// What a program promises about the parameters that its steps use.
struct PromisedUse {
  bool all = false;          ///< every step uses every parameter
  bool as_in_first = false;  ///< every step uses those that the first one used
};

/// Checks steps against the promise. A step without gradients, because its batch was left out, is not checked.
class UsedParameters {
 public:
  explicit UsedParameters(PromisedUse promised) : promised_(promised) {}

  /// Called before the gradients of a step are exchanged; `list`: the number of its parameter list. Throws an Error
  /// that names the first parameter that breaks the promise.
  void check(std::vector<Item> const& items, std::size_t list, Replica const& replica);

  /// The parameters of a list that this rank's steps use, if that is known and promised, else null: a wait for all
  /// gradients may skip the other parameters.
  std::vector<bool> const* used(std::size_t list) const;

 private:
  static void require_all(std::vector<Item> const& items, Replica const& replica);
  void require_as_in_first(std::vector<Item> const& items, std::size_t list, Replica const& replica);

  PromisedUse promised_;
  std::unordered_map<std::size_t, std::vector<bool>> first_ = {};  ///< key: number of the list
};

/// Throws an Error if the gradients' type, in which ranks are counted, cannot represent the number of ranks exactly.
void require_counts(at::ScalarType type, int world);

/// Exchanges gradients, and numbers that travel in front of them with the last bucket: for each parameter the number of
/// ranks that have a gradient for it, and the riders, numbers of the loops that would otherwise need a collective of
/// their own.
///
/// If no rank has a gradient for a parameter, it stays without one. If some ranks have one, all ranks receive the mean;
/// a rank without a gradient counts as having a zero gradient.
class GradientExchange {
 public:
  /// `bucket_cap_mb`: if there are several buckets, the first are summed while backward makes the gradients of the
  /// next.
  GradientExchange(bool compressed, double bucket_cap_mb, PromisedUse promised);

  /// `run()` does the backward pass, whose gradients the next call of `mean` exchanges. Parameters that were frozen,
  /// added or moved since the last exchange are exchanged after backward.
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
      if (numbers[again()] > 0) {  // a rank changed a gradient after it was sent in backward
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
    for (std::size_t i = 0; i != plan.stretches.size(); ++i) write_stretch(i, numbers, share);
    for (auto const i : plan.loose) write_item(i, numbers[i], share);
  }

 private:
  /// Lays out this step, which must match on all ranks. Each layout is compared once. If a program alternates between
  /// layouts, ranks first exchange which one is current before each sum: sums of two layouts of equal size would be
  /// confused, and gloo ends the process if the sizes differ. With a single layout, or with one optimizer whose
  /// parameters are frozen or unfrozen once, nothing is exchanged.
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

  std::size_t again() const;
  std::vector<double> numbers_of(std::span<double const> riders, bool changed) const;
  std::vector<double> summed(Group& group, std::span<double const> riders, bool changed);
  /// For gradients on a GPU, where reading numbers would wait for it: exchanges the numbers separately.
  std::vector<double> exchanged_numbers(Group& group, std::span<double const> riders) const;

  /// Copies a whole range back at once if this rank received all gradients in it that any rank has, so that no gradient
  /// is newly received.
  void write_stretch(std::size_t index, std::vector<double> const& numbers, double share);
  /// Writing to an arena's slice marks the gradient as received.
  void write_item(std::size_t index, double count, double share);
  void write(at::Tensor const& to, at::Tensor const& sum, std::size_t tensor, double share) const;

  static constexpr int most_changes = 3;

  bool compressed_;
  std::int64_t most_;
  GradientBuckets buckets_ = {};
  UsedParameters used_;
  std::function<std::size_t()> current_ = nullptr;  ///< computes the current signature
  std::size_t signature_ = 0;
  std::size_t most_riders_ = 11;  ///< the maximum of any exchange; starts above that of an automatic step
  int changes_ = 0;               ///< gradients changed after they were sent; after some, backward sends nothing
  std::unordered_map<std::string, std::size_t> agreed_ = {};  ///< numbers of the layouts that all ranks have agreed on
  std::size_t list_ = 0;                                      ///< number of the current layout
  bool alternates_ = false;                                   ///< true once a layout has come back after another one
};

}  // namespace fulgurite::distributed

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/gradients.ipp>
#endif
