#pragma once
// Steps recorded on a GPU, as graphs: a step's kernels in one launch.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Device.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/capture/graph_step.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/update_kernel.hpp>

namespace fulgurite::libtorch::graph {

/// Records, replays and compares steps for CapturedSteps. A kind of step runs three times as it is written, on the side
/// stream; these are real steps of the fit, so preparation does not change the results. The fourth is recorded, which
/// executes nothing, and replayed. The model's code runs once in each step that is not replayed; it runs twice only if
/// recording fails half-way.
///
/// Unscaling, clipping and the optimizer's update are the last part of the graph, if nothing else stands between the
/// gradients and the update, and if that is one of our kernels. Only replays that count do these. Where a step is
/// compared with its replay, they are turned off in the graph and follow the step as it is written; they contain no
/// code of the program that could be wrong. What such a replay notes of its loss is undone.
///
/// A step of manual optimization becomes several graphs, cut where the step updates: a replay runs one, lets the
/// trainer update, and runs the next. While they are recorded, which executes nothing, the trainer does not act; then
/// all are replayed from the start. So a recording that fails half-way has changed nothing, as in automatic
/// optimization. What a segment hands to a later one is alive while that is recorded, so that no segment between has
/// its memory. Losses are looked at where a segment ends, which is before the update that they could prevent.
///
/// With `kernels::fastest` gradients are overwritten in a graph; otherwise they are cleared and added to.
///
/// Where the loop lets steps be joined, replays that update wait for those after them, and become one graph of several
/// steps: recorded once as many of them wait, and compared with the replays one by one before it is used.
///
/// `Graph`: CudaGraph.
template <class Graph>
class Graphs {
  template <class Result>
  struct Ran {
    std::optional<Result> result = std::nullopt;
    bool changed = false;
  };

 public:
  using Kept = KeptGraph<Graph>;
  static constexpr bool records_checks = false;
  static constexpr long longest_gap = 2048;  ///< replays; a check takes many times as long as one

  /// The reason why nothing can be recorded on this device; empty if it can.
  static std::string missing(at::Device device) { return Graph::missing(device); }
  void open(at::Device device, Kernels kernels) {
    side_ = std::make_unique<typename Graph::Side>(device);
    overwrites_ = kernels == Kernels::fastest;
  }
  void close() {
    side_.reset();
    stale_.clear();
  }

  /// At most so many steps become one replay; 1: each is one of its own.
  void join(long steps) {
    waiting_.join(steps);
    waiting_.finish();
  }
  /// Runs the replays that wait. Called before anything reads what they compute. Returns the number of steps that ran
  /// in a graph of several since the last call.
  long finish() {
    waiting_.finish();
    return waiting_.joined();
  }
  /// Forgets them.
  void drop() { waiting_.drop(); }

  /// `run()` does the backward pass.
  void backward(at::Tensor const& seed, auto&& run) {
    if (recorded_ != nullptr) {
      recorded_->seeds.push_back(seed);
      GradientsApart const apart(*world_, std::exchange(stale_, {}));
      run();
      return apart.add();
    }
    std::optional<c10::impl::ExcludeDispatchKeyGuard> unseen;
    if (observes_) unseen.emplace(recording_key);
    run();
  }

  /// `f()`: the trainer acts in the middle of a step. That is no part of a recording.
  void in_turn(loop::Turn turn, at::Tensor const& loss, torch::nn::Module const&, auto&& f) {
    // It looks at gradients: on a GPU it waits, which keeps the step as written, or does nothing.
    if (turn < loop::Turn::looks_at_loss) return f();
    if (recorded_ != nullptr) return cut(turn, loss);
    if (!underway_) return f();
    side_->unwatched([&] { underway_->turn(turn, loss, f); });
  }

