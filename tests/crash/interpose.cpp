// Loaded before the C library (LD_PRELOAD), it counts the calls by which a program changes or reads files below
// CRASH_ROOT, and makes one of them go wrong. Calls are counted from 1, in the order in which they begin.
//   CRASH_LOG=FILE            a line for each call: number, name, path, how it ended
//   CRASH_KILL_AT=n           SIGKILL in place of call n
//   CRASH_TEAR_AT=n           the same, where it is a write after half of its bytes
//   CRASH_SHORT_AT=n          a write takes half of its bytes
//   CRASH_FAIL_AT=n:ERRNO     call n fails with that number
//   CRASH_FAIL_FROM=n:ERRNO:KINDS  so do all from n on, of these kinds: g what needs room on the disk, c what changes
//                             names, r all others

// Else the headers would give open the name of open64, and both are defined here.
#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Plan {
  std::string root = text("CRASH_ROOT");
  long kill_at = number("CRASH_KILL_AT"), tear_at = number("CRASH_TEAR_AT"), short_at = number("CRASH_SHORT_AT");
  long fail_at = 0, fail_from = 0;
  int error = EIO;
  std::string kinds = "gcr";
  int log = -1;

  Plan() {
    if (auto const at = text("CRASH_FAIL_AT"); !at.empty()) std::sscanf(at.c_str(), "%ld:%d", &fail_at, &error);
    if (auto const from = text("CRASH_FAIL_FROM"); !from.empty()) {
      char which[8] = "gcr";
      std::sscanf(from.c_str(), "%ld:%d:%7s", &fail_from, &error, which);
      kinds = which;
    }
    if (auto const file = text("CRASH_LOG"); !file.empty())
      log = static_cast<int>(
          ::syscall(SYS_openat, AT_FDCWD, file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  }
  static std::string text(char const* name) {
    char const* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  }
  static long number(char const* name) {
    auto const value = text(name);
    return value.empty() ? 0 : std::atol(value.c_str());
  }
};
Plan const& plan() {
  static Plan const the;
  return the;
}
std::atomic<long> calls{0};

bool below_root(char const* path) {
  auto const& root = plan().root;
  return !root.empty() && path != nullptr && std::strncmp(path, root.c_str(), root.size()) == 0;
}
/// Where an open file lies.
std::string path_of(int descriptor) {
  char path[PATH_MAX] = {};
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  auto const length = ::readlink(link, path, sizeof path - 1);
  return length < 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}
void log(long number, char const* name, std::string const& path, long result) {
  if (plan().log < 0) return;
  auto const line = std::to_string(number) + ' ' + name + ' ' + path + ' ' + std::to_string(result) + '\n';
  ::syscall(SYS_write, plan().log, line.data(), line.size());
}
/// The function of the C library that a function of this file stands before.
template <class F>
F real(char const* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

/// One call: `act()` does it, and returns -1 where it failed. `kind` is one of g, c, r.
template <class Act>
auto call(char kind, char const* name, std::string const& path, Act&& act) -> decltype(act()) {
  if (!below_root(path.c_str())) return act();
  long const number = ++calls;
  auto const& p = plan();
  if (number == p.kill_at || number == p.tear_at) ::kill(::getpid(), SIGKILL);
  bool const fails =
      number == p.fail_at || (p.fail_from != 0 && number >= p.fail_from && p.kinds.find(kind) != std::string::npos);
  if (fails) {
    log(number, name, path, -p.error);
    errno = p.error;
    return -1;
  }
  auto const result = act();
  int const error = errno;
  log(number, name, path, static_cast<long>(result));
  errno = error;
  return result;
}

/// A write, which may take half of its bytes.
template <class Act>
ssize_t write_call(char const* name, int descriptor, std::size_t size, Act&& act) {
  auto const path = path_of(descriptor);
  if (!below_root(path.c_str())) return act(size);
  long const next = calls + 1;
  if (next == plan().tear_at && size > 1) {
    act(size / 2);
    ::kill(::getpid(), SIGKILL);
  }
  bool const cut = next == plan().short_at && size > 1;
  return call('g', name, path, [&] { return act(cut ? size / 2 : size); });
}

int open_call(char const* name, char const* path, int flags, va_list arguments) {
  mode_t const mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
  return call((flags & O_CREAT) != 0 ? 'g' : 'r', name, path,
              [&] { return real<int (*)(char const*, int, ...)>(name)(path, flags, mode); });
}
int close_call(int descriptor) {
  auto const path = path_of(descriptor);
  int result = 0;
  bool closed = false;
  auto const close_it = [&] {
    closed = true;
    return result = real<int (*)(int)>("close")(descriptor);
  };
  result = call('r', "close", path, close_it);
  int const error = errno;
  if (!closed) real<int (*)(int)>("close")(descriptor);  // one that reports a failure has closed the file all the same
  errno = error;
  return result;
}

}  // namespace

#define NAMES(from, to) (std::string(from) + " -> " + (to))
// The prototypes are the C library's, where those of its headers say noexcept or carry attributes.
extern "C" {
int open(char const* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int const result = open_call("open", path, flags, arguments);
  va_end(arguments);
  return result;
}
int open64(char const* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int const result = open_call("open64", path, flags, arguments);
  va_end(arguments);
  return result;
}
int close(int descriptor) { return close_call(descriptor); }
ssize_t write(int descriptor, void const* from, size_t size) {
  return write_call("write", descriptor, size, [&](size_t n) {
    return real<ssize_t (*)(int, void const*, size_t)>("write")(descriptor, from, n);
  });
}
ssize_t pwrite64(int descriptor, void const* from, size_t size, off64_t at) {
  return write_call("pwrite64", descriptor, size, [&](size_t n) {
    return real<ssize_t (*)(int, void const*, size_t, off64_t)>("pwrite64")(descriptor, from, n, at);
  });
}
ssize_t pread64(int descriptor, void* into, size_t size, off64_t at) {
  return call('r', "pread64", path_of(descriptor),
              [&] { return real<ssize_t (*)(int, void*, size_t, off64_t)>("pread64")(descriptor, into, size, at); });
}
int fsync(int descriptor) {
  return call('g', "fsync", path_of(descriptor), [&] { return real<int (*)(int)>("fsync")(descriptor); });
}
int fdatasync(int descriptor) {
  return call('g', "fsync", path_of(descriptor), [&] { return real<int (*)(int)>("fdatasync")(descriptor); });
}
int ftruncate64(int descriptor, off64_t size) noexcept {
  return call('c', "ftruncate64", path_of(descriptor),
              [&] { return real<int (*)(int, off64_t)>("ftruncate64")(descriptor, size); });
}
int flock(int descriptor, int how) noexcept {
  return call('r', "flock", path_of(descriptor), [&] { return real<int (*)(int, int)>("flock")(descriptor, how); });
}
int rename(char const* from, char const* to) noexcept {
  return call('c', "rename", NAMES(from, to),
              [&] { return real<int (*)(char const*, char const*)>("rename")(from, to); });
}
int renameat2(int from_at, char const* from, int to_at, char const* to, unsigned flags) noexcept {
  return call('c', "renameat2", NAMES(from, to), [&] {
    return real<int (*)(int, char const*, int, char const*, unsigned)>("renameat2")(from_at, from, to_at, to, flags);
  });
}
int link(char const* from, char const* to) noexcept {
  return call('g', "link", NAMES(from, to), [&] { return real<int (*)(char const*, char const*)>("link")(from, to); });
}
int symlink(char const* to, char const* path) noexcept {
  return call('g', "symlink", path, [&] { return real<int (*)(char const*, char const*)>("symlink")(to, path); });
}
int unlink(char const* path) noexcept {
  return call('c', "unlink", path, [&] { return real<int (*)(char const*)>("unlink")(path); });
}
int remove(char const* path) noexcept {
  return call('c', "remove", path, [&] { return real<int (*)(char const*)>("remove")(path); });
}
int mkdir(char const* path, mode_t mode) noexcept {
  return call('g', "mkdir", path, [&] { return real<int (*)(char const*, mode_t)>("mkdir")(path, mode); });
}
}
