#pragma once
// Safe points of a run: callbacks request checkpoints, which are written there, after all listeners of an event were
// notified, between steps; and what surrounds every run: preparation and setup before it, and the handling of an
// exception, which brings it back to a safe point.

#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/whole_run.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite::loop {

/// Removes from the model what callbacks have put into it for a file.
void restore_after_save(RunCore& run, Context& ctx);

/// Writes one file now: weights and the state of the run. Callbacks may give the file other weights than the training
/// ones: their `before_save(ctx)` and `after_save(ctx)` are called around `save`, also if it throws.
void show_and_save(RunCore& run, Context& ctx, FunctionRef<void()> save);
template <class R>
void show_and_save(State<R>& run, FunctionRef<void()> save) {
  if (!run.watch.finite.noted.empty()) collect_and_check(run);
  RunContext<R, phase::Fit> ctx(run);
  show_and_save(run, ctx, save);
}

/// Saves or loads a file's content: the whole state of the run, or with `weights_only` what belongs to the weights.
template <class R, class Source>
auto fold_of_file(State<R>& run, Source& source, bool weights_only) {
  return [&run, &source, weights_only](auto& archive) {
    fold_assembly(run, archive);
    if (!weights_only) return fold_everything(run, source, archive);
    fold_weights_state(run, archive);
    fold_data_module_of_file(run, source, archive);
  };
}

/// Warns of state that a file does not hold. If callbacks write files, a program with such parts does not compile.
void warn_of_forgotten(RunCore& run, std::filesystem::path const& path, bool parts_remember);

template <class R, class Source>
void write_checkpoint(State<R>& run, Source& source, std::filesystem::path const& path, bool weights_only = false) {
  auto const watched = run.own_actions.begin_saving();
  finish_files(run);
  if (!weights_only) warn_of_forgotten(run, path, parts_remember<R>);
  auto const fold = fold_of_file(run, source, weights_only);
  auto const save = [&] {
    auto const declared = declared_hyperparameters(run, source);
    R::Backend::save(path, *run.parts.model, fold, declared.all());
  };
  if constexpr (shares<R>) {
    PartsOfAll<R, Source> const parts(run, source);
    [[maybe_unused]] auto const whole = whole_state(run, !weights_only);
    write_together(
        run, path, [&] { show_and_save(run, save); }, [&] { show_and_save(run, [&] { StateMemory::visit(fold); }); });
  } else {
    show_and_save(run, save);
  }
}

/// True if another thread can write the files of such a run.
template <class R>
inline constexpr bool can_write_later = WritesLater<typename R::Backend> && !shares<R>;

/// What the requests of a run need of its types.
struct FileWork {
  FunctionRef<void(std::filesystem::path const& file, bool weights_only)> write;
  FunctionRef<void()> finish;     ///< finishes files that another thread writes
  SharedFacts* shared = nullptr;  ///< null with one process
  FunctionRef<bool(bool mine)> any_rank{};
  /// Empty if no other thread can write files.
  FunctionRef<void(std::span<CheckpointFiles::Planned const>, bool weights_only)> write_later{};
  FilesInWork* under_way = nullptr;
};
/// Carries out requests in order: each finds the files of earlier ones on the disk. If one fails, the others are still
/// carried out, and the first error is thrown at the end. If a rank has failed alone, it carries out no further
/// request, since the other ranks still wait inside the file in which this rank failed.
void do_requests(RunCore& run, FileWork const& work);

/// Carries out the requests of this run.
template <class R, class Source>
void write_now(State<R>& run, Source& source) {
  auto const write = [&](std::filesystem::path const& file, bool weights_only) {
    write_checkpoint(run, source, file, weights_only);
  };
  auto const finish = [&] { finish_files(run); };
  [[maybe_unused]] auto const any = [&](bool mine) { return any_rank(run, mine); };
  // Copies the current state of the run; another thread writes the files from the copy.
  [[maybe_unused]] auto const later = [&](std::span<CheckpointFiles::Planned const> planned, bool weights_only) {
    if constexpr (can_write_later<R>) {
      auto const watched = run.own_actions.begin_saving();
      finish_files(run);  // there can be only one copy at a time
      auto& writer = run.under_way.writer;
      show_and_save(run, [&] {
        auto const declared = declared_hyperparameters(run, source);
        auto const fold = fold_of_file(run, source, weights_only);
        R::Backend::image(writer.image(), *run.parts.model, fold, declared.all());
      });
      writer.clear();
      for (auto const& one : planned) writer.plan(one.file, one.is_new);
      writer.start();
    }
  };
  FileWork work{.write = write, .finish = finish};
  if constexpr (shares<R>) work.shared = &run.shared, work.any_rank = any;
  if constexpr (can_write_later<R>) work.write_later = later, work.under_way = &run.under_way;
  do_requests(run, work);
}

