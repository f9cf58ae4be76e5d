#pragma once
// The bodies of torch/native/matmul_scope.hpp.

#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_ops.h>
#include <torch/library.h>

#include <fulgurite/torch/native/fastest.hpp>
#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/native/products.hpp>

namespace fulgurite::libtorch::native {

FULGURITE_BULK_BODY bool intercepts() {
  static bool const done = [] {
    if (!process_kernels()) return false;
    for (auto const name : intercepted) {
      auto const op = c10::Dispatcher::singleton().findSchema({std::string(name), ""});
      if (!op || op->hasKernelForDispatchKey(product_key)) return false;
    }
    // Never deleted; through this static pointer a leak checker still reaches it.
    static auto* const library = new torch::Library(torch::Library::IMPL, "aten", product_key, __FILE__, __LINE__);
    library->impl("mm", TORCH_FN(multiplied<at::_ops::mm>));
    library->impl("bmm", TORCH_FN(multiplied<at::_ops::bmm>));
    library->impl("addmm", TORCH_FN(multiplied_and_added<at::_ops::addmm>));
    library->impl("baddbmm", TORCH_FN(multiplied_and_added<at::_ops::baddbmm>));
    library->impl("gelu_backward", TORCH_FN(gelu_backward_or_libtorch));
    library->impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(attention_or_libtorch));
    library->impl("_scaled_dot_product_flash_attention_for_cpu_backward", TORCH_FN(attention_backward_or_libtorch));
    return true;
  }();
  return done;
}

FULGURITE_BULK_BODY std::vector<std::string> products_account(Matmul how) {
  if (how == Matmul::libtorch) return {"matrix products: LibTorch's, as was asked for"};
  if (!process_kernels()) return {"matrix products: LibTorch's (this program is built without LIBXSMM)"};
  auto text = Verdicts::of_process(how).account();
  if (text.empty())
    text = "matrix products: LibTorch's; none was computed so far that LIBXSMM has faster on this processor";
  else if (how != Matmul::certified) text += "; not counted: those that the rule for this processor leaves to LibTorch";
  return {std::move(text)};
}

}  // namespace fulgurite::libtorch::native
