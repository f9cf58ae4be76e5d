#pragma once
// The one reduction of a step with several ranks: that of its gradients. Everything else that ranks must exchange in a
// step travels with them.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite::loop {

/// The flags that are summed along with the gradients: each becomes the number of ranks that set it. `place` is the
/// first bit of a number by which ranks in manual optimization check that the gradients belong to the same batch. After
/// it follows one bit for each optimizer that the rank has stepped since the last exchange.
enum class Rider : std::uint8_t {
  contributes,
  stop,
  time_is_up,
  epoch_ends,
  skips,
  not_finite,
  validates,
  signal,
  rings,
  place
};
/// A number is sent bit by bit, each bit as the count of ranks that have it set, because a gradient's type may not hold
/// large integers. 32 bits are enough for two thousand million batches an epoch.
template <class R>
inline constexpr std::size_t place_bits = R::automatic ? 0 : 32;
template <class R>
inline constexpr std::size_t step_bits = R::automatic ? 0 : Optimizers<R>::count;

/// Reads losses that are still on a device before the reduction, if all ranks must skip an update together.
template <class R>
void read_waiting_loss(State<R>& run) {
  auto& finite = run.watch.finite;
  if (!finite.fresh || run.asked.options.non_finite != NonFinite::skip) return;
  double value = 0;
  R::Backend::read_all(std::span<typename R::Value const>(&*finite.noted, 1), std::span<double>(&value, 1));
  finite.fresh = false;
  finite.noted.reset();
  if (is_finite(value)) return;
  run.shared.not_finite = true;
  run.shared.loss = value;
}

template <class R>
bool first_clock_is_due(State<R> const& run) {
  if (run.asked.options.val_check_interval.kind != ValidationInterval::Kind::time) return false;
  if (run.parts.strategy.rank() != 0 || !run.facts.has_validation || !run.clock.last_validation) return false;
  return validation_time_is_up(run);
}

template <class R>
bool first_clock_rings(State<R> const& run) {
  return run.parts.strategy.rank() == 0 && run.shared.alarm != std::numeric_limits<double>::infinity() &&
         seconds_now(run) >= run.shared.alarm;
}

/// Replaces the gradients by their mean over the ranks that have some, and exchanges the flags. `contributes`: this
/// rank has gradients. Returns true if any rank has; with one process, `contributes`. Every rank must call this once a
/// step, before anything reads the gradients. Throws on all ranks if a loss of one is not finite and training must stop
/// for that.
template <class R>
[[gnu::always_inline]] inline bool exchange(State<R>& run, bool contributes = true) {
  if constexpr (shares<R>) return exchange_riders(run, contributes);
  else return contributes;
}

/// Checks gradients that only this rank has. If they are not finite, the other ranks learn of it in the next exchange.
template <class R>
void look_at_own_gradients(State<R>& run) {
  if (run.watch.finite.look != Look::on || run.shared.not_finite) return;
  bool finite = true;
  each_of(run.parts.optimizers->optimizers,
          [&](auto& o) { finite = finite && R::Backend::gradients_finite(o.parameters()); });
  run.shared.not_finite = run.shared.in_gradients = !finite;
}

/// Manual optimization: records that this rank steps an optimizer. The other ranks learn of it with the next gradients.
template <class R, class Optimizer>
void note_step([[maybe_unused]] State<R>& run, [[maybe_unused]] Optimizer const& stepped) {
  if constexpr (shares<R>) {
    std::size_t i = 0;
    each_of(run.parts.optimizers->optimizers, [&](auto& o) {
      if (static_cast<void const*>(&o) == &stepped) run.shared.stepped |= std::uint64_t{1} << i;
      ++i;
    });
  }
}

