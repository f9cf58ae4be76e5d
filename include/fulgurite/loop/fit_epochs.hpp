#pragma once
// The epochs of a fit, one after the other, and what is left of the one in which a resumed run was stopped.

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/tell.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/epoch_end.hpp>
#include <fulgurite/loop/fit_opening.hpp>
#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::loop {

/// `epoch_` is the epoch whose batches are under way, if there is one.
template <class R, class Pack, class Source, class From>
class FitEpochs : protected FitOpening<R, Pack, Source, From> {
  using Base = FitOpening<R, Pack, Source, From>;

 protected:
  using Base::answer_searches;
  using Base::Base;
  using Base::keep_data;
  using Base::pack_;
  using Base::plan_;
  using Base::resumed_;
  using Base::resumes;
  using Base::run_;
  using Base::source_;
  using Base::start_;

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

  /// Training had ended. What its loaders and its data module kept is a part of the files to come.
  void go_on_with_nothing() {
    tell_of_end();
    if constexpr (data_has_state<R, Source, typename R::Backend::RunFile::Saver>)
      if (!run_.asked.options.limit_train_batches.none()) {
        plan_ = plan_training(run_, source_);
        check_validation(run_, source_);
        resumed_->load_data();
        keep_data();
      }
    resumed_->load_random();
  }

  /// One line: where training continues.
  void tell_of_start() {
    auto const& at = run_.progress;
    if (!speaks_for_all(run_) || run_.asked.options.barebones || is_snapshot<From>) return;
    fulgurite::tell(stderr, "resumes from " + start_.name() + ": epoch " + std::to_string(at.epoch) +
                                (at.batch == 0 ? "" : ", batch " + std::to_string(at.batch)) + ", step " +
                                std::to_string(at.global_step) + "\n");
  }

  /// Warns where nothing more is trained, though no limit says so; whether it did.
  bool tell_of_end() {
    bool const ended = run_.due.stop_of_file && stops(run_) && !steps_exhausted(run_) && !epochs_exhausted(run_);
    if (ended)
      run_.warn("fulgurite.resume.finished",
                "the run of this file had ended because a callback or a hook asked for a stop, so nothing more is "
                "trained: change max_epochs, max_steps or max_time to go on with it");
    return ended;
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
    bool const ended = tell_of_end();
    run_.due.posted.clear();  // what hooks say of the beginning of training has its row
    Context<R, phase::Fit> ctx(run_);
    restore_after_save(pack_, ctx);  // the file was written between before_save and after_save
    resumed_->go_back_if_reopened();
    run_.loading.resuming = false;
    resumed_.reset();
    if (!ended) tell_of_start();
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

  bool trains_ = false;
  std::optional<TrainEpoch<R, Pack, Source>> epoch_{};

 private:
  /// No batch follows where a hook asks for a stop.
  void begin_epoch() {
    reload_if_due(run_, source_, plan_);
    auto& loader = source_.train();
    Context<R, phase::Train> ctx(run_);
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
};

}  // namespace fulgurite::loop
