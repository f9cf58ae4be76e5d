#pragma once
// A fit: it is opened, advanced by as little as one batch, and closed.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/resumption.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/safe_points.hpp>
#include <fulgurite/loop/train_epoch.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite {

/// What an open fit says after `advance`.
enum class FitStatus : std::uint8_t {
  more,     ///< more batches follow
  waiting,  ///< the next batch has not arrived
  finished  ///< training has ended: call `close`
};

namespace loop {

/// The constructor opens the fit: it runs setup, makes optimizers, runs the sanity check and all hooks up to
/// on_train_start. `advance` runs one batch and everything that follows from it. `advance_to_end` runs all remaining
/// batches in one loop, which the compiler can optimize as a whole. Both may be mixed. `close` runs what follows the
/// last batch, from on_train_end to teardown. If one of them throws, on_exception was already dispatched and the fit is
/// over: it can only be destroyed.
template <class R, class Pack, class Source, class From = FromScratch>
class OpenFit : Pinned {
 public:
  /// `from`: the file from which the fit resumes.
  OpenFit(State<R>& run, Pack& pack, Source& source, From from = {})
      : run_(run), pack_(pack), source_(source), is_open_(run.loading.fit_is_open, true), start_(from) {
    check_fit(run, pack, source);
    begin_again();
    auto const& options = run.asked.options;
    algorithms_.emplace(InPlace{[&] { return Backend::algorithms(options.deterministic, options.benchmark); }});
    safely([&] {
      assemble();
      anomaly_.emplace(InPlace{[&] { return Backend::anomaly(options.detect_anomaly); }});
      start_training();
    });
  }
  ~OpenFit() {
    abandon_files(run_, [this] { finish_files(run_); });
    leave_gradients_alone(run_);
    run_.loading.count_training = nullptr;
    run_.loading.write = nullptr;
    run_.loading.torn_down = false;
    if (trains_ && !data_has_state<R, Source>) run_.left.reset();
    forget_searches(run_);
    run_.stop_clock();
    epoch_.reset();  // a pass over a loader must end before the scopes in which it ran
  }

  /// Runs one batch, and the start and end of its epoch if it is the first or last one. Returns true if more follow.
  bool advance() {
    return safely([&] { return walk<true>(); });
  }
  void advance_to_end() {
    while (safely([&] { return walk<false>(); })) {}
  }

  /// False if the training loader has `batch_is_ready()`, and its next batch has not arrived on some rank.
  bool is_ready() {
    if constexpr (MayWait<std::remove_reference_t<decltype(source_.train())>>)
      return safely([&] { return !any_rank(run_, more() && !source_.train().batch_is_ready()); });
    else return true;
  }
  bool any_rank_says(bool so) {
    return safely([&] { return any_rank(run_, so); });
  }
  /// Ends the fit as an exception does.
  void abandon(Error const& why) noexcept {
    try {
      safely([&] { throw why; });
    } catch (...) {
      // The listeners know of it, and destructors do not throw.
    }
  }

  /// If called inside of an epoch, the epoch ends early, as by a requested stop: an open window is stepped, the epoch's
  /// end hooks run, no validation follows, and a run that resumes from a file of such a fit continues that epoch.
  void close() {
    safely([&] {
      bool const early = trains_ && !done(run_);
      if (epoch_) leave_epoch(early);
      run_.made.outcome.ended_by = early ? closed_early : end_reason(run_);
      if (trains_) end_training();
      finish_files(run_);
      anomaly_.reset();
      run_.loading.count_training = nullptr;
      run_.loading.write = nullptr;
      if (trains_ || (!run_.left && data_has_state<R, Source>)) keep_data();
      leave_gradients_alone(run_);
      run_.parts.strategy.teardown(*run_.parts.model);
      RunContext<R, phase::Fit> ctx(run_);
      notify<hook::on_fit_end>(run_, pack_, ctx);
      write_rest();
      finish_files(run_);  // so that callbacks find the files in teardown
      // Whoever reads the loaders next has a whole epoch. A data module may drop them in its teardown.
      run_.loading.torn_down = true;
      if (loaded_place_) notify_epoch(source_.train(), run_.progress.epoch);
      shared_out_.give_back();
      notify_with_module<hook::teardown>(run_, pack_, source_, ctx);
      note_switches(run_, false);
      write_rest();
      finish_files(run_);
      if constexpr (searches) warn_of_unanswered(run_);
      finalize_loggers(run_.callbacks, Status::success);
    });
    algorithms_.reset();
    end_if_asked(run_.callbacks);
  }

