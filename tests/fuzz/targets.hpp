#pragma once
// What is fuzzed: readers of files that strangers may have made. A target takes any bytes; it may throw an Error of
// ours and nothing else. No header of LibTorch is included, so that an input costs some microseconds.
//   libFuzzer runs one of them for as long as it is told (tests/fuzz/fuzz.cpp), tests/unit/checkpoint_fuzz.cpp all of
//   them for a moment.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/archive_reader.hpp>
#include <fulgurite/checkpoint/pickle_reader.hpp>
#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/safetensors_reader.hpp>
#include <fulgurite/core/error.hpp>

#include "../unit/checkpoint_pt_bytes.hpp"
#include "memory_file.hpp"

namespace fuzz {

/// Opens a file of weights and reads each of its tensors. Returns whether it was a good one.
template <class File>
bool weights(std::string_view bytes) {
  MemoryFile const memory(bytes);
  try {
    File const file(memory.path());
    for (auto const& entry : file.entries()) {
      std::vector<std::byte> into(
          static_cast<std::size_t>(*fulgurite::safetensors::bytes_of(entry.dtype, entry.shape)));
      // A tensor is never larger than the file that holds it: whoever makes room for it is safe.
      if (into.size() > bytes.size() || file.find(entry.name) == nullptr) std::abort();
      file.read(entry, into);
    }
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

inline bool safetensors(std::string_view bytes) { return weights<fulgurite::SafetensorsFile>(bytes); }
inline bool pt(std::string_view bytes) { return weights<fulgurite::PtFile>(bytes); }

/// A file whose checksums are right, so that what the pickle claims of its tensors is met.
inline bool pt_pickle(std::string_view bytes) {
  return pt(pt_bytes::zip_of({{"m/data.pkl", std::string(bytes)}, {"m/data/0", std::string(24, 'x')}}));
}

inline bool pickle(std::string_view bytes) {
  try {
    fulgurite::pickle::Reader(bytes, "fuzz").read();
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

inline bool state_text(std::string_view bytes) {
  try {
    fulgurite::from_text(bytes);
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

}  // namespace fuzz
