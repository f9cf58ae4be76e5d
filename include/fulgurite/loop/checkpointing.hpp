#pragma once
// Callbacks request checkpoints, which are written here at safe points: after all listeners of an event were notified,
// between steps.

#include <exception>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/whole_run.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite::loop {

// Writing several files, of which one may fail: the others are still written, and every failure is reported.

/// Keeps the error to throw after all attempts: the first one, or, in preference to it, the Interrupted of a requested
/// end. Other errors become warnings: `warn(identifier, sentence)`.
class FirstFailure {
 public:
  explicit FirstFailure(Warn warn) : warn_(warn) {}

  /// Returns true if `work` did not throw.
  bool attempt(FunctionRef<void()> work);
  /// Throws the kept error; does nothing if there is none.
  void rethrow() const;

 private:
  void say_first() const;

  void warn(std::string_view identifier, std::string_view sentence) const { warn_(identifier, sentence); }

  Warn warn_;
  std::exception_ptr first_{};
  bool interrupted_ = false;
};

/// Removes from the model what callbacks have put into it for a file.
void restore_after_save(RunCore& run, Context& ctx);

/// Writes the backend's file, with the hyper-parameters if its format can hold them.
template <class R, class Source, class Fold>
void save_model(State<R>& run, Source& source, std::filesystem::path const& path, Fold const& fold) {
  auto& model = *run.parts.model;
  if constexpr (requires(std::span<Hyperparameter const> all) { R::Backend::save(path, model, fold, all); }) {
    auto const declared = declared_hyperparameters(run, source);
    R::Backend::save(path, model, fold, std::span<Hyperparameter const>(declared));
  } else {
    R::Backend::save(path, model, fold);
  }
}

