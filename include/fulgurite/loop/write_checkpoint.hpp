#pragma once
// One checkpoint file of a run: what it holds, and how it is written, at once or by another thread.

#include <filesystem>
#include <span>
#include <utility>

#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/assembly.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/declared_hyperparameters.hpp>
#include <fulgurite/loop/files_under_way.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/shared_files.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

/// What callbacks put into the model for a file is taken out again.
template <class Pack, class Ctx>
void restore_after_save(Pack& pack, Ctx& ctx) {
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.after_save(ctx); }) callback.after_save(ctx);
  });
}

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
template <class R, class Pack, class Save>
void show_and_save(State<R>& run, Pack& pack, Save&& save) {
  if (run.watch.finite.fresh) collect_and_check(run);
  Context<R, phase::Fit> ctx(run);
  try {
    pack.each([&](auto& callback) {
      if constexpr (requires { callback.before_save(ctx); }) callback.before_save(ctx);
    });
    save();
  } catch (...) {
    restore_after_save(pack, ctx);
    throw;
  }
  restore_after_save(pack, ctx);
}

/// What a file holds of the run: all, or where it was saved with `weights_only` what belongs to them.
template <class R, class Pack, class Source>
auto fold_of_file(State<R>& run, Pack& pack, Source& source, bool weights_only) {
  return [&run, &pack, &source, weights_only](auto& archive) {
    fold_assembly(run, pack, archive);
    if (!weights_only) return fold_everything(run, pack, source, archive);
    fold_weights_state(run, archive);
    fold_data_module_of_file(run, source, archive);
  };
}

/// Of what a file does not hold, where a program asks for it by itself: beside callbacks that leave files, none of it
/// compiles.
template <class R>
void warn_of_forgotten(State<R>& run, std::filesystem::path const& path) {
  if (run.loading.forgets_place)
    run.warn("fulgurite.checkpoint.forgets_place",
             "a loader of this fit has neither resume_at(batch) nor state(archive), so " + path.string() +
                 " does not know where it is: give it one of them, or `using Stateless = fulgurite::ByChoice`");
  if constexpr (!parts_remember<R, ArchiveProbe>)
    run.warn("fulgurite.checkpoint.forgets_part",
             "the optimizer or a policy of this trainer has members and no state(archive), so " + path.string() +
                 " does not hold them: add it, or `using Stateless = fulgurite::ByChoice`");
}

template <class R, class Pack, class Source>
void write_checkpoint(State<R>& run, Pack& pack, Source& source, std::filesystem::path const& path,
                      bool weights_only = false) {
  [[maybe_unused]] auto const watched = pack.template profile<action::save_checkpoint>();
  finish_files(run);
  if (!weights_only) warn_of_forgotten(run, path);
  auto const fold = fold_of_file(run, pack, source, weights_only);
  auto const save = [&] { save_model(run, source, path, fold); };
  if constexpr (shares<R>) {
    PartsOfAll<R, Source> const parts(run, source);
    [[maybe_unused]] auto const whole = whole_state(run, !weights_only);
    write_together(
        run, path, [&] { show_and_save(run, pack, save); },
        [&] { show_and_save(run, pack, [&] { R::Backend::RunFile::Memory::visit(fold); }); });
  } else {
    show_and_save(run, pack, save);
  }
}

/// Whether another thread can write the files of such a run.
template <class R>
inline constexpr bool can_write_later = WritesLater<typename R::Backend> && !shares<R>;

/// Copies the run as it is now; another thread writes the files.
template <class R, class Pack, class Source>
void write_later(State<R>& run, Pack& pack, Source& source, HeldFiles::Holder holder,
                 std::span<CheckpointFiles::Planned const> planned, bool weights_only, CheckpointFiles::Then then) {
  if constexpr (can_write_later<R>) {
    [[maybe_unused]] auto const watched = pack.template profile<action::save_checkpoint>();
    finish_files(run);  // one copy at a time
    auto& writer = run.under_way.writer;
    show_and_save(run, pack, [&] {
      auto const declared = declared_hyperparameters(run, source);
      R::Backend::image(writer.image(), *run.parts.model, fold_of_file(run, pack, source, weights_only), declared);
    });
    writer.clear();
    for (auto const& one : planned) writer.plan(one.file, one.is_new);
    run.under_way.holder = holder;
    run.under_way.then = std::move(then);
    writer.start();
  }
}

}  // namespace fulgurite::loop
