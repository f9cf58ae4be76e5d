#pragma once
// The toy's tensor library for several threads at a time: what the loops change for the length of a scope belongs to
// the thread.

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "toy.hpp"

namespace toy {

/// The generator of the process, and what a thread has in its place.
inline std::atomic<std::uint64_t> process_random = 1;
inline thread_local std::optional<std::uint64_t> own_random = std::nullopt;

inline std::uint64_t random_now() { return own_random.value_or(process_random.load()); }
inline void put_random(std::uint64_t at) {
  if (own_random) own_random = at;
  else process_random = at;
}
/// A number from 0 to 1, of the thread's own generator where it has one.
inline double draw_apart() {
  auto const next = random_now() * 6364136223846793005ULL + 1442695040888963407ULL;
  put_random(next);
  return static_cast<double>(next >> 11) / 9007199254740992.0;
}

struct ApartBackend : Backend {
  static void read_all(std::span<Value const> values, std::span<double> out) {
    for (std::size_t i = 0; i != values.size(); ++i) out[i] = values[i].value();
  }
  static bool reading_waits(Value const&) { return false; }
  template <class Parameters>
  static bool gradients_wait(Parameters const&) {
    return false;
  }
  template <class P, class D>
  static int autocast(P const&, D const&) {
    return 0;
  }
  static auto no_grad(bool) { return Restored<bool>(grad_enabled, false); }
  static int algorithms(bool, std::optional<bool>) { return 0; }
  static int anomaly(bool) { return 0; }
  struct Random {
    std::uint64_t at = random_now();
    void restore() const { put_random(at); }
    void state(auto& archive) { archive("at", at); }
  };
  static Random rng_state() { return {}; }
  struct IsolatedRandom : Random {
    ~IsolatedRandom() { restore(); }
  };
  static IsolatedRandom isolated_rng() { return {}; }

  /// What a sweep asks for: random numbers of a thread, and whether the process's have moved.
  class Apart {
   public:
    struct Thread {
      explicit Thread(std::uint64_t seed) { own_random = seed; }
      Thread(Thread const&) = delete;
      ~Thread() { own_random.reset(); }
    };
    Thread thread(std::uint64_t seed) const { return Thread(seed); }
    bool disturbed() const { return process_random != before_; }

   private:
    std::uint64_t before_ = process_random;
  };
};

struct ApartDevice : Device {
  using Backend = ApartBackend;
  template <class O>
  void flush(O& optimizer, double scale) {
    Backend::scale_gradients(optimizer.parameters(), scale);
  }
};

}  // namespace toy
