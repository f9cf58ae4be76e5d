#pragma once
// A fit that is open: begun, gone on with by as little as one batch, and ended.

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/exchange.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/resumption.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/train_epoch.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

// The end of an epoch.

/// Tells an event to all. Where it failed half-way in the run that this one goes on from, tells it only to those that
/// had not heard it.
template <class Hook, bool Resumes, class R, class Pack, class Ctx>
Flow tell_or_rest(State<R>& run, Pack& pack, Ctx& ctx) {
  if constexpr (Resumes)
    if (run.due.heard.template failed<Hook>()) return tell_others<Hook>(run, pack, ctx);
  return tell<Hook>(run, pack, ctx);
}

/// A loader whose samples are shared out otherwise by another number of ranks can go on from a file of now.
template <class R, class Source>
void stand_between_epochs(State<R>& run, Source& source) {
  auto& loader = source.train();
  if constexpr (Jumps<std::remove_reference_t<decltype(loader)>> && requires { loader.set_epoch(long{}); })
    loader.set_epoch(long{run.progress.epoch});
}

/// `from`: how many of its parts are over. Where one fails, a fit that goes on begins with that one.
template <bool Resumes, class R, class Pack, class Source>
void end_epoch(State<R>& run, Pack& pack, Source& source, bool left_early, std::uint8_t from) {
  auto& progress = run.progress;
  run.point = {.at = At::epoch_end, .last = run.facts.is_last_batch, .left_early = left_early, .parts = from};
  // Kept before the hooks at the end of the epoch change the figures; once, though the parts may take several runs.
  if (!run.facts.is_last_batch && from == 0 && !run.before_cut) {
    run.measured.train_board.collect();
    run.measured.cut_short = run.measured.train_board;
    keep_before_cut(run, pack);
  }
  RunContext<R, phase::Train> ctx(run);
  auto part = [&run, n = std::uint8_t{0}](auto&& work) mutable {
    if (n++ < run.point.parts) return;
    work();
    run.point.parts = n;
  };
  if constexpr (shares<R> || State<R>::Board::Counts::any)
    part([&] {
      settle_counts(run);
      if constexpr (shares<R>) share_epoch(run, Origin::train_step);
    });
  part([&] {
    if (tell_or_rest<hook::on_train_epoch_end, Resumes>(run, pack, ctx) == Flow::stop) wish_stop(run);
  });
  if constexpr (shares<R>)
    part([&] {
      share_epoch(run, Origin::train_epoch);
      agree_on_stop(run);
      count_batches_alike(run);
    });
  part([&] { deliver_posted(run, pack, last_step(run)); });
  part([&] {
    if constexpr (R::automatic)
      if (run.facts.is_last_batch) observe_schedulers(run, ctx, Interval::epoch, progress.epoch, progress.epoch + 1);
  });
  part([&] { report_epoch(run, pack); });
  advise_on_data(run, source.train());
  count_epoch(run);
  if constexpr (shares<R>)
    if (progress.cut_short < 0) stand_between_epochs(run, source);
  run.point = {.at = At::after_epoch, .left_early = left_early};
  write_requests(run, pack, source, run.point);
  run.point = {};
}

// A fit.

/// Making one opens the fit: its frame, setup, optimizers, the sanity check, the hooks up to on_train_start. `advance`
/// does one batch with all that follows from it, `advance_to_end` all that are left, in a loop that the compiler sees
/// as a whole; they may be mixed. `close` is what follows the last batch, from on_train_end to teardown. An exception
/// from any of them has passed through on_exception, and the fit is over: it can only be destroyed.
template <class R, class Pack, class Source, class From = Anew>
class OpenFit {
 public:
  /// `from`: the file that the fit goes on from.
  OpenFit(State<R>& run, Pack& pack, Source& source, From from = {})
      : run_(run), pack_(pack), source_(source), is_open_(run.loading), start_(from) {
    check_fit(run, pack, source);
    begin_anew();
    auto const& options = run.asked.options;
    algorithms_.emplace(InPlace{[&] { return Backend::algorithms(options.deterministic, options.benchmark); }});
    safely([&] {
      assemble();
      anomaly_.emplace(InPlace{[&] { return Backend::anomaly(options.detect_anomaly); }});
      start_training();
    });
  }
  ~OpenFit() {
    abandon_files(run_);
    leave_gradients_alone(run_);
    run_.loading.count_training = nullptr;
    run_.loading.write = nullptr;
    forget_searches(run_);
    epoch_.reset();  // a pass over a loader is over before the scopes that it ran in
  }
  OpenFit(OpenFit const&) = delete;
  OpenFit& operator=(OpenFit const&) = delete;

