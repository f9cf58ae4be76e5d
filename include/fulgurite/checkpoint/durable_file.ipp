#pragma once
// The bodies of checkpoint/durable_file.hpp.

#include <atomic>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstring>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::file {

FULGURITE_BODY void fail(std::string_view identifier, std::string_view deed, std::filesystem::path const& path,
                         int error, std::string_view cure) {
  throw Error(identifier, "cannot " + std::string(deed) + " " + path.string() + ": " + std::strerror(error) +
                              " (errno " + std::to_string(error) + ")" + std::string(cure));
}

FULGURITE_BODY int write_all(int descriptor, std::string_view text) {
  return write_all(std::as_bytes(std::span(text)),
                   [&](void const* from, std::size_t n) { return ::write(descriptor, from, n); });
}

FULGURITE_BODY ssize_t read_at(int descriptor, std::span<std::byte> into, std::uint64_t offset) {
  std::size_t done = 0;
  while (done != into.size()) {
    auto const count =
        ::pread(descriptor, into.data() + done, std::min<std::size_t>(into.size() - done, std::size_t{1} << 30),
                static_cast<off_t>(offset + done));
    if (count == 0) break;
    if (count > 0) done += static_cast<std::size_t>(count);
    else if (errno != EINTR) return -1;
  }
  return static_cast<ssize_t>(done);
}

/// Makes the entries of a folder durable. Returns 0 or errno. EINVAL is not a failure: the folder's file system cannot
/// synchronise folders.
FULGURITE_BODY int sync_folder(std::filesystem::path const& folder) {
  FileDescriptor const opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno;
  return ::fsync(opened.number()) == 0 || errno == EINVAL ? 0 : errno;
}

/// The folder that contains a file; "." for a bare name.
FULGURITE_BODY std::filesystem::path folder_of(std::filesystem::path const& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

FULGURITE_BODY Lock try_lock(int descriptor) {
  int result = 0;
  do result = ::flock(descriptor, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result == 0 ? Lock::held : errno == EWOULDBLOCK ? Lock::taken : Lock::unknown;
}

FULGURITE_BODY bool leads_to(std::filesystem::path const& path, int descriptor) {
  struct stat there{};
  struct stat here{};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(descriptor, &here) == 0 && there.st_dev == here.st_dev &&
         there.st_ino == here.st_ino;
}

FULGURITE_BODY void make_folders(std::filesystem::path const& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return;
  auto const around = folder_of(folder);
  if (around != folder) make_folders(around);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    int const why = errno;
    if (why != EEXIST) file::fail("fulgurite.file.write", "make the folder", folder, why);
    if (!std::filesystem::is_directory(folder, error))
      file::fail("fulgurite.file.write", "make the folder", folder, ENOTDIR);
  }
  if (int const failed = sync_folder(around); failed != 0 && failed != EACCES)
    file::fail("fulgurite.file.write", "make durable", folder, failed);
}

FULGURITE_BODY std::string host_name() {
  char host[HOST_NAME_MAX + 1] = {};
  return ::gethostname(host, sizeof host - 1) == 0 ? host : "";
}

FULGURITE_BODY std::string temporary_prefix() {
  auto name = host_name();
  for (char& c : name)
    if (c == '/') c = '_';
  return ".fulgurite-" + name + "-";
}

FULGURITE_BODY std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return temporary_prefix() + std::to_string(::getpid()) + "-" +
         std::to_string(std::chrono::system_clock::now().time_since_epoch().count()) + "-" + std::to_string(counter++) +
         ".tmp";
}

/// Makes an empty temporary in `folder`, and locks it as long as the descriptor is open. Returns -1 with errno set on
/// failure.
FULGURITE_BODY std::pair<FileDescriptor, std::filesystem::path> open_temporary(std::filesystem::path const& folder) {
  while (true) {
    auto path = folder / temporary_name();
    FileDescriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!made && errno == EEXIST) continue;
    // Between these two calls another process may have taken the file for an abandoned one and removed it.
    if (!made || (try_lock(made.number()) != Lock::taken && leads_to(path, made.number())))
      return {std::move(made), std::move(path)};
  }
}

