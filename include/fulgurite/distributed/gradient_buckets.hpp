#pragma once
// The sums of gradients over all processes, bucket by bucket, some of which begin while backward still runs.

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
  libtorch::Arena::Slot const* slot = nullptr;  ///< where it lies in an arena
  bool received = false;                        ///< it has a gradient in this step
  std::size_t bucket = 0;
};

/// Neighbours in an arena, which are copied as one.
struct Stretch {
  at::Tensor gradients = {};  ///< that part of the arena's gradients
  at::Tensor cleared = {};    ///< all of them, as the arena clears them
  std::size_t tensor = 0;
  std::int64_t offset = 0, size = 0;
  std::size_t first = 0, last = 0;  ///< items
};

/// Neighbours in a SumTensor, which are summed in one all-reduce.
struct Bucket {
  std::size_t tensor = 0;
  std::int64_t begin = 0, end = 0;
  std::size_t items = 0;
  std::vector<std::size_t> stretches = {}, loose = {};  ///< of those of the plan
};

/// A tensor in which gradients are summed over all ranks: one for each element type and device, which mostly is one in
/// all.
struct SumTensor {
  at::ScalarType type;
  at::Device device;
  std::int64_t size = 0;
  std::int64_t head = 0;     ///< numbers in front of the gradients
  bool as_gradients = true;  ///< its type is that of all of its gradients
  at::Tensor buffer = {};
  at::Tensor sums = {};  ///< what lies behind those numbers
};

/// The parameters that require a gradient, of all optimizers in their order, each once.
struct ExchangePlan {
  std::vector<Item> items = {};
  std::vector<Stretch> stretches = {};
  std::vector<std::size_t> loose = {};  ///< items of optimizers without an arena
  std::vector<SumTensor> tensors = {};
  std::vector<Bucket> buckets = {};  ///< in the order in which they are summed

  /// `compressed`: floats and doubles travel as bfloat16. `most`: bytes of a bucket, unless a parameter has more; 0:
  /// one bucket for each tensor.
  template <class Optimizers>
  void lay_out(Optimizers& optimizers, bool compressed, std::int64_t most) {
    *this = {};
    std::apply([&](auto&... each) { (add(each, compressed), ...); }, optimizers);
    bool cpu = true;
    for (auto const& tensor : tensors) cpu = cpu && tensor.device.is_cpu();
    cut(cpu && most > 0 ? most : std::numeric_limits<std::int64_t>::max());
  }
  /// Some sums can begin before backward has ended.
  bool overlaps() const;

  /// A number that another layout does not have. What it reads changes where a parameter is frozen or moved.
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

  /// Which gradients this step has made.
  void look();

 private:
  static std::int64_t end_of(Item const& item);

  /// From the last parameter to the first, as backward mostly reaches them. The bucket of the first one comes last:
  /// with it travels what is known after backward alone.
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

/// While it lives, says(number) after backward has added to the gradient of the parameter that was given with that
/// number. Where LibTorch makes another accumulator for a parameter (its type was changed), nobody is told of it any
/// more.
class ReadyHooks {
 public:
  using Says = std::function<void(std::size_t)>;

  ReadyHooks() = default;
  ReadyHooks(ReadyHooks const&) = delete;
  ReadyHooks& operator=(ReadyHooks const&) = delete;
  ~ReadyHooks() { clear(); }

  /// A leaf that requires a gradient.
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
  void prepare(Group& group, std::int64_t head);

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
  bool changed() const;

  /// Begins the buckets that are left, and waits for all of them.
  void sum(Group& group);

  /// All that was summed is multiplied, but for what travels in another type than that of its gradients: those are left
  /// to who puts them back, in their own type.
  void scale(double by);

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
  static std::uint32_t version_of(at::Tensor const& tensor);

  /// Views are made once: a small model would spend more time on them than on what they show.
  void look_at_parts();
  /// With the strides of the gradient, where it lies in an arena: a stretch of an arena is copied as it lies in memory.
  at::Tensor part(Item const& item) const;

  void begin(Group& group, std::size_t index, bool in_backward);

  /// Backward has added to the gradient of an item. One that it has put elsewhere is left for later.
  void ready(std::size_t index);

  void fill(Bucket const& bucket);
  void note(Bucket const& bucket);

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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/gradient_buckets.ipp>
#endif
