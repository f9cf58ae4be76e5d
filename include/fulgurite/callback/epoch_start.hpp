#pragma once
// Where in a run something begins, as an option says it.

#include <concepts>

#include <fulgurite/loop/limits.hpp>

namespace fulgurite {

/// An epoch, counted from 1, or a part of max_epochs.
struct EpochStart {
  bool is_part = true;
  int epoch = 0;
  double part = 0.8;

  constexpr EpochStart(Fraction of) : part(of.part) {}
  template <std::integral I>
  constexpr EpochStart(I at) : is_part(false), epoch(static_cast<int>(at)) {}
  template <std::floating_point F>
  constexpr EpochStart(F) {
    static_assert(!loop::is_plain_fraction<F>,
                  "[fulgurite.options.plain_fraction] a number with a decimal point could mean an epoch or "
                  "a part of them: write 8 or Fraction{0.8}");
  }
};

}  // namespace fulgurite
