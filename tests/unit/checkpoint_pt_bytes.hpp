#pragma once
// Zip archives and pickles made byte by byte, without the library's writers.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

namespace pt_bytes {

template <class I>
std::string le(I value) {
  std::string bytes(sizeof(I), '\0');
  std::memcpy(bytes.data(), &value, sizeof(I));
  return bytes;
}
inline std::string u16(std::size_t value) { return le(static_cast<std::uint16_t>(value)); }
inline std::string u32(std::size_t value) { return le(static_cast<std::uint32_t>(value)); }

using Records = std::vector<std::pair<std::string, std::string>>;

/// An archive as torch.save writes it: sizes and checksum follow behind each entry's bytes, the directory has them,
/// too.
inline std::string zip_of(Records const& records) {
  std::string bytes, directory;
  for (auto const& [name, data] : records) {
    auto const sum = u32(::crc32(0, reinterpret_cast<Bytef const*>(data.data()), static_cast<uInt>(data.size())));
    auto const at = bytes.size();
    auto const kind = u16(0) + u16(0x0808) + u16(0) + u32(0);
    bytes += "PK\3\4" + kind + u32(0) + u32(0) + u32(0) + u16(name.size()) + u16(6) + name + "FB\2" +
             std::string(1, '\0') + "ZZ" + data + "PK\7\10" + sum + u32(data.size()) + u32(data.size());
    directory += "PK\1\2" + u16(0) + kind + sum + u32(data.size()) + u32(data.size()) + u16(name.size()) + u16(0) +
                 u16(0) + u16(0) + u16(0) + u32(0) + u32(at) + name;
  }
  auto const n = u16(records.size());
  return bytes + directory + "PK\5\6" + u32(0) + n + n + u32(directory.size()) + u32(bytes.size()) + u16(0);
}

// ---- a pickle's opcodes ----
inline std::string const proto("\x80\x02", 2), ordered_dict = "ccollections\nOrderedDict\n)R";
inline std::string text(std::string_view value) { return "X" + u32(value.size()) + std::string(value); }
inline std::string integer(long value) {
  return value == static_cast<std::int32_t>(value) ? "J" + u32(static_cast<std::size_t>(value))
                                                   : "\x8a\x08" + le(value);
}
inline std::string tuple(std::vector<long> const& numbers) {
  std::string bytes = "(";
  for (auto const one : numbers) bytes += integer(one);
  return bytes + "t";
}
struct TensorOf {
  std::vector<long> shape = {}, strides = {};
  long offset = 0, count = 0;
  std::string storage = "FloatStorage", key = "0";
};
inline std::string tensor(TensorOf const& one) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + one.storage + "\n" + text(one.key) +
         text("cpu") + integer(one.count) + "tQ" + integer(one.offset) + tuple(one.shape) + tuple(one.strides) +
         "\x89" + ordered_dict + "tR";
}
inline std::string dict(std::vector<std::pair<std::string, std::string>> const& items) {
  std::string bytes = ordered_dict + "(";
  for (auto const& [name, value] : items) bytes += text(name) + value;
  return bytes + "u";
}

}  // namespace pt_bytes
using namespace pt_bytes;
