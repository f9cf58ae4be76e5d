#pragma once
// Sums gradients over all processes, bucket by bucket. Some sums begin while backward still runs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/torch/optim/arena.hpp>

namespace fulgurite::distributed {

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
  template <class Optimizers>
  void lay_out(Optimizers& optimizers, bool compressed, std::int64_t most) {
    *this = {};
    std::apply([&](auto&... each) { (add(each, compressed), ...); }, optimizers);
    bool cpu = true;
    for (auto const& tensor : tensors) cpu = cpu && tensor.device.is_cpu();
    cut(cpu && most > 0 ? most : std::numeric_limits<std::int64_t>::max());
  }
  /// True if some sums can begin before backward has ended.
  bool overlaps() const;

  /// A hash of the layout's inputs, which change when a parameter is frozen or moved.
  template <class Optimizers>
  static std::size_t signature(Optimizers& optimizers) {
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

  template <class Optimizer>
  void add(Optimizer& optimizer, bool compressed) {
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
class ReadyHooks {
 public:
  using Says = std::function<void(std::size_t)>;

  ReadyHooks() = default;
  ReadyHooks(ReadyHooks const&) = delete;
  ReadyHooks& operator=(ReadyHooks const&) = delete;
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
class GradientBuckets {
 public:
  ExchangePlan plan = {};

  GradientBuckets() = default;
  GradientBuckets(GradientBuckets const&) = delete;  // hooks keep its address
  GradientBuckets& operator=(GradientBuckets const&) = delete;

  /// Allocates the tensors of a new plan, with room for `head` numbers in front of the first.
  void prepare(Group& group, std::int64_t head);

  /// Runs `backward()`, which makes the gradients for the next `sum`: those of all items, or of the `used` ones if that
  /// is known. Does not wait for other ranks.
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
  /// True if a gradient was written to after it had been sent.
  bool changed() const;

  /// Starts the remaining buckets, and waits for all of them.
  void sum(Group& group);

  /// Multiplies all sums, except for those that are sent in another type than that of their gradients: these are scaled
  /// in their own type when they are copied back.
  void scale(double by);

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
  static std::uint32_t version_of(at::Tensor const& tensor);

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
  ReadyHooks hooks_ = {};
  Group* group_ = nullptr;  ///< set while backward may start sums
  std::vector<bool> ready_ = {};
  std::vector<std::size_t> left_ = {};  ///< for each bucket: number of gradients not yet made
  std::vector<c10::intrusive_ptr<c10d::Work>> begun_ = {};
  std::vector<Sent> sent_ = {};
};

}  // namespace fulgurite::distributed

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/gradient_buckets.ipp>
#endif
