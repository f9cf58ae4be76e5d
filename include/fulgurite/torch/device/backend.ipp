#pragma once
// The bodies of torch/device/backend.hpp.

#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/device/backend.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY bool OfGradients::is_number(Value const& loss) { return loss.defined() && loss.numel() == 1; }

FULGURITE_BULK_BODY void OfGradients::set_gradient(Value const& parameter, Value const& gradient) {
  at::NoGradGuard const no_graph;
  auto& now = parameter.mutable_grad();
  if (!gradient.defined()) now.reset();
  else if (now.defined() && now.layout() == gradient.layout()) now.copy_(gradient);
  else now = gradient;
}

FULGURITE_BULK_BODY OfGradients::Parts OfGradients::parts(Value const& gradient) {
  if (gradient.is_sparse()) return {gradient._values(), gradient._indices()};
  return {gradient, {}};
}

FULGURITE_BULK_BODY OfGradients::Value OfGradients::sparse(Parts const& parts, Value const& parameter) {
  try {
    at::_validate_sparse_coo_tensor_args(parts.indices, parts.values, parameter.sizes());
    return at::sparse_coo_tensor(parts.indices, parts.values, parameter.sizes());
  } catch (c10::Error const& error) {
    throw Error("fulgurite.checkpoint.state_entry", "a saved sparse gradient does not fit its parameter of shape " +
                                                        libtorch::shape_text(parameter.sizes()) + ": " +
                                                        error.what_without_backtrace());
  }
}

FULGURITE_BULK_BODY void OfModels::lerp_into(Value& average, Value const& value, double t) {
  libtorch::lerp_into(average, value, t);
}

FULGURITE_BULK_BODY void OfModels::lerp_into(std::span<Value> averages, std::span<Value const> values, double t) {
  libtorch::lerp_into(averages, values, t);
}

FULGURITE_BULK_BODY void OfModels::restore(Value& to, SavedTensor const& from) {
  libtorch::require_average(to, from);
  libtorch::restore(to, from);
}

FULGURITE_BULK_BODY OfModels::Value OfModels::made_from(SavedTensor const& from, Value const& beside) {
  Value made;
  TensorState<Value>::load(made, from, "a tensor of the saved state");
  return made.to(beside.device());
}

}  // namespace fulgurite::libtorch

namespace fulgurite::loop {

FULGURITE_INSTANTIATE(void finish<LibTorch>(FilesUnderWay<LibTorch>&, HeldFiles&, Due const&));
FULGURITE_INSTANTIATE(void fold_gradients<LibTorch>(std::span<at::Tensor const>, std::vector<bool>&, StateSaver&));
FULGURITE_INSTANTIATE(void fold_gradients<LibTorch>(std::span<at::Tensor const>, std::vector<bool>&, StateLoader&));

}  // namespace fulgurite::loop
namespace fulgurite {

FULGURITE_INSTANTIATE(class BoardEntries<LibTorch>);
FULGURITE_INSTANTIATE(void BoardEntries<LibTorch>::state(Cells, std::span<std::string_view const>, StateSaver&));
FULGURITE_INSTANTIATE(void BoardEntries<LibTorch>::state(Cells, std::span<std::string_view const>, StateLoader&));

}  // namespace fulgurite