 private:
  using Backend = typename R::Backend;
  using Algorithms = decltype(Backend::algorithms(false, std::optional<bool>()));
  using Anomaly = decltype(Backend::anomaly(false));
  /// True if this fit may resume from something.
  static constexpr bool resumes = !std::is_same_v<From, FromScratch> || any_resumes_fit<Pack>;
  using Start = StartOf<R, From>;
  /// True if callbacks may request trial runs before training continues.
  static constexpr bool searches = any_searches<Pack>;

  template <class Body>
  decltype(auto) safely(Body&& body) {
    try {
      return body();
    } catch (...) {
      fail();
      throw;
    }
  }
  /// Whatever began inside the fit must end before on_exception is dispatched.
  [[gnu::noinline, gnu::cold]] void fail() {
    epoch_.reset();
    anomaly_.reset();
    handle_exception([this](std::exception const& error) { failed(run_, pack_, source_, error); });
  }

  // Opening the fit.

  /// Clears everything that an earlier run has left.
  void begin_again() {
    run_.parts.fitted = run_.parts.model;
    forget_searches(run_);  // left by a fit that failed while it opened, or by an evaluation
    run_.begin_fit(Source::template evaluates<hook::val_dataloader>);
    run_.switches.by_program = true;
    run_.parts.leaves = {};
    run_.loading.loaders = &loader_names<Source>;
    run_.loading.forgets_place = !all_remember_place<Source>;
    run_.carried.pass_random.reset();
    run_.slices = 0;
    if constexpr (shares<R>) run_.shared = {};
    run_.watch.manual = {};
    watch_finite(run_);
    run_.parts.optimizers.reset();
    forget_other_model(run_);  // its memory is free before this fit takes its own
    run_.searching.answers = searches;
    run_.values.forget();
  }

  /// Everything up to on_fit_start: the model, its optimizers, and the counts that start here.
  void assemble() {
    auto& parts = run_.parts;
    RunContext<R, phase::Fit> ctx(run_);
    set_up(run_, pack_, source_, ctx, [this] { find_file(); }, [this] { take_file(); });
    run_.loading.count_training = Counts::template to<&OpenFit::count_training>(*this);
    run_.switches.made_with = switched_by_hooks(run_);
    parts.optimizers.emplace(AsList<std::remove_cvref_t<decltype(made_optimizers(ctx))>>::make(made_optimizers(ctx)));
    Backend::check_optimizers(*parts.model, parts.optimizers->optimizers);
    if constexpr (any_keeps_files<Pack>)
      if (run_.asked.options.fast_dev_run == 0) Backend::check_kept(*parts.model);  // which writes no files
    if constexpr (hook::of_strategy::share_state::named<typename R::Strategy>)
      parts.strategy.share_state(parts.optimizers->optimizers);
    arrange_gradients(run_, pack_);
    if constexpr (R::Precision::scales_loss) parts.scaler.emplace(parts.precision, parts.strategy.device());
    if constexpr (resumes)
      if (resumed_) resumed_->refuse_unfit([this] { open_given_loaders(); }, run_.loading.count_training);
    auto const every = static_cast<std::size_t>(run_.asked.options.log_every_n_steps) *
                       static_cast<std::size_t>(run_.asked.window_length);
    run_.measured.train_board.reserve(every == 0 ? State<R>::Board::most_waiting : every);
    if (notify<hook::on_fit_start>(run_, pack_, ctx) == Flow::stop) request_stop(run_);
    answer_settings();
    if (!is_resumed()) answer_searches();  // a resumed fit gets its state later
    log_hyperparameters(run_, declared_hyperparameters(run_, source_).all());
    if (!is_resumed()) log_program(run_, pack_);  // a resumed fit does this when all of its file is known to fit
    if constexpr (resumes)
      if (resumed_) resumed_->load_training();
    check_time(run_);
    if (is_resumed()) agree_on_stop(run_);
    if constexpr (resumes)
      if (resumed_ && !run_.asked.options.limit_train_batches.none()) reopen_epoch(run_);  // unless time is up, too
  }

