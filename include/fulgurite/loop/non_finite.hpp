#pragma once
// Losses and gradients that are infinite or not a number are found before the update, which is then not made.
//
// On the CPU, checking a loss is one load, and checking gradients is one pass over memory (or over their norm, if
// clipping computes it anyway). A GPU is not waited for: the losses stay where they are, and are read together with the
// metrics every log_every_n_steps and before anything is written; the weights are checked then.
// The gradients of a scaled loss (Fp16Mixed) are checked by its scaler; the loss itself is never scaled, and is checked
// here.

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite::loop {

// The parts of a step that depend on the precision: types of new tensors, the seed of backward, unscaling.

template <class R>
inline constexpr bool scales_loss = R::Precision::scales_loss;

/// True if the precision's parameters are not float32: then tensors that training_step makes without a type have the
/// wrong one.
template <class R>
concept NamesTypes = R::Precision::parameters != Dtype::float32 && requires(typename R::Precision const& precision) {
  R::Backend::watch_factories(precision, nullptr);
};

/// Watches the first training_step of a fit; a later one only if the first did not run to its end.
template <class R>
auto watch_factories([[maybe_unused]] State<R>& run) {
  if constexpr (NamesTypes<R>) {
    using Report = std::function<void(std::string const&, std::string const&, std::string const&)>;
    auto report = [&run](std::string const& function, std::string const& made, std::string const& wanted) {
      run.warn("fulgurite.precision.default_type",
               "training_step calls torch::" + function + " without a type, which gives " + made +
                   ", where this fit computes in " + wanted + ": name the type, as in torch::" + function +
                   "(..., x.options()) with a tensor of the batch. LibTorch's default type belongs to "
                   "the whole process, so a precision leaves it alone");
    };
    return R::Backend::watch_factories(run.parts.precision, run.facts.types_seen ? Report() : Report(report));
  } else {
    return 0;
  }
}

/// After the first training_step of a fit: warns if something has promoted the loss to another type than the fit's.
template <class R, class Loss>
void check_loss_type(State<R>& run, Loss const* loss) {
  if constexpr (NamesTypes<R>) {
    if (run.facts.types_seen || !loss) return;
    run.facts.types_seen = true;
    if (auto const other = R::Backend::other_type(*loss, run.parts.precision); !other.empty())
      run.warn("fulgurite.precision.loss_type",
               "training_step returns a loss of type " + other + " in a fit of " + std::string(R::Precision::name) +
                   ", so something in it has another type than the batch and the parameters: name the type of what "
                   "training_step makes itself, or convert the loss where that is meant: loss.to(x.scalar_type())");
  }
}

/// Warns once of tensors that receive gradients and are not updated. In a split model inputs of stages do so, too.
template <class R, class Loss>
void check_leaves([[maybe_unused]] State<R>& run, [[maybe_unused]] Loss const& loss) {
  if constexpr (looks_at_gradients<typename R::Backend> && !splits_model<R>) {
    auto& leaves = run.parts.leaves;
    if (leaves.done()) return;
    auto known = R::Backend::weights(*run.parts.model);
    for (auto const& buffer : R::Backend::buffers(*run.parts.model)) known.push_back(buffer);
    each_of(run.parts.optimizers->optimizers, [&](auto& optimizer) {
      for (auto const& parameter : optimizer.parameters()) known.push_back(parameter);
    });
    if (auto const found = leaves.look(loss, run.progress.total_batches, known); !found.empty())
      run.warn("fulgurite.model.unregistered", found);
  }
}

/// The gradient with which backward starts: 1/K, times the precision's scale. The loss itself is never multiplied.
template <class R, class Loss>
auto seed(State<R>& run, Loss& loss, double factor) {
  if constexpr (scales_loss<R>) return run.parts.scaler->seed(loss, factor);
  else return R::Backend::seed(loss, factor);
}

/// Runs backward, or the model's own override. The override receives the loss multiplied by the value of the seed.
template <class R, class Ctx, class Loss>
void backward(State<R>& run, Ctx& ctx, Loss& loss, double factor) {
  auto& model = *run.parts.model;
  R::Backend::require_graph(loss);
  check_leaves(run, loss);
  if constexpr (Overrides<hook::backward, typename R::Model, Ctx, Loss>) {
    double by = factor;
    if constexpr (scales_loss<R>) by *= run.parts.scaler->scale();
    auto scaled = R::Backend::scaled(loss, by);
    call_override<hook::backward>(model, ctx, scaled);
  } else {
    run.parts.strategy.backward(loss, seed(run, loss, factor));
  }
}

template <class R, class O>
void unscale(State<R>& run, O& optimizer) {
  if constexpr (scales_loss<R>) run.parts.scaler->unscale(optimizer.parameters());
}

// Large gradients in a run with one process are checked as soon as backward has made them, if nothing can change them
// before the update, and stay where backward made them, if nothing needs them in one buffer.

/// True if no hook, which might write to a gradient unseen, runs between backward and the check before the update.
template <class R, class Pack>
inline constexpr bool nobody_between =
    !Pack::template names<hook::on_after_backward> && !Pack::template names<hook::on_before_optimizer_step> &&
    !hook::on_after_backward::named<typename R::Model> && !hook::on_before_optimizer_step::named<typename R::Model> &&
    !hook::post_backward::named<typename R::Strategy>;

template <class R, class Pack>
inline constexpr bool looks_early = R::automatic && !scales_loss<R> && !shares<R> && !Optimizers<R>::needs_closure &&
                                    nobody_between<R, Pack> && looks_at_gradients<typename R::Backend>;

/// True if nothing needs gradients in one buffer or after another backward. A window of several batches adds to
/// gradients: if two of them share memory, both would receive what is added to one.
template <class R>
inline constexpr bool may_leave_gradients =
    R::automatic && !shares<R> && !ChecksReplays<typename R::Strategy> &&
    !hook::configure_gradient_clipping::named<typename R::Model> &&
    requires(Optimizers<R>& all) { R::Backend::leave_gradients(all.optimizers, true); };

/// Sets, from this batch's clearing on, whether large gradients stay where backward makes them.
template <class R>
[[gnu::always_inline]] inline void leave_gradients([[maybe_unused]] State<R>& run, [[maybe_unused]] StepKey key) {
  if constexpr (may_leave_gradients<R>) {
    bool const leave = run.asked.window_length == 1 && run.optimization.clip.kind == Clip::Kind::none;
    if (key.first && leave != run.parts.leaves_gradients) [[unlikely]]
      R::Backend::leave_gradients(run.parts.optimizers->optimizers, run.parts.leaves_gradients = leave);
  }
}

/// Called when the optimizers of a fit exist.
template <class R, class Pack>
void arrange_gradients([[maybe_unused]] State<R>& run, Pack const&) {
  run.parts.leaves_gradients = false;
  if constexpr (looks_early<R, Pack>) {
    bool const clips_by_norm = run.optimization.clip.kind == Clip::Kind::norm;  // the norm shows it
    if (run.watch.finite.look == Look::on && !clips_by_norm) run.parts.looks.attach(*run.parts.model);
  }
}
/// Called at the end of a fit: model and optimizers belong to the user again.
template <class R>
void leave_gradients_alone([[maybe_unused]] State<R>& run) {
  if constexpr (looks_at_gradients<typename R::Backend>) run.parts.looks.detach();
  if constexpr (may_leave_gradients<R>)
    if (run.parts.optimizers && std::exchange(run.parts.leaves_gradients, false))
      R::Backend::leave_gradients(run.parts.optimizers->optimizers, false);
}

/// Called before the gradients of a batch.
template <class R, class Pack>
[[gnu::always_inline]] inline void begin_looks([[maybe_unused]] State<R>& run, [[maybe_unused]] StepKey key) {
  if constexpr (looks_early<R, Pack>)
    if (run.parts.looks) [[unlikely]]
      run.parts.looks->begin(key.closes);
}

/// False for infinities and nan: their difference to themselves is nan.
[[gnu::always_inline]] inline bool is_finite(double value) { return !std::isnan(value - value); }

inline constexpr char const* loss_or_gradient = "a loss or a gradient is not finite";

/// True if a replay of the current step has made its update or left it out, with all that stands before it.
template <class R>
[[gnu::always_inline]] inline bool updated_in_replay([[maybe_unused]] State<R> const& run) {
  if constexpr (ChecksReplays<typename R::Strategy>) return run.facts.updated;
  else return false;
}

/// Called at the start of a fit.
template <class R>
void watch_finite(State<R>& run) {
  run.watch.finite = {};
  if (run.asked.options.non_finite != NonFinite::ignore) run.watch.finite.look = Look::on;
  run.watch.finite.read_at = run.progress.global_step;
}

/// Handles a non-finite value in the current batch: throws, or lets the update of its window be skipped.
template <class R>
[[gnu::cold, gnu::noinline]] void found_non_finite(State<R>& run, std::string const& what) {
  bool const stops = run.asked.options.non_finite == NonFinite::stop;
  if constexpr (shares<R>) run.shared.together |= stops;  // gradients are those of all ranks, too
  // A buffer that the current batch has set to nan, such as the statistics of a batch norm: it was written before the
  // loss was known, and there is no copy of it.
  std::string const spoiled = R::Backend::buffer_with_nan(*run.parts.model);
  if (stops) refuse_update(run, what, spoiled);
  run.watch.finite.look = Look::found;
  warn_of_skipped(run, what, spoiled);
}

template <class R>
[[gnu::cold, gnu::noinline]] void found_loss(State<R>& run, double loss) {
  if (run.watch.finite.look != Look::on) return;
  if constexpr (shares<R>) {  // all ranks receive it with their gradients
    run.shared.not_finite = true;
    run.shared.loss = loss;
  } else {
    found_non_finite(run, not_finite_loss(loss));
  }
}
/// `loss`: that of the current batch, or nullptr.
template <class R>
[[gnu::cold, gnu::noinline]] void found_gradient(State<R>& run, typename R::Value const* loss) {
  std::optional<double> number;
  if (loss && R::Backend::is_number(*loss)) number = R::Backend::read(*loss);
  found_non_finite(run, not_finite_gradient(number));
}

/// Reads what was noted on a device, together with waiting metrics, and checks the weights. Throws
/// [fulgurite.loop.non_finite] if one is not finite, so that nothing with such values is written; it is noted still, so
/// that this holds for a file that is asked for later.
template <class R>
[[gnu::noinline]] void collect_and_check(State<R>& run) {
  finish_replays(run);
  auto& finite = run.watch.finite;
  if (finite.noted.empty() || run.asked.options.non_finite != NonFinite::stop)
    return void(run.measured.train_board.collect());
  if (run.parts.optimizers)
    each_of(run.parts.optimizers->optimizers, [&](auto& o) { R::Backend::note_weights(finite.noted, o.parameters()); });
  if (!run.measured.train_board.collect(finite.noted)) [[unlikely]]
    refuse_non_finite(finite.read_at + 1, run.progress.global_step);
  finite.noted.clear();
  finite.read_at = run.progress.global_step;
}

/// Waits for the device and reads what was noted. Returns the first value that is not finite, or 0.
template <class R>
double read_noted(State<R>& run) {
  auto& noted = run.watch.finite.noted;
  std::vector<double> numbers(noted.size());
  R::Backend::read_all(std::span<typename R::Value const>(noted), std::span<double>(numbers));
  noted.clear();
  for (double const number : numbers)
    if (!is_finite(number)) return number;
  return 0;
}

/// Called when values on a device were noted. Reads them after log_every_n_steps steps, if no log has done so.
template <class R>
[[gnu::noinline]] void noted(State<R>& run) {
  auto& finite = run.watch.finite;
  if (finite.look != Look::on) return;
  long const every = run.asked.options.log_every_n_steps;
  if (every != 0 && run.asked.options.non_finite == NonFinite::stop &&
      run.progress.global_step - finite.read_at > every)
    collect_and_check(run);
}

/// Keeps a value on a device, without waiting for it.
template <class R, class Value>
[[gnu::noinline]] void note(State<R>& run, Value const& value) {
  auto& finite = run.watch.finite;
  if (finite.look != Look::on) return;
  if (finite.noted.size() >= finite.most_noted) R::Backend::condense(finite.noted);
  finite.noted.push_back(R::Backend::keep(value));
  noted(run);
}

/// Checks the loss of a batch, before the update.
template <class R, class Loss>
[[gnu::always_inline]] inline void check_loss(State<R>& run, Loss const& loss) {
  using Backend = typename R::Backend;
  // A loss with several elements has the model's own backward, and only its gradients are checked.
  if (!Backend::is_number(loss)) return;
  if (Backend::reading_waits(loss)) return note(run, loss);
  double const value = Backend::read(loss);
  if (!is_finite(value)) [[unlikely]]
    found_loss(run, value);
}

/// Waits for the device, once a step, as a gradient scaler does. Needed only to skip updates on a device.
template <class R, class Parameters>
[[gnu::noinline]] void wait_for_finite(State<R>& run, Parameters const& parameters) {
  R::Backend::note_gradients(run.watch.finite.noted, parameters);
  if (!is_finite(read_noted(run))) found_non_finite(run, loss_or_gradient);
}

/// Checks the gradients of one optimizer, before they are clipped and used. On a device under `stop`, the weights are
/// checked later instead. `as_made`: the gradients are unchanged since backward.
template <class R, class O>
[[gnu::always_inline]] inline void check_gradients(State<R>& run, O& optimizer, typename R::Value const* loss = nullptr,
                                                   [[maybe_unused]] bool as_made = false) {
  using Backend = typename R::Backend;
  if constexpr (!scales_loss<R>) {
    if (run.watch.finite.look != Look::on) return;
    if constexpr (requires { Backend::gradients_finite(optimizer.parameters(), *run.parts.looks); })
      if (as_made && run.parts.looks && !run.parts.looks->empty()) [[unlikely]] {
        if (!Backend::gradients_finite(optimizer.parameters(), *run.parts.looks)) found_gradient(run, loss);
        return;
      }
    if constexpr (requires { optimizer.gradients_finite(); }) {
      if (std::optional<bool> const finite = optimizer.gradients_finite()) {
        if (!*finite) [[unlikely]]
          found_gradient(run, loss);
        return;
      }
    }
    auto&& parameters = optimizer.parameters();
    if (Backend::gradients_wait(parameters)) {
      if (run.asked.options.non_finite == NonFinite::skip) wait_for_finite(run, parameters);
    } else if (!Backend::gradients_finite(parameters)) [[unlikely]] {
      found_gradient(run, loss);
    }
  }
}

/// Checks gradients by their norm: if it is finite, all of them are. If not, it may only be too large for its type.
template <class R, class O>
[[gnu::always_inline]] inline void check_norm(State<R>& run, O& optimizer, typename R::Value const& norm,
                                              typename R::Value const* loss) {
  using Backend = typename R::Backend;
  if constexpr (!scales_loss<R>) {
    if (run.watch.finite.look != Look::on) return;
    bool const waits = Backend::reading_waits(norm);
    if (waits && run.asked.options.non_finite == NonFinite::stop) note(run, norm);
    else if (waits || !is_finite(Backend::read(norm))) check_gradients(run, optimizer, loss);
  }
}

/// About 40 halvings take a scale from the largest sensible value to one without effect. Gradients that are still not
/// finite then are not so because of the scale.
inline constexpr int most_scaled_out = 100;

/// Called after each update that the scaler has skipped. Waits for the device, as the scaler just did.
template <class R>
[[gnu::cold, gnu::noinline]] void scaled_out(State<R>& run) {
  double const scale = run.parts.scaler->scale();
  if (++run.watch.finite.scaled_out < most_scaled_out && scale >= double{std::numeric_limits<float>::min()}) return;
  auto const who = "the scaler of " + std::string(R::Precision::name);
  auto const count = std::to_string(run.watch.finite.scaled_out), left = std::to_string(scale);
  if (run.asked.options.non_finite == NonFinite::stop)
    throw Error("fulgurite.loop.scaler_skips",
                who + " has left out the last " + count + " updates, and its scale has come down to " + left +
                    ": gradients that are not finite at any scale do not come from the scale. Look at the losses and "
                    "at the learning rate; detect_anomaly = true names the function. Bf16Mixed has the range of "
                    "float32 and needs no scaler; non_finite = NonFinite::skip warns and continues");
  run.warn("fulgurite.loop.scaler_skips", who + " has left out the last " + count +
                                              " updates, and its scale has come down to " + left +
                                              ": the fit continues without a step, as non_finite asks for");
}

/// Makes the update. Skips and counts it if its loss or gradients are not finite; skips it if the loss is scaled and
/// there are no gradients.
template <class R, class Update>
void guarded(State<R>& run, [[maybe_unused]] bool has_gradients, Update&& update) {
  auto& finite = run.watch.finite;
  if constexpr (scales_loss<R>) {
    if (!has_gradients) return;
    bool const replayed = updated_in_replay(run), fits = replayed ? run.facts.fits : run.parts.scaler->finite();
    // The scaler has waited for the gradients. Noted losses are read now, unless the update is skipped anyway.
    if (!replayed && !finite.noted.empty() && run.asked.options.non_finite == NonFinite::skip) {
      if (fits) wait_for_finite(run, std::span<typename R::Value const>());
      else finite.noted.clear();
    }
    if (fits && finite.look != Look::found) update();
    else ++run.progress.skipped_steps;
    if (finite.look == Look::found) finite.look = Look::on;
    if (!replayed) run.parts.scaler->update();
    if (fits) finite.scaled_out = 0;
    else scaled_out(run);
  } else if (finite.look == Look::found) [[unlikely]] {
    ++run.progress.skipped_steps;
    finite.look = Look::on;
  } else {
    update();
  }
}

/// After a model's own optimizer_step: throws [fulgurite.hook.stepped_past_skip] if an update that should be skipped
/// did not go through optimizer.step(closure), so that nothing skipped it.
template <class R>
void require_left_out(State<R>& run) {
  if (run.watch.finite.look != Look::found) return;
  throw Error("fulgurite.hook.stepped_past_skip",
              "a loss or a gradient is not finite, and optimizer_step did not call optimizer.step(closure), which "
              "would have left the update out: what it did instead, such as optimizer.optimizer().step(), was done "
              "with these gradients. Call optimizer.step(closure), or look in optimizer_step itself and say "
              "non_finite = NonFinite::ignore");
}

/// Thrown to leave the step of an optimizer, if the first evaluation of the closure is not finite.
struct LeftOut {};

/// Called after each evaluation of a closure: the first one is checked; further ones are the optimizer's own trials.
template <class R>
void evaluated(State<R>& run) {
  if (run.watch.finite.look == Look::found) throw LeftOut{};
  run.watch.finite.look = Look::off;
}

/// Runs a step that evaluates its closure several times. If it leaves non-finite weights, they are restored; weights on
/// a device are checked later, with the noted values.
template <class R, class O, class Step>
void closure_step(State<R>& run, O& optimizer, Step&& step) {
  using Backend = typename R::Backend;
  using Value = typename R::Value;
  auto& finite = run.watch.finite;
  if (finite.look == Look::off) return step();
  auto&& parameters = optimizer.parameters();
  std::span<Value const> const weights(parameters);
  bool const waits = Backend::gradients_wait(parameters);
  auto& before = finite.before[&optimizer];
  if (!waits && before.size() != weights.size()) before = Backend::clones(weights);
  else if (!waits)
    for (std::size_t i = 0; i != weights.size(); ++i) Backend::copy_into(before[i], weights[i]);
  try {
    step();
  } catch (LeftOut const&) {}
  if (finite.look != Look::found) {
    finite.look = Look::on;
    if (!waits && !Backend::weights_finite(weights)) {
      for (std::size_t i = 0; i != weights.size(); ++i) {
        Value weight = weights[i];
        Backend::copy_into(weight, before[i]);
      }
      found_non_finite(run, "the weights that the optimizer arrived at are not finite");
    }
  }
  if (finite.look == Look::found) {
    ++run.progress.skipped_steps;
    finite.look = Look::on;
  }
}

}  // namespace fulgurite::loop
