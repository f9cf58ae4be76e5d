#pragma once
// What tests of data share: saved states, and the identifier of what is thrown.

#include <string>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/error.hpp>

namespace data_test {

/// What an object saves, as text, and loading it back.
inline std::string saved(auto& object) { return fulgurite::state_text(object); }
inline void load(auto& object, std::string const& text) {
  auto const tree = fulgurite::from_text(text);
  fulgurite::StateLoader archive(tree);
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