/// True if the process in a temporary's name has ended. For links, which cannot be locked.
FULGURITE_BODY bool made_by_the_dead(std::string_view name, std::string_view prefix) {
  name.remove_prefix(prefix.size());
  pid_t process = 0;
  auto const read = std::from_chars(name.data(), name.data() + name.size(), process);
  return read.ec == std::errc() && read.ptr != name.data() + name.size() && *read.ptr == '-' && process > 0 &&
         ::kill(process, 0) != 0 && errno == ESRCH;
}

FULGURITE_BODY void sweep_temporaries(std::filesystem::path const& folder) {
  auto const prefix = temporary_prefix();
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    auto const name = entry->path().filename().native();
    if (!name.starts_with(prefix) || !name.ends_with(".tmp")) continue;
    FileDescriptor const left(::open(entry->path().c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status{};
    if (!left && errno == ELOOP && made_by_the_dead(name, prefix)) ::unlink(entry->path().c_str());
    if (!left || ::fstat(left.number(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (try_lock(left.number()) == Lock::held) ::unlink(entry->path().c_str());
  }
}

/// Calls sweep_temporaries the first time that this process writes into `folder`.
FULGURITE_BODY void sweep_temporaries_once(std::filesystem::path const& folder) {
  static std::mutex mutex;
  static std::set<std::filesystem::path> swept;
  std::error_code error;
  auto const absolute = std::filesystem::absolute(folder, error);
  {
    std::lock_guard const lock(mutex);
    if (error || !swept.insert(absolute).second) return;
  }
  sweep_temporaries(folder);
}

namespace new_name {

FULGURITE_BODY bool unknown(int error) {
  return error == ENOSYS || error == EINVAL || error == ENOTSUP || error == EOPNOTSUPP || error == EPERM;
}

FULGURITE_BODY std::optional<int> by_rename([[maybe_unused]] std::filesystem::path const& from,
                                            [[maybe_unused]] std::filesystem::path const& to) {
#ifdef RENAME_NOREPLACE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (!unknown(errno)) return errno;
#endif
  return std::nullopt;
}

FULGURITE_BODY std::optional<int> by_link(std::filesystem::path const& from, std::filesystem::path const& to) {
  if (::link(from.c_str(), to.c_str()) == 0) {
    ::unlink(from.c_str());
    return 0;
  }
  return unknown(errno) ? std::nullopt : std::optional(errno);
}

FULGURITE_BODY int by_look(std::filesystem::path const& from, std::filesystem::path const& to) {
  struct stat there{};
  if (::lstat(to.c_str(), &there) == 0) return EEXIST;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace new_name

FULGURITE_BODY int take_name(std::filesystem::path const& from, std::filesystem::path const& to) {
  if (auto const renamed = new_name::by_rename(from, to)) return *renamed;
  if (auto const linked = new_name::by_link(from, to)) return *linked;
  return new_name::by_look(from, to);
}

FULGURITE_BODY void link_to(std::filesystem::path const& file, std::filesystem::path const& link) {
  auto const refuse = [&](std::string const& why) {
    throw Error("fulgurite.file.write", "cannot make " + link.string() + " a link to " + file.string() + ": " + why +
                                            "; where there are no links, save a copy instead");
  };
  auto const around = std::filesystem::absolute(link).parent_path();
  if (std::filesystem::absolute(file).lexically_normal() == std::filesystem::absolute(link).lexically_normal())
    refuse("a file that leads to itself holds nothing");
  auto const target = std::filesystem::absolute(file).lexically_relative(around);
  std::error_code error;
  if (NewNamesOnly::now()) {
    std::filesystem::create_symlink(target, link, error);
    if (error == std::errc::file_exists) throw FileExists(link);
  } else {
    auto const fresh = around / temporary_name();
    std::filesystem::create_symlink(target, fresh, error);
    if (!error) {
      std::filesystem::rename(fresh, link, error);
      std::error_code ignored;
      if (error) std::filesystem::remove(fresh, ignored);
    }
  }
  if (error) refuse(error.message());
}

}  // namespace fulgurite::file

namespace fulgurite {

FULGURITE_BODY FileDescriptor::FileDescriptor(int number) : number_(number) {
  if (number < 0 || number > STDERR_FILENO) return;
  number_ = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int const error = errno;
  ::close(number);
  errno = error;
}

FULGURITE_BODY FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)) {}

FULGURITE_BODY FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

FULGURITE_BODY FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

FULGURITE_BODY int FileDescriptor::close() {
  return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR ? 0 : errno;
}

FULGURITE_BODY InputFile::InputFile(std::string_view identifier, std::filesystem::path path)
    : identifier_(identifier), path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status{};
  if (!descriptor_ || ::fstat(descriptor_.number(), &status) != 0) file::fail(identifier_, "open", path_, errno);
  is_regular_ = S_ISREG(status.st_mode);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

FULGURITE_BODY void InputFile::fail(std::uint64_t byte, std::string const& why) const {
  throw Error(identifier_, path_.string() + ", byte " + std::to_string(byte) + ": " + why);
}

FULGURITE_BODY void InputFile::load(std::span<std::byte> into, std::uint64_t offset) const {
  auto const count = file::read_at(descriptor_.number(), into, offset);
  if (count < 0) file::fail(identifier_, "read", path_, errno);
  if (static_cast<std::size_t>(count) != into.size())
    fail(offset + static_cast<std::uint64_t>(count), "the file became shorter while it was read");
}

FULGURITE_BODY std::string InputFile::text(std::uint64_t offset, std::size_t size) const {
  std::string bytes(size, '\0');
  load(std::as_writable_bytes(std::span(bytes)), offset);
  return bytes;
}

FULGURITE_BODY NewNamesOnly::NewNamesOnly(bool on) : before_(std::exchange(now(), on)) {}

FULGURITE_BODY DurableFile::DurableFile(std::filesystem::path target) : target_(std::move(target)) {
  auto const folder = file::folder_of(target_);
  file::make_folders(folder);
  file::sweep_temporaries_once(folder);
  auto [descriptor, path] = file::open_temporary(folder);
  if (!descriptor) fail(errno);
  descriptor_ = std::move(descriptor);
  temporary_ = std::move(path);
}

FULGURITE_BODY void DurableFile::write(std::span<std::byte const> bytes) {
  check(
      file::write_all(bytes, [&](void const* from, std::size_t n) { return ::write(descriptor_.number(), from, n); }));
}

FULGURITE_BODY void DurableFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

FULGURITE_BODY void DurableFile::write_at(std::uint64_t offset, std::span<std::byte const> bytes) {
  check(file::write_all(bytes, [&](void const* from, std::size_t n) {
    auto const count = ::pwrite(descriptor_.number(), from, n, static_cast<off_t>(offset));
    if (count > 0) offset += static_cast<std::uint64_t>(count);
    return count;
  }));
}

FULGURITE_BODY void DurableFile::commit(bool on_disk) {
  if (on_disk) check(::fsync(descriptor_.number()) == 0 ? 0 : errno);
  // Some systems report a full disk only when the file is closed, but closing would release the lock on a temporary
  // that is not renamed yet. A second descriptor keeps the lock.
  FileDescriptor const lock(::fcntl(descriptor_.number(), F_DUPFD_CLOEXEC, 0));
  check(lock ? descriptor_.close() : errno);
  if (NewNamesOnly::now()) {
    int const error = file::take_name(temporary_, target_);
    if (error == EEXIST) throw FileExists(target_);
    check(error);
  } else {
    check(::rename(temporary_.c_str(), target_.c_str()) == 0 ? 0 : errno);
  }
  temporary_.clear();
  if (!on_disk) return;
  if (int const error = file::sync_folder(file::folder_of(target_)); error != 0)
    file::fail("fulgurite.file.write", "make durable", target_, error,
               ": the new content is there, but may not survive a power cut");
}

FULGURITE_BODY void DurableFile::check(int error) {
  if (error == 0) return;
  discard();
  fail(error);
}

FULGURITE_BODY void DurableFile::fail(int error) const {
  std::error_code ignored;
  file::fail("fulgurite.file.write", "write", target_, error,
             std::filesystem::exists(target_, ignored) ? "; the old file stays as it was"
                                                       : "; nothing was left behind");
}

FULGURITE_BODY void DurableFile::discard() noexcept {
  descriptor_ = FileDescriptor();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

FULGURITE_BODY void write_durably(std::filesystem::path const& target, std::string_view content) {
  DurableFile file(target);
  file.write(content);
  file.commit();
}

FULGURITE_BODY void write_whole(std::filesystem::path const& target, std::string_view content) {
  DurableFile file(target);
  file.write(content);
  file.commit(false);
}

}  // namespace fulgurite
