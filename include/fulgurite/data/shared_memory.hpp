#pragma once
// Bytes that several processes of one machine see, once in memory. No name leads to them: they are gone when the last
// process that sees them ends, however it ends.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>

namespace fulgurite::data {

/// What is to lie in shared memory, part by part. Borrowed parts have to live until they are written.
class SharedParts {
 public:
  void borrow(std::span<std::byte const> part) { parts_.push_back(part); }
  template <class Number>
  void number(Number value) {
    auto const* const bytes = reinterpret_cast<std::byte const*>(&value);
    borrow(kept_.emplace_back(bytes, bytes + sizeof value));
  }
  /// Until all is written.
  void keep(std::shared_ptr<void const> owner) { owners_.push_back(std::move(owner)); }
  std::vector<std::span<std::byte const>> const& all() const { return parts_; }

 private:
  std::vector<std::span<std::byte const>> parts_ = {};
  std::list<std::vector<std::byte>> kept_ = {};
  std::vector<std::shared_ptr<void const>> owners_ = {};
};

/// A mapping that can only be read, in every process. It lives as long as this object.
class SharedMemory {
 public:
  /// Each part begins at a multiple of so many bytes, behind one unit that says how long it is.
  static constexpr std::size_t unit = 64;

  /// Makes it from parts. Error [fulgurite.data.shared_memory] where there is no room.
  static std::shared_ptr<SharedMemory const> of(SharedParts const& parts) {
    int const file = ::memfd_create("fulgurite-data", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) refuse("making it", errno);
    std::shared_ptr<SharedMemory> made(new SharedMemory(file));
    for (auto const& part : parts.all()) {
      std::uint64_t const size = part.size();
      made->write(std::as_bytes(std::span(&size, 1)));
      made->write(part);
    }
    // From here on nobody can change it, through whatever mapping.
    if (::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
      refuse("sealing it", errno);
    made->map();
    return made;
  }

  /// That of another process of this machine, which says where it is by `address()`.
  static std::shared_ptr<SharedMemory const> at(std::string const& address) {
    int const file = ::open(address.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) refuse("opening " + address, errno);
    std::shared_ptr<SharedMemory> made(new SharedMemory(file));
    struct stat about{};
    if (::fstat(file, &about) != 0) refuse("looking at " + address, errno);
    made->size_ = static_cast<std::size_t>(about.st_size);
    made->map();
    return made;
  }

  SharedMemory(SharedMemory const&) = delete;
  SharedMemory& operator=(SharedMemory const&) = delete;
  ~SharedMemory() {
    if (data_ != nullptr) ::munmap(data_, size_);
    leave();
  }

  std::span<std::byte const> bytes() const { return {static_cast<std::byte const*>(data_), size_}; }
  /// For `at`, in another process, as long as `leave` was not called.
  std::string address() const { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_); }
  /// Closes the file; what is mapped stays.
  void leave() const {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }

 private:
  explicit SharedMemory(int file) : file_(file) {}

  [[noreturn]] static void refuse(std::string const& what, int problem) {
    throw Error("fulgurite.data.shared_memory",
                "data cannot lie in memory that ranks share (" + what + ": " +
                    std::generic_category().message(problem) +
                    "): the processes have to run as one user, in one container, with memory enough for the data "
                    "once; else give each its own copy, without data::shared");
  }
  void write(std::span<std::byte const> from) {
    for (std::size_t done = 0; done != from.size();) {
      auto const count = ::pwrite(file_, from.data() + done, from.size() - done, static_cast<off_t>(size_ + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) refuse("filling it", errno);
      done += static_cast<std::size_t>(count);
    }
    size_ = (size_ + from.size() + unit - 1) / unit * unit;
    if (::ftruncate(file_, static_cast<off_t>(size_)) != 0) refuse("filling it", errno);
  }
  void map() {
    if (size_ == 0) return;
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) refuse("mapping it", errno);
    data_ = at;
  }

  mutable int file_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Reads parts in the order in which they were given.
class SharedReader {
 public:
  explicit SharedReader(std::shared_ptr<SharedMemory const> memory) : memory_(std::move(memory)) {}

  std::span<std::byte const> next() {
    std::uint64_t size = 0;
    std::memcpy(&size, memory_->bytes().data() + at_, sizeof size);
    auto const part = memory_->bytes().subspan(at_ + SharedMemory::unit, static_cast<std::size_t>(size));
    at_ += SharedMemory::unit + (part.size() + SharedMemory::unit - 1) / SharedMemory::unit * SharedMemory::unit;
    return part;
  }
  template <class Number>
  Number number() {
    Number value{};
    std::memcpy(&value, next().data(), sizeof value);
    return value;
  }
  std::shared_ptr<SharedMemory const> const& memory() const { return memory_; }

 private:
  std::shared_ptr<SharedMemory const> memory_;
  std::size_t at_ = 0;
};

}  // namespace fulgurite::data
