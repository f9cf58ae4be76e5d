#pragma once
// A file that lies in memory, for tests that make thousands of them.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include <fulgurite/checkpoint/durable_file.hpp>

namespace fuzz {

/// A file in memory that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (!descriptor_ || fulgurite::file::write_all(descriptor_.number(), bytes) != 0) std::abort();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_.number()); }

 private:
  fulgurite::FileDescriptor descriptor_;
};

}  // namespace fuzz
