#pragma once
// A state that is kept in memory, to go back to.

#include <utility>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/keep_tensors.hpp>

namespace fulgurite {

/// Holds what all parts of a run save in `state(archive)`, and gives it back to them. Tensors are copied where they
/// are: on their devices, those that lie side by side in one operation.
class StateMemory {
 public:
  using Saver = StateSaver;

  /// fold(archive)
  template <class Fold>
  void save(Fold&& fold) {
    ArchiveNode now;
    StateSaver saver(now, {}, StateSaver::Tensors::borrowed);
    fold(saver);
    keep_tensors(now);
    tree_ = std::move(now);
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
  /// Into the very parts that it was saved from, so that all of it fits: nothing is kept for a failure.
  template <class Fold>
  void put_back(Fold&& fold) const {
    StateLoader loader(tree_);
    fold(loader);
  }

 private:
  ArchiveNode tree_ = {};
};

}  // namespace fulgurite
