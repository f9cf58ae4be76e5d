#pragma once
// A fit that is open: begun, gone on with by as little as one batch, and ended.

#include <optional>
#include <utility>

#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/early_looks.hpp>
#include <fulgurite/loop/end_if_asked.hpp>
#include <fulgurite/loop/end_reason.hpp>
#include <fulgurite/loop/exchange.hpp>
#include <fulgurite/loop/fit_checks.hpp>
#include <fulgurite/loop/fit_epochs.hpp>
#include <fulgurite/loop/in_place.hpp>
#include <fulgurite/loop/redo_window.hpp>
#include <fulgurite/loop/sanity_check.hpp>
#include <fulgurite/loop/statistics_pass.hpp>

namespace fulgurite::loop {

/// Making one opens the fit: its frame, setup, optimizers, the sanity check, the hooks up to on_train_start. `advance`
/// does one batch with all that follows from it, `advance_to_end` all that are left, in a loop that the compiler sees
/// as a whole; they may be mixed. `close` is what follows the last batch, from on_train_end to teardown. An exception
/// from any of them has passed through on_exception, and the fit is over: it can only be destroyed.
template <class R, class Pack, class Source, class From = Anew>
class OpenFit : FitEpochs<R, Pack, Source, From> {
  using Base = FitEpochs<R, Pack, Source, From>;
  using Backend = typename R::Backend;
  using Algorithms = decltype(Backend::algorithms(false, std::optional<bool>()));
  using Anomaly = decltype(Backend::anomaly(false));

 public:
  /// `from`: the file that the fit goes on from.
  OpenFit(State<R>& run, Pack& pack, Source& source, From from = {}) : Base(run, pack, source, from) {
    check_fit(run, pack, source);
    this->begin_anew();
    auto const& options = run.asked.options;
    algorithms_.emplace(InPlace{[&] { return Backend::algorithms(options.deterministic, options.benchmark); }});
    safely([&] {
      this->assemble();
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
      if (trains_) this->keep_data();
      leave_gradients_alone(run_);
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
  using Base::epoch_;
  using Base::pack_;
  using Base::plan_;
  using Base::resumed_;
  using Base::resumes;
  using Base::run_;
  using Base::searches;
  using Base::source_;
  using Base::trains_;

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

  /// The sanity check; then, unless there is nothing to train, what has to be known of the loaders, and on_train_start.
  void start_training() {
    sanity_check(run_, pack_, source_);
    agree_on_stop(run_);
    auto const& options = run_.asked.options;
    // A run that was stopped at its limit still has the end of its epoch, and of training, before it.
    bool const owes = this->is_resumed() && run_.point.at != At::ended;
    auto const point = std::exchange(run_.point, {});
    if (options.limit_train_batches.none() || (done(run_) && !owes)) {
      run_.point = point;  // and a file of now says so
      if constexpr (resumes)
        if (resumed_) this->go_on_with_nothing();
      return;
    }
    trains_ = true;
    run_.left.reset();
    run_.loading.training_since = run_.progress.epoch;
    plan_ = plan_training(run_, source_);
    check_validation(run_, source_);
    if constexpr (resumes)
      if (resumed_) resumed_->refuse_unfit_loaders(plan_.most());
    if (this->is_resumed()) log_program(run_, pack_);
    if constexpr (has_logger<Pack>) warn_of_few_rows(run_, plan_);
    run_.measured.train_board.restart();
    run_.loading.write = decltype(Loading::write)::template to<&OpenFit::write>(*this);
    Context<R, phase::Train> ctx(run_);
    run_.clock.training_began = options.now();
    if (tell<hook::on_train_start>(run_, pack_, ctx) == Flow::stop) wish_stop(run_);
    agree_on_stop(run_);
    if (options.val_check_interval.kind == ValidationInterval::Kind::time) run_.clock.last_validation = options.now();
    if constexpr (resumes)
      if (resumed_) this->go_on();
  }

  /// A file of now that was asked for by name.
  void write(std::filesystem::path const& file) {
    struct Here {  // where the run goes on, also when the file cannot be written
      OpenFit& fit;
      Progress progress = fit.run_.progress;
      SafePoint point = fit.run_.point;
      long slices = fit.run_.carried.slices;
      ~Here() {
        expect_rows(fit.pack_, 0);
        progress.left_out = fit.run_.progress.left_out;  // writing has exchanged gradients of the open window
        fit.run_.progress = progress, fit.run_.point = point;
        fit.run_.carried.slices = slices;
      }
    } const here{*this};
    if (auto const* const before = before_repeated_validation(run_)) expect_rows(pack_, run_.due.rows - before->rows);
    else if (run_.facts.in_batch || run_.progress.batch != run_.progress.window_start)
      redo_window(run_, pack_, source_);
    write_checkpoint(run_, pack_, source_, file);
  }

  template <bool One>
  bool go() {
    return safely([&] { return this->template walk<One>(); });
  }

  void end_training() {
    run_.point = {.at = At::after_epoch};
    compare_last_steps(run_);
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
