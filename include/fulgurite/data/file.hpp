#pragma once
// Reads a whole file into memory. Its length is asked first, so that memory is allocated only for bytes that exist.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <zlib.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::data {

/// The bytes of a file. Error [fulgurite.data.file] for what is not a readable regular file, or ends before the length
/// that was told.
FULGURITE_BULK std::vector<std::uint8_t> read_file(std::filesystem::path const& path) {
  auto const refuse = [&](std::string const& why) { throw Error("fulgurite.data.file", path.string() + ": " + why); };
  std::error_code error;
  auto const status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse("there is no such file; check the path");
  if (!std::filesystem::is_regular_file(status)) refuse("this is not a file; name the file itself");
  auto const length = std::filesystem::file_size(path, error);
  if (error) refuse("its length cannot be read (" + error.message() + ")");

  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("it cannot be opened; check its permissions");
  std::vector<std::uint8_t> bytes(length);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length));
  if (static_cast<std::uintmax_t>(file.gcount()) != length)
    refuse("reading stopped at byte " + std::to_string(file.gcount()) + " of " + std::to_string(length) +
           "; it changed meanwhile, or its disk fails");
  return bytes;
}

// Reads gzip piece by piece from memory, through zlib (link with -lz).

/// The largest number of bytes that gzip's deflate can make of one byte: 258 bytes from two bits. It bounds what a
/// compressed file can contain before it is unpacked.
inline constexpr std::size_t largest_gzip_ratio = 1032;

