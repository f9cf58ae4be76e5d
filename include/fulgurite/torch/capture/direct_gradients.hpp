#pragma once
// A step clears its gradients and then adds to them. A replay writes them where they belong instead: without the
// clearing, without the addition, and if possible without memory in between.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/sort_seldom.hpp>
#include <fulgurite/torch/capture/out_form.hpp>

namespace fulgurite::libtorch::capture {

/// Finds, after each zero_() of the model's memory, what is added first to a slice of it. If that is the only result of
/// a call, and is used for nothing else, the call writes it to the slice. Otherwise it is copied there, as for a
/// convolution, which makes all of its gradients in one call.
class DirectGradients {
 public:
  DirectGradients(std::vector<Call> const& calls, std::vector<bool> const& alive,
                  std::vector<std::optional<OutForm>> const& forms, Listing const& listing,
                  std::vector<at::Tensor> const& leaving)
      : calls_(calls), alive_(alive), forms_(forms) {
    for (std::size_t i = 0; i != calls.size(); ++i) {
      if (!alive[i]) continue;
      each_tensor_of(calls[i].in, [&](at::Tensor const& tensor) { ++reads_[storage_of(tensor)]; });
      each_tensor_of(calls[i].out, [&](at::Tensor const& tensor) { makers_.try_emplace(storage_of(tensor), i); });
    }
    for (auto const& tensor : leaving) ++reads_[storage_of(tensor)];
    for (std::size_t i = 0; i != calls.size(); ++i)
      if (alive[i] && calls[i].name() == "aten::zero_" && listing.is_world(storage_of(calls[i].in[0].toTensor())))
        after_clearing(i, listing);
  }