  template <class Result, class Batch, class Step>
  capture::Prepared<Result> prepare(capture::Scene const& scene, Kept& kept, Batch& batch, Step& step,
                                    CaptureReport& report) {
    if (kept.prepared == steps_before_recording) return record<Result>(scene, kept, batch, step, report);
    ++report.eager;
    std::string wrong;
    auto const run = [&] { return side_->run(wrong, [&] { return step(batch); }); };
    capture::Prepared<Result> made{.sound = true};
    if (++kept.prepared < steps_before_recording) {
      made.result.emplace(run());
      capture::cut_off(*made.result, step.board, scene.world);
      made.changed = scene.changed();
      return made;
    }
    // Observes the last of these steps, since earlier ones may do work that is done only once: wait for the device, or
    // cache a tensor.
    Observer observer(scene.world);
    auto const pending = [&] { return capture::pending(step.board); };
    Underway now{pending, &observer, scene.world};
    {
      capture::SetFor<bool> const here(observes_, true);
      capture::SetFor<Underway*> const known(underway_, &now);
      made.result.emplace(observer.run(run));
    }
    auto const left = capture::cut_off(*made.result, step.board, scene.world);
    kept.written = observer.written();
    kept.draws = observer.draws();
    for (auto& [turn, written] : observer.turns) kept.segments.push_back({turn, std::move(written)});
    made.changed = scene.changed();
    for (auto const& why : {wrong, capture::not_replayable(step.seam.questions()),
                            observer.wrong(scene.batch, left.tensors), left.refusal, now.refusal})
      if (made.refusal.empty()) made.refusal = why;
    return made;
  }
  /// Called for a step that differed from its replay: preparation starts again.
  template <class Result>
  capture::Prepared<Result> start_again(capture::Scene const&, Kept&, Ran<Result>& ran, loop::Questions const&,
                                        CaptureReport&) {
    return {.result = std::move(ran.result), .sound = true};
  }

  /// Runs the step as it is written, then a replay from the same state, which is undone.
  template <class Result, class Batch, class Step>
  capture::Compared<Ran<Result>> compare(capture::Scene const& scene, Kept& kept, Batch& batch, Step& step) {
    Snapshot const before = Graphs::before(scene.world, kept);
    std::string waited;
    capture::Compared<Ran<Result>> compared;
    auto& ran = compared.ran;
    auto const pending = [&] { return capture::pending(step.board); };
    Underway now{pending, nullptr, scene.world, kept.draws};
    {
      capture::SetFor<Underway*> const known(underway_, &now);
      ran.result.emplace(side_->run(waited, [&] { return step(batch); }));
    }
    auto const left = capture::cut_off(*ran.result, step.board, scene.world);
    ran.changed = scene.changed();
    compared.wrong = !now.refusal.empty()                             ? now.refusal
                     : !left.refusal.empty()                          ? left.refusal
                     : now.turns != kept.turns                        ? other_turns
                     : left.numbers != kept.left.numbers              ? capture::other_numbers
                     : ran.changed || left.logged != kept.left.logged ? capture::other_bits
                                                                      : "";
    if (!compared.wrong.empty()) return compared;
    now.found.emplace_back(scene.world, left.tensors, kept.draws);
    auto const& as_written = now.found;  // as the step was before each update, and at its end
    NotesUndone const undone(kept.update.get());
    auto const replayed = [&] {
      before.restore();
      std::vector<Snapshot> at;
      launch(kept, scene.batch, [&](Segment<Graph> const&) {
        at.push_back(Graphs::before(scene.world, kept));
        now.left[at.size() - 1].restore();  // an update is made once
      });
      at.emplace_back(scene.world, kept.left.tensors, kept.draws);
      return at;
    };
    auto const first = replayed();
    if (same(as_written, first)) return compared;
    // Kernels with atomics may sum in another order each time, so that replays differ from each other, too.
    double const far = distance(as_written, first);
    auto const within = [&] { return far <= most_noise * kept.spread; };
    bool right = within();
    for (int more = 0; !right && more != most_replays; ++more) {
      auto const next = replayed();
      kept.spread = std::max(kept.spread, distance(next, first));
      right = same(as_written, next) || within();
    }
    if (!right) compared.wrong = capture::other_bits;
    as_written.back().restore();
    return compared;
  }

