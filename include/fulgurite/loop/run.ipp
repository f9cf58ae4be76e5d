#pragma once
// The bodies of loop/run.hpp.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

#include <fulgurite/loop/run.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY double RehearsedStep::loss() const {
  return loss_ ? loss_() : std::numeric_limits<double>::quiet_NaN();
}

FULGURITE_BULK_BODY void RehearsedStep::set_batch(long place, long size) {
  batch_idx_ = place;
  batch_size_ = size;
}

void Progress::state(auto& archive) {
  archive("epoch", epoch)("batch", batch)("global_step", global_step)("skipped_steps", skipped_steps)(
      "logged_steps", logged_steps)("total_batches", total_batches)("window_start", window_start)(
      "window_end", window_end)("left_out", left_out)("cut_short", cut_short);
}
FULGURITE_STATE(Progress)

}  // namespace fulgurite

namespace fulgurite::loop {

/// fast_dev_run = n: one epoch of n batches, and n batches of validation, test and predict, without a sanity check. A
/// batch may take several steps and validation must still run, so max_steps is at least n.
FULGURITE_BULK_BODY void apply_dev_run(TrainerOptions& o) {
  if (!o.overfit_batches) o.limit_train_batches = o.limit_val_batches = o.fast_dev_run;
  o.limit_test_batches = o.limit_predict_batches = o.fast_dev_run;
  if (o.max_steps && *o.max_steps >= 0 && *o.max_steps < o.fast_dev_run) o.max_steps = o.fast_dev_run;
  o.max_epochs = 1;
  o.min_epochs.reset();
  o.min_steps.reset();
  o.num_sanity_val_steps = 0;
  o.val_check_interval = {};
  o.check_val_every_n_epoch = 1;
}

FULGURITE_BULK_BODY TrainerOptions effective(TrainerOptions given) {
  if (given.overfit_batches) given.limit_train_batches = given.limit_val_batches = *given.overfit_batches;
  if (given.barebones) given.log_every_n_steps = given.num_sanity_val_steps = 0;
  if (given.fast_dev_run != 0) apply_dev_run(given);
  return given;
}

FULGURITE_BULK_BODY Asked::Asked(TrainerOptions&& all, std::size_t added_callbacks, bool has_logger)
    : options(effective(all)), given(std::move(all)), added(added_callbacks), logs(has_logger) {}
FULGURITE_COPIES_BODY(Asked);

FULGURITE_BULK_BODY void Warnings::once(std::string_view identifier, std::string_view sentence, bool aloud) {
  for (auto const& said : said_)
    if (is_of(said, identifier)) return;
  say(identifier, sentence, aloud);
}

FULGURITE_BULK_BODY void Warnings::each(std::string_view identifier, std::string_view sentence, bool aloud) {
  for (auto const& said : said_)
    if (is_of(said, identifier) && std::string_view(said).substr(identifier.size() + 3) == sentence) return;
  say(identifier, sentence, aloud);
}

FULGURITE_BULK_BODY bool Warnings::is_of(std::string_view said, std::string_view identifier) {
  return said.substr(1).starts_with(identifier) && said.substr(identifier.size() + 1).starts_with(']');
}

FULGURITE_BULK_BODY void Warnings::say(std::string_view identifier, std::string_view sentence, bool aloud) {
  auto& said = said_.emplace_back("[");
  said.append(identifier).append("] ").append(sentence);
  if (aloud) fulgurite::print_lines(stderr, "warning: " + said + "\n");
}

FULGURITE_BULK_BODY NotRestored::NotRestored(char const* why)
    : Error("fulgurite.tuner.put_back",
            std::string("what a trial run has changed could not be restored, so the run is not as it was before: "
                        "resume from a file of it, or start it again; ") +
                why) {}

void SafePoint::state(auto& archive) {
  archive("at", at)("last", last)("counts", counts)("accumulating", accumulating)("left_early", left_early);
  archive("began", began)("parts", parts)("observed", observed);
}
FULGURITE_STATE(SafePoint)

FULGURITE_BODY FinishedValues::FinishedValues(std::size_t metrics)
    : counted(metrics), logged(metrics), results(metrics) {}

FULGURITE_COPIES_BODY(FinishedValues);

FULGURITE_BODY void FinishedValues::forget() {
  std::ranges::fill(results, Figures{});
  for (auto& of_loader : loader_results) std::ranges::fill(of_loader, Figures{});
}

FULGURITE_BODY RunCore::RunCore(Asked&& what, ProgramCalls const& of_program)
    : RunPlace{.asked = std::move(what), .values = FinishedValues(of_program.metrics.size())},
      keeps_questions(of_program.keeps_questions),
      program(&of_program) {}

FULGURITE_BULK_BODY RunCore::~RunCore() = default;

FULGURITE_BODY std::string RunCore::of_first_rank(std::string mine) {
  return program->of_first_rank(*this, std::move(mine));
}

FULGURITE_BODY void RunCore::set_callbacks(Callbacks all, ProgramEvents const& of_pack) {
  callbacks.assign(all.begin(), all.end());
  events = &of_pack;
}

FULGURITE_BODY void RunCore::begin_fit(bool has_validation) {
  facts = {};
  facts.has_validation = has_validation && !asked.options.limit_val_batches.none();
  due = {};
  clock.earlier = 0;
  clock.training_began.reset();
  made.outcome.ended_by.clear();
  made.outcome.best_by = nullptr;
  made.outcome.first_has_best = false;
  loading.resuming = loading.half_loaded = loading.training_is_open = loading.validation_is_open = false;
  point = {};
}

FULGURITE_BODY void RunCore::warn(std::string_view identifier, std::string_view sentence) {
  said.once(identifier, sentence, aloud(identifier));
}

FULGURITE_BODY void RunCore::warn_each(std::string_view identifier, std::string_view sentence) {
  said.each(identifier, sentence, aloud(identifier));
}

FULGURITE_BODY void end_alone_if_asked(RunCore const& run, Callbacks callbacks) {
  if (!run.program->is_distributed) end_if_asked(callbacks);
}

FULGURITE_BODY double RunCore::training_seconds() const {
  double const now = clock.training_began ? Seconds(asked.options.now() - *clock.training_began).count() : 0.0;
  return clock.earlier + now;
}

FULGURITE_BODY void RunCore::stop_clock() {
  clock.earlier = training_seconds();
  clock.training_began.reset();
}

FULGURITE_BODY bool RunCore::aloud(std::string_view identifier) const {
  return rank() == 0 && !asked.options.silence.has(identifier);
}

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

FULGURITE_BODY void warn_of_left_out(RunCore& run, long batch) {
  run.warn("fulgurite.data.none", "batch " + std::to_string(batch) + " of epoch " + std::to_string(run.progress.epoch) +
                                      " is none, an empty optional: it is skipped, and so are others that follow");
}

FULGURITE_BODY void refuse_empty_epoch(int epoch) {
  throw Error("fulgurite.data.empty", "the training loader had no batch in epoch " + std::to_string(epoch) +
                                          ": begin() must start a new pass each time");
}

FULGURITE_BODY std::string place_of_batch(RunCore const& run) {
  bool const no_rows = run.facts.batch_size == 0 && run.facts.no_rows;
  return "batch " + std::to_string(run.facts.batch_idx) + " of epoch " + std::to_string(run.progress.epoch) +
         (no_rows ? ", which has no rows," : "");
}

FULGURITE_BODY std::string not_finite_gradient(std::optional<double> loss) {
  return "a gradient is not finite" + (loss ? " (" + not_finite_loss(*loss) + ")" : std::string());
}

/// The sentence about a buffer, or nothing.
FULGURITE_BODY std::string spoiled(std::string const& buffer) {
  return buffer.empty() ? buffer
                        : ". The buffer '" + buffer +
                              "' holds a nan: buffers are written while the loss is computed, and are not restored";
}

FULGURITE_BODY void refuse_update(RunCore const& run, std::string const& what, std::string const& buffer) {
  throw Error("fulgurite.loop.non_finite",
              what + " after " + place_of_batch(run) + ". The update was not made: the weights are those after step " +
                  std::to_string(run.progress.global_step) + spoiled(buffer) +
                  ". Look at that batch, at the learning rate and at clipping; detect_anomaly = true names the "
                  "function. non_finite = NonFinite::skip leaves such updates out, NonFinite::ignore makes them");
}

FULGURITE_BODY void warn_of_skipped(RunCore& run, std::string const& what, std::string const& buffer) {
  run.warn("fulgurite.loop.non_finite_skipped",
           what + " after " + place_of_batch(run) +
               ": the update of its window is left out, and so are others like it (ctx.skipped_steps() counts them)" +
               spoiled(buffer));
}

FULGURITE_BODY void refuse_non_finite(long from, long to) {
  throw Error("fulgurite.loop.non_finite",
              "a loss or a weight is not finite since one of the steps " + std::to_string(from) + " to " +
                  std::to_string(to) +
                  " (a GPU is asked at the cadence of the logs, log_every_n_steps). Nothing was written since: the "
                  "last checkpoint is good. non_finite = NonFinite::skip waits for the GPU in each step and leaves "
                  "such updates out, NonFinite::ignore makes them");
}

FULGURITE_BODY void warn_of_options(RunCore& run, std::vector<std::string> const& differences) {
  std::string all;
  for (auto const& one : differences) append_item(all, one, "; ");
  if (!all.empty())
    run.warn_each("fulgurite.resume.options",
                  "the program has other options than the file, and its own are used: " + all);
}

FULGURITE_BODY void refuse_half_loaded(RunCore const& run, std::string const& what) {
  if (run.loading.half_loaded)
    throw Error("fulgurite.resume.half_loaded",
                what + ": a fit has not loaded all of the file from which it resumes, so what is saved now would "
                       "continue otherwise: save from on_train_epoch_start on, or use ctx.request_checkpoint; after a "
                       "fit that has failed, resume from its file");
}

FULGURITE_BULK_BODY void refuse_open(RunCore const& run, std::string const& what, bool is_run) {
  if (run.loading.fit_is_open)
    throw Error("fulgurite.trainer.open_fit",
                what + " inside of a fit, which keeps what it began with: do so before or after it");
  if (is_run && run.loading.evaluates)
    throw Error(
        "fulgurite.trainer.open_evaluation",
        what +
            " inside of an evaluation of the same trainer, which is not over: do so after it, or by another trainer");
}

FULGURITE_BULK_BODY void check_steps(RehearsalPlan const& plan) {
  if (plan.steps < 1)
    refuse_option("fulgurite.tuner.steps", "a trial run's steps", plan.steps, "it has 1 step or more");
}

FULGURITE_BODY std::optional<long> estimated_steps(RunCore const& run) {
  auto const& o = run.asked.options;
  std::optional<long> const most = o.max_steps && *o.max_steps >= 0 ? o.max_steps : std::nullopt;
  if (!o.max_epochs || *o.max_epochs < 0 || run.program->is_recurrent) return most;
  auto batches = run.facts.train_batches;
  if (!batches && run.loading.count_training) batches = run.loading.count_training();
  if (!batches) return most;
  long const window = std::max(1, run.asked.window_length);
  long const steps = (*batches + window - 1) / window * std::max(*o.max_epochs, 1);
  return most ? std::min(*most, steps) : steps;
}

FULGURITE_BODY void check_window(char const* name, int batches, bool needs_closure) {
  if (batches < 1) refuse_option("fulgurite.options.accumulate", name, batches, "a window has at least 1 batch");
  if (needs_closure && batches > 1)
    throw Error("fulgurite.optimizer.closure_accumulates",
                "an optimizer that evaluates its closure several times would see only the last of " +
                    std::to_string(batches) + " accumulated batches: use " + name + " = 1");
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
