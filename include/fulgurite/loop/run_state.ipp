#pragma once
// The bodies of loop/run_state.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::loop {

FULGURITE_BODY std::string key_with_type(std::string key, std::string_view type) {
  auto const is_of_a_name = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (key.starts_with(type) && (key.size() == type.size() || !is_of_a_name(key[type.size()]))) return key;
  return std::move(key) + " (" + std::string(type) + ")";
}

FULGURITE_BODY std::string NumberedNames::name(std::string const& key) {
  auto name = key;
  for (int n = 2; !known_.insert(name).second; ++n) name = key + " #" + std::to_string(n);
  return name;
}

FULGURITE_BODY void SaidKeys::add(std::string const& key, bool is_said) {
  auto const [at, is_new] = keys_.try_emplace(key, is_said);
  if (is_new) return;
  if (!is_said && !at->second) return;
  throw Error("fulgurite.callback.state_key",
              "two callbacks keep their states under the key '" + key +
                  "', and each would take up the other's where their order changes: let state_key() of one of them "
                  "say what makes it another");
}

}  // namespace fulgurite::loop
