#pragma once
// Hyper-parameters as a YAML mapping that any YAML reader gives back with the right types.

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/report/yaml.hpp>

namespace fulgurite::logger {

/// A mapping with one "name: value" in each line. Texts are in double quotes, lists in
/// brackets.
FULGURITE_COLD std::string hparams_yaml(std::span<Hyperparameter const> parameters) {
  if (parameters.empty()) return "{}\n";
  std::string text;
  for (auto const& [name, value] : parameters)
    text += report::yaml(name) + ": " +
            setting_text(value,
                         []<class T>(T const& v) -> std::string {
                           if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
                           else if constexpr (std::is_same_v<T, double>) return report::yaml(v);
                           else if constexpr (std::is_same_v<T, std::string>) return report::yaml(std::string_view(v));
                           else return std::to_string(v);
                         }) +
            "\n";
  return text;
}

}  // namespace fulgurite::logger
