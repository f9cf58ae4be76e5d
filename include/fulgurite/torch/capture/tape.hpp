#pragma once
// A recorded step in a form that can be run again. It has memory of its own; views and calls without effect are left
// out; where an operator allocates its results, their memory replaces that of the recorded results.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/tape_step.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/native/products.hpp>
#include <fulgurite/torch/native/small_call.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::libtorch::capture {

/// The function to call in place of the operator; nullopt: the operator. `form`: nullptr if the operator has none.
/// `place`: where its only result goes, if not to its own memory. Must be called while the recorded values are still in
/// memory.
std::optional<native::SmallCall> small_call(Call const& call, OutForm const* form, at::Tensor const* place);

/// A step that can be replayed: the calls that a Listing has accepted, with memory of their own. A replay computes the
/// same bits as the step's code on that batch. It checks nothing but the batch: CapturedSteps has to find out when the
/// recording no longer fits.
class Tape : TapeMemory, Pinned {
 public:
  /// Takes over the calls of a step that `listing` has accepted. `leaving`: the tensors that the step returned and
  /// logged, in order. `parameters`: those of the model, whose gradients may have GradientLooks.
  Tape(std::vector<Call> calls, Listing const& listing, std::vector<at::Tensor> const& batch,
       std::vector<at::Tensor> leaving, at::Tensor seed, std::vector<at::Tensor> const& parameters);
  ~Tape();

  /// What the trainer does in the middle of a step. It receives the loss, where it looks at one.
  using Act = FunctionRef<void(loop::Turn, at::Tensor const&)>;

  /// Runs the step on this batch, which has the layout of the recorded one. `act`: for a step in which the trainer
  /// acts. `shows`: the step counts as made, which version counters and looks at gradients show; false: it is compared.
  void replay(std::vector<at::Tensor> const& batch, Act act = {}, bool shows = true);

  /// The step's outputs as of the last replay. The next replay overwrites them.
  std::vector<at::Tensor> const& leaving() const { return leaving_; }
  TapeFacts const& facts() const { return facts_; }

  /// Calls `f(generator)` for each generator that the step passes to a call.
  void each_generator(auto&& f) const {
    for (auto const& call : calls_)
      for (IValue const& value : call.in)
        if (value.isGenerator()) f(value.toGenerator());
  }

 private:
  class Graphs {
   public:
    ~Graphs() { c10::GradMode::set_enabled(outer_); }

   private:
    bool outer_ = c10::GradMode::is_enabled();
  };

  /// Looks up where the tensors of all steps are.
  void look_up();

  at::Tensor seed_;                             ///< kept so that its values live as long as the tape
  std::vector<c10::VariableVersion> versions_;  ///< of the model's tensors; a replay increments them as the step did
  Stack stack_;
  std::vector<std::size_t> looks_;  ///< indices of the steps that are looks
};

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

/// Begins the line of a step's text that holds what its result has besides tensors.
inline constexpr char const* numbers_line = "returns ";

class Turns;

/// A step while it is recorded.
struct Underway {
  Recorder& recorder;
  at::Tensor& seed;                    ///< receives the tensor from which backward starts
  FunctionRef<std::size_t()> pending;  ///< the number of values logged so far
  Turns* turns;                        ///< if the step is compared: receives what the trainer's turns do
};

/// Runs the step as it is written, and records it. `underway` points to what is known of it meanwhile.
template <class Result, class Batch, class Step>
Taken<Result> record(Scene const& scene, Batch& batch, Step& step, Underway*& underway, Turns* turns = nullptr) {
  Taken<Result> taken;
  Recorder recorder;
  {
    auto const logged = [&] { return pending(step.board); };
    Underway now{recorder, taken.seed, logged, turns};
    Recording const on(recorder);
    SetFor<Underway*> const here(underway, &now);
    taken.result.emplace(step(batch));
  }
  taken.calls = std::move(recorder.calls);
  // The autograd graph is no longer needed. What still holds memory of the step after this is the model's code.
  taken.left = cut_off(*taken.result, step.board, scene.world);
  taken.refusal = !recorder.refusal.empty() ? recorder.refusal : taken.left.refusal;
  taken.changed = scene.changed();
  if (!taken.refusal.empty() || taken.changed) return taken;
  taken.listing = std::make_unique<Listing>(taken.calls, scene.batch, scene.world, taken.seed);
  taken.text = std::move(taken.listing->lines);
  for (auto const& tensor : taken.left.tensors) taken.text.push_back("leaves" + taken.listing->leaves(tensor));
  for (auto const& logged : taken.left.logged)
    taken.text.push_back("logs " + std::to_string(logged.metric) + " " +
                         std::to_string(std::bit_cast<std::uint64_t>(logged.weight)) + " " +
                         std::to_string(int(logged.origin)));
  taken.text.push_back(numbers_line + taken.left.numbers);
  taken.refusal = taken.listing->refusal;
  if (taken.refusal.empty()) taken.refusal = kept_after(taken, step.board);
  return taken;
}

// Copies of a replay's outputs, since the next replay overwrites the tape's own tensors.

/// They lie in memory as the step's own do: the next step may compute with them, and kernels sum in another order where
/// strides or the offset in a cache line are others. A copy that is not held any more is reused; most losses are
/// dropped before the next step.
class Copies {
 public:
  at::Tensor take(Tape const& tape, std::size_t number);

 private:
  static bool is_as_it_was(at::Tensor const& copy, at::Tensor const& from);

  std::vector<at::Tensor> last_;
};

// How a step and its replay are compared on the CPU: by texts, bits, and random numbers.

struct KeptTape;

