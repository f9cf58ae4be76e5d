#pragma once
// The bodies of torch/optim/optimizer.hpp.

#include <fulgurite/torch/optim/optimizer.hpp>

namespace fulgurite::libtorch {

FULGURITE_BODY std::string parameter_text(std::vector<std::string> const& names) {
  std::string what = "a parameter";
  for (std::size_t i = 0; i != names.size(); ++i) what += (i == 0 ? " '" : ", which is also '") + names[i] + "'";
  return what + (names.size() > 1 ? "," : "");
}

FULGURITE_BODY void refuse_listed_twice(std::string_view optimizer, std::vector<std::string> const& names) {
  throw Error("fulgurite.optimizer.twice",
              std::string(optimizer) + " lists " + parameter_text(names) +
                  " twice, so that each step would move it twice: give it filter_params(*this), which lists each "
                  "tensor once, or take an optimizer of fulgurite::optim");
}

FULGURITE_BULK_BODY InTwoGroups::InTwoGroups(std::string_view optimizer, at::Tensor const& parameter,
                                             std::vector<std::string> const& names)
    : Error("fulgurite.optimizer.twice", std::string(optimizer) + " lists " + parameter_text(names) +
                                             " in two groups, which may have different options: give it to one of "
                                             "them"),
      optimizer_(optimizer),
      parameter_(parameter) {}

}  // namespace fulgurite::libtorch

namespace fulgurite {

FULGURITE_BULK_BODY void Toggle::untoggle() noexcept {
  for (auto& [parameter, required] : others_) parameter.set_requires_grad(required);
  others_.clear();
}

}  // namespace fulgurite
