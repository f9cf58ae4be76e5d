#pragma once
// The order of clear, backward and step in manual optimization is the user's; what is almost always a mistake in it is
// said once.

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

namespace fulgurite::loop {

/// What has become of one optimizer's gradients, as far as calls on the context show.
struct GradientHistory {
  bool stepped = false;  ///< some step has used them ...
  bool cleared = true;   ///< ... and they have been cleared since
  bool gained = false;   ///< a backward made some that no step has used
  int dropped = 0;       ///< times that these were cleared
};

/// Looks at the first steps of a fit: mistakes of this kind are there from the start, and looking costs a walk over the
/// parameters.
template <std::size_t Optimizers>
class ManualWatch {
 public:
  template <class Run, class Set>
  void before_backward(Run& run, Set& set) {
    if (looks_ == most_looks) return;
    ++looks_;
    each<typename Run::Key::Backend>(set, [&](std::size_t i, bool none) {
      auto& is = history_[i];
      empty_[i] = none;
      if (!none) return;
      if (is.gained && ++is.dropped == 2)
        run.warn("fulgurite.manual.dropped_gradients",
                 "gradients of optimizer " + std::to_string(i) +
                     " were cleared before any step used them: clear them after a step, or step "
                     "each time you run backward");
      is.cleared = true;
      is.gained = false;
    });
  }

  template <class Run, class Set>
  void after_backward(Run&, Set& set) {
    if (looks_ == most_looks) return;
    each<typename Run::Key::Backend>(set, [&](std::size_t i, bool none) {
      if (empty_[i] && !none) history_[i].gained = true;
    });
  }

  template <class Run, class Set, class Optimizer>
  void before_step(Run& run, Set& set, Optimizer const& stepped) {
    if (looks_ == most_looks) return;
    each<typename Run::Key::Backend>(set, [&](std::size_t i, bool none) {
      if (!is_at(set, i, stepped)) return;
      auto& is = history_[i];
      if (none)
        run.warn("fulgurite.manual.no_gradients", "optimizer " + std::to_string(i) +
                                                      " stepped without gradients: call ctx.backward(loss) "
                                                      "before ctx.step, or ctx.minimize, which does both");
      else if (is.stepped && !is.cleared)
        run.warn("fulgurite.manual.not_cleared",
                 "optimizer " + std::to_string(i) +
                     " steps again with the gradients of its last step still in: "
                     "call optimizer.zero_grad() before ctx.backward, or ctx.minimize, which does it");
      is.stepped = true;
      is.cleared = is.gained = false;
    });
  }

 private:
  static constexpr int most_looks = 256;

  /// f(position, has no gradients) for the optimizers whose gradients are dropped when they are cleared; with gradients
  /// that stay in place, clearing cannot be seen.
  template <class Backend, class Set, class F>
  void each(Set& set, F&& f) {
    std::apply(
        [&](auto&... optimizer) {
          std::size_t i = 0;
          ((std::remove_cvref_t<decltype(optimizer)>::stable_gradients
                ? void(++i)
                : f(i++, Backend::no_gradients(optimizer.parameters()))),
           ...);
        },
        set);
  }
  template <class Set, class Optimizer>
  static bool is_at(Set& set, std::size_t position, Optimizer const& wanted) {
    bool found = false;
    std::apply(
        [&, i = std::size_t{0}](auto&... o) mutable {
          ((found = found || (i++ == position && static_cast<void const*>(&o) == &wanted)), ...);
        },
        set);
    return found;
  }

  std::array<GradientHistory, Optimizers> history_{};
  std::array<bool, Optimizers> empty_{};
  int looks_ = 0;
};

}  // namespace fulgurite::loop
