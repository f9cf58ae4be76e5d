#pragma once
// Stands in for torchrun's agent on one machine: it keeps the store, sets the variables that torchrun sets, and starts
// all ranks anew when one has failed.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "words.hpp"

namespace fulgurite::test {

inline std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// One start of all ranks; whether all have ended with success. Where one fails the others are told to end.
inline bool all_succeed(char** argv, int world, int port, int restart) {
  std::vector<pid_t> left;
  for (int rank = 0; rank != world; ++rank) {
    std::vector<std::string> settings;
    for (char** one = ::environ; *one != nullptr; ++one) settings.emplace_back(*one);
    for (auto const& [name, value] : {std::pair{"RANK", rank},
                                      {"LOCAL_RANK", rank},
                                      {"WORLD_SIZE", world},
                                      {"LOCAL_WORLD_SIZE", world},
                                      {"GROUP_RANK", 0},
                                      {"MASTER_PORT", port},
                                      {"TORCHELASTIC_RESTART_COUNT", restart},
                                      {"OMP_NUM_THREADS", 1}})
      settings.push_back(std::string(name) + "=" + std::to_string(value));
    settings.emplace_back("MASTER_ADDR=127.0.0.1");
    settings.emplace_back("TORCHELASTIC_USE_AGENT_STORE=True");
    pid_t pid = -1;
    if (::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv, pointers(settings).data()) != 0) return false;
    left.push_back(pid);
  }
  bool fine = true;
  while (!left.empty()) {
    int status = 0;
    std::erase(left, ::wait(&status));
    if (status == 0 || !fine) continue;
    fine = false;
    ::usleep(500'000);  // torchrun looks after its processes now and then
    for (pid_t const other : left) ::kill(other, SIGTERM);
  }
  return fine;
}

/// --agent WORLD --restarts N: the other words are those of the ranks. What the program returns.
inline int be_agent(Words const& words, char** argv) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = options.useLibUV = false;
  options.port = 0;
  auto const store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  for (int restart = 0; restart <= words.number("--restarts", 0); ++restart)
    if (all_succeed(argv, static_cast<int>(words.number("--agent", 2)), store->getPort(), restart)) return 0;
  return 1;
}

}  // namespace fulgurite::test
