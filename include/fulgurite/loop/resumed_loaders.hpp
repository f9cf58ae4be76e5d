#pragma once
// Whether the loaders of a program can go on where those of a file were, found out before training starts.

#include <optional>
#include <utility>

#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/reopened_epoch.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// The batch at which the file's epoch goes on is one of the `batches` that training has, where it is known how many.
template <class R, class RunFile>
void refuse_short_data(State<R>& run, RunFile const& file, std::optional<long> batches) {
  if (!batches) return;
  Progress progress;
  SafePoint point;
  bool stop = false;
  file.load([&](auto& archive) {
    if (!lacks(archive, "progress")) archive.child("progress", progress);
    if (!lacks(archive, "point")) archive("point", point)("stop", stop);
  });
  auto const here = std::exchange(run.progress, progress);
  bool const stops_here = std::exchange(run.due.stop.holds, stop || run.due.stop.holds);
  reopen_epoch(run, point);
  bool const asks = asks_for_batches(run, point);
  progress = std::exchange(run.progress, here);
  run.due.stop.holds = stops_here;
  if (asks && progress.batch != 0 && progress.batch >= *batches) refuse_short(progress.batch, *batches);
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
