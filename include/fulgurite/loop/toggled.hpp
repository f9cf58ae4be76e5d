#pragma once
// The scope in which one optimizer's parameters alone receive gradients.

#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/in_place.hpp>

namespace fulgurite {

namespace loop {
struct NothingToUndo {};

/// The result of a ctx.toggle that does not compile. It has a destructor, so that no compiler calls it unused.
struct NotToggled {
  ~NotToggled() {}
  void untoggle() {}
};

/// Several processes: whether gradients are exchanged after a backward is put back when the scope ends.
template <class OfStrategy>
class Unsynced {
 public:
  template <class Strategy>
  Unsynced(Strategy&& of_strategy, bool& syncs, bool now)
      : of_strategy_(of_strategy()), syncs_(syncs), before_(std::exchange(syncs, now)) {}
  Unsynced(Unsynced const&) = delete;
  Unsynced& operator=(Unsynced const&) = delete;
  ~Unsynced() { syncs_ = before_; }

 private:
  [[maybe_unused, no_unique_address]] OfStrategy of_strategy_;
  bool& syncs_;
  bool before_;
};
template <class Strategy>
Unsynced(Strategy&&, bool&, bool) -> Unsynced<std::invoke_result_t<Strategy&>>;
}  // namespace loop

/// The scope that ctx.toggle returns.
template <class Gradients, class Exchange>
class Toggled {
 public:
  template <class G, class E>
  Toggled(G&& gradients, E&& exchange)
      : gradients_(std::in_place, loop::InPlace{gradients}), exchange_(std::in_place, loop::InPlace{exchange}) {}
  Toggled(Toggled const&) = delete;
  Toggled& operator=(Toggled const&) = delete;
  /// Parameters receive gradients again as they did before; the end of the scope does the same.
  void untoggle() {
    exchange_.reset();
    gradients_.reset();
  }

 private:
  std::optional<Gradients> gradients_;
  std::optional<Exchange> exchange_;
};

}  // namespace fulgurite