  /// One batch, with the beginning and the end of its epoch where it is the first or the last; whether more follow.
  bool advance() { return go<true>(); }
  void advance_to_end() {
    while (go<false>()) {}
  }

  /// Called before `advance` has said that nothing follows, it leaves the epoch where it is: no hook tells of its end,
  /// and a window that is not over is not stepped. Who wants these asks for a stop, and advances until it is reached.
  void close() {
    safely([&] {
      if (epoch_) epoch_->leave(run_);
      epoch_.reset();
      run_.made.outcome.ended_by = end_reason(run_);
      if (trains_) end_training();
      finish_files(run_);
      anomaly_.reset();
      run_.loading.count_training = nullptr;
      run_.loading.write = nullptr;
      if (trains_) keep_data();
      leave_gradients_alone(run_);
      run_.parts.strategy.teardown(*run_.parts.model);
      RunContext<R, phase::Fit> ctx(run_);
      tell<hook::on_fit_end>(run_, pack_, ctx);
      write_requests(run_, pack_, source_, {.at = At::ended});
      finish_files(run_);  // callbacks that tear down see what there is
      tell_all<hook::teardown>(run_, pack_, source_, ctx);
      write_requests(run_, pack_, source_, {.at = At::ended});
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
  /// Whether there is anything to go on from.
  static constexpr bool resumes = !std::is_same_v<From, Anew> || any_resumes_fit<Pack>;
  using Start = StartOf<R, From>;
  /// Callbacks may want steps tried out before training goes on.
  static constexpr bool searches = any_searches<Pack>;

  /// Whatever was begun inside the fit has to end before on_exception is told.
  template <class Body>
  decltype(auto) safely(Body&& body) {
    return rescued(run_, pack_, source_, [&]() -> decltype(auto) {
      try {
        return body();
      } catch (...) {
        epoch_.reset();
        anomaly_.reset();
        throw;
      }
    });
  }

  // The opening.

  /// Nothing of an earlier run is due, or at hand, in this one.
  void begin_anew() {
    forget_searches(run_);  // of a fit that has failed while it opened, or of an evaluation
    run_.begin_fit(Source::template evaluates<hook::val_dataloader>);
    run_.loading.loaders = &loader_names<Source>;
    run_.loading.forgets_place = !all_remember_place<Source>;
    run_.carried.pass_random.reset();
    run_.carried.slices = 0;
    if constexpr (shares<R>) run_.shared = {};
    run_.watch.manual = {};
    watch_finite(run_);
    run_.parts.optimizers.reset();
    run_.searching.answers = searches;
    run_.values.forget();
  }

  /// Up to on_fit_start: the model, its optimizers, what is counted from here on.
  void assemble() {
    auto& parts = run_.parts;
    RunContext<R, phase::Fit> ctx(run_);
    set_up(run_, pack_, source_, ctx, FileOfFit{*this});
    run_.loading.count_training = Counts::template to<&OpenFit::count_training>(*this);
    parts.optimizers.emplace(AsList<std::remove_cvref_t<decltype(made_optimizers(ctx))>>::make(made_optimizers(ctx)));
    if constexpr (requires { R::Backend::check_optimizers(*parts.model, parts.optimizers->optimizers); })
      R::Backend::check_optimizers(*parts.model, parts.optimizers->optimizers);
    if constexpr (requires { parts.strategy.share_state(parts.optimizers->optimizers); })
      parts.strategy.share_state(parts.optimizers->optimizers);
    arrange_gradients(run_, pack_);
    if constexpr (R::Precision::scales_loss) parts.scaler.emplace(parts.precision, parts.strategy.device());
    if constexpr (resumes)
      if (resumed_) resumed_->refuse_unfit([this] { open_given_loaders(); }, run_.loading.count_training);
    auto const every = static_cast<std::size_t>(run_.asked.options.log_every_n_steps) *
                       static_cast<std::size_t>(run_.asked.window_length);
    run_.measured.train_board.reserve(every == 0 ? State<R>::Board::most_waiting : every);
    if (tell<hook::on_fit_start>(run_, pack_, ctx) == Flow::stop) wish_stop(run_);
    answer_settings();
    if (!is_resumed()) answer_searches();  // one that goes on has its state later
    log_hyperparameters(run_, source_);
    if (!is_resumed()) log_program(run_, pack_);  // one that goes on, when all of its file is known to fit
    if constexpr (resumes)
      if (resumed_) resumed_->load_training();
    check_time(run_);
    if (is_resumed()) agree_on_stop(run_);
    if constexpr (resumes)
      if (resumed_ && !run_.asked.options.limit_train_batches.none()) reopen_epoch(run_);  // unless time is up, too
  }

  /// What configure_optimizers returns. The backend may add to what an optimizer refuses.
  decltype(auto) made_optimizers(RunContext<R, phase::Fit>& ctx) {
    auto& model = *run_.parts.model;
    auto const make = [&]() -> decltype(auto) { return configure_optimizers<R>(model, ctx); };
    if constexpr (requires { R::Backend::made_optimizers(model, make); })
      return R::Backend::made_optimizers(model, make);
    else return make();
  }

  using Counts = decltype(Loading::count_training);
  std::optional<long> count_training() {
    return batches_of(training_loader(run_, source_), run_.asked.options.limit_train_batches, "limit_train_batches");
  }

  /// The file that the fit goes on from, as set_up asks for it.
  struct FileOfFit {
    OpenFit& fit;
    void find() {
      if constexpr (resumes) fit.find_file();
    }
    void load() {
      if constexpr (resumes) fit.take_file();
    }
  };
  void find_file() {
    start_.look(run_, true);
    if (start_.is_found() && start_.tell_of_folders(run_.callbacks)) run_.made.log_dir.clear();  // loggers say it anew
  }
  /// Asks for the loaders early, so that what a file holds of them can be tried before training.
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
  /// Setup is over: callbacks know their folders, and the model is whole.
  void take_file() {
    start_.look(run_, true);
    auto file = start_.take(run_);
    if (!file) return;
    resumed_.emplace(run_, pack_, source_, std::move(file));
    run_.loading.resuming = true;
    resumed_->load_model();
  }

  bool is_resumed() const {
    if constexpr (resumes) return resumed_.has_value();
    else return false;
  }

  /// What callbacks found before, from which loaders are made.
  void answer_settings() {
    if constexpr (searches) answer(std::exchange(run_.searching.settings, {}), run_, source_, plan_);
  }
  /// Between two epochs: what callbacks wanted tried out.
  void answer_searches() {
    if constexpr (searches) answer(std::exchange(run_.searching.due, {}), run_, source_, plan_);
  }

  /// Keeps what the data save of themselves, for a file that is asked for after the fit, when they are out of reach.
  void keep_data() {
    if constexpr (requires { typename R::Backend::RunFile::Memory; })
      if constexpr (data_has_state<R, Source, typename R::Backend::RunFile::Saver>)
        run_.left.emplace().save([this](auto& archive) {
          fold_data_module<R>(source_, archive);
          fold_loaders(run_, source_, archive);
        });
  }

  /// The sanity check; then, unless there is nothing to train, what has to be known of the loaders, and on_train_start.
  void start_training() {
    sanity_check(run_, pack_, source_);
    agree_on_stop(run_);
    auto const& options = run_.asked.options;
    // A run that was stopped at its limit still has the end of its epoch, and of training, before it.
    bool const owes = is_resumed() && run_.point.at != At::ended;
    auto const point = std::exchange(run_.point, {});
    if (options.limit_train_batches.none() || (done(run_) && !owes)) {
      run_.point = point;  // and a file of now says so
      if constexpr (resumes)
        if (resumed_) go_on_with_nothing();
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
    if constexpr (has_logger<Pack>) warn_of_few_rows(run_, plan_);
    run_.measured.train_board.restart();
    run_.loading.write = decltype(Loading::write)::template to<&OpenFit::write>(*this);
    RunContext<R, phase::Train> ctx(run_);
    run_.clock.training_began = options.now();
    if (tell<hook::on_train_start>(run_, pack_, ctx) == Flow::stop) wish_stop(run_);
    agree_on_stop(run_);
    if (options.val_check_interval.kind == ValidationInterval::Kind::time) run_.clock.last_validation = options.now();
    if constexpr (resumes)
      if (resumed_) go_on();
  }

  // Epochs, one after the other.

  template <bool One>
  bool go() {
    return safely([&] { return walk<One>(); });
  }

  bool more() const { return trains_ && (epoch_ || !done(run_)); }

  /// One batch, or without `One` all that are left of an epoch, with its beginning and its end; whether more follow.
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

  /// No batch follows where a hook asks for a stop.
  void begin_epoch() {
    reload_if_due(run_, source_, plan_);
    auto& loader = source_.train();
    RunContext<R, phase::Train> ctx(run_);
    run_.facts.is_last_batch = false;
    if (std::exchange(run_.progress.cut_short, -1) >= 0) run_.measured.cut_short = {};
    forget_cut(run_);
    if constexpr (requires { loader.set_epoch(long{}); }) loader.set_epoch(long{run_.progress.epoch});
    begin_shared_epoch(run_);
    if (tell_or_rest<hook::on_train_epoch_start>(ctx) == Flow::stop) wish_stop(run_);
    agree_on_stop(run_);
    deliver_posted(run_, pack_, run_.progress.logged_steps);
    if (!stops(run_)) answer_searches();
    warn_of_long_window(run_, plan_);
    if (!stops(run_)) epoch_.emplace(run_, pack_, source_, plan_);
  }

  template <class Hook, class Ctx>
  Flow tell_or_rest(Ctx& ctx) {
    return loop::tell_or_rest<Hook, resumes>(run_, pack_, ctx);
  }
  void end_epoch(bool left_early, std::uint8_t from = 0) {
    loop::end_epoch<resumes>(run_, pack_, source_, left_early, from);
  }

  // What is left of the epoch in which a resumed run was stopped.

  /// Training had ended. What its loaders and its data module kept is a part of the files to come.
  void go_on_with_nothing() {
    warn_if_finished(run_);
    if constexpr (data_has_state<R, Source, typename R::Backend::RunFile::Saver>)
      if (!run_.asked.options.limit_train_batches.none()) {
        plan_ = plan_training(run_, source_);
        check_validation(run_, source_);
        resumed_->load_data();
        keep_data();
      }
    resumed_->load_random();
  }

  /// The rest of what was under way when the file was written.
  void go_on() {
    SafePoint point;
    resumed_->load_all([&] {
      point = run_.point;  // on_train_start may have asked for a stop
      using Loader = std::remove_reference_t<decltype(source_.train())>;
      if constexpr (Jumps<Loader>)
        if (point.at == At::after_epoch && point.began) source_.train().resume_at(0);
      if (point.at >= At::epoch_end || (run_.progress.batch == 0 && point.at == At::before_batch && !point.began))
        return;
      if constexpr (requires { source_.train().set_epoch(long{}); })
        source_.train().set_epoch(long{run_.progress.epoch});
      epoch_.emplace(run_, pack_, source_, plan_);
      epoch_->find_place(run_, point);
    });
    bool const ended = warn_if_finished(run_);
    run_.due.posted.clear();  // what hooks say of the beginning of training has its row
    RunContext<R, phase::Fit> ctx(run_);
    restore_after_save(run_, ctx);  // the file was written between before_save and after_save
    resumed_->go_back_if_reopened();
    run_.loading.resuming = false;
    resumed_.reset();
    if (!ended && !is_snapshot<From> && speaks_for_all(run_)) print_start(run_, start_.name());
    run_.point = {.began = epoch_.has_value()};
    if (epoch_) {
      bool const more = epoch_->go_on(run_, pack_, point);
      run_.due.heard = {};
      if (more) return;
      bool const left_early = point.at == At::batch_end ? epoch_->left_early() : !point.last;
      epoch_.reset();
      return end_epoch(left_early);
    }
    if constexpr (KeepsPlace<std::remove_reference_t<decltype(source_.train())>>)
      if (point.left_early) static_cast<void>(std::begin(source_.train()));  // the pass that was not over
    if (point.at == At::epoch_end) return end_epoch(point.left_early, point.parts);
    write_requests(run_, pack_, source_, point);
  }

  // Files of now, and the end.

  /// A file of now that was asked for by name.
  void write(std::filesystem::path const& file) {
    struct Here {  // where the run goes on, also when the file cannot be written
      OpenFit& fit;
      Progress progress = fit.run_.progress;
      SafePoint point = fit.run_.point;
      long slices = fit.run_.carried.slices;
      ~Here() {
        expect_rows(fit.run_.callbacks, 0);
        progress.left_out = fit.run_.progress.left_out;  // writing has exchanged gradients of the open window
        fit.run_.progress = progress, fit.run_.point = point;
        fit.run_.carried.slices = slices;
      }
    } const here{*this};
    if (auto const* const before = before_repeated_validation(run_))
      expect_rows(run_.callbacks, run_.due.rows - before->rows);
    else if (run_.facts.in_batch || run_.progress.batch != run_.progress.window_start) redo_window(run_, source_);
    write_checkpoint(run_, source_, file);
  }

  void end_training() {
    run_.point = {.at = At::after_epoch};
    compare_last_steps(run_);
    if (run_.due.statistics_pass) {
      prepare_statistics(run_);
      run_.point.began = true;
      statistics_pass(run_, pack_, source_, plan_);
      run_.point.began = false;
      run_.due.statistics_pass = false;
    }
    RunContext<R, phase::TrainEnd> ctx(run_);
    tell<hook::on_train_end>(run_, pack_, ctx);
    deliver_posted(run_, pack_, last_step(run_));
    write_requests(run_, pack_, source_, {.at = At::ended});
    run_.point = {.at = At::ended};
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  FitIsOpen is_open_;
  [[no_unique_address]] std::conditional_t<resumes, Start, NoFile> start_;
  [[no_unique_address]] std::conditional_t<resumes, std::optional<Resumption<R, Pack, Source, typename Start::File>>,
                                           Anew> resumed_{};
  EpochPlan plan_{};
  bool trains_ = false;
  std::optional<TrainEpoch<R, Pack, Source>> epoch_{};  ///< the one whose batches are under way
  std::optional<Algorithms> algorithms_{};
  std::optional<Anomaly> anomaly_{};
};

/// A whole fit, from its beginning or from a file.
template <class R, class Pack, class Source, class From = Anew>
void fit(State<R>& run, Pack& pack, Source& source, From const& from = {}) {
  OpenFit<R, Pack, Source, From> open(run, pack, source, from);
  open.advance_to_end();
  open.close();
}

}  // namespace fulgurite::loop
