#pragma once
// Reads a whole file into memory. Its length is read first, so that memory is allocated only for bytes that exist.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::data {

/// The bytes of a file. Throws [fulgurite.data.file] unless it is a readable regular file of the reported length.
std::vector<std::uint8_t> read_file(std::filesystem::path const& path);

// Reads gzip piece by piece from memory, through zlib (link with -lz).

/// The largest number of bytes that gzip's deflate can produce from one compressed byte: 258 bytes from two bits. It
/// bounds the size of a compressed file's content before it is unpacked.
inline constexpr std::size_t largest_gzip_ratio = 1032;

/// True if the bytes begin like a gzip file.
bool is_gzip(std::span<std::uint8_t const> bytes);

/// A source of unpacked bytes. `read` fills its span, and fills less only at the end. The compressed bytes must outlive
/// this object. Throws [fulgurite.data.gzip] if they are damaged, cut off, followed by something else, or have a wrong
/// checksum.
class Gunzip : Pinned {  // zlib keeps a pointer to its stream
 public:
  Gunzip(std::span<std::uint8_t const> compressed, std::string name);
  ~Gunzip() { inflateEnd(&stream_); }

  std::size_t read(std::span<std::uint8_t> into);

 private:
  std::size_t inflate_some(std::span<std::uint8_t> into);
  [[noreturn]] void refuse(std::string const& what, std::string const& cure) const;

  std::span<std::uint8_t const> rest_;
  std::size_t size_;
  std::string name_;
  z_stream stream_{};
  bool ended_ = false;
};

// Turns the characters of a text into numbers and back. Characters are Unicode code points, the text is UTF-8.

/// Calls `f(character, offset)` for each character of `text`: `character` is its one to four bytes, `offset` the
/// position of the first one. Throws [fulgurite.data.utf8] if the text is not UTF-8; the Error names the byte and
/// `source`, the name of the text.
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

/// Maps each character of a text to a number from 0 to size()-1, in the order of the characters' bytes. Texts with the
/// same characters give the same numbers. `data_state<data::Vocabulary>(file)` restores a TextModule's vocabulary from
/// a checkpoint.
class Vocabulary {
 public:
  Vocabulary() = default;

  explicit Vocabulary(std::string_view text, std::string_view source = "the text");

  std::size_t size() const { return characters_.size(); }

  std::string characters() const;

  /// The numbers of a text's characters. Throws [fulgurite.data.unknown_character] for a character not in it.
  std::vector<std::int64_t> encode(std::string_view text) const;

  /// The text of these numbers. Throws [fulgurite.data.unknown_number] for a number outside 0 to size()-1.
  std::string decode(std::span<std::int64_t const> numbers) const;

  /// Loading into a vocabulary that has characters already requires the same ones, since otherwise the numbers would
  /// mean other characters. Throws [fulgurite.data.text_changed].
  void state(auto& archive);

 private:
  void refuse_change(Vocabulary const& saved) const;

  std::vector<std::string> characters_;  // sorted; a few hundred at most, each short enough for the string's own buffer
};

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/file.ipp>
#endif