  /// Returns true if the graph has made the optimizer's update.
  template <class Seam>
  bool replay(Kept& kept, std::vector<at::Tensor> const& batch, Seam& seam) {
    if constexpr (Seam::is_manual) {
      auto const look = [&](std::vector<at::Tensor> const& losses) {
        for (auto const& loss : losses)  // the trainer may keep it, and the next replay overwrites it
          seam.act(loop::Turn::looks_at_loss, loss.is_cpu() ? loss : loss.clone());
      };
      launch(kept, batch, [&](Segment<Graph> const& segment) {
        for (auto counter : segment.written) counter.bump();
        look(segment.losses);
        seam.act(segment.turn, {});
      });
      for (auto& counter : kept.written) counter.bump();
      look(kept.losses);
      return false;
    }
    for (auto& counter : kept.written) counter.bump();
    if constexpr (updates<Seam>())
      if (may_update(kept, seam)) return replay_and_update(kept, batch, seam);
    launch(kept, batch, [](Segment<Graph> const&) {});
    return false;
  }
  /// The same for a replay that waits for those after it. False if it cannot: it has to be run at once.
  bool join(capture::Scene const& scene, Kept& kept, auto& batch, auto& step, CaptureReport& report) {
    using Seam = std::remove_cvref_t<decltype(step.seam)>;
    if constexpr (updates<Seam>()) {
      if (!waiting_.joins()) return false;
      auto& seam = step.seam;
      char const* const why = !step.key.first || !step.key.closes ? "the window has several batches"
                              : !kept.update                      ? "the update is not part of the graph"
                              : kept.update->may_leave_out()  ? "the host waits for each update, which may be left out"
                              : scene.world.device().is_cpu() ? "on the CPU results are read at once"
                                                              : nullptr;
      if (why) capture::steps_stay_single(report, why);
      if (why || !may_update(kept, seam) || !kept.update->is_known() || !step.board.has_room(kept.left.logged.size()))
        return false;
      if (!kept.joined) prepare_joined(kept, batch, report);
      if (kept.joined->refused) return false;
      auto& optimizer = seam.optimizer();
      auto const now = traced(optimizer, optimizer.runs(false), 0);
      if (!kept.update->fits(now, seam.average())) return false;
      waiting_.add(kept, scene.batch, kept.update->numbers(now));
      if (waiting_.full() && !kept.joined->graph) record_joined(scene, kept, batch, step, report);
      if (!kept.joined->refused) capture::steps_stay_single(report, "");  // what was said before is over
      for (auto& counter : kept.written) counter.bump();
      optimizer.runs(true);
      seam.set_updated(kept.update->noted(), UpdateInGraph::Outcome());
      return true;
    } else {
      return false;
    }
  }
  /// Returns the result of the last replay. A tensor that is an output twice, such as a loss that is also logged, is
  /// copied once.
  template <class Result, class Board>
  Result outcome(Kept& kept, Board& board) {
    at::NoGradGuard const no_graph;
    auto const& tensors = kept.left.tensors;
    std::vector<at::Tensor> copies(tensors.size());
    bool const promises = waiting_.promises();
    auto result =
        capture::give_away(kept.left, *static_cast<Result const*>(kept.result.get()), board, [&](std::size_t number) {
          auto const same = [&](at::Tensor const& other) {
            return other.const_data_ptr() == tensors[number].const_data_ptr() &&
                   capture::same_layout(other, tensors[number]);
          };
          auto const first = std::find_if(tensors.begin(), tensors.end(), same);
          auto& copy = copies[static_cast<std::size_t>(first - tensors.begin())];
          if (!copy.defined()) {
            copy = capture::memory_like(*first);
            if (!promises) copy.copy_(*first);
          }
          return at::Tensor(copy.variable_data());  // a handle that is kept without a copy
        });
    if (promises) waiting_.promise(std::move(copies));
    return result;
  }
  static Snapshot before(capture::World const& world, Kept const& kept) { return Snapshot(world, {}, kept.draws); }

 private:
  static constexpr int steps_before_recording = 3;
  /// A ratio of squares: a step may differ from its replay eight times as much as replays do from each other.
  static constexpr double most_noise = 64;
  static constexpr int most_replays = 32;  ///< for measuring how much replays differ from each other

