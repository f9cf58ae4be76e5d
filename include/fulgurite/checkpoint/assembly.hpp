#pragma once
// In which parts a program differs from the one that wrote a file.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/fingerprint.hpp>
#include <fulgurite/checkpoint/safetensors_reader.hpp>
#include <fulgurite/checkpoint/state_saver.hpp>
#include <fulgurite/core/sort_seldom.hpp>

namespace fulgurite {

namespace assembly {

using Names = std::vector<std::string>;
using Shapes = std::map<std::string, std::pair<std::string, std::vector<std::int64_t>>, std::less<>>;

/// Floating types stand for each other here, as they do where weights are loaded: the precision decides between them.
inline std::string kind(std::string_view dtype) {
  return dtype.starts_with('F') || dtype.starts_with('B') ? dtype == "BOOL" ? "BOOL" : "F" : std::string(dtype);
}

inline std::string counted(std::size_t count, char const* one, char const* several) {
  return std::to_string(count) + (count == 1 ? one : several);
}
inline void add(std::string& list, std::string const& one, char const* between) {
  if (one.empty()) return;
  if (!list.empty()) list += between;
  list += one;
}

/// Empty where the weights have the same names and shapes.
inline std::string difference(Shapes const& now, Shapes const& then) {
  std::size_t differ = 0, fresh = 0, gone = 0;
  for (auto const& [name, shape] : now) {
    auto const found = then.find(name);
    if (found == then.end()) ++fresh;
    else differ += found->second != shape;
  }
  for (auto const& [name, shape] : then) gone += !now.contains(name);
  std::string said;
  if (differ != 0) add(said, counted(differ, " weight differs", " weights differ"), ", ");
  if (fresh != 0) add(said, counted(fresh, " weight is new", " weights are new"), ", ");
  if (gone != 0) add(said, counted(gone, " weight is gone", " weights are gone"), ", ");
  return said;
}

/// The names of one kind of parts; none where there is no such kind.
inline Names names_in(ArchiveNode const* parts, std::string_view kind) {
  Names names;
  auto const* const found = parts == nullptr ? nullptr : parts->find(kind);
  auto const* const list = found == nullptr ? nullptr : std::get_if<ArchiveNode::List>(&found->value);
  if (list != nullptr)
    for (auto const& one : *list)
      if (auto const* const name = std::get_if<std::string>(&one.value)) names.push_back(*name);
  sort_seldom(names);
  return names;
}

/// Empty where there are the same names.
inline std::string difference(Names const& now, Names const& then) {
  Names fresh, gone;
  std::set_difference(now.begin(), now.end(), then.begin(), then.end(), std::back_inserter(fresh));
  std::set_difference(then.begin(), then.end(), now.begin(), now.end(), std::back_inserter(gone));
  if (fresh.size() == 1 && gone.size() == 1) return fresh.front() + " in place of " + gone.front();
  std::string said;
  for (auto const& name : fresh) add(said, name + " is new", ", ");
  for (auto const& name : gone) add(said, name + " is gone", ", ");
  return said;
}

}  // namespace assembly

/// In which parts a program differs from the one that wrote a file, in words; empty where it does in none, or the file
/// does not say of which parts its run was. `each_shape(f)` calls f(name, dtype, shape) for each weight of the program,
/// `fold(archive)` saves its list of parts.
template <class EachShape, class Fold>
std::string assembly_difference(SafetensorsFile const& file, ArchiveNode const& state, EachShape&& each_shape,
                                Fold&& fold) {
  auto const value = file.metadata().find(fingerprint_key);
  auto const* const then = state.find(assembly_key);
  if (value == file.metadata().end() || then == nullptr) return {};
  ArchiveNode program;
  StateSaver saver(program);
  fold(saver);
  auto const* const now = program.find(assembly_key);
  assembly::Shapes shapes_now, shapes_then;
  each_shape([&](std::string_view name, std::string_view dtype, std::vector<std::int64_t> shape) {
    shapes_now.emplace(name, std::pair(assembly::kind(dtype), std::move(shape)));
  });
  for (auto const& entry : file.entries())
    if (!is_state_tensor(entry.name))
      shapes_then.emplace(entry.name, std::pair(assembly::kind(entry.dtype), entry.shape));
  std::string parts;
  auto const of = [&](std::string const& part, std::string const& how) {
    if (!how.empty()) assembly::add(parts, part + ": " + how, "; ");
  };
  of("model", assembly::difference(shapes_now, shapes_then));
  for (auto const* kind : {"strategy", "precision", "optimization", "optimizers", "schedules", "callbacks", "loaders"})
    of(kind, assembly::difference(assembly::names_in(now, kind), assembly::names_in(then, kind)));
  if (parts.empty()) return {};
  return "the file was written by a program that is put together differently (fingerprint " + value->second +
         "): " + parts;
}

}  // namespace fulgurite
