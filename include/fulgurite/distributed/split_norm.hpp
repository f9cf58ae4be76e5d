#pragma once
// Clipping by the norm of gradients of which each process has a part.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <fulgurite/distributed/group.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::distributed {

/// As libtorch::clip_norm, over the parts of all ranks in their order. One process that has all parameters in that
/// order computes the same bits. Gradients are on the CPU.
template <class Parameters>
at::Tensor clip_split_norm(Group& group, Parameters const& parameters, double limit) {
  libtorch::Gradients const gradients(parameters);
  std::string mine;
  if (!gradients->empty()) {
    auto const norms = at::stack(libtorch::norms_of(parameters, *gradients)).to(at::kDouble);
    mine.assign(static_cast<char const*>(norms.const_data_ptr()), norms.nbytes());
  }
  std::string all;
  for (auto const& said : group.exchange(mine, "norms of all stages")) all += said;
  if (all.empty()) return at::zeros({});
  auto const count = static_cast<std::int64_t>(all.size() / sizeof(double));
  auto norms = at::empty({count}, at::TensorOptions().dtype(at::kDouble));
  std::memcpy(norms.mutable_data_ptr(), all.data(), all.size());
  auto const type = gradients->empty() ? at::kFloat : gradients->front().scalar_type();
  auto const norm = count == 1 ? norms.to(type).view({}) : at::linalg_vector_norm(norms.to(type), 2);
  auto const factor = libtorch::factor_now(norm, limit);
  if (!factor) {
    for (auto& gradient : *gradients) gradient.mul_(libtorch::factor_of(norm, limit));
  } else if (*factor != 1.0) {
    for (auto& gradient : *gradients) gradient.mul_(*factor);
  }
  return norm;
}

}  // namespace fulgurite::distributed
