#pragma once
// The one exception of the library: what went wrong, where, and what to do about it.

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>

// Refuses compiler flags that let a program's arithmetic differ from what is written.
// A trainer promises the same bits on every run, after a resume, and from a captured step; and it looks for losses that
// are not finite. Both are untrue where the compiler may reorder sums or take it that no number is ever infinite or
// NaN.

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||                               \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
static_assert(
    false, "[fulgurite.build.fast_math] with -ffast-math, -Ofast or a part of them neither bits nor NaN are what was "
           "written: compile without, or put -fno-fast-math behind it");
#endif

namespace fulgurite {

/// Thrown for bad input at run time (an option, a file, a missing device), before training starts wherever that can be
/// known. `what()` reads "[identifier] sentence"; the identifier is stable and listed in the tests.
class Error : public std::runtime_error {
 public:
  Error(std::string_view identifier, std::string const& sentence)
      : std::runtime_error(std::string("[").append(identifier).append("] ").append(sentence)),
        length_(identifier.size()) {}

  /// For example "fulgurite.options.max_epochs".
  std::string_view identifier() const noexcept { return std::string_view(what()).substr(1, length_); }

 private:
  std::size_t length_;
};

// Several things that are wrong at once, as one Error.

/// One Error stays as it is. Several are one of a saved state, whose sentence has them all.
FULGURITE_COLD Error all_of(std::vector<Error> const& errors) {
  constexpr std::string_view together = "fulgurite.checkpoint.state_entry";
  if (errors.size() == 1) return errors.front();
  std::string all;
  for (auto const& error : errors) {
    std::string_view said = error.what();
    if (error.identifier() == together) said.remove_prefix(together.size() + 3);
    if (!all.empty()) all += "; ";
    all += said;
  }
  return {together, all};
}

// A file that was to be new is there already.

/// Thrown inside a NewNamesOnly where a file of that name exists.
class FileExists : public Error {
 public:
  explicit FileExists(std::filesystem::path const& file)
      : Error("fulgurite.file.write",
              "cannot write " + file.string() + ": another process has made a file of that name; it stays as it is") {}
};

// The exception of a run that the system asked to end.

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

namespace fulgurite::loop {

// The exception of a process whose run ends because another one of its run has ended.

/// Thrown by a collective of a distributed strategy. `rank()` failed first; the text says why, where that is known. Who
/// gets it is not the cause, and tells nobody.
class RankEnded : public Error {
 public:
  RankEnded(int rank, std::string const& text)
      : Error("fulgurite.distributed.rank_ended", "rank " + std::to_string(rank) + " ended: " + text), rank_(rank) {}

  int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

}  // namespace fulgurite::loop

namespace fulgurite {

// Signals that are noted instead of ending the program at once.

/// While one lives, the first of its signals to come is noted. Whichever of them comes next does what it would have
/// done without this: it ends the program, unless the program has a handler of its own for it. Then the handlers are as
/// they were. Handlers belong to the process: one of these at a time. Error where a signal cannot be caught.
class CaughtSignals {
 public:
  /// `request` is another signal, which is noted for itself as often as it comes, and never ends the program; 0: none.
  explicit CaughtSignals(std::vector<int> const& signals, int request = 0) {
    noted_ = noted_request_ = 0;
    for (int const signal : signals) listen(signal, &note);
    if (request != 0) listen(request, [](int caught) { noted_request_ = caught; });
  }
  ~CaughtSignals() { restore(); }
  CaughtSignals(CaughtSignals const&) = delete;
  CaughtSignals& operator=(CaughtSignals const&) = delete;

  /// The signal that came first, of those that shall end the program; 0 while none has, and until the next of these
  /// lives.
  static int caught() { return noted_; }
  /// The signal that requests something, where it has come; else 0.
  static int requested() { return noted_request_; }
  /// The one to obey: a request, since it asks for more than an end; else the first.
  static int gravest() {
    int const request = requested();
    return request != 0 ? request : caught();
  }

 private:
  using Action = struct sigaction;
  using Handler = void (*)(int);
  static constexpr std::size_t most = 65;  ///< one more than the last signal's number

  FULGURITE_COLD void listen(int signal, Handler handler) {
    Action now{}, before{};
    now.sa_handler = handler;
    now.sa_flags = SA_RESTART;
    sigemptyset(&now.sa_mask);
    auto const at = static_cast<std::size_t>(signal);
    if (signal <= 0 || at >= most || ::sigaction(signal, nullptr, &before) != 0 || !keep(signal, before, now)) {
      restore();
      throw Error("fulgurite.run.signal",
                  "signal " + std::to_string(signal) + " cannot be caught: name others, such as SIGINT and SIGTERM");
    }
  }
  FULGURITE_COLD bool keep(int signal, Action const& before, Action const& now) {
    before_.emplace_back(signal, before);
    bool const ours = before.sa_handler == &note;  // of another one that lives: that must not be called by itself
    without_[static_cast<std::size_t>(signal)] = ours || before.sa_handler == SIG_IGN ? Action{} : before;
    if (::sigaction(signal, &now, nullptr) == 0) return true;
    before_.pop_back();
    return false;
  }
  void restore() {
    for (auto at = before_.rbegin(); at != before_.rend(); ++at) ::sigaction(at->first, &at->second, nullptr);
    before_.clear();
  }

  /// Calls nothing but what a handler may call.
  FULGURITE_COLD static void note(int signal) {
    int const error = errno;
    int none = 0;
    if (!noted_.compare_exchange_strong(none, signal)) {
      ::sigaction(signal, &without_[static_cast<std::size_t>(signal)], nullptr);
      ::raise(signal);  // heard as soon as this function returns
    }
    errno = error;
  }

  static inline std::atomic<int> noted_ = 0, noted_request_ = 0;
  static_assert(std::atomic<int>::is_always_lock_free, "a handler may touch nothing that locks");
  /// What each signal does without this; one that the program ignored ends it, since it was asked to end it here.
  static inline std::array<Action, most> without_{};
  std::vector<std::pair<int, Action>> before_{};
};

}  // namespace fulgurite
