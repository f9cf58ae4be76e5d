#pragma once
// How the gradients of a step lie in the tensors, one for each element type, that are summed over all processes.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

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

}  // namespace fulgurite::distributed
