#pragma once
// What steps and hooks receive. A member that makes no sense in a phase does not exist in it.

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/traits.hpp>
#include <fulgurite/core/each_of.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/clip_rules.hpp>
#include <fulgurite/loop/context_log.hpp>
#include <fulgurite/loop/own_actions.hpp>
#include <fulgurite/loop/phase.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/policy/optimization.hpp>

namespace fulgurite {

/// Where a step or a hook stands in its run, and what it may ask for there: counters (context_place.hpp), metrics
/// (context_values.hpp, context_log.hpp, context_dynamic.hpp), optimizers, stops, checkpoints. One pointer; never kept
/// beyond the call. `Phase` decides which members exist.
template <class R, class Phase>
class Context : public loop::LogContext<R, Phase> {
  using Base = loop::LogContext<R, Phase>;

 public:
  // Not inherited: the compiler would need the whole State before a model's configure_optimizers(ctx) is known.
  explicit constexpr Context(loop::State<R>& state) : Base(state) {}

  using typename Base::Asks;
  using typename Base::Backend;

  /// The tuple of optimizers: `auto& [g, d] = ctx.optimizers();`
  auto& optimizers() const
    requires(Phase::trains)
  {
    if (asked(Asks::optimizers), !state_->parts.optimizers) [[unlikely]]
      throw Error("fulgurite.context.optimizers",
                  "there are no optimizers yet: ask for them from on_fit_start on, inside fit");
    return state_->parts.optimizers->optimizers;
  }
  /// The one optimizer of automatic optimization.
  auto& optimizer() const
    requires(Phase::trains && R::automatic)
  {
    return std::get<0>(optimizers());
  }
  template <bool Fine = false>
  auto& optimizer() const
    requires(Phase::trains && !R::automatic)
  {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_NOT_ONE_OPTIMIZER);
    return std::get<0>(optimizers());
  }
  /// f(position, optimizer) for each; nothing outside of fit.
  template <class F>
  void each_optimizer(F&& f) const {
    if (asked(Asks::optimizers), !state_->parts.optimizers) return;
    each_of(state_->parts.optimizers->optimizers, [&, i = std::size_t{0}](auto& o) mutable { f(i++, o); });
  }
  /// f(scheduler) for each optimizer that has a schedule.
  template <class F>
  void each_scheduler(F&& f) const {
    if (asked(Asks::optimizers), state_->parts.optimizers) state_->parts.optimizers->each_scheduler(f);
  }

  /// Manual optimization: the tuple of schedulers, to be stepped by you: one for each optimizer, or as many as it has
  /// schedules, one after the other.
  auto& lr_schedulers() const
    requires(std::same_as<Phase, phase::Train> && !R::automatic)
  {
    return state_->parts.optimizers->schedulers;
  }

  /// Limits the gradients of one optimizer; what `configure_gradient_clipping` calls. Returns their norm before, where
  /// they are clipped by it.
  template <class O>
    requires(std::same_as<Phase, phase::Train>)
  auto clip_gradients(O& optimizer, Clip how) -> typename R::Value {
    loop::check_clip<R, O>(how);
    if (how.kind == Clip::Kind::norm) {
      // Over all parts of a model that several processes have.
      if constexpr (loop::splits_model<R>) return state_->parts.strategy.clip_norm(optimizer.parameters(), how.limit);
      else return Backend::clip_norm(optimizer.parameters(), how.limit);
    }
    if (how.kind == Clip::Kind::value) Backend::clip_value(optimizer.parameters(), how.limit);
    return {};
  }

