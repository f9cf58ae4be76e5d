#pragma once
// Steps recorded on the CPU, as tapes: lists of the operators that really ran.

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

// A step that runs as it is written on the CPU, and is written down while it does.

/// A step that ran as it is written, and what was written down of it.
template <class Result>
struct Taken {
  std::optional<Result> result = std::nullopt;
  std::vector<Call> calls = {};
  at::Tensor seed = {};  ///< what backward started from
  std::unique_ptr<Listing> listing = nullptr;
  Left left = {};
  std::vector<std::string> text = {};
  std::string refusal = {};  ///< why this cannot be a tape
  bool changed = false;      ///< the model is not what it was when the first step was recorded
};

/// Why a tape of this step would go wrong: a member of the model keeps a tensor that the step has made, and replays
/// would not change that one. Empty: nothing is kept.
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

/// Runs the step as it is written, and writes it down. `seed`: where the tensor is put that backward starts from.
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
  // From here on nobody needs the graph; what still holds memory of the step afterwards is code of the model.
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

// What a replay gives away: copies, since the next replay overwrites the tape's own tensors.

/// A copy that nobody holds any more is filled and given away again; most losses are dropped before the next step.
class Copies {
 public:
  at::Tensor take(Tape const& tape, std::size_t number);

 private:
  static bool is_as_it_was(at::Tensor const& copy, at::Tensor const& from);

  std::vector<at::Tensor> last_;
};

// What a step and its replay are compared by on the CPU: texts, bits, and random numbers.

/// The states of the random generators that a step draws from. If it draws none, no generator is looked at or put back,
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

/// All that a step may change, as it was at one moment: the model's memory, and random numbers where the step draws
/// any.
class Before {
 public:
  Before(World const& world, Tape const& tape, bool draws);
  void restore() const;
  /// The states of the same generators now.
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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/tapes.ipp>
#endif
