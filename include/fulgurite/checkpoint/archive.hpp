#pragma once
// The two archives behind `void state(auto& archive)`, and the state of one object as text.

#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/checkpoint/state_loader.hpp>
#include <fulgurite/checkpoint/state_saver.hpp>

namespace fulgurite {

/// The state of one object as text, and back: what a checkpoint's metadata holds.
template <class T>
std::string state_text(T& object) {
  ArchiveNode tree;
  StateSaver saver(tree);
  object.state(saver);
  return to_text(tree);
}
template <class T>
void load_state_text(T& object, std::string_view text, std::string source = "saved state") {
  auto const tree = from_text(text, std::move(source));
  StateLoader loader(tree);
  object.state(loader);
}

}  // namespace fulgurite