/// Not inlined, so that the code after each batch stays small when there is nothing to write.
template <class R, class Source>
[[gnu::noinline, gnu::cold]] void write_due(State<R>& run, Source& source, SafePoint const& point) {
  if (run.searching.rehearsing) return run.due.requests.clear();
  auto const before = std::exchange(run.point, point);
  if (run.due.requests.empty()) finish_files(run);
  else write_now(run, source);
  run.point = before;
}

/// Called after all listeners of an event were notified. Finishes files that another thread has written, and writes
/// requested ones. `point`: where a fit resumes from them. Inside an accumulation window both wait for its step.
template <class R, class Pack, class Source>
[[gnu::always_inline]] inline void write_requests(State<R>& run, Pack&, Source& source, SafePoint const& point) {
  if ((!run.due.requests.empty() && !run.facts.accumulating) || answer_waits<Pack>(run)) [[unlikely]]
    write_due(run, source, point);
}

/// For the program itself: saves the whole run; after a fit with the state that the data had at its end.
template <class R>
void save_checkpoint(State<R>& run, std::filesystem::path const& path) {
  if (!run.parts.fitted || !run.parts.optimizers)
    throw Error("fulgurite.trainer.nothing_to_save",
                "there is no run to save to " + path.string() + " yet: call fit first");
  refuse_half_loaded(run, path.string());
  Instead const fitted(run.parts.model, run.parts.fitted);  // an evaluation since the fit may have had another one
  if (!run.loading.fit_is_open) note_switches(run, true);
  finish_replays(run);
  if constexpr (ChecksReplays<typename R::Strategy>)
    if (run.parts.strategy.unchecked() != 0)
      run.warn("fulgurite.capture.unchecked", "save_checkpoint in a hook: replayed steps were not checked, so " +
                                                  path.string() + " may hold what is wrong: request_checkpoint");
  if (run.loading.write) {
    run.loading.write(path);
  } else {
    LeftData data;
    write_checkpoint(run, data, path);
  }
  run.made.held_files.hold(path, nullptr);
}

// Options that replace several others: fast_dev_run, overfit_batches, barebones.

/// Checks before anything starts. Under barebones a callback that reports is an Error, if the program has given it. A
/// fast_dev_run warns of what it replaces and which callbacks are idle.
void check_special(RunCore& run);

/// Sets the position from which a fit resumes if it fails, or is saved, inside a batch. After the batch's step, while
/// end hooks run, it resumes after these hooks, if the loader knows whether the batch was the last and does not save
/// its own position. Otherwise the batch is repeated with its whole window, since its part of the gradients cannot be
/// separated from that of earlier batches. A loader that saves its position (`keeps_place`) cannot go back: then the
/// window begins at the next batch, and no slice of that was stepped on, if the loader is already there (`is_past`).
/// Returns true if the values that the batch has logged are to be folded.
bool redo_window(RunCore& run, bool keeps_place, bool is_past, bool automatic);
template <class R, class Source>
void redo_window(State<R>& run, [[maybe_unused]] Source& source) {
  bool keeps_place = false, is_past = false;
  if constexpr (Source::trains) {
    using Loader = std::remove_reference_t<decltype(source.train())>;
    keeps_place = KeepsPlace<Loader>;
    is_past = BatchesStayValid<Loader> && !SizedLoader<Loader>;
  }
  if (redo_window(run, keeps_place, is_past, R::automatic)) run.measured.train_board.fold();
}

/// Restores the position of a run at the end of its lifetime, also if the file of another one cannot be written.
class KeptPosition : Pinned {
 public:
  explicit KeptPosition(RunCore& run);
  ~KeptPosition();

 private:
  RunCore& run_;
  Progress progress_;
  SafePoint point_;
  long slices_;
};

// The handling of an exception in a run: who is notified, and what is still written.

/// What the clean-up after an exception needs of the program.
struct CleanUp {
  Event const& on_exception;
  ModelAndStrategy others;
  void* const* arguments;  ///< of on_exception
  bool may_write;          ///< false while a file is loaded: it is the valid state, and must not be overwritten
  FunctionRef<void()> finish_files, notify_data_module, write, leave_gradients, tear_down;
};
/// Notifies on_exception, writes what is still due, finalizes loggers, and resets what the run leaves. The first error
/// is the one that is rethrown: a failure in here becomes a warning, and the clean-up continues. Each rank prints its
/// own failures, unless they are silenced.
void clean_up(RunCore& run, std::exception const& error, CleanUp const& program);

/// Finishes files when a fit is left open. Nothing could catch an exception there, so it becomes a warning.
void abandon_files(RunCore& run, FunctionRef<void()> finish) noexcept;

