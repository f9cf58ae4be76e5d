#pragma once
// One batch of automatic optimization: its gradients, and at the end of a window clipping and the update.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>

namespace fulgurite {

/// The argument of an overridden `optimizer_step(optimizer, closure, ctx)`. `optimizer.step(closure)` steps as the
/// precision requires. A rate that is set here is the optimizer's until a schedule moves it:
///
///     void optimizer_step(auto& optimizer, auto&& closure, auto& ctx) {
///       if (ctx.global_step() < 500) optimizer.set_lr(0, 1e-3 * (ctx.global_step() + 1) / 500);
///       optimizer.step(closure);
///     }
template <class R, class O>
class SteppingOptimizer {
 public:
  SteppingOptimizer(loop::State<R>& run, O& optimizer) : run_(run), optimizer_(optimizer) {}

  /// Runs the closure (once, or as often as the optimizer evaluates it) and updates the parameters.
  template <class Closure>
  void step(Closure&& closure) {
    if constexpr (O::needs_closure) {
      optimizer_.step(std::forward<Closure>(closure));
    } else {
      closure();
      loop::guarded(run_, run_.facts.has_gradients, [this] { optimizer_.step(); });
    }
  }
  std::size_t groups() const { return optimizer_.groups(); }
  double lr(std::size_t group = 0) const { return optimizer_.lr(group); }
  void set_lr(std::size_t group, double value) { optimizer_.set_lr(group, value); }
  /// The optimizer itself, as `ctx.optimizer()`.
  O& optimizer() { return optimizer_; }

 private:
  loop::State<R>& run_;
  O& optimizer_;
};

namespace loop {

// A step as a strategy that replays steps receives it. The strategy can run it, find out which values of the context it
// depends on, and run it again as an earlier step.

/// The current value of a context member that can be compared; -1 if there is none.
template <class R>
std::int64_t answer(State<R>& run, Question question) {
  using enum Question;
  switch (question) {
  case global_step: return run.progress.global_step;
  case skipped_steps: return run.progress.skipped_steps;
  case logged_steps: return run.progress.logged_steps;
  case current_epoch: return run.progress.epoch;
  case batch_idx: return run.facts.batch_idx;
  case batch_size: return run.facts.batch_size;
  case is_last_batch: return run.facts.is_last_batch;
  case accumulating: return run.facts.accumulating;
  case stop_requested: return loop::stop_requested(run);
  case accumulate_grad_batches: return run.asked.window_length;
  case num_training_batches: return run.facts.train_batches.value_or(-1);
  case estimated_steps: return loop::estimated_steps(run).value_or(-1);  // may ask the loader for its size
  default: return 0;
  }
}

/// Sets such a value, for a step that runs again as an earlier one. Sizes of the run cannot be set.
template <class R>
void set_answer(State<R>& run, Question question, std::int64_t to) {
  using enum Question;
  switch (question) {
  case global_step: run.progress.global_step = to; return;
  case skipped_steps: run.progress.skipped_steps = to; return;
  case logged_steps: run.progress.logged_steps = to; return;
  case current_epoch: run.progress.epoch = static_cast<int>(to); return;
  case batch_idx: run.facts.batch_idx = to; return;
  case batch_size: run.facts.batch_size = to; return;
  case is_last_batch: run.facts.is_last_batch = to != 0; return;
  case accumulating: run.facts.accumulating = to != 0; return;
  case stop_requested:
    run.due.stop = {};
    run.due.stop.holds = to != 0;
    return;
  case accumulate_grad_batches: run.asked.window_length = static_cast<int>(to); return;
  default: return;
  }
}

/// `body(batch, key)` runs training_step, clearing and backward; in manual optimization, training_step with all that it
/// asks its context for, and `body.act(turn, loss)` what the trainer does in the middle of it. If the model carries a
/// state from slice to slice, the strategy's batch is a pair of a slice and of the state that it receives.
template <class R, class Body>
class StepSeam {
 public:
  static constexpr bool is_manual = !R::automatic, scales = scales_loss<R>;

  /// `apart(run, key)`: why the strategy may not make the step's update; nullptr if it may. `rescales`: the trainer
  /// multiplies the gradients of this step before the update.
  StepSeam(State<R>& run, StepKey key, Body& body, char const* (*apart)(State<R>&, StepKey) = nullptr,
           bool rescales = false, AverageOfStep<typename R::Value> const& average = {})
      : run_(run), key_(key), body_(body), update_apart_(apart), rescales_(rescales), average_(average) {}

