#pragma once
// What an optimizer keeps of one parameter, as a program reads it.

#include <map>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/error.hpp>

namespace fulgurite::optim {

/// The steps that the parameter has taken, and tensors by the names that torch.optim gives
/// them. They are slices of the buffers: what is written to them is written to the optimizer.
struct ParameterState {
  long step = 0;
  std::map<std::string, at::Tensor, std::less<>> tensors = {};

  at::Tensor const& operator[](std::string_view name) const {
    auto const found = tensors.find(name);
    if (found == tensors.end())
      throw Error("fulgurite.optim.state_name",
                  "this optimizer keeps no '" + std::string(name) + "' with its present options");
    return found->second;
  }
};

}  // namespace fulgurite::optim
