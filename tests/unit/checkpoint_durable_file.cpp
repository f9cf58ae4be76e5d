#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>

#include "checkpoint_folder.hpp"

using namespace fulgurite;

TEST_CASE("short writes and interruptions are gone over") {
  std::string taken;
  int calls = 0;
  auto const stingy = [&](void const* from, std::size_t n) -> ssize_t {
    if (++calls % 2 == 0) return errno = EINTR, -1;
    auto const count = std::min<std::size_t>(n, 3);
    taken.append(static_cast<char const*>(from), count);
    return static_cast<ssize_t>(count);
  };
  std::string_view const text = "ten letters";
  CHECK(file::write_all(std::as_bytes(std::span(text)), stingy) == 0);
  CHECK(taken == text);
  CHECK(calls == 7);
  CHECK(file::write_all(std::as_bytes(std::span(text)), [](auto, auto) { return errno = EIO, ssize_t{-1}; }) == EIO);
  CHECK(file::write_all(std::as_bytes(std::span(text)), [](auto, auto) { return ssize_t{0}; }) == ENOSPC);
}

TEST_CASE("a file appears whole, in folders that are made, and leaves no temporary") {
  Folder const folder;
  auto const target = folder / "a/b/c.txt";
  {
    DurableFile out(target);
    out.write("one ");
    CHECK_FALSE(std::filesystem::exists(target));
    out.write("two");
    out.write_at(0, std::as_bytes(std::span("O", 1)));
    out.commit();
  }
  CHECK(content(target) == "One two");
  CHECK(folder.files() == std::set<std::string>{"a/b/c.txt"});
  write_durably(target, "three");
  CHECK(content(target) == "three");
  CHECK(folder.files().size() == 1);
}

TEST_CASE("without commit the old file stays and the temporary goes") {
  Folder const folder;
  put(folder / "x", "old");
  {
    DurableFile out(folder / "x");
    out.write("new");
    CHECK(folder.files().size() == 2);
  }
  CHECK(content(folder / "x") == "old");
  CHECK(folder.files().size() == 1);
}

TEST_CASE("a name as long as a name can be") {
  Folder const folder;
  std::string const longest(255, 'n');
  write_durably(folder / longest, "x");
  CHECK(content(folder / longest) == "x");
}

// The limit holds for the whole process, so a child takes it.
TEST_CASE("a full disk is an error with path and errno; the old file stays") {
  Folder const folder;
  auto const target = folder / "x.bin";
  put(target, "old");
  auto const report = folder / "report";
  auto const child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto const said = error_of([&] { write_durably(target, std::string(10000, 'n')); });
    auto const left = folder.files();
    put(report, said + "|" + std::to_string(left.size()));
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(content(target) == "old");
  CHECK(content(report) == "[fulgurite.file.write] cannot write " + target.string() + ": File too large (errno " + std::to_string(EFBIG) +
                               "); the old file stays as it was|1");
}

TEST_CASE("what cannot be written says why") {
  Folder const folder;
  put(folder / "file", "x");
  CHECK(error_of([&] { write_durably(folder / "file/below", "x"); }).find("Not a directory (errno 20)") != std::string::npos);
  std::filesystem::create_directory(folder / "folder");
  auto const said = error_of([&] { write_durably(folder / "folder", "x"); });
  CHECK(said.starts_with("[fulgurite.file.write] cannot write " + (folder / "folder").string() + ": Is a directory"));
  CHECK(folder.files() == std::set<std::string>{"file"});
  if (::geteuid() != 0) {  // root may write anywhere
    std::filesystem::permissions(folder.path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    CHECK(error_of([&] { write_durably(folder / "new", "x"); }).find("Permission denied (errno 13); nothing was left behind") != std::string::npos);
    std::filesystem::permissions(folder.path, std::filesystem::perms::owner_all);
  }
}

TEST_CASE("an unwritable folder, also for root: one of the kernel's") {
  auto const said = error_of([] { write_durably("/proc/self/fulgurite", "x"); });
  CHECK(said.starts_with("[fulgurite.file.write] cannot write /proc/self/fulgurite: "));
}
