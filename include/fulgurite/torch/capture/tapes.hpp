#pragma once
// Steps recorded on the CPU, as tapes: lists of the operators that really ran.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/torch/capture/compare.hpp>
#include <fulgurite/torch/capture/copies.hpp>
#include <fulgurite/torch/capture/record.hpp>
#include <fulgurite/torch/capture/report.hpp>
#include <fulgurite/torch/capture/step_at_hand.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/optim/gradient_looks.hpp>

namespace fulgurite::libtorch::capture {

/// What is kept of one kind of step.
struct KeptTape {
  bool once = false;                   ///< the step was recorded, and once more the same makes a tape
  int failures = 0;                    ///< recordings that came to nothing
  std::vector<std::string> text = {};  ///< of the recorded step
  std::unique_ptr<Tape> tape = nullptr;
  Left left = {};
  bool draws = false;  ///< random numbers
  Copies copies = {};
  std::shared_ptr<void> result = nullptr;  ///< its tensors are replaced in each replay
};

/// Records, replays and compares for CapturedSteps. A step is recorded twice, since what is made once and kept is there
/// from the second time on, and both recordings have to be the same.
class Tapes {
 public:
  using Kept = KeptTape;
  static constexpr bool records_checks = true;  ///< a step that is compared with a replay is written down for it

  /// Why nothing can be recorded on this device; empty: it can.
  static std::string missing(at::Device) { return {}; }
  void open(at::Device) {}
  void close() {}

  /// run() is backward.
  template <class F>
  void backward(at::Tensor const& seed, F&& run) {
    if (seed_ != nullptr) *seed_ = seed;
    run();
  }

  template <class Result, class Batch, class Step>
  Prepared<Result> prepare(Scene const& scene, Kept& kept, Batch& batch, Step& step, CaptureReport& report) {
    auto taken = record<Result>(scene, batch, step, seed_);
    if (!taken.changed) ++report.recorded;
    return prepared(scene, kept, taken, step.seam.questions(), report);
  }
  /// A step that was found to be another than its replay is the first of a new recording.
  template <class Result>
  Prepared<Result> begin_anew(Scene const& scene, Kept& kept, Taken<Result>& taken, loop::Questions const& asked,
                              CaptureReport& report) {
    return prepared(scene, kept, taken, asked, report);
  }

  /// A replay from a copy of all that it may write, then the step as it is written from the same state: equal in every
  /// bit.
  template <class Result, class Batch, class Step>
  Compared<Taken<Result>> compare(Scene const& scene, Kept& kept, Batch& batch, Step& step) {
    Before const before(scene.world, *kept.tape, kept.draws);
    std::vector<char> world, leaving;
    std::vector<at::Tensor> drawn;
    bool failed = false;
    try {
      kept.tape->replay(scene.batch);
      world = scene.world.bytes();
      leaving = bytes_of(kept.tape->leaving());
      drawn = before.drawn();
    } catch (std::exception const&) {
      failed = true;  // where the step itself is at fault it says so below
    }
    before.restore();
    GradientLooks::forget(scene.model.parameters());

    Compared<Taken<Result>> compared{record<Result>(scene, batch, step, seed_)};
    auto const& taken = compared.ran;
    if (taken.changed) {
      compared.wrong =
          "the model has other modules, parameters or buffers, or other switches, than when the step was recorded";
      return compared;
    }
    auto const states = before.drawn();
    compared.wrong = taken.refusal;
    if (compared.wrong.empty()) compared.wrong = difference(kept.text, taken.text);
    if (compared.wrong.empty() && (failed || bytes_of(states) != bytes_of(drawn) || world != scene.world.bytes() ||
                                   leaving != bytes_of(taken.left.tensors)))
      compared.wrong = other_bits;
    return compared;
  }

  void replay(Kept& kept, std::vector<at::Tensor> const& batch) { kept.tape->replay(batch); }
  /// What the last replay gives.
  template <class Result, class Board>
  Result outcome(Kept& kept, Board& board) {
    return give_away(kept.left, *static_cast<Result const*>(kept.result.get()), board,
                     [&](std::size_t number) { return kept.copies.take(*kept.tape, number); });
  }
  static Before before(World const& world, Kept const& kept) { return {world, *kept.tape, kept.draws}; }

 private:
  static constexpr int most_failures = 3;

  template <class Result>
  Prepared<Result> prepared(Scene const& scene, Kept& kept, Taken<Result>& taken, loop::Questions const& asked,
                            CaptureReport& report) {
    Prepared<Result> made{.result = std::move(taken.result), .changed = taken.changed};
    if (made.changed) return made;
    std::string wrong = taken.refusal;
    if (wrong.empty() && kept.once) wrong = difference(kept.text, taken.text);
    made.sound = wrong.empty();
    made.repeated = made.sound && kept.once;
    if (made.sound) made.refusal = out_of_reach(asked);
    else if (++kept.failures == most_failures) made.refusal = wrong;
    if (!made.refusal.empty()) return made;
    if (!made.repeated) {
      kept.text = std::move(taken.text);
      kept.once = taken.refusal.empty();
      return made;
    }
    kept.left = std::move(taken.left);
    kept.result = std::make_shared<Result>(*made.result);
    kept.draws = std::any_of(taken.calls.begin(), taken.calls.end(),
                             [](Call const& call) { return call.op.hasTag(at::Tag::nondeterministic_seeded); });
    kept.tape = std::make_unique<Tape>(std::move(taken.calls), *taken.listing, scene.batch, kept.left.tensors,
                                       std::move(taken.seed), scene.model.parameters());
    add_tape(report, kept.tape->facts());
    made.ready = true;
    return made;
  }

  at::Tensor* seed_ = nullptr;  ///< while a step is recorded: where what backward starts from is put
};

}  // namespace fulgurite::libtorch::capture
