#pragma once
// The scope in which one optimizer's parameters alone receive gradients.

#include <optional>
#include <utility>

#include <fulgurite/loop/in_place.hpp>

namespace fulgurite {

namespace loop {
struct NothingToUndo {};
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
