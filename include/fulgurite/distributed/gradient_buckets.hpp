#pragma once
// The sums of gradients over all processes, bucket by bucket, some of which begin while backward still runs.

#include <algorithm>
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
  bool overlaps() const { return buckets.size() > tensors.size(); }

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
  void look() {
    for (auto& item : items) item.received = item.slot ? item.slot->received : item.parameter.grad().defined();
  }

 private:
  static std::int64_t end_of(Item const& item) { return item.offset + item.parameter.numel(); }

  /// From the last parameter to the first, as backward mostly reaches them. The bucket of the first one comes last:
  /// with it travels what is known after backward alone.
  void cut(std::int64_t most) {
    constexpr auto none = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> open(tensors.size(), none);
    for (auto i = items.size(); i-- != 0;) {
      auto& item = items[i];
      auto const bytes = static_cast<std::int64_t>(c10::elementSize(tensors[item.tensor].type));
      auto& now = open[item.tensor];
      if (now == none || (buckets[now].end - item.offset) * bytes > most) {
        now = buckets.size();
        buckets.push_back({item.tensor, item.offset, end_of(item)});
      }
      buckets[now].begin = item.offset;
      ++buckets[now].items;
      item.bucket = now;
    }
    if (items.empty()) return;
    auto const first = items.front().bucket, last = buckets.size() - 1;
    std::swap(buckets[first], buckets[last]);
    for (auto& item : items)
      if (item.bucket == first || item.bucket == last) item.bucket = first + last - item.bucket;
    cut_stretches();
    for (auto const i : loose) buckets[items[i].bucket].loose.push_back(i);
  }
  void cut_stretches() {
    std::vector<Stretch> parts;
    for (auto const& whole : stretches)
      for (auto first = whole.first, last = first; first != whole.last; first = last) {
        auto const bucket = items[first].bucket;
        while (last != whole.last && items[last].bucket == bucket) ++last;
        auto const offset = items[first].offset, size = end_of(items[last - 1]) - offset;
        buckets[bucket].stretches.push_back(parts.size());
        parts.push_back({whole.gradients.narrow(0, offset - whole.offset, size), whole.cleared, whole.tensor, offset,
                         size, first, last});
      }
    stretches = std::move(parts);
  }

  std::size_t tensor_of(at::Tensor const& parameter, bool compressed) {
    auto const type = compressed && parameter.is_floating_point() ? at::kBFloat16 : parameter.scalar_type();
    std::size_t i = 0;
    while (i != tensors.size() && (tensors[i].type != type || tensors[i].device != parameter.device())) ++i;
    if (i == tensors.size()) tensors.push_back({type, parameter.device()});
    tensors[i].as_gradients = tensors[i].as_gradients && type == parameter.scalar_type();
    return i;
  }
  bool has(at::Tensor const& parameter) const {
    for (auto const& item : items)
      if (item.parameter.is_same(parameter)) return true;
    return false;
  }

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
  void add_neighbours(libtorch::Arena& arena, libtorch::Arena::Buffer const& buffer, bool compressed) {
    bool joined = false;
    for (auto const i : buffer.slots) {
      auto const& slot = arena.slots()[i];
      if (!slot.parameter.requires_grad() || has(slot.parameter)) {
        joined = false;
        continue;
      }
      auto const tensor = tensor_of(slot.parameter, compressed);
      if (!std::exchange(joined, true))
        stretches.push_back({buffer.gradients_too.narrow(0, slot.begin, 0), buffer.gradients, tensor,
                             tensors[tensor].size, 0, items.size(), items.size()});
      auto& stretch = stretches.back();
      auto const begin = slot.begin - stretch.gradients.storage_offset();
      items.push_back({slot.parameter, tensor, stretch.offset + begin, &slot});
      stretch.last = items.size();
      stretch.size = begin + slot.parameter.numel();
      tensors[tensor].size = stretch.offset + stretch.size;
      stretch.gradients = buffer.gradients_too.narrow(0, stretch.gradients.storage_offset(), stretch.size);
    }
  }
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
  void add(at::Tensor const& parameter, std::size_t number, Says const& says) {
    auto const accumulator = torch::autograd::impl::grad_accumulator(parameter);
    auto const key = accumulator->add_post_hook(std::make_unique<Hook>(number, says));
    hooks_.emplace_back(accumulator, key);
  }
  void clear() {
    for (auto const& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
    hooks_.clear();
  }

 private:
  struct Hook : torch::autograd::FunctionPostHook {
    std::size_t number;
    Says says;
    Hook(std::size_t n, Says s) : number(n), says(std::move(s)) {}
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
