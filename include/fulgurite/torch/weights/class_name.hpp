#pragma once
// The class of a module whose type only the running program knows, as people write it: "Linear".

#include <cstddef>
#include <string>
#include <typeinfo>

#include <c10/util/Type.h>

namespace fulgurite::libtorch {

/// Without namespaces in front, with template arguments, and without the Impl that module holders add:
/// "torch::nn::LinearImpl" is "Linear".
template <class T>
std::string class_name(T const& object) {
  std::string name = c10::demangle(typeid(object).name());
  if (auto const colons = name.substr(0, name.find('<')).rfind("::"); colons != std::string::npos)
    name.erase(0, colons + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

}  // namespace fulgurite::libtorch
