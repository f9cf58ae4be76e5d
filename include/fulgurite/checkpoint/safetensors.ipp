#pragma once
// The bodies of checkpoint/safetensors.hpp.

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include <fulgurite/checkpoint/safetensors.hpp>

namespace fulgurite::safetensors {

FULGURITE_BODY std::string header_of(std::vector<Entry> const& entries, Metadata const& metadata) {
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

FULGURITE_BODY std::string sum_text(std::uint32_t sum) {
  char digits[sum_digits + 1];
  std::string text(digits, std::to_chars(digits, digits + sum_digits, sum, 16).ptr);
  return std::string(sum_digits - text.size(), '0') + text;
}

FULGURITE_BODY std::size_t sum_place(std::string_view header, std::string_view key) {
  auto const before = std::string(key) + "\":\"";
  for (char const* opening : {",\"", "{\""})
    if (auto const at = header.find(opening + before); at != header.npos) return at + 2 + before.size();
  return header.npos;
}

/// Reserves space for the checksums of this many tensors, so that the header's length is known before the checksums
/// are.
FULGURITE_BODY void reserve_sums(Metadata& metadata, std::size_t tensors) {
  metadata[tensor_sums_key] = std::string(sum_digits * tensors, '0');
  metadata[header_sum_key] = std::string(sum_digits, '0');
}

/// Writes the checksums into a header with reserved space.
FULGURITE_BODY void enter_sums(std::string& header, std::span<std::uint32_t const> of_tensors) {
  auto at = sum_place(header, tensor_sums_key);
  for (auto const sum : of_tensors) {
    header.replace(at, sum_digits, sum_text(sum));
    at += sum_digits;
  }
  header.replace(sum_place(header, header_sum_key), sum_digits, sum_text(crc32c(0, std::as_bytes(std::span(header)))));
}

FULGURITE_BODY std::uint32_t header_sum(std::string header) {
  if (auto const at = sum_place(header, header_sum_key); at != header.npos && header.size() - at >= sum_digits)
    header.replace(at, sum_digits, std::string(sum_digits, '0'));
  return crc32c(0, std::as_bytes(std::span(header)));
}

/// The checksums in a text of such digits; nullopt if the text is not one.
FULGURITE_BODY std::optional<std::vector<std::uint32_t>> sums_in(std::string_view text) {
  if (text.size() % sum_digits != 0) return std::nullopt;
  std::vector<std::uint32_t> sums(text.size() / sum_digits);
  for (std::size_t i = 0; i != sums.size(); ++i) {
    auto const* const digits = text.data() + i * sum_digits;
    auto const [end, error] = std::from_chars(digits, digits + sum_digits, sums[i], 16);
    if (error != std::errc{} || end != digits + sum_digits) return std::nullopt;
  }
  return sums;
}

}  // namespace fulgurite::safetensors

namespace fulgurite {

FULGURITE_BODY SafetensorsFile::SafetensorsFile(std::filesystem::path path) : file_(identifier, std::move(path)) {
  if (!file_.is_regular()) fail(0, "this is not a regular file");
  auto const size = file_.size();
  if (size < 8) fail(size, "the file ends inside the eight bytes of the header's length");
  std::uint64_t length = 0;
  file_.load(std::as_writable_bytes(std::span(&length, 1)), 0);
  if (length > safetensors::longest_header)
    fail(0, "a header of " + std::to_string(length) + " bytes: this is not a safetensors file");
  if (length > size - 8) fail(size, "the file ends inside its header of " + std::to_string(length) + " bytes");
  auto header = file_.text(8, length);
  data_ = 8 + length;
  parse(header);
  check(size - data_);
  take_sums(std::move(header));
}

FULGURITE_MOVES_BODY(SafetensorsFile);

FULGURITE_BODY SafetensorsFile::Entry const* SafetensorsFile::find(std::string_view name) const {
  auto const found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

FULGURITE_BODY void SafetensorsFile::read(Entry const& entry, std::span<std::byte> into) const {
  if (into.size() != entry.end - entry.begin)
    fail(data_ + entry.begin, "'" + entry.name + "' has " + std::to_string(entry.end - entry.begin) + " bytes, not " +
                                  std::to_string(into.size()));
  file_.load(into, data_ + entry.begin);
  if (has_checksums()) compare(entry, crc32c(0, into));
}

FULGURITE_BODY void SafetensorsFile::verify() const {
  if (!has_checksums()) return;
  std::vector<std::byte> piece(std::size_t{1} << 20);
  for (auto const& entry : entries_) {
    std::uint32_t sum = 0;
    for (auto at = entry.begin; at != entry.end;) {
      auto const part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), entry.end - at));
      file_.load(part, data_ + at);
      sum = crc32c(sum, part);
      at += part.size();
    }
    compare(entry, sum);
  }
}