  /// The result of configure_optimizers. The backend may add to the errors of an optimizer.
  decltype(auto) made_optimizers(RunContext<R, phase::Fit>& ctx) {
    auto& model = *run_.parts.model;
    return Backend::made_optimizers(model, [&]() -> decltype(auto) { return configure_optimizers<R>(model, ctx); });
  }

  using Counts = decltype(Loading::count_training);
  std::optional<long> count_training() {
    return batches_of(training_loader(run_, source_), run_.asked.options.limit_train_batches, "limit_train_batches");
  }

  void find_file() {
    if constexpr (resumes) {
      start_.look(run_, true);
      if (start_.is_found() && start_.pass_folders(run_.callbacks)) run_.made.log_dir.clear();  // loggers set it again
    }
  }
  /// Requests the loaders early, to check before training that the file's state fits them.
  void open_given_loaders() {
    if (run_.asked.options.limit_train_batches.none()) return;
    training_loader(run_, source_);
    run_.loading.training_is_open = true;
    if constexpr (Source::template evaluates<hook::val_dataloader>)
      if (run_.facts.has_validation) {
        evaluation_loaders<hook::val_dataloader>(run_, source_);
        run_.loading.validation_is_open = true;
      }
  }
  /// Called after setup: callbacks know their folders, and the model is complete.
  void take_file() {
    if constexpr (resumes) {
      start_.look(run_, true);
      auto file = start_.take(run_);
      if (!file) return;
      resumed_.emplace(run_, pack_, source_, std::move(file));
      run_.loading.resuming = run_.loading.half_loaded = true;
      resumed_->load_model();
    }
  }

  bool is_resumed() const {
    if constexpr (resumes) return static_cast<bool>(resumed_);
    else return false;
  }

  /// Applies what earlier searches of callbacks found and loaders depend on.
  void answer_settings() {
    if constexpr (searches) answer(std::exchange(run_.searching.settings, {}), run_, source_, plan_);
  }
  /// Between two epochs: runs the searches that callbacks requested.
  void answer_searches() {
    if constexpr (searches) answer(std::exchange(run_.searching.due, {}), run_, source_, plan_);
  }

  /// Keeps the saved state of the data, for a file that is requested after the fit, when the data are out of reach. A
  /// loader that finds its place without a state is kept for files of the teardown alone.
  void keep_data() {
    if constexpr (data_has_state<R, Source> || loaders_have_state<Source>)
      run_.left.emplace().save([this](auto& archive) {
        fold_data_module<R>(source_, archive);
        fold_loaders(run_, source_, archive);
      });
  }

  /// Runs the sanity check; then, if there is anything to train, plans the epochs and dispatches on_train_start.
  void start_training() {
    note_switches(run_, true);
    sanity_check(run_, pack_, source_);
    note_switches(run_, false);
    agree_on_stop(run_);
    auto const& options = run_.asked.options;
    // A run that stopped at its limit still has to finish its epoch and training.
    bool const owes = is_resumed() && run_.point.at != At::ended;
    auto const point = std::exchange(run_.point, {});
    if (options.limit_train_batches.none() || (done(run_) && !owes)) {
      run_.point = point;  // so that a file written now has it
      if constexpr (resumes)
        if (resumed_) go_on_with_nothing();
      run_.switches.by_program = false;
      return;
    }
    trains_ = true;
    run_.left.reset();
    run_.loading.training_since = run_.progress.epoch;
    plan_ = plan_training(run_, source_);
    check_validation(run_, source_);
    if constexpr (resumes)
      if (resumed_) resumed_->refuse_unfit_loaders(plan_.most());
    if (is_resumed()) log_program(run_, pack_);
    run_.measured.train_board.restart();
    run_.loading.write = decltype(Loading::write)::template to<&OpenFit::write>(*this);
    RunContext<R, phase::Train> ctx(run_);
    run_.clock.training_began = options.now();
    if (notify<hook::on_train_start>(run_, pack_, ctx) == Flow::stop) request_stop(run_);
    note_switches(run_, true);
    run_.switches.by_program = false;
    agree_on_stop(run_);
    if (options.val_check_interval.kind == ValidationInterval::Kind::time) run_.clock.last_validation = options.now();
    if constexpr (resumes)
      if (resumed_) go_on();
  }

