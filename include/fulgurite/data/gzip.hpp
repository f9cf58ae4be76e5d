#pragma once
// Reads gzip piece by piece from memory, through zlib (link with -lz).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>

#include <zlib.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::data {

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

}  // namespace fulgurite::data