  template <class Result, class Batch, class Step>
  capture::Prepared<Result> record(capture::Scene const& scene, Kept& kept, Batch& batch, Step& step,
                                   CaptureReport& report) {
    capture::Prepared<Result> made;
    auto& wrong = made.refusal;
    auto fixed = std::make_shared<std::remove_const_t<Batch>>(batch);
    kept.inputs = Inputs(*fixed);
    kept.inputs.feed(scene.batch);
    kept.graph = std::make_unique<Graph>(*side_);
    std::string apart = "manual optimization updates between graphs, as it is written";
    if constexpr (!std::remove_cvref_t<decltype(step.seam)>::is_manual) apart = prepare_update(kept, step.seam);
    std::optional<Result> result;
    try {
      looks_ = {};
      capture::SetFor<Kept*> const here(recorded_, &kept);
      capture::SetFor<capture::World const*> const world(world_, &scene.world);
      capture::SetFor<std::vector<Arena::Stale>*> const overwriting(Arena::to_overwrite, stale());
      kept.graph->capture([&] {
        result.emplace(step(*fixed));
        clear_stale();
        kept.left = capture::cut_off(*result, step.board, scene.world);
        if (!kept.segments.empty() && !kept.segments.back().graph) throw std::runtime_error(other_turns);
        kept.losses = looks_.take();
        if (apart.empty()) apart = record_update(kept, *result, step.seam);
      });
    } catch (WrittenMeanwhile const&) {  // the next step of this kind is recorded, with gradients that are cleared
      overwrites_ = false;
      for (auto& segment : kept.segments) segment.losses.clear(), segment.graph.reset();
      kept.turns.clear();
      kept.seeds.clear();
      step.board.discard_step();
      return made;
    } catch (std::exception const& error) {
      wrong = std::string("it cannot be recorded: ") + error.what();
      wrong = wrong.substr(0, wrong.find('\n'));
    }
    step.board.discard_step();
    if (wrong.empty() && kept.inputs.written())
      wrong = "the step writes into its batch, and a graph would write into a copy of it";
    if (wrong.empty()) wrong = kept.left.refusal;
    if (!wrong.empty()) return made;
    made.changed = scene.changed();
    if (made.changed) return made;
    ++report.recorded;
    if (!apart.empty()) capture::update_stays_apart(report, apart);
    kept.batch = std::move(fixed);
    kept.result = std::make_shared<Result>(std::move(*result));
    made.sound = made.ready = true;
    return made;
  }

  /// `act(segment)`: what happens after each segment.
  static void launch(Kept& kept, std::vector<at::Tensor> const& batch, auto&& act) {
    TurnedOff const off(kept.update.get());
    kept.inputs.feed(batch);
    for (auto const& segment : kept.segments) {
      segment.graph->replay();
      act(segment);
    }
    kept.graph->replay();
  }

  // Manual optimization.

  /// Ends a segment of the step that is being recorded.
  void cut(loop::Turn turn, at::Tensor const& loss) {
    auto& kept = *recorded_;
    kept.turns.push_back(turn);
    if (turn == loop::Turn::looks_at_loss) return looks_.add(loss);
    clear_stale();
    auto const next = std::find_if(kept.segments.begin(), kept.segments.end(), [](auto& one) { return !one.graph; });
    if (next == kept.segments.end() || next->turn != turn) throw std::runtime_error(other_turns);
    next->losses = looks_.take();
    next->graph = kept.graph->cut();
  }
  static constexpr char const* other_turns = "the step is not the same each time: it updates in another order";

  // The optimizer's update in the graph.

  /// True if the optimizer's update can be written down. A class derived from ours may have a step of its own.
  template <class Seam>
  static consteval bool updates() {
    if constexpr (!requires { requires !Seam::is_manual; }) {
      return false;
    } else {
      using Optimizer = std::remove_cvref_t<decltype(std::declval<Seam&>().optimizer())>;
      return requires {
        requires std::is_same_v<decltype(class_of(&Optimizer::step)), decltype(class_of(&Optimizer::runs))>;
      };
    }
  }
  template <class Class, class Result, class... Args>
  static std::type_identity<Class> class_of(Result (Class::*)(Args...));

  /// Compiles the kernels, and allocates what must not be in the graph's own memory: there, each replay would overwrite
  /// it. Returns the reason if the graph of this step will have no update.
  template <class Seam>
  static std::string prepare_update(Kept& kept, Seam& seam) {
    kept.update.reset();
    if constexpr (updates<Seam>()) {
      if (auto const* why = seam.update_apart()) return why;
      auto& optimizer = seam.optimizer();
      try {
        auto const runs = optimizer.runs(false);
        for (auto const& run : runs)
          if (!Graph::can_update(optimizer, run)) return no_kernel;
        if (runs.empty()) return no_gradient;
        kept.update = std::make_unique<UpdateInGraph>(runs.size(), optimizer.traced(runs.front()).device);
      } catch (std::exception const& error) { return std::string("its kernel cannot be made: ") + error.what(); }
      return {};
    } else {
      return "the optimizer is none of fulgurite::optim that updates in one pass, or has a step() of its own";
    }
  }

