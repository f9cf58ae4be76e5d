#pragma once
// The one exception of the library: what went wrong, where, and what to do about it.

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>

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
  Error(std::string_view identifier, std::string const& sentence);

  /// For example "fulgurite.options.max_epochs".
  std::string_view identifier() const noexcept;

 private:
  std::size_t length_;
};

// Several things that are wrong at once, as one Error.

/// One Error stays as it is. Several are one of a saved state, whose sentence has them all.
Error all_of(std::vector<Error> const& errors);

// A file that was to be new is there already.

/// Thrown inside a NewNamesOnly where a file of that name exists.
class FileExists : public Error {
 public:
  explicit FileExists(std::filesystem::path const& file);
};

// The exception of a run that the system asked to end.

/// Thrown by the callback Signals at the next place where a run can go on from. A program that catches it returns
/// `exit_code()`, as a shell expects of a program that a signal has ended: 130 after Ctrl-C, 143 after SIGTERM.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal);

  int signal() const noexcept { return signal_; }
  int exit_code() const noexcept { return 128 + signal_; }

 private:
  static std::string name_of(int signal);
  int signal_;
};

}  // namespace fulgurite

namespace fulgurite::loop {

// The exception of a process whose run ends because another one of its run has ended.

/// Thrown by a collective of a distributed strategy. `rank()` failed first; the text says why, where that is known. Who
/// gets it is not the cause, and tells nobody.
class RankEnded : public Error {
 public:
  RankEnded(int rank, std::string const& text);

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
  explicit CaughtSignals(std::vector<int> const& signals, int request = 0);
  ~CaughtSignals() { restore(); }
  CaughtSignals(CaughtSignals const&) = delete;
  CaughtSignals& operator=(CaughtSignals const&) = delete;

  /// The signal that came first, of those that shall end the program; 0 while none has, and until the next of these
  /// lives.
  static int caught() { return noted_; }
  /// The signal that requests something, where it has come; else 0.
  static int requested() { return noted_request_; }
  /// The one to obey: a request, since it asks for more than an end; else the first.
  static int gravest();

 private:
  using Action = struct sigaction;
  using Handler = void (*)(int);
  static constexpr std::size_t most = 65;  ///< one more than the last signal's number

  void listen(int signal, Handler handler);
  bool keep(int signal, Action const& before, Action const& now);
  void restore();

  /// Calls nothing but what a handler may call.
  static void note(int signal);

  static inline std::atomic<int> noted_ = 0, noted_request_ = 0;
  static_assert(std::atomic<int>::is_always_lock_free, "a handler may touch nothing that locks");
  /// What each signal does without this; one that the program ignored ends it, since it was asked to end it here.
  static inline std::array<Action, most> without_{};
  std::vector<std::pair<int, Action>> before_{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/error.ipp>
#endif