FULGURITE_BODY void SafetensorsFile::compare(Entry const& entry, std::uint32_t sum) const {
  if ((*sums_)[index_.find(entry.name)->second] != sum)
    throw Error("fulgurite.checkpoint.checksum",
                path().string() + ": the bytes of '" + entry.name +
                    "' are not those that were written: the file is damaged, take another one");
}

FULGURITE_BODY void SafetensorsFile::take_sums(std::string header) {
  auto const of_header = metadata_.find(safetensors::header_sum_key);
  auto const of_tensors = metadata_.find(safetensors::tensor_sums_key);
  if (of_header == metadata_.end() && of_tensors == metadata_.end()) return;
  if (of_tensors != metadata_.end()) sums_ = safetensors::sums_in(of_tensors->second);
  if (of_header == metadata_.end() || !sums_ || sums_->size() != entries_.size() ||
      of_header->second != safetensors::sum_text(safetensors::header_sum(std::move(header))))
    throw Error("fulgurite.checkpoint.checksum",
                path().string() +
                    ": the header is not the one that was written: the file is damaged, take another one; "
                    "a program that changes a file leaves out the metadata that begin with 'fulgurite'");
}

FULGURITE_BODY void SafetensorsFile::parse(std::string const& header) {
  if (!header.starts_with('{')) fail(8, "a header starts with '{'");
  json::Reader in(header, std::string(identifier), path().string(), 8);
  bool described = false;
  in.object([&](std::string name) {
    if (name == "__metadata__") {
      if (std::exchange(described, true)) in.fail("'__metadata__' occurs twice");
      in.object([&](std::string key) {
        auto value = in.string();
        if (!metadata_.emplace(std::move(key), std::move(value)).second)
          in.fail("a name in '__metadata__' occurs twice");
      });
    } else {
      entries_.push_back(entry(in, std::move(name)));
      if (!index_.emplace(entries_.back().name, 0).second)
        in.fail("the tensor '" + entries_.back().name + "' occurs twice");
    }
  });
  in.expect_end();
}

FULGURITE_BODY SafetensorsFile::Entry SafetensorsFile::entry(json::Reader& in, std::string name) {
  Entry entry{std::move(name), {}, {}, 0, 0};
  int seen = 0;
  auto const once = [&](int bit) {
    if ((seen & bit) != 0) in.fail("a member of '" + entry.name + "' occurs twice");
    seen |= bit;
  };
  in.object([&](std::string const& member) {
    if (member == "dtype") {
      once(1);
      entry.dtype = in.string();
      if (!safetensors::element_size(entry.dtype))
        in.fail("'" + entry.name + "' has an unknown element type '" + entry.dtype + "'");
    } else if (member == "shape") {
      once(2);
      in.array([&] {
        entry.shape.push_back(in.integer<std::int64_t>());
        if (entry.shape.back() < 0) in.fail("'" + entry.name + "' has a negative extent");
      });
    } else if (member == "data_offsets") {
      once(4);
      std::vector<std::uint64_t> offsets;
      in.array([&] { offsets.push_back(in.integer<std::uint64_t>()); });
      if (offsets.size() != 2) in.fail("'" + entry.name + "' needs two data_offsets");
      entry.begin = offsets[0];
      entry.end = offsets[1];
    } else {
      in.fail("'" + entry.name + "' has an unknown member '" + member + "'");
    }
  });
  if (seen != 7) in.fail("'" + entry.name + "' needs dtype, shape and data_offsets");
  auto const bytes = safetensors::bytes_of(entry.dtype, entry.shape);
  if (!bytes) in.fail("the shape of '" + entry.name + "' is too large for any memory");
  if (entry.end < entry.begin || entry.end - entry.begin != *bytes)
    in.fail("'" + entry.name + "' should have " + std::to_string(*bytes) + " bytes, but its data_offsets are [" +
            std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]");
  return entry;
}

