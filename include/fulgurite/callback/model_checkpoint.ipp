#pragma once
// The bodies of callback/model_checkpoint.hpp.

#include <cmath>
#include <cstddef>
#include <exception>
#include <system_error>
#include <tuple>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::checkpointing {

FULGURITE_BODY std::vector<std::filesystem::path> Place::folders(CheckpointSearch const& search) const {
  if (!folder_.empty()) return {folder_};
  if (!given_.empty()) return {given_};
  if (!search.runs) return {(search.root / "checkpoints").lexically_normal()};
  std::vector<std::filesystem::path> folders;
  for (auto const& run : *search.runs) folders.push_back(run / "checkpoints");
  return folders;
}

FULGURITE_BODY void Place::do_not_continue() {
  folder_ = before_;
  loaded_.clear();
  moved_from_.clear();
  other_spelling_.clear();
}

FULGURITE_BODY std::filesystem::path Place::take_other_spelling() { return std::exchange(other_spelling_, {}); }

/// True if both are the same folder, however they are spelt.
FULGURITE_BODY bool is_same(std::filesystem::path const& one, std::filesystem::path const& other) {
  std::error_code no_one, no_other;
  auto const a = std::filesystem::weakly_canonical(std::filesystem::absolute(one), no_one),
             b = std::filesystem::weakly_canonical(std::filesystem::absolute(other), no_other);
  return !no_one && !no_other && a == b;
}

FULGURITE_BODY bool Place::moved() {
  if (loaded_.empty() || folder_.empty() || loaded_ == folder_) return false;
  bool const same = is_same(loaded_, folder_);
  (same ? other_spelling_ : moved_from_) = std::exchange(loaded_, {});
  return !same;
}

FULGURITE_BODY std::filesystem::path Saver::kth_best_model_path() const {
  return top().full() && top().size() != 0 ? top().worst_path() : std::filesystem::path{};
}

FULGURITE_BODY std::optional<double> Saver::kth_value() const {
  return top().full() && top().size() != 0 ? std::optional(top().worst_score()) : std::nullopt;
}

FULGURITE_BODY void Saver::to_yaml(std::filesystem::path const& file) const {
  std::string text;
  for (std::size_t i = 0; i != top().size(); ++i)
    text += report::yaml(top().paths()[i].string()) + ": " + report::yaml(top().scores()[i]) + "\n";
  write_durably(file.empty() ? dirpath() / "best_k_models.yaml" : file, text.empty() ? "{}\n" : text);
}

FULGURITE_BODY void Saver::print(bool here, std::string const& what) const {
  if (options_.verbose && here) fulgurite::print_lines(stderr, "ModelCheckpoint: " + what + "\n");
}

/// What an outcome says of the best file.
auto best_of(auto& outcome) {
  return std::tie(outcome.best_metric, outcome.best_metric_name, outcome.best_value, outcome.best_epoch,
                  outcome.best_file);
}

FULGURITE_BODY bool Saver::says_best(Outcome const& outcome) const {
  return monitor_ && (outcome.best_by == this || !outcome.first_has_best);
}

FULGURITE_BODY KeptFiles::Named Saver::naming(Outcome& outcome) const {
  return [this, before = outcome, &outcome](std::filesystem::path const& file) {
    outcome.last_file = file.empty() ? before.last_file : file;
    if (file.empty() && says_best(outcome)) best_of(outcome) = best_of(before);
    publish(outcome);
  };
}

FULGURITE_BODY void rethrow(SavedFile const& saved) {
  if (saved.failure) std::rethrow_exception(saved.failure);
}

FULGURITE_BODY void Saver::publish(Outcome& outcome) const {
  auto const& ranking = kept_.ranking();
  if (!ranking.best_score || !says_best(outcome)) return;
  outcome.first_has_best = outcome.best_by == this;
  best_of(outcome) =
      std::tuple(monitor_.written(), monitor_.name, ranking.best_score, ranking.best_epoch, ranking.best);
}

FULGURITE_BODY bool Saver::writes_any() const {
  return options_.save_top_k != 0 || options_.save_last.kind != SaveLast::no;
}

FULGURITE_BODY void Saver::write_waiting(CheckpointFiles& files, Waiting const& now, Outcome& outcome) {
  gone_.clear();     // a later file may use the name again
  waiting_.reset();  // the file holds the state after this request
  auto const then = [this, before = now.before](CheckpointFiles const& done, SavedFile const& saved) {
    if (saved.file.empty()) last_saved_ = before;
    else print(done.writes(), "saved " + saved.file.string());
    rethrow(saved);
  };
  if (files.later()) kept_.save_later(files, dirpath(), options_, now.file, naming(outcome), then);
  else then(files, kept_.save(files, dirpath(), options_, now.file, naming(outcome)));
}

