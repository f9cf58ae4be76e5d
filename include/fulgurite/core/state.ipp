#pragma once
// The bodies of core/state.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

FULGURITE_BODY std::string setting_text(Hyperparameter::second_type const& setting,
                                        std::function<std::string(double)> const& number,
                                        std::function<std::string(std::string const&)> const& text,
                                        std::string_view between, std::string_view yes, std::string_view no) {
  auto const one = [&]<class T>(T const& value) {
    if constexpr (std::same_as<T, bool>) return std::string(value ? yes : no);
    else if constexpr (std::same_as<T, double>) return number(value);
    else if constexpr (std::same_as<T, std::string>) return text(value);
    else return std::to_string(value);
  };
  return std::visit(
      [&]<class T>(T const& value) {
        if constexpr (std::same_as<T, HyperparameterValues>) {
          std::string all = "[";
          for (auto const& entry : value) (all += all.size() > 1 ? between : "") += std::visit(one, entry);
          return all + "]";
        } else return one(value);
      },
      setting);
}

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
