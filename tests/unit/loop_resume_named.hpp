#pragma once
// What a file says that hooks have switched off and on: parameters that were frozen, modules in eval mode.

#include <filesystem>
#include <optional>
#include <string>

#include <fulgurite/core/archive.hpp>

#include "callback_run.hpp"

// In a namespace, since other tests of the same program may use the same words.
namespace resumed {

/// The switches of a file, null where it has none.
inline fulgurite::ArchiveNode const* entry(std::filesystem::path const& file) {
  static std::optional<probe::SavingBackend::RunFile> open;
  open.emplace(file);
  return open->state().find("switches");
}
/// What a file says is off, and on.
inline std::string named(std::filesystem::path const& file) {
  auto const* const node = entry(file);
  if (node == nullptr) return "";
  fulgurite::Switched changed;
  fulgurite::StateLoader loader(*node);
  changed.state(loader);
  std::string all = "off:";
  for (auto const& name : changed.off.parameters) all += " " + name;
  for (auto const& name : changed.off.modules) all += " " + (name.empty() ? "net" : name);
  all += " on:";
  for (auto const& name : changed.on.parameters) all += " " + name;
  for (auto const& name : changed.on.modules) all += " " + (name.empty() ? "net" : name);
  return all;
}

}  // namespace resumed
