#pragma once
// A state that is kept in memory, to go back to.

#include <string>
#include <string_view>
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
  /// Saves one entry of it. False where there is none of that name.
  bool add_to(StateSaver& archive, std::string_view name) const {
    auto const* const entries = std::get_if<ArchiveNode::Object>(&tree_.value);
    auto const* const found = entries ? entries->find(name) : nullptr;
    if (found != nullptr) archive(name, *found);
    return found != nullptr;
  }
  /// Holds an entry of a state that is loaded, for who loads it later.
  void take(std::string_view name, StateLoader& archive) {
    ArchiveNode::Object alone;
    archive(name, *alone.add(name));
    tree_.value = std::move(alone);
    keep_tensors(tree_);
  }
  bool holds_nothing() const { return tree_.holds_nothing(); }
  /// All of it as text, tensors included, and back: what another process can hold.
  std::string text() const { return to_text(tree_); }
  void read(std::string_view text) { tree_ = from_text(text, "what a rank has saved of itself"); }
  /// fold(archive) with an archive that saves, of which nothing is kept: for who has to take part in a fold alone.
  template <class Fold>
  static void visit(Fold&& fold) {
    ArchiveNode passing;
    StateSaver saver(passing, {}, StateSaver::Tensors::borrowed);
    fold(saver);
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
