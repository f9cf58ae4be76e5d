#pragma once
// The path of an exception through a run: who hears of it, and what is still written.

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/early_looks.hpp>
#include <fulgurite/loop/put_back.hpp>
#include <fulgurite/loop/redo_window.hpp>
#include <fulgurite/loop/silence.hpp>
#include <fulgurite/loop/tell_all.hpp>
#include <fulgurite/loop/warnings.hpp>
#include <fulgurite/loop/wrong_replay.hpp>

namespace fulgurite::loop {

/// A fit that fails before it has gone on from its file is no part of that file's run: loggers leave its folder.
template <class R, class Pack>
void leave_run(State<R>& run, Pack& pack) {
  if (run.parts.optimizers && !run.loading.resuming) return;
  pack.each([&](auto& callback) {
    if constexpr (hook::do_not_continue::accepts<std::remove_reference_t<decltype(callback)>>)
      callback.do_not_continue();
  });
  run.made.log_dir = run.made.log_dir_before;
  run.made.outcome.metrics_file = run.made.metrics_file_before;
}

/// The first error is the one to be thrown on; what fails while cleaning up after it is a warning, and the rest is
/// still done. Each rank prints what fails on it, unless that is silenced. `interrupted`: the first error is the end
/// that a signal asked for, and its being thrown again is no failure.
FULGURITE_COLD void clean_up(Warnings& said, Silence const& silence, bool interrupted, FunctionRef<void()> work) {
  std::string_view const identifier = "fulgurite.exception.second";
  bool const aloud = !silence.has(identifier);
  try {
    work();
  } catch (std::exception const& second) {
    if (interrupted && dynamic_cast<Interrupted const*>(&second) != nullptr) return;
    said.each(identifier, std::string("after the exception that ended the run, this failed too: ") + second.what(),
              aloud);
  } catch (...) {
    said.each(identifier, "after the exception that ended the run, something was thrown that is no std::exception",
              aloud);
  }
}

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
  still([&] {  // what those have to say that will not hear the event again
    if (run.due.heard.event.empty()) return;
    deliver_posted(run, pack, run.point.at == At::epoch_end ? last_step(run) : run.progress.logged_steps);
  });
  Context<R, phase::Fit> ctx(run);
  pack.each([&](auto& callback) { still([&] { tell_module<hook::on_exception>(callback, error, ctx); }); });
  still([&] { tell_module<hook::on_exception>(*run.parts.model, error, ctx); });
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>)
    still([&] { tell_module<hook::on_exception>(source.module(), error, ctx); });
  still([&] { tell_module<hook::on_exception>(run.parts.strategy, error, ctx); });
  if (dynamic_cast<NotPutBack const*>(&error)) run.due.requests.clear();  // a file of now would hold what was tried
  if constexpr (ChecksReplays<typename R::Strategy>)
    still([&] {
      if (dynamic_cast<WrongReplay const*>(&error)) {  // known to be wrong
        run.due.held_rows.clear();
        run.due.requests.clear();
      } else if (run.parts.strategy.unchecked() != 0) {
        run.warn("fulgurite.capture.unchecked", std::to_string(run.parts.strategy.unchecked()) +
                                                    " replayed steps were not checked, since the fit ended by an "
                                                    "exception: files and rows written now may hold what is wrong");
      }
      deliver_held(run, pack);
    });
  still([&] {
    // While a file is loaded, that file is the truth: nothing is written over it.
    if (run.parts.optimizers && !run.loading.resuming) {
      redo_window(run, pack, source);
      if (auto const* const before = before_repeated_validation(run)) expect_rows(pack, run.due.rows - before->rows);
      write_now(run, pack, source);
    }
  });
  run.loading.write = nullptr;
  still([&] { finish_files(run); });
  run.due.requests.clear();
  run.due.posted.clear();
  run.due.heard = {};  // it is in the files that were asked for; what comes later begins anew
  still([&] { leave_run(run, pack); });
  still([&] { finalize_loggers(pack, Status::failed); });
  leave_gradients_alone(run);
  still([&] { run.parts.strategy.teardown(*run.parts.model); });
  run.facts = {};
  run.point = {};
  run.before_validation.reset();
  if constexpr (shares<R>) run.shared = {};
  run.progress.batch = run.progress.window_start = 0;  // a later fit begins the epoch anew
  run.measured.train_board.restart();
}

/// Runs `body`. On an exception: on_exception for callbacks and model, requested checkpoints written, loggers told,
/// then it is thrown on. No end or teardown hook runs then.
template <class R, class Pack, class Source, class Body>
decltype(auto) rescued(State<R>& run, Pack& pack, Source& source, Body&& body) {
  try {
    return body();
  } catch (std::exception const& error) {
    failed(run, pack, source, error);
    throw;
  } catch (...) {
    Error const error("fulgurite.exception.unknown",
                      "what was thrown is no std::exception: derive it from one, so that its reason can be told");
    failed(run, pack, source, error);
    throw;
  }
}

}  // namespace fulgurite::loop
