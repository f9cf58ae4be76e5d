#pragma once
// What surrounds every run: preparation, setup, teardown, and the path of an exception. Callbacks before the model
// throughout.

#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>

#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/put_back.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/wrong_replay.hpp>

namespace fulgurite {

/// How a run ended, as loggers hear it.
enum class Status : std::uint8_t { success, failed };

namespace loop {

/// An event of the data module, if it has it.
template <class Hook, class Module, class... Args>
void tell_module(Module& module, Args&... args) {
  if constexpr (Listens<Hook, Module, Args...>) invoke<Hook>(module, args...);
}

/// One hook of data module (unless the model is its own), callbacks, model.
template <class Hook, class R, class Pack, class Source, class Ctx>
void tell_all(State<R>& run, Pack& pack, Source& source, Ctx& ctx) {
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>)
    tell_module<Hook>(source.module(), ctx);
  tell<Hook>(run, pack, ctx);
}

template <class Pack>
void finalize_loggers(Pack& pack, Status status) {
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.finalize(status); }) callback.finalize(status);
  });
}

/// A rule that only the machine can decide: with a device chosen at run time, scaling still needs a GPU.
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

/// prepare_data, setup, configure_model, then, when `file.load()` has put a file's weights into the model, the strategy
/// takes it. `file.find()` opens the file, so that setup knows whose run goes on.
template <class R, class Pack, class Source, class Ctx, class File>
void set_up(State<R>& run, Pack& pack, Source& source, Ctx& ctx, File&& file) {
  run.own_actions.told_to(pack);
  run.made.log_dir_before = run.made.log_dir;
  run.made.metrics_file_before = run.made.outcome.metrics_file;
  check_device(run);
  auto& module = source.module();
  using Module = std::remove_cvref_t<decltype(module)>;
  if constexpr (requires { module.prepare_data(); } || requires { run.parts.model->prepare_data(); })
    once_a_machine(run, "prepare_data", [&] {
      if constexpr (requires { module.prepare_data(); }) module.prepare_data();
      if constexpr (!std::is_same_v<Module, typename R::Model>)
        if constexpr (requires { run.parts.model->prepare_data(); }) run.parts.model->prepare_data();
    });
  file.find();
  tell_all<hook::setup>(run, pack, source, ctx);
  if constexpr (shares<R>) run.made.log_dir = of_first_rank(run, run.made.log_dir.string());  // loggers make it there
  if constexpr (Listens<hook::configure_model, typename R::Model, Ctx>)
    invoke<hook::configure_model>(*run.parts.model, ctx);
  file.load();
  run.parts.strategy.setup(*run.parts.model, run.parts.precision);
}

/// So many of the last rows come again when a fit goes on from the next file.
template <class Pack>
void expect_rows(Pack& pack, long rows) {
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.expect_again(rows); }) callback.expect_again(rows);
  });
}

