#pragma once
// Reads a whole file into memory. Its length is asked first, so that memory is allocated only for bytes that exist.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::data {

/// The bytes of a file. Error [fulgurite.data.file] for what is not a readable regular file, or ends before the length
/// that was told.
std::vector<std::uint8_t> read_file(std::filesystem::path const& path);

// Reads gzip piece by piece from memory, through zlib (link with -lz).

/// The largest number of bytes that gzip's deflate can make of one byte: 258 bytes from two bits. It bounds what a
/// compressed file can contain before it is unpacked.
inline constexpr std::size_t largest_gzip_ratio = 1032;

/// Whether the bytes begin as a gzip file does.
bool is_gzip(std::span<std::uint8_t const> bytes);

/// A source of unpacked bytes. `read` fills its span, and fills less only at the end. The compressed bytes must outlive
/// this object. Error [fulgurite.data.gzip] where they are damaged, cut off or followed by something else, or fail
/// their checksum.
class Gunzip {
 public:
  Gunzip(std::span<std::uint8_t const> compressed, std::string name);
  ~Gunzip() { inflateEnd(&stream_); }
  Gunzip(Gunzip const&) = delete;  // zlib keeps a pointer to its stream
  Gunzip& operator=(Gunzip const&) = delete;

  std::size_t read(std::span<std::uint8_t> into);

 private:
  std::size_t inflate_some(std::span<std::uint8_t> into);

  /// Several gzip files may follow one another; anything else behind one is an Error.
  void end_of_member();

  [[noreturn]] void refuse(std::string const& what, std::string const& cure) const;

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

  explicit Vocabulary(std::string_view text, std::string_view source = "the text");

  std::size_t size() const { return characters_.size(); }

  std::string characters() const;

  /// The numbers of a text's characters. Error [fulgurite.data.unknown_character] for one that the vocabulary does not
  /// have.
  std::vector<std::int64_t> encode(std::string_view text) const;

  /// The text of these numbers. Error [fulgurite.data.unknown_number] for one outside 0 to size()-1.
  std::string decode(std::span<std::int64_t const> numbers) const;

  /// Loading into one that has characters, these have to be the same: another character would stand for a number. Error
  /// [fulgurite.data.text_changed].
  void state(auto& archive);

 private:
  void refuse_change(Vocabulary const& saved) const;

  std::vector<std::string> characters_;  // sorted; a few hundred at most, each within the string itself
};

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/file.ipp>
#endif
