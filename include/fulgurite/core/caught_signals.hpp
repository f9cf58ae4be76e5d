#pragma once
// Signals that are noted instead of ending the program at once.

#include <array>
#include <atomic>
#include <csignal>
#include <vector>

namespace fulgurite {

/// While one lives, each of its signals is noted when it comes for the first time, and ends the program, as it would
/// without this, when it comes again. Then the handlers are as they were. Handlers belong to the process: one at a
/// time.
class CaughtSignals {
 public:
  explicit CaughtSignals(std::vector<int> const& signals) {
    noted = 0;
    for (int const signal : signals) {
      struct sigaction now{};
      now.sa_handler = [](int caught) { noted = caught; };
      now.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
      sigemptyset(&now.sa_mask);
      Before before{signal, {}};
      if (::sigaction(signal, &now, &before.action) == 0) before_.push_back(before);
    }
  }
  ~CaughtSignals() {
    for (auto const& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
  }
  CaughtSignals(CaughtSignals const&) = delete;
  CaughtSignals& operator=(CaughtSignals const&) = delete;

  /// The signal that came last; 0 while none has.
  static int caught() { return noted; }

 private:
  struct Before {
    int signal;
    struct sigaction action;
  };
  static inline std::atomic<int> noted = 0;
  static_assert(std::atomic<int>::is_always_lock_free, "a handler may touch nothing that locks");
  std::vector<Before> before_{};
};

}  // namespace fulgurite