  template <class Batch>
  auto operator()(Batch& batch) {
    if constexpr (carries<Batch>) {
      run_.carried.hidden = batch.second;
      return body_(batch.first, key_);
    } else {
      return body_(batch, key_);
    }
  }

  void act(Turn turn, typename R::Value const& loss) { body_.act(turn, loss); }

  // The update that follows the step's gradients, for a strategy that can make it in a replay.

  /// Why it may not, in all steps of this kind; nullptr if it may; empty if no update follows.
  char const* update_apart() const { return update_apart_ ? update_apart_(run_, key_) : ""; }
  /// True if this step's window has fewer batches than its divisor says, so that it may not in this step.
  bool rescales() const { return rescales_; }
  /// The optimizer of automatic optimization.
  auto& optimizer() const { return std::get<0>(run_.parts.optimizers->optimizers); }
  /// The limit of the gradients before it.
  Clip clip() const { return run_.optimization.clip; }
  /// The scaler of the loss, if the precision scales it.
  auto& scaler() const { return *run_.parts.scaler; }
  /// True if losses and norms that must be finite are kept on the device, to be read later.
  bool notes() const { return looks(NonFinite::stop); }
  /// True if the update is left out where a loss of its window or a gradient is not finite.
  bool skips() const { return looks(NonFinite::skip); }
  /// If so: numbers that are finite if the losses of the window so far are.
  std::span<typename R::Value const> earlier_losses() const {
    if (!skips()) return {};
    return run_.watch.finite.noted;
  }
  /// The loss among the step's results, if it is one number.
  template <class Result>
  static auto const* loss_to_note(Result const& result) {
    auto const* const loss = loss_of<typename R::Backend>(result);
    return loss && R::Backend::is_number(*loss) ? loss : nullptr;
  }
  /// The average that follows the update with no code of the program between, if there is one. A skipped update has
  /// one, too.
  AverageOfStep<typename R::Value> const& average() const { return average_; }
  /// The replay has noted, unscaled, clipped and updated: the trainer leaves these out. `noted`: what the replay has
  /// noted in. It has left the update out where gradients or a loss were not finite, if that is asked for, and it may
  /// have made the average: `outcome` says what it has done.
  template <class Outcome>
  void set_updated(typename R::Value const& noted, Outcome const& outcome) {
    run_.facts.updated = true;
    run_.facts.fits = outcome.gradients_fit;
    if (outcome.averaged) *average_.made = true;
    auto& all = run_.watch.finite.noted;
    if (skips()) all.clear();
    bool const both = outcome.gradients_fit && outcome.loss_fits;
    if (scales ? outcome.gradients_fit && !both : !both) [[unlikely]]
      found_non_finite(run_, loss_or_gradient);
    if (notes() && std::ranges::none_of(all, [&](auto const& one) { return R::Backend::same(one, noted); }))
      all.push_back(noted);
  }

  int epoch() const { return run_.progress.epoch; }
  /// True if no batch follows in this epoch.
  bool is_last() const { return run_.facts.is_last_batch; }

  /// What the context was asked for since the last `forget_questions`.
  Questions const& questions() const { return run_.questions; }
  void forget_questions() { run_.questions = {}; }
  /// What the context has answered in this step. A step by hand has changed the counts of updates itself, and they are
  /// compared before the next one: so as they were when it began.
  Answers answers(Questions const& asked) const {
    Answers all{.asked = asked};
    each_comparable(
        asked, [&](Question question) { all.numbers[static_cast<std::size_t>(question)] = answer(run_, question); });
    all.numbers[static_cast<std::size_t>(Question::global_step)] = steps_before_;
    all.numbers[static_cast<std::size_t>(Question::skipped_steps)] = skipped_before_;
    return all;
  }
  /// The first value that differs from `before`.
  std::optional<Question> changed(Answers const& before) const {
    std::optional<Question> first;
    if (before.asked.empty()) return first;
    each_comparable(before.asked, [&](Question question) {
      if (!first && before.numbers[static_cast<std::size_t>(question)] != answer(run_, question)) first = question;
    });
    return first;
  }