void Place::state(auto& archive) {
  auto saved = folder_;
  archive("dirpath", saved);
  if (!archive.loading) return;
  loaded_ = saved;
  if (!given_.empty()) folder_ = given_;
  else if (!chosen_) folder_ = saved;
  is_elsewhere_ = moved();
}
FULGURITE_STATE(Place)

void Waiting::state(auto& archive) { archive("file", file)("before", before)("in_batch", in_batch); }
FULGURITE_STATE(Waiting)

void Saver::state(auto& archive) {
  place_.state(archive);
  archive("waiting", waiting_)("current_score", current_)("last_saved_step",
                                                          last_saved_)("deferred", deferred_)("validated", validated_);
  timing_.state(archive);
  kept_.state(archive);
  options_state(options_, archive);
  if (!archive.loading) return;
  kept_.respell(place_.take_other_spelling(), place_.folder());
  if (!in_fit_) gone_ = kept_.gone();
  kept_.forget(gone_);
  if (place_.is_elsewhere()) kept_.leave();
  if (in_fit_) place_.forget_move();
  else resumed_ = true;
}
FULGURITE_STATE(Saver)

FULGURITE_MOVES_BODY(Saver);

FULGURITE_BODY bool Place::choose(Context const& ctx) {
  before_ = folder_;
  if (!given_.empty()) folder_ = given_;
  else if (!ctx.log_dir().empty()) folder_ = ctx.log_dir() / "checkpoints";
  else folder_ = (ctx.options().default_root_dir / "checkpoints").lexically_normal();
  folder_ = ctx.of_first_rank(folder_.string());  // only rank zero's loggers name a folder
  chosen_ = true;
  return moved();
}

FULGURITE_BODY void Place::warn_of_files(Context const& ctx) const {
  std::error_code none;
  if (std::filesystem::is_directory(folder_, none) && !std::filesystem::is_empty(folder_, none))
    ctx.warn_each("fulgurite.callback.checkpoint_folder",
                  "ModelCheckpoint: " + folder_.string() + " is not empty: what lies there is left alone");
}

FULGURITE_BODY bool Place::warn_of_move(Context const& ctx) {
  auto const from = std::exchange(moved_from_, {});
  if (!from.empty())
    ctx.warn_each("fulgurite.callback.checkpoint_moved",
                  "ModelCheckpoint: resumed from " + from.string() + " into " + folder_.string() +
                      ": the ranking starts again there, and the files in the first folder are left alone");
  return !from.empty();
}

FULGURITE_BODY bool Saver::at_train_epoch_end(Context const& ctx) const {
  return watch::at_train_epoch_end(options_.save_on_train_epoch_end, ctx);
}

FULGURITE_BODY void Saver::request(Context const& ctx, SavingFile now) {
  long const before = std::exchange(last_saved_, ctx.global_step());
  ask(ctx, {std::move(now), before});
}

FULGURITE_BODY void Saver::ask(Context const& ctx, Waiting const& now) {
  waiting_ = now;
  ctx.request_checkpoint(
      {this, [this, now, &outcome = ctx.outcome()](CheckpointFiles& files) { write_waiting(files, now, outcome); }});
}

FULGURITE_BODY void Saver::warn_of_missing(Context const& ctx) {
  if (gone_.empty()) return;
  auto const all = listed(gone_, [](std::filesystem::path const& file) { return file.string(); });
  ctx.warn_each("fulgurite.callback.checkpoint_gone", "ModelCheckpoint: " + all +
                                                          ": kept by the run that is resumed, and no longer there; "
                                                          "missing files leave the ranking");
}

FULGURITE_BODY bool Saver::skips(Context const& ctx) const {
  return !watch::in_fit(ctx) || ctx.global_step() == last_saved_;
}

FULGURITE_BODY void Saver::save_step_of_batch(Context const& ctx, long before) {
  waiting_ = Waiting{.before = before, .in_batch = true};
  ctx.request_checkpoint({this, [this, before, ctx](CheckpointFiles& files) {
                            bool const by_validation = ctx.has_validation() && (monitor_ || name_.has_metrics());
                            auto const follows = files.validation_follows();
                            last_saved_ = before;
                            // A later hook of the batch has failed. A validation that follows the last batch of an
                            // epoch ranks the file in the run that resumes: it requests the file again.
                            if (by_validation && !follows && ctx.is_last_batch()) return;
                            waiting_.reset();
                            if ((by_validation && follows == true) || value_is_to_come(ctx)) {
                              deferred_ = true;
                            } else if (auto const now = admitted(ctx, ctx.current_epoch())) {
                              last_saved_ = now->step;
                              write_waiting(files, {*now, before}, ctx.outcome());
                            }
                          }});
}

