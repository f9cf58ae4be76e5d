#pragma once
// A state that is kept in memory, to go back to.

#include <fulgurite/checkpoint/archive.hpp>

namespace fulgurite {

/// Holds what all parts of a run save in `state(archive)`, tensors copied, and gives it back to them.
class StateMemory {
 public:
  using Saver = StateSaver;

  /// fold(archive)
  template <class Fold>
  void save(Fold&& fold) {
    tree_ = {};
    StateSaver saver(tree_);
    fold(saver);
  }
  /// Saves what is held once more, among what that archive saves.
  void add_to(StateSaver& archive) const {
    if (auto const* const entries = std::get_if<ArchiveNode::Object>(&tree_.value))
      for (auto const& entry : *entries) archive(entry.name, entry.node);
  }
  /// All of it, or nothing.
  template <class Fold>
  void load(Fold&& fold) const {
    load_state(tree_, fold);
  }

 private:
  ArchiveNode tree_ = {};
};

}  // namespace fulgurite
