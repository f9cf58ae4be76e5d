#pragma once
// A fit that is open: begun, gone on with by as little as one batch, and ended.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/answer_searches.hpp>
#include <fulgurite/loop/assembly.hpp>
#include <fulgurite/loop/end_if_asked.hpp>
#include <fulgurite/loop/epoch_end.hpp>
#include <fulgurite/loop/fit_checks.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/in_place.hpp>
#include <fulgurite/loop/log_hyperparameters.hpp>
#include <fulgurite/loop/log_program.hpp>
#include <fulgurite/loop/resume.hpp>
#include <fulgurite/loop/sanity_check.hpp>
#include <fulgurite/loop/statistics_pass.hpp>
#include <fulgurite/loop/train_epoch.hpp>
#include <fulgurite/loop/training_plan.hpp>
#include <fulgurite/loop/training_rows.hpp>

namespace fulgurite::loop {

/// Making one opens the fit: its frame, setup, optimizers, the sanity check, the hooks up to on_train_start. `advance`
/// does one batch with all that follows from it, `advance_to_end` all that are left, in a loop that the compiler sees
/// as a whole; they may be mixed. `close` is what follows the last batch, from on_train_end to teardown. An exception
/// from any of them has passed through on_exception, and the fit is over: it can only be destroyed.
template <class R, class Pack, class Source, class From = Anew>
class OpenFit {
  using Backend = typename R::Backend;
  using Algorithms = decltype(Backend::algorithms(false, std::optional<bool>()));
  using Anomaly = decltype(Backend::anomaly(false));
  /// Whether there is anything to go on from.
  static constexpr bool resumes = !std::is_same_v<From, Anew> || any_resumes_fit<Pack>;
  using Start = StartOf<R, From>;
  /// Callbacks may want steps tried out before training goes on.
  static constexpr bool searches = any_searches<Pack>;

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
    run_.loading.count_training = nullptr;
    run_.loading.write = nullptr;
    forget_searches(run_);
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
      if (trains_) end_training();
      finish_files(run_);
      anomaly_.reset();
      run_.loading.count_training = nullptr;
      run_.loading.write = nullptr;
      if (trains_) keep_data();
      run_.parts.strategy.teardown(*run_.parts.model);
      Context<R, phase::Fit> ctx(run_);
      tell<hook::on_fit_end>(run_, pack_, ctx);
      write_requests(run_, pack_, source_, {.at = At::ended});
      finish_files(run_);  // callbacks that tear down see what there is
      tell_all<hook::teardown>(run_, pack_, source_, ctx);
      write_requests(run_, pack_, source_, {.at = At::ended});
      finish_files(run_);
      if constexpr (searches) warn_of_unanswered(run_);
      finalize_loggers(pack_, Status::success);
    });
    algorithms_.reset();
    end_if_asked(pack_);
  }

 private:
  /// A file that is asked for when the data are out of reach has what they keep of themselves.
  void keep_data() {
    if constexpr (requires { typename R::Backend::RunFile::Memory; })
      if constexpr (data_has_state<R, Source, typename R::Backend::RunFile::Saver>)
        run_.left.emplace().save([this](auto& archive) {
          fold_data_module<R>(source_, archive);
          fold_loaders(run_, source_, archive);
        });
  }

  /// What was begun inside a fit has ended before its on_exception is told.
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

  /// Nothing of an earlier run is due, or at hand, in this one.
  void begin_anew() {
    forget_searches(run_);  // of a fit that has failed while it opened, or of an evaluation
    run_.facts = {};
    run_.facts.has_validation =
        Source::template evaluates<hook::val_dataloader> && !run_.asked.options.limit_val_batches.none();
    run_.due = {};
    run_.loading.resuming = run_.loading.training_is_open = run_.loading.validation_is_open = false;
    run_.loading.loaders = &loader_names<Source>;
    run_.loading.forgets_place = !all_remember_place<Source>;
    run_.carried.pass_random.reset();
    run_.carried.slices = 0;
    run_.point = {};
    if constexpr (shares<R>) run_.shared = {};
    run_.watch.manual = {};
    watch_finite(run_);
    run_.parts.optimizers.reset();
    run_.searching.answers = searches;
    forget_results(run_);
  }

  /// Up to on_fit_start: the model, its optimizers, what is counted from here on.
  void assemble() {
    auto& parts = run_.parts;
    Context<R, phase::Fit> ctx(run_);
    set_up(run_, pack_, source_, ctx, FileOfFit{*this});
    run_.loading.count_training = [this] {
      return batches_of(training_loader(run_, source_), run_.asked.options.limit_train_batches, "limit_train_batches");
    };
    parts.optimizers.emplace(AsList<std::remove_cvref_t<decltype(configure_optimizers<R>(*parts.model, ctx))>>::make(
        configure_optimizers<R>(*parts.model, ctx)));
    if constexpr (requires { parts.strategy.share_state(parts.optimizers->optimizers); })
      parts.strategy.share_state(parts.optimizers->optimizers);
    if constexpr (R::Precision::scales_loss) parts.scaler.emplace(parts.precision, parts.strategy.device());
    if constexpr (resumes)
      if (resumed_) resumed_->refuse_unfit([this] { open_given_loaders(); }, run_.loading.count_training);
    auto const every = static_cast<std::size_t>(run_.asked.options.log_every_n_steps) *
                       static_cast<std::size_t>(run_.asked.window_length);
    run_.measured.train_board.reserve(every == 0 ? State<R>::Board::most_waiting : every);
    run_.clock.fit_began = run_.asked.options.now();
    if (tell<hook::on_fit_start>(run_, pack_, ctx) == Flow::stop) wish_stop(run_);
    answer_settings();
    if (!is_resumed()) answer_searches();  // one that goes on has its state later
    log_hyperparameters(run_, pack_, source_);
    log_program(run_, pack_);
    if constexpr (resumes)
      if (resumed_) resumed_->load_training();
    check_time(run_);
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
    start_.template look<true>(run_, pack_);
    if (start_.is_found() && start_.tell_of_folders(pack_)) run_.made.log_dir.clear();  // loggers say it anew
  }
  /// So that what a file holds of them can be tried.
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
    start_.template look<true>(run_, pack_);
    auto file = start_.take(run_);
    if (!file) return;
    resumed_.emplace(run_, pack_, source_, std::move(*file));
    run_.loading.resuming = true;
    resumed_->load_model();
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
    if constexpr (has_logger<Pack>) warn_of_few_rows();
    run_.measured.train_board.restart();
    run_.loading.write = [this](std::filesystem::path const& file) {
      struct Here {  // where the run goes on, also when the file cannot be written
        OpenFit& fit;
        Progress progress = fit.run_.progress;
        SafePoint point = fit.run_.point;
        long slices = fit.run_.carried.slices;
        ~Here() {
          expect_rows(fit.pack_, 0);
          fit.run_.progress = progress, fit.run_.point = point;
          fit.run_.carried.slices = slices;
        }
      } const here{*this};
      if (run_.facts.in_batch || run_.progress.batch != run_.progress.window_start) redo_window(run_, pack_, source_);
      write_checkpoint(run_, pack_, source_, file);
    };
    Context<R, phase::Train> ctx(run_);
    if (tell<hook::on_train_start>(run_, pack_, ctx) == Flow::stop) wish_stop(run_);
    agree_on_stop(run_);
    if (options.val_check_interval.kind == ValidationInterval::Kind::time) run_.clock.last_validation = options.now();
    if constexpr (resumes)
      if (resumed_) go_on(point);
  }
  bool is_resumed() const {
    if constexpr (resumes) return resumed_.has_value();
    else return false;
  }

  /// Training had ended. What its loaders and its data module kept is a part of the files to come.
  void go_on_with_nothing() {
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
  void go_on(SafePoint const& point) {
    resumed_->load_all([&] {
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
    run_.loading.resuming = false;
    resumed_.reset();
    run_.due.posted.clear();  // what hooks say of the beginning of training has its row
    Context<R, phase::Fit> ctx(run_);
    restore_after_save(pack_, ctx);  // the file was written between before_save and after_save
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

  void warn_of_few_rows() {
    auto const& options = run_.asked.options;
    if (!plan_.batches || options.fast_dev_run != 0) return;
    long const steps = (*plan_.batches + run_.asked.window_length - 1) / run_.asked.window_length;
    if (options.log_every_n_steps > steps)
      run_.warn("fulgurite.options.few_rows",
                "the steps of an epoch (" + std::to_string(steps) + ") are fewer than log_every_n_steps = " +
                    std::to_string(options.log_every_n_steps) + ": lower it to see the values of steps");
  }

  template <bool One>
  bool go() {
    return safely([&] {
      if (!more()) return false;
      [[maybe_unused]] auto const watched = pack_.template profile<action::run_training_epoch>();
      if (!epoch_) begin_epoch();
      if (epoch_ && epoch_->template walk<One>(run_, pack_)) return true;
      bool const left_early = epoch_ && epoch_->left_early();
      epoch_.reset();
      end_epoch(left_early);
      return more();
    });
  }
  bool more() const { return trains_ && (epoch_ || !done(run_)); }

  /// No batch follows where a hook asks for a stop.
  void begin_epoch() {
    reload_if_due(run_, source_, plan_);
    auto& loader = source_.train();
    Context<R, phase::Train> ctx(run_);
    run_.facts.is_last_batch = false;
    if constexpr (requires { loader.set_epoch(long{}); }) loader.set_epoch(long{run_.progress.epoch});
    begin_shared_epoch(run_);
    if (tell_or_rest<hook::on_train_epoch_start>(ctx) == Flow::stop) wish_stop(run_);
    agree_on_stop(run_);
    deliver_posted(run_, pack_, run_.progress.logged_steps);
    if (!stops(run_)) answer_searches();
    if (!stops(run_)) epoch_.emplace(run_, pack_, source_, plan_);
  }

  /// What callbacks found before, from which loaders are made.
  void answer_settings() {
    if constexpr (searches) answer(std::exchange(run_.searching.settings, {}), run_, pack_, source_, plan_);
  }
  /// Between two epochs: what callbacks wanted tried out.
  void answer_searches() {
    if constexpr (searches) answer(std::exchange(run_.searching.due, {}), run_, pack_, source_, plan_);
  }

  template <class Hook, class Ctx>
  Flow tell_or_rest(Ctx& ctx) {
    return loop::tell_or_rest<Hook, resumes>(run_, pack_, ctx);
  }
  void end_epoch(bool left_early, std::uint8_t from = 0) {
    loop::end_epoch<resumes>(run_, pack_, source_, left_early, from);
  }

  void end_training() {
    run_.point = {.at = At::after_epoch};
    if (run_.due.statistics_pass) {
      prepare_statistics(run_, pack_);
      run_.point.began = true;
      statistics_pass(run_, pack_, source_, plan_);
      run_.point.began = false;
      run_.due.statistics_pass = false;
    }
    Context<R, phase::TrainEnd> ctx(run_);
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
  bool trains_ = false;
  EpochPlan plan_{};
  std::optional<Algorithms> algorithms_{};
  std::optional<Anomaly> anomaly_{};
  std::optional<TrainEpoch<R, Pack, Source>> epoch_{};
};

/// A whole fit, from its beginning or from a file.
template <class R, class Pack, class Source, class From = Anew>
void fit(State<R>& run, Pack& pack, Source& source, From const& from = {}) {
  OpenFit<R, Pack, Source, From> open(run, pack, source, from);
  open.advance_to_end();
  open.close();
}

}  // namespace fulgurite::loop
