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

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/torch/capture/graph_step.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/optim/update_kernel.hpp>

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#endif

namespace fulgurite::libtorch::graph {

/// A part of a step of manual optimization: what is between two updates.
template <class Graph>
struct Segment {
  loop::Turn turn;                                 ///< the update after it
  std::vector<c10::VariableVersion> written = {};  ///< counters that a replay increments before that
  std::vector<at::Tensor> losses = {};             ///< those that the trainer looks at, once the segment has run
  std::unique_ptr<Graph> graph = nullptr;
};

/// What is kept about one kind of step.
template <class Graph>
struct KeptGraph {
  int prepared = 0;  ///< steps that ran as they are written, on the stream where the graph will be recorded
  Inputs inputs = {};
  capture::Left left = {};
  std::shared_ptr<void> batch = nullptr, result = nullptr;
  std::vector<at::Tensor> seeds = {};               ///< the tensors from which backward starts in the graph
  std::size_t followed = 0;                         ///< the number of the scaler's seeds that follow in the graph
  std::vector<c10::VariableVersion> written = {};   ///< counters that a replay increments as the step did
  double spread = 0;                                ///< the squared distance between replays of one step
  std::unique_ptr<UpdateInGraph> update = nullptr;  ///< null: the optimizer's update is not in the graph
  bool skips = false, notes = false;                ///< what the update asks of losses and gradients
  std::vector<Segment<Graph>> segments = {};        ///< what is before `graph`: none in automatic optimization
  std::vector<loop::Turn> turns = {};               ///< the trainer's in the recorded step
  std::vector<at::Tensor> losses = {};              ///< those of `graph`, as in a segment
  std::unique_ptr<Graph> graph = nullptr;           ///< destroyed first; waits for the device
};

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
/// `Graph`: NoGraph or CudaGraph.
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
  void open(at::Device device) { side_ = std::make_unique<typename Graph::Side>(device); }
  void close() { side_.reset(); }

  /// `run()` does the backward pass.
  template <class F>
  void backward(at::Tensor const& seed, F&& run) {
    if (recorded_ != nullptr) {
      recorded_->seeds.push_back(seed);
      GradientsApart const apart(*world_);
      run();
      return apart.add();
    }
    std::optional<c10::impl::ExcludeDispatchKeyGuard> unseen;
    if (observes_) unseen.emplace(recording_key);
    run();
  }

  /// `f()`: the trainer acts in the middle of a step. That is no part of a recording.
  template <class F>
  void in_turn(loop::Turn turn, at::Tensor const& loss, torch::nn::Module const&, F&& f) {
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
    Snapshot const before(scene.world);
    std::string waited;
    capture::Compared<Ran<Result>> compared;
    auto& ran = compared.ran;
    auto const pending = [&] { return capture::pending(step.board); };
    Underway now{pending, nullptr, scene.world};
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
    now.found.emplace_back(scene.world, left.tensors);
    auto const& as_written = now.found;  // as the step was before each update, and at its end
    NotesUndone const undone(kept.update.get());
    auto const replayed = [&] {
      before.restore();
      std::vector<Snapshot> at;
      launch(kept, scene.batch, [&](Segment<Graph> const&) {
        at.emplace_back(scene.world);
        now.left[at.size() - 1].restore();  // an update is made once
      });
      at.emplace_back(scene.world, kept.left.tensors);
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
      if (kept.update && !seam.rescales() && kept.skips == seam.skips() && kept.notes == seam.notes())
        return replay_and_update(kept, batch, seam);
    launch(kept, batch, [](Segment<Graph> const&) {});
    return false;
  }
  /// Returns the result of the last replay. A tensor that is an output twice, such as a loss that is also logged, is
  /// copied once.
  template <class Result, class Board>
  Result outcome(Kept& kept, Board& board) {
    at::NoGradGuard const no_graph;
    auto const& tensors = kept.left.tensors;
    std::vector<at::Tensor> copies(tensors.size());
    return capture::give_away(kept.left, *static_cast<Result const*>(kept.result.get()), board,
                              [&](std::size_t number) {
                                auto const same = [&](at::Tensor const& other) {
                                  return other.const_data_ptr() == tensors[number].const_data_ptr() &&
                                         capture::same_layout(other, tensors[number]);
                                };
                                auto const first = std::find_if(tensors.begin(), tensors.end(), same);
                                auto& copy = copies[static_cast<std::size_t>(first - tensors.begin())];
                                if (!copy.defined()) copy = first->clone();
                                return at::Tensor(copy.variable_data());  // a handle that is kept without a copy
                              });
  }
  static Snapshot before(capture::World const& world, Kept const&) { return Snapshot(world); }

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
      kept.graph->capture([&] {
        result.emplace(step(*fixed));
        kept.left = capture::cut_off(*result, step.board, scene.world);
        if (!kept.segments.empty() && !kept.segments.back().graph) throw std::runtime_error(other_turns);
        kept.losses = looks_.take();
        if (apart.empty()) apart = record_update(kept, *result, step.seam);
      });
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
  template <class F>
  static void launch(Kept& kept, std::vector<at::Tensor> const& batch, F&& act) {
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
      auto const on = update->on();
      auto const parameters = optimizer.parameters();
      auto const* const loss = seam.loss_to_note(result);
      kept.skips = seam.skips(), kept.notes = seam.notes();
      if constexpr (Seam::scales) {
        seam.scaler().unscale(parameters, on);
        update->leave_out(seam.scaler().found(), kept.skips, loss);
      } else if (seam.skips()) {
        update->leave_out(update->found_in(parameters), true, loss);
      }
      if (loss && seam.notes()) update->note(*loss);
      auto const norm = update->clip(parameters, seam.clip(), on);
      if (norm.defined() && seam.notes() && !Seam::scales) update->note(norm);
      update->take_average(seam.average());
      kept.graph->update(*update);
      if constexpr (Seam::scales) {
        seam.scaler().update(on);
        kept.followed = seam.scaler().seeds();
      }
      kept.update = std::move(update);
    }
    return {};
  }

