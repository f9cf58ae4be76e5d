#pragma once
// The layout of a safetensors file (https://github.com/huggingface/safetensors#format), which every framework reads:
// 8 bytes little-endian length of the header, the header as JSON padded with spaces to 8 bytes, then the tensors
// without gaps.

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/checkpoint/weight_view.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

/// Texts beside the tensors, by name: the position of the run, hyper-parameters, the state of callbacks.
using Metadata = std::map<std::string, std::string>;

namespace safetensors {

inline constexpr std::uint64_t longest_header = 100'000'000;  ///< the format's own limit

/// The place of one tensor in a file. Offsets count from the end of the header.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The header with its padding, without the eight bytes of its length.
FULGURITE_COLD std::string header_of(std::vector<Entry> const& entries, Metadata const& metadata) {
  std::string text = "{";
  auto const key = [&](std::string_view name) { return (text.size() == 1 ? "" : ",") + json::quoted(name) + ":"; };
  if (!metadata.empty()) {
    std::string pairs;
    for (auto const& [name, value] : metadata)
      (pairs += pairs.empty() ? "" : ",") += json::quoted(name) + ":" + json::quoted(value);
    text += key("__metadata__") + "{" + pairs + "}";
  }
  for (auto const& entry : entries) {
    std::string shape;
    for (auto const extent : entry.shape) (shape += shape.empty() ? "" : ",") += std::to_string(extent);
    text += key(entry.name) + R"({"dtype":")" + entry.dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" +
            std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]}";
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace safetensors

}  // namespace fulgurite
