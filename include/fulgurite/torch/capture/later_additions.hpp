#pragma once
// Products that are added to a gradient as it is, in the later batches of an accumulation window: one pass less where
// the product adds itself.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <ATen/ops/empty.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/direct_gradients.hpp>
#include <fulgurite/torch/capture/tape_product.hpp>

namespace fulgurite::libtorch::capture {

/// Finds the products whose only use is to be added to a tensor of the model, which nobody looks at from the product to
/// the addition: there it does not matter when the sum is made. It is made of the same two numbers, so with the same
/// bits, and only where Epilogue::then_onto is certified.
class LaterAdditions {
 public:
  /// `first`: the additions that are dealt with already.
  LaterAdditions(std::vector<Call> const& calls, std::vector<bool> const& alive, DirectGradients const& first,
                 Listing const& listing, std::vector<at::Tensor> const& leaving)
      : calls_(calls), alive_(alive) {
    for (std::size_t i = 0; i != calls.size(); ++i) {
      if (!alive[i]) continue;
      each_tensor_of(calls[i].in, [&](at::Tensor const& tensor) { ++reads_[storage_of(tensor)]; });
      if (auto const where = product_arguments(calls[i]); where && !where->adds)
        products_.emplace(storage_of(calls[i].out[0].toTensor()), i);
    }
    for (auto const& tensor : leaving) ++reads_[storage_of(tensor)];
    for (std::size_t i = 0; i != calls.size(); ++i)
      if (alive[i] && !first.instead_of(i)) look_at(i, listing);
  }

  /// Where a product would add its result itself; nullptr: nowhere.
  at::Tensor const* place_of(std::size_t product) const {
    auto const found = places_.find(product);
    return found == places_.end() ? nullptr : &found->second;
  }
  /// The product that would make this addition needless.
  std::optional<std::size_t> product_of(std::size_t addition) const {
    auto const found = added_.find(addition);
    return found == added_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  FULGURITE_BULK void look_at(std::size_t adding, Listing const& listing) {
    auto const& call = calls_[adding];
    if (c10::toString(call.op.operator_name()) != "aten::add_.Tensor" || call.in[2].toScalar().toDouble() != 1.0)
      return;
    auto const slice = call.in[0].toTensor(), added = call.in[1].toTensor();
    auto const found = products_.find(storage_of(added));
    if (found == products_.end() || found->second > adding || reads_[storage_of(added)] != 1) return;
    auto const product = found->second;
    auto const made = calls_[product].out[0].toTensor();
    bool const whole = made.is_contiguous() && made.numel() == slice.numel() && made.storage_offset() == 0 &&
                       added.storage_offset() == 0;
    bool const same = added.scalar_type() == slice.scalar_type() && added.sizes() == slice.sizes() &&
                      added.strides() == slice.strides() && slice.is_non_overlapping_and_dense();
    bool const aligned = reinterpret_cast<std::uintptr_t>(slice.const_data_ptr()) % 64 == 0;  // as it is tried
    if (!whole || !same || !aligned || slice.numel() == 0 || !listing.is_world(storage_of(slice)) ||
        listing.role(added).kind != Role::Kind::made || is_touched(slice, product, adding))
      return;
    places_.emplace(
        product,
        at::empty({0}, slice.options()).set_(slice.storage(), slice.storage_offset(), made.sizes(), made.strides()));
    added_.emplace(adding, product);
  }

  /// By a call from `first` on that comes before `last`.
  FULGURITE_BULK bool is_touched(at::Tensor const& slice, std::size_t first, std::size_t last) const {
    auto const mine = span_of(slice);
    bool touched = false;
    auto const look = [&](at::Tensor const& tensor) {
      if (storage_of(tensor) != storage_of(slice)) return;
      auto const other = span_of(tensor);
      touched = touched || (other.begin < mine.end && mine.begin < other.end);
    };
    for (auto i = first; i != last; ++i) {
      if (!alive_[i]) continue;
      each_tensor_of(calls_[i].in, look);
      each_tensor_of(calls_[i].out, look);
    }
    return touched;
  }

  std::vector<Call> const& calls_;
  std::vector<bool> const& alive_;
  std::unordered_map<Storage, int> reads_;
  std::unordered_map<Storage, std::size_t> products_;
  std::unordered_map<std::size_t, at::Tensor> places_;
  std::unordered_map<std::size_t, std::size_t> added_;
};

}  // namespace fulgurite::libtorch::capture