  /// False if the update is not the recorded one with other numbers (parameters have taken different numbers of steps
  /// since, say), or the average another one: they follow the replay as written. Steps count once the update is known
  /// to be made.
  template <class Seam>
  static bool replay_and_update(Kept& kept, std::vector<at::Tensor> const& batch, Seam& seam) {
    auto& optimizer = seam.optimizer();
    auto const runs = optimizer.runs(false);
    auto const after = [&](long steps) {
      std::vector<TracedUpdate> all;
      for (auto const& run : runs) all.push_back(optimizer.traced(run, steps));
      return all;
    };
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
  static constexpr char const* no_gradient = "no parameter receives a gradient";
  static constexpr char const* no_kernel = "there is no kernel that does it with the bits of LibTorch's operators";

  std::unique_ptr<typename Graph::Side> side_;
  Kept* recorded_ = nullptr;               ///< set while a graph is recorded
  capture::World const* world_ = nullptr;  ///< likewise
  Looks looks_ = {};                       ///< of the graph that is recorded
  Underway* underway_ = nullptr;           ///< set while a step is observed or compared
  bool observes_ = false;                  ///< true while a step is observed
};

// A CUDA graph of one step, and the stream on which steps are prepared for it.

// The build defines this macro if LibTorch's CUDA libraries are linked and the toolkit's headers compile.

/// Replaces CudaGraph in builds without CUDA, and gives the reason why nothing can be recorded.
class NoGraph {
 public:
  static std::string missing(at::Device) {
    return "this program was built without CUDA or without the headers of its toolkit";
  }
  struct Side {
    explicit Side(at::Device) {}
    template <class F>
    auto run(std::string&, F&& f) {
      return f();
    }
    template <class F>
    void unwatched(F&& f) {
      f();
    }
  };
  explicit NoGraph(Side&) {}
  template <class F>
  void capture(F&&) {}
  std::unique_ptr<NoGraph> cut() { return nullptr; }
  void replay() {}
  template <class Optimizer, class Run>
  static bool can_update(Optimizer&, Run const&) {
    return false;
  }
  void update(UpdateInGraph const&) {}
};

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
/// Notices when the host waits for the device, by LibTorch's own warning about that. While this object lives, such a
/// warning is noted and not printed.
class Waits : public c10::WarningHandler, Pinned {
 public:
  Waits()
      : outer_(c10::WarningUtils::get_warning_handler()),
        guard_(this),
        mode_(c10::cuda::warning_state().get_sync_debug_mode()) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  ~Waits() override { c10::cuda::warning_state().set_sync_debug_mode(mode_); }

  void process(c10::Warning const& warning) override {
    if (warning.msg().find("synchronizing CUDA operation") != std::string::npos) seen = true;
    else outer_->process(warning);
  }
  bool seen = false;

 private:
  c10::WarningHandler* outer_;
  c10::WarningUtils::WarningHandlerGuard guard_;
  c10::cuda::SyncDebugMode mode_;
};

class CudaGraph : Pinned {
 public:
  static std::string missing(at::Device device) { return device.is_cuda() ? "" : "the model is not on a GPU"; }

  /// What the graphs of one model share: the stream on which they are recorded, and a memory pool. They can share the
  /// pool since only one of them runs at a time, and a graph's results are not read after the next one has begun.
  struct Side {
    explicit Side(at::Device where) : device(where), stream(stream_of(where)) {}

    /// Runs f() on this stream: after the current stream's work so far, and before its later work. `waited` receives
    /// the reason why f cannot be part of a graph, if one was found.
    template <class F>
    auto run(std::string& waited, F&& f) {
      Waits waits;
      capture::SetFor<Waits*> const here(waits_, &waits);
      auto result = [&] {
        Turn const turn(*this);
        return f();
      }();
      if (waits.seen)
        waited = "the host waits for the device in it (an .item(), a tensor copied to the CPU, a size that depends on "
                 "values)";
      return result;
    }