  /// The weight of what this step logs.
  long batch_size() const { return run_.facts.batch_size; }
  /// Calls f() with the window position, the context's values and the size of an earlier batch. Everything is restored
  /// afterwards, including which gradients count as received, and the state for the next slice.
  template <class F>
  decltype(auto) as(StepKey key, long batch_size, Answers const& answers, F&& f) {
    Outside const outside(run_, key_);
    key_ = key;
    run_.facts.batch_size = batch_size;
    run_.facts.in_batch = true;
    each_comparable(answers.asked, [&](Question question) {
      set_answer(run_, question, answers.numbers[static_cast<std::size_t>(question)]);
    });
    return f();
  }

 private:
  bool looks(NonFinite how) const { return run_.watch.finite.look == Look::on && run_.asked.options.non_finite == how; }

  using Hidden = decltype(State<R>::carried.hidden);
  template <class Batch>
  static constexpr bool carries = Recurrent<typename R::Model> && requires(Batch& batch) {
    { batch.second } -> std::same_as<Hidden&>;
  };

  /// Restores what `as` changes.
  class Outside : Pinned {
   public:
    Outside(State<R>& run, StepKey& key) : run_(run), key_(key), before_(of(run, key)) {
      each_that_receives([&](auto& optimizer) { received_.push_back(optimizer.received()); });
    }
    ~Outside() {
      of(run_, key_) = before_;
      each_that_receives([&, i = std::size_t{0}](auto& optimizer) mutable { optimizer.set_received(received_[i++]); });
    }

   private:
    static std::tuple<Facts&, Progress&, int&, StopRequest&, Hidden&, StepKey&> of(State<R>& run, StepKey& key) {
      return {run.facts, run.progress, run.asked.window_length, run.due.stop, run.carried.hidden, key};
    }
    template <class F>
    void each_that_receives(F f) {
      each_of(run_.parts.optimizers->optimizers, [&](auto& optimizer) {
        if constexpr (requires { optimizer.received(); }) f(optimizer);
      });
    }

    State<R>& run_;
    StepKey& key_;
    std::tuple<Facts, Progress, int, StopRequest, Hidden, StepKey> before_;
    std::vector<std::vector<bool>> received_ = {};
  };

  State<R>& run_;
  StepKey key_;
  Body& body_;
  char const* (*update_apart_)(State<R>&, StepKey);
  bool rescales_;
  AverageOfStep<typename R::Value> average_;
  long steps_before_ = run_.progress.global_step, skipped_before_ = run_.progress.skipped_steps;
};

/// True if someone sees the closure's result: an optimizer that evaluates it, or the model's own optimizer_step.
template <class R>
inline constexpr bool closure_is_shown = Optimizers<R>::needs_closure || hook::optimizer_step::named<typename R::Model>;

/// Clears the gradients of the previous window, after on_before_zero_grad.
template <class R, class Pack, class Ctx>
[[gnu::always_inline]] inline void clear_gradients(State<R>& run, Pack& pack, Ctx& ctx) {
  auto& optimizer = std::get<0>(run.parts.optimizers->optimizers);
  notify<hook::on_before_zero_grad>(run, pack, optimizer, ctx);
  [[maybe_unused]] auto const watched = pack.template profile<action::zero_grad<R>>();
  if constexpr (hook::optimizer_zero_grad::named<typename R::Model>)
    call_override<hook::optimizer_zero_grad>(*run.parts.model, ctx, optimizer);
  else optimizer.zero_grad();
}

/// training_step, clearing and backward: everything that a capture records.
template <class R, class Pack, class Ctx>
[[gnu::always_inline]] inline auto step_body(State<R>& run, Pack& pack, Ctx& ctx) {
  return [&run, &pack, &ctx](auto& taken, StepKey key) __attribute__((always_inline)) {
    using Backend = typename R::Backend;
    auto& model = *run.parts.model;
    auto result = [&] {
      [[maybe_unused]] auto const watched = pack.template profile<action::training_step<R>>();
      [[maybe_unused]] auto const scope = Backend::autocast(run.parts.precision, run.parts.strategy.device());
      [[maybe_unused]] auto const watch = watch_factories(run);
      return call_training_step(model, taken, run.carried.hidden, ctx);
    }();
    check_loss_type(run, loss_of<Backend>(result));
    if (key.first) clear_gradients(run, pack, ctx);
    if (auto* loss = loss_of<Backend>(result)) {
      if constexpr (hook::pre_backward::named<typename R::Strategy>) run.parts.strategy.pre_backward(*loss);
      notify<hook::on_before_backward>(run, pack, *loss, ctx);
      {
        [[maybe_unused]] auto const watched = pack.template profile<action::backward<R>>();
        backward(run, ctx, *loss, 1.0 / key.divisor);
      }
      notify<hook::on_after_backward>(run, pack, ctx);
      if constexpr (hook::post_backward::named<typename R::Strategy>) run.parts.strategy.post_backward(*loss);
    }
    return result;
  };
}

// Steps of a strategy that splits the model: each process runs its part. A batch is cut into micro batches, whose
// forward and backward passes alternate. Only the last process runs the model's step to its end and has its output.

/// The functions that the strategy calls for each micro batch, in an order that it chooses.
template <class R, class Pack, class Ctx>
struct SplitStep {
  State<R>& run;
  Pack& pack;
  Ctx& ctx;
  StepKey key;