/// Throws [fulgurite.distributed.parted] on all ranks if only some of them have stepped an optimizer manually. `bits`:
/// for each optimizer, the number of ranks that have stepped it since the last exchange.
template <class R>
void require_same_steps(State<R>& run, std::span<double const> bits) {
  for (std::size_t i = 0; i != bits.size(); ++i) {
    if (bits[i] == 0 || bits[i] == run.parts.strategy.world()) continue;
    run.shared.together = true;
    throw Error("fulgurite.distributed.parted",
                "ranks have parted under manual optimization: some have stepped optimizer " + std::to_string(i) +
                    " and some have not, so their weights differ. All ranks have to step the same optimizers in each "
                    "batch: let nothing that decides it depend on the rank");
  }
}
template <class R>
void tell_steps(State<R>& run, std::span<double> bits) {
  auto const stepped = std::exchange(run.shared.stepped, 0);
  for (std::size_t i = 0; i != bits.size(); ++i) bits[i] = static_cast<double>(stepped >> i & 1);
}
/// Compares the last steps of a fit, after which no gradients are exchanged. A collective.
template <class R>
void compare_last_steps([[maybe_unused]] State<R>& run) {
  if constexpr (shares<R> && !R::automatic) {
    std::array<double, step_bits<R>> bits{};
    std::array<Reduce, step_bits<R>> how{};
    how.fill(Reduce::sum);
    tell_steps(run, bits);
    run.parts.strategy.reduce_in_place(bits, how);
    require_same_steps(run, bits);
  }
}

/// Manual optimization: each rank steps in its own training_step, so no rank can make the step of a batch that it left
/// out. Throws [fulgurite.distributed.parted] on all ranks if they are at different batches. `bits`: the summed bits of
/// the batch number.
template <class R>
void require_same_place(State<R>& run, std::span<double const> bits) {
  for (double const bit : bits) {
    if (bit == 0 || bit == run.parts.strategy.world()) continue;
    run.shared.together = true;
    throw Error("fulgurite.distributed.parted",
                "ranks have parted under manual optimization: rank " + std::to_string(run.parts.strategy.rank()) +
                    " is at batch " + std::to_string(run.facts.batch_idx) + " of epoch " +
                    std::to_string(run.progress.epoch) +
                    " and another rank at another one. All ranks have to leave out the same batches, skip the same "
                    "epochs, and call ctx.backward equally often, since each steps for itself");
  }
}

template <class R>
[[gnu::noinline]] bool exchange_riders(State<R>& run, bool contributes) {
  auto& shared = run.shared;
  read_waiting_loss(run);
  if constexpr (splits_model<R>) look_at_own_gradients(run);
  std::array<double, static_cast<std::size_t>(Rider::place) + place_bits<R> + step_bits<R>> riders{};
  auto const rider = [&](Rider which) -> double& { return riders[static_cast<std::size_t>(which)]; };
  auto const says = [&](Rider which, bool so) { rider(which) = so ? 1 : 0; };
  says(Rider::contributes, contributes);
  bool const wishes = std::exchange(run.due.stop.waits, false);
  says(Rider::stop, wishes && !run.due.stop.by_time);
  says(Rider::time_is_up, wishes && run.due.stop.by_time);
  says(Rider::epoch_ends, run.facts.is_last_batch);
  says(Rider::skips, std::exchange(shared.skips, false));
  says(Rider::not_finite, shared.not_finite);
  says(Rider::validates, first_clock_is_due(run));
  says(Rider::signal, shared.signal != 0);
  says(Rider::rings, first_clock_rings(run));
  if constexpr (!R::automatic) {
    long const place = 2 * run.facts.batch_idx + (contributes ? 0 : 1);
    for (std::size_t bit = 0; bit != place_bits<R>; ++bit)
      riders[static_cast<std::size_t>(Rider::place) + bit] = (place >> bit & 1) != 0 ? 1 : 0;
    tell_steps(run, std::span(riders).last(step_bits<R>));
  }
  run.parts.strategy.reduce_gradients(std::span<double>(riders), run.parts.optimizers->optimizers);

  if constexpr (!R::automatic) {
    std::span<double const> const all(riders);
    require_same_place(run, all.subspan(static_cast<std::size_t>(Rider::place), place_bits<R>));
    require_same_steps(run, all.last(step_bits<R>));
  }
  double const world = run.parts.strategy.world(), with = rider(Rider::contributes);
  if (with != 0 && with != world)
    each_of(run.parts.optimizers->optimizers,
            [&](auto& o) { R::Backend::scale_gradients(o.parameters(), world / with); });
  if (rider(Rider::stop) != 0 || rider(Rider::time_is_up) != 0) hear_stop(run, rider(Rider::stop) == 0);
  shared.skipped = rider(Rider::skips) != 0;
  shared.epoch_ends = shared.skipped || rider(Rider::epoch_ends) != 0;
  if (shared.epoch_ends) run.facts.is_last_batch = true;
  shared.validates = rider(Rider::validates) != 0;
  if (rider(Rider::rings) != 0) {
    shared.rang = true;
    shared.alarm = std::numeric_limits<double>::infinity();
  }
  if (rider(Rider::signal) != 0) shared.ends_by = shared_signal(run, shared.signal);
  if (rider(Rider::not_finite) != 0) [[unlikely]] {
    std::string what = splits_model<R> ? "a loss or a gradient of another rank is not finite"
                                       : "the loss of another rank is not finite";
    bool const in_gradients = std::exchange(shared.in_gradients, false);
    if (std::exchange(shared.not_finite, false)) {
      what = in_gradients ? "a gradient is not finite" : "the loss is " + std::to_string(shared.loss);
      what += " on rank " + std::to_string(run.parts.strategy.rank());
    }
    if (run.watch.finite.look == Look::on) found_non_finite(run, what);
  }
  return with != 0;
}

