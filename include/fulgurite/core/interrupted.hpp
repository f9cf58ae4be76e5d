#pragma once
// The exception of a run that the system asked to end.

#include <csignal>
#include <string>

#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// Thrown by the callback Signals at the next place where a run can go on from. A program that catches it returns
/// `exit_code()`, as a shell expects of a program that a signal has ended: 130 after Ctrl-C, 143 after SIGTERM.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal)
      : Error("fulgurite.run.interrupted", "the run was asked to end by " + name_of(signal)), signal_(signal) {}

  int signal() const noexcept { return signal_; }
  int exit_code() const noexcept { return 128 + signal_; }

 private:
  static std::string name_of(int signal) {
    if (signal == SIGINT) return "SIGINT";
    if (signal == SIGTERM) return "SIGTERM";
    if (signal == SIGUSR1) return "SIGUSR1";
    return "signal " + std::to_string(signal);
  }
  int signal_;
};

}  // namespace fulgurite