FULGURITE_BODY void SafetensorsFile::check(std::uint64_t data_size) {
  sort_seldom(entries_,
              [](Entry const& a, Entry const& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t at = 0;
  for (std::size_t i = 0; i != entries_.size(); ++i) {
    if (entries_[i].begin != at)
      fail(data_ + at, "'" + entries_[i].name + "' starts at byte " + std::to_string(entries_[i].begin) +
                           " of the data, not at " + std::to_string(at) + ": tensors overlap, or leave a gap");
    if (entries_[i].end > data_size) fail(data_ + data_size, "the file ends inside '" + entries_[i].name + "'");
    at = entries_[i].end;
    index_.find(entries_[i].name)->second = i;
  }
  if (at != data_size) fail(data_ + at, std::to_string(data_size - at) + " bytes belong to no tensor");
}

FULGURITE_BODY void write_safetensors(std::filesystem::path const& path, Metadata metadata, EachWeight each,
                                      Checksums checksums, AddMetadata add) {
  using safetensors::Entry;
  auto const refuse = [&](std::string_view name, std::string const& why) {
    throw Error("fulgurite.checkpoint.weights",
                "cannot write " + path.string() + ": the tensor '" + std::string(name) + "' " + why);
  };
  for (auto const& [name, value] : metadata)
    if (!utf8::is_valid(name) || !utf8::is_valid(value))
      throw Error("fulgurite.checkpoint.weights",
                  "cannot write " + path.string() + ": the metadata '" + name + "' is not UTF-8");

  std::vector<Entry> entries;
  std::map<std::string, std::size_t, std::less<>>
      order;  // name to position: first the order of `each`, later that in the file
  each([&](std::string_view name, WeightView const& view) {
    auto const bytes = safetensors::bytes_of(view.dtype, view.shape);
    if (!bytes)
      refuse(name, "has an element type or a shape that safetensors does not have: " + std::string(view.dtype));
    if (view.bytes.size() != *bytes)
      refuse(name, "comes as " + std::to_string(view.bytes.size()) + " bytes, not " + std::to_string(*bytes));
    if (name == "__metadata__" || !utf8::is_valid(name)) refuse(name, "has a name the format does not allow");
    if (!order.emplace(name, entries.size()).second) refuse(name, "occurs twice");
    entries.push_back({std::string(name), std::string(view.dtype), view.shape, 0, *bytes});
  });
  // Tensors with wide elements come first, so that each tensor is aligned to its elements in a mapped file.
  sort_seldom(entries, [&](Entry const& a, Entry const& b) {
    auto const wide = safetensors::element_size(a.dtype), other = safetensors::element_size(b.dtype);
    return wide != other ? wide > other : order.find(a.name)->second < order.find(b.name)->second;
  });
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i != entries.size(); ++i) {
    entries[i].begin = offset;
    entries[i].end = offset += entries[i].end;
    order.find(entries[i].name)->second = i;
  }

  if (add) add(metadata, entries);
  bool const sums = checksums == Checksums::written;
  if (sums) safetensors::reserve_sums(metadata, entries.size());
  auto header = safetensors::header_of(entries, metadata);
  if (header.size() > safetensors::longest_header)
    throw Error("fulgurite.checkpoint.weights",
                "cannot write " + path.string() + ": the header is longer than the format allows");
  DurableFile file(path);
  std::vector<std::uint32_t> of_tensors(entries.size());
  std::size_t written = 0;
  each([&](std::string_view name, WeightView const& view) {
    auto const found = order.find(name);
    if (found == order.end()) refuse(name, "appeared while the file was written");
    auto const& entry = entries[found->second];
    if (view.bytes.size() != entry.end - entry.begin) refuse(name, "changed its size while the file was written");
    file.write_at(8 + header.size() + entry.begin, view.bytes);
    if (sums) of_tensors[found->second] = crc32c(0, view.bytes);
    ++written;
  });
  if (written != entries.size()) refuse("", "set shrank while the file was written");
  if (sums) safetensors::enter_sums(header, of_tensors);
  file.write_at(0, std::bit_cast<std::array<std::byte, 8>>(static_cast<std::uint64_t>(header.size())));
  file.write_at(8, std::as_bytes(std::span(header)));
  file.commit();
}

}  // namespace fulgurite