/// Where a fit goes on that fails, or is written, inside a batch. After its step, while end hooks are told, it goes on
/// after them, where the loader says whether the batch was the last and does not keep its place by itself. Else a batch
/// is done again with all of its window: what it has added to the gradients cannot be told from what the batches before
/// it did. A loader that keeps its place cannot go back; the window begins at the next batch then.
template <class R, class Pack, class Source>
void redo_window(State<R>& run, Pack& pack, Source& source) {
  auto& progress = run.progress;
  if (run.point.at != At::before_batch) return;
  bool const stepped = !run.facts.left_out || run.point.counts;
  if (run.due.heard.template failed<hook::on_train_batch_end>()) {  // its step is made
    run.point = {.at = At::batch_end,
                 .last = run.facts.is_last_batch,
                 .counts = stepped,
                 .accumulating = run.facts.accumulating,
                 .began = true,
                 .observed = progress.global_step - (stepped && !run.facts.accumulating)};
    return;
  }
  bool told = run.facts.in_batch && run.facts.ended == progress.total_batches && !run.facts.end_unknown;
  if constexpr (Source::trains) told = told && !KeepsPlace<std::remove_reference_t<decltype(source.train())>>;
  if (told) {
    progress.batch = run.facts.batch_idx + 1;
    ++progress.total_batches;
    run.measured.train_board.fold();
    if (stepped && !run.facts.accumulating) progress.window_start = progress.batch;
  }
  // Where a window is over before its length, the step of what it holds follows the batch.
  bool flushing = !told && R::automatic && !run.facts.accumulating && progress.window_start != progress.batch;
  if constexpr (Source::trains) flushing = flushing && !KeepsPlace<std::remove_reference_t<decltype(source.train())>>;
  // It was over; what came after it has failed.
  if (run.facts.in_batch && progress.batch == run.facts.batch_idx + 1 && !flushing) {
    bool const counts = told ? stepped && !run.facts.accumulating : progress.window_start == progress.batch;
    run.point = {.at = told ? At::after_step : At::after_batch,
                 .last = run.facts.is_last_batch,
                 .counts = counts,
                 .accumulating = run.facts.accumulating,
                 .observed = progress.global_step - counts};
    return;
  }
  if constexpr (Source::trains)
    if constexpr (KeepsPlace<std::remove_reference_t<decltype(source.train())>>) {
      using Loader = std::remove_reference_t<decltype(source.train())>;
      if constexpr (BatchesStayValid<Loader> && !SizedLoader<Loader>) run.carried.slices = 0;  // it is past the batch
      progress.window_start = progress.batch;
      run.point.began |= run.facts.in_batch && progress.batch == 0;
      return;
    }
  progress.total_batches -= progress.batch - progress.window_start;
  progress.batch = progress.window_start;
  run.point.began |= run.facts.in_batch && progress.batch == 0;
  expect_rows(pack, run.due.rows_of_window(progress.total_batches));
}

/// A fit that fails before it has gone on from its file is no part of that file's run: loggers leave its folder.
template <class R, class Pack>
void leave_run(State<R>& run, Pack& pack) {
  if (run.parts.optimizers && !run.loading.resuming) return;
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.do_not_continue(); }) callback.do_not_continue();
  });
  run.made.log_dir = run.made.log_dir_before;
  run.made.outcome.metrics_file = run.made.metrics_file_before;
}

template <class R, class Pack, class Source>
void failed(State<R>& run, Pack& pack, Source& source, std::exception const& error) {
  run.loading.count_training = nullptr;
  fails(run, error);
  // The first error is the one to be thrown on; what fails while cleaning up after it is told, and the rest is still
  // done.
  auto const still = [&run](auto&& cleanup) {
    try {
      cleanup();
    } catch (std::exception const& second) {
      run.said.each("fulgurite.exception.second",
                    std::string("after the exception that ended the run, this failed too: ") + second.what(), true);
    } catch (...) {
      run.said.each("fulgurite.exception.second",
                    "after the exception that ended the run, something was thrown that is no std::exception", true);
    }
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
  still([&] { run.parts.strategy.teardown(*run.parts.model); });
  run.facts = {};
  run.point = {};
  if constexpr (shares<R>) run.shared = {};
  run.progress.batch = run.progress.window_start = 0;  // a later fit begins the epoch anew
  run.measured.train_board.restart();
}

/// Runs `body`. On an exception: on_exception for callbacks and model, requested checkpoints written, loggers told,
/// then it goes on its way. No end or teardown hook runs then.
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

/// The same with the algorithms that the options ask for: a whole run but fit, which lasts from open to close.
template <class R, class Pack, class Source, class Body>
decltype(auto) framed(State<R>& run, Pack& pack, Source& source, Body&& body) {
  [[maybe_unused]] auto const algorithms =
      R::Backend::algorithms(run.asked.options.deterministic, run.asked.options.benchmark);
  return rescued(run, pack, source, body);
}

}  // namespace loop
}  // namespace fulgurite
