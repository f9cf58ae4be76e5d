#pragma once
// What a training step is told, what it asks its context for, and what is watched of it.

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

// What a training step asks its context for. A strategy that replays steps compares it before each replay.

/// One question to a context. Those up to `comparable` have a number for an answer, which can be compared and set; the
/// others have answers that change at any time, or ask the trainer to do something.
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

/// As the user calls it.
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

/// Questions with the answers that a step was given.
struct Answers {
  Questions asked = {};
  std::array<std::int64_t, comparable_questions> numbers = {};
};

/// f(question) for those that can be compared.
template <class F>
constexpr void each_comparable(Questions const& asked, F&& f) {
  asked.each([&](Question question) {
    if (question < Question::comparable) f(question);
  });
}

}  // namespace fulgurite::loop

namespace fulgurite {

// What distinguishes one recorded training step from another.

/// Passed to `Strategy::gradients`: a strategy that records steps keeps one recording per key (and per batch shape).
struct StepKey {
  bool first;   ///< the first batch of an accumulation window: gradients are cleared in it
  bool closes;  ///< the last batch of its window: an optimizer step follows
  int divisor;  ///< the window's length: backward starts from 1 / divisor

  friend constexpr bool operator==(StepKey const&, StepKey const&) = default;
};

}  // namespace fulgurite

namespace fulgurite::loop {

// What a strategy throws whose check finds that steps were replayed wrongly.

/// The fit goes back to where all was well; where it cannot, this is what ends it. `reason`: what the user's code did,
/// for the warning. `same_model`: it consists of the tensors that it had. `no_way`: why the fit cannot go back.
class WrongReplay : public Error {
 public:
  WrongReplay(std::string const& why, bool same, std::string const& no_way = "nobody has asked");
  std::string reason;
  bool same_model;
};

}  // namespace fulgurite::loop

namespace fulgurite {

// Truncated back-propagation through time: a batch is cut along time, each slice is a step of its own, a state is
// carried between them.

/// A model that declares `using Hidden = ...;` is trained slice by slice (`Automatic{.tbptt = k}`): its step is
/// `training_step(batch, std::optional<Hidden> const& hidden, ctx)`, with nothing in `hidden` at the first slice of a
/// batch, and returns a struct with `.loss` and `.hidden`, which the next slice receives detached.
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

/// The training step in whichever form the model has.
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

/// The slices of a batch, in order of time: the model's own `tbptt_split_batch(batch, k, ctx)`, or the backend's.
template <class R, class Batch, class Ctx>
auto time_slices(typename R::Model& model, Batch& batch, long length, Ctx& ctx) {
  if constexpr (hook::tbptt_split_batch::named<typename R::Model>)
    return call_override<hook::tbptt_split_batch>(model, ctx, batch, length);
  else return R::Backend::time_slices(batch, length);
}

/// k and what the model declares belong together; windows of several batches and slices do not.
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

/// Where a batch lies in its accumulation window.
struct WindowPlace {
  StepKey key;
  double rescale;  ///< of the gradients, where the window turned out shorter than its divisor (unsized loaders)
};

/// Windows restart each epoch; the last one may be shorter, and is the mean of the batches it has. `seen` batches of it
/// came before; they are fewer than its places where a loader left some out. `end`: the batch after it, if the loader
/// goes on so far.
inline WindowPlace window_of(long b, long start, long seen, long end, std::optional<long> batches, bool last) {
  long const divisor = (batches ? std::min(end, *batches) : end) - start;
  bool const closes = b + 1 == end || last;
  double const rescale =
      closes && seen + 1 != divisor ? static_cast<double>(divisor) / static_cast<double>(seen + 1) : 1.0;
  return {{seen == 0, closes, static_cast<int>(divisor)}, rescale};
}

// What a run remembers of its search for losses and gradients that are infinite or not a number.

/// Whether they are looked for; `found`: the window at hand has one, and its update is to be left out.
enum class Look : std::uint8_t { off, on, found };

/// Value: a tensor.
template <class Value>
struct FiniteWatch {
  Look look = Look::off;
  bool fresh = false;  ///< something was noted since `noted` was read
  /// Kept on the device, so that the host need not wait: it is not a number from the first such loss on.
  std::optional<Value> noted = std::nullopt;
  long read_at = 0;                ///< global_step when `noted` was read last
  int scaled_out = 0;              ///< updates that a scaler has left out since the last one that it let through
  std::vector<Value> before = {};  ///< weights as they were before a step that evaluates a closure
};

// The order of clear, backward and step in manual optimization is the user's; what is almost always a mistake in it is
// said once.

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

// Part of a run's state: what is watched while it goes.

template <class R>
struct Watch {
  FiniteWatch<typename R::Value> finite{};
  std::conditional_t<R::automatic, ManualWatch<0>, ManualWatch<Optimizers<R>::count>> manual{};
};

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/context_reads.ipp>
#endif
