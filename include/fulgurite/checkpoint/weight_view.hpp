#pragma once
// One named tensor as bytes: what a tensor library hands to the file format, and the format's element types.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fulgurite/core/function_ref.hpp>

namespace fulgurite {

/// A named tensor's bytes on the host, in row-major order and little endian. `dtype` is safetensors' name of the
/// element type, such as "F32".
struct WeightView {
  std::string_view dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte const> bytes;
};

/// Takes a tensor and its name.
using TakeWeight = FunctionRef<void(std::string_view name, WeightView const& view)>;
/// Hands over each tensor, in the same order each time.
using EachWeight = FunctionRef<void(TakeWeight)>;

namespace safetensors {

/// An element type of the format, and the size of one element in bytes.
struct ElementType {
  std::string_view name;
  std::size_t size;
};
inline constexpr std::array<ElementType, 10> element_types{{{"F64", 8},
                                                            {"F32", 4},
                                                            {"F16", 2},
                                                            {"BF16", 2},
                                                            {"I64", 8},
                                                            {"I32", 4},
                                                            {"I16", 2},
                                                            {"I8", 1},
                                                            {"U8", 1},
                                                            {"BOOL", 1}}};

/// The size of one element in bytes; nullopt for a name that this library does not know.
constexpr std::optional<std::size_t> element_size(std::string_view dtype) {
  for (auto const& type : element_types)
    if (type.name == dtype) return type.size;
  return std::nullopt;
}

/// The size of a tensor in bytes; nullopt for an unknown element type, a negative extent, or a product that does not
/// fit into 64 bits.
constexpr std::optional<std::uint64_t> bytes_of(std::string_view dtype, std::span<std::int64_t const> shape) {
  auto const size = element_size(dtype);
  if (!size) return std::nullopt;
  std::uint64_t bytes = *size;
  for (auto const extent : shape) {
    if (extent < 0) return std::nullopt;
    auto const factor = static_cast<std::uint64_t>(extent);
    if (factor != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

}  // namespace safetensors
}  // namespace fulgurite
