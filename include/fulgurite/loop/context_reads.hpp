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

#include <fulgurite/core/body.hpp>
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

namespace fulgurite::loop {

// The error of a strategy whose check finds that steps were replayed wrongly.

/// The fit catches this and rolls back to the last checked state; if it cannot, this error ends the fit. `reason`: what
/// the user's code did, for the warning. `same_model`: the model still consists of the same tensors. `no_way`: why the
/// fit cannot roll back.
class WrongReplay : public Error {
 public:
  WrongReplay(std::string const& why, bool same, std::string const& no_way = "no fit has caught this");
  std::string reason;
  bool same_model;
};

}  // namespace fulgurite::loop

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

template <class M, class Slice, class Ctx>
concept HasRecurrentStep =
    Recurrent<M> && (hook::training_step::accepts<M, Slice, std::optional<typename M::Hidden> const, Ctx> ||
                     hook::training_step::accepts<M, Slice, std::optional<typename M::Hidden> const>);

/// Calls training_step in the form that the model declares.
template <class M, class Batch, class Hidden, class Ctx>
decltype(auto) call_training_step(M& model, Batch& batch, std::optional<Hidden> const& hidden, Ctx& ctx) {
  if constexpr (!Recurrent<M>) {
    if constexpr (hook::training_step::accepts<M, Batch, Ctx>) return hook::training_step::call(model, batch, ctx);
    else return hook::training_step::call(model, batch);
  } else if constexpr (hook::training_step::accepts<M, Batch, std::optional<Hidden> const, Ctx>) {
    return hook::training_step::call(model, batch, hidden, ctx);
  } else {
    return hook::training_step::call(model, batch, hidden);
  }
}

/// The slices of a batch, in order of time, by the model's `tbptt_split_batch(batch, k, ctx)` or else by the backend.
template <class R, class Batch, class Ctx>
auto time_slices(typename R::Model& model, Batch& batch, long length, Ctx& ctx) {
  if constexpr (hook::tbptt_split_batch::named<typename R::Model>)
    return call_override<hook::tbptt_split_batch>(model, ctx, batch, length);
  else return R::Backend::time_slices(batch, length);
}

/// Throws [fulgurite.options.tbptt] unless a slice length is given exactly for a model that declares Hidden, and with
/// windows of one batch.
template <class M>
void check_slices(int tbptt, int window) {
  if (Recurrent<M> && tbptt == 0)
    throw Error("fulgurite.options.tbptt",
                "the model declares Hidden, so its batches are cut along time: say how long a slice is, "
                "Automatic{.tbptt = 16}");
  if (!Recurrent<M> && tbptt != 0)
    throw Error("fulgurite.options.tbptt",
                "tbptt = " + std::to_string(tbptt) +
                    " carries a state from slice to slice, and the model "
                    "declares none: add `using Hidden = ...` and training_step(batch, hidden, ctx)");
  if (tbptt != 0 && window != 1)
    throw Error("fulgurite.options.tbptt", "tbptt steps after each slice, accumulate_grad_batches = " +
                                               std::to_string(window) + " after several batches: use one of them");
}

}  // namespace loop
}  // namespace fulgurite

namespace fulgurite::loop {

/// The position of a batch in its accumulation window.
struct WindowPlace {
  StepKey key;
  double rescale;  ///< factor for gradients of a window shorter than its divisor (loaders without a size), else 1
};

/// The window of batch `b`. Windows restart in each epoch; the last window may be shorter, and then averages over the
/// batches that it has. `seen`: the batches of the window before this one, without those that the loader left out.
/// `end`: the batch after the window, if the loader has that many.
inline WindowPlace window_of(long b, long start, long seen, long end, std::optional<long> batches, bool last) {
  long const divisor = (batches ? std::min(end, *batches) : end) - start;
  bool const closes = b + 1 == end || last;
  double const rescale =
      closes && seen + 1 != divisor ? static_cast<double>(divisor) / static_cast<double>(seen + 1) : 1.0;
  return {{seen == 0, closes, static_cast<int>(divisor)}, rescale};
}

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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/context_reads.ipp>
#endif
