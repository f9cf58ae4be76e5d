#pragma once
// What surrounds every run: preparation and setup before it, and the handling of exceptions.

#include <exception>
#include <string>
#include <tuple>
#include <type_traits>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite::loop {

// Options that replace several others: fast_dev_run, overfit_batches, barebones. A warning says what they replace, and
// which callbacks they disable.

/// The options in effect, from options that were checked.
TrainerOptions effective(TrainerOptions given);

/// Checks before anything starts. Under barebones a callback that reports is an Error, except for those that
/// make_trainer has added, which do nothing then. A fast_dev_run warns of what it replaces and which callbacks are
/// idle.
void check_special(RunCore& run);

// The handling of an exception in a run: who is notified, and what is still written.

/// For a fit that fails before it has resumed from its file: loggers leave the folder of that file's run.
void leave_run(RunCore& run);

/// Runs `work` while another exception is handled. The first error is the one that is rethrown; a failure of the
/// clean-up becomes a warning, and the clean-up continues. Each rank prints its own failures, unless they are silenced.
/// `interrupted`: the first error is the end that a signal asked for; if `work` throws that again, it is no failure.
void clean_up(Warnings& said, Silence const& silence, bool interrupted, FunctionRef<void()> work);

template <class R, class Pack, class Source>
void failed(State<R>& run, Pack& pack, Source& source, std::exception const& error) {
  run.loading.count_training = nullptr;
  fails(run, error);
  bool const interrupted = dynamic_cast<Interrupted const*>(&error) != nullptr;
  auto const still = [&](FunctionRef<void()> work) {
    clean_up(run.said, run.asked.options.silence, interrupted, work);
  };
  still([&] { finish_files(run); });
  still([&] { run.due.take_back(); });
  still([&] {  // deliver the rows of listeners that will not be notified again of this event
    if (run.due.heard.event.empty()) return;
    deliver_posted(run, pack, run.point.at == At::epoch_end ? last_step(run) : run.progress.logged_steps);
  });
  RunContext<R, phase::Fit> ctx(run);
  using Listeners = loop::Listeners<hook::on_exception, true, R, Pack, std::exception const, decltype(ctx)>;
  void* const arguments[] = {address_of(error), address_of(ctx)};
  auto const tell_of_it = [&](bool strategy) {
    for (auto const& listener : Listeners::list)
      if (listener.listens && (listener.who == Listeners::strategy) == strategy)
        still([&] { listener.tell(participant(run, model_and_strategy(run), listener.who), arguments); });
  };
  tell_of_it(false);
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>)
    still([&] { tell_module<hook::on_exception>(source.module(), error, ctx); });
  tell_of_it(true);
  if (dynamic_cast<NotPutBack const*>(&error)) run.due.requests.clear();  // they would save the trial run
  if constexpr (ChecksReplays<typename R::Strategy>)
    still([&] {
      if (dynamic_cast<WrongReplay const*>(&error)) {  // its results are known to be wrong
        run.due.held_rows.clear();
        run.due.requests.clear();
      } else if (run.parts.strategy.unchecked() != 0) {
        run.warn("fulgurite.capture.unchecked", std::to_string(run.parts.strategy.unchecked()) +
                                                    " replayed steps were not checked, since the fit ended by an "
                                                    "exception: files and rows written now may hold what is wrong");
      }
      deliver_held(run);
    });
  still([&] {
    // While a file is being loaded, it is the valid state, and must not be overwritten.
    if (run.parts.optimizers && !run.loading.resuming) {
      redo_window(run, source);
      if (auto const* const before = before_repeated_validation(run))
        expect_rows(run.callbacks, run.due.rows - before->rows);
      write_now(run, source);
    }
  });
  run.loading.write = nullptr;
  still([&] { finish_files(run); });
  run.due.requests.clear();
  run.due.posted.clear();
  run.due.heard = {};  // requested files contain it; later events start from the first listener
  if (!run.parts.optimizers || run.loading.resuming) still([&] { leave_run(run); });
  still([&] { finalize_loggers(run.callbacks, Status::failed); });
  leave_gradients_alone(run);
  still([&] { run.parts.strategy.teardown(*run.parts.model); });
  run.facts = {};
  run.point = {};
  run.before_validation.reset();
  if constexpr (shares<R>) run.shared = {};
  run.progress.batch = run.progress.window_start = 0;  // so that a later fit begins the epoch from its first batch
  run.measured.train_board.restart();
}

/// Runs `body`. On an exception, it notifies on_exception of callbacks and model, writes requested checkpoints,
/// finalizes loggers, and rethrows. No end or teardown hook runs then.
template <class R, class Pack, class Source, class Body>
decltype(auto) rescued(State<R>& run, Pack& pack, Source& source, Body&& body) {
  try {
    return body();
  } catch (std::exception const& error) {
    failed(run, pack, source, error);
    throw;
  } catch (...) {
    Error const error("fulgurite.exception.unknown",
                      "what was thrown is no std::exception: derive it from one, so that its reason can be reported");
    failed(run, pack, source, error);
    throw;
  }
}