template <class R, class Pack, class Source>
void failed(State<R>& run, Pack&, Source& source, std::exception const& error) {
  run.loading.count_training = nullptr;
  fails(run, error);
  using Module = std::remove_cvref_t<decltype(source.module())>;
  RunContext<R, phase::Fit> ctx(run);
  void* const arguments[] = {address_of(error), address_of(ctx)};
  auto const write = [&] {
    if (run.loading.fit_is_open) redo_window(run, source);  // an evaluation has no place in an epoch
    if (auto const* const before = before_repeated_validation(run))
      expect_rows(run.callbacks, run.due.rows - before->rows);
    write_now(run, source);
  };
  auto const leave_gradients = [&] { leave_gradients_alone(run); };
  auto const tear_down = [&] { run.parts.strategy.teardown(*run.parts.model); };
  auto const finish = [&] { finish_files(run); };
  auto const notify_data_module = [&] {
    if constexpr (!std::is_same_v<Module, typename R::Model>)
      notify_one<hook::on_exception>(source.module(), error, ctx);
  };
  clean_up(run, error,
           {.on_exception = Listeners<hook::on_exception, true, R, Pack, std::exception const, decltype(ctx)>::event,
            .others = model_and_strategy(run),
            .arguments = arguments,
            .may_write = run.parts.optimizers && !run.loading.resuming,
            .finish_files = finish,
            .notify_data_module = notify_data_module,
            .write = write,
            .leave_gradients = leave_gradients,
            .tear_down = tear_down});
  run.before_validation.reset();
  if constexpr (shares<R>) run.shared = {};
  run.measured.train_board.restart();
}

/// Calls `failed` with the exception that is being handled.
void handle_exception(FunctionRef<void(std::exception const&)> failed);

/// Runs `body`. On an exception, it notifies on_exception of callbacks and model, writes requested checkpoints,
/// finalizes loggers, and rethrows. No end or teardown hook runs then.
template <class R, class Pack, class Source, class Body>
decltype(auto) rescued(State<R>& run, Pack& pack, Source& source, Body&& body) {
  try {
    return body();
  } catch (...) {
    handle_exception([&](std::exception const& error) { failed(run, pack, source, error); });
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

/// Calls prepare_data, setup and configure_model; then `load_file()` loads a file's weights into the model, which has
/// become float64 before, if that is the precision, whatever the file holds; and the strategy receives it.
/// `find_file()` opens the file before setup, so that setup knows which run is resumed.
template <class R, class Pack, class Source, class Ctx, class Find, class Load>
void set_up(State<R>& run, Pack& pack, Source& source, Ctx& ctx, Find&& find_file, Load&& load_file) {
  run.made.log_dir_before = run.made.log_dir;
  run.made.metrics_file_before = run.made.outcome.metrics_file;
  check_device(run);
  auto& module = source.module();
  using Module = std::remove_cvref_t<decltype(module)>;
  using Model = typename R::Model;
  using Prepare = hook::prepare_data;
  if constexpr (Prepare::named<Module> || Prepare::named<Model>)
    once_a_machine(run, "prepare_data", [&] {
      if constexpr (Prepare::named<Module>) module.prepare_data();
      if constexpr (Prepare::named<Model> && !std::is_same_v<Module, Model>) run.parts.model->prepare_data();
    });
  find_file();
  notify_with_module<hook::setup>(run, pack, source, ctx);
  if constexpr (shares<R>) run.made.log_dir = of_first_rank(run, run.made.log_dir.string());  // loggers write there
  if constexpr (Listens<hook::configure_model, typename R::Model, Ctx>)
    invoke<hook::configure_model>(*run.parts.model, ctx);
  // Before the file is loaded, whose numbers the model would otherwise round to its narrower type.
  if constexpr (R::Precision::parameters == Dtype::float64) R::Backend::widen(*run.parts.model);
  load_file();
  run.parts.strategy.setup(*run.parts.model, run.parts.precision);
}

// Errors of a fit that can be found before any of it starts.

/// Checks the options of automatic optimization against the model, the strategy and the optimizer.
template <class R>
void check_optimization(State<R>& run) {
  if constexpr (R::automatic) {
    using M = typename R::Model;
    int const k = run.optimization.accumulate_grad_batches;
    check_window("accumulate_grad_batches", k, Optimizers<R>::needs_closure);
    check_slices(Recurrent<M>, run.optimization.tbptt, k);
    using O = std::tuple_element_t<0, decltype(Optimizers<R>::optimizers)>;
    check_clip<R, O>(run.optimization.clip);
    if (k > 1 && (hook::optimizer_step::named<M> || hook::optimizer_zero_grad::named<M>))
      run.warn("fulgurite.hook.once_a_window",
               "the model has an optimizer_step or optimizer_zero_grad of its own: with accumulate_grad_batches = " +
                   std::to_string(k) + " it is called once a window, not for every batch");
    run.asked.window_length = k;
  }
}

/// These errors occur before the run starts, so no hook is notified of them. `waits`: callbacks write files, which no
/// other thread can; `observes`: a schedule follows a metric.
void check_fit(RunCore& run, bool waits, bool observes, bool can_reload);
template <class R, class Pack, class Source>
void check_fit(State<R>& run, Pack& pack, Source& source) {
  set_callbacks(run, pack);
  check_optimization(run);
  check_fit(run, !can_write_later<R> && any_names_files<Pack>, observes_any<R>, requires { source.reload_training(); });
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/safe_points.ipp>
#endif
