#pragma once
// What a run was put together from, as its files say it: the names of its parts, and one short value for them and for
// the layout of the weights.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/archive_text.hpp>
#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/safetensors_layout.hpp>
#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/sort_seldom.hpp>

namespace fulgurite {

/// The entry of the state that lists the parts: an object of lists of names, by kind.
inline constexpr char const* assembly_key = "assembly";
/// The entry of the metadata that holds the value.
inline constexpr char const* fingerprint_key = "fulgurite.fingerprint";

/// Sixteen hexadecimal digits of all that `state` lists of the run's parts, and of the names, element types and shapes
/// of the weights. Two files have the same where the same program wrote them, wherever their runs were.
inline std::string fingerprint(ArchiveNode const& state, std::vector<safetensors::Entry> const& tensors) {
  std::vector<std::string> lines;
  for (auto const& tensor : tensors) {
    if (is_state_tensor(tensor.name)) continue;
    auto& line = lines.emplace_back(json::quoted(tensor.name));
    line += tensor.dtype;
    for (auto const extent : tensor.shape) (line += ' ') += std::to_string(extent);
  }
  sort_seldom(lines);
  if (auto const* const parts = state.find(assembly_key)) lines.push_back(to_text(*parts));
  std::uint64_t value = 14695981039346656037U;  // FNV-1a: nobody has a reason to forge it
  for (auto const& line : lines)
    for (char const c : line + '\n') value = (value ^ static_cast<unsigned char>(c)) * 1099511628211U;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

}  // namespace fulgurite
