#pragma once
// What a replay gives away: copies, since the next replay overwrites the tape's own tensors.

#include <cstddef>
#include <cstring>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/tape.hpp>

namespace fulgurite::libtorch::capture {

/// A copy that nobody holds any more is filled and given away again; most losses are dropped before the next step.
class Copies {
 public:
  FULGURITE_BULK at::Tensor take(Tape const& tape, std::size_t number) {
    auto const& from = tape.leaving()[number];
    if (last_.size() <= number) last_.resize(number + 1);
    auto& copy = last_[number];
    if (!copy.defined() || copy.use_count() != 1 || copy.storage().use_count() != 1 || !is_as_it_was(copy, from)) {
      at::AutoDispatchBelowADInplaceOrView const below;
      copy = from.clone();
    } else if (from.is_contiguous()) {
      std::memcpy(copy.data_ptr(), from.const_data_ptr(), from.nbytes());
    } else {
      at::AutoDispatchBelowADInplaceOrView const below;
      copy.copy_(from);
    }
    return copy;
  }

 private:
  FULGURITE_BULK static bool is_as_it_was(at::Tensor const& copy, at::Tensor const& from) {
    return copy.scalar_type() == from.scalar_type() && copy.sizes() == from.sizes() &&
           (!from.is_contiguous() || copy.is_contiguous()) && copy.unsafeGetTensorImpl()->autograd_meta() == nullptr;
  }

  std::vector<at::Tensor> last_;
};

}  // namespace fulgurite::libtorch::capture
