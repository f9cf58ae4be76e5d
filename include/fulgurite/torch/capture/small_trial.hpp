#pragma once
// Whether a function on few numbers has the bits of the operator that it would replace: tried before it is used, once
// in a process for each operator and shape.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/out_form.hpp>
#include <fulgurite/torch/native/certify.hpp>
#include <fulgurite/torch/native/small_call.hpp>

namespace fulgurite::libtorch::capture {

/// Runs an operator and the candidates for it on the recorded values and on draws, in memory that nobody else sees.
class SmallTrial {
 public:
  SmallTrial(Call const& call, OutForm const& form) : form_(form), name_(c10::toString(form.op.operator_name())) {
    for (IValue const& value : call.in) given_.push_back(with_tensors(value, copy));
    for (IValue const& value : call.out) {
      theirs_.emplace_back(at::empty_like(value.toTensor()));
      ours_.emplace_back(at::empty_like(value.toTensor()));
    }
  }

  /// Which candidate has the operator's bits; nullopt: none.
  FULGURITE_BULK std::optional<std::size_t> passing() {
    auto const candidates = native::SmallCalls::of(name_, form_.stack(given_, ours_));
    for (std::size_t i = 0; i != candidates.size(); ++i)
      if (passes(candidates[i])) return i;
    return std::nullopt;
  }

 private:
  static constexpr std::size_t enough = 512, most_rounds = 64;  // results compared, if few are made at once; draws

  FULGURITE_BULK bool passes(native::SmallCall const& candidate) {
    native::Numbers numbers;
    std::size_t seen = 0;
    for (std::size_t round = 0; round <= native::draws.size() || (seen < enough && round < most_rounds); ++round) {
      if (round != 0)
        draw(numbers, round <= native::draws.size() ? native::draws[round - 1] : native::Draw::normal, round % 3 == 0);
      clear(theirs_);
      clear(ours_);
      Stack all = form_.stack(given_, theirs_);
      form_.op.callBoxed(all);
      candidate.run();
      for (std::size_t i = 0; i != ours_.size(); ++i) {
        auto const &a = ours_[i].toTensor(), &b = theirs_[i].toTensor();
        if (std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) != 0) return false;
        seen += static_cast<std::size_t>(a.numel());
      }
    }
    return true;
  }
  /// `zero`: numbers that stand alone are 0, by which some operators divide.
  FULGURITE_BULK void draw(native::Numbers& numbers, native::Draw kind, bool zero) {
    each_tensor_of(given_, [&](at::Tensor const& tensor) {
      if (tensor.scalar_type() != at::kFloat) return;
      auto* const to = static_cast<float*>(tensor.mutable_data_ptr());
      numbers.fill(to, tensor.numel(), kind);
      if (zero && tensor.dim() == 0) *to = 0;
    });
  }
  FULGURITE_BULK static void clear(Stack const& places) {
    each_tensor_of(places,
                   [](at::Tensor const& place) { std::memset(place.mutable_data_ptr(), 0xff, place.nbytes()); });
  }
  FULGURITE_BULK static at::Tensor copy(at::Tensor const& tensor) {
    auto other = at::empty_like(tensor, at::MemoryFormat::Contiguous);
    if (tensor.is_contiguous()) std::memcpy(other.mutable_data_ptr(), tensor.const_data_ptr(), tensor.nbytes());
    return other;
  }

  OutForm const& form_;
  std::string name_;
  Stack given_, theirs_, ours_;
};

/// What decides which candidate has the bits: the operator, the sizes, and all that is no tensor.
FULGURITE_BULK std::string small_key(OutForm const& form, Stack const& arguments) {
  std::string key = c10::toString(form.op.operator_name());
  auto const number = [&](double value) { (key += 'b') += std::to_string(std::bit_cast<std::uint64_t>(value)); };
  for (IValue const& value : arguments) {
    key += ' ';
    if (value.isInt()) key += std::to_string(value.toInt());
    if (value.isBool()) key += value.toBool() ? "true" : "false";
    if (value.isDouble()) number(value.toDouble());
    if (value.isIntList())
      for (auto const n : value.toIntVector()) (key += ',') += std::to_string(n);
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    key += c10::toString(value.toTensor().scalar_type());
    for (auto const n : value.toTensor().sizes()) (key += ',') += std::to_string(n);
  }
  return key;
}

/// The function to call in place of the operator; nullopt: the operator. `place`: where its only result goes, if not
/// into its own memory. The recorded values have to be there still.
inline std::optional<native::SmallCall> small_call(Call const& call, OutForm const& form, at::Tensor const* place) {
  if (form.rows || !form.before.empty() || form.divisor != 1) return std::nullopt;
  auto const arguments = form.stack(call.in, place ? Stack{*place} : call.out);
  auto candidates = native::SmallCalls::of(c10::toString(form.op.operator_name()), arguments);
  if (candidates.empty()) return std::nullopt;
  static std::mutex mutex;
  static std::unordered_map<std::string, std::optional<std::size_t>> verdicts;
  std::lock_guard const lock(mutex);
  auto const [found, fresh] = verdicts.try_emplace(small_key(form, arguments));
  if (fresh) {
    try {
      at::AutoDispatchBelowADInplaceOrView const below;
      found->second = SmallTrial(call, form).passing();
    } catch (std::exception const&) {}  // an operator that refuses a draw stays as it is
  }
  if (!found->second) return std::nullopt;
  return std::move(candidates[*found->second]);
}

}  // namespace fulgurite::libtorch::capture
