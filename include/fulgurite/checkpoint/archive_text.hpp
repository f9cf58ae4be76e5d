#pragma once
// Writes saved state as text, from which archive_reader.hpp makes the same state again, bit for bit.

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/utf8.hpp>

namespace fulgurite {

namespace archive {

/// Bytes as hexadecimal digits, two for each.
FULGURITE_BULK std::string hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (char c : bytes)
    (out += digits[static_cast<unsigned char>(c) >> 4]) += digits[static_cast<unsigned char>(c) & 15U];
  return out;
}

template <class I>
std::string decimal(I value, int base = 10) {
  char text[72];
  return {text, std::to_chars(text, text + sizeof text, value, base).ptr};
}

// JSON has no NaN, no infinity and no text that is not UTF-8. Such a value is written as an object with one member
// whose name begins with '$'; no entry of a state may have such a name. A double always has a point, an exponent or
// this form, so it never reads back as an integer.
FULGURITE_BULK std::string text_of(double value) {
  if (!std::isfinite(value)) return R"({"$bits":")" + decimal(std::bit_cast<std::uint64_t>(value), 16) + "\"}";
  char text[40];
  std::string out(text, std::to_chars(text, text + sizeof text, value).ptr);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}
inline std::string text_of(std::string const& value) {
  return utf8::is_valid(value) ? json::quoted(value) : R"({"$bytes":")" + hex(value) + "\"}";
}

/// A tensor with its bytes as hexadecimal digits, for texts that have no file beside them.
FULGURITE_BULK std::string text_with_bytes(ArchiveTensor const& tensor) {
  auto const& saved = tensor.tensor;
  std::string shape;
  for (auto const extent : saved.shape()) (shape += shape.empty() ? "" : ",") += std::to_string(extent);
  std::string bytes;
  saved.read([&](SavedTensor::Bytes now) { bytes = hex({reinterpret_cast<char const*>(now.data()), now.size()}); });
  return R"({"$tensor":{"dtype":)" + json::quoted(saved.dtype()) + R"(,"shape":[)" + shape + R"(],"bytes":")" + bytes +
         "\"}}";
}

}  // namespace archive

/// A tree as compact JSON. `tensor_text(ArchiveTensor const&)` returns what stands for a tensor.
FULGURITE_BULK std::string to_text(ArchiveNode const& node,
                                   FunctionRef<std::string(ArchiveTensor const&)> tensor_text) {
  auto const join = [](auto const& items, char open, char close, auto&& one) {
    std::string out(1, open);
    for (auto const& item : items) (out += out.size() == 1 ? "" : ",") += one(item);
    return out + close;
  };
  return std::visit(
      [&]<class T>(T const& value) -> std::string {
        if constexpr (std::is_same_v<T, std::monostate>) return "null";
        else if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
        else if constexpr (std::is_integral_v<T>) return archive::decimal(value);
        else if constexpr (std::is_same_v<T, ArchiveNode::List>)
          return join(value, '[', ']', [&](ArchiveNode const& item) { return to_text(item, tensor_text); });
        else if constexpr (std::is_same_v<T, ArchiveNode::Object>)
          return join(value, '{', '}',
                      [&](ArchiveEntry const& e) { return json::quoted(e.name) + ":" + to_text(e.node, tensor_text); });
        else if constexpr (std::is_same_v<T, ArchiveTensor>) return tensor_text(value);
        else return archive::text_of(value);
      },
      node.value);
}
/// A tree as compact JSON that contains the bytes of its tensors.
inline std::string to_text(ArchiveNode const& node) {
  return to_text(node, [](ArchiveTensor const& tensor) { return archive::text_with_bytes(tensor); });
}

}  // namespace fulgurite
