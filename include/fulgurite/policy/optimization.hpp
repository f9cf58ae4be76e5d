#pragma once
// Who drives the optimizer: the trainer (Automatic) or the model's training_step (Manual).

#include <cstdint>
#include <type_traits>

#include <fulgurite/core/state.hpp>

namespace fulgurite {

/// The 2-norm over all gradients together is limited to `value`: factor min(1, value / (norm + 1e-6)).
struct ClipNorm {
  double value;
};
/// Every gradient element is limited to [-value, value].
struct ClipValue {
  double value;
};

/// No clipping, or one of the two; a value that is not positive is refused when the run starts.
struct Clip {
  enum class Kind : std::uint8_t { none, norm, value };
  Kind kind = Kind::none;
  double limit = 0;

  constexpr Clip() = default;
  constexpr Clip(ClipNorm by) : kind(Kind::norm), limit(by.value) {}    // implicit: .clip = ClipNorm{0.5}
  constexpr Clip(ClipValue by) : kind(Kind::value), limit(by.value) {}  // implicit: .clip = ClipValue{0.5}
  /// A number alone could mean either.
  template <class Number, bool says_by_what = false>
    requires std::is_arithmetic_v<Number>
  constexpr Clip(Number) {
    static_assert(says_by_what, "[fulgurite.policy.clip_number] a limit says what it limits: ClipNorm{1.0}, the norm "
                                "of all gradients together, "
                                "or ClipValue{1.0}, each element");
  }
  friend constexpr bool operator==(Clip const&, Clip const&) = default;
};

/// The trainer clears, runs backward, clips and steps the one optimizer. With K = accumulate_grad_batches, gradients of
/// K batches are averaged before each step. A plain aggregate: K is run-time state, changed by `ctx.accumulate(k)`.
struct Automatic {
  using Stateless = ByChoice;
  static constexpr bool automatic = true;
  int accumulate_grad_batches = 1;
  Clip clip = {};
  int tbptt = 0;  ///< time steps of a slice, where the model carries a `Hidden` state between slices (truncated
                  ///< back-propagation)
};

/// `training_step` returns void and does everything itself through its context: `ctx.minimize(optimizer, loss)`, or
/// `ctx.backward(loss)`, `ctx.clip_gradients(optimizer, ClipNorm{1})`, `ctx.step(optimizer)`.
struct Manual {
  using Stateless = ByChoice;
  static constexpr bool automatic = false;
};

}  // namespace fulgurite
