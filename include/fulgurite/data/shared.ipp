#pragma once
// The bodies of data/shared.hpp.

#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/shared.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY void SharedParts::keep(std::shared_ptr<void const> owner) { owners_.push_back(std::move(owner)); }

FULGURITE_BULK_BODY void SharedParts::copy(std::span<std::byte const> part) {
  borrow(kept_.emplace_back(part.begin(), part.end()));
}

FULGURITE_BULK_BODY std::shared_ptr<SharedMemory const> SharedMemory::of(SharedParts const& parts) {
  int const file = ::memfd_create("fulgurite-data", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) refuse("making it", errno);
  std::shared_ptr<SharedMemory> made(new SharedMemory(file));
  for (auto const& part : parts.all()) {
    std::uint64_t const size = part.size();
    made->write(std::as_bytes(std::span(&size, 1)));
    made->write(part);
  }
  // From here on the memory cannot be changed through any mapping.
  if (::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    refuse("sealing it", errno);
  // Before version 6.7 Linux refuses to share a mapping of a sealed file that is open for writing.
  return at("/proc/self/fd/" + std::to_string(file));
}

FULGURITE_BULK_BODY std::shared_ptr<SharedMemory const> SharedMemory::at(std::string const& address) {
  int const file = ::open(address.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse("opening " + address, errno);
  std::shared_ptr<SharedMemory> made(new SharedMemory(file));
  struct stat about{};
  if (::fstat(file, &about) != 0) refuse("looking at " + address, errno);
  made->size_ = static_cast<std::size_t>(about.st_size);
  if (made->size_ == 0) return made;
  void* const data = ::mmap(nullptr, made->size_, PROT_READ, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) refuse("mapping it", errno);
  made->data_ = data;
  return made;
}

FULGURITE_BULK_BODY SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
  leave();
}

FULGURITE_BULK_BODY std::span<std::byte const> SharedMemory::bytes() const {
  return {static_cast<std::byte const*>(data_), size_};
}

FULGURITE_BULK_BODY std::string SharedMemory::address() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_);
}

FULGURITE_BULK_BODY void SharedMemory::leave() const {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

FULGURITE_BULK_BODY void SharedMemory::refuse(std::string const& what, int problem) {
  throw Error("fulgurite.data.shared_memory",
              "data cannot lie in memory that ranks share (" + what + ": " + std::generic_category().message(problem) +
                  "): the processes have to run as one user, in one container, with memory enough for the data "
                  "once; else give each its own copy, without data::shared");
}

FULGURITE_BULK_BODY void SharedMemory::write(std::span<std::byte const> from) {
  for (std::size_t done = 0; done != from.size();) {
    auto const count = ::pwrite(file_, from.data() + done, from.size() - done, static_cast<off_t>(size_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse("filling it", errno);
    done += static_cast<std::size_t>(count);
  }
  size_ = (size_ + from.size() + unit - 1) / unit * unit;
  if (::ftruncate(file_, static_cast<off_t>(size_)) != 0) refuse("filling it", errno);
}

FULGURITE_BULK_BODY std::span<std::byte const> SharedReader::next() {
  std::uint64_t size = 0;
  std::memcpy(&size, memory_->bytes().data() + at_, sizeof size);
  auto const part = memory_->bytes().subspan(at_ + SharedMemory::unit, static_cast<std::size_t>(size));
  at_ += SharedMemory::unit + (part.size() + SharedMemory::unit - 1) / SharedMemory::unit * SharedMemory::unit;
  return part;
}

FULGURITE_BODY std::string machine_of_this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = {};
  auto const length = ::readlink("/proc/self/ns/pid", space, sizeof space - 1);
  return boot.append(" ").append(space, length > 0 ? static_cast<std::size_t>(length) : 0);
}

FULGURITE_BODY std::string address_for(std::size_t rank, std::vector<std::string> const& said) {
  auto const machine = [](std::string_view line) { return line.substr(0, line.find('\n')); };
  for (auto r = rank + 1; r-- != 0;)
    if (machine(said[r]) == machine(said[rank]) && machine(said[r]).size() + 1 < said[r].size())
      return said[r].substr(said[r].find('\n') + 1);
  throw Error("fulgurite.data.shared_machine",
              "rank " + std::to_string(rank) +
                  " sees no memory of a rank before it: its launcher says that another process of its machine made the "
                  "data, and that one is in another container or on another machine; start the ranks of a machine in "
                  "one container, or leave data::shared out");
}

}  // namespace fulgurite::data
