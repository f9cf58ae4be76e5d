#pragma once
// Hyper-parameters as a YAML mapping that any YAML reader gives back with the right types.

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite {

/// A named setting of a run: `{"lr", 1e-3}`, `{"optimizer", std::string("adam")}`, `{"layers", std::int64_t{4}}`.
using Hyperparameter = std::pair<std::string, std::variant<bool, std::int64_t, double, std::string>>;

namespace logger {

inline std::string yaml_number(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  auto text = report::exact(value);
  // YAML 1.1 readers take 1e-05 for a string: a float needs a point.
  if (auto const at = text.find('e'); text.find('.') == std::string::npos) text.insert(at == std::string::npos ? text.size() : at, ".0");
  return text;
}

/// One "name: value" a line; texts are quoted in JSON's way, which YAML reads.
inline std::string hparams_yaml(std::span<Hyperparameter const> parameters) {
  if (parameters.empty()) return "{}\n";
  std::string text;
  for (auto const& [name, value] : parameters)
    text += json::quoted(name) + ": " +
            std::visit(
                []<class T>(T const& v) -> std::string {
                  if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
                  else if constexpr (std::is_same_v<T, double>) return yaml_number(v);
                  else if constexpr (std::is_same_v<T, std::string>) return json::quoted(v);
                  else return std::to_string(v);
                },
                value) +
            "\n";
  return text;
}

}  // namespace logger
}  // namespace fulgurite