/// Whether the bytes begin as a gzip file does.
inline bool is_gzip(std::span<std::uint8_t const> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/// A source of unpacked bytes. `read` fills its span, and fills less only at the end. The compressed bytes must outlive
/// this object. Error [fulgurite.data.gzip] where they are damaged, cut off or followed by something else, or fail
/// their checksum.
class Gunzip {
 public:
  Gunzip(std::span<std::uint8_t const> compressed, std::string name)
      : rest_(compressed), size_(compressed.size()), name_(std::move(name)) {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~Gunzip() { inflateEnd(&stream_); }
  Gunzip(Gunzip const&) = delete;  // zlib keeps a pointer to its stream
  Gunzip& operator=(Gunzip const&) = delete;

  std::size_t read(std::span<std::uint8_t> into) {
    std::size_t done = 0;
    while (done < into.size() && !ended_) done += inflate_some(into.subspan(done));
    return done;
  }

 private:
  FULGURITE_BULK std::size_t inflate_some(std::span<std::uint8_t> into) {
    constexpr std::size_t most = std::numeric_limits<uInt>::max();  // zlib counts in 32 bits
    auto const given = static_cast<uInt>(std::min(rest_.size(), most)),
               wanted = static_cast<uInt>(std::min(into.size(), most));
    stream_.next_in = const_cast<Bytef*>(rest_.data());  // zlib does not write there
    stream_.avail_in = given;
    stream_.next_out = into.data();
    stream_.avail_out = wanted;
    int const status = inflate(&stream_, Z_NO_FLUSH);
    rest_ = rest_.subspan(given - stream_.avail_in);
    if (status == Z_STREAM_END) {
      end_of_member();
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status == Z_BUF_ERROR) {  // nothing left to read
      refuse("the compressed data end too early", "it was cut off, probably while downloading: fetch it again");
    } else if (status != Z_OK) {
      refuse(std::string("the compressed data are damaged (") + (stream_.msg ? stream_.msg : "unknown reason") + ")",
             "fetch the file again");
    }
    return wanted - stream_.avail_out;
  }

  /// Several gzip files may follow one another; anything else behind one is an Error.
  FULGURITE_BULK void end_of_member() {
    ended_ = rest_.empty();
    if (!ended_ && !is_gzip(rest_))
      refuse(std::to_string(rest_.size()) + " bytes follow the end of the compressed data", "fetch the file again");
    if (!ended_) inflateReset(&stream_);
  }

  [[noreturn]] void refuse(std::string const& what, std::string const& cure) const {
    throw Error("fulgurite.data.gzip", name_ + ": at byte " + std::to_string(size_ - rest_.size()) + " of " +
                                           std::to_string(size_) + " " + what + "; " + cure);
  }

  std::span<std::uint8_t const> rest_;
  std::size_t size_;
  std::string name_;
  z_stream stream_{};
  bool ended_ = false;
};

// Turns the characters of a text into numbers and back. Characters are Unicode's, the text is UTF-8.

/// Calls `f(character, offset)` for each character of `text`: `character` is its one to four bytes, `offset` the byte
/// at which it begins. Error [fulgurite.data.utf8] where the text is not UTF-8; it names the byte and `source`, which
/// is what the text is called.
inline void each_character(std::string_view text, std::string_view source, auto&& f) {
  for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    bytes = utf8::length(text, at);
    if (bytes == 0)
      throw Error("fulgurite.data.utf8",
                  std::string(source) + ": at byte " + std::to_string(at) + " of " + std::to_string(text.size()) +
                      " the text is not UTF-8: convert it (iconv -t UTF-8), or leave that file out");
    f(text.substr(at, bytes), at);
  }
}

/// Maps each character of a text to a number from 0 to size()-1, in the order of the characters' bytes. Any text with
/// the same characters gives the same numbers. `data_state<data::Vocabulary>(file)` restores that of a TextModule from
/// a checkpoint.
class Vocabulary {
 public:
  Vocabulary() = default;

  explicit Vocabulary(std::string_view text, std::string_view source = "the text") {
    each_character(text, source, [&](std::string_view character, std::size_t) {
      auto const at = std::ranges::lower_bound(characters_, character);
      if (at == characters_.end() || *at != character) characters_.emplace(at, character);
    });
  }

  std::size_t size() const { return characters_.size(); }

  std::string characters() const {
    std::string all;
    for (auto const& character : characters_) all += character;
    return all;
  }

  /// The numbers of a text's characters. Error [fulgurite.data.unknown_character] for one that the vocabulary does not
  /// have.
  FULGURITE_BULK std::vector<std::int64_t> encode(std::string_view text) const {
    std::vector<std::int64_t> numbers;
    numbers.reserve(text.size());
    each_character(text, "the text to encode", [&](std::string_view character, std::size_t offset) {
      auto const at = std::ranges::lower_bound(characters_, character);
      if (at == characters_.end() || *at != character)
        throw Error("fulgurite.data.unknown_character",
                    "\"" + std::string(character) + "\" at byte " + std::to_string(offset) + " is not among the " +
                        std::to_string(size()) +
                        " characters of the vocabulary: leave it out, or make the vocabulary of a text that has it");
      numbers.push_back(at - characters_.begin());
    });
    return numbers;
  }

  /// The text of these numbers. Error [fulgurite.data.unknown_number] for one outside 0 to size()-1.
  FULGURITE_BULK std::string decode(std::span<std::int64_t const> numbers) const {
    std::string text;
    for (std::int64_t const number : numbers) {
      if (number < 0 || static_cast<std::size_t>(number) >= size())
        throw Error("fulgurite.data.unknown_number",
                    std::to_string(number) + " stands for no character: the vocabulary has 0 to " +
                        std::to_string(size()) + " - 1; the numbers come from another vocabulary");
      text += characters_[static_cast<std::size_t>(number)];
    }
    return text;
  }

  /// Loading into one that has characters, these have to be the same: another character would stand for a number. Error
  /// [fulgurite.data.text_changed].
  void state(auto& archive) {
    auto all = characters();
    archive("characters", all);
    Vocabulary saved(all, "the saved vocabulary");
    if (size() != 0 && saved.size() != 0 && saved.characters_ != characters_) refuse_change(saved);
    characters_ = std::move(saved.characters_);
  }

 private:
  FULGURITE_COLD void refuse_change(Vocabulary const& saved) const {
    auto const differing = std::ranges::mismatch(characters_, saved.characters_);
    auto const text = [](auto const& of, auto const& at) { return at == of.end() ? "none" : "'" + *at + "'"; };
    throw Error(
        "fulgurite.data.text_changed",
        "the text has another vocabulary (" + std::to_string(size()) +
            " characters) than the one that the checkpoint was trained on (" + std::to_string(saved.size()) +
            "): character " + std::to_string(differing.in1 - characters_.begin()) + " is " +
            text(characters_, differing.in1) + " here and " + text(saved.characters_, differing.in2) +
            " in the checkpoint; give the same text, or encode yours by data_state<data::Vocabulary>(checkpoint)");
  }

  std::vector<std::string> characters_;  // sorted; a few hundred at most, each within the string itself
};

}  // namespace fulgurite::data
