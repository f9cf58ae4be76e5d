#pragma once
// Finds the form of an operator that writes its result into memory which it is given, where there is one that gives the
// same bits.

#include <optional>
#include <string>
#include <unordered_map>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/form_trial.hpp>
#include <fulgurite/torch/capture/known_forms.hpp>
#include <fulgurite/torch/capture/known_operators.hpp>

namespace fulgurite::libtorch::capture {

/// The form to call in place of this call; nullopt: the plain form is called, and its result adopted.
FULGURITE_BULK std::optional<OutForm> out_form(Call const& call) {
  if (call.op.schema().is_mutable() || call.op.hasTag(at::Tag::nondeterministic_seeded) ||
      writes_undeclared(call.name()))
    return std::nullopt;
  std::unordered_map<Storage, int> seen;
  each_tensor_of(call.in, [&](at::Tensor const& tensor) { ++seen[storage_of(tensor)]; });
  for (IValue const& value : call.out)
    if (!value.isTensor() || !value.toTensor().defined() || seen[storage_of(value.toTensor())]++ != 0)
      return std::nullopt;
  std::string const name = call.name();
  if (auto form = other_name(name); form && Trial(call).passes(*form)) return form;
  if (auto form = mean_of_squares(call); form && Trial(call).passes(*form)) return form;
  for (auto const& op : overloads(name))
    if (auto form = same_arguments(call.op.schema(), op); form && Trial(call).passes(*form)) return form;
  return std::nullopt;
}

}  // namespace fulgurite::libtorch::capture