  template <class... Os, bool Fine = false>
    requires(std::same_as<Phase, phase::Train>)
  auto clip_gradients(std::tuple<Os...>&, Clip) -> typename R::Value {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_NOT_ONE_OPTIMIZER);
    return {};
  }

  /// Training ends at the next optimizer step's boundary, once min_epochs and min_steps are met. `why` is for the last
  /// line of the fit: `ctx.request_stop("the budget is spent")`.
  void request_stop(std::string_view why = {}) const
    requires(Phase::trains)
  {
    asked(Asks::request_stop);
    note_why(why);
    loop::wish_stop(*state_);
  }
  /// The same, for a caller that asks again in each run. A fit that resumes from the file of its end trains on, unless
  /// it is asked again.
  void request_stop_for_now(std::string_view why = {}) const
    requires(Phase::trains)
  {
    asked(Asks::request_stop);
    if (loop::stop_wished(*state_)) return;
    note_why(why);
    loop::wish_stop(*state_, true);
  }
  /// For callbacks that watch a metric: whether `who`, the callback's state_key(), wants training to end by what it has
  /// just seen. This replaces what it said before, so while min_epochs and min_steps are not met a monitor whose metric
  /// has recovered withdraws its request. Under several ranks all of them have to say the same, so go by
  /// `watched_value`.
  void set_stop_request(std::string const& who, bool wanted, std::string const& why = {}) const
    requires(Phase::trains)
  {
    asked(Asks::request_stop);
    state_->due.stop.set_monitor({who, why.empty() ? who : why}, wanted);
  }
  /// Whether this run will stop early: someone has asked for it, on this process or, as far as was heard, on another.
  bool stop_requested() const { return asked(Asks::stop_requested), loop::stop_wished(*state_); }

  /// The loggers' x axis: batches of this run that ended with an optimizer step and its validation.
  long logged_steps() const { return asked(Asks::logged_steps), state_->progress.logged_steps; }
  /// A row for the loggers that is no metric of the model (learning rates), delivered when the event at hand has been
  /// heard by all.
  void log_scalars(std::span<Scalar const> row) const {
    asked(Asks::log_scalars);
    for (auto const& scalar : row) state_->due.posted.emplace_back(scalar.name, scalar.value);
  }

  /// A file to be written at the next safe point: after the event at hand has been heard by all. Inside an accumulation
  /// window it waits for the step, unless a validation asks: then the weights that it scored are written as they are.
  /// So that a name may tell the step that a file holds, a request may be a function, which is called when the file is
  /// written:
  ///     ctx.request_checkpoint({this, [ctx](CheckpointFiles& files) {
  ///       files.write(std::to_string(ctx.global_step()));
  ///     }});
  void request_checkpoint(CheckpointRequest request) const
    requires(Phase::trains)
  {
    if (asked(Asks::request_checkpoint), state_->facts.stage != Stage::fit)
      throw Error("fulgurite.context.outside_fit",
                  "a checkpoint " + request.path.string() +
                      " was requested outside fit, where none is written: ask ctx.stage() first");
    state_->due.requests.push_back(std::move(request));
  }
  /// Steps to be tried out at the next place between two epochs: when all have heard `on_fit_start`, or
  /// `on_train_epoch_start`, at the latest; in validate, test and predict when all have heard `setup`. There
  /// `search(rehearser)` is called; what it rehearses is put back, what it sets (rates, members of the model) is what
  /// the run goes on with. A warning where no such place follows. For callbacks that say `static constexpr bool
  /// searches = true`; an Error where there is none.
  void request_search(RunSearch<R> search) const {
    answered_searches();
    if (!state_->searching.rehearsing) state_->searching.due.push_back(std::move(search));
  }
  /// In `on_fit_start`, by the same callbacks: `set(rehearser)` is called when all have heard it, before any loader is
  /// asked for, and also where the fit goes on from a file. It sets what was found before, and tries nothing out.
  void request_setting(RunSearch<R> set) const {
    answered_searches();
    if (!state_->searching.rehearsing) state_->searching.settings.push_back(std::move(set));
  }

  /// Who counts on which checkpoint files: a callback that removes one asks here first whether another counts on it.
  HeldFiles& held_files() const { return state_->made.held_files; }

  /// Batches per optimizer step from the next window on; best said in `on_train_epoch_start`.
  template <bool Fine = !judge::fixed_window<typename R::Strategy>()>
    requires(std::same_as<Phase, phase::Train> && R::automatic)
  void accumulate(int batches) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_FIXED_WINDOW);
    asked(Asks::accumulate);
    loop::check_window<R>("ctx.accumulate", batches);
    loop::check_slices<typename R::Model>(state_->asked.optimization.tbptt, batches);
    state_->asked.window_length = batches;
  }

  /// Batches per optimizer step, in the epoch at hand.
  int accumulate_grad_batches() const
    requires(Phase::trains)
  {
    return asked(Asks::accumulate_grad_batches), state_->asked.window_length;
  }

  /// Before on_train_end the training data are passed once through training_step, with nothing but buffers changing:
  /// what BatchNorm needs after its weights were replaced.
  void request_statistics_pass() const
    requires(Phase::trains)
  {
    asked(Asks::request_statistics_pass);
    state_->due.statistics_pass = true;
  }

  /// A part of a step or a hook that a profiler shall show by this name, for as long as the result lives:
  ///     auto const watched = ctx.profile("augment");
  /// Without a profiler it costs one look at a pointer. In a captured step it is seen where the step is recorded.
  [[nodiscard]] OwnAction profile(std::string_view name) const { return state_->own_actions.begin(name); }

  /// The folder of this run's logs; empty where no logger writes into one.
  std::filesystem::path const& log_dir() const { return state_->made.log_dir; }
  /// The first logger's folder; the first to say so wins.
  void set_log_dir(std::filesystem::path dir) const {
    if (asked(Asks::set_log_dir), state_->made.log_dir.empty()) state_->made.log_dir = std::move(dir);
  }
  /// What the run came to: its best file, its best score and the like, which `trainer.outcome()` shows. Callbacks write
  /// it.
  Outcome& outcome() const { return asked(Asks::outcome), state_->made.outcome; }

 protected:
  using Base::asked;
  using Base::state_;

 private:
  void note_why(std::string_view why) const {
    if (auto& noted = state_->due.stop.why; noted.empty()) noted = why;
  }
  void answered_searches() const {
    if (!state_->searching.answers)
      throw Error("fulgurite.context.no_search",
                  "a search was requested, and no callback of this trainer says that it asks for any: give one "
                  "`static constexpr bool searches = true`, and ask inside of a run");
  }
};

}  // namespace fulgurite
