#pragma once
// The SLURM job that a program runs in: which it is, and how it is begun again.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::slurm {

/// A job as scontrol names it: "4711", or "4711_3" of an array.
struct Job {
  std::string name;
  std::string task = {};  ///< of an array; else empty
};

/// A number as SLURM writes it.
inline bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 20 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The job that these variables tell of; `variable("SLURM_JOB_ID")` is a text, or nullptr where there is none. None
/// outside of SLURM, in an interactive session (a job named bash or interactive), and where the id is no number.
template <class Environment>
std::optional<Job> job(Environment const& variable) {
  auto const text = [&](char const* name) {
    char const* const value = variable(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  };
  auto const id = text("SLURM_JOB_ID"), called = text("SLURM_JOB_NAME");
  if (!is_number(id) || called == "bash" || called == "interactive") return std::nullopt;
  auto const array = text("SLURM_ARRAY_JOB_ID"), task = text("SLURM_ARRAY_TASK_ID");
  if (is_number(array) && is_number(task))
    return Job{.name = std::string(array).append("_").append(task), .task = std::string(task)};
  return Job{.name = std::string(id)};
}
/// The job of this process.
inline std::optional<Job> job() {
  return job([](char const* name) { return std::getenv(name); });
}

/// `scontrol requeue NAME`, with the scontrol found on PATH and no shell. Empty where it ended well, else why not.
FULGURITE_COLD std::string requeue(Job const& of) {
  std::string program = "scontrol", verb = "requeue", name = of.name;
  std::array<char*, 4> const words{program.data(), verb.data(), name.data(), nullptr};
  pid_t child = 0;
  if (int const error = ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, words.data(), environ))
    return "scontrol cannot be started: " + std::generic_category().message(error);
  int status = 0;
  while (::waitpid(child, &status, 0) == -1)
    if (errno != EINTR) return {};  // the program leaves its children to the system
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return WIFEXITED(status) ? "scontrol requeue " + name + " ended with status " + std::to_string(WEXITSTATUS(status))
                           : "scontrol requeue " + name + " was ended by a signal";
}

}  // namespace fulgurite::slurm