  // The sequence of epochs.

  bool more() const { return trains_ && (epoch_ || !done(run_)); }

  /// Runs one batch, or without `One` the rest of an epoch, with its start and end. Returns true if more follow.
  template <bool One>
  bool walk() {
    if (!more()) return false;
    [[maybe_unused]] auto const watched = pack_.template profile<action::run_training_epoch>();
    if (!epoch_) begin_epoch();
    if (epoch_ && epoch_->template walk<One>(run_, pack_)) return true;
    bool const left_early = epoch_ && epoch_->left_early();
    epoch_.reset();
    end_epoch(left_early);
    return more();
  }

  /// If a hook requests a stop, the epoch has no batches.
  void begin_epoch() {
    reload_if_due(run_, source_, plan_);
    auto& loader = source_.train();
    RunContext<R, phase::Train> ctx(run_);
    run_.facts.is_last_batch = false;
    if (std::exchange(run_.progress.cut_short, -1) >= 0) run_.measured.cut_short.clear();
    forget_cut(run_);
    share_out_again(run_, loader, true);
    notify_epoch(loader, run_.progress.epoch);
    loaded_place_ = false;
    // A loader may stand elsewhere in this epoch: a file was loaded into it, or a fit has failed.
    if constexpr (TakesEpoch<std::remove_reference_t<decltype(loader)>> &&
                  Jumps<std::remove_reference_t<decltype(loader)>>)
      loader.resume_at(0);
    begin_shared_epoch(run_);
    if (notify_or_remaining<hook::on_train_epoch_start>(ctx) == Flow::stop) request_stop(run_);
    agree_on_stop(run_);
    deliver_posted(run_, pack_, run_.progress.logged_steps);
    if (!stops(run_)) answer_searches();
    warn_of_long_window(run_, plan_);
    if constexpr (R::automatic)
      run_.parts.optimizers->each_scheduler([&](auto const& scheduler) {
        if (auto const steps = scheduler.ends_after_steps()) warn_of_short_schedule(run_, scheduler.kind(), *steps);
      });
    if (!stops(run_)) epoch_.emplace(run_, pack_, source_, plan_);
  }

  /// Dispatches an event to all listeners. If the event failed half-way in the run from which this one resumes,
  /// dispatches it only to those that were not notified.
  template <class Hook, class Ctx>
  Flow notify_or_remaining(Ctx& ctx) {
    if constexpr (resumes)
      if (run_.due.notified.template failed<Hook>()) return notify_remaining<Hook>(run_, pack_, ctx);
    return notify<Hook>(run_, pack_, ctx);
  }

  /// `from`: the number of parts that are finished. If a part fails, a resumed fit starts with that part.
  void end_epoch(bool left_early, std::uint8_t from = 0) {
    auto& run = run_;
    auto& progress = run.progress;
    run.point = {.at = At::epoch_end, .last = run.facts.is_last_batch, .left_early = left_early, .parts = from};
    // Kept before hooks of the epoch's end change the figures. Done once, even if the parts take several runs.
    if (!run.facts.is_last_batch && from == 0 && !run.before_cut) {
      run.measured.train_board.collect();
      run.measured.cut_short = run.measured.train_board;
      keep_before_cut(run, pack_);
    }
    RunContext<R, phase::Train> ctx(run);
    // True if the next part is still to be done. The one before it is then finished.
    auto next = [&point = run.point, n = std::uint8_t{0}]() mutable {
      if (n++ < point.parts) return false;
      point.parts = static_cast<std::uint8_t>(n - 1);
      return true;
    };
    if constexpr (shares<R> || State<R>::Board::Counts::any)
      if (next()) {
        settle_counts(run);
        if constexpr (shares<R>) share_epoch(run, Origin::train_step);
      }
    if (next())
      if (notify_or_remaining<hook::on_train_epoch_end>(ctx) == Flow::stop) request_stop(run);
    if constexpr (shares<R>)
      if (next()) {
        share_epoch(run, Origin::train_epoch);
        agree_on_stop(run);
        count_batches_alike(run);
      }
    if (next()) deliver_posted(run, pack_, last_step(run));
    if (next())
      if constexpr (R::automatic)
        if (run.facts.is_last_batch) observe_schedulers(run, ctx, Interval::epoch, progress.epoch, progress.epoch + 1);
    if constexpr (has_logger<Pack>) warn_of_few_rows(run);
    if (next()) report_epoch(run, pack_);
    next();
    auto& loader = source_.train();
    if constexpr (ReportsWaiting<std::remove_cvref_t<decltype(loader)>>) advise_on_waiting(run, loader.waited());
    // No `++` follows the last batch of a sized loader. A file written now is one between two epochs for it, too, and
    // may be resumed with another seed or batch size.
    if constexpr (requires { loader.finish_epoch(); })
      if (run.facts.is_last_batch) loader.finish_epoch();
    count_epoch(run);
    // So that another number of ranks, which distributes the samples otherwise, can resume between two epochs.
    if constexpr (shares<R> && Jumps<std::remove_reference_t<decltype(loader)>>)
      if (progress.cut_short < 0) notify_epoch(loader, progress.epoch);
    left_early_ = left_early;
    run.point = after_last(At::after_epoch);
    write_requests(run, pack_, source_, run.point);
    run.point = {};
  }

