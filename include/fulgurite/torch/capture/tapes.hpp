#pragma once
// Steps recorded on the CPU, as tapes: lists of the operators that a step called.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::libtorch::capture {

// Records a step on the CPU while it runs as it is written.

/// A step that ran as it is written, and its recording.
template <class Result>
struct Taken {
  std::optional<Result> result = std::nullopt;
  std::vector<Call> calls = {};
  at::Tensor seed = {};  ///< the tensor from which backward started
  std::unique_ptr<Listing> listing = nullptr;
  Left left = {};
  std::vector<std::string> text = {};
  std::string refusal = {};  ///< why this step cannot become a tape
  bool changed = false;      ///< the model differs from what it was at the first recording
};

/// The reason why a tape of this step would be wrong: a member of the model keeps a tensor that the step has made,
/// which replays would not update. Empty if there is no such member.
template <class Result, class Board>
std::string kept_after(Taken<Result> const& taken, Board& board) {
  std::unordered_map<Storage, std::size_t> held;
  auto const count = [&](at::Tensor const& tensor) { ++held[storage_of(tensor)]; };
  for (auto const& call : taken.calls) {
    each_tensor_of(call.in, count);
    each_tensor_of(call.out, count);
  }
  for (auto const& tensor : taken.left.tensors) count(tensor);
  board.each_pending([&](auto const& entry) { count(entry.value); });
  each_leaf(
      *taken.result,
      [&](at::Tensor const& tensor) {
        if (tensor.defined()) count(tensor);
      },
      [](std::int64_t) {});
  std::string keeps;
  for (auto const& call : taken.calls)
    each_tensor_of(call.out, [&](at::Tensor const& tensor) {
      if (keeps.empty() && taken.listing->role(tensor).kind == Role::Kind::made &&
          tensor.storage().use_count() > held[storage_of(tensor)])
        keeps = "a result of " + call.name() +
                " is kept after the step, where a replay would not change it: return it or log it";
    });
  return keeps;
}

/// Runs the step as it is written, and records it. `seed` receives the tensor from which backward starts.
template <class Result, class Batch, class Step>
Taken<Result> record(Scene const& scene, Batch& batch, Step& step, at::Tensor*& seed) {
  Taken<Result> taken;
  Recorder recorder;
  {
    Recording const on(recorder);
    SetFor<at::Tensor*> const here(seed, &taken.seed);
    taken.result.emplace(step(batch));
  }
  taken.calls = std::move(recorder.calls);
  // The autograd graph is no longer needed. What still holds memory of the step after this is the model's code.
  taken.left = cut_off(*taken.result, step.board, scene.world);
  taken.refusal = !recorder.refusal.empty() ? recorder.refusal : taken.left.refusal;
  taken.changed = scene.changed();
  if (!taken.refusal.empty() || taken.changed) return taken;
  taken.listing = std::make_unique<Listing>(taken.calls, scene.batch, scene.world, taken.seed);
  taken.text = taken.listing->lines;
  for (auto const& tensor : taken.left.tensors) taken.text.push_back("leaves" + taken.listing->leaves(tensor));
  for (auto const& logged : taken.left.logged)
    taken.text.push_back("logs " + std::to_string(logged.metric) + " " +
                         std::to_string(std::bit_cast<std::uint64_t>(logged.weight)) + " " +
                         std::to_string(int(logged.origin)));
  taken.refusal = taken.listing->refusal;
  if (taken.refusal.empty()) taken.refusal = kept_after(taken, step.board);
  return taken;
}

// Copies of a replay's outputs, since the next replay overwrites the tape's own tensors.

/// A copy that is not held any more is reused; most losses are dropped before the next step.
class Copies {
 public:
  at::Tensor take(Tape const& tape, std::size_t number);

 private:
  static bool is_as_it_was(at::Tensor const& copy, at::Tensor const& from);

  std::vector<at::Tensor> last_;
};

// How a step and its replay are compared on the CPU: by texts, bits, and random numbers.

/// The states of the random generators that a step draws from. If it draws from none, no generator is read or restored,
/// so that other threads may draw meanwhile.
class Generators {
 public:
  Generators(Tape const& tape, bool draws);
  std::vector<at::Tensor> now() const;
  void restore() const;

 private:
  void add(at::Generator const& generator);
  std::vector<at::Generator> all_;
  std::vector<at::Tensor> states_;
};

/// A copy of all that a step may change: the model's memory, and the generators if the step draws random numbers.
class Before {
 public:
  Before(World const& world, Tape const& tape, bool draws);
  void restore() const;
  /// The current states of the same generators.
  std::vector<at::Tensor> drawn() const { return generators_.now(); }

 private:
  World const& world_;
  Generators generators_;
  std::vector<char> bytes_;
};

/// The bytes of tensors, one after another, as if each were contiguous.
std::vector<char> bytes_of(std::vector<at::Tensor> const& tensors);

/// The first difference between the texts of two steps; empty if there is none.
std::string difference(std::vector<std::string> const& a, std::vector<std::string> const& b);

/// What is kept about one kind of step.
struct KeptTape {
  bool once = false;                   ///< the step was recorded; a second, equal recording makes a tape
  int failures = 0;                    ///< number of failed recordings
  std::vector<std::string> text = {};  ///< text of the recorded step
  std::unique_ptr<Tape> tape = nullptr;
  Left left = {};
  bool draws = false;  ///< the step draws random numbers
  Copies copies = {};
  std::shared_ptr<void> result = nullptr;  ///< each replay replaces its tensors
};

/// Records, replays and compares steps for CapturedSteps. A step is recorded twice, since what a model creates once and
/// keeps exists only from the second time on; both recordings have to be equal.
class Tapes {
 public:
  using Kept = KeptTape;
  static constexpr bool records_checks = true;  ///< a step that is compared with a replay is recorded for that

  /// The reason why nothing can be recorded on this device; empty if it can.
  static std::string missing(at::Device) { return {}; }
  void open(at::Device) {}
  void close() {}

  /// `run()` does the backward pass.
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
  /// A step that differed from its replay is the first one of a new recording.
  template <class Result>
  Prepared<Result> start_again(Scene const& scene, Kept& kept, Taken<Result>& taken, loop::Questions const& asked,
                               CaptureReport& report) {
    return prepared(scene, kept, taken, asked, report);
  }

  /// Runs a replay from a copy of all that it may write, then the step as it is written from the same state. Both must
  /// be equal in every bit.
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
      failed = true;  // if the step itself is at fault, it throws below
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
  /// Returns the result of the last replay.
  template <class Result, class Board>
  Result outcome(Kept& kept, Board& board) {
    return give_away(kept.left, *static_cast<Result const*>(kept.result.get()), board,
                     [&](std::size_t number) { return kept.copies.take(*kept.tape, number); });
  }
  static Before before(World const& world, Kept const& kept);

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
    if (made.sound) made.refusal = not_replayable(asked);
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

  at::Tensor* seed_ = nullptr;  ///< set while a step is recorded: receives the tensor from which backward starts
};

}  // namespace fulgurite::libtorch::capture

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/tapes.ipp>
#endif
