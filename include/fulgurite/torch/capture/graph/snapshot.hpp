#pragma once
// All that a step may change, as it was at one moment: the model's memory and the random generators; and what left the
// step.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::graph {

/// The copies stay on the device. Pieces of memory are copied whole, since a step may write to a part of one that
/// belongs to no tensor, as when an arena is cleared. No version counter is moved.
class Snapshot {
 public:
  explicit Snapshot(capture::World const& world, std::vector<at::Tensor> const& left = {}) {
    at::NoGradGuard const no_graph;
    std::unordered_set<capture::Storage> known;
    world.each_tensor([&](at::Tensor const& tensor) {
      if (!known.insert(capture::storage_of(tensor)).second) return;
      auto all = at::empty({0}, tensor.options().requires_grad(false));
      all.set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.itemsize())}, {1});
      copies_.push_back(all.clone());
      memory_.push_back(std::move(all));
    });
    for (auto const& tensor : left)
      if (tensor.defined()) copies_.push_back(tensor.detach().clone().reshape({-1}));
    save(at::Device(at::kCPU));
    if (world.device().is_cuda()) save(world.device());
  }

  /// Puts memory and generators back.
  FULGURITE_BULK void restore() const {
    at::NoGradGuard const no_graph;
    for (std::size_t i = 0; i != memory_.size(); ++i) memory_[i].copy_(copies_[i]);
    for (auto [generator, state] : generators_) {
      std::lock_guard const lock(generator.mutex());
      generator.set_state(state);
    }
  }

  /// Whether both are equal in every bit, those of nan and -0 included. Waits for the device, once.
  FULGURITE_BULK bool same(Snapshot const& other) const {
    if (!alike(other)) return false;
    at::Tensor differs;
    for (std::size_t i = 0; i != copies_.size(); ++i) {
      auto const one = copies_[i].view(at::kByte).ne(other.copies_[i].view(at::kByte)).any();
      differs = differs.defined() ? differs.logical_or(one) : one;
    }
    return !differs.defined() || !differs.item<bool>();
  }

  /// The sum of the squared differences; nan if a nan differs. Waits for the device.
  FULGURITE_BULK double distance(Snapshot const& other) const {
    double sum = alike(other) ? 0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; sum < std::numeric_limits<double>::infinity() && i != copies_.size(); ++i)
      sum += copies_[i].to(at::kDouble).sub(other.copies_[i].to(at::kDouble)).square().sum().item<double>();
    return sum;
  }

 private:
  /// Whether both have the same sizes and types, and as many random numbers were drawn.
  FULGURITE_BULK bool alike(Snapshot const& other) const {
    auto const same_form = [](at::Tensor const& a, at::Tensor const& b) {
      return a.options().type_equal(b.options()) && a.device() == b.device() && a.sizes() == b.sizes();
    };
    auto const same_state = [](auto const& a, auto const& b) { return a.second.equal(b.second); };
    return std::equal(copies_.begin(), copies_.end(), other.copies_.begin(), other.copies_.end(), same_form) &&
           std::equal(generators_.begin(), generators_.end(), other.generators_.begin(), other.generators_.end(),
                      same_state);
  }
  FULGURITE_BULK void save(at::Device device) {
    auto generator = at::globalContext().defaultGenerator(device);
    std::lock_guard const lock(generator.mutex());
    auto state = generator.get_state();
    generators_.emplace_back(generator, std::move(state));
  }

  std::vector<at::Tensor> memory_, copies_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

}  // namespace fulgurite::libtorch::graph
