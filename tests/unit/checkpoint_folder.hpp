#pragma once
// A folder of a test's own, looks into files, and another process.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/core/error.hpp>

// In a namespace, since other tests of the same program may use the same words.
namespace probe {

struct Folder {
  std::filesystem::path path;
  Folder() {
    auto pattern = (std::filesystem::temp_directory_path() / "fulgurite-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  Folder(Folder const&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path operator/(std::string_view name) const { return path / name; }
  /// Names of all files, relative to the folder.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (auto const& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(path).string());
    return names;
  }
};

/// The options of a ModelCheckpoint that writes there.
template <class Options>
Options in(Folder const& folder, Options options) {
  options.dirpath = folder.path;
  return options;
}

inline std::string content(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void put(std::filesystem::path const& file, std::string_view text) {
  std::ofstream(file, std::ios::binary) << text;
}

/// The text of the Error that `body` throws, "" when it throws none.
template <class F>
std::string error_of(F&& body) {
  try {
    body();
  } catch (fulgurite::Error const& error) { return error.what(); }
  return {};
}

/// A process of its own that runs `body`, says that it is done, and waits for its end. Nothing of it is cleaned up.
struct Other {
  int said[2] = {-1, -1};
  pid_t id = -1;
  template <class F>
  explicit Other(F&& body) {
    REQUIRE(::pipe(said) == 0);
    id = ::fork();
    if (id != 0) {
      char byte = 0;
      REQUIRE(::read(said[0], &byte, 1) == 1);
      return;
    }
    body([&] {
      if (::write(said[1], "x", 1) == 1)
        while (true) ::pause();
    });
    ::_exit(1);
  }
  void end() {
    if (id <= 0) return;
    ::kill(id, SIGKILL);
    ::waitpid(std::exchange(id, -1), nullptr, 0);
  }
  ~Other() {
    end();
    for (int const side : said) ::close(side);
  }
};

}  // namespace probe
using namespace probe;
