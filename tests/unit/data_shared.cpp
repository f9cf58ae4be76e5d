// Data that ranks share: one rank of a machine makes them, all see the same memory, which nobody can write to.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/data/shared.hpp>

#include "ranks.hpp"

using namespace fulgurite;
using Catch::Matchers::ContainsSubstring;
using toy::Rank;

namespace {

struct Point {
  float x, y;
};

/// Inodes of the mappings of this process, one for each mapping, and whether any can be written to.
std::vector<std::string> inodes(bool& writable) {
  std::vector<std::string> all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:fulgurite-data") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, rights, offset, device, inode;
    words >> range >> rights >> offset >> device >> inode;
    writable = writable || rights.find('w') != std::string::npos;
    all.push_back(inode);
  }
  return all;
}
long handles() {
  long count = 0;
  std::error_code gone;
  for (auto const& one : std::filesystem::directory_iterator("/proc/self/fd"))
    if (std::filesystem::read_symlink(one.path(), gone).string().find("fulgurite-data") != std::string::npos) ++count;
  return count;
}

}  // namespace

TEST_CASE("shared data: one rank of a machine makes them, all map the same memory") {
  for (auto const& [ranks, a_machine, makers] : {std::tuple{3, 3, 1}, {4, 2, 2}}) {
    toy::Meeting meeting(ranks);
    std::atomic<int> made = 0, mapped = 0;
    auto const all = toy::on_ranks(meeting, [&](Rank rank) {
      rank.ranks_a_machine = a_machine;
      auto const [numbers, points, words] = data::shared(rank, [&] {
        std::vector<std::int64_t> counted(1000);
        std::iota(counted.begin(), counted.end(), 100 * made++);
        return std::tuple{
            counted, std::vector<Point>{{1, 2}, {3, 4}},
            std::vector<std::pair<std::vector<char>, std::vector<double>>>{{{'a', 'b'}, {0.5}}, {{}, {}}}};
      });
      ++mapped;
      rank.barrier("all have mapped");
      bool writable = false;
      auto found = inodes(writable);
      rank.barrier("all have looked");
      std::span<std::int64_t const> const seen(numbers);
      bool const whole = points.size() == 2 && points[1].y == 4 && words.size() == 2 && words[0].first[1] == 'b' &&
                         words[0].second[0] == 0.5 && words[1].first.empty();
      return std::tuple{seen.back(), whole, writable, found, handles()};
    });
    CHECK(made == makers);
    CHECK(mapped == ranks);
    for (auto const& one : all) {
      REQUIRE(one.error == "");
      auto const& [last, whole, writable, found, open] = *one.result;
      CHECK(whole);
      CHECK_FALSE(writable);
      CHECK(open == 0);
      CHECK(found.size() == static_cast<std::size_t>(ranks));  // ranks are threads here: each has its mapping
      CHECK(std::count(found.begin(), found.end(), found.front()) == ranks / makers);
      CHECK((last == 999 || last == 1099));
    }
    // Ranks of one machine have what its first rank made.
    for (int rank = 0; rank != ranks; ++rank)
      CHECK(std::get<0>(*all[static_cast<std::size_t>(rank)].result) ==
            std::get<0>(*all[static_cast<std::size_t>(rank / a_machine * a_machine)].result));
    bool writable = false;
    CHECK(inodes(writable).empty());  // the last view is gone
  }
}

TEST_CASE("shared data: what fails in one rank is told to all, and nothing is left") {
  toy::Meeting meeting(3);
  auto const all = toy::on_ranks(meeting, [&](Rank rank) {
    return data::shared(rank, []() -> std::vector<int> { throw std::runtime_error("the disk is gone"); }).size();
  });
  CHECK(all[0].error == "the disk is gone");
  for (std::size_t rank : {1U, 2U}) CHECK(all[rank].error.find("rank 0 ended: the disk is gone") != std::string::npos);
  CHECK(handles() == 0);
  CHECK_THROWS_WITH(data::SharedMemory::at("/proc/self/fd/9999"),
                    ContainsSubstring("fulgurite.data.shared_memory") && ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(data::address_for(1, {"one machine\n/proc/1/fd/3", "another machine\n"}),
                    ContainsSubstring("fulgurite.data.shared_machine"));
  CHECK(data::address_for(2, {"a\n/proc/1/fd/3", "b\n/proc/2/fd/4", "a\n"}) == "/proc/1/fd/3");
}

TEST_CASE("shared data: with one process it is the same, and who writes is killed") {
  auto const numbers = data::shared(toy::Device{}, [] { return std::vector<int>{1, 2, 3}; });
  CHECK(std::vector<int>(numbers.begin(), numbers.end()) == std::vector<int>{1, 2, 3});
  CHECK(handles() == 0);
  pid_t const child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // Catch2 has one of its own
    *const_cast<int volatile*>(numbers.data()) = 4;
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
  CHECK(numbers[0] == 1);
}

TEST_CASE("shared data: memory is mapped by a handle that is open for reading only") {
  std::vector<int> const numbers{1, 2, 3};
  data::SharedParts parts;
  parts.borrow(std::as_bytes(std::span(numbers)));
  auto const memory = data::SharedMemory::of(parts);
  auto const address = memory->address();
  int const handle = std::stoi(address.substr(address.rfind('/') + 1));
  CHECK((::fcntl(handle, F_GETFL) & O_ACCMODE) == O_RDONLY);  // Linux before 6.7 maps a sealed file by no other
  CHECK(handles() == 1);
  auto const part = data::SharedReader(memory).next();
  CHECK(std::memcmp(part.data(), numbers.data(), part.size()) == 0);
}
