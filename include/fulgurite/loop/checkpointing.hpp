#pragma once
// Checkpoints are requested by callbacks and written here, at safe points: after an event has been heard by all,
// between steps.

#include <cstddef>
#include <exception>
#include <filesystem>
#include <span>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/file_exists.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/files_under_way.hpp>
#include <fulgurite/loop/first_failure.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/write_checkpoint.hpp>

namespace fulgurite::loop {

/// Does what was requested, one request after the other: each finds the files of those before it on the disk. Where one
/// fails, the others are done all the same, and the first error is thrown; where it `failed_alone()`, under several
/// ranks, no other is, since the others would wait inside of the file in which this one has failed. `files_of(holder)`
/// makes what a request is given, `finish()` follows up files that another thread writes.
FULGURITE_COLD void do_requests(Due& due, Warn warn, FunctionRef<CheckpointFiles(HeldFiles::Holder)> files_of,
                                FunctionRef<void()> finish, FunctionRef<bool()> failed_alone) {
  auto const requests = std::exchange(due.requests, {});
  due.now = requests;
  due.done = 0;
  FirstFailure failure(warn);
  for (std::size_t i = 0; i != requests.size(); ++i) {
    auto const& request = requests[i];
    auto files = files_of(request.holder);
    failure.attempt(finish);  // of an earlier request: one copy at a time
    due.done = i + 1;
    bool const fine = failure.attempt([&] {
      if (request.act) request.act(files);
      else files.write(request.path);
    });
    if (!fine && failed_alone()) break;
  }
  due.now.clear();
  due.done = 0;
  failure.rethrow();
}

/// The same, of this run.
template <class R, class Pack, class Source>
void write_now(State<R>& run, Pack& pack, Source& source) {
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
      write_checkpoint(run, pack, source, file, weights_only);
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
    write_later(run, pack, source, holder, planned, weights_only, std::move(then));
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
