#pragma once
// Saved state in memory: named values and children; and its text, which reads back bit for bit.

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/json.hpp>

namespace fulgurite {

struct ArchiveEntry;

/// One value: nothing (an empty optional), a scalar, a list, or an object with named entries.
/// Integers are `int64_t` wherever they fit, `uint64_t` only above.
struct ArchiveNode {
  using List = std::vector<ArchiveNode>;
  using Object = std::vector<ArchiveEntry>;
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List, Object> value;

  inline ArchiveNode const* find(std::string_view name) const;  ///< an entry of an object, or nullptr
};

struct ArchiveEntry {
  std::string name;
  ArchiveNode node;
};

inline ArchiveNode const* ArchiveNode::find(std::string_view name) const {
  if (auto const* entries = std::get_if<Object>(&value))
    for (auto const& entry : *entries)
      if (entry.name == name) return &entry.node;
  return nullptr;
}

namespace archive {

inline std::string hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (char c : bytes) (out += digits[static_cast<unsigned char>(c) >> 4]) += digits[static_cast<unsigned char>(c) & 15U];
  return out;
}

template <class I>
std::string decimal(I value, int base = 10) {
  char text[72];
  return {text, std::to_chars(text, text + sizeof text, value, base).ptr};
}

// JSON has no NaN, no infinity and no bytes that are not UTF-8; those are objects with one name that starts with '$', which no
// entry of ours may start with. A double always has a point, an exponent, or this form, so it never reads back as an integer.
inline std::string text_of(double value) {
  if (!std::isfinite(value)) return R"({"$bits":")" + decimal(std::bit_cast<std::uint64_t>(value), 16) + "\"}";
  char text[40];
  std::string out(text, std::to_chars(text, text + sizeof text, value).ptr);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}
inline std::string text_of(std::string const& value) {
  return json::is_utf8(value) ? json::quoted(value) : R"({"$bytes":")" + hex(value) + "\"}";
}

}  // namespace archive

/// Compact JSON.
inline std::string to_text(ArchiveNode const& node) {
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
          return join(value, '[', ']', [](ArchiveNode const& item) { return to_text(item); });
        else if constexpr (std::is_same_v<T, ArchiveNode::Object>)
          return join(value, '{', '}', [](ArchiveEntry const& e) { return json::quoted(e.name) + ":" + to_text(e.node); });
        else return archive::text_of(value);
      },
      node.value);
}

namespace archive {

inline ArchiveNode special(json::Reader& in, std::string const& key) {
  auto const text = in.string();
  if (key == "$bits") {
    std::uint64_t bits = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) in.fail("the bits of a number expected");
    return {std::bit_cast<double>(bits)};
  }
  if (key != "$bytes" || text.size() % 2 != 0) in.fail("an unknown kind of value: " + key);
  std::string bytes;
  for (std::size_t i = 0; i != text.size(); i += 2) {
    unsigned byte = 0;
    auto const* from = text.data() + i;
    if (std::from_chars(from, from + 2, byte, 16).ptr != from + 2) in.fail("hexadecimal digits expected");
    bytes += static_cast<char>(byte);
  }
  return {std::move(bytes)};
}

inline ArchiveNode number(json::Reader& in) {
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

inline ArchiveNode read(json::Reader& in) {
  char const next = in.peek();
  if (next == '[') {
    ArchiveNode::List list;
    in.array([&] { list.push_back(read(in)); });
    return {std::move(list)};
  }
  if (next == '{') {
    ArchiveNode node{ArchiveNode::Object{}};
    bool whole = false;  // a special value was read, which is the only member of its object
    in.object([&](std::string key) {
      if (whole || node.find(key) != nullptr) in.fail("the name '" + key + "' occurs twice, or beside a special value");
      if (key.starts_with('$') && std::get<ArchiveNode::Object>(node.value).empty()) {
        node = special(in, key);
        whole = true;
      } else {
        auto value = read(in);
        std::get<ArchiveNode::Object>(node.value).push_back({std::move(key), std::move(value)});
      }
    });
    return node;
  }
  if (next == '"') return {in.string()};
  if (in.accept_word("null")) return {};
  if (in.accept_word("true")) return {true};
  if (in.accept_word("false")) return {false};
  return number(in);
}

}  // namespace archive

/// The tree behind a text; `source` names it in an Error [fulgurite.checkpoint.state_text].
inline ArchiveNode from_text(std::string_view text, std::string source = "saved state") {
  json::Reader in(text, "fulgurite.checkpoint.state_text", std::move(source));
  auto tree = archive::read(in);
  in.expect_end();
  return tree;
}

}  // namespace fulgurite