/// Writes one file now: weights and the state of the run. Callbacks may give the file other weights than the training
/// ones: their `before_save(ctx)` and `after_save(ctx)` are called around `save`, also if it throws.
void show_and_save(RunCore& run, Context& ctx, FunctionRef<void()> save);
template <class R>
void show_and_save(State<R>& run, FunctionRef<void()> save) {
  if (run.watch.finite.fresh) collect_and_check(run);
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

/// Warns of state that a file does not hold, if the program itself requests the file. With callbacks that write files,
/// a program with such parts does not compile.
void warn_of_forgotten(RunCore& run, std::filesystem::path const& path, bool parts_remember);

template <class R, class Source>
void write_checkpoint(State<R>& run, Source& source, std::filesystem::path const& path, bool weights_only = false) {
  auto const watched = run.own_actions.template begin<action::save_checkpoint>();
  finish_files(run);
  if (!weights_only) warn_of_forgotten(run, path, parts_remember<R, ArchiveProbe>);
  auto const fold = fold_of_file(run, source, weights_only);
  auto const save = [&] { save_model(run, source, path, fold); };
  if constexpr (shares<R>) {
    PartsOfAll<R, Source> const parts(run, source);
    [[maybe_unused]] auto const whole = whole_state(run, !weights_only);
    write_together(
        run, path, [&] { show_and_save(run, save); },
        [&] { show_and_save(run, [&] { R::Backend::RunFile::Memory::visit(fold); }); });
  } else {
    show_and_save(run, save);
  }
}

/// True if another thread can write the files of such a run.
template <class R>
inline constexpr bool can_write_later = WritesLater<typename R::Backend> && !shares<R>;

/// Copies the current state of the run; another thread writes the files from the copy.
template <class R, class Source>
void write_later(State<R>& run, Source& source, HeldFiles::Holder holder,
                 std::span<CheckpointFiles::Planned const> planned, bool weights_only, CheckpointFiles::Then then) {
  if constexpr (can_write_later<R>) {
    auto const watched = run.own_actions.template begin<action::save_checkpoint>();
    finish_files(run);  // there can be only one copy at a time
    auto& writer = run.under_way.writer;
    show_and_save(run, [&] {
      auto const declared = declared_hyperparameters(run, source);
      R::Backend::image(writer.image(), *run.parts.model, fold_of_file(run, source, weights_only), declared);
    });
    writer.clear();
    for (auto const& one : planned) writer.plan(one.file, one.is_new);
    run.under_way.holder = holder;
    run.under_way.then = std::move(then);
    writer.start();
  }
}

/// Carries out requests in order: each finds the files of earlier ones on the disk. If one fails, the others are still
/// carried out, and the first error is thrown at the end. With several ranks, if `failed_alone()` is true, no further
/// request is carried out, since the other ranks still wait inside the file in which this rank failed.
/// `files_of(holder)` makes the argument of a request; `finish()` finishes files that another thread writes.
void do_requests(Due& due, Warn warn, FunctionRef<CheckpointFiles(HeldFiles::Holder)> files_of,
                 FunctionRef<void()> finish, FunctionRef<bool()> failed_alone);

/// Carries out the requests of this run.
template <class R, class Source>
void write_now(State<R>& run, Source& source) {
  bool const writes = speaks_for_all(run);
  HeldFiles::Holder holder = nullptr;
  [[maybe_unused]] std::exception_ptr alone{};  // this rank has failed inside a file, in which the others wait
  auto const failed_alone = [&] {
    if constexpr (shares<R>) return !run.shared.together && !run.shared.alone;
    else return false;
  };
  auto const write = [&](std::filesystem::path const& file, bool weights_only) {
    if (alone) std::rethrow_exception(alone);
    // `together` belongs to an earlier file; in this one a rank may fail alone.
    [[maybe_unused]] bool together = false;
    if constexpr (shares<R>) together = std::exchange(run.shared.together, false);
    try {
      write_checkpoint(run, source, file, weights_only);
    } catch (FileExists const&) {  // all ranks find that it exists, and use the next name
      if constexpr (shares<R>) run.shared.together = together;
      throw;
    } catch (...) {
      if (failed_alone()) alone = std::current_exception();
      throw;
    }
    if constexpr (shares<R>) run.shared.together = together;
  };
  [[maybe_unused]] auto const later = [&](std::span<CheckpointFiles::Planned const> planned, bool weights_only,
                                          CheckpointFiles::Then then) {
    write_later(run, source, holder, planned, weights_only, std::move(then));
  };
  [[maybe_unused]] auto const first_says = [&](bool mine) { return alone ? mine : any_rank(run, writes && mine); };
  auto const files_of = [&](HeldFiles::Holder who) {
    holder = who;
    auto const awaited = CheckpointFiles::Awaited::template to<&Due::awaits>(run.due);
    CheckpointFiles files(run.made.held_files, who, awaited, writes, write);
    files.know_of_validation(run.point.validates);
    if constexpr (shares<R>)
      if (!run.shared.alone) files.are_shared(first_says);
    if constexpr (can_write_later<R>)
      if (run.asked.options.save_in_background) files.can_write_later(later);
    return files;
  };
  do_requests(run.due, Warn::to<&State<R>::warn>(run), files_of, [&] { finish_files(run); }, failed_alone);
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

// Files that the program itself saves, at once.

/// Saves the whole run: inside a fit with the current state of its data, after it with the state that they had at its
/// end.
template <class R>
void save_checkpoint(State<R>& run, NoModule& none, std::filesystem::path const& path) {
  if (!run.parts.fitted || !run.parts.optimizers)
    throw Error("fulgurite.trainer.nothing_to_save",
                "there is no run to save to " + path.string() + " yet: call fit first");
  FittedModel const fitted(run);
  if constexpr (ChecksReplays<typename R::Strategy>)
    if (run.parts.strategy.unchecked() != 0)
      run.warn("fulgurite.capture.unchecked", "save_checkpoint in a hook: replayed steps were not checked, so " +
                                                  path.string() + " may hold what is wrong: request_checkpoint");
  if (run.loading.write) {
    run.loading.write(path);
  } else if (run.left) {
    LeftData<R> data{{none, none}, *run.left};
    write_checkpoint(run, data, path);
  } else {
    GivenLoaders<NoModule, NoModule> no_loaders{none, none};
    write_checkpoint(run, no_loaders, path);
  }
  run.made.held_files.hold(path, nullptr);
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/checkpointing.ipp>
#endif
