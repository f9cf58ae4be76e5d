#pragma once
// Checkpoints are requested by callbacks and written here, at safe points: after an event has been heard by all,
// between steps.

#include <exception>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/state.hpp>
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

// Several files to write, of which one may fail: the others are written all the same, and no failure goes unsaid.

/// Keeps the failure that is thrown when all has been tried: the first, but an end that was asked for comes before what
/// fails on the way. The others are warnings: `warn(identifier, sentence)`.
class FirstFailure {
 public:
  explicit FirstFailure(Warn warn) : warn_(warn) {}

  /// Whether it has not failed.
  bool attempt(FunctionRef<void()> work);
  /// Nothing where all went well.
  void rethrow() const;

 private:
  void say_first() const;

  void warn(std::string_view identifier, std::string_view sentence) const { warn_(identifier, sentence); }

  Warn warn_;
  std::exception_ptr first_{};
  bool interrupted_ = false;
};

/// What callbacks put into the model for a file is taken out again.
void restore_after_save(RunCore& run, Context& ctx);

/// The Backend's file, with the hyper-parameters where it is one that can hold them.
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

/// Writes one file now: weights and the state of the run. A callback may show the file other weights than those in
/// training: its `before_save(ctx)` and `after_save(ctx)` are called around it, also where it cannot be written.
void show_and_save(RunCore& run, Context& ctx, FunctionRef<void()> save);
template <class R>
void show_and_save(State<R>& run, FunctionRef<void()> save) {
  if (run.watch.finite.fresh) collect_and_check(run);
  RunContext<R, phase::Fit> ctx(run);
  show_and_save(run, ctx, save);
}

/// What a file holds of the run: all, or where it was saved with `weights_only` what belongs to them.
template <class R, class Source>
auto fold_of_file(State<R>& run, Source& source, bool weights_only) {
  return [&run, &source, weights_only](auto& archive) {
    fold_assembly(run, archive);
    if (!weights_only) return fold_everything(run, source, archive);
    fold_weights_state(run, archive);
    fold_data_module_of_file(run, source, archive);
  };
}

/// Of what a file does not hold, where a program asks for it by itself: beside callbacks that leave files, a program
/// with such parts does not compile.
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

/// Whether another thread can write the files of such a run.
template <class R>
inline constexpr bool can_write_later = WritesLater<typename R::Backend> && !shares<R>;

/// Copies the run as it is now; another thread writes the files.
template <class R, class Source>
void write_later(State<R>& run, Source& source, HeldFiles::Holder holder,
                 std::span<CheckpointFiles::Planned const> planned, bool weights_only, CheckpointFiles::Then then) {
  if constexpr (can_write_later<R>) {
    auto const watched = run.own_actions.template begin<action::save_checkpoint>();
    finish_files(run);  // one copy at a time
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

/// Does what was requested, one request after the other: each finds the files of those before it on the disk. Where one
/// fails, the others are done all the same, and the first error is thrown; where it `failed_alone()`, under several
/// ranks, no other is, since the others would wait inside of the file in which this one has failed. `files_of(holder)`
/// makes what a request is given, `finish()` follows up files that another thread writes.
void do_requests(Due& due, Warn warn, FunctionRef<CheckpointFiles(HeldFiles::Holder)> files_of,
                 FunctionRef<void()> finish, FunctionRef<bool()> failed_alone);

/// The same, of this run.
template <class R, class Source>
void write_now(State<R>& run, Source& source) {
  bool const writes = speaks_for_all(run);
  HeldFiles::Holder holder = nullptr;
  [[maybe_unused]] std::exception_ptr alone{};  // this rank has failed inside of a file, in which the others wait
  auto const failed_alone = [&] {
    if constexpr (shares<R>) return !run.shared.together && !run.shared.alone;
    else return false;
  };
  auto const write = [&](std::filesystem::path const& file, bool weights_only) {
    if (alone) std::rethrow_exception(alone);
    // `together` is that of an earlier file. In this one a rank may fail alone.
    [[maybe_unused]] bool together = false;
    if constexpr (shares<R>) together = std::exchange(run.shared.together, false);
    try {
      write_checkpoint(run, source, file, weights_only);
    } catch (FileExists const&) {  // all of them found it, and all take the next name
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

/// Out of line: what follows from a batch stays small where there is nothing to write.
template <class R, class Source>
[[gnu::noinline, gnu::cold]] void write_due(State<R>& run, Source& source, SafePoint const& point) {
  if (run.searching.rehearsing) return run.due.requests.clear();
  auto const before = std::exchange(run.point, point);
  if (run.due.requests.empty()) finish_files(run);
  else write_now(run, source);
  run.point = before;
}

/// Called when an event has been heard by all, with what a fit that goes on from here does next: follows up files that
/// another thread has written, and writes what was requested. Inside an accumulation window both wait for its step.
template <class R, class Pack, class Source>
[[gnu::always_inline]] inline void write_requests(State<R>& run, Pack&, Source& source, SafePoint const& point) {
  if ((!run.due.requests.empty() && !run.facts.accumulating) || answer_waits<Pack>(run)) [[unlikely]]
    write_due(run, source, point);
}

// A file that the program asks for itself, at once.

/// All of the run: inside of a fit with what that knows of its data, after it with what they had kept of themselves.
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