  /// Called at the end of the step that is recorded. Returns the reason if the graph gets no update.
  template <class Result, class Seam>
  static std::string record_update(Kept& kept, Result const& result, Seam& seam) {
    if constexpr (updates<Seam>()) {
      if (!kept.update) return {};  // no update follows this step
      auto update = std::move(kept.update);
      if (std::ranges::find(kept.left.of_model, true) != kept.left.of_model.end())
        return "the step returns or logs a tensor of the model, which the update would change";
      auto& optimizer = seam.optimizer();
      {
        c10::impl::ExcludeDispatchKeyGuard const unseen(recording_key);
        // LibTorch's kernel that adds all gradients at once increments none of their counters.
        for (auto& counter : kept.written) counter.bump();
        std::vector<TracedUpdate> all;
        for (auto const& run : optimizer.runs(false)) {
          if (!Graph::can_update(optimizer, run)) return no_kernel;
          all.push_back(optimizer.traced(run));
          if (run.steps == 0 && !all.back().does(optimizer.traced(run, 1)))
            return "no update was made before it was recorded, and the first one computes otherwise";
        }
        if (all.empty()) return no_gradient;
        if (!update->take(std::move(all))) return "the step before gave gradients to other parameters";
      }
      kept.skips = seam.skips(), kept.notes = seam.notes();
      update->take_average(seam.average());
      add_update(*kept.graph, *update, result, seam);
      if constexpr (Seam::scales) kept.followed = seam.scaler().seeds();
      kept.update = std::move(update);
    }
    return {};
  }

  /// True if a replay may make the update of this step.
  static bool may_update(Kept const& kept, auto const& seam) {
    return kept.update && !seam.rescales() && kept.skips == seam.skips() && kept.notes == seam.notes();
  }
  /// The update of so many steps later, as far as it is known now.
  static std::vector<TracedUpdate> traced(auto& optimizer, auto const& runs, long steps) {
    std::vector<TracedUpdate> all;
    for (auto const& run : runs) all.push_back(optimizer.traced(run, steps));
    return all;
  }

  /// Adds what stands before the update, and the update, to the graph that is being recorded.
  template <class Result, class Seam>
  static void add_update(Graph& graph, UpdateInGraph& update, Result const& result, Seam& seam) {
    auto const on = update.on();
    auto const parameters = seam.optimizer().parameters();
    auto const* const loss = seam.loss_to_note(result);
    if constexpr (Seam::scales) {
      seam.scaler().unscale(parameters, on);
      update.leave_out(seam.scaler().found(), seam.skips(), loss);
    } else if (seam.skips()) {
      update.leave_out(update.found_in(parameters), true, loss);
    }
    if (loss && seam.notes()) update.note(*loss);
    auto const norm = update.clip(parameters, seam.clip(), on);
    if (norm.defined() && seam.notes() && !Seam::scales) update.note(norm);
    graph.update(update);
    if constexpr (Seam::scales) seam.scaler().update(on);
  }

  /// False if the update is not the recorded one with other numbers (parameters have taken different numbers of steps
  /// since, say), or the average another one: they follow the replay as written. Steps count once the update is known
  /// to be made.
  template <class Seam>
  static bool replay_and_update(Kept& kept, std::vector<at::Tensor> const& batch, Seam& seam) {
    auto& optimizer = seam.optimizer();
    auto const runs = optimizer.runs(false);
    auto const after = [&](long steps) { return traced(optimizer, runs, steps); };
    auto const now = after(0);
    if (!kept.update->fits(now, seam.average())) {
      launch(kept, batch, [](Segment<Graph> const&) {});
      return false;
    }
    kept.update->turn_on(now, after);
    for (auto const& loss : seam.earlier_losses()) kept.update->note(loss);
    kept.inputs.feed(batch);
    kept.graph->replay();
    auto const outcome = kept.update->outcome();
    if (outcome.counts())
      for (auto const& run : optimizer.runs(true))
        if (!outcome.ran) optimizer.update(run);
    if constexpr (Seam::scales) seam.scaler().seeds_follow(kept.followed);
    seam.set_updated(kept.update->noted(), outcome);
    return outcome.ran;
  }
  // Several steps as one graph.

  static void refuse_joined(JoinedSteps<Graph>& joined, std::string const& why, CaptureReport& report) {
    joined.graph.reset();
    joined.left.clear();
    joined.refused = true;
    capture::steps_stay_single(report, why.substr(0, why.find('\n')));
  }

  /// Memory for the batches of as many steps as may wait.
  template <class Batch>
  void prepare_joined(Kept& kept, Batch const& batch, CaptureReport& report) {
    kept.joined = std::make_unique<JoinedSteps<Graph>>();
    auto& joined = *kept.joined;
    try {
      while (joined.inputs.size() != waiting_.most()) {
        auto fixed = std::make_shared<std::remove_const_t<Batch>>(batch);
        joined.inputs.emplace_back(*fixed);
        joined.batches.push_back(std::move(fixed));
      }
    } catch (std::exception const& error) { refuse_joined(joined, error.what(), report); }
  }