// Steps of a strategy that splits the model: each process runs its part. A batch is cut into micro batches, whose
// forward and backward passes alternate. Only the last process runs the model's step to its end and has the model's
// output.

/// Clears the gradients of the previous window, after on_before_zero_grad.
template <class R, class Pack, class Ctx>
[[gnu::always_inline]] inline void clear_gradients(State<R>& run, Pack& pack, Ctx& ctx) {
  auto& optimizer = std::get<0>(run.parts.optimizers->optimizers);
  tell<hook::on_before_zero_grad>(run, pack, optimizer, ctx);
  [[maybe_unused]] auto const watched = pack.template profile<action::zero_grad<R>>();
  if constexpr (hook::optimizer_zero_grad::named<typename R::Model>)
    call_override<hook::optimizer_zero_grad>(*run.parts.model, ctx, optimizer);
  else optimizer.zero_grad();
}

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
    tell<hook::on_before_backward>(run, pack, loss, ctx);
    hook::timed<action::backward<R>>(pack)([&] { loop::backward(run, ctx, loss, 1.0 / (key.divisor * count)); });
  }
};

/// Computes the gradients of one batch. Returns the mean of its losses on all processes.
template <class R, class Pack, class Ctx, class Batch>
typename R::Value split_gradients(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key) {
  if (key.first) clear_gradients(run, pack, ctx);
  SplitStep<R, Pack, Ctx> step{run, pack, ctx, key};
  auto loss = run.parts.strategy.gradients(key, batch, run.measured.train_board, step);
  measure(run, batch);
  tell<hook::on_after_backward>(run, pack, ctx);
  return loss;
}

/// Runs `step()`, which is validation_step or test_step, and the end hooks of its batch, with outputs on the process
/// that has them.
template <class Hook, class R, class Pack, class Ctx, class Batch, class Step>
Flow split_evaluation(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, Step&& step) {
  auto& strategy = run.parts.strategy;
  if constexpr (std::is_void_v<decltype(step())>) {
    NoOutput nothing;
    if (strategy.evaluate(batch, step)) return tell<Hook>(run, pack, nothing, batch, ctx);
  } else {
    std::optional<std::remove_cvref_t<decltype(step())>> outputs;
    if (strategy.evaluate(batch, [&] { outputs.emplace(step()); })) return tell<Hook>(run, pack, *outputs, batch, ctx);
  }
  return tell<Hook>(run, pack, batch, ctx);
}

}  // namespace fulgurite::loop
