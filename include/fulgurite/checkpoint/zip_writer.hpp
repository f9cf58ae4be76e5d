#pragma once
// Writes zip archives of stored entries, as torch.save does: each entry's bytes begin at a multiple of 64.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/zip_layout.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite {

/// Puts entries one after the other into a DurableFile, which the caller commits after `finish()`. Numbers of `wide` or
/// more, such as the size of an entry of 4 GiB, are written in 64 bits; tests ask for that earlier.
class ZipWriter {
 public:
  explicit ZipWriter(DurableFile& file, std::uint64_t wide = zip::elsewhere) : file_(&file), wide_(wide) {}

  FULGURITE_COLD void add(std::string_view name, std::span<std::byte const> bytes) {
    // The header is padded by an extra field; this one's number and its letters are those of PyTorch.
    auto const sum = zip::checksum(0, bytes);
    std::uint64_t const size = bytes.size();
    auto const sizes = size < wide_ ? std::string() : numbers({size, size});
    auto const before = at_ + zip::local_size + name.size() + sizes.size() + 4;
    std::size_t const padding = (alignment - before % alignment) % alignment;

    std::string header;
    zip::append(header, zip::local_mark);
    common(header, size, sum, name);
    zip::append(header, static_cast<std::uint16_t>(sizes.size() + 4 + padding));
    header += name;
    header += sizes;
    zip::append(header, std::uint16_t{0x4246});
    zip::append(header, static_cast<std::uint16_t>(padding));
    header.append(padding, 'Z');

    std::string extra;
    if (size >= wide_ && at_ >= wide_) extra = numbers({size, size, at_});
    else if (size >= wide_) extra = numbers({size, size});
    else if (at_ >= wide_) extra = numbers({at_});
    zip::append(directory_, zip::directory_mark);
    zip::append(directory_, std::uint16_t{version});
    common(directory_, size, sum, name);
    zip::append(directory_, static_cast<std::uint16_t>(extra.size()));
    directory_.append(10, '\0');  // no comment, in this file, no attributes
    zip::append(directory_, narrow(at_));
    directory_ += name;
    directory_ += extra;
    ++count_;

    file_->write(header);
    file_->write(bytes);
    at_ += header.size() + size;
  }
  void add(std::string_view name, std::string_view text) { add(name, std::as_bytes(std::span(text))); }

  /// Writes the directory. Nothing may be added afterwards.
  FULGURITE_COLD void finish() {
    std::uint64_t const size = directory_.size();
    std::string end;
    bool const many = count_ >= zip::elsewhere16;
    if (many || size >= wide_ || at_ >= wide_) {
      zip::append(end, zip::end64_mark);
      zip::append(end, std::uint64_t{zip::end64_size - 12});  // what follows this number
      zip::append(end, std::uint16_t{version});
      zip::append(end, std::uint16_t{version});
      zip::append(end, std::uint64_t{0});  // all in one file
      for (auto const number : {count_, count_, size, at_}) zip::append(end, number);
      zip::append(end, zip::locator_mark);
      zip::append(end, std::uint32_t{0});
      zip::append(end, at_ + size);
      zip::append(end, std::uint32_t{1});
    }
    zip::append(end, zip::end_mark);
    zip::append(end, std::uint32_t{0});
    auto const count = static_cast<std::uint16_t>(many ? zip::elsewhere16 : count_);
    zip::append(end, count);
    zip::append(end, count);
    zip::append(end, narrow(size));
    zip::append(end, narrow(at_));
    zip::append(end, std::uint16_t{0});
    file_->write(directory_);
    file_->write(end);
  }

 private:
  static constexpr std::size_t alignment = 64;
  static constexpr std::uint16_t version = 45;  // of the format: it has numbers of 64 bits

  std::uint32_t narrow(std::uint64_t number) const {
    return static_cast<std::uint32_t>(number < wide_ ? number : zip::elsewhere);
  }
  /// What both headers of an entry hold.
  FULGURITE_COLD void common(std::string& header, std::uint64_t size, std::uint32_t sum, std::string_view name) const {
    zip::append(header, std::uint16_t{version});
    zip::append(header, zip::name_is_utf8);
    zip::append(header, std::uint16_t{0});           // stored
    zip::append(header, std::uint32_t{0x00210000});  // 1980-01-01: the same weights make the same bytes
    zip::append(header, sum);
    zip::append(header, narrow(size));
    zip::append(header, narrow(size));
    zip::append(header, static_cast<std::uint16_t>(name.size()));
  }
  FULGURITE_COLD static std::string numbers(std::vector<std::uint64_t> const& all) {
    std::string field;
    zip::append(field, zip::wide_numbers);
    zip::append(field, static_cast<std::uint16_t>(8 * all.size()));
    for (auto const one : all) zip::append(field, one);
    return field;
  }

  DurableFile* file_;
  std::uint64_t wide_;
  std::uint64_t at_ = 0;
  std::uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace fulgurite