  /// Records as many steps as wait, and compares them with the replays one by one.
  template <class Batch, class Step>
  void record_joined(capture::Scene const& scene, Kept& kept, Batch const&, Step& step, CaptureReport& report) {
    auto& joined = *kept.joined;
    std::string wrong;
    try {
      joined.graph = std::make_unique<Graph>(*side_);
      capture::SetFor<capture::World const*> const world(world_, &scene.world);
      capture::SetFor<std::vector<Arena::Stale>*> const overwriting(Arena::to_overwrite, stale());
      joined.graph->capture([&] {
        for (auto const& batch : joined.batches) {
          Kept part;  // which receives the seeds
          capture::SetFor<Kept*> const here(recorded_, &part);
          auto result = step(*static_cast<std::remove_const_t<Batch>*>(batch.get()));
          clear_stale();
          joined.left.push_back(capture::cut_off(result, step.board, scene.world));
          step.board.discard_step();
          auto const& left = joined.left.back();
          if (!left.refusal.empty() || left.numbers != kept.left.numbers || left.logged != kept.left.logged)
            throw std::runtime_error(capture::other_numbers);
          for (auto& counter : kept.written) counter.bump();
          add_update(*joined.graph, *kept.update, result, step.seam);
          joined.seeds.insert(joined.seeds.end(), part.seeds.begin(), part.seeds.end());
        }
      });
      if (!are_equal(scene, kept)) wrong = "a graph of several does not give the bits of the steps one by one";
    } catch (std::exception const& error) {
      step.board.discard_step();
      wrong = std::string("several cannot be recorded: ") + error.what();
    }
    if (!wrong.empty()) refuse_joined(joined, wrong, report);
  }

  /// True if the joined steps do what the replays do one by one. Both without updates, so from the same weights.
  bool are_equal(capture::Scene const& scene, Kept& kept) {
    auto& joined = *kept.joined;
    Snapshot const before = Graphs::before(scene.world, kept);
    NotesUndone const undone(kept.update.get());
    auto const one_by_one = [&] {
      before.restore();
      std::vector<at::Tensor> outputs;
      for (auto const& inputs : joined.inputs) {
        launch(kept, inputs.tensors(), [](Segment<Graph> const&) {});
        for (auto const& output : kept.left.tensors) outputs.push_back(output.clone());
      }
      return Snapshot(scene.world, outputs, kept.draws);
    };
    auto const together = [&] {
      before.restore();
      joined.graph->replay();
      std::vector<at::Tensor> outputs;
      for (auto const& left : joined.left) outputs.insert(outputs.end(), left.tensors.begin(), left.tensors.end());
      return Snapshot(scene.world, outputs, kept.draws);
    };
    try {
      auto const first = one_by_one(), all = together();
      bool right = first.same(all);
      double spread = kept.spread;
      for (int more = 0; !right && more != most_replays; ++more) {  // see compare
        auto const next = one_by_one();
        spread = std::max(spread, first.distance(next));
        right = next.same(all) || first.distance(all) <= most_noise * spread;
      }
      before.restore();
      return right;
    } catch (...) {
      before.restore();
      throw;
    }
  }

  /// Where the optimizer lists gradients that backward overwrites in the graph; null if it has to clear them, since
  /// results must have the same bits. None is left after backward, and at the end of a segment.
  std::vector<Arena::Stale>* stale() {
    stale_.clear();
    return overwrites_ ? &stale_ : nullptr;
  }
  void clear_stale() { clear_silently(std::exchange(stale_, {})); }

  static constexpr char const* no_gradient = "no parameter receives a gradient";
  static constexpr char const* no_kernel = "there is no kernel that does it with the bits of LibTorch's operators";

  std::unique_ptr<typename Graph::Side> side_;
  WaitingReplays<Graph> waiting_ = {};
  Kept* recorded_ = nullptr;               ///< set while a graph is recorded
  capture::World const* world_ = nullptr;  ///< likewise
  Looks looks_ = {};                       ///< of the graph that is recorded
  Underway* underway_ = nullptr;           ///< set while a step is observed or compared
  bool observes_ = false;                  ///< true while a step is observed
  bool overwrites_ = false;                ///< gradients may be overwritten in a graph instead of cleared and added to
  std::vector<Arena::Stale> stale_ = {};   ///< of the step that is recorded: gradients that are still to be overwritten
};

}  // namespace fulgurite::libtorch::graph
