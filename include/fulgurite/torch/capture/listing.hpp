#pragma once
// Reads a recorded step call by call: why it cannot become a tape, and a line for each call, the same whenever the step
// is.

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/known_operators.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_text.hpp>

namespace fulgurite::libtorch::capture {

/// What a Tape is made from.
class Listing : public StepText {
 public:
  std::vector<std::string> lines;         ///< one a call
  std::vector<bool> view;                 ///< of each call: whether it only makes views, or asks for shapes
  std::unordered_set<Storage> rewritten;  ///< memory that some call writes in place

  /// `batch`: the tensors of the batch, in order. `seed`: what backward started from, or undefined; its values belong
  /// to the step.
  Listing(std::vector<Call> const& calls, std::vector<at::Tensor> batch, World const& world, at::Tensor const& seed)
      : StepText(std::move(batch), world, seed) {
    for (auto const& call : calls) {
      if (!refusal.empty()) return;
      lines.push_back(line(call));
    }
  }

 private:
  FULGURITE_COLD std::string line(Call const& call) {
    auto const& schema = call.op.schema();
    auto const name = call.name();
    using at::Tag;
    if (!name.starts_with("aten::")) refuse(name + " is an operator of somebody else's");
    if (call.op.hasTag(Tag::data_dependent_output)) refuse(name + " reads a value on the host");
    if ((call.op.hasTag(Tag::dynamic_output_shape) && !indexes_by_number(call)) || is_sized_by_values(name))
      refuse(name + " has a result whose shape depends on values");
    if (call.op.hasTag(Tag::inplace_view)) refuse(name + " changes the shape of a tensor in place");

    text_ = c10::toString(call.op.operator_name()) + (call.graph ? " graph" : "");
    std::unordered_set<Storage> given;
    bool writes = false;
    for (std::size_t i = 0; i != call.in.size(); ++i) {
      writes = writes || is_written(call, i);
      each_tensor_in(call.in[i], [&](at::Tensor const& tensor) { given.insert(storage_of(tensor)); });
    }
    bool tensors = false, others = false, fresh = false;
    std::vector<Storage> here;
    for (IValue const& value : call.out) {
      bool const any = value.isTensor() || value.isTensorList();
      tensors = tensors || any;
      others = others || !any;
      each_tensor_in(value, [&](at::Tensor const& tensor) {
        auto const storage = storage_of(tensor);
        if (given.contains(storage)) return;
        fresh = true;
        if (std::find(here.begin(), here.end(), storage) != here.end()) return;
        here.push_back(storage);
        if (made_.contains(storage) || world_.number(storage) || shares_batch(storage))
          refuse(name + " returns a tensor that it was not given");
      });
    }
    bool const values = fresh ? !is_constant_factory(name) && !is_empty_factory(name) : writes;
    for (std::size_t i = 0; i != call.in.size(); ++i) {
      bool const written = is_written(call, i);
      bool const sets = written && ((i == 0 && overwrites(name)) || schema.arguments()[i].is_out());
      each_tensor_in(call.in[i], [&](at::Tensor const& tensor) {
        auto const storage = storage_of(tensor);
        if (values && !sets && raw_.contains(storage)) refuse(name + " reads a tensor that the host has filled");
        auto const kind = role(tensor).kind;
        if (written && (kind == Role::Kind::batch || kind == Role::Kind::constant))
          refuse(name + " writes into the batch or a constant");
        if (written || writes_undeclared(name)) rewritten.insert(storage);
        if (written) set_.push_back(storage);
      });
      append(call.in[i], name);
    }
    for (auto const storage : set_) raw_.erase(storage);
    set_.clear();
    for (auto const storage : here) {
      made_.emplace(storage, made_.size());
      if (is_empty_factory(name)) raw_.insert(storage);
    }
    text_ += " ->";
    if (others && !(asks_for_shape(name) && !tensors && !writes)) refuse(name + " gives a value to the host");
    if (call.out.empty() && !writes) refuse(name + " returns nothing");
    for (IValue const& value : call.out) append(value, name);
    view.push_back(!writes && !fresh);
    return text_;
  }

  /// Whether a call of aten::index is one of x.index({numbers}), whose result has the shape of the numbers, and not of
  /// x.index({mask}), whose result depends on values.
  FULGURITE_COLD static bool indexes_by_number(Call const& call) {
    bool masks = call.name() != "aten::index";
    each_tensor_of(call.in, [&](at::Tensor const& tensor) {
      masks = masks || (!tensor.is_same(call.in[0].toTensor()) &&
                        (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte));
    });
    return !masks;
  }
  static bool is_written(Call const& call, std::size_t argument) {
    auto const* alias = call.op.schema().arguments()[argument].alias_info();
    return alias && alias->isWrite();
  }
  std::vector<Storage> set_;         ///< by the call at hand
  std::unordered_set<Storage> raw_;  ///< made without values, and none set so far
};

}  // namespace fulgurite::libtorch::capture
