#pragma once
// Matrix products of steps that run as they are written: kernels before LibTorch's own, which look whether a scope is
// open on their thread.

#include <cstring>
#include <optional>

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_ops.h>
#include <torch/library.h>

#include <fulgurite/torch/native/open.hpp>
#include <fulgurite/torch/native/rule.hpp>
#include <fulgurite/torch/native/verdicts.hpp>

namespace fulgurite::libtorch::native {

/// The plan for a product at hand; nullptr: LibTorch's. LibTorch does not let products start threads where threads run
/// already, and what it does there is not what is tried here.
inline Plan const* plan_of(std::optional<ProductShape> const& shape, Operands const& given, Matmul how) {
  if (how == Matmul::libtorch || !shape || (how == Matmul::faster && !is_faster(*shape)) || at::in_parallel_region())
    return nullptr;
  return Verdicts::of_process().find(*shape, given);
}

/// How a product on this thread is to be computed, from what costs least to ask.
inline Matmul asked_for(at::Tensor const& a, at::Tensor const& b) {
  auto const how = on_this_thread();
  return how == Matmul::faster && !may_be_faster(a, b) ? Matmul::libtorch : how;
}

inline float const* numbers(at::Tensor const& tensor) { return static_cast<float const*>(tensor.const_data_ptr()); }

/// How `start` is added to a product of this shape, where that is one of the two ways that are known: as a row, or as a
/// whole.
inline std::optional<Epilogue> epilogue_of(at::Tensor const& start, at::Tensor const& a, at::Tensor const& b,
                                           at::Scalar const& beta, at::Scalar const& alpha) {
  if (!is_plain_float(start) || !start.is_contiguous() || !beta.equal(1) || !alpha.equal(1) || a.dim() != b.dim())
    return std::nullopt;
  auto const n = b.size(-1);
  if (a.dim() == 2 && start.dim() == 1 && start.size(0) == n) return Epilogue::row;
  bool const whole = start.dim() == a.dim() && start.size(-1) == n && start.size(-2) == a.size(-2) &&
                     (a.dim() != 3 || start.size(0) == a.size(0));
  return whole ? std::optional(Epilogue::onto) : std::nullopt;
}

inline at::Tensor new_result(ProductShape const& shape) {
  auto made = shape.batch == 0 ? at::detail::empty_cpu({shape.m, shape.n}, at::kFloat)
                               : at::detail::empty_cpu({shape.batch, shape.m, shape.n}, at::kFloat);
  return at::Tensor(std::move(made));
}

inline at::Tensor computed(Plan const& plan, Operands const& given) {
  auto result = new_result(plan.shape());
  auto* const to = static_cast<float*>(result.mutable_data_ptr());
  if (plan.shape().epilogue == Epilogue::onto) std::memcpy(to, given.start, result.nbytes());
  plan.run(given.a, given.b, to, given.start);
  return result;
}

inline constexpr c10::DispatchKeySet below_products(c10::DispatchKeySet::FULL_AFTER, product_key);

/// The two operators that only multiply, and the two that add: `Own` is LibTorch's. Batches and matrices differ by what
/// they are given.
template <class Own>
at::Tensor multiplied(c10::DispatchKeySet keys, at::Tensor const& a, at::Tensor const& b) {
  if (auto const how = asked_for(a, b); how != Matmul::libtorch)
    if (auto const shape = product_shape(a, b, Epilogue::none)) {
      Operands const given{numbers(a), numbers(b)};
      if (auto const* plan = plan_of(shape, given, how)) return computed(*plan, given);
    }
  return Own::redispatch(keys & below_products, a, b);
}
template <class Own>
at::Tensor multiplied_and_added(c10::DispatchKeySet keys, at::Tensor const& start, at::Tensor const& a,
                                at::Tensor const& b, at::Scalar const& beta, at::Scalar const& alpha) {
  if (auto const how = asked_for(a, b); how != Matmul::libtorch)
    if (auto const epilogue = epilogue_of(start, a, b, beta, alpha))
      if (auto const shape = product_shape(a, b, *epilogue)) {
        Operands const given{numbers(a), numbers(b), numbers(start)};
        if (auto const* plan = plan_of(shape, given, how)) return computed(*plan, given);
      }
  return Own::redispatch(keys & below_products, start, a, b, beta, alpha);
}

/// Whether the kernels are in place, which the first call sees to. The key is the one below that of the recorder of
/// captured steps, so both work at once; every thread includes it anyway, and for these operators LibTorch has nothing
/// there, so nothing is replaced. Where no scope is open they ask for that and pass on. False: the program has no
/// LIBXSMM, or somebody else has put kernels there (another copy of this library with hidden symbols).
inline bool intercepts() {
  static bool const done = [] {
    if (!process_kernels()) return false;
    for (char const* name : {"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"}) {
      auto const op = c10::Dispatcher::singleton().findSchema({name, ""});
      if (!op || op->hasKernelForDispatchKey(product_key)) return false;
    }
    // It lives as long as the process, and is held where a search for leaks finds it.
    static auto* const library = new torch::Library(torch::Library::IMPL, "aten", product_key, __FILE__, __LINE__);
    library->impl("mm", TORCH_FN(multiplied<at::_ops::mm>));
    library->impl("bmm", TORCH_FN(multiplied<at::_ops::bmm>));
    library->impl("addmm", TORCH_FN(multiplied_and_added<at::_ops::addmm>));
    library->impl("baddbmm", TORCH_FN(multiplied_and_added<at::_ops::baddbmm>));
    return true;
  }();
  return done;
}

}  // namespace fulgurite::libtorch::native
