#pragma once
// Matrix products by LIBXSMM with LibTorch's bits: the scope that a program opens, and what it has led to.

#include <string>
#include <utility>
#include <vector>

#include <fulgurite/torch/native/matmul_scope.hpp>

namespace fulgurite::libtorch::native {

/// What a strategy tells of the products of the process so far, for a person.
inline std::vector<std::string> products_account(Matmul how) {
  if (how == Matmul::libtorch) return {"matrix products: LibTorch's, as was asked for"};
  if (!process_kernels()) return {"matrix products: LibTorch's (this program is built without LIBXSMM)"};
  auto text = Verdicts::of_process().account();
  if (text.empty())
    text = "matrix products: LibTorch's; none was computed so far that LIBXSMM has faster on this processor";
  else if (how == Matmul::faster) text += "; not counted: those that the rule for this processor leaves to LibTorch";
  return {std::move(text)};
}

}  // namespace fulgurite::libtorch::native
