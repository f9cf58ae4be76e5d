#pragma once
// Writes named tensors and texts as one safetensors file, durably.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/safetensors_layout.hpp>
#include <fulgurite/checkpoint/safetensors_sums.hpp>
#include <fulgurite/checkpoint/weight_view.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/sort_seldom.hpp>
#include <fulgurite/core/utf8.hpp>

namespace fulgurite {

/// Whether a file gets a checksum of each tensor and of its header: see safetensors_sums.hpp.
enum class Checksums : bool { none, written };

/// Adds to the metadata what follows from names, types and shapes.
using AddMetadata = FunctionRef<void(Metadata&, std::vector<safetensors::Entry> const&)>;

/// Writes the weights durably: after this returns, or throws, `path` holds all of the new file or is as it was.
/// `each(f)` calls f(std::string_view name, WeightView) for every tensor, in the same order each time; it is called
/// twice, so that only one tensor at a time need be in host memory:
///   write_safetensors("best.safetensors", {{"epoch", "3"}}, [&](auto&& f) { LibTorch::each_weight(model, f); });
FULGURITE_COLD void write_safetensors(std::filesystem::path const& path, Metadata metadata, EachWeight each,
                                      Checksums checksums = Checksums::none, AddMetadata add = {}) {
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
  std::map<std::string, std::size_t, std::less<>> order;  // name -> place: first as handed over, then in the file
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