/// A copy of all that a step may change: the model's memory, and the states of the random generators that it draws
/// from. If it draws from none, no generator is read or restored, so that other threads may draw meanwhile.
class Before {
 public:
  Before(World const& world, KeptTape const& kept);
  void restore() const;
  /// True if both copies are equal in every bit.
  bool same(Before const& other) const;

 private:
  World const& world_;
  std::vector<char> bytes_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_ = {};
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

/// What the trainer does in the middle of a step that runs as it is written, to be repeated in the replay that is
/// compared with it: an update is made once, and the replay continues from the bytes that it left.
class Turns {
 public:
  Turns(World const& world, KeptTape const& kept) : world_(world), kept_(kept) {}

  void keep(auto&& f) {
    found_.emplace_back(world_, kept_);
    f();
    left_.emplace_back(world_, kept_);
  }
  /// In the replay, in place of the trainer's turn.
  void repeat(loop::Turn turn);
  /// True if the replay came to each turn with the bits of the step.
  bool same() const;

 private:
  World const& world_;
  KeptTape const& kept_;
  std::vector<Before> found_, left_;
  std::size_t at_ = 0;
  bool same_ = true;
};

/// Records, replays and compares steps for CapturedSteps. A step is recorded twice, since what a model creates once and
/// keeps exists only from the second time on; both recordings have to be equal.
class Tapes {
 public:
  using Kept = KeptTape;
  static constexpr long longest_gap = 512;      ///< replays
  static constexpr bool records_checks = true;  ///< a step that is compared with a replay is recorded for that

  /// The reason why nothing can be recorded on this device; empty if it can. Only a build without CUDA graphs asks this
  /// for a GPU.
  static std::string missing(at::Device device);
  void open(at::Device, Kernels) {}
  void close() {}

  /// `run()` does the backward pass.
  void backward(at::Tensor const& seed, auto&& run) {
    if (underway_) underway_->seed = seed;
    run();
  }
  /// `f()`: the trainer acts in the middle of a step. That is no part of a recording.
  void in_turn(loop::Turn turn, at::Tensor const& loss, torch::nn::Module const& model, auto&& f) {
    if (!underway_) return f();
    std::vector<at::Tensor> of_model;
    if (turn != loop::Turn::looks_at_loss) {
      of_model = model.parameters();
      for (auto const& parameter : model.parameters())
        if (parameter.grad().defined()) of_model.push_back(parameter.grad());
      for (auto const& buffer : model.buffers()) of_model.push_back(buffer);
    }
    auto& [recorder, seed, pending, turns] = *underway_;
    recorder.take_turn(turn, loss, of_model);
    c10::impl::ExcludeDispatchKeyGuard const unseen(recording_key);
    auto const logged = pending();
    if (turns && updates(turn)) turns->keep(f);
    else f();
    if (pending() != logged) recorder.refuse(hook_logs);
  }

  template <class Result, class Batch, class Step>
  Prepared<Result> prepare(Scene const& scene, Kept& kept, Batch& batch, Step& step, CaptureReport& report) {
    auto taken = record<Result>(scene, batch, step, underway_);
    if (!taken.changed) ++report.recorded;
    return prepared(scene, kept, taken, step.seam.questions(), report);
  }
  /// A step that differed from its replay is the first one of a new recording.
  template <class Result>
  Prepared<Result> start_again(Scene const& scene, Kept& kept, Taken<Result>& taken, loop::Questions const& asked,
                               CaptureReport& report) {
    return prepared(scene, kept, taken, asked, report);
  }

  /// Runs the step as it is written, then a replay from a copy of all that the step may have written. Both must be
  /// equal in every bit. What the step has left is restored.
  template <class Result, class Batch, class Step>
  Compared<Taken<Result>> compare(Scene const& scene, Kept& kept, Batch& batch, Step& step) {
    Before const before(scene.world, kept);
    Turns turns(scene.world, kept);
    Compared<Taken<Result>> compared{record<Result>(scene, batch, step, underway_, &turns)};
    auto const& taken = compared.ran;
    if (taken.changed) {
      compared.wrong =
          "the model has other modules, parameters or buffers, or other switches, than when the step was recorded";
      return compared;
    }
    compared.wrong = taken.refusal;
    if (compared.wrong.empty()) compared.wrong = difference(kept.text, taken.text);
    if (!compared.wrong.empty()) return compared;
    Before const after(scene.world, kept);
    auto const leaving = bytes_of(taken.left.tensors);
    before.restore();
    bool same = false;
    try {
      kept.tape->replay(scene.batch, [&](loop::Turn turn, at::Tensor const&) { turns.repeat(turn); }, false);
      same = turns.same() && Before(scene.world, kept).same(after) && leaving == bytes_of(kept.tape->leaving());
    } catch (std::exception const&) {}  // the step itself has not thrown
    after.restore();
    if (!same) compared.wrong = other_bits;
    return compared;
  }

  /// False: the optimizer's update is no part of it.
  template <class Seam>
  bool replay(Kept& kept, std::vector<at::Tensor> const& batch, Seam& seam) {
    kept.tape->replay(batch, [&](loop::Turn turn, at::Tensor const& loss) {
      if constexpr (Seam::is_manual) seam.act(turn, loss);
    });
    return false;
  }
  /// Returns the result of the last replay.
  template <class Result, class Board>
  Result outcome(Kept& kept, Board& board) {
    return give_away(kept.left, *static_cast<Result const*>(kept.result.get()), board,
                     [&](std::size_t number) { return kept.copies.take(*kept.tape, number); });
  }
  static Before before(World const& world, Kept const& kept) { return {world, kept}; }

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

  Underway* underway_ = nullptr;  ///< set while a step is recorded
};

}  // namespace fulgurite::libtorch::capture

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/tape.ipp>
#endif
