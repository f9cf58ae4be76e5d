#pragma once
// The bodies of core/state.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY HyperparameterList::HyperparameterList() = default;
FULGURITE_MOVES_BODY(HyperparameterList);

FULGURITE_BODY std::span<Hyperparameter const> HyperparameterList::all() const { return all_; }

FULGURITE_BODY void HyperparameterList::add(std::string_view name, Hyperparameter::second_type value) {
  for (auto const& [known, before] : all_) {
    if (known != name) continue;
    if (before == value) return;
    throw Error("fulgurite.logger.hyperparameter_twice",
                "the hyper-parameter '" + std::string(name) +
                    "' has one value in one place and another in another (model, data module): name them differently");
  }
  all_.emplace_back(name, std::move(value));
}

FULGURITE_BODY void HyperparameterList::refuse_large(std::string_view name, std::uint64_t value) {
  throw Error("fulgurite.logger.hyperparameter_large",
              "the hyper-parameter '" + std::string(name) + "' is " + std::to_string(value) +
                  ", and files hold whole numbers up to 9223372036854775807: give it as a text");
}

}  // namespace fulgurite
