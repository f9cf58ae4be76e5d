#pragma once
// Signals that are noted instead of ending the program at once.

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

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
