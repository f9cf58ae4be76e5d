#pragma once
// What a process sees of memory that it shares, as the system tells.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace fulgurite::test {

/// Prints its mapping of shared data: inode, rights, kilobytes in memory, and its share of these; how many file handles
/// lead to it.
inline void print_shared_memory() {
  std::ifstream maps("/proc/self/smaps");
  std::string rights, inode, resident;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first, second, offset, device, number;
    words >> first >> second;
    if (first.find('-') != std::string::npos && first.back() != ':') {
      words >> offset >> device >> number;
      inside = line.find("memfd:fulgurite-data") != std::string::npos;
      rights = second;
      inode = number;
    } else if (inside && first == "Rss:") {
      resident = second;
    } else if (inside && first == "Pss:") {
      std::printf("shared %s %s %s %s\n", inode.c_str(), rights.c_str(), resident.c_str(), second.c_str());
    }
  }
  int handles = 0;
  std::error_code gone;
  for (auto const& one : std::filesystem::directory_iterator("/proc/self/fd"))
    if (std::filesystem::read_symlink(one.path(), gone).string().find("fulgurite-data") != std::string::npos) ++handles;
  std::printf("handles %d\n", handles);
}

/// Prints the signal that kills who writes to this address.
inline void print_end_of_writer(void* address) {
  pid_t const child = ::fork();
  if (child == 0) {
    *static_cast<char volatile*>(address) = 1;
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::printf("writer %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

}  // namespace fulgurite::test
