#pragma once
// The bodies of loop/sentences.hpp.

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>

#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/sentences.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void refuse_log_place(std::string_view name, bool by_step) {
  if (by_step)
    throw Error("fulgurite.metric.no_step",
                std::string(name) +
                    " is declared with .on_step = true and logged in a hook of the epoch, where there is no "
                    "step: leave on_step out, or log it in training_step");
  throw Error("fulgurite.metric.two_places",
              std::string(name) +
                  " is logged both in steps and in a hook of the epoch: declare a second metric for one of them");
}

FULGURITE_BODY void refuse_no_rows(std::string_view name, long batch) {
  throw Error("fulgurite.metric.no_rows",
              "batch " + std::to_string(batch) + " has 0 rows, over which " + std::string(name) +
                  " has no mean: let the loader leave such a batch out, or log with {.batch_size = ...}");
}

FULGURITE_BODY void refuse_no_size(std::string_view name) {
  throw Error("fulgurite.metric.batch_size", "the batch holds no tensor to take its size from: log " +
                                                 std::string(name) +
                                                 " with {.batch_size = ...}, or give the batch a batch_size() member");
}

FULGURITE_BULK_BODY void refuse_short(long consumed, long had) {
  throw Error("fulgurite.resume.short_loader", "the run stopped after " + std::to_string(consumed) +
                                                   " batches of an epoch that was not finished, and the loader has " +
                                                   std::to_string(had) + " now: resume with the same data and limits");
}

FULGURITE_BULK_BODY void throw_short(long promised, long had) {
  throw Error("fulgurite.data.size", "the loader's size() promised " + std::to_string(promised) +
                                         " batches, it ended after " + std::to_string(had) +
                                         ": make size() and the loader agree");
}

FULGURITE_BODY int idle_while_waiting(Waited const& waited, unsigned processors) {
  double const idle = static_cast<double>(processors) - waited.busy;
  return waited.pass < 5 || waited.seconds < waited.pass / 4 || idle < 1 ? 0 : static_cast<int>(idle);
}

FULGURITE_BULK_BODY void advise_on_waiting(RunCore& run, Waited const& waited) {
  unsigned const processors = std::max(1U, std::thread::hardware_concurrency());
  int const idle = idle_while_waiting(waited, processors);
  if (idle == 0) return;
  std::string const part = std::to_string(std::lround(100 * waited.seconds / waited.pass));
  run.warn("fulgurite.data.waits", "the loop waited for its batches for " + part + " % of epoch " +
                                       std::to_string(run.progress.epoch) + ", and " + std::to_string(idle) + " of " +
                                       std::to_string(processors) +
                                       " processors had nothing to do: give the training loader .workers = " +
                                       std::to_string(waited.workers + std::min(idle, 8)) + " (it has " +
                                       std::to_string(waited.workers) + "), and more until the wait ends");
}

FULGURITE_BODY void warn_of_left_out(Warn warn, long batch, int epoch) {
  warn("fulgurite.data.none", "batch " + std::to_string(batch) + " of epoch " + std::to_string(epoch) +
                                  " is none, an empty optional: it is skipped, and so are others that follow");
}

FULGURITE_BODY void refuse_empty_epoch(int epoch) {
  throw Error("fulgurite.data.empty", "the training loader had no batch in epoch " + std::to_string(epoch) +
                                          ": begin() must start a new pass each time");
}

FULGURITE_BODY std::string place_of_batch(long batch, int epoch, bool no_rows) {
  return "batch " + std::to_string(batch) + " of epoch " + std::to_string(epoch) +
         (no_rows ? ", which has no rows," : "");
}

FULGURITE_BODY void refuse_update(std::string const& what, std::string const& where, long step,
                                  std::string const& buffer) {
  throw Error("fulgurite.loop.non_finite",
              what + " after " + where + ". The update was not made: the weights are those after step " +
                  std::to_string(step) + buffer +
                  ". Look at that batch, at the learning rate and at clipping; detect_anomaly = true names the "
                  "function. non_finite = NonFinite::skip leaves such updates out, NonFinite::ignore makes them");
}

FULGURITE_BODY void warn_of_skipped(Warn warn, std::string const& what, std::string const& where,
                                    std::string const& buffer) {
  warn("fulgurite.loop.non_finite_skipped",
       what + " after " + where +
           ": the update of its window is left out, and so are others like it (ctx.skipped_steps() counts them)" +
           buffer);
}

FULGURITE_BODY void refuse_non_finite(long from, long to) {
  throw Error("fulgurite.loop.non_finite",
              "a loss or a weight is not finite since one of the steps " + std::to_string(from) + " to " +
                  std::to_string(to) +
                  " (a GPU is asked at the cadence of the logs, log_every_n_steps). Nothing was written since: the "
                  "last checkpoint is good. non_finite = NonFinite::skip waits for the GPU in each step and leaves "
                  "such updates out, NonFinite::ignore makes them");
}

FULGURITE_BODY void warn_of_options(std::vector<std::string> const& differences, Warn warn) {
  std::string all;
  for (auto const& one : differences) all += (all.empty() ? "" : "; ") + one;
  if (!all.empty())
    warn("fulgurite.resume.options", "the program has other options than the file, and its own are used: " + all);
}

FULGURITE_BULK_BODY void refuse_open(RunCore const& run, std::string const& what) {
  if (run.loading.fit_is_open)
    throw Error("fulgurite.trainer.open_fit",
                what + " inside of a fit, which keeps what it began with: do so before or after it");
}

FULGURITE_BULK_BODY void check_steps(RehearsalPlan const& plan) {
  if (plan.steps < 1)
    refuse_option("fulgurite.tuner.steps", "a trial run's steps", plan.steps, "it has 1 step or more");
}

FULGURITE_BULK_BODY void check_rates(std::span<double const> rates, std::size_t groups) {
  if (rates.size() != groups)
    throw Error("fulgurite.tuner.rates", std::to_string(rates.size()) + " rates were given to " +
                                             std::to_string(groups) +
                                             " parameter groups: a plan sets one for each, as rates().now() lists them "
                                             "(more where a callback has added groups, none in an evaluation)");
}

FULGURITE_BULK_BODY void check_slices(bool recurrent, int tbptt, int window) {
  if (recurrent && tbptt == 0)
    throw Error("fulgurite.options.tbptt",
                "the model declares Hidden, so its batches are cut along time: say how long a slice is, "
                "Automatic{.tbptt = 16}");
  if (!recurrent && tbptt != 0)
    throw Error("fulgurite.options.tbptt",
                "tbptt = " + std::to_string(tbptt) +
                    " carries a state from slice to slice, and the model "
                    "declares none: add `using Hidden = ...` and training_step(batch, hidden, ctx)");
  if (tbptt != 0 && window != 1)
    throw Error("fulgurite.options.tbptt", "tbptt steps after each slice, accumulate_grad_batches = " +
                                               std::to_string(window) + " after several batches: use one of them");
}

}  // namespace fulgurite::loop
