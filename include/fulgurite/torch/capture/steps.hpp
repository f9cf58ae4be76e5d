#pragma once
// The steps of a captured fit: what decides when one is recorded, replayed, checked and given up, whatever it is
// recorded as.

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/anomaly_mode.h>

#include <fulgurite/torch/capture/captured_model.hpp>
#include <fulgurite/torch/capture/earlier.hpp>
#include <fulgurite/torch/capture/leaves.hpp>
#include <fulgurite/torch/optim/gradient_looks.hpp>

namespace fulgurite::libtorch::capture {

/// Each kind of step (place in the accumulation window, shape of the batch, answers of the context) goes its own way:
/// some steps prepare a recording; the next ones are compared with a replay in every bit; from then on steps are
/// replayed, and compared now and then, at the first replay and the last batch of each epoch, and where the model has
/// changed on the host. A kind that cannot be replayed runs as it is written for good, and a warning says why. Where
/// replays turn out to have been wrong, loop::WrongReplay is thrown.
///
/// `Recordings`: Tapes and Graphs show what it takes.
template <class Recordings>
class CapturedSteps : private CapturedModel {
 public:
  using CapturedModel::half_checked;
  using CapturedModel::may_replay;
  using CapturedModel::unchecked;

  explicit CapturedSteps(std::shared_ptr<CaptureReport> report) : CapturedModel(std::move(report)) {}
  /// A copy has no recordings: they belong to one model in one fit.
  CapturedSteps(CapturedSteps const& other) : CapturedModel(other.report_) {}
  CapturedSteps(CapturedSteps&&) noexcept = default;
  CapturedSteps& operator=(CapturedSteps const&) = delete;

  template <class Model>
  void setup(Model& model, at::Device device) {
    teardown();
    take(model, device);
    if (auto const why = Recordings::missing(device); !why.empty()) stay_as_written(why);
    if (!off_) recordings_.open(device);
  }
  void teardown() {
    forget();
    recordings_.close();
    leave();
  }

  /// run() is backward, from `seed`, which somebody else makes and keeps right for as long as the fit lasts.
  template <class F>
  void backward(at::Tensor const& seed, F&& run) {
    recordings_.backward(seed, run);
  }

  /// One step: as `strategy` runs it, or a replay.
  template <class Strategy, class Batch, class Board, class Seam>
  auto gradients(Strategy& strategy, StepKey key, Batch& batch, Board& board, Seam& seam) {
    using Result = std::remove_cvref_t<decltype(seam(batch))>;
    StepAtHand<Strategy, Board, Seam> step{strategy, key, board, seam};
    if constexpr (!only_tensors<Batch> || !std::copyable<std::remove_const_t<Batch>>) {
      if (!off_)
        stay_as_written("the batch holds more than tensors, so a replay would not know what the step takes from it: "
                        "put numbers into tensors");
    } else if constexpr (!only_tensors<Result> || !std::is_copy_constructible_v<Result>) {
      if (!off_) stay_as_written("training_step returns more than tensors, and what is no tensor would never change");
    } else if (!off_ && !torch::autograd::AnomalyMode::is_enabled()) {
      HeldLeaves const held(shape_, leaves_, batch);
      if (has_changed()) forget_changed(step);
      if (!off_) {
        look_at_model();
        auto& kind = kind_of(step);
        switch (kind.next) {
        case Next::prepare: return prepare<Result>(kind, batch, step);
        case Next::replay:
          if (!check_is_due(kind, *world_, seam)) return replay<Result>(kind, batch, step);
          [[fallthrough]];
        case Next::check: return check<Result>(kind, batch, step);
        case Next::as_written: break;
        }
      }
    }
    ++report_->eager;
    return step(batch);
  }

  /// Checks each kind of step that was replayed since its last check, on the batch that it saw last; nothing of it is
  /// kept. Throws loop::WrongReplay.
  template <class Strategy, class Board, class Seam>
  void confirm(Strategy& strategy, Board& board, Seam& seam) {
    StepAtHand<Strategy, Board, Seam> step{strategy, {}, board, seam};
    kinds_.audit(this, step);
    half_checked_ = false;
  }
  /// After a wrong replay: the rest of the fit runs as it is written.
  void give_up(std::string const& reason) {
    forget();
    stay_as_written(reason);
    report_->told = report_->noted;  // the way back is told by who goes it
  }

 private:
  using Kind = RecordedKind<typename Recordings::Kept>;

  template <class Step>
  Kind& kind_of(Step& step) {
    if (auto* known = kinds_.find(step.key, shape_, step.seam)) return *known;
    if (kinds_.full()) {
      warn("there are more than 64 kinds and shapes of steps");
      crowd_.next = Next::as_written;
      return crowd_;
    }
    std::string why;
    auto& kind = kinds_.add(step.key, shape_, step.seam, why, [&](Kind& old) { old.audit(this, old, &step); });
    if (why.empty()) why = unfit();
    if (!why.empty()) give_up(kind, why);
    return kind;
  }

  template <class Result, class Batch, class Step>
  Result prepare(Kind& kind, Batch& batch, Step& step) {
    auto host = world_->host().now();
    step.seam.forget_questions();
    auto made = recordings_.template prepare<Result>(scene(), kind.kept, batch, step, *report_);
    if (made.changed) forget_changed(step);
    else settle(kind, made, std::move(host), step.seam.questions(), step.seam);
    if (made.result) return std::move(*made.result);
    if (made.ready) {
      auto result = replay<Result>(kind, batch, step);
      kind.fresh = true;
      return result;
    }
    ++report_->eager;
    return step(batch);
  }
  /// `host`: what the model kept on the host when the step began; `asked`: what the step asked its context.
  template <class Result, class Seam>
  void settle(Kind& kind, Prepared<Result> const& made, std::vector<char> host, loop::Questions const& asked,
              Seam const& seam) {
    if (made.repeated) world_->host().learn(kind.host, host, 1);
    if (made.sound) kind.answers = seam.answers(asked);
    kind.host = std::move(host);
    if (made.ready) kind.next = Next::check;
    if (!made.refusal.empty()) give_up(kind, kind.because.empty() ? made.refusal : kind.because + ": " + made.refusal);
  }

