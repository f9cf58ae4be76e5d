#pragma once
// What an archive holds of an optimizer over an arena.

#include <cstddef>
#include <string>
#include <vector>

#include <fulgurite/checkpoint/saved_tensor.hpp>

namespace fulgurite::optim {

/// One kind of state of one parameter.
struct SavedState {
  std::string name = {};
  SavedTensor value = {};
  void state(auto& archive) { archive("name", name)("value", value); }
};
/// A parameter, by its name. States in parts that nobody has gathered are not with it.
struct SavedParameter {
  std::string name = {};
  std::size_t group = 0;
  long steps = 0;
  std::vector<SavedState> states = {};
  void state(auto& archive) { archive("name", name)("group", group)("steps", steps)("states", states); }
};
/// What one process keeps of states in parts: those of all buffers, one after the other.
struct SavedPart {
  int mine = 0, of = 1;
  std::vector<SavedTensor> states = {};
  void state(auto& archive) { archive("mine", mine)("of", of)("states", states); }
};

}  // namespace fulgurite::optim
