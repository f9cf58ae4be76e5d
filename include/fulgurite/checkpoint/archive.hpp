#pragma once
// Loading a state as a whole or not at all, and the state of one object as text. Includes both archives that `void
// state(auto& archive)` is called with: the one that saves and the one that loads.

#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/checkpoint/archive_reader.hpp>
#include <fulgurite/checkpoint/archive_refusals.hpp>  // by the shortest way, which the compiler prints
#include <fulgurite/checkpoint/archive_text.hpp>
#include <fulgurite/checkpoint/keep_tensors.hpp>
#include <fulgurite/checkpoint/state_loader.hpp>
#include <fulgurite/checkpoint/state_saver.hpp>
#include <fulgurite/checkpoint/unread_entries.hpp>
#include <fulgurite/core/all_errors.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>

namespace fulgurite {

/// load_state by its two halves.
FULGURITE_COLD void load_state_by(ArchiveNode const& tree, FunctionRef<void(StateSaver&)> save,
                                  FunctionRef<void(StateLoader&)> load, Unread unread) {
  ArchiveNode before;
  StateSaver saver(before, {}, StateSaver::Tensors::borrowed);
  save(saver);
  keep_tensors(before, Copied::written_soon);
  auto const go_back = [&] {
    StateLoader loader(before);
    load(loader);
  };
  StateLoader::Problems problems;
  StateLoader::Commits commits;
  StateLoader::Differences differences;
  try {
    StateLoader loader(tree, {}, &problems, &commits, &differences);
    load(loader);
  } catch (...) {
    go_back();
    throw;
  }
  if (unread == Unread::refused && problems.empty())
    if (auto const names = unread_entries(tree); !names.empty()) problems.push_back(refuse_unread(names));
  if (problems.empty()) {
    for (auto const& commit : commits) commit();
    return;
  }
  go_back();
  throw all_of(problems);
}

/// Loads all of a state, or nothing. `fold(archive)` visits what is to be loaded, as `state` does, and is called with a
/// saver first: where the new state turns out not to fit, the old one is loaded again, and one Error tells of every
/// entry that does not. What was given to `archive.commit` is done last, when all of it fits.
///   load_state(tree, [&](auto& archive) { archive.child("early", early_stopping); });
/// With Unread::refused an entry that neither this fold nor an earlier one of the same tree has read does not fit: what
/// it was saved from is missing here.
template <class Fold>
void load_state(ArchiveNode const& tree, Fold&& fold, Unread unread = Unread::allowed) {
  load_state_by(tree, fold, fold, unread);
}

/// The state of one object as text, tensors included, and back.
template <class T>
std::string state_text(T& object) {
  ArchiveNode tree;
  StateSaver saver(tree);
  object.state(saver);
  return to_text(tree);
}
/// Loads the state of one object from the text that state_text made, all of it or nothing. `source` is what an Error
/// calls the text.
template <class T>
void load_state_text(T& object, std::string_view text, std::string source = "saved state") {
  auto const tree = from_text(text, std::move(source));
  load_state(tree, [&](auto& archive) { object.state(archive); });
}

}  // namespace fulgurite
