#pragma once
// The bodies of core/archive_tree.hpp.

#include <bit>
#include <cmath>
#include <system_error>

#include <fulgurite/core/archive_tree.hpp>

namespace fulgurite::archive {

FULGURITE_BODY std::string moved_name(std::string_view option) { return std::string(option) + " now"; }

FULGURITE_BULK_BODY std::string hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (char c : bytes)
    (out += digits[static_cast<unsigned char>(c) >> 4]) += digits[static_cast<unsigned char>(c) & 15U];
  return out;
}

FULGURITE_BULK_BODY std::string text_of(double value) {
  if (!std::isfinite(value)) return R"({"$bits":")" + decimal(std::bit_cast<std::uint64_t>(value), 16) + "\"}";
  char text[40];
  std::string out(text, std::to_chars(text, text + sizeof text, value).ptr);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

FULGURITE_BODY std::string text_of(std::string const& value) {
  return utf8::is_valid(value) ? json::quoted(value) : R"({"$bytes":")" + hex(value) + "\"}";
}

/// A tensor with its bytes as hexadecimal digits, for texts without a file for the tensors.
FULGURITE_BULK_BODY std::string text_with_bytes(ArchiveTensor const& tensor) {
  auto const& saved = tensor.tensor;
  std::string shape;
  for (auto const extent : saved.shape()) (shape += shape.empty() ? "" : ",") += std::to_string(extent);
  std::string bytes;
  saved.read([&](SavedTensor::Bytes now) { bytes = hex({reinterpret_cast<char const*>(now.data()), now.size()}); });
  return R"({"$tensor":{"dtype":)" + json::quoted(saved.dtype()) + R"(,"shape":[)" + shape + R"(],"bytes":")" + bytes +
         "\"}}";
}

/// The bytes of a text of hexadecimal digits.
FULGURITE_BULK_BODY std::string unhex(json::Reader& in, std::string_view text) {
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

FULGURITE_BULK_BODY ArchiveNode tensor(json::Reader& in, TensorLookup const& lookup) {
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

FULGURITE_BULK_BODY ArchiveNode special(json::Reader& in, std::string const& key, TensorLookup const& lookup) {
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

FULGURITE_BULK_BODY ArchiveNode number(json::Reader& in) {
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

FULGURITE_BULK_BODY ArchiveNode read(json::Reader& in, TensorLookup const& lookup) {
  char const next = in.peek();
  if (next == '[') {
    ArchiveNode::List list;
    in.array([&] { list.push_back(read(in, lookup)); });
    return {std::move(list)};
  }
  if (next == '{') {
    ArchiveNode::Object object;
    ArchiveNode alone;
    bool whole = false;  // the object is one special value, and has no other member
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

}  // namespace fulgurite::archive

namespace fulgurite {

FULGURITE_BULK_BODY SavedTensor::SavedTensor() = default;
FULGURITE_COPIES_BODY(SavedTensor);

FULGURITE_BODY SavedTensor::SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, Fetch fetch)
    : dtype_(dtype), shape_(std::move(shape)), fetch_(std::move(fetch)) {
  auto const size = safetensors::bytes_of(dtype_, shape_);
  if (!size) refuse("a file cannot hold a tensor of type '" + dtype_ + "' and that shape");
  size_ = *size;
}

FULGURITE_BODY SavedTensor::SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape,
                                        std::vector<std::byte> bytes)
    : SavedTensor(dtype, std::move(shape), Fetch{}) {
  if (bytes.size() != size_)
    refuse("a tensor of " + std::to_string(size_) + " bytes was given " + std::to_string(bytes.size()));
  own_ = std::make_shared<std::vector<std::byte> const>(std::move(bytes));
}

FULGURITE_BODY SavedTensor::SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, Fetch fetch,
                                        std::any of, Keep how)
    : SavedTensor(dtype, std::move(shape), std::move(fetch)) {
  tensor_ = std::move(of);
  keep_ = how;
}

FULGURITE_BODY void SavedTensor::read(FunctionRef<void(Bytes)> f) const {
  if (own_) f(Bytes(*own_));
  else if (fetch_) fetch_(f);
  else f(Bytes{});
}

FULGURITE_BODY SavedTensor SavedTensor::owned() const {
  if (!fetch_) return *this;
  std::vector<std::byte> bytes;
  read([&](Bytes now) { bytes.assign(now.begin(), now.end()); });
  return {dtype_, shape_, std::move(bytes)};
}

FULGURITE_BODY SavedTensor SavedTensor::written_last() && {
  written_last_ = true;
  return std::move(*this);
}

FULGURITE_BODY std::string SavedTensor::description() const { return dtype_ + " [" + listed(shape_) + "]"; }

FULGURITE_BODY ArchiveNode const* ArchiveObject::find(std::string_view name) const {
  auto const found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second].node;
}

FULGURITE_BODY ArchiveNode* ArchiveObject::change(std::string_view name) {
  auto const found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second].node;
}

FULGURITE_BODY ArchiveNode* ArchiveObject::add(std::string_view name) {
  if (!places_.emplace(name, entries_.size()).second) return nullptr;
  return &entries_.emplace_back(ArchiveEntry{std::string(name), {}}).node;
}

FULGURITE_BODY ArchiveEntry const* ArchiveObject::end() const { return entries_.data() + entries_.size(); }

FULGURITE_BULK_BODY ArchiveNode::ArchiveNode() = default;
FULGURITE_BODY ArchiveNode::ArchiveNode(Value of) : value(std::move(of)) {}
FULGURITE_COPIES_BODY(ArchiveNode);

FULGURITE_BODY ArchiveNode const* ArchiveNode::find(std::string_view name) const {
  auto const* entries = std::get_if<Object>(&value);
  return entries == nullptr ? nullptr : entries->find(name);
}

FULGURITE_BODY bool ArchiveNode::holds_nothing() const {
  auto const* const object = std::get_if<Object>(&value);
  return object == nullptr ? std::holds_alternative<std::monostate>(value) : object->empty();
}

FULGURITE_BULK_BODY std::string to_text(ArchiveNode const& node,
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

FULGURITE_BODY std::string to_text(ArchiveNode const& node) {
  return to_text(node, [](ArchiveTensor const& tensor) { return archive::text_with_bytes(tensor); });
}

FULGURITE_BODY ArchiveNode from_text(std::string_view text, std::string source, archive::TensorLookup const& lookup) {
  json::Reader in(text, "fulgurite.checkpoint.state_text", std::move(source));
  auto tree = archive::read(in, lookup);
  in.expect_end();
  return tree;
}

}  // namespace fulgurite
