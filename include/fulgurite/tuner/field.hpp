#pragma once
// A field of somebody's hyper-parameters, by its pointer: its type, its name, its value as text.

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/report/numbers.hpp>

namespace fulgurite::tune {

namespace fields {

template <class T>
struct Of {
  static constexpr bool is_field = false;
};
template <class S, class T>
  requires std::is_object_v<T>
struct Of<T S::*> {
  static constexpr bool is_field = true;
  using Setting = S;
  using Value = T;
};

/// What a table can show and a person can tell apart.
template <class T>
concept Shown = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::convertible_to<T const&, std::string_view>;

inline std::string number(double value, bool exactly, bool single) {
  return !exactly ? report::formatted("%.6g", value) : single ? report::formatted("%.9g", value) : report::exact(value);
}

template <class T>
std::string text(T const& value, bool exactly = true) {
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  else if constexpr (std::is_floating_point_v<T>)
    return number(static_cast<double>(value), exactly, std::is_same_v<T, float>);
  else if constexpr (std::is_enum_v<T>) return std::to_string(static_cast<long long>(value));
  else if constexpr (std::is_arithmetic_v<T>) return std::to_string(value);
  else return std::string(std::string_view(value));
}

}  // namespace fields

/// A pointer to a data member, as `&Setting::rate`.
template <auto Field>
concept FieldPointer = fields::Of<std::remove_const_t<decltype(Field)>>::is_field;

/// The struct that a field belongs to.
template <auto Field>
using SettingOf = typename fields::Of<std::remove_const_t<decltype(Field)>>::Setting;
/// The type of a field's values.
template <auto Field>
using ValueOf = typename fields::Of<std::remove_const_t<decltype(Field)>>::Value;

/// The name of a field as it was declared: `field_name<&Setting::rate>()` is "rate".
template <auto Field>
consteval std::string_view field_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("Field = ") + 8);
  name = name.substr(0, name.find_first_of(";]"));
  if (name.ends_with(')')) name.remove_suffix(1);  // g++ writes (& Setting::rate)
  auto const last = name.rfind("::");
  return last == std::string_view::npos ? name : name.substr(last + 2);
}

}  // namespace fulgurite::tune
