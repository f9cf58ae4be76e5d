#pragma once
// The name of a type as the user wrote it, known to the compiler.

#include <string_view>

namespace fulgurite {

/// `type_name<Net>()` is "Net"; of a template the name alone: `type_name<EarlyStopping<...>>()` is "EarlyStopping".
/// Namespaces are left out.
template <class T>
consteval std::string_view type_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of("<;]"));
  auto const last = name.rfind("::");
  return last == std::string_view::npos ? name : name.substr(last + 2);
}

}  // namespace fulgurite