    /// Runs f() in the middle of it, where the host may wait.
    template <class F>
    void unwatched(F&& f) {
      bool const seen = waits_ && waits_->seen;
      f();
      if (waits_) waits_->seen = seen;
    }

    at::Device device;
    c10::Stream stream;
    c10::MempoolId_t pool{0, 0};
    int graphs = 0;  ///< number of graphs that use the pool

   private:
    Waits* waits_ = nullptr;  ///< of the run in progress

    /// One stream for each thread and device, since cuBLAS keeps about 60 MB for each stream that it was ever used on.
    static c10::Stream stream_of(at::Device where) {
      thread_local std::vector<c10::Stream> made;
      for (auto const& one : made)
        if (one.device() == where) return one;
      return made.emplace_back(c10::cuda::getStreamFromPool(false, where.index()).unwrap());
    }
  };

  explicit CudaGraph(Side& side) : side_(side) {}
  /// Waits for the device, since the graph's memory may be reused after this.
  ~CudaGraph() {
    try {
      wait();
    } catch (std::exception const&) {  // a failed device reports its error again in the next operation
    }
    if (graph_) --side_.graphs;
  }

  /// Records the work that f gives to the device, without executing it. Throws what f throws, or what LibTorch throws
  /// for something that cannot be recorded. Only this thread is restricted meanwhile: other threads, such as those that
  /// load batches, may allocate memory.
  template <class F>
  void capture(F&& f) {
    wait();
    c10::cuda::CUDACachingAllocator::emptyCache();  // a graph being recorded cannot use cached memory
    c10::StreamGuard const guard(side_.stream);
    if (side_.graphs == 0) side_.pool = at::cuda::graph_pool_handle();  // LibTorch refuses a pool without users
    try {
      begin();
      f();
      end();
    } catch (...) {
      abandon();
      throw;
    }
  }
  /// Called within `capture`: returns what was recorded so far as a graph of its own, and records on.
  std::unique_ptr<CudaGraph> cut() {
    auto first = std::make_unique<CudaGraph>(side_);
    end();
    first->graph_ = std::move(graph_);
    begin();
    at::zeros({1}, at::TensorOptions(side_.device));  // LibTorch warns of an empty graph
    return first;
  }

  void replay() { graph_->replay(); }

  /// True if the kernel for this run of the optimizer's update is known, or can be made now.
  template <class Optimizer, class Run>
  static bool can_update(Optimizer& optimizer, Run const& run) {
    return optimizer.fits_graph(run);
  }
  /// Adds the update to the graph that is being recorded.
  void update(UpdateInGraph const& update) { update.launch(); }

 private:
  /// While this object lives, the side stream is the current one and waits for the outer stream's work; at the end the
  /// outer stream waits for the side stream.
  class Turn : Pinned {
   public:
    explicit Turn(Side& side)
        : side_(side), outer_(c10::cuda::getCurrentCUDAStream(side.device.index()).unwrap()), guard_(side.stream) {
      follow(outer_, side_.stream);
    }
    ~Turn() {
      try {
        follow(side_.stream, outer_);
      } catch (std::exception const&) {}
    }

   private:
    static void follow(c10::Stream const& first, c10::Stream const& second) {
      c10::Event done(c10::DeviceType::CUDA);
      done.record(first);
      done.block(second);
    }
    Side& side_;
    c10::Stream outer_;
    c10::StreamGuard guard_;
  };

  void begin() {
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    graph_->capture_begin(side_.pool,
                          cudaStreamCaptureModeThreadLocal);  // this also registers the default generator
  }
  void end() {
    graph_->capture_end();
    ++side_.graphs;
  }

  void wait() const { c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeDevice(side_.device.index()); }

  /// After a failed recording, LibTorch 2.11 leaves the allocators in recording mode, and the generator in a state in
  /// which it refuses to draw. This stops the allocators; the generator recovers at the next recording that succeeds.
  void abandon() noexcept {
    auto const quietly = [](auto&& f) {
      try {
        f();
      } catch (std::exception const&) {  // it had been stopped already
      }
    };
    quietly([&] { graph_->capture_end(); });
    quietly([&] {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(side_.device.index(), side_.pool);
      c10::cuda::CUDACachingAllocator::releasePool(side_.device.index(), side_.pool);
    });
    quietly([&] {
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(side_.pool);
      at::getHostAllocator(at::kCUDA)->release_pool(side_.pool);
    });
    graph_.reset();
    quietly([&] {
      at::cuda::CUDAGraph good;
      good.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      at::zeros({1}, at::TensorOptions(side_.device));
      good.capture_end();
    });
  }

  Side& side_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

/// The type with which `Captured{SingleDevice{cuda}}` records in this build.
using DeviceGraph = CudaGraph;
#else
using DeviceGraph = NoGraph;
#endif

}  // namespace fulgurite::libtorch::graph