  /// Runs training_step. What it logs is weighted by the samples of the micro batch.
  template <class Batch>
  typename R::Value forward(Batch& micro_batch) {
    [[maybe_unused]] auto const watched = pack.template profile<action::training_step<R>>();
    [[maybe_unused]] auto const scope = R::Backend::autocast(run.parts.precision, run.parts.strategy.device());
    [[maybe_unused]] auto const watch = watch_factories(run);
    measure(run, micro_batch);
    auto loss = call_training_step(*run.parts.model, micro_batch, run.carried.hidden, ctx);
    check_loss_type(run, &loss);
    return loss;
  }
  /// Runs on the process that has the loss, for one of `count` micro batches.
  void backward(typename R::Value& loss, int count) {
    notify<hook::on_before_backward>(run, pack, loss, ctx);
    [[maybe_unused]] auto const watched = pack.template profile<action::backward<R>>();
    loop::backward(run, ctx, loss, 1.0 / (key.divisor * count));
  }
};

/// Computes the gradients of one batch. Returns the mean of its losses on all processes.
template <class R, class Pack, class Ctx, class Batch>
typename R::Value split_gradients(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key) {
  if (key.first) clear_gradients(run, pack, ctx);
  SplitStep<R, Pack, Ctx> step{run, pack, ctx, key};
  auto loss = run.parts.strategy.gradients(key, batch, run.measured.train_board, step);
  measure(run, batch);
  notify<hook::on_after_backward>(run, pack, ctx);
  return loss;
}

/// Passes the warnings of a strategy that replays steps to the run's warnings.
template <class R>
void pass_warnings_of_strategy(State<R>& run) {
  if constexpr (ChecksReplays<typename R::Strategy>)
    run.parts.strategy.pass_warnings(
        [&](std::string_view identifier, std::string_view sentence) { run.warn_each(identifier, sentence); });
}

/// Why the update may not be made together with the gradients of this step, as a strategy that replays steps may do;
/// nullptr if it may: then no code of the program and no decision of the trainer stands between the two, unless the
/// window is shorter than expected. Empty if no update follows. It is the same for all steps of a fit with this key.
template <class R, class Pack>
char const* update_apart([[maybe_unused]] State<R>& run, [[maybe_unused]] StepKey key) {
  using Model = typename R::Model;
  if (!key.closes) return "";
  if constexpr (shares<R>) return "the ranks exchange their gradients before it";
  else if constexpr (Optimizers<R>::needs_closure) return "the optimizer evaluates a closure";
  else if constexpr (hook::optimizer_step::named<Model>) return "the model overrides optimizer_step";
  else if constexpr (hook::configure_gradient_clipping::named<Model>)
    return "the model overrides configure_gradient_clipping";
  else if constexpr (!nobody_between<R, Pack>)
    return "the model or a callback has on_after_backward or on_before_optimizer_step";
  else {
    if (run.watch.finite.look == Look::off) return nullptr;
    bool const waits = R::Backend::gradients_wait(std::get<0>(run.parts.optimizers->optimizers).parameters());
    return waits ? nullptr : "the loss and the gradients are looked at before it";
  }
}

/// The first of the callbacks that have a hook, as its position in the pack; the pack's size if none has it.
template <class Hook, class Pack>
inline constexpr std::size_t first_with = []<std::size_t... I>(std::index_sequence<I...>) {
  std::size_t first = Pack::size;
  ((first == Pack::size && Hook::template named<typename Pack::template At<Pack::firing_order[I]>>
        ? void(first = Pack::firing_order[I])
        : void()),
   ...);
  return first;
}(std::make_index_sequence<Pack::size>());

/// The average that follows the update of the current step with no code of the program between; see AverageOfStep.
template <class R, class Pack>
AverageOfStep<typename R::Value> average_of_step([[maybe_unused]] State<R>& run, [[maybe_unused]] Pack& pack) {
  constexpr auto first = first_with<hook::on_train_batch_end, Pack>;
  if constexpr (first != Pack::size && !Recurrent<typename R::Model> &&
                !hook::lr_scheduler_step::named<typename R::Model>) {
    auto& callback = pack.slots.template get<first>();
    using Callback = std::remove_cvref_t<decltype(callback)>;
    if constexpr (requires { requires std::same_as<typename Callback::AveragesEachStep, Callback>; })
      return callback.template average_of_step<typename R::Backend>(run.progress.global_step);
  }
  return {};
}

/// Computes the gradients of one batch, through the strategy's `gradients`. `rescales`: they are multiplied after it.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto gradients(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key,
                                             [[maybe_unused]] bool rescales = false) {
  using Backend = typename R::Backend;
  [[maybe_unused]] auto body = step_body(run, pack, ctx);
  begin_looks<R, Pack>(run, key);
  leave_gradients(run, key);
  auto output = [&] {
    if constexpr (splits_model<R>) {
      return split_gradients(run, pack, ctx, batch, key);
    } else if constexpr (ChecksReplays<typename R::Strategy>) {
      StepSeam<R, decltype(body)> seam(run, key, body, &update_apart<R, Pack>, rescales, average_of_step(run, pack));
      run.facts.updated = false;
      auto made = [&] {
        if constexpr (Recurrent<typename R::Model> && std::copyable<std::remove_const_t<Batch>>) {
          std::pair inputs(batch, run.carried.hidden);
          return run.parts.strategy.gradients(key, inputs, run.measured.train_board, seam);
        } else {
          return run.parts.strategy.gradients(key, batch, run.measured.train_board, seam);
        }
      }();
      pass_warnings_of_strategy(run);
      return made;
    } else {
      return run.parts.strategy.gradients(key, batch, run.measured.train_board,
                                          [&](auto& taken) { return body(taken, key); });
    }
  }();
  if constexpr (scales_loss<R>)
    run.facts.has_gradients = loss_of<Backend>(output) != nullptr || (run.facts.has_gradients && !key.first);
  if (updated_in_replay(run)) noted(run);
  else if (auto* loss = loss_of<Backend>(output)) check_loss(run, *loss);
  if constexpr (closure_is_shown<R>)
    if (auto* loss = loss_of<Backend>(output)) run.carried.loss = Backend::detached(*loss, 1.0);
  return output;
}

/// Between the gradients and the update: unscaling, the hook, the check for non-finite gradients, clipping. `as_made`:
/// the gradients are unchanged since backward.
template <class R, class Pack, class Ctx>
[[gnu::always_inline]] inline void before_update(State<R>& run, Pack& pack, Ctx& ctx, typename R::Value const* loss,
                                                 bool as_made) {
  if (updated_in_replay(run)) return;
  bool const seen = as_made && looks_early<R, Pack>;
  auto& model = *run.parts.model;
  auto& optimizer = std::get<0>(run.parts.optimizers->optimizers);
  if (run.facts.has_gradients) unscale(run, optimizer);
  notify<hook::on_before_optimizer_step>(run, pack, optimizer, ctx);
  [[maybe_unused]] auto const watched = pack.template profile<action::clipping<R>>();
  Clip clip = run.optimization.clip;
  if constexpr (hook::configure_gradient_clipping::named<typename R::Model>) {
    check_gradients(run, optimizer, loss, seen);
    call_override<hook::configure_gradient_clipping>(model, ctx, optimizer, clip);
  } else if (clip.kind == Clip::Kind::norm) {
    check_norm(run, optimizer, ctx.clip_gradients(optimizer, clip), loss);
  } else {
    check_gradients(run, optimizer, loss, seen);
    if (clip.kind == Clip::Kind::value) ctx.clip_gradients(optimizer, clip);
  }
}

/// The update of a window. The closure makes the (last) gradients and returns the loss. `repeatable`: the window has
/// one batch, so evaluating the closure again makes the same gradients.
template <class R, class Pack, class Ctx, class Closure>
[[gnu::always_inline]] inline void update(State<R>& run, Pack& pack, Ctx& ctx, [[maybe_unused]] bool repeatable,
                                          Closure&& closure) {
  using Step = action::optimizer_step<R>;
  auto& optimizer = std::get<0>(run.parts.optimizers->optimizers);
  using Optimizer = std::remove_cvref_t<decltype(optimizer)>;
  if constexpr (hook::optimizer_step::named<typename R::Model>) {
    int runs = 0;
    auto counted = [&] {
      if (++runs > 1 && !repeatable)
        throw Error("fulgurite.hook.closure_repeated",
                    "optimizer_step ran its closure again in a window of several batches, which would "
                    "repeat the last of them alone: use accumulate_grad_batches = 1");
      return closure();
    };
    SteppingOptimizer<R, Optimizer> stepping(run, optimizer);
    auto const step = [&] { call_override<hook::optimizer_step>(*run.parts.model, ctx, stepping, counted); };
    {
      [[maybe_unused]] auto const watched = pack.template profile<Step>();
      if constexpr (Optimizer::needs_closure) closure_step(run, optimizer, step);
      else step();
    }
    if (runs == 0)
      throw Error(
          "fulgurite.hook.closure_not_run",
          "optimizer_step never ran its closure, so this batch had no training_step: call optimizer.step(closure)");
    require_left_out(run);
  } else if constexpr (Optimizer::needs_closure) {
    [[maybe_unused]] auto const watched = pack.template profile<Step>();
    closure_step(run, optimizer, [&] { optimizer.step(closure); });
  } else {
    closure();
    {
      [[maybe_unused]] auto const watched = pack.template profile<Step>();
      guarded(run, run.facts.has_gradients, [&] {
        if (!updated_in_replay(run)) optimizer.step();
      });
    }
    run.facts.updated = false;
  }
  ++run.progress.global_step;
  tick_schedulers(run, ctx, Interval::step);
}

/// Runs one batch. Returns the step's result; the last one if the closure was evaluated several times.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto automatic_step(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key,
                                                  double rescale) {
  using Backend = typename R::Backend;
  if (!key.closes) [[unlikely]]
    return gradients(run, pack, ctx, batch, key);
  using Result = decltype(gradients(run, pack, ctx, batch, key));
  std::optional<Result> result;
  update(run, pack, ctx, key.first, [&] {
    if (result) run.measured.train_board.discard_step();
    result.emplace(gradients(run, pack, ctx, batch, key, rescale != 1.0));
    if (rescale != 1.0) Backend::scale_gradients(std::get<0>(run.parts.optimizers->optimizers).parameters(), rescale);
    if constexpr (shares<R>) {
      [[maybe_unused]] auto const watched = pack.template profile<action::exchange<R>>();
      exchange(run);
    }
    before_update(run, pack, ctx, loss_of<Backend>(*result), rescale == 1.0);
    if constexpr (Optimizers<R>::needs_closure) evaluated(run);
    if constexpr (closure_is_shown<R>) return loss_of<Backend>(*result) ? run.carried.loss : typename Backend::Value{};
    else return typename Backend::Value{};
  });
  return std::move(*result);
}

/// Ends a window before its last batch (on a stop): steps with the mean gradients of its batches so far. With several
/// ranks all step, also a rank without batches, for which `rescale` is 0. Returns true if there was a step.
template <class R, class Pack, class Ctx>
bool flush_window(State<R>& run, Pack& pack, Ctx& ctx, double rescale) {
  auto const flush = [&] { run.parts.strategy.flush(std::get<0>(run.parts.optimizers->optimizers), rescale); };
  if constexpr (shares<R>) {
    bool const contributes = rescale != 0;
    if (contributes) flush();
    else std::get<0>(run.parts.optimizers->optimizers).zero_grad();  // clears the gradients of the last step
    if (!exchange(run, contributes)) return false;
    if constexpr (scales_loss<R>) run.facts.has_gradients = true;  // those of the other ranks, if not its own
  }
  update(run, pack, ctx, false, [&] {
    if constexpr (!shares<R>) flush();
    before_update(run, pack, ctx, nullptr, false);
    return run.carried.loss;
  });
  return true;
}

}  // namespace loop
}  // namespace fulgurite
