#pragma once
// An operator on few numbers as a function and its arguments, which a replay calls instead of the operator.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <ATen/core/Reduction.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_log_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/nll_loss_forward_cpu_dispatch.h>
#include <ATen/ops/sigmoid_backward_cpu_dispatch.h>
#include <ATen/ops/sigmoid_cpu_dispatch.h>
#include <ATen/ops/tanh_backward_cpu_dispatch.h>
#include <ATen/ops/tanh_cpu_dispatch.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/native/shape.hpp>
#include <fulgurite/torch/native/small_kernels.hpp>

namespace fulgurite::libtorch::native {

/// From so many numbers on LibTorch may share an operator among threads, and what a call costs does not matter.
inline constexpr std::int64_t few_numbers = 32768;

/// A call that `run()` makes on the memory that its tensors have at that moment.
struct SmallCall {
  using Function = void (*)(SmallCall const&);
  Function function;
  std::vector<at::Tensor> in, out;
  std::int64_t rows = 1, columns = 0;  ///< of the first tensor of `in` or, where that is a number, of the result
  std::int64_t number = 0;             ///< what the function needs besides

  void run() const { function(*this); }
  float const* from(std::size_t i) const { return static_cast<float const*>(in[i].const_data_ptr()); }
  std::int64_t const* classes() const { return static_cast<std::int64_t const*>(in.back().const_data_ptr()); }
  float* to(std::size_t i = 0) const { return static_cast<float*>(out[i].mutable_data_ptr()); }
  at::Tensor& place() const { return const_cast<at::Tensor&>(out[0]); }  // LibTorch's functions ask for it, and keep it
};

/// Reads a call of an operator in the form that writes into places it is given.
class SmallCalls {
 public:
  /// Candidates, of which at most one has LibTorch's bits: that has to be tried. `name`: with the overload.
  FULGURITE_BULK static std::vector<SmallCall> of(std::string_view name, torch::jit::Stack const& arguments) {
    using C = SmallCall;
    SmallCalls const call(arguments);
    if (name == "aten::clamp_min.out" && call.is(1, 0))
      return call.each({0}, 2, [](C const& c) { relu(c.to(), c.from(0), c.columns); });
    if (name == "aten::threshold_backward.grad_input" && call.is(2, 0))
      return call.each({0, 1}, 3, [](C const& c) { relu_backward(c.to(), c.from(0), c.from(1), c.columns); });
    if (name == "aten::add.out" && call.is(2, 1))
      return call.each({0, 1}, 3, [](C const& c) { add(c.to(), c.from(0), c.from(1), c.columns); });
    if (name == "aten::mul.out")
      return call.each({0, 1}, 2, [](C const& c) { multiply(c.to(), c.from(0), c.from(1), c.columns); });
    if (name == "aten::mse_loss_backward.grad_input") return call.mse_backward();
    if (name == "aten::sum.IntList_out") return call.column_sums();
    if (name == "aten::nll_loss_forward.output") return call.nll_loss();
    if (name == "aten::nll_loss_backward.grad_input") return call.nll_loss_backward();
    // LibTorch's own arithmetic, called by its type and not through the dispatcher.
    if (name == "aten::_log_softmax.out" && call.is_false(2)) return call.log_softmax({0}, 3);
    if (name == "aten::_log_softmax_backward_data.out") return call.log_softmax({0, 1}, 4);
    if (name == "aten::tanh.out") return call.each({0}, 1, [](C const& c) { at::cpu::tanh_out(c.place(), c.in[0]); });
    if (name == "aten::sigmoid.out")
      return call.each({0}, 1, [](C const& c) { at::cpu::sigmoid_out(c.place(), c.in[0]); });
    if (name == "aten::tanh_backward.grad_input")
      return call.each({0, 1}, 2, [](C const& c) { at::cpu::tanh_backward_out(c.place(), c.in[0], c.in[1]); });
    if (name == "aten::sigmoid_backward.grad_input")
      return call.each({0, 1}, 2, [](C const& c) { at::cpu::sigmoid_backward_out(c.place(), c.in[0], c.in[1]); });
    return {};
  }

 private:
  using Function = SmallCall::Function;
  explicit SmallCalls(torch::jit::Stack const& arguments) : all_(arguments) {}

  bool is(std::size_t i, double number) const { return all_[i].isScalar() && all_[i].toScalar().toDouble() == number; }
  bool is_false(std::size_t i) const { return all_[i].isBool() && !all_[i].toBool(); }
  bool is_absent(std::size_t i) const {
    return all_[i].isNone() || (all_[i].isTensor() && !all_[i].toTensor().defined());
  }
  /// Dense float32 numbers of the CPU, few of them.
  bool is_few(std::size_t i) const {
    if (!all_[i].isTensor() || !is_plain_float(all_[i].toTensor())) return false;
    auto const& tensor = all_[i].toTensor();
    return tensor.is_contiguous() && tensor.numel() != 0 && tensor.numel() < few_numbers;
  }
  bool is_number(std::size_t i) const { return is_few(i) && all_[i].toTensor().dim() == 0; }
  bool is_matrix(std::size_t i) const { return is_few(i) && all_[i].toTensor().dim() == 2; }