  /// Ends the epoch early, as a requested stop does that holds for this fit only: a run that resumes from its files
  /// continues. A stop that waits for the minima keeps its reason, since it ends the resumed run.
  void leave_epoch(bool closed) {
    if (closed && !run_.due.stop.asked) run_.due.stop.why = closed_early;
    receive_stop(run_, true);
    epoch_->leave(run_);
    bool const left_early = epoch_->left_early();
    epoch_.reset();
    end_epoch(left_early);
  }

  // The rest of the epoch in which a resumed run was stopped.

  /// For a run whose training had ended. The saved state of its loaders and data module must be in later files, too.
  void go_on_with_nothing() {
    warn_if_finished(run_);
    left_early_ = run_.point.left_early;
    resumed_->load_switches();
    run_.due.posted.clear();  // the finished run has written the rows of its start
    bool const asks_for_loaders = data_has_state<R, Source> && !run_.asked.options.limit_train_batches.none();
    if (asks_for_loaders) {
      plan_ = plan_training(run_, source_);
      check_validation(run_, source_);
    }
    resumed_->load_place();
    if (asks_for_loaders) keep_data();
    run_.loading.resuming = run_.loading.half_loaded = false;
    loaded_place_ = run_.loading.training_is_open;
  }

  /// Continues the work that was under way when the file was written.
  void go_on() {
    SafePoint point;
    resumed_->load_all([&] {
      point = run_.point;  // on_train_start may have requested a stop
      left_early_ = point.left_early;
      loaded_place_ = true;
      if (point.at >= At::epoch_end || (run_.progress.batch == 0 && point.at == At::before_batch && !point.began))
        return;
      notify_epoch(source_.train(), run_.progress.epoch);
      epoch_.emplace(run_, pack_, source_, plan_);
      epoch_->find_place(run_, point);
      loaded_place_ = !epoch_->has_pass();
    });
    bool const ended = warn_if_finished(run_);
    run_.due.posted.clear();  // the stopped run has written the rows of the start of training
    RunContext<R, phase::Fit> ctx(run_);
    restore_after_save(run_, ctx);  // the file was written between before_save and after_save
    resumed_->go_back_if_reopened();
    run_.loading.resuming = run_.loading.half_loaded = false;
    resumed_.reset();
    if (!ended && !is_snapshot<From> && speaks_for_all(run_)) print_start(run_, start_.name());
    run_.point = {.began = static_cast<bool>(epoch_)};
    if (epoch_) {
      bool const more = epoch_->go_on(run_, pack_, point);
      run_.due.notified = {};
      if (more) return;
      bool const left_early = point.at == At::batch_end ? epoch_->left_early() : !point.last;
      epoch_.reset();
      return end_epoch(left_early);
    }
    if constexpr (KeepsPlace<std::remove_reference_t<decltype(source_.train())>>)
      if (point.left_early) static_cast<void>(std::begin(source_.train()));  // begin() of the pass that was not over
    if (point.at == At::epoch_end) return end_epoch(point.left_early, point.parts);
    write_requests(run_, pack_, source_, point);
  }

  // Files written on request, and the end.

