#pragma once
// The only exception of the library: what went wrong, where, and what to do about it.

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

// Refuses compiler flags that change a program's arithmetic.
// A trainer promises the same bits on every run, after a resume, and from a captured step, and it checks losses for
// values that are not finite. Neither works if the compiler may reorder sums or assume that no number is infinite or
// NaN.

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||                               \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
static_assert(
    false, "[fulgurite.build.fast_math] with -ffast-math, -Ofast or a part of them neither bits nor NaN are what was "
           "written: compile without, or put -fno-fast-math behind it");
#endif

namespace fulgurite {

/// Thrown for bad input at run time (an option, a file, a missing device), before training starts if it can be known by
/// then. `what()` reads "[identifier] sentence"; the identifier is stable and listed in the tests.
class Error : public std::runtime_error {
 public:
  Error(std::string_view identifier, std::string const& sentence);

  /// For example "fulgurite.options.range".
  std::string_view identifier() const noexcept;

 private:
  std::size_t length_;
};

// Several errors at once, as one Error.

/// A single Error is returned unchanged. Several become one Error of a saved state, whose sentence contains them all.
Error all_of(std::vector<Error> const& errors);

// A file that must be new exists already.

/// Thrown inside a NewNamesOnly if a file of that name exists.
class FileExists : public Error {
 public:
  explicit FileExists(std::filesystem::path const& file);
};

// The exception of a run that the system asked to end.

/// Thrown by the callback Signals at the next point from which a run can resume. A program that catches it should
/// return `exit_code()`, as a shell expects of a program that a signal has ended: 130 after Ctrl-C, 143 after SIGTERM.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal);

  int signal() const noexcept { return signal_; }
  int exit_code() const noexcept { return 128 + signal_; }

 private:
  static std::string name_of(int signal);
  int signal_;
};

namespace loop {

// The exception of a process that ends because another process of its run has ended.

/// Thrown by a collective of a distributed strategy. `rank()` failed first; the text gives the reason, if it is known.
/// The process that receives it is not the cause, and does not notify the others.
class RankEnded : public Error {
 public:
  RankEnded(int rank, std::string const& text);

  int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

// The error of a strategy whose check finds that steps were replayed wrongly.

/// The fit catches this and rolls back to the last checked state; if it cannot, this error ends the fit. `reason`: what
/// the user's code did, for the warning. `same_model`: the model still consists of the same tensors. `no_way`: why the
/// fit cannot roll back.
class WrongReplay : public Error {
 public:
  WrongReplay(std::string const& why, bool same, std::string const& no_way = "no rollback was asked for");
  std::string reason;
  bool same_model;
};

// The error of an option whose value cannot be.

[[noreturn]] void refuse_text(char const* identifier, std::string const& name, std::string const& value,
                              std::string const& cure);
[[noreturn]] inline void refuse_option(char const* identifier, std::string const& name, auto value,
                                       std::string const& cure) {
  refuse_text(identifier, name, std::to_string(value), cure);
}

}  // namespace loop

// Records signals instead of ending the program at once.

/// While an object exists, the first of its signals is recorded. The next one of them has its previous effect: it ends
/// the program, unless the program has a handler of its own for it. The destructor restores the handlers. Handlers
/// belong to the process: a signal is recorded for all objects that exist. Throws if a signal cannot be caught.
class CaughtSignals : Pinned {
 public:
  /// `request` is a separate signal that is recorded each time and never ends the program; 0: none.
  explicit CaughtSignals(std::vector<int> const& signals, int request = 0);
  ~CaughtSignals();

  /// The first of the signals that end the program; 0 if none has come. It is kept until an object is made
  /// while there is no other.
  static int caught() { return noted_; }
  /// The signal `request` if it has come; else 0.
  static int requested() { return noted_request_; }
  /// The signal to act on: a request, since it asks for more than an end; else the first one.
  static int to_act_on();

 private:
  using Action = struct sigaction;
  using Handler = void (*)(int);
  static constexpr std::size_t most = 65;  ///< one more than the highest signal number

  void listen(int signal, Handler handler);
  bool keep(int signal, Action const& before, Action const& now);
  /// Puts the actions back that the signals had before this object. If a later object still catches one of them, that
  /// one will do so when it ends.
  void restore();

  /// A signal handler: it calls only functions that are allowed in one.
  static void note(int signal);

  static inline std::atomic<int> noted_ = 0, noted_request_ = 0;
  static_assert(std::atomic<int>::is_always_lock_free, "a handler may touch nothing that locks");
  /// The action of each signal without this object. A signal that the program ignored ends it here, since the user
  /// listed it.
  static inline std::array<Action, most> without_{};
  std::vector<std::pair<int, Action>> before_{};
  static inline CaughtSignals* newest_ = nullptr;  ///< of all objects that exist
  CaughtSignals* older_ = nullptr;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/error.ipp>
#endif
