#pragma once
// What an archive holds of an optimizer over an arena.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

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

/// What this process keeps, buffer by buffer.
inline std::vector<at::Tensor> own_states(libtorch::Arena const& arena) {
  std::vector<at::Tensor> all;
  for (auto const& buffer : arena.buffers())
    for (auto const& flat : buffer.states)
      if (flat.defined()) all.push_back(flat);
  return all;
}
/// The same as an archive holds it.
inline SavedPart own_part(libtorch::Arena const& arena) {
  SavedPart part{arena.states().part().mine, arena.states().part().of, {}};
  for (auto const& flat : own_states(arena)) part.states.push_back(libtorch::saved(flat).written_last());
  return part;
}
/// Throws [fulgurite.optim.part] where the part is not the one that this process keeps.
inline void require_own(libtorch::Arena const& arena, SavedPart const& part, std::string_view optimizer) {
  auto const own = own_states(arena);
  bool fits = part.mine == arena.states().part().mine && part.of == arena.states().part().of &&
              part.states.size() == own.size();
  for (std::size_t i = 0; fits && i != own.size(); ++i) fits = libtorch::fits(own[i], part.states[i]);
  if (!fits)
    throw Error("fulgurite.optim.part",
                "the saved state of " + std::string(optimizer) + " is the part of rank " + std::to_string(part.mine) +
                    " of " + std::to_string(part.of) +
                    " alone, as a rank writes it that has failed by itself: go on from an earlier file, or begin "
                    "anew with its weights by load_weights(model, file)");
}

}  // namespace fulgurite::optim
