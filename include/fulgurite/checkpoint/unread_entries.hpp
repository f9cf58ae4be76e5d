#pragma once
// Entries of a saved state that nothing was loaded from: parts of the run that was saved and that are missing now.

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// Whether a state may hold entries that nothing reads.
enum class Unread : bool { allowed, refused };

/// Their full names, such as "optimizers.1 SGD"; of an object that nothing has read, its own name alone.
FULGURITE_COLD std::vector<std::string> unread_entries(ArchiveNode const& node, std::string const& path = {}) {
  std::vector<std::string> all;
  auto const add = [&all](std::vector<std::string> more) {
    for (auto& name : more) all.push_back(std::move(name));
  };
  if (auto const* const list = std::get_if<ArchiveNode::List>(&node.value))
    for (std::size_t i = 0; i != list->size(); ++i)
      add(unread_entries((*list)[i], path + "[" + std::to_string(i) + "]"));
  if (auto const* const object = std::get_if<ArchiveNode::Object>(&node.value))
    for (auto const& [name, entry] : *object) {
      auto full = path + (path.empty() ? "" : ".") + name;
      if (entry.read == ArchiveNode::Read::yes) add(unread_entries(entry, full));
      else if (entry.read == ArchiveNode::Read::no) all.push_back(std::move(full));
    }
  return all;
}

/// What is said of them.
inline Error refuse_unread(std::vector<std::string> const& names) {
  std::string list;
  for (auto const& name : names) list += (list.empty() ? "'" : ", '") + name + "'";
  return Error("fulgurite.checkpoint.state_unread",
               "the saved state holds what nothing here is loaded from: " + list +
                   ": go on with the program that saved it, or begin a new run with its weights by load_weights");
}

}  // namespace fulgurite
