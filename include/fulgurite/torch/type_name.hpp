#pragma once
// Class names as people write them: "Adam", "Linear".

#include <string>
#include <string_view>
#include <typeinfo>

#include <c10/util/Type.h>

namespace fulgurite::libtorch {

/// Without namespaces in front, template arguments kept: "torch::nn::LinearImpl" is "LinearImpl".
constexpr std::string_view without_namespaces(std::string_view name) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 1 < name.size() && name[i] != '<'; ++i)
    if (name[i] == ':' && name[i + 1] == ':') begin = i + 2;
  return name.substr(begin);
}

/// The name of a type, known to the compiler.
template <class T>
constexpr std::string_view short_type_name() {
  // clang: "... short_type_name() [T = torch::optim::Adam]", g++: "... [with T = torch::optim::Adam; ...]"
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  auto const end = text.find_first_of(";]");
  return without_namespaces(text.substr(0, end));
}

/// The class of an object, without the Impl that module holders add.
template <class T>
std::string class_name(T const& object) {
  auto const full = c10::demangle(typeid(object).name());
  std::string name(without_namespaces(full));
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

}  // namespace fulgurite::libtorch