  /// What is done in place of a call; nullopt: the call itself.
  std::optional<Memory> instead_of(std::size_t call) const {
    auto const found = instead_.find(call);
    return found == instead_.end() ? std::nullopt : std::optional(found->second);
  }
  /// The call whose result this call adds to cleared memory, so that 0 + x is left of the addition; nullopt: this call
  /// is no such addition.
  std::optional<std::size_t> added_by(std::size_t call) const {
    auto const found = added_by_.find(call);
    return found == added_by_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Where a call writes its result; nullptr: into the result's own memory.
  at::Tensor const* place_of(std::size_t call) const {
    auto const found = places_.find(call);
    return found == places_.end() ? nullptr : &found->second;
  }

 private:
  FULGURITE_BULK void after_clearing(std::size_t clearing, Listing const& listing) {
    auto const whole = calls_[clearing].in[0].toTensor();
    auto const all = span_of(whole);
    if (!whole.is_contiguous() || (whole.scalar_type() != at::kFloat && whole.scalar_type() != at::kDouble)) return;
    std::vector<Span> touched, written;
    for (std::size_t i = clearing + 1; i != calls_.size(); ++i) {
      if (!alive_[i]) continue;
      if (auto const maker = maker_of(i, clearing, whole, listing, touched)) {
        auto const slice = calls_[i].in[0].toTensor();
        auto const made = calls_[*maker].out[0].toTensor();
        places_.emplace(*maker, at::empty({0}, whole.options())
                                    .set_(whole.storage(), slice.storage_offset(), made.sizes(), made.strides()));
        instead_.emplace(i, Memory{Memory::Kind::add_to_zero, {part(whole, span_of(slice))}});
        added_by_.emplace(i, *maker);
        written.push_back(span_of(slice));
      } else if (is_first_addition(i, whole, touched)) {
        auto const slice = calls_[i].in[0].toTensor();
        instead_.emplace(i, Memory{Memory::Kind::zero_plus, {slice, calls_[i].in[1].toTensor()}});
        written.push_back(span_of(slice));
      }
      auto const touch = [&](at::Tensor const& tensor) {
        if (storage_of(tensor) == storage_of(whole)) touched.push_back(span_of(tensor));
      };
      each_tensor_of(calls_[i].in, touch);
      each_tensor_of(calls_[i].out, touch);
    }
    if (written.empty()) return;
    sort_seldom(written, [](Span const& a, Span const& b) { return a.begin < b.begin; });
    Memory rest{Memory::Kind::clear};
    auto from = all.begin;
    for (auto const& span : written) {
      if (from < span.begin) rest.tensors.push_back(part(whole, {from, span.begin}));
      from = span.end;
    }
    if (from < all.end) rest.tensors.push_back(part(whole, {from, all.end}));
    instead_.emplace(clearing, std::move(rest));
  }

  /// Whether this call adds a tensor to a slice of the same layout that nothing has read or written since the clearing.
  FULGURITE_BULK bool is_first_addition(std::size_t adding, at::Tensor const& whole,
                                        std::vector<Span> const& touched) const {
    auto const& call = calls_[adding];
    if (c10::toString(call.op.operator_name()) != "aten::add_.Tensor" || call.in[2].toScalar().toDouble() != 1.0)
      return false;
    auto const slice = call.in[0].toTensor(), added = call.in[1].toTensor();
    auto const to = span_of(slice), all = span_of(whole);
    if (storage_of(slice) != storage_of(whole) || to.begin < all.begin || to.end > all.end || slice.numel() == 0)
      return false;
    bool const same = added.scalar_type() == slice.scalar_type() && added.sizes() == slice.sizes() &&
                      added.strides() == slice.strides();
    if (!same || !slice.is_non_overlapping_and_dense() || storage_of(added) == storage_of(whole)) return false;
    return std::none_of(touched.begin(), touched.end(),
                        [&](Span const& other) { return other.begin < to.end && to.begin < other.end; });
  }

  /// The call whose result such an addition adds, if it can write to the slice itself.
  FULGURITE_BULK std::optional<std::size_t> maker_of(std::size_t adding, std::size_t clearing, at::Tensor const& whole,
                                                     Listing const& listing, std::vector<Span> const& touched) const {
    if (!is_first_addition(adding, whole, touched)) return std::nullopt;
    auto const slice = calls_[adding].in[0].toTensor(), added = calls_[adding].in[1].toTensor();
    if (reinterpret_cast<std::uintptr_t>(slice.const_data_ptr()) % 64 != 0)
      return std::nullopt;  // kernels may add in another order there
    if (added.storage_offset() != 0 || listing.role(added).kind != Role::Kind::made) return std::nullopt;
    auto const reads = reads_.find(storage_of(added));
    auto const maker = makers_.find(storage_of(added));
    if (reads == reads_.end() || reads->second != 1 || maker == makers_.end() || maker->second < clearing ||
        !forms_[maker->second])
      return std::nullopt;
    auto const& out = calls_[maker->second].out;
    if (out.size() != 1) return std::nullopt;
    auto const made = out[0].toTensor();
    bool const fills =
        made.numel() == slice.numel() && made.storage_offset() == 0 && made.is_non_overlapping_and_dense();
    return fills ? std::optional(maker->second) : std::nullopt;
  }

  FULGURITE_BULK static at::Tensor part(at::Tensor const& whole, Span span) {
    auto const item = static_cast<std::int64_t>(whole.itemsize());
    return at::empty({0}, whole.options())
        .set_(whole.storage(), span.begin / item, {(span.end - span.begin) / item}, {1});
  }

  std::vector<Call> const& calls_;
  std::vector<bool> const& alive_;
  std::vector<std::optional<OutForm>> const& forms_;
  std::unordered_map<Storage, int> reads_;
  std::unordered_map<Storage, std::size_t> makers_;
  std::unordered_map<std::size_t, Memory> instead_;
  std::unordered_map<std::size_t, std::size_t> added_by_;
  std::unordered_map<std::size_t, at::Tensor> places_;
};

}  // namespace fulgurite::libtorch::capture
