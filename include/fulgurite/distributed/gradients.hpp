#pragma once
// Replaces the gradients of a step by their mean over all processes.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
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
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::distributed {

// Sums gradients over all processes, bucket by bucket. Some sums begin while backward still runs.

/// A parameter whose gradient is exchanged, and its place in the exchange.
struct Item {
  at::Tensor parameter = {};
  std::size_t tensor = 0;
  std::int64_t offset = 0;
  libtorch::Arena::Slot const* slot = nullptr;  ///< its slot in an arena, if it has one
  bool received = false;                        ///< true if it has a gradient in this step
  std::size_t bucket = 0;
};

/// Neighbouring gradients in an arena, which are copied as one.
struct Stretch {
  at::Tensor gradients = {};  ///< this range of the arena's flat gradients
  at::Tensor cleared = {};    ///< the whole flat gradients, as the arena clears them
  std::size_t tensor = 0;
  std::int64_t offset = 0, size = 0;
  std::size_t first = 0, last = 0;  ///< a range of items
};

/// A range of a SumTensor that is summed in one all-reduce.
struct Bucket {
  std::size_t tensor = 0;
  std::int64_t begin = 0, end = 0;
  std::size_t items = 0;
  std::vector<std::size_t> stretches = {}, loose = {};  ///< indices in the plan
};

/// A tensor in which gradients are summed over all ranks. There is one for each element type and device: usually one in
/// all.
struct SumTensor {
  at::ScalarType type;
  at::Device device;
  std::int64_t size = 0;
  std::int64_t head = 0;     ///< count of numbers in front of the gradients
  bool as_gradients = true;  ///< true if all of its gradients have its element type
  at::Tensor buffer = {};
  at::Tensor sums = {};  ///< the part behind those numbers

  /// True if gradients are divided by the number of ranks before they are summed, since the sum of float16 gradients,
  /// which a loss scale makes as large as it can, overflows where their mean does not.
  bool divided_first() const { return type == at::kHalf; }
};

/// The parameters that require a gradient, of all optimizers in their order, each once.
struct ExchangePlan {
  std::vector<Item> items = {};
  std::vector<Stretch> stretches = {};
  std::vector<std::size_t> loose = {};  ///< indices of items whose optimizers have no arena
  std::vector<SumTensor> tensors = {};
  std::vector<Bucket> buckets = {};  ///< in the order of their sums

  /// `compressed`: floats and doubles are sent as bfloat16. `most`: the maximum size of a bucket in bytes, unless a
  /// single parameter is larger; 0: one bucket for each tensor.
  void lay_out(auto& optimizers, bool compressed, std::int64_t most) {
    *this = {};
    std::apply([&](auto&... each) { (add(each, compressed), ...); }, optimizers);
    bool cpu = true;
    for (auto const& tensor : tensors) cpu = cpu && tensor.device.is_cpu();
    cut(cpu && most > 0 ? most : std::numeric_limits<std::int64_t>::max());
  }
  /// True if some sums can begin before backward has ended.
  bool overlaps() const;

  /// A hash of the layout's inputs, which change when a parameter is frozen or moved.
  static std::size_t signature(auto& optimizers) {
    std::size_t sum = 1469598103934665603U;
    auto const mix = [&](auto value) { sum = (sum ^ static_cast<std::size_t>(value)) * 1099511628211U; };
    auto const one = [&](auto& optimizer) {
      auto&& parameters = optimizer.parameters();
      for (auto const& parameter : parameters) {
        mix(reinterpret_cast<std::uintptr_t>(parameter.unsafeGetTensorImpl()));
        mix(parameter.requires_grad() ? 2 : 1);
      }
      if constexpr (requires { parameters.arena(); })
        for (auto const& buffer : parameters.arena().buffers())
          mix(reinterpret_cast<std::uintptr_t>(buffer.gradients.const_data_ptr()));
      mix(3);
    };
    std::apply([&](auto&... each) { (one(each), ...); }, optimizers);
    return sum;
  }

  /// Finds out which gradients this step has made.
  void look();

 private:
  static std::int64_t end_of(Item const& item);

  /// Cuts buckets from the last parameter to the first, roughly the order in which backward reaches them. The bucket of
  /// the first parameter comes last: it also carries the numbers that are known only after backward.
  void cut(std::int64_t most);
  void cut_stretches();

  std::size_t tensor_of(at::Tensor const& parameter, bool compressed);
  bool has(at::Tensor const& parameter) const;

  void add(auto& optimizer, bool compressed) {
    auto&& parameters = optimizer.parameters();
    if constexpr (requires { parameters.arena(); }) {
      auto& arena = parameters.arena();
      for (auto const& buffer : arena.buffers()) add_neighbours(arena, buffer, compressed);
    } else {
      for (auto const& parameter : parameters) {
        if (!parameter.requires_grad() || has(parameter)) continue;
        auto const tensor = tensor_of(parameter, compressed);
        loose.push_back(items.size());
        items.push_back({parameter, tensor, tensors[tensor].size});
        tensors[tensor].size += parameter.numel();
      }
    }
  }
  void add_neighbours(libtorch::Arena& arena, libtorch::Arena::Buffer const& buffer, bool compressed);
};

/// While this object lives, it calls `says(number)` after backward has added to the gradient of the parameter that was
/// added with that number. If LibTorch replaces a parameter's accumulator (because its type was changed), the calls for
/// it stop.
class ReadyHooks : Pinned {
 public:
  using Says = std::function<void(std::size_t)>;

  ReadyHooks() = default;
  ~ReadyHooks() { clear(); }

  /// Adds a leaf that requires a gradient.
  void add(at::Tensor const& parameter, std::size_t number, Says const& says);
  void clear();

 private:
  struct Hook : torch::autograd::FunctionPostHook {
    std::size_t number;
    Says says;
    Hook(std::size_t n, Says s);
    torch::autograd::variable_list operator()(torch::autograd::variable_list const& outputs,
                                              torch::autograd::variable_list const&) override {
      says(number);
      return outputs;
    }
  };

  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, std::uintptr_t>> hooks_ = {};
};

/// Keeps the tensors that are summed. Each bucket is started once, in the order of the plan, on every rank: as soon as
/// backward has made all of its gradients and those of the buckets before it; the rest in `sum`. So the collectives of
/// a rank do not depend on which gradients it has made.
///
/// Gradients are copied when their bucket is started; `changed` reports that one was written to afterwards.
class GradientBuckets : Pinned {  // hooks keep its address
 public:
  ExchangePlan plan = {};

  /// Allocates the tensors of a new plan, with room for `head` numbers in front of the first.
  void prepare(Group& group, std::int64_t head);

  /// Runs `backward()`, which makes the gradients for the next `sum`: those of all items, or of the `used` ones if that
  /// is known. Does not wait for other ranks.
  void during(Group& group, std::vector<bool> const* used, auto&& backward) {
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
  /// True if a gradient was written to after it had been sent.
  bool changed() const;

  /// Starts the remaining buckets, and waits for all of them.
  void sum(Group& group);

  /// Turns sums into means, except for those that are sent in another type than that of their gradients: these are
  /// scaled in their own type when they are copied back.
  void scale();

  at::Tensor const& part_of_item(std::size_t i) const { return of_items_[i]; }
  at::Tensor const& part_of_stretch(std::size_t i) const { return of_stretches_[i]; }
  /// The numbers in front of the gradients.
  at::Tensor const& head() const { return head_; }

 private:
  static constexpr std::string_view occasion = "exchanging gradients";
  static constexpr std::int64_t unit = 16;
  static constexpr auto none = static_cast<std::size_t>(-1);
  struct Sent {
    at::Tensor tensor;  ///< undefined if the item had no gradient
    std::uint32_t version;
    std::size_t item = none;  ///< the item whose gradient it must still be
  };

  /// Makes views of the tensors once: a small model would spend more time on making views than on copying.
  void look_at_parts();
  /// With the strides of the gradient if it is in an arena, since a range of an arena is copied in memory order.
  at::Tensor part(Item const& item) const;

  void begin(Group& group, std::size_t index, bool in_backward);

  /// Called when backward has added to an item's gradient. A gradient that is in other memory than expected is sent in
  /// `sum`.
  void ready(std::size_t index);

  void fill(Bucket const& bucket);
  void note(Bucket const& bucket);

  std::vector<at::Tensor> of_items_ = {}, of_stretches_ = {}, of_buckets_ = {};  ///< parts of the tensors for each
  at::Tensor head_ = {};
  double share_ = 1;  ///< 1 / the number of ranks
  ReadyHooks hooks_ = {};
  Group* group_ = nullptr;  ///< set while backward may start sums
  std::vector<bool> ready_ = {};
  std::vector<std::size_t> left_ = {};  ///< for each bucket: number of gradients not yet made
  std::vector<c10::intrusive_ptr<c10d::Work>> begun_ = {};
  std::vector<Sent> sent_ = {};
};

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
      std::vector<at::Tensor> all;
      auto const add = [&](std::string const& name, at::Tensor const& tensor) {
        if (!tensor.defined()) return false;
        if (!names_.try_emplace(tensor.unsafeGetTensorImpl(), name).second) return false;
        all.push_back(tensor);
        return true;
      };
      for (auto const& one : model.named_parameters()) add(one.key(), one.value());
      for (auto const& one : model.named_buffers())
        if (add(one.key(), one.value())) buffers_.push_back(one.value());
      take_listed(group, std::move(all), "parameters and buffers");
    }
  }

  /// Gives all ranks rank 0's values of the optimizers' parameters that are not in the model's tree, such as those of a
  /// model that is no torch::nn::Module. Called after `take`.
  void take_others(Group& group, auto& optimizers) {
    std::vector<at::Tensor> all;
    auto const one = [&](auto& optimizer) {
      for (auto const& parameter : optimizer.parameters())
        if (names_.try_emplace(parameter.unsafeGetTensorImpl(), name(parameter)).second) all.push_back(parameter);
    };
    std::apply([&](auto&... each) { (one(each), ...); }, optimizers);
    take_listed(group, std::move(all), "parameters that only its optimizers have");
  }

  std::vector<at::Tensor> const& buffers() const { return buffers_; }
  std::string name(at::Tensor const& parameter) const;

  static std::string line(std::string const& name, at::Tensor const& tensor);

 private:
  void take_listed(Group& group, std::vector<at::Tensor> all, std::string const& of) const;

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
  void backward(Group& group, auto&& run) {
    bool const as_before = buckets_.plan.overlaps() && changes_ < most_changes && current_() == signature_;
    if (as_before) buckets_.during(group, used_.used(list_), run);
    else run();
  }

  void mean(Group& group, Replica const& replica, std::span<double> riders, auto& optimizers) {
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
    buckets_.scale();
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
  void lay_out(Group& group, Replica const& replica, auto& optimizers, std::size_t riders, std::size_t signature) {
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
  /// is newly received, and if all of them lie in it: that of a parameter which several optimizers share lies with the
  /// last one.
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
