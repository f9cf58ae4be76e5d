#pragma once
// The seam for profilers: an action lasts as long as what they return for it. Without a profiler nothing is left of it.

#include <utility>

#include <fulgurite/core/action.hpp>
#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

/// A callback that is told of every action, and returns an object that lives as long as the action does:
///   auto profile_action(ProfiledAction const& action) { return Watched(action); }
template <class T>
concept Profiler = hook::profile_action::named<T>;

namespace hook {

/// Nobody watches.
struct Unprofiled {};

/// What several profilers return for one action. Ended in the reverse order.
template <class First, class Rest>
struct Watched {
  First first;
  Rest rest;
};

/// Runs something: as it is here, as an action of the pack's profilers there. `more` adds to the action without
/// counting it.
struct Untimed {
  template <class F>
  [[gnu::always_inline]] constexpr decltype(auto) operator()(F&& f) const {
    return f();
  }
  template <class F>
  [[gnu::always_inline]] constexpr decltype(auto) more(F&& f) const {
    return f();
  }
};
/// The latter.
template <class A, class Pack>
class Timed {
 public:
  explicit Timed(Pack& pack) : pack_(&pack) {}
  template <class F>
  decltype(auto) operator()(F&& f) const {
    [[maybe_unused]] auto const watched = pack_->template profile<A>();
    return f();
  }
  template <class F>
  decltype(auto) more(F&& f) const {
    [[maybe_unused]] auto const watched = pack_->template profile<A, false>();
    return f();
  }

 private:
  Pack* pack_;
};

/// `timed<A>(pack)([&] { ... })`: the work, as the action A where somebody watches.
template <class A, class Pack>
[[gnu::always_inline]] inline auto timed([[maybe_unused]] Pack& pack) {
  if constexpr (Pack::profiles) return Timed<A, Pack>(pack);
  else return Untimed{};
}

}  // namespace hook
}  // namespace fulgurite
