#pragma once
// The gradients of a step become their mean over all processes.

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

// What a strategy of several processes knows of its model: the names, by which ranks compare what they have, and the
// buffers.

/// Every rank has to say the same lines; else an Error, on all of them, that names the first that differs. `of`: what
/// the lines are about.
void require_same(Group& group, std::vector<std::string> const& lines, std::string const& of);

/// The tensors of a list one after another, as bytes, so that one broadcast takes them all, whatever their types.
class AsBytes {
 public:
  explicit AsBytes(std::vector<at::Tensor> tensors);
  bool is_empty() const { return tensors_.empty(); }

  /// All ranks have what rank 0 has.
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
  /// Compares parameters and buffers of all ranks, their names, types, shapes and order, and gives all the values of
  /// rank 0.
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

// Which parameters the steps of this rank use, where the program has promised something about that.

/// What a program says of the parameters that its steps use.
struct PromisedUse {
  bool all = false;          ///< every step uses every parameter
  bool as_in_first = false;  ///< every step uses those that the first one used
};

/// Holds steps to what was promised. A step of this rank in which nothing was made, since it left its batch out, says
/// nothing.
class UsedParameters {
 public:
  explicit UsedParameters(PromisedUse promised) : promised_(promised) {}

  /// Before the gradients of a step are exchanged; `list`: the number of its list of parameters. An Error that names
  /// the first parameter of which the promise is not true.
  void check(std::vector<Item> const& items, std::size_t list, Replica const& replica);

  /// Which parameters of a list the steps of this rank use, as far as is known and promised, else null: what waits for
  /// all gradients need not wait for those of the others.
  std::vector<bool> const* used(std::size_t list) const;

 private:
  static void require_all(std::vector<Item> const& items, Replica const& replica);
  void require_as_in_first(std::vector<Item> const& items, std::size_t list, Replica const& replica);

  PromisedUse promised_;
  std::unordered_map<std::size_t, std::vector<bool>> first_ = {};  ///< by the number of the list
};

/// What travels beside the gradients, in their type, counts ranks. An Error where that type does not count so far.
void require_counts(at::ScalarType type, int world);

/// In front of the gradients, and with their last bucket, travel numbers: for each parameter how many ranks have a
/// gradient for it, and the riders, which are numbers of the loops that need no collective of their own so.
///
/// A parameter that no rank has a gradient for stays without. One that some have receives it on all ranks; a rank
/// without a gradient counts as one of zero.
class GradientExchange {
 public:
  /// `bucket_cap_mb`: of several buckets, the first are summed while backward makes the gradients of the next ones.
  GradientExchange(bool compressed, double bucket_cap_mb, PromisedUse promised);

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

  std::size_t again() const;
  std::vector<double> numbers_of(std::span<double const> riders, bool changed) const;
  std::vector<double> summed(Group& group, std::span<double const> riders, bool changed);
  /// Beside gradients on a GPU, where reading numbers would wait for it.
  std::vector<double> exchanged_numbers(Group& group, std::span<double const> riders) const;

  /// Where all that some rank has was received here, too, a whole stretch is one copy; nothing in it is received anew.
  void put_back_stretch(std::size_t index, std::vector<double> const& numbers, double share);
  /// Writing to an arena's slice says that it is received.
  void put_back_item(std::size_t index, double count, double share);
  void write(at::Tensor const& to, at::Tensor const& sum, std::size_t tensor, double share) const;

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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/gradients.ipp>
#endif
