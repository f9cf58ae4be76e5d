#pragma once
// Checkpoints are requested by callbacks and written here, at safe points: after an event has been heard by all,
// between steps.

#include <cstddef>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>

#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/files_under_way.hpp>
#include <fulgurite/loop/first_failure.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/write_checkpoint.hpp>

namespace fulgurite::loop {

/// Does what was requested, one request after the other: each finds the files of those before it on the disk. Where one
/// fails, the others are done all the same, and the first error is thrown; under several ranks only where it is one of
/// all of them, since the others would wait inside of the file in which this one has failed.
template <class R, class Pack, class Source>
void write_now(State<R>& run, Pack& pack, Source& source) {
  auto& due = run.due;
  auto const requests = std::exchange(due.requests, {});
  due.now = requests;
  due.done = 0;
  auto const awaited = [&due](auto const& file) { return due.awaits(file); };
  bool const writes = speaks_for_all(run);
  [[maybe_unused]] std::exception_ptr alone{};  // this rank has failed inside of a file, in which the others wait
  auto const write = [&](std::filesystem::path const& file, bool weights_only) {
    if (alone) std::rethrow_exception(alone);
    try {
      write_checkpoint(run, pack, source, file, weights_only);
    } catch (...) {
      if constexpr (shares<R>)
        if (!run.shared.together && !run.shared.alone) alone = std::current_exception();
      throw;
    }
  };
  FirstFailure failure(run);
  for (std::size_t i = 0; i != requests.size(); ++i) {
    auto const& request = requests[i];
    CheckpointFiles files(run.made.held_files, request.holder, awaited, writes, write);
    if constexpr (shares<R>)
      if (!run.shared.alone)
        files.are_shared([&run, &alone, writes](bool mine) { return alone ? mine : any_rank(run, writes && mine); });
    files.can_write_later(writing_later(run, pack, source, request.holder));
    failure.attempt([&] { finish_files(run); });  // of an earlier request: one copy at a time
    due.done = i + 1;
    [[maybe_unused]] bool const fine = failure.attempt([&] {
      if (request.act) request.act(files);
      else files.write(request.path);
    });
    if constexpr (shares<R>)
      if (!fine && !run.shared.together && !run.shared.alone) break;
  }
  due.now.clear();
  due.done = 0;
  failure.rethrow();
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
