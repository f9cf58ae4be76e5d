#pragma once
// What a training step reads from its context, and what the trainer watches during a fit.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite::loop {

// What a training step reads from its context. A strategy that replays steps compares these values before each replay.

/// One kind of read from a context. Those before `comparable` return a number that can be compared and set. The others
/// return something that may change at any time, or ask the trainer to do something.
enum class Question : std::uint8_t {
  global_step,
  skipped_steps,
  logged_steps,
  current_epoch,
  batch_idx,
  batch_size,
  is_last_batch,
  accumulating,
  stop_requested,
  accumulate_grad_batches,
  num_training_batches,
  estimated_steps,
  comparable,
  value = comparable,
  optimizers,
  seconds,
  request_stop,
  log_scalars,
  log_dynamic,
  request_checkpoint,
  accumulate,
  request_statistics_pass,
  set_log_dir,
  warn,
  outcome,
  count
};
inline constexpr std::size_t comparable_questions = static_cast<std::size_t>(Question::comparable);

/// The name of the context member that the user calls.
constexpr std::string_view name_of(Question question) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(Question::count)> names{"global_step",
                                                                                          "skipped_steps",
                                                                                          "logged_steps",
                                                                                          "current_epoch",
                                                                                          "batch_idx",
                                                                                          "batch_size",
                                                                                          "is_last_batch",
                                                                                          "accumulating",
                                                                                          "stop_requested",
                                                                                          "accumulate_grad_batches",
                                                                                          "num_training_batches",
                                                                                          "estimated_steps",
                                                                                          "value",
                                                                                          "optimizers",
                                                                                          "seconds_now",
                                                                                          "request_stop",
                                                                                          "log_scalars",
                                                                                          "log_dynamic",
                                                                                          "request_checkpoint",
                                                                                          "accumulate",
                                                                                          "request_statistics_pass",
                                                                                          "set_log_dir",
                                                                                          "warn",
                                                                                          "outcome"};
  return names[static_cast<std::size_t>(question)];
}

/// A set of questions.
class Questions {
 public:
  constexpr void add(Question question) { bits_ |= std::uint32_t{1} << static_cast<unsigned>(question); }
  constexpr bool has(Question question) const { return (bits_ >> static_cast<unsigned>(question) & 1U) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool within(Questions const& other) const { return (bits_ & ~other.bits_) == 0; }
  template <class F>
  constexpr void each(F&& f) const {
    for (unsigned i = 0; bits_ >> i != 0; ++i)
      if ((bits_ >> i & 1U) != 0) f(static_cast<Question>(i));
  }

 private:
  std::uint32_t bits_ = 0;
};

/// The reads of a step, with the values that it got.
struct Answers {
  Questions asked = {};
  std::array<std::int64_t, comparable_questions> numbers = {};
};

/// Calls f(question) for those that can be compared.
template <class F>
constexpr void each_comparable(Questions const& asked, F&& f) {
  asked.each([&](Question question) {
    if (question < Question::comparable) f(question);
  });
}

}  // namespace fulgurite::loop

namespace fulgurite {

// The properties that distinguish recorded training steps.

/// Passed to `Strategy::gradients`. A strategy that records steps keeps one recording for each key and batch shape.
struct StepKey {
  bool first;   ///< the first batch of an accumulation window: gradients are cleared in it
  bool closes;  ///< the last batch of its window: an optimizer step follows
  int divisor;  ///< the window's length: backward starts from 1 / divisor

  friend constexpr bool operator==(StepKey const&, StepKey const&) = default;
};

}  // namespace fulgurite

namespace fulgurite {

// Truncated back-propagation through time: a batch is cut along time, each slice is a step, and a state is carried from
// slice to slice.

/// A model that declares `using Hidden = ...;` is trained slice by slice (`Automatic{.tbptt = k}`). Its step is
/// `training_step(batch, std::optional<Hidden> const& hidden, ctx)`. `hidden` is empty for the first slice of a batch.
/// The step returns a struct with `.loss` and `.hidden`; the next slice receives that `.hidden`, detached.
template <class M>
concept Recurrent = requires { typename M::Hidden; };

namespace loop {

template <class M>
struct HiddenOf {
  struct type {};
};
template <Recurrent M>
struct HiddenOf<M> {
  using type = typename M::Hidden;
};

}  // namespace loop
}  // namespace fulgurite

namespace fulgurite::loop {

// State of the search for losses and gradients that are infinite or not a number.

/// Whether the run searches. `found`: the current window has a non-finite value, and its update is skipped.
enum class Look : std::uint8_t { off, on, found };

/// `Value` is the backend's tensor type.
template <class Value>
struct FiniteWatch {
  Look look = Look::off;
  bool fresh = false;  ///< true if something was added to `noted` since it was last read
  /// Kept on the device, so that the host need not wait. It is nan from the first non-finite loss on.
  std::optional<Value> noted = std::nullopt;
  long read_at = 0;                ///< global_step when `noted` was last read
  int scaled_out = 0;              ///< updates that the scaler has skipped in a row
  std::vector<Value> before = {};  ///< the weights before a step that evaluates a closure
};

// In manual optimization the user decides the order of clear, backward and step. An order that is almost always a
// mistake gives one warning.

/// The history of one optimizer's gradients, as far as calls on the context show it.
struct GradientHistory {
  bool stepped = false;  ///< a step has used the gradients
  bool cleared = true;   ///< they were cleared after that step
  bool gained = false;   ///< a backward has made gradients that no step has used
  int dropped = 0;       ///< how often unused gradients were cleared
};

/// Checks the first steps of a fit only: such mistakes show from the start, and a check walks over all parameters.
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

  /// Calls f(position, has no gradients) for the optimizers whose gradients become undefined when cleared. If gradients
  /// stay in place, clearing cannot be detected.
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

// Part of a run's state: what is watched while it runs.

template <class R>
struct Watch {
  FiniteWatch<typename R::Value> finite{};
  std::conditional_t<R::automatic, ManualWatch<0>, ManualWatch<Optimizers<R>::count>> manual{};
};

}  // namespace fulgurite::loop
