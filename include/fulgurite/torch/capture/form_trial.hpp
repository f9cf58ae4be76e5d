#pragma once
// Whether a form of an operator gives the bits of the operator itself.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/known_forms.hpp>
#include <fulgurite/torch/capture/listing.hpp>
#include <fulgurite/torch/capture/memory.hpp>

namespace fulgurite::libtorch::capture {

/// Runs both forms on copies of what the call received. The bits, the layouts and the arguments must be the same
/// afterwards, and there must be no warning.
class Trial {
 public:
  explicit Trial(Call const& call) : call_(call), quiet_(&count_) {}

  FULGURITE_BULK bool passes(OutForm const& form) {
    try {
      at::AutoDispatchBelowADInplaceOrView const below;
      at::AutoGradMode const mode(call_.graph);
      Stack plain = copies();
      call_.op.callBoxed(plain);
      Stack given = copies(), results;
      std::vector<at::Tensor> places;
      for (IValue const& result : call_.out) {
        auto const& like = result.toTensor();
        at::Tensor place = at::empty_strided(like.sizes(), like.strides(), like.options());
        if (!same_layout(place, like) || place.storage().nbytes() > like.storage().nbytes()) return false;
        if (auto const n = place.storage().nbytes()) std::memset(place.storage().mutable_data(), 0xff, n);
        places.push_back(place);
        results.push_back(place);
      }
      std::vector<std::pair<Storage, std::size_t>> before;
      for (auto const& place : places) before.emplace_back(storage_of(place), place.storage().nbytes());
      if (form.rows) {
        Memory const rows{Memory::Kind::repeat, {given[*form.rows].toTensor(), places[0]}};
        if (!rows.fits_rows()) return false;
        rows.run();
      }
      at::Tensor made;
      for (auto const& earlier : form.before) {
        made = at::empty_like(given[0].toTensor());
        Stack first = earlier.stack(given, {made});
        earlier.op.callBoxed(first);
      }
      Stack all = form.stack(given, results, made);
      form.op.callBoxed(all);
      if (form.divisor != 1) Memory{Memory::Kind::divide, places, form.divisor}.run();
      for (std::size_t i = 0; i != places.size(); ++i) {
        auto const& result = plain[i].toTensor();
        if (storage_of(places[i]) != before[i].first || places[i].storage().nbytes() != before[i].second ||
            !same_layout(places[i], result) || !same_bytes(places[i], result))
          return false;
      }
      return count_.warnings == 0 && arguments_untouched(given);
    } catch (std::exception const&) { return false; }
  }

 private:
  struct Count : c10::WarningHandler {
    int warnings = 0;
    void process(c10::Warning const&) override { ++warnings; }
  };

  /// A copy of the bytes that the tensor looks at, as far from the start of a cache line as the tensor's own.
  FULGURITE_BULK static at::Tensor copy(at::Tensor const& tensor) {
    auto const item = static_cast<std::int64_t>(tensor.itemsize());
    auto const span = span_of(tensor);
    auto const bytes = static_cast<std::size_t>(span.end - span.begin);
    auto const before = bytes == 0 ? 0 : reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64;
    at::Storage storage(at::Storage::use_byte_size_t(), static_cast<std::int64_t>(before + bytes),
                        c10::GetCPUAllocator(), true);
    if (bytes != 0) std::memcpy(static_cast<char*>(storage.mutable_data()) + before, tensor.const_data_ptr(), bytes);
    auto other = frozen(tensor);
    other.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
    other.unsafeGetTensorImpl()->set_storage_offset(static_cast<std::int64_t>(before) / item);
    return other;
  }
  FULGURITE_BULK static bool same_bytes(at::Tensor const& a, at::Tensor const& b) {
    auto const x = span_of(a), y = span_of(b);
    auto const bytes = static_cast<std::size_t>(x.end - x.begin);
    return x.end - x.begin == y.end - y.begin &&
           (bytes == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), bytes) == 0);
  }
  Stack copies() const {
    Stack all;
    for (IValue const& value : call_.in) all.push_back(with_tensors(value, copy));
    return all;
  }
  FULGURITE_BULK bool arguments_untouched(Stack const& now) const {
    std::vector<at::Tensor> was;
    each_tensor_of(call_.in, [&](at::Tensor const& tensor) { was.push_back(tensor); });
    std::size_t i = 0;
    bool same = true;
    each_tensor_of(now, [&](at::Tensor const& tensor) { same = same && same_bytes(tensor, was[i++]); });
    return same;
  }

  Call const& call_;
  Count count_;
  c10::WarningUtils::WarningHandlerGuard quiet_;
};

}  // namespace fulgurite::libtorch::capture
