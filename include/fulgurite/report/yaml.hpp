#pragma once
// Numbers written so that YAML readers read them as numbers.

#include <cmath>
#include <string>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::report {

/// The number as YAML, exact and always with a point: readers of YAML 1.1 would take 1e-05 for a text and 3 for an
/// integer.
FULGURITE_COLD std::string yaml(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  auto text = exact(value);
  if (auto const at = text.find('e'); text.find('.') == std::string::npos)
    text.insert(at == std::string::npos ? text.size() : at, ".0");
  return text;
}

}  // namespace fulgurite::report