  /// Writes a checkpoint now, under the name that the user gave.
  void write(std::filesystem::path const& file) {
    KeptPosition const here(run_);
    run_.point.observed = run_.observed;
    if (auto const* const before = before_repeated_validation(run_))
      expect_rows(run_.callbacks, run_.due.rows - before->rows);
    else if (run_.facts.in_batch || run_.progress.batch != run_.progress.window_start) redo_window(run_, source_);
    write_checkpoint(run_, source_, file);
  }

  void end_training() {
    run_.point = after_last(At::after_epoch);
    compare_last_steps(run_);
    if (run_.due.statistics_pass) {  // callbacks put their weights into the model first
      RunContext<R, phase::Train> ctx(run_);
      void* const arguments[] = {address_of(ctx)};
      notify_all(run_, run_.events->before_statistics_pass, {}, arguments);
      run_.point.began = true;
      statistics_pass(run_, pack_, source_, plan_);
      run_.point.began = false;
      run_.due.statistics_pass = false;
    }
    RunContext<R, phase::TrainEnd> ctx(run_);
    notify<hook::on_train_end>(run_, pack_, ctx);
    write_rest();
    run_.point = after_last(At::ended);
  }
  /// A place after the last epoch that this fit has trained.
  SafePoint after_last(At at) const { return {.at = at, .left_early = left_early_}; }
  /// Writes what hooks have posted and requested after the last batch.
  [[gnu::noinline]] void write_rest() {
    deliver_posted(run_, pack_, last_step(run_));
    write_requests(run_, pack_, source_, after_last(At::ended));
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  Instead<bool> is_open_;
  SharedOut<R, Source, hook::val_dataloader> shared_out_{run_, source_};
  [[no_unique_address]] std::conditional_t<resumes, Start, FromScratch> start_;
  [[no_unique_address]] std::conditional_t<resumes, MadeLater<Resumption<R, Pack, Source, typename Start::File>>,
                                           FromScratch> resumed_{};
  EpochPlan plan_{};
  bool trains_ = false;
  bool left_early_ = false;                         ///< the last epoch ended before its loader did
  bool loaded_place_ = false;                       ///< the run resumed, and no pass over the training loader has begun
  MadeLater<TrainEpoch<R, Pack, Source>> epoch_{};  ///< the current epoch, while its batches run
  MadeLater<Algorithms> algorithms_{};
  MadeLater<Anomaly> anomaly_{};
};

/// Runs a whole fit, from the beginning or from a file.
template <class R, class Pack, class Source, class From = FromScratch>
void fit(State<R>& run, Pack& pack, Source& source, From const& from = {}) {
  OpenFit<R, Pack, Source, From> open(run, pack, source, from);
  open.advance_to_end();
  open.close();
}

// A fit that is a guest in the program's own loop: of a robot, a game, a simulation.

/// True for an argument of `open` that is no variable, but data that the fit would refer to after they are gone.
template <class Given>
inline constexpr bool is_temporary_data =
    !std::is_lvalue_reference_v<Given> && !is_waiver<Given> && !StartingPoint<std::remove_cvref_t<Given>>;

/// The result of an `open` that does not compile, so that what the program does with it is no further error. It has a
/// destructor, so that compilers do not warn of an unused variable.
struct NotOpened {
  ~NotOpened() {}
  FitStatus advance() { return {}; }
  FitStatus advance_for(TrainerOptions::Clock::duration) { return {}; }
  void close() {}
};

}  // namespace loop

/// A fit that is advanced batch by batch, made by `trainer.open`. It holds references to the trainer, the model and the
/// data, which must outlive it. After all batches the weights have the same bits as after `trainer.fit`, unless the
/// program draws numbers from LibTorch's generators in between. Until `close`, `deterministic`, `benchmark` and
/// `detect_anomaly` apply to the whole program.
///
///     auto fit = trainer.open(net, data);
///     while (control()) fit.advance_for(2ms);
///     fit.close();
///
/// If it is destroyed before `close`, the fit ends as by an exception: on_exception is called, and loggers are
/// finalized as failed.
template <class R, class Pack, class Source, class From>
class [[nodiscard]] OpenedFit : Pinned {
 public:
  OpenedFit(loop::State<R>& run, Pack& pack, Source source, From from)
      : run_(run), source_(std::move(source)), fit_(std::in_place, run, pack, source_, std::move(from)) {}
  ~OpenedFit() {
    if (std::exchange(open_, false))
      fit_->abandon(Error("fulgurite.trainer.left_open",
                          "an open fit was destroyed before it was closed: call close() when training is to end"));
  }

