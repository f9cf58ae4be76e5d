#pragma once
// Captured{SingleDevice{...}}: a training step is recorded once and replayed from then on, with the same bits.

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/capture/graphs.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite {
namespace libtorch::capture {

// What a captured fit knows about its model and about replays that no check has followed yet, independent of whether
// steps are recorded as tapes or as graphs.

/// The base of CapturedSteps.
class CapturedModel {
 public:
  /// The number of replays since the last check. The loops call confirm() before anything relies on their results.
  long unchecked() const { return unchecked_; }
  /// True while replays of one kind of step have just been found right and those of other kinds still wait for their
  /// check.
  bool half_checked() const { return half_checked_; }
  /// True if some step may still be replayed in this fit.
  bool may_replay() const { return !off_; }
  /// True if the next step will be checked if it is of the last one's kind. A check takes as long as many replays: an
  /// open fit begins one only where it fits into the budget.
  bool check_is_next() const { return check_is_next_; }
  /// The number of replays and of dropped recordings of this object, while copies of the strategy share the report.
  long replays() const { return replays_; }

 protected:
  explicit CapturedModel(std::shared_ptr<CaptureReport> report) : report_(std::move(report)) {}

  template <class Model>
  void take(Model& model, at::Device device) {
    device_ = device;
    off_ = false;
    times_void_ = 0;
    if constexpr (std::derived_from<Model, torch::nn::Module>) {
      model_ = &model;
      object_ = {std::addressof(model), sizeof(Model)};
    } else {
      stay_as_written("the model is no torch::nn::Module, so its tensors are not known");
    }
    if (!available()) stay_as_written("another copy of this library in the process has taken LibTorch's hook");
  }
  void leave() {
    model_ = nullptr;
    off_ = true;
  }

  /// Called before each step.
  bool has_changed() const { return world_ && !world_->unchanged(); }
  void look_at_model();
  Scene scene();

  /// The reason why a step with this batch cannot be recorded; empty if it can.
  std::string unfit() const;

  /// Called when a check has passed: `kind` has no unchecked replays any more. `host`: the model's bytes on the host at
  /// the beginning of the step that was compared. `longest`: replays until the next check, at most.
  void passed(StepKind& kind, std::vector<char> host, loop::Questions const& asked, auto const& seam, long longest) {
    bool const trusted = kind.next == Next::replay;
    world_->host().learn(kind.host, host, trusted ? patience : 1);
    kind.host = std::move(host);
    kind.answers = seam.answers(asked);
    kind.epoch = seam.epoch();
    none_waits(kind);
    if (trusted) {
      half_checked_ = unchecked_ != 0;
      kind.pace.rarer_checks(longest);
    } else if (++kind.checks == checks_before_trust) {
      kind.next = Next::replay;
      kind.trusted = true;
    } else {
      return;
    }
    kind.pace.next_check(noise_);
  }
  void none_waits(StepKind& kind);
  /// Called for each check of a trusted kind. True if it is the 16th in a row that is due because an epoch begins or
  /// ends (`at_end`), and no step was replayed meanwhile.
  bool only_checks(StepKind& kind, bool at_end) const;
  /// Warns that replays of this kind can no longer be checked. This is a warning and no error, since they may well have
  /// been right.
  void unproven(StepKind& kind);
  /// Throws, and names what the user's code may have changed. `same_model`: the model still has the tensors that a
  /// rollback would write to.
  [[noreturn]] void wrong_replay(StepKind const& kind, std::string const& wrong, bool same_model) const;

  /// No step of this fit is recorded after this call. `given`: the reason is part of another warning.
  void stay_as_written(std::string const& reason, bool given = false);
  void warn(std::string const& reason) { stays_as_written(*report_, reason); }

  /// Forgets everything that was known about the model.
  void forget_model();
  /// Called when the model is no longer what it was when its steps were recorded: a layer was unfrozen, eval() was
  /// called, gradients were reallocated. The model is examined again, but only a limited number of times.
  void forget_changed_model();

  static constexpr int checks_before_trust = 3;
  static constexpr int most_changes = 32;
  static constexpr std::uint8_t patience = 3;  ///< passed checks after which a changing host byte is ignored

  std::optional<World> world_;
  at::Device device_ = at::kCPU;
  long unchecked_ = 0;  ///< replays since the last check, over all kinds of steps
  long replays_ = 0;
  bool half_checked_ = false, check_is_next_ = false;
  bool off_ = true;  ///< set to false by `take`
  Parts parts_;      ///< of the current step's batch
  std::shared_ptr<CaptureReport> report_;
  torch::nn::Module* model_ = nullptr;

 private:
  Object object_ = {};
  int times_void_ = 0;  ///< how often all recordings have been discarded
  std::uint64_t noise_ = 88172645463325252U;
};

// The steps of a captured fit: decides when a step is recorded, replayed, checked and given up, for tapes and graphs
// alike.

/// Each kind of step (place in the accumulation window, shape of the batch, values that it read from the context) is
/// treated on its own. Its first steps prepare a recording; the next ones are compared with a replay, bit by bit; from
/// then on steps are replayed, and checked at irregular intervals, at the first replay and the last batch of each
/// epoch, and where the model has changed on the host. A kind that cannot be replayed runs as it is written for the
/// rest of the fit, and a warning says why; so do all steps of epochs that are too short for a replay. Throws
/// loop::WrongReplay if earlier replays turn out to have been wrong.
///
/// `Recordings` makes and replays the recordings: Tapes or Graphs.
template <class Recordings>
class CapturedSteps : public CapturedModel {
 public:
  explicit CapturedSteps(std::shared_ptr<CaptureReport> report) : CapturedModel(std::move(report)) {}
  /// A copy has no recordings, since those belong to one model in one fit.
  CapturedSteps(CapturedSteps const& other) : CapturedModel(other.report_) {}
  CapturedSteps(CapturedSteps&&) noexcept = default;
  CapturedSteps& operator=(CapturedSteps const&) = delete;

  void setup(auto& model, at::Device device, Kernels kernels) {
    teardown();
    take(model, device);
    if (auto const why = Recordings::missing(device); !why.empty()) stay_as_written(why);
    if (!off_) recordings_.open(device, kernels);
  }
  void teardown() {
    forget();
    recordings_.close();
    leave();
  }

  /// `run()` does the backward pass from `seed`. The caller owns the seed and keeps its value right for the whole fit.
  void backward(at::Tensor const& seed, auto&& run) { recordings_.backward(seed, run); }
  /// `f()`: the trainer acts in the middle of a step. It does not in a check whose results are discarded.
  void in_turn(loop::Turn turn, at::Tensor const& loss, auto&& f) {
    auto const act = [&] {
      if (!audits_) f();
    };
    if (off_) f();
    else recordings_.in_turn(turn, loss, *model_, act);
  }

  /// At most so many replays become one while nothing reads what they compute; 1: each is one of its own.
  void join(long most) {
    if constexpr (joins_steps) recordings_.join(most);
    else if (most > 1 && Recordings::missing(device_).empty())
      steps_stay_single(*report_, "only on a GPU does a replay have a launch to save");
  }
  /// Runs the replays that wait for others.
  void finish() {
    if constexpr (joins_steps) report_->joined += recordings_.finish();
  }

  /// Runs one step with `strategy`, or replays it.
  template <class Strategy, class Batch, class Board, class Seam>
  auto gradients(Strategy& strategy, StepKey key, Batch& batch, Board& board, Seam& seam) {
    using Result = std::remove_cvref_t<decltype(seam(batch))>;
    CurrentStep<Strategy, Board, Seam> step{strategy, key, board, seam};
    check_is_next_ = false;
    if constexpr (!is_known<Batch> || !std::copyable<std::remove_const_t<Batch>>) {
      if (!off_)
        stay_as_written("the batch holds more than tensors, numbers and texts, so a replay would not know what the "
                        "step takes from it");
    } else if constexpr (!is_known<Result> || !std::is_copy_constructible_v<Result>) {
      if (!off_)
        stay_as_written("training_step returns more than tensors, numbers and texts, and what else it returns would "
                        "never change");
    } else if (!off_ && !torch::autograd::AnomalyMode::is_enabled()) {
      HeldParts const held(parts_, batch, seam.batch_size());
      if (has_changed()) {
        finish();
        forget_changed(step);
      }
      if (!off_) {
        look_at_model();
        auto& kind = kind_of(step);
        if (kind.next == Next::replay && !check_is_due(kind, *world_, seam)) return replay<Result>(kind, batch, step);
        finish();
        switch (kind.next) {
        case Next::prepare: return prepare<Result>(kind, batch, step);
        case Next::replay:
        case Next::check: return check<Result>(kind, batch, step);
        case Next::as_written: break;
        }
      }
    }
    finish();
    ++report_->eager;
    return step(batch);
  }

  /// Checks each kind of step that was replayed since its last check, on the last batch of that kind. The results of
  /// these steps are discarded. Throws loop::WrongReplay.
  template <class Strategy, class Board, class Seam>
  void confirm(Strategy& strategy, Board& board, Seam& seam) {
    CurrentStep<Strategy, Board, Seam> step{strategy, {}, board, seam};
    finish();
    kinds_.audit(this, step);
    half_checked_ = false;
  }
  /// Called after a wrong replay: the rest of the fit runs as it is written.
  void give_up(std::string const& reason) {
    forget();
    stay_as_written(reason, true);  // the loop that rolls back warns about it
  }

 private:
  using Kind = RecordedKind<typename Recordings::Kept>;
  static constexpr bool joins_steps = requires(Recordings& recordings) { recordings.finish(); };

  Kind& kind_of(auto& step) {
    if (auto* known = kinds_.find(step.key, parts_, step.seam)) return *known;
    if (kinds_.full()) {
      warn("there are more than 64 kinds and shapes of steps");
      crowd_.next = Next::as_written;
      return crowd_;
    }
    finish();  // an old kind may go
    std::string why;
    auto& kind = kinds_.add(step.key, parts_, step.seam, why, [&](Kind& old) { old.audit(this, old, &step); });
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
  /// `host`: the model's bytes on the host at the beginning of the step; `asked`: what the step read from its context.
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
    if (joins(kind, batch, step)) {
      ++report_->updated;
    } else {
      finish();
      if (recordings_.replay(kind.kept, parts_.tensors, step.seam)) ++report_->updated;
    }
    kinds_.template keep<std::remove_const_t<Batch>>(kind, batch);
    kind.audit = &audit<std::remove_const_t<Batch>, Result, Step>;
    ++kind.unchecked;
    ++unchecked_;
    ++replays_;
    ++report_->replayed;
    check_is_next_ = kind.pace.is_over();
    return recordings_.template outcome<Result>(kind.kept, step.board);
  }

  /// True if the replay waits for those after it.
  bool joins(Kind& kind, auto const& batch, auto& step) {
    if constexpr (joins_steps) return recordings_.join(scene(), kind.kept, batch, step, *report_);
    else return false;
  }

  /// Runs the step as it is written in place of a replay, and compares the two.
  template <class Result, class Batch, class Step>
  Result check(Kind& kind, Batch& batch, Step& step) {
    bool const trusted = kind.next == Next::replay;
    bool const in_vain = trusted && only_checks(kind, step.seam.is_last() || kind.epoch != step.seam.epoch());
    auto host = world_->host().now();
    bool const host_changed = trusted && !world_->host().changed(kind.host).empty();
    step.seam.forget_questions();
    auto compared = recordings_.template compare<Result>(scene(), kind.kept, batch, step);
    auto const asked = step.seam.questions();  // an audit below asks again
    auto const& wrong = compared.wrong;
    if (Recordings::records_checks) ++report_->recorded;
    if (wrong.empty()) {
      ++report_->checked;
      if (auto const why = not_replayable(asked); !why.empty()) give_up(kind, why);
      else passed(kind, std::move(host), asked, step.seam, Recordings::longest_gap);
      if (in_vain) forget(), stay_as_written(never_replayed);
    } else if (compared.ran.changed) {
      forget_changed(step);
    } else if (!host_changed) {
      if (kind.unchecked != 0) wrong_replay(kind, wrong, true);
      give_up(kind, trusted ? wrong + found_late : wrong);
    } else {
      // The change found need not be the cause of the difference, so earlier replays are checked separately.
      if (kind.unchecked != 0) kind.audit(this, kind, &step);
      return start_again<Result>(kind, compared.ran, std::move(host), asked, step.seam);
    }
    return std::move(*compared.ran.result);
  }
  /// The host has changed what the step computes: the step that just ran is the first one of a new recording.
  template <class Result, class Ran, class Seam>
  Result start_again(Kind& kind, Ran& ran, std::vector<char> host, loop::Questions const& asked, Seam const& seam) {
    kind.because = world_->host().changed(kind.host);
    ++replays_;
    ++report_->dropped;
    if (++kind.changes > most_changes) {
      give_up(kind, kind.because + ", again and again");
      return std::move(*ran.result);
    }
    kind.restart();
    auto made = recordings_.template start_again<Result>(scene(), kind.kept, ran, asked, *report_);
    settle(kind, made, std::move(host), asked, seam);
    return std::move(*made.result);
  }

  /// Runs the last replayed step of a kind as it is written, and compares. Everything that this run writes, draws or
  /// logs is discarded.
  template <class Batch, class Result, class Step>
  static void audit(void* owner, StepKind& of, void* at) {
    auto& self = *static_cast<CapturedSteps*>(owner);
    auto& kind = static_cast<Kind&>(of);
    auto& now = *static_cast<Step*>(at);
    auto& batch = *static_cast<Batch*>(kind.last.get());
    Step step{now.strategy, kind.key, now.board, now.seam};
    Earlier earlier(*self.world_, *self.model_, kind.host);
    if (!earlier.reached()) return self.unproven(kind);
    auto const parts = std::exchange(self.parts_, {});
    auto const before = Recordings::before(*self.world_, kind.kept);
    auto const logged = step.board;
    auto const restore = [&] {
      before.restore();
      GradientLooks::forget(self.model_->parameters());
      step.board = logged;
      self.parts_ = parts;
    };
    step.board.discard_step();  // what the current step has logged
    SetFor<bool> const no_updates(self.audits_, true);
    std::string wrong;
    bool same_batch = true;
    try {
      HeldParts const own(self.parts_, batch, kind.weight);
      same_batch = self.parts_.shape == kind.shape && (!kind.numbers || self.parts_.numbers == *kind.numbers);
      step.seam.forget_questions();
      if (same_batch)
        wrong = step.seam.as(kind.key, kind.weight, kind.answers, [&] {
          return self.recordings_.template compare<Result>(self.scene(), kind.kept, batch, step).wrong;
        });
    } catch (...) {
      restore();
      throw;
    }
    restore();
    if (!same_batch) return self.unproven(kind);  // the loader has overwritten it since
    ++self.report_->confirmed;
    if (!wrong.empty()) {
      earlier.stay();
      self.wrong_replay(kind, wrong, self.world_->is_of(*self.model_));
    }
    self.none_waits(kind);
  }

  void give_up(Kind& kind, std::string const& reason) {
    kind.restart();
    kind.next = Next::as_written;
    none_waits(kind);
    warn(reason);
  }
  void forget() {
    if constexpr (joins_steps) recordings_.drop();
    kinds_.clear();
    forget_model();
  }
  void forget_changed(auto& step) {
    kinds_.audit(this, step);
    kinds_.clear();
    forget_changed_model();
  }

  Recordings recordings_ = {};  ///< must outlive what it has recorded
  StepKinds<Kind> kinds_;
  Kind crowd_;           ///< all kinds beyond the limit of 64
  bool audits_ = false;  ///< a step runs whose results are discarded
};

// A strategy whose training steps are recorded and replayed.

/// Throws [fulgurite.capture.steps_a_replay] unless a table of numbers has so many rows.
void require_steps_a_replay(int steps);

/// `Base` with its steps handed to CapturedSteps, which runs them with `Base` or replays them. `Recordings`: Tapes, or
/// Graphs; or both, for a device that is known only at run time: tapes on the CPU, graphs elsewhere.
template <class Base, class... Recordings>
class Capturing : public Base {
 public:
  static constexpr bool captures = true;
  using AsWritten = Base;  ///< the strategy that runs the same steps without replays

  /// Throws [fulgurite.capture.steps_a_replay].
  explicit Capturing(Base strategy, CaptureOptions options = {}) : Base(std::move(strategy)), options_(options) {
    capture::require_steps_a_replay(options.steps_a_replay);
    if (options.kernels == Kernels::fastest) this->matmul = Matmul::fastest;
  }
  Capturing(Base strategy, Kernels kernels) : Capturing(std::move(strategy), CaptureOptions{.kernels = kernels}) {}
  /// Refused at compile time: an option without its name.
  template <Unnamed T>
  Capturing(Base strategy, T const&) : Capturing(std::move(strategy)) {
    static_assert(!Unnamed<T>, "[fulgurite.capture.options] Captured's options are given by their names: "
                               "Captured{SingleDevice{cpu}, {.go_back = false}}, or Captured{..., kernels::fastest}");
  }

  std::shared_ptr<CaptureReport const> report() const { return report_; }
  /// The account of captured steps as lines of text, which describe(trainer) prints.
  std::vector<std::string> account() const {
    auto lines = capture::account(*report_);
    for (auto& line : Base::account()) lines.push_back(std::move(line));
    return lines;
  }

  void setup(auto& model, auto const& precision) {
    on_device([](auto& steps) { steps.teardown(); });
    Base::setup(model, precision);
    elsewhere_ = !this->device().is_cpu();
    drop_recordings(model);
  }
  /// After a trial run: steps are recorded again, as in a new fit. No collective, since another rank may have failed.
  void drop_recordings(auto& model) {
    on_device([&](auto& steps) { steps.setup(model, this->device(), options_.kernels); });
  }
  void teardown(auto& model) {
    on_device([](auto& steps) { steps.teardown(); });
    Base::teardown(model);
  }

  void backward(at::Tensor const& loss, at::Tensor const& seed) {
    on_device([&](auto& steps) { steps.backward(seed, [&] { Base::backward(loss, seed); }); });
  }
  void in_turn(loop::Turn turn, at::Tensor const& loss, auto&& f) {
    on_device([&](auto& steps) { steps.in_turn(turn, loss, f); });
  }
  auto gradients(StepKey key, auto& batch, auto& board, auto& seam) {
    auto const products = Base::matmul_scope();  // a tape records the matmul precision of the scope it is made in
    return on_device([&](auto& steps) { return steps.gradients(static_cast<Base&>(*this), key, batch, board, seam); });
  }

  // What the loops call on a strategy whose replays may be wrong; CapturedSteps documents each function.
  long unchecked() const { return captured().unchecked(); }
  bool half_checked() const { return captured().half_checked(); }
  bool check_is_next() const { return captured().check_is_next(); }
  void confirm(auto& board, auto& seam) {
    auto const products = Base::matmul_scope();  // the step as it is written runs again, as in `gradients`
    on_device([&](auto& steps) { steps.confirm(static_cast<Base&>(*this), board, seam); });
  }
  bool may_replay() const { return captured().may_replay(); }
  void give_up(std::string const& reason) {
    on_device([&](auto& steps) { steps.give_up(reason); });
  }
  long replays() const { return captured().replays(); }
  /// How many steps the options allow to become one replay.
  int steps_a_replay() const { return options_.steps_a_replay; }
  /// True: the loop lets steps become one replay from now on, and calls `finish_replays` before anyone reads what they
  /// compute. False: each is one of its own, and none waits any more.
  void join_steps(bool join) {
    on_device([&](auto& steps) { steps.join(join ? options_.steps_a_replay : 1); });
  }
  void finish_replays() {
    on_device([](auto& steps) { steps.finish(); });
  }
  /// Called where the loop cannot let them be joined.
  void stay_single(std::string const& reason) { capture::steps_stay_single(*report_, reason); }
  /// True if the loop may roll back after a wrong replay.
  bool goes_back() const { return options_.go_back; }
  /// Calls `say(identifier, sentence)` for each new warning.
  void pass_warnings(auto&& say) { capture::pass_on_reasons(*report_, say); }

 private:
  /// Calls `f` with the CapturedSteps of the model's device.
  auto on_device(auto&& f) {
    if (elsewhere_) return f(std::get<sizeof...(Recordings) - 1>(steps_));
    return f(std::get<0>(steps_));
  }
  CapturedModel const& captured() const {
    if (elsewhere_) return std::get<sizeof...(Recordings) - 1>(steps_);
    return std::get<0>(steps_);
  }

  CaptureOptions options_;
  std::shared_ptr<CaptureReport> report_ = std::make_shared<CaptureReport>();
  std::tuple<CapturedSteps<Recordings>...> steps_{CapturedSteps<Recordings>(report_)...};
  bool elsewhere_ = false;  ///< the model is not on the CPU
};

/// `Strategy` with recordings for its device.
#if defined(FULGURITE_HAS_CUDA_RUNTIME)
template <class Strategy, Known OnGpu = Strategy::on_gpu>
struct CapturingOn {
  using type = Capturing<Strategy, Tapes, graph::Graphs<graph::CudaGraph>>;
};
template <class Strategy>
struct CapturingOn<Strategy, Known::no> {
  using type = Capturing<Strategy, Tapes>;
};
template <class Strategy>
struct CapturingOn<Strategy, Known::yes> {
  using type = Capturing<Strategy, graph::Graphs<graph::CudaGraph>>;
};
template <class Strategy>
using CapturingOf = typename CapturingOn<Strategy>::type;
#else
template <class Strategy>
using CapturingOf = Capturing<Strategy, Tapes>;  // which says why nothing is recorded on a GPU
#endif

}  // namespace libtorch::capture

/// Records training steps once and replays them from then on, with the same bits. Use it where the overhead of calling
/// operators or launching kernels dominates: small models, small batches.
///
///     auto trainer = make_trainer<Net>(options, Captured{SingleDevice{cpu}});
///
/// On the CPU, the operators of a step are recorded on a tape and run again from there. The first two steps of a kind
/// (place in the accumulation window, shape of the batch, values that the step read from the context) are recorded and
/// compared. The next three are replayed and also run as they are written, and their bits are compared. From then on
/// steps are replayed, with checks: at irregular intervals, at the first replay and the last batch of each epoch,
/// before a validation, before a file is written, and where the model has changed on the host.
///
/// On a GPU, a step becomes a CUDA graph: one launch in place of hundreds, with the same numbers. A kind of step runs
/// three times as it is written, is then recorded, and is compared with its replays in every bit (or, where its kernels
/// are not deterministic, within their own spread) before it is trusted; later checks are those of the CPU. The graph
/// contains clipping and the update of an optimizer of fulgurite::optim, if no code of the program stands between the
/// gradients and the update; with Fp16Mixed also unscaling, updates that are left out, and the change of the scale.
/// Without CUDA or its headers, all steps run as they are written.
///
/// In manual optimization, a replay stops where the step updates with an optimizer, and lets the trainer do that: the
/// tape stops there, or the step is one graph up to there and another from there on. Slices of truncated
/// back-propagation receive the state before them as they receive their batch.
///
/// training_step is not called in a replay: only its tensor operations happen, and what it logs as tensors is logged. A
/// step that cannot be replayed runs as it is written, and a warning says why. If a check finds that replays were
/// wrong, the fit rolls back to the last state that was checked, and continues without replays. See docs/capture.md.
template <class Device>
class Captured<SingleDevice<Device>> : public libtorch::capture::CapturingOf<SingleDevice<Device>> {
  using Recorded = libtorch::capture::CapturingOf<SingleDevice<Device>>;

 public:
  using Recorded::Recorded;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/captured.ipp>
#endif
