#pragma once
// What tests of data share: an archive of numbers in memory, and the identifier of what is thrown.

#include <map>
#include <string>
#include <string_view>

#include <fulgurite/core/error.hpp>

namespace data_test {

template <bool Loading>
struct Archive {
  static constexpr bool loading = Loading;
  std::map<std::string, long>& values;
  std::string prefix = "";

  Archive& operator()(std::string_view name, long& value) {
    if constexpr (Loading) value = values.at(prefix + std::string(name));
    else values[prefix + std::string(name)] = value;
    return *this;
  }
  Archive& option(std::string_view name, long value) {
    if constexpr (!Loading) values[prefix + std::string(name)] = value;
    return *this;
  }
  Archive& child(std::string_view key, auto& object) {
    Archive inner{values, prefix + std::string(key) + "/"};
    object.state(inner);
    return *this;
  }
};

inline std::map<std::string, long> saved(auto& object) {
  std::map<std::string, long> values;
  Archive<false> archive{values};
  object.state(archive);
  return values;
}

inline void load(auto& object, std::map<std::string, long> values) {
  Archive<true> archive{values};
  object.state(archive);
}

/// The identifier of the Error that `action` throws, or what it did instead.
inline std::string refusal(auto&& action) {
  try {
    action();
  } catch (fulgurite::Error const& error) { return std::string(error.identifier()); }
  return "nothing was thrown";
}

/// What the Error says.
inline std::string sentence(auto&& action) {
  try {
    action();
  } catch (fulgurite::Error const& error) { return error.what(); }
  return "nothing was thrown";
}

}  // namespace data_test
