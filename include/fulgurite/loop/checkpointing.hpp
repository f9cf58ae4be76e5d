#pragma once
// Checkpoints are requested by callbacks and written here, at safe points: after an event has been heard by all,
// between steps.

#include <cstddef>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/assembly.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/declared_hyperparameters.hpp>
#include <fulgurite/loop/files_under_way.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_position.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/shared_files.hpp>

namespace fulgurite::loop {

/// What a file of the run holds beside the weights. `source` has the training loader, which tells how far it is; random
/// numbers go on as they are now.
template <class R, class Pack, class Source, class Archive>
void fold_everything(State<R>& run, Pack& pack, Source& source, Archive& archive) {
  fold_weights_state(run, archive);
  fold_data_module<R>(source, archive);
  fold_parts(run, pack, archive);
  fold_optimizers(run, archive);
  fold_loader(run, source, archive);
  fold_run(run, archive);
  fold_parts_of_all(run, archive);
  auto random = R::Backend::rng_state();
  archive.child("random", random);
  if constexpr (Archive::loading) random.restore();
}

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
    fold_data_module<R>(source, archive);
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

/// Copies the run as it is now; another thread writes the files.
template <class R, class Pack, class Source>
CheckpointFiles::WriteLater writing_later(State<R>& run, Pack& pack, Source& source, HeldFiles::Holder holder) {
  if constexpr (WritesLater<typename R::Backend> && !shares<R>) {
    if (!run.asked.options.save_in_background) return nullptr;
    return [&run, &pack, &source, holder](auto planned, bool weights_only, CheckpointFiles::Then then) {
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
    };
  } else {
    return nullptr;
  }
}

/// Does what was requested, one request after the other: each finds the files of those before it on the disk. Where one
/// fails, the others are done all the same, and the first error is thrown.
template <class R, class Pack, class Source>
void write_now(State<R>& run, Pack& pack, Source& source) {
  auto& due = run.due;
  auto const requests = std::exchange(due.requests, {});
  due.now = requests;
  due.done = 0;
  auto const awaited = [&due](auto const& file) { return due.awaits(file); };
  bool const writes = speaks_for_all(run);
  auto const write = [&](std::filesystem::path const& file, bool weights_only) {
    write_checkpoint(run, pack, source, file, weights_only);
  };
  std::exception_ptr first;
  bool interrupted = false;
  auto const tell = [&](std::exception_ptr const& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (std::exception const& error) {
      run.warn("fulgurite.checkpoint.failed_too",
               std::string("the run was asked to end, and a file could not be written: ") + error.what());
    } catch (...) {}  // it has no words
  };
  auto const attempt = [&](auto&& work) {
    try {
      work();
    } catch (Interrupted const&) {  // an end that was asked for comes before what fails on the way
      if (first && !std::exchange(interrupted, true)) tell(first);
      first = std::current_exception();
    } catch (std::exception const& error) {
      if (first)
        run.warn("fulgurite.checkpoint.failed_too",
                 std::string("after another file, this one could not be written: ") + error.what());
      else first = std::current_exception();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  for (std::size_t i = 0; i != requests.size(); ++i) {
    auto const& request = requests[i];
    CheckpointFiles files(run.made.held_files, request.holder, awaited, writes, write);
    if constexpr (shares<R>)
      if (!run.shared.alone) files.are_shared([&run, writes](bool mine) { return any_rank(run, writes && mine); });
    files.can_write_later(writing_later(run, pack, source, request.holder));
    attempt([&] { finish_files(run); });  // of an earlier request: one copy at a time
    due.done = i + 1;
    attempt([&] {
      if (request.act) request.act(files);
      else files.write(request.path);
    });
  }
  due.now.clear();
  due.done = 0;
  if (first) std::rethrow_exception(first);
}

/// Out of line: what follows from a batch stays small where there is nothing to write.
template <class R, class Pack, class Source>
[[gnu::noinline, gnu::cold]] void write_due(State<R>& run, Pack& pack, Source& source, SafePoint const& point) {
  if (run.searching.rehearsing) return run.due.requests.clear();
  auto const before = std::exchange(run.point, point);
  if (run.due.requests.empty()) finish_files(run);
  else write_now(run, pack, source);
  run.point = before;
}

/// Called when an event has been heard by all, with what a fit that goes on from here does next: follows up files that
/// another thread has written, and writes what was requested. Inside an accumulation window both wait for its step.
template <class R, class Pack, class Source>
[[gnu::always_inline]] inline void write_requests(State<R>& run, Pack& pack, Source& source, SafePoint const& point) {
  if ((!run.due.requests.empty() && !run.facts.accumulating) || answer_waits<Pack>(run)) [[unlikely]]
    write_due(run, pack, source, point);
}

}  // namespace fulgurite::loop
