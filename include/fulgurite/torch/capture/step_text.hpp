#pragma once
// Where each tensor of a recorded step comes from, and a text for it that is the same whenever the step is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::capture {

/// Where a tensor's memory comes from: the model, the batch, an operator of the step, or a number of the host that
/// LibTorch has wrapped in a tensor.
struct Role {
  enum class Kind { world, batch, made, constant };
  Kind kind;
  std::size_t number;
};

/// The text of tensors and other values, and the first reason why their step cannot be on a tape.
class StepText {
 public:
  std::string refusal;  ///< why this step cannot be on a tape; empty: it can

  /// The text of a tensor that leaves the step.
  std::string leaves(at::Tensor const& tensor) {
    text_.clear();
    append(tensor, "what the step returns or logs");
    return text_;
  }

  bool is_world(Storage storage) const { return world_.number(storage).has_value(); }

  FULGURITE_COLD Role role(at::Tensor const& tensor) const {
    auto const storage = storage_of(tensor);
    if (auto const made = made_.find(storage); made != made_.end()) return {Role::Kind::made, made->second};
    if (auto const number = world_.number(storage)) return {Role::Kind::world, *number};
    for (std::size_t i = 0; i != batch_.size(); ++i)
      if (within(tensor, batch_[i])) return {Role::Kind::batch, i};
    return {Role::Kind::constant, 0};
  }

 protected:
  /// `batch`: the tensors of the batch, in order. `seed`: what backward started from, or undefined.
  StepText(std::vector<at::Tensor> batch, World const& world, at::Tensor const& seed)
      : world_(world), batch_(std::move(batch)), seed_(seed) {
    for (auto const& tensor : batch_)
      if (tensor.defined() && world_.number(storage_of(tensor))) refuse("the batch shares memory with the model");
  }

  void refuse(std::string reason) {
    if (refusal.empty()) refusal = std::move(reason);
  }

  FULGURITE_COLD static bool within(at::Tensor const& part, at::Tensor const& whole) {
    if (!whole.defined() || storage_of(part) != storage_of(whole)) return false;
    auto const a = span_of(part), b = span_of(whole);
    return a.begin >= b.begin && a.end <= b.end;
  }

  bool shares_batch(Storage storage) const {
    for (auto const& tensor : batch_)
      if (tensor.defined() && storage_of(tensor) == storage) return true;
    return false;
  }

  FULGURITE_COLD void append(at::Tensor const& tensor, std::string const& reader) {
    auto const [kind, number] = role(tensor);
    auto offset = tensor.storage_offset();
    if (kind == Role::Kind::batch) {
      for (std::size_t i = 0; i != batch_.size(); ++i)
        if (i != number && batch_[i].defined() && storage_of(batch_[i]) == storage_of(tensor) &&
            overlap(batch_[i], batch_[number]))
          refuse("tensors of the batch share memory");
      offset -= batch_[number].storage_offset();
    } else if (kind == Role::Kind::constant) {
      bool const wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
      bool const seed = seed_.defined() && storage_of(seed_) == storage_of(tensor);
      if (!wrapped && !seed)
        refuse(reader + " reads a tensor that is neither the batch nor a parameter, gradient or buffer of the model: "
                        "register it as a buffer");
      else text_ += " value " + std::to_string(bits_of(tensor));
    }
    text_ += ' ';
    text_ += "wbtc"[static_cast<std::size_t>(kind)];
    text_ += std::to_string(number) + "+" + std::to_string(offset) + " " + c10::toString(tensor.scalar_type());
    for (auto n : tensor.sizes()) text_ += "," + std::to_string(n);
    for (auto n : tensor.strides()) text_ += ";" + std::to_string(n);
    if (tensor.requires_grad()) text_ += " requires_grad";
  }

  FULGURITE_COLD void append(IValue const& value, std::string const& reader) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) append(value.toTensor(), reader);
      else text_ += " undefined";
    } else if (value.isList()) {
      text_ += " [";
      for (IValue const& element : value.toListRef()) append(element, reader);
      text_ += " ]";
    } else if (value.isNone()) text_ += " none";
    else if (value.isBool()) text_ += value.toBool() ? " true" : " false";
    else if (value.isDouble()) {
      double const number = value.toDouble();
      std::uint64_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      text_ += " d" + std::to_string(bits);
    } else if (value.isInt()) text_ += " " + std::to_string(value.toInt());
    else if (value.isString()) text_ += " '" + value.toStringRef() + "'";
    else if (value.isDevice()) text_ += " " + value.toDevice().str();
    else if (value.isGenerator())
      text_ += " generator " +
               std::to_string(reinterpret_cast<std::uintptr_t>(value.toGenerator().unsafeGetGeneratorImpl()));
    else refuse(reader + " has an argument of a kind that a tape does not know: " + value.tagKind());
  }

  static bool overlap(at::Tensor const& a, at::Tensor const& b) {
    auto const x = span_of(a), y = span_of(b);
    return x.begin < y.end && y.begin < x.end;
  }
  FULGURITE_COLD static std::uint64_t bits_of(at::Tensor const& tensor) {
    std::uint64_t bits = 0;
    if (tensor.numel() != 0)
      std::memcpy(&bits, tensor.const_data_ptr(), std::min<std::size_t>(sizeof bits, tensor.itemsize()));
    return bits;
  }

  World const& world_;
  std::unordered_map<Storage, std::size_t> made_;
  std::string text_;

 private:
  std::vector<at::Tensor> batch_;
  at::Tensor seed_;
};

}  // namespace fulgurite::libtorch::capture
