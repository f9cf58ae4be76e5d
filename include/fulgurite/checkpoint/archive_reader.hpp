#pragma once
// Reads saved state from the text that archive_text.hpp writes.

#include <bit>
#include <charconv>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/checkpoint/weight_view.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite {

namespace archive {

/// Finds the tensor of a name, for texts that name their tensors instead of containing their bytes.
using TensorLookup = std::function<SavedTensor(std::string const& name)>;

/// The bytes that hexadecimal digits stand for.
FULGURITE_BULK std::string unhex(json::Reader& in, std::string_view text) {
  if (text.size() % 2 != 0) in.fail("hexadecimal digits come in pairs");
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i != text.size(); i += 2) {
    unsigned byte = 0;
    auto const* from = text.data() + i;
    if (std::from_chars(from, from + 2, byte, 16).ptr != from + 2) in.fail("hexadecimal digits expected");
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

/// A tensor: the name of one in the file beside the text, or an object with its type, shape and bytes.
FULGURITE_BULK ArchiveNode tensor(json::Reader& in, TensorLookup const& lookup) {
  if (in.peek() != '{') {
    auto name = in.string();
    if (!lookup) in.fail("the tensor '" + name + "' is in no file beside this text");
    auto found = lookup(name);
    return {ArchiveTensor{std::move(name), std::move(found)}};
  }
  std::string dtype, bytes;
  std::vector<std::int64_t> shape;
  int seen = 0;
  in.object([&](std::string const& member) {
    int const bit = member == "dtype" ? 1 : member == "shape" ? 2 : member == "bytes" ? 4 : 0;
    if (bit == 0 || (seen & bit) != 0) in.fail("a tensor has dtype, shape and bytes, each once, not '" + member + "'");
    seen |= bit;
    if (bit == 1) dtype = in.string();
    else if (bit == 2) in.array([&] { shape.push_back(in.integer<std::int64_t>()); });
    else bytes = unhex(in, in.string());
  });
  auto const size = safetensors::bytes_of(dtype, shape);
  if (seen != 7 || !size || *size != bytes.size())
    in.fail("a tensor needs a known dtype, a shape, and as many bytes as they say");
  auto const all = std::as_bytes(std::span(bytes));
  return {ArchiveTensor{{}, {dtype, std::move(shape), std::vector<std::byte>(all.begin(), all.end())}}};
}

/// The value of an object whose one member has a name that begins with '$'.
FULGURITE_BULK ArchiveNode special(json::Reader& in, std::string const& key, TensorLookup const& lookup) {
  if (key == "$tensor") return tensor(in, lookup);
  auto const text = in.string();
  if (key == "$bits") {
    std::uint64_t bits = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size())
      in.fail("the bits of a number expected");
    return {std::bit_cast<double>(bits)};
  }
  if (key != "$bytes") in.fail("an unknown kind of value: " + key);
  return {unhex(in, text)};
}

/// A number with a point or an exponent is a double, any other an integer.
FULGURITE_BULK ArchiveNode number(json::Reader& in) {
  auto const text = in.number();
  auto const* end = text.data() + text.size();
  if (text.find_first_of(".eE") != std::string_view::npos) {
    double value = 0;
    if (std::from_chars(text.data(), end, value).ec != std::errc{}) in.fail("a number that is out of range");
    return {value};
  }
  std::int64_t small = 0;
  if (std::from_chars(text.data(), end, small).ec == std::errc{}) return {small};
  std::uint64_t large = 0;
  if (std::from_chars(text.data(), end, large).ec != std::errc{}) in.fail("an integer that is out of range");
  return {large};
}

/// Any value.
FULGURITE_BULK ArchiveNode read(json::Reader& in, TensorLookup const& lookup) {
  char const next = in.peek();
  if (next == '[') {
    ArchiveNode::List list;
    in.array([&] { list.push_back(read(in, lookup)); });
    return {std::move(list)};
  }
  if (next == '{') {
    ArchiveNode::Object object;
    ArchiveNode alone;
    bool whole = false;  // the object stands for one special value, and has no other member
    in.object([&](std::string const& key) {
      bool const first = !whole && object.empty();
      if (first && key.starts_with('$')) {
        alone = special(in, key, lookup);
        whole = true;
        return;
      }
      auto* const entry = whole ? nullptr : object.add(key);
      if (entry == nullptr) in.fail("the name '" + key + "' occurs twice, or beside a special value");
      *entry = read(in, lookup);
    });
    if (whole) return alone;
    return {std::move(object)};
  }
  if (next == '"') return {in.string()};
  if (in.accept_word("null")) return {};
  if (in.accept_word("true")) return {true};
  if (in.accept_word("false")) return {false};
  return number(in);
}

}  // namespace archive

/// The tree that a text was made from. `source` is what an Error [fulgurite.checkpoint.state_text] calls the text,
/// `lookup` finds tensors that the text names.
inline ArchiveNode from_text(std::string_view text, std::string source = "saved state",
                             archive::TensorLookup const& lookup = {}) {
  json::Reader in(text, "fulgurite.checkpoint.state_text", std::move(source));
  auto tree = archive::read(in, lookup);
  in.expect_end();
  return tree;
}

}  // namespace fulgurite
