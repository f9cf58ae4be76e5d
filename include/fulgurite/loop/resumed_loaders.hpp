#pragma once
// Whether the loaders of a program can go on where those of a file were, found out before training starts.

#include <optional>
#include <string>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/reopened_epoch.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_position.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// Inside an epoch each rank has trained on its share of the batches so far; other shares of the rest would train on
/// some samples twice and never on others.
[[noreturn]] inline void refuse_other_shares(long consumed, long then, long now) {
  throw Error("fulgurite.resume.ranks", "the run stopped after " + std::to_string(consumed) +
                                            " batches of an epoch that " + std::to_string(then) +
                                            (then == 1 ? " process" : " processes") + " shared, and there " +
                                            (now == 1 ? "is " : "are ") + std::to_string(now) +
                                            " now: resume with as many, or from a checkpoint written between epochs");
}

/// The epoch of the file is shared out between as many ranks as here, and the batch at which it resumes is one of the
/// `batches` that training has, where it is known how many.
template <class R, class RunFile>
void refuse_unfit_data(State<R>& run, RunFile const& file, std::optional<long> batches) {
  Progress progress;
  SafePoint point;
  bool stop = false;
  long const here_shared = shares_of_data(run);
  long shared = here_shared;
  file.load([&](auto& archive) {
    if (!lacks(archive, "progress")) archive.child("progress", progress);
    if (!lacks(archive, "point")) archive("point", point)("stop", stop);
    if (!lacks(archive, "shares_of_epoch")) archive("shares_of_epoch", shared);
  });
  auto const here = std::exchange(run.progress, progress);
  bool const stops_here = std::exchange(run.due.stop.holds, stop || run.due.stop.holds);
  reopen_epoch(run, point);
  bool const asks = asks_for_batches(run, point);
  progress = std::exchange(run.progress, here);
  run.due.stop.holds = stops_here;
  if (!asks || progress.batch == 0) return;
  if (shared != here_shared) refuse_other_shares(progress.batch, shared, here_shared);
  if (batches && progress.batch >= *batches) refuse_short(progress.batch, *batches);
}

/// Loads what loaders keep, and puts them back: hooks are still to be heard before they are set to their place.
template <class R, class Source, class RunFile>
void try_loaders(State<R>& run, Source& source, RunFile const& file) {
  typename R::Backend::RunFile::Memory before;
  auto const fold = [&](auto& archive) { fold_loaders(run, source, archive); };
  before.save(fold);
  file.load(fold);
  before.put_back(fold);
}

}  // namespace fulgurite::loop