/// A rule that depends on the machine: if the device is chosen at run time, loss scaling still needs a GPU.
template <class R>
void check_device(State<R>& run) {
  if constexpr (judge::needs_gpu<typename R::Strategy>() && R::Strategy::on_gpu == Known::at_run_time)
    if (!run.parts.strategy.is_on_gpu())
      throw Error("fulgurite.policy.strategy_needs_gpu",
                  "this strategy runs on GPUs alone, and this machine has none: use SingleDevice{cpu}");
  if constexpr (R::Precision::scales_loss && R::Strategy::on_gpu == Known::at_run_time)
    if (!run.parts.strategy.is_on_gpu())
      throw Error(
          "fulgurite.policy.fp16_needs_gpu",
          "Fp16Mixed scales the loss, which needs a GPU, and this machine has none: use Bf16Mixed, or a CUDA device");
}

/// Calls prepare_data, setup and configure_model; then `file.load()` loads a file's weights into the model, and the
/// strategy receives it. `file.find()` opens the file before setup, so that setup knows which run is resumed.
template <class R, class Pack, class Source, class Ctx, class File>
void set_up(State<R>& run, Pack& pack, Source& source, Ctx& ctx, File&& file) {
  run.made.log_dir_before = run.made.log_dir;
  run.made.metrics_file_before = run.made.outcome.metrics_file;
  check_device(run);
  auto& module = source.module();
  using Module = std::remove_cvref_t<decltype(module)>;
  if constexpr (requires { module.prepare_data(); } || requires { run.parts.model->prepare_data(); })
    once_a_machine(run, "prepare_data", [&] {
      if constexpr (requires { module.prepare_data(); }) module.prepare_data();
      if constexpr (!std::is_same_v<Module, typename R::Model>)
        if constexpr (requires { run.parts.model->prepare_data(); }) run.parts.model->prepare_data();
    });
  file.find();
  tell_all<hook::setup>(run, pack, source, ctx);
  if constexpr (shares<R>) run.made.log_dir = of_first_rank(run, run.made.log_dir.string());  // loggers write there
  if constexpr (Listens<hook::configure_model, typename R::Model, Ctx>)
    invoke<hook::configure_model>(*run.parts.model, ctx);
  file.load();
  run.parts.strategy.setup(*run.parts.model, run.parts.precision);
}

/// Runs `body` as `rescued` does, with the deterministic and benchmark options applied. For whole runs except fit,
/// which applies them itself from open to close.
template <class R, class Pack, class Source, class Body>
decltype(auto) framed(State<R>& run, Pack& pack, Source& source, Body&& body) {
  [[maybe_unused]] auto const algorithms =
      R::Backend::algorithms(run.asked.options.deterministic, run.asked.options.benchmark);
  return rescued(run, pack, source, body);
}

// Errors of a fit that can be found before any of it starts.

/// Checks the options of automatic optimization against the model, the strategy and the optimizer.
template <class R>
void check_optimization(State<R>& run) {
  if constexpr (R::automatic) {
    using M = typename R::Model;
    int const k = run.optimization.accumulate_grad_batches;
    check_window<R>("accumulate_grad_batches", k);
    check_slices<M>(run.optimization.tbptt, k);
    using O = std::tuple_element_t<0, decltype(Optimizers<R>::optimizers)>;
    check_clip<R, O>(run.optimization.clip);
    if (k > 1 && (hook::optimizer_step::named<M> || hook::optimizer_zero_grad::named<M>))
      run.warn("fulgurite.hook.once_a_window",
               "the model has an optimizer_step or optimizer_zero_grad of its own: with accumulate_grad_batches = " +
                   std::to_string(k) + " it is called once a window, not for every batch");
    run.asked.window_length = k;
  }
}

/// These errors occur before the run starts, so no hook is notified of them.
template <class R, class Pack, class Source>
void check_fit(State<R>& run, Pack& pack, Source& source) {
  set_callbacks(run, pack);
  auto const& options = run.asked.options;
  check_optimization(run);
  if (options.max_time) refuse_two_timers(run.callbacks);
  if constexpr (requires { typename R::Backend::RunFile; }) refuse_equal_keys(run.callbacks);
  if constexpr ((!WritesLater<typename R::Backend> || shares<R>) && any_names_files<Pack>)
    if (options.save_in_background)
      run.warn("fulgurite.options.save_in_background",
               std::string("save_in_background is set, and ") +
                   (shares<R> ? "several processes save together"
                              : "the strategy's tensor library has no form of files that another thread could write") +
                   ": they are written at once, and training waits for each");
  check_special(run);
  if (options.barebones && observes_any<R>)
    throw Error("fulgurite.options.barebones",
                "barebones keeps no metric, and a schedule follows one: leave one of them out");
  if (options.reload_dataloaders_every_n_epochs != 0 && !requires { source.reload_training(); })
    throw Error("fulgurite.options.reload",
                "reload_dataloaders_every_n_epochs = " + std::to_string(options.reload_dataloaders_every_n_epochs) +
                    " asks for new loaders, and fit was given some: pass a data module, which can make them again");
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/frame.ipp>
#endif
