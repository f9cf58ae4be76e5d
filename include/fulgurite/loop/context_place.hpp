#pragma once
// What every context says: where its run is.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/estimate.hpp>
#include <fulgurite/loop/not_here.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

template <class R>
class PlaceContext : public NotHere {
 public:
  using Run = R;
  using Metrics = typename R::Metrics;
  using Backend = typename R::Backend;
  using Asks = Question;

  explicit constexpr PlaceContext(State<R>& state) : state_(&state) {}

  /// Optimizer steps of this fit so far, over all optimizers; a fit that goes on from a file counts on from there.
  /// Steps that were skipped count, too.
  long global_step() const { return asked(Asks::global_step), state_->progress.global_step; }
  /// How many of the steps above changed no weight, because a loss or a gradient was not finite (NonFinite::skip).
  long skipped_steps() const { return asked(Asks::skipped_steps), state_->progress.skipped_steps; }
  /// The epoch at hand, counted from 0: how many were completed before it.
  int current_epoch() const { return asked(Asks::current_epoch), state_->progress.epoch; }
  /// The batch, counted from 0 in its epoch or in its evaluation loader. Between batches the one before; 0 before the
  /// first, and in on_train_end.
  long batch_idx() const { return asked(Asks::batch_idx), state_->facts.batch_idx; }
  /// Samples in the batch, on this process. 0 between batches, while a batch is transferred, and for one that does not
  /// tell its size.
  long batch_size() const { return asked(Asks::batch_size), state_->facts.in_batch ? state_->facts.batch_size : 0; }
  /// Of its epoch, or of its evaluation loader. A loader that has no size and does not promise that batches stay valid
  /// is read one batch at a time: false until the end is found, after the end hook of the last batch; true in what
  /// follows.
  bool is_last_batch() const { return asked(Asks::is_last_batch), state_->facts.is_last_batch; }
  /// True where the batch at hand does not end its accumulation window: no optimizer step follows it.
  bool accumulating() const { return asked(Asks::accumulating), state_->facts.accumulating; }
  /// True in the few validation batches before training (num_sanity_val_steps).
  bool sanity_checking() const { return state_->facts.sanity_checking; }
  /// These steps are tried out: nothing of them stays, but what you keep outside of weights, buffers and `state`.
  bool rehearsing() const { return state_->searching.rehearsing; }
  /// Which of the trainer's functions is at work: fit, validate, test or predict. In the validation of a fit it is fit.
  Stage stage() const { return state_->facts.stage; }
  /// Which evaluation loader is at hand, counted from 0, where there are several; else 0.
  std::size_t loader() const { return state_->facts.loader; }
  /// In predict: the place of this process's i-th sample of the loader among the samples of all processes; i itself
  /// where there is one process, or each reads a loader of its own.
  long sample_place(long i) const { return state_->facts.first_sample + i * state_->facts.sample_step; }
  /// fast_dev_run is on: what would be saved, stopped or logged on behalf of a run is not.
  bool dev_run() const { return state_->asked.options.fast_dev_run != 0; }

  /// The model that is trained or evaluated. A callback may change it in its hooks.
  typename R::Model& model() const { return *state_->parts.model; }
  /// What the run goes by: the trainer's options, where fast_dev_run, overfit_batches and barebones have replaced those
  /// that they stand for.
  TrainerOptions const& options() const { return state_->asked.options; }
  /// Where batches and weights are, in the tensor library's type (torch::Device).
  auto device() const { return state_->parts.strategy.device(); }
  /// This process's number among those that train the model together, from 0; 0 where there is one. Let rank 0 alone
  /// print and write.
  int rank() const { return state_->parts.strategy.rank(); }

  /// Batches of a training epoch after limits; nullopt where the loader has no size.
  std::optional<long> num_training_batches() const {
    return asked(Asks::num_training_batches), state_->facts.train_batches;
  }
  /// Batches of the evaluation loader at hand, after limits.
  std::optional<long> num_eval_batches() const { return state_->facts.eval_batches; }
  /// Optimizer steps of the whole fit; nullopt where neither max_steps nor a sized loader and max_epochs tell.
  std::optional<long> estimated_steps() const { return asked(Asks::estimated_steps), loop::estimated_steps(*state_); }
  /// Whether the fit validates at all: there is a loader for it, and limit_val_batches leaves some of it.
  bool has_validation() const { return state_->facts.has_validation; }
  /// Validation runs exactly once, at the end of every epoch.
  bool validating_each_epoch_end() const {
    return has_validation() && options().val_check_interval.epoch_end() && options().check_val_every_n_epoch == 1;
  }
  /// Seconds of training, on the clock `options().now`, which max_time is compared with: it runs from on_train_start
  /// on. Where a fit goes on from a file, those before the file was written count, too.
  double training_seconds() const { return asked(Asks::seconds), state_->training_seconds(); }
  /// The clock `options().now` in seconds, from a beginning of its own: only differences mean something.
  double seconds_now() const { return asked(Asks::seconds), Seconds(options().now().time_since_epoch()).count(); }

  /// What may be meant and mostly is not: on stderr unless `.silence` names it, and in `trainer.warnings()`. Said once
  /// for each identifier: `warn("mine.rate.high", "the rate is above 1: lower it")`. An Error where the identifier is
  /// not of that form.
  void warn(std::string_view identifier, std::string_view sentence) const {
    require_identifier(identifier);
    state_->warn(identifier, sentence);
  }
  /// The same, said once for each sentence.
  void warn_each(std::string_view identifier, std::string_view sentence) const {
    require_identifier(identifier);
    state_->warn_each(identifier, sentence);
  }

 protected:
  /// A strategy that replays steps has to know what a recorded one went by.
  void asked(Asks question) const { state_->watch.questions.add(question); }

  State<R>* state_;

 private:
  void require_identifier(std::string_view identifier) const {
    asked(Asks::warn);
    if (!is_identifier(identifier))
      throw Error("fulgurite.context.warning", "'" + std::string(identifier) +
                                                   "' does not identify a warning: use words in lower case with points "
                                                   "between them, as mine.rate.high");
  }
};

}  // namespace fulgurite::loop