FULGURITE_BODY bool Saver::value_is_to_come(Context const& ctx) const {
  return monitor_ && ctx.has_validation() && !ctx.shared_value(monitor_);
}

FULGURITE_BODY void Saver::save(Context const& ctx, int epoch) {
  if (auto now = admitted(ctx, epoch)) request(ctx, std::move(*now));
}

FULGURITE_BODY std::optional<double> Saver::seen_now(Context const& ctx) {
  auto const now = ctx.watched_value(monitor_);
  if (now.is_newer_than(seen_.logged)) seen_ = {now.logged, ctx.global_step()};
  return now.value;
}

FULGURITE_BODY std::optional<SavingFile> Saver::admitted(Context const& ctx, int epoch) {
  SavingFile now{.name = {}, .epoch = epoch, .step = ctx.global_step()};
  if (monitor_) {
    now.score = seen_now(ctx);
    if (!now.score) {
      missing(ctx);
      return std::nullopt;
    }
    if (std::isnan(*now.score)) now.score = watch::worst(options_.mode);
    current_ = now.score;
    if (options_.save_top_k != 0 && !top().admits(*now.score)) {
      print(ctx.rank() == 0, monitor_.written() + " = " + exact_number(*now.score) + " is not among the best");
      return std::nullopt;
    }
  }
  if (!writes_any()) return std::nullopt;
  if (monitor_) warn_of_old_value(ctx);
  now.name = name_.text(ctx, epoch, monitor_);
  return now;
}

FULGURITE_BODY void Saver::missing(Context const& ctx) {
  std::string const what = "ModelCheckpoint watches '" + monitor_.written() + "', which was not logged by step " +
                           std::to_string(ctx.global_step());
  if (validated_ || !ctx.has_validation())
    throw Error("fulgurite.callback.checkpoint_metric", what + ": log it, or watch another metric");
  if (!std::exchange(warned_, true))
    ctx.warn_each("fulgurite.callback.checkpoint_waits", what + ": nothing is saved before it is");
}

FULGURITE_BODY void Saver::warn_of_old_value(Context const& ctx) {
  if (seen_.step >= ctx.global_step() || std::exchange(warned_of_age_, true)) return;
  ctx.warn_each("fulgurite.callback.checkpoint_old_value",
                "ModelCheckpoint watches '" + monitor_.written() + "', which was last logged at step " +
                    std::to_string(seen_.step) + ": the file of step " + std::to_string(ctx.global_step()) +
                    " is ranked by that value, which its weights did not have. Save where the metric is logged, or "
                    "validate before each save");
}

FULGURITE_BODY Saver::Saver(ModelCheckpointOptions const& options, WatchedMetric monitor)
    : options_(options),
      place_(options_.dirpath),
      kept_(options_),
      monitor_(monitor),
      name_(options_),
      timing_(checked(options_, bool(monitor))) {}

FULGURITE_BODY void Saver::setup(Context& ctx) {
  if (place_.choose(ctx)) kept_.leave();
  kept_.respell(place_.take_other_spelling(), place_.folder());
  bool const writes = watch::in_fit(ctx) && ctx.rank() == 0;
  moved_ = place_.warn_of_move(ctx);
  // A folder that cannot be made is an Error here, not only at the end of the first epoch.
  if (writes && writes_any()) DurableFile const probe(dirpath() / "probe");
  name_.check(ctx);
}

FULGURITE_BODY void Saver::on_fit_start(Context& ctx) {
  kept_.hold(ctx.held_files(), this);
  if (auto& by = ctx.outcome().best_by; monitor_ && options_.save_top_k != 0 && !by) by = this;
}

FULGURITE_BODY void Saver::on_train_start(Context& ctx) {
  if (ctx.outcome().best_by == this && kept_.ranking().best_score) ctx.outcome().first_has_best = true;
  if (place_.warn_of_move(ctx)) moved_ = true;
  // Files of this run, written earlier in this program or before it was resumed, are expected.
  bool const is_own = !moved_ && (resumed_ || last_saved_ != 0);
  if (ctx.rank() == 0 && options_.save_top_k != 0 && !is_own && watch::in_fit(ctx)) place_.warn_of_files(ctx);
  timing_.begin(ctx, resumed_);
  validated_ = false;
  in_fit_ = true;
  seen_ = {};                             // all that this fit logs is new, however often an earlier fit has logged it
  if (!std::exchange(resumed_, false)) {  // a failed fit may have left these
    deferred_ = false;
    waiting_.reset();
    gone_.clear();
  }
  warn_of_missing(ctx);
  publish(ctx.outcome());
  if (!waiting_) return;  // otherwise the run was stopped between the request and its file
  if (waiting_->in_batch) save_step_of_batch(ctx, waiting_->before);
  else ask(ctx, *waiting_);
}

