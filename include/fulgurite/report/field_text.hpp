#pragma once
// A setting as a person reads it.

#include <chrono>
#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>

#include <fulgurite/report/numbers.hpp>

namespace fulgurite::reflect {

/// A field as a person reads it. For a type of your own write a function `field_text(T const&)` beside it.
template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
std::string field_text(T const& value) {
  if constexpr (std::same_as<T, bool>) return value ? "true" : "false";
  else if constexpr (std::is_same_v<T, float>) return report::formatted("%.9g", static_cast<double>(value));
  else if constexpr (std::is_floating_point_v<T>) return report::exact(static_cast<double>(value));
  else if constexpr (std::is_enum_v<T>) return std::to_string(static_cast<std::underlying_type_t<T>>(value));
  else return std::to_string(value);
}
inline std::string field_text(std::string const& value) { return value; }
inline std::string field_text(std::filesystem::path const& value) { return value.string(); }
template <class Rep, class Period>
std::string field_text(std::chrono::duration<Rep, Period> const& value) {
  return report::exact(std::chrono::duration<double>(value).count()) + " s";
}
template <class T>
std::string field_text(std::optional<T> const& value) {
  return value ? field_text(*value) : "none";
}

}  // namespace fulgurite::reflect
