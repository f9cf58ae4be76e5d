#pragma once
// What a manual training_step holds of an optimizer: everything but its step, which belongs to the context.

#include <cstddef>
#include <tuple>
#include <type_traits>

#include <fulgurite/diagnose/member_sentences.hpp>

namespace fulgurite {

/// `auto& [g, d] = ctx.optimizers(); g.zero_grad(); ctx.backward(loss); ctx.step(g);` A step past the context would
/// leave out the precision's unscaling, the hooks and the count of steps, so `g.step()` does not compile.
template <class O>
class BorrowedOptimizer {
 public:
  static constexpr bool needs_closure = O::needs_closure;
  static constexpr bool stable_gradients = O::stable_gradients;

  explicit BorrowedOptimizer(O& optimizer) : optimizer_(&optimizer) {}

  void zero_grad() { optimizer_->zero_grad(); }
  std::size_t groups() const { return optimizer_->groups(); }
  double lr(std::size_t group = 0) const { return optimizer_->lr(group); }
  void set_lr(std::size_t group, double value) { optimizer_->set_lr(group, value); }
  decltype(auto) parameters() { return optimizer_->parameters(); }

  template <bool Fine = false, class... Args>
  void step(Args const&...) {
    static_assert(Fine, FULGURITE_SENTENCE_OPTIMIZER_RAW_STEP);
  }

  /// The optimizer itself, for what the trainer does not know; stepping it is yours to answer for.
  O& unsafe_raw() { return *optimizer_; }

 private:
  O* optimizer_;
};

/// All of them, as `ctx.optimizers()` of a manual training_step returns them: a tuple. Used as if it were the one
/// optimizer that Lightning's `self.optimizers()` may be, it does not compile.
template <class... Os>
class BorrowedOptimizers : public std::tuple<BorrowedOptimizer<Os>...> {
 public:
  using std::tuple<BorrowedOptimizer<Os>...>::tuple;

  template <bool Fine = false>
  void zero_grad() {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
  }
  template <bool Fine = false, class... Args>
  void step(Args const&...) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
  }
};

}  // namespace fulgurite

template <class... Os>
struct std::tuple_size<fulgurite::BorrowedOptimizers<Os...>> : std::tuple_size<std::tuple<Os...>> {};
template <std::size_t I, class... Os>
struct std::tuple_element<I, fulgurite::BorrowedOptimizers<Os...>>
    : std::tuple_element<I, std::tuple<fulgurite::BorrowedOptimizer<Os>...>> {};

namespace fulgurite {

namespace loop {
template <class O>
O& raw(BorrowedOptimizer<O>& handle) {
  return handle.unsafe_raw();
}
template <class O>
O& raw(O& optimizer) {
  return optimizer;
}

/// Handles of a tuple of optimizers.
template <class Tuple>
struct HandlesOf;
template <class... Os>
struct HandlesOf<std::tuple<Os...>> {
  using type = BorrowedOptimizers<Os...>;
  static type of(std::tuple<Os...>& optimizers) {
    return std::apply(
        [](auto&... optimizer) {
          return type(BorrowedOptimizer<std::remove_reference_t<decltype(optimizer)>>(optimizer)...);
        },
        optimizers);
  }
};
}  // namespace loop

}  // namespace fulgurite
