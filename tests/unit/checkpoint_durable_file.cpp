#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>
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

TEST_CASE("where new names alone are given, what stands there stays; elsewhere it is replaced") {
  Folder const folder;
  put(folder / "x", "another's");
  {
    NewNamesOnly const only;
    CHECK(error_of([&] { write_durably(folder / "x", "new"); }) ==
          "[fulgurite.file.write] cannot write " + (folder / "x").string() +
              ": another process has made a file of that name; it stays as it is");
    CHECK_THROWS_AS(write_durably(folder / "x", "new"), FileExists);
    NewNamesOnly const not_here(false);
    write_durably(folder / "y", "old");
    write_durably(folder / "y", "new");
  }
  CHECK(content(folder / "x") == "another's");
  CHECK(content(folder / "y") == "new");
  write_durably(folder / "x", "new");
  CHECK(content(folder / "x") == "new");
  CHECK(folder.files() == std::set<std::string>{"x", "y"});
}

TEST_CASE("each way to take a name takes a free one whole, and leaves one that is taken alone") {
  using Way = std::optional<int> (*)(std::filesystem::path const&, std::filesystem::path const&);
  Way const by_look = [](auto const& from, auto const& to) { return std::optional(file::new_name::by_look(from, to)); };
  Way const by_any = [](auto const& from, auto const& to) { return std::optional(file::take_name(from, to)); };
  for (Way const way : {Way(&file::new_name::by_rename), Way(&file::new_name::by_link), by_look, by_any}) {
    Folder const folder;
    put(folder / "from", "new");
    put(folder / "taken", "old");
    std::filesystem::create_symlink("nowhere", folder / "dangling");
    auto const taken = way(folder / "from", folder / "taken");
    if (!taken) continue;  // this file system does not know that way
    CHECK(taken == EEXIST);
    CHECK(way(folder / "from", folder / "dangling") == EEXIST);
    CHECK(way(folder / "from", folder / "missing/free") == ENOENT);
    CHECK(content(folder / "taken") == "old");
    CHECK(way(folder / "from", folder / "free") == 0);
    CHECK(content(folder / "free") == "new");
    CHECK(folder.files() == std::set<std::string>{"free", "taken"});
  }
}

TEST_CASE("processes that want one name at once: one gets it, the others are told") {
  Folder const folder;
  std::vector<pid_t> children;
  for (int i = 0; i != 8; ++i) {
    auto const child = ::fork();
    if (child == 0) {
      int got = 0;
      for (int round = 0; round != 20; ++round) {
        NewNamesOnly const only;
        if (error_of([&] { write_durably(folder / std::to_string(round), std::to_string(i)); }).empty()) ++got;
      }
      ::_exit(got);
    }
    children.push_back(child);
  }
  int all = 0;
  for (auto const child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    all += WEXITSTATUS(status);
  }
  CHECK(all == 20);
  CHECK(folder.files().size() == 20);
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
  CHECK(content(report) == "[fulgurite.file.write] cannot write " + target.string() + ": File too large (errno " +
                               std::to_string(EFBIG) + "); the old file stays as it was|1");
}

TEST_CASE("what cannot be written says why") {
  Folder const folder;
  put(folder / "file", "x");
  CHECK(error_of([&] { write_durably(folder / "file/below", "x"); }).find("Not a directory (errno 20)") !=
        std::string::npos);
  std::filesystem::create_directory(folder / "folder");
  auto const said = error_of([&] { write_durably(folder / "folder", "x"); });
  CHECK(said.starts_with("[fulgurite.file.write] cannot write " + (folder / "folder").string() + ": Is a directory"));
  CHECK(folder.files() == std::set<std::string>{"file"});
  if (::geteuid() != 0) {  // root may write anywhere
    std::filesystem::permissions(folder.path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    CHECK(error_of([&] {
            write_durably(folder / "new", "x");
          }).find("Permission denied (errno 13); nothing was left behind") != std::string::npos);
    std::filesystem::permissions(folder.path, std::filesystem::perms::owner_all);
  }
}

TEST_CASE("an unwritable folder, also for root: one of the kernel's") {
  auto const said = error_of([] { write_durably("/proc/self/fulgurite", "x"); });
  CHECK(said.starts_with("[fulgurite.file.write] cannot write /proc/self/fulgurite: "));
}

TEST_CASE(
    "what a killed process has left is removed by the next one that writes there; what a living one writes stays") {
  Folder const folder;
  auto const writing = [&](auto&& done) {
    DurableFile out(folder / "x");
    out.write("half");
    done();
  };
  Other living(writing);
  {
    Other killed(writing);
    CHECK(folder.files().size() == 2);
  }
  CHECK(folder.files().size() == 2);
  auto const foreign = ".fulgurite-another.host-" + std::to_string(::getpid()) + "-1-0.tmp";
  put(folder / foreign, "of a machine that shares the folder");
  auto const similar = file::temporary_prefix() + "notes.txt";
  put(folder / similar, "no temporary");
  std::filesystem::create_directory(folder / (file::temporary_prefix() + "folder.tmp"));
  REQUIRE(::mkfifo((folder / (file::temporary_prefix() + "pipe.tmp")).c_str(), 0600) == 0);

  write_durably(folder / "y", "new");
  auto left = folder.files();
  CHECK(left.size() == 4);
  CHECK(left.contains("y"));
  CHECK(left.contains(foreign));
  CHECK(left.contains(similar));
  write_durably(folder / "z", "once is enough");
  living.end();
  file::sweep_temporaries(folder.path);
  left = folder.files();
  CHECK(left == std::set<std::string>{"y", "z", foreign, similar});
}

TEST_CASE("of links that were to replace others, those of processes that are gone are removed") {
  Folder const folder;
  put(folder / "file", "whole");
  std::string gone;
  {
    Other const killed([](auto&& done) { done(); });
    gone = file::temporary_prefix() + std::to_string(killed.id) + "-1-0.tmp";
    std::filesystem::create_symlink("file", folder / gone);
    file::sweep_temporaries(folder.path);
    CHECK(std::filesystem::is_symlink(folder / gone));
  }
  auto const ours = file::temporary_name(), odd = file::temporary_prefix() + "x-1-0.tmp";
  std::filesystem::create_symlink("file", folder / ours);
  std::filesystem::create_symlink("file", folder / odd);
  file::sweep_temporaries(folder.path);
  CHECK_FALSE(std::filesystem::is_symlink(folder / gone));
  CHECK(std::filesystem::is_symlink(folder / ours));
  CHECK(std::filesystem::is_symlink(folder / odd));
  CHECK(content(folder / "file") == "whole");
}

TEST_CASE("processes that write and sweep at once take nothing from each other") {
  Folder const folder;
  std::vector<pid_t> children;
  for (int i = 0; i != 8; ++i) {
    auto const child = ::fork();
    if (child == 0) {
      auto const said = error_of([&] {
        for (int round = 0; round != 50; ++round) {
          file::sweep_temporaries(folder.path);
          write_durably(folder / ("f" + std::to_string(round % 5)), std::to_string(i));
        }
      });
      ::_exit(said.empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (auto const child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(folder.files() == std::set<std::string>{"f0", "f1", "f2", "f3", "f4"});
}

TEST_CASE("a file is none of the standard streams, although these were closed before") {
  auto const child = ::fork();
  if (child == 0) {
    for (int const stream : {0, 1, 2}) ::close(stream);
    FileDescriptor const file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    bool const free = ::open("/dev/null", O_RDONLY) == 0;  // none of the three was kept
    ::_exit(file.number() > 2 && free ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