  SmallCall made(std::initializer_list<std::size_t> from, std::initializer_list<std::size_t> to, Function f) const {
    SmallCall call{f, {}, {}};
    for (auto const i : from) call.in.push_back(all_[i].toTensor());
    for (auto const i : to) call.out.push_back(all_[i].toTensor());
    return call;
  }

  /// A function of each element of tensors of one shape.
  std::vector<SmallCall> each(std::initializer_list<std::size_t> from, std::size_t to, Function f) const {
    for (auto const i : from)
      if (!is_few(i) || !is_few(to) || all_[i].toTensor().sizes() != all_[to].toTensor().sizes()) return {};
    auto call = made(from, {to}, f);
    call.columns = call.out[0].numel();
    return {call};
  }

  std::vector<SmallCall> log_softmax(std::initializer_list<std::size_t> from, std::size_t to) const {
    bool const forward = from.size() == 1;
    auto const& x = all_[0].toTensor();
    auto const dim = all_[forward ? 1 : 2].toInt();
    if (!x.defined() || x.dim() == 0 || (dim != -1 && dim != x.dim() - 1)) return {};
    return forward
               ? each(from, to, [](SmallCall const& c) { at::cpu::_log_softmax_out(c.place(), c.in[0], -1, false); })
               : each(from, to, [](SmallCall const& c) {
                   at::cpu::_log_softmax_backward_data_out(c.place(), c.in[0], c.in[1], -1, at::kFloat);
                 });
  }

  std::vector<SmallCall> mse_backward() const {
    if (!is_number(0) || all_[3].toInt() != at::Reduction::Mean || !is_few(1) || !is_few(2) || !is_few(4)) return {};
    auto call = made({1, 2, 0}, {4}, [](SmallCall const& c) {
      native::mse_backward(c.to(), static_cast<float>(2.0 / static_cast<double>(c.columns)), *c.from(2), c.from(0),
                           c.from(1), c.columns);
    });
    call.columns = call.in[0].numel();
    if (call.in[0].sizes() != call.in[1].sizes() || call.out[0].numel() != call.columns) return {};
    return {call};
  }

  /// How many columns LibTorch sums in the plain order follows from the width of its registers, of which it has kernels
  /// for several.
  std::vector<SmallCall> column_sums() const {
    if (!is_matrix(0) || !is_few(4) || !all_[1].isIntList() || all_[1].toIntVector() != std::vector<std::int64_t>{0})
      return {};
    auto call =
        made({0}, {4}, [](SmallCall const& c) { native::column_sums(c.to(), c.from(0), c.rows, c.columns, c.number); });
    call.rows = call.in[0].size(0);
    call.columns = call.in[0].size(1);
    if (call.columns == 1 || call.out[0].numel() != call.columns) return {};  // one column is summed along itself
    std::vector<SmallCall> all;
    for (std::int64_t const lanes : {16, 8, 4}) {
      auto const at_once = call.columns >= lanes ? 4 * lanes : 4;
      call.number = call.columns / at_once * at_once;
      if (std::none_of(all.begin(), all.end(), [&](auto const& other) { return other.number == call.number; }))
        all.push_back(call);
    }
    return all;
  }

  /// A mean over classes that are numbers, none of them with a weight.
  bool is_nll(std::size_t x, std::size_t target, std::size_t weight, std::size_t reduction) const {
    if (!is_matrix(x) || !all_[target].isTensor() || !is_absent(weight)) return false;
    auto const& classes = all_[target].toTensor();
    return classes.scalar_type() == at::kLong && classes.is_contiguous() && classes.dim() == 1 && classes.is_cpu() &&
           classes.size(0) == all_[x].toTensor().size(0) && all_[reduction].toInt() == at::Reduction::Mean;
  }
  std::vector<SmallCall> nll_loss() const {
    if (!is_nll(0, 1, 2, 3) || !is_number(5) || !is_number(6)) return {};
    auto call = made({0, 1}, {5, 6}, [](SmallCall const& c) {
      if (!native::nll_loss(c.to(0), c.to(1), c.from(0), c.classes(), c.rows, c.columns, c.number))
        at::cpu::nll_loss_forward(c.in[0], c.in[1], {}, at::Reduction::Mean, c.number);  // says which class it is
    });
    return with_matrix(call, call.in[0], all_[4].toInt());
  }
  std::vector<SmallCall> nll_loss_backward() const {
    if (!is_number(0) || !is_nll(1, 2, 3, 4) || !is_number(6) || !is_few(7)) return {};
    auto call = made({0, 6, 2}, {7}, [](SmallCall const& c) {
      native::nll_loss_backward(c.to(), *c.from(0), *c.from(1), c.classes(), c.rows, c.columns, c.number);
    });
    if (call.out[0].sizes() != all_[1].toTensor().sizes()) return {};
    return with_matrix(call, call.out[0], all_[5].toInt());
  }
  static std::vector<SmallCall> with_matrix(SmallCall call, at::Tensor const& matrix, std::int64_t number) {
    call.rows = matrix.size(0);
    call.columns = matrix.size(1);
    call.number = number;
    return {call};
  }

  torch::jit::Stack const& all_;
};

}  // namespace fulgurite::libtorch::native