  template <class Result, class Batch, class Step>
  Result replay(Kind& kind, Batch const& batch, Step& step) {
    recordings_.replay(kind.kept, leaves_);
    kinds_.template keep<std::remove_const_t<Batch>>(kind, batch);
    kind.audit = &audit<std::remove_const_t<Batch>, Result, Step>;
    ++kind.unchecked;
    ++unchecked_;
    ++report_->replayed;
    return recordings_.template outcome<Result>(kind.kept, step.board);
  }

  /// In place of a replay: the step as it is written, compared with one.
  template <class Result, class Batch, class Step>
  Result check(Kind& kind, Batch& batch, Step& step) {
    bool const trusted = kind.next == Next::replay;
    auto host = world_->host().now();
    bool const host_changed = trusted && !world_->host().changed(kind.host).empty();
    step.seam.forget_questions();
    auto compared = recordings_.template compare<Result>(scene(), kind.kept, batch, step);
    auto const asked = step.seam.questions();  // an audit below asks again
    auto const& wrong = compared.wrong;
    if (Recordings::records_checks) ++report_->recorded;
    if (wrong.empty()) {
      ++report_->checked;
      if (auto const why = out_of_reach(asked); !why.empty()) give_up(kind, why);
      else passed(kind, std::move(host), asked, step.seam);
    } else if (compared.ran.changed) {
      forget_changed(step);
    } else if (!host_changed) {
      if (kind.unchecked != 0) wrong_replay(kind, wrong, true);
      give_up(kind, trusted ? wrong + seen_late : wrong);
    } else {
      // What was seen to change need not be what made this step another: the replays before are checked apart.
      if (kind.unchecked != 0) kind.audit(this, kind, &step);
      return begin_anew<Result>(kind, compared.ran, std::move(host), asked, step.seam);
    }
    return std::move(*compared.ran.result);
  }
  /// The host has changed what the step is: the one that just ran is the first of a new recording.
  template <class Result, class Ran, class Seam>
  Result begin_anew(Kind& kind, Ran& ran, std::vector<char> host, loop::Questions const& asked, Seam const& seam) {
    kind.because = world_->host().changed(kind.host);
    ++report_->dropped;
    if (++kind.changes > most_changes) {
      give_up(kind, kind.because + ", again and again");
      return std::move(*ran.result);
    }
    kind.anew();
    auto made = recordings_.template begin_anew<Result>(scene(), kind.kept, ran, asked, *report_);
    settle(kind, made, std::move(host), asked, seam);
    return std::move(*made.result);
  }

  /// Runs the last replayed step of a kind as it is written, and compares. Nothing of this is kept: neither what it
  /// writes nor what it draws or logs.
  template <class Batch, class Result, class Step>
  static void audit(void* owner, StepKind& of, void* at) {
    auto& self = *static_cast<CapturedSteps*>(owner);
    auto& kind = static_cast<Kind&>(of);
    auto& now = *static_cast<Step*>(at);
    auto& batch = *static_cast<Batch*>(kind.last.get());
    Step step{now.strategy, kind.key, now.board, now.seam};
    Earlier earlier(*self.world_, *self.model_, kind.host);
    if (!earlier.reached()) return self.unproven(kind);
    auto const leaves = std::exchange(self.leaves_, {});
    auto const shape = std::exchange(self.shape_, {});
    auto const before = Recordings::before(*self.world_, kind.kept);
    auto const logged = step.board;
    auto const put_back = [&] {
      before.restore();
      GradientLooks::forget(self.model_->parameters());
      step.board = logged;
      self.leaves_ = leaves;
      self.shape_ = shape;
    };
    step.board.discard_step();  // of the step at hand
    std::string wrong;
    bool same_batch = true;
    try {
      HeldLeaves const own(self.shape_, self.leaves_, batch);
      same_batch = self.shape_ == kind.shape;
      step.seam.forget_questions();
      if (same_batch)
        wrong = step.seam.as(kind.key, batch, kind.answers, [&] {
          return self.recordings_.template compare<Result>(self.scene(), kind.kept, batch, step).wrong;
        });
    } catch (...) {
      put_back();
      throw;
    }
    put_back();
    if (!same_batch) return self.unproven(kind);  // the loader has changed it since
    ++self.report_->confirmed;
    if (!wrong.empty()) {
      earlier.stay();
      self.wrong_replay(kind, wrong, self.world_->is_of(*self.model_));
    }
    self.none_waits(kind);
  }

  void give_up(Kind& kind, std::string const& reason) {
    kind.anew();
    kind.next = Next::as_written;
    none_waits(kind);
    warn(reason);
  }
  void forget() {
    kinds_.clear();
    forget_model();
  }
  template <class Step>
  void forget_changed(Step& step) {
    kinds_.audit(this, step);
    kinds_.clear();
    forget_changed_model();
  }

  Recordings recordings_ = {};  ///< outlives what it has recorded
  StepKinds<Kind> kinds_;
  Kind crowd_;  ///< of all that came too late
};

}  // namespace fulgurite::libtorch::capture