FULGURITE_BULK_BODY void Saver::on_train_batch_end(Context& ctx) {
  // Inside an accumulation window there is no step to save yet; a file requested here would hold the step that follows.
  if (ctx.accumulating()) return timing_.look(ctx);
  bool const by_step = timing_.by_steps(ctx);
  if (!skips(ctx) && (by_step || timing_.by_time(ctx)))
    save_step_of_batch(ctx, std::exchange(last_saved_, ctx.global_step()));
}

FULGURITE_BODY void Saver::on_train_epoch_end(Context& ctx) {
  bool const by_step = timing_.by_flushed_step(ctx);
  if (skips(ctx)) return;
  if (by_step && value_is_to_come(ctx)) deferred_ = true;
  else if (by_step || (at_train_epoch_end(ctx) && timing_.by_epoch(ctx.current_epoch())))
    save(ctx, ctx.current_epoch());
}

FULGURITE_BODY void Saver::on_validation_end(Context& ctx) {
  if (!watch::in_fit(ctx)) return;
  validated_ = true;
  if (monitor_) static_cast<void>(seen_now(ctx));
  bool const by_step = timing_.by_flushed_step(ctx);
  if (skips(ctx)) return;
  if (std::exchange(deferred_, false) || by_step || (!at_train_epoch_end(ctx) && timing_.by_epoch(ctx.current_epoch())))
    save(ctx, ctx.current_epoch());
}

FULGURITE_BODY void Saver::on_train_end(Context& ctx) {
  int const epoch = ctx.current_epoch() - 1;  // the last epoch, which is over
  // Steps were taken after the last validation: the latest file then holds the end of the run.
  bool const behind = !monitor_ && !at_train_epoch_end(ctx) && timing_.by_epoch(epoch);
  bool const waited = std::exchange(deferred_, false);  // for a value that did not come
  if ((waited || behind) && !skips(ctx)) save(ctx, epoch);
  if (!KeptFiles::copies_last(options_) || !watch::in_fit(ctx) || ctx.global_step() == 0) return;
  ctx.request_checkpoint({this, [this, step = ctx.global_step(), &outcome = ctx.outcome()](CheckpointFiles& files) {
                            if (kept_.last().step != step)  // else the file "last" already holds this step
                              rethrow(kept_.save_last(files, dirpath(), options_, step, naming(outcome)));
                          }});
}

FULGURITE_BODY void Saver::on_fit_end(Context& ctx) {
  // Rank 0 decides, since only it sees which files are still on the disk.
  if (!watch::in_fit(ctx) || ctx.of_first_rank(kept_.is_unfinished() ? "1" : "").empty()) return;
  ctx.request_checkpoint({this, [this](CheckpointFiles& files) { kept_.complete(files, place_.folder(), options_); }});
}

FULGURITE_BODY void Saver::on_exception(Context& ctx) {
  in_fit_ = false;
  if (options_.save_on_exception && !skips(ctx))
    request(ctx, {.name = name_.text(ctx, ctx.current_epoch(), monitor_), .step = ctx.global_step(), .ranked = false});
}

FULGURITE_BODY void Saver::do_not_continue() {
  resumed_ = false;
  place_.do_not_continue();
  gone_.clear();
}

FULGURITE_BODY std::string Saver::state_key() const {
  auto const number = [](auto const& n) { return n ? std::to_string(*n) : std::string("-"); };
  return "ModelCheckpoint{" + monitor_.written() + (options_.mode == Mode::min ? ", min, " : ", max, ") +
         number(options_.every_n_train_steps) + ", " + number(options_.every_n_epochs) + ", " +
         (options_.train_time_interval ? exact_number(options_.train_time_interval->count()) : "-") + "}";
}

FULGURITE_BODY std::vector<std::filesystem::path> Saver::last_checkpoints(CheckpointSearch const& search) const {
  std::vector<std::filesystem::path> files;
  for (auto const& folder : place_.folders(search))
    for (auto& file : name_.files_in(folder, options_.extension)) files.push_back(std::move(file));
  if (auto const& last = last_model_path(); !last.empty()) files.push_back(last);
  return files;
}

}  // namespace fulgurite::checkpointing