  /// Trains on one batch, with everything that follows from it: hooks, validation, checkpoints, the end of the epoch.
  /// Returns `waiting`, and does nothing, if the loader's `batch_is_ready()` is false; after the end `finished`. A hook
  /// of this fit that calls it gets [fulgurite.trainer.advance_within].
  FitStatus advance() {
    if (!open_ || finished_) return FitStatus::finished;
    if (advancing_)
      throw Error("fulgurite.trainer.advance_within",
                  "a hook of an open fit has advanced it, and the batch of that hook is still under way: call advance "
                  "in the loop that the fit is a guest of");
    bool waits = false;
    {
      loop::Instead const advances(advancing_, true);
      waits = !guarded([&] { return fit_->is_ready(); });
      if (!waits) finished_ = !guarded([&] { return fit_->advance(); });
    }
    if (closes_) close();
    return !open_ || finished_ ? FitStatus::finished : waits ? FitStatus::waiting : FitStatus::more;
  }

  /// Trains on as many batches as fit into `budget`, going by the second longest of the last eight; on none if that one
  /// is longer than the budget. A batch that takes longer than those before it ends later: the budget is exceeded by
  /// one batch at most. Returns `waiting`, and refuses a hook, as `advance` does. Several ranks train on as many
  /// batches as all of them have room for; each calls this, `advance` and `close` as often as the others.
  FitStatus advance_for(TrainerOptions::Clock::duration budget) {
    auto const now = run_.asked.options.now;
    auto const began = now();
    auto last = began;
    if (finished_ || !open_ || advancing_) return advance();  // which throws in a hook
    if (is_over(next_batch().expected() > budget)) {
      next_batch().forget_one();
      return FitStatus::more;
    }
    for (;;) {
      auto& times = next_batch();
      auto const status = advance();
      if (status == FitStatus::waiting) return status;
      auto const here = now();
      times.add(here - std::exchange(last, here));
      if (status == FitStatus::finished || is_over(here - began + next_batch().expected() > budget)) return status;
    }
  }

  /// Ends training: hooks from on_train_end to teardown, the last checkpoints. An epoch that has begun ends early, as
  /// by a requested stop: an open accumulation window is stepped, the epoch's end hooks run, and no validation follows.
  /// A run that resumes from the last checkpoint continues that epoch. Afterwards the trainer can evaluate and fit.
  /// Called by a hook of a batch, it takes effect when that batch, with what follows from it, is over.
  void close() {
    if (advancing_) return void(closes_ = true);
    if (!std::exchange(open_, false)) return;
    Call const call(*this);
    fit_->close();
  }

 private:
  /// A call of the fit; one that the fit does not outlive frees the trainer. There is no other one inside of it.
  class Call : Pinned {
   public:
    explicit Call(OpenedFit& of) : of_(of) {}
    ~Call() {
      if (!of_.open_) of_.fit_.reset();
    }

   private:
    OpenedFit& of_;
  };

  /// After an exception the fit is over.
  template <class Body>
  bool guarded(Body&& body) {
    Call const call(*this);
    try {
      return body();
    } catch (...) {
      open_ = false;
      throw;
    }
  }

  /// True if another batch would be over the budget of some rank, or a hook has closed the fit.
  bool is_over(bool budget) {
    if constexpr (loop::shares<R>) {
      if (!open_) return true;
      loop::Instead const advances(advancing_, true);  // where a rank has failed, hooks may call close here, too
      return guarded([&] { return fit_->any_rank_says(budget); });
    } else {
      return budget;
    }
  }

  /// How long batches like the next one took.
  loop::BatchTimes& next_batch() {
    if constexpr (requires { run_.parts.strategy.check_is_next(); })
      if (run_.parts.strategy.check_is_next()) return check_times_;
    return times_;
  }

  loop::State<R>& run_;
  Source source_;
  std::optional<loop::OpenFit<R, Pack, Source, From>> fit_;  ///< until it is closed, or has failed
  loop::BatchTimes times_{}, check_times_{};
  bool open_ = true, finished_ = false;
  bool advancing_ = false, closes_ = false;  ///< a batch is under way, and one of its hooks has called close
};

}  // namespace fulgurite
