#pragma once
// An optimizer's update rule on a GPU, as one kernel over flat buffers. The rule is called once with values that write
// down what is done to them; the kernel does all of it in one pass over memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::libtorch {

/// What an update rule does, operation by operation. Values are numbered: the parameters are 0, the gradients 1, the
/// states follow.
class UpdateTrace {
 public:
  enum class What : std::uint8_t { copy, scale, divide, add_number, add, add_product, add_quotient, root, maximum };
  /// value[to] = what(value[from], value[a], value[b], number)
  struct Operation {
    What what;
    std::uint8_t to, from, a, b;
    bool operator==(Operation const&) const = default;
  };
  static constexpr std::size_t most = 24;

  explicit UpdateTrace(std::size_t inputs) : inputs_(inputs), values_(inputs) {}

  void note(What what, std::size_t to, std::size_t from, std::size_t a = 0, std::size_t b = 0, double number = 0);
  std::size_t fresh() { return values_++; }

  std::size_t inputs() const { return inputs_; }
  std::size_t values() const { return values_; }
  std::span<Operation const> operations() const { return {operations_.data(), size_}; }
  std::span<double const> numbers() const { return {numbers_.data(), size_}; }
  /// False if the rule does more than a trace can hold.
  bool whole() const { return whole_; }

 private:
  std::size_t inputs_, values_, size_ = 0;
  bool whole_ = true;
  std::array<Operation, most> operations_{};
  std::array<double, most> numbers_{};
};

/// A value with at::Tensor's operations that an update rule uses. Each is noted in the trace.
class TracedValue {
  using What = UpdateTrace::What;

 public:
  TracedValue(UpdateTrace& trace, std::size_t number) : trace_(&trace), number_(number) {}

  TracedValue const& mul_(double factor) const { return change(What::scale, 0, 0, factor); }
  TracedValue const& div_(double divisor) const { return change(What::divide, 0, 0, divisor); }
  TracedValue const& add_(double summand) const { return change(What::add_number, 0, 0, summand); }
  TracedValue const& add_(TracedValue const& y, double alpha) const { return change(What::add, y.number_, 0, alpha); }
  TracedValue add(TracedValue const& y, double alpha) const { return result(What::add, y.number_, 0, alpha); }
  TracedValue const& addcmul_(TracedValue const& a, TracedValue const& b, double value) const {
    return change(What::add_product, a.number_, b.number_, value);
  }
  TracedValue addcmul(TracedValue const& a, TracedValue const& b, double value) const {
    return result(What::add_product, a.number_, b.number_, value);
  }
  TracedValue const& addcdiv_(TracedValue const& a, TracedValue const& b, double value = 1.0) const {
    return change(What::add_quotient, a.number_, b.number_, value);
  }
  TracedValue sqrt() const { return result(What::root, 0, 0, 0); }
  TracedValue const& copy_(TracedValue const& from) const { return change(What::copy, from.number_, 0, 0); }
  TracedValue const& take_maximum(TracedValue const& other) const { return change(What::maximum, other.number_, 0, 0); }

 private:
  TracedValue const& change(What what, std::size_t a, std::size_t b, double number) const {
    trace_->note(what, number_, number_, a, b, number);
    return *this;
  }
  TracedValue result(What what, std::size_t a, std::size_t b, double number) const {
    auto const to = trace_->fresh();
    trace_->note(what, to, number_, a, b, number);
    return {*trace_, to};
  }
  UpdateTrace* trace_;
  std::size_t number_;
};

inline void take_maximum(TracedValue const& x, TracedValue const& other) { x.take_maximum(other); }
inline void scale_and_add(TracedValue const& x, double factor, TracedValue const& y, double alpha) {
  x.mul_(factor).add_(y, alpha);
}
inline void scale_and_addcmul(TracedValue const& x, double factor, TracedValue const& a, TracedValue const& b,
                              double value) {
  x.mul_(factor).addcmul_(a, b, value);
}
inline void add_quotient(TracedValue const& to, TracedValue const& x, TracedValue const& root, double divisor,
                         double eps, double value) {
  to.addcdiv_(x, root.div_(divisor).add_(eps), value);
}

/// Runs the traced rule on `count` consecutive numbers of each input: `memory` points to their first elements, null
/// where the rule has no such state. False if there is no kernel with the bits of LibTorch's operators; then nothing
/// was changed. Kernels are compiled and compared with `operators`, which runs the same rule on tensors, before their
/// first use in the process; while a CUDA graph is recorded there is none that was not used before.
bool updated_by_kernel(UpdateTrace const& trace, std::span<void* const> memory, std::int64_t count, at::ScalarType type,
                       at::Device device, std::function<void(std::span<at::Tensor const>)> const& operators);

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/gpu_update.ipp>
#endif
