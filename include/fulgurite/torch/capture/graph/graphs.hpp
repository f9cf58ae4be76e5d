#pragma once
// Steps recorded on a GPU, as graphs: what the device was asked to do, launched at once.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/torch/capture/graph/inputs.hpp>
#include <fulgurite/torch/capture/graph/observer.hpp>
#include <fulgurite/torch/capture/graph/snapshot.hpp>
#include <fulgurite/torch/capture/left.hpp>
#include <fulgurite/torch/capture/report.hpp>
#include <fulgurite/torch/capture/step_at_hand.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch::graph {

/// What is kept of one kind of step.
template <class Graph>
struct KeptGraph {
  int prepared = 0;  ///< steps that ran as they are written, on the stream where the graph will be recorded
  Inputs inputs = {};
  capture::Left left = {};
  std::shared_ptr<void> batch = nullptr, result = nullptr;
  std::vector<at::Tensor> seeds = {};              ///< that backward starts from in the graph
  std::vector<c10::VariableVersion> written = {};  ///< counters of what a replay writes, which it moves as the step did
  double spread = 0;                               ///< how far, squared, replays of one step were from each other
  std::unique_ptr<Graph> graph = nullptr;          ///< goes first, and waits for the device
};

/// Records, replays and compares for CapturedSteps. A kind of step runs three times as it is written, on the side
/// stream: the real steps of the fit, so that preparing changes nothing. The fourth is recorded, which executes
/// nothing, and replayed in its place. The code of the model runs once in each step that is not a replay; only where
/// recording fails half-way it runs a second time.
///
/// `Graph`: NoGraph and CudaGraph show what it takes. The optimizer's step is not part of it.
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

  /// Why nothing can be recorded on this device; empty: it can.
  static std::string missing(at::Device device) { return Graph::missing(device); }
  void open(at::Device device) { side_ = std::make_unique<typename Graph::Side>(device); }
  void close() { side_.reset(); }

  /// run() is backward.
  template <class F>
  void backward(at::Tensor const& seed, F&& run) {
    if (recorded_ != nullptr) recorded_->seeds.push_back(seed);
    std::optional<c10::impl::ExcludeDispatchKeyGuard> unseen;
    if (observes_) unseen.emplace(recording_key);
    run();
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
    // The last such step is looked at: the first ones may wait for the device, or keep, what is made once.
    Observer observer(scene.world);
    {
      capture::SetFor<bool> const here(observes_, true);
      made.result.emplace(observer.run(run));
    }
    auto const left = capture::cut_off(*made.result, step.board, scene.world);
    kept.written = observer.written();
    made.changed = scene.changed();
    for (auto const& why :
         {wrong, capture::out_of_reach(step.seam.questions()), observer.wrong(scene.batch, left.tensors), left.refusal})
      if (made.refusal.empty()) made.refusal = why;
    return made;
  }
  /// A step that was found to be another than its replay: the ones after it are prepared anew.
  template <class Result>
  capture::Prepared<Result> begin_anew(capture::Scene const&, Kept&, Ran<Result>& ran, loop::Questions const&,
                                       CaptureReport&) {
    return {.result = std::move(ran.result), .sound = true};
  }

  /// The step as it is written, then a replay from the same state, of which nothing remains.
  template <class Result, class Batch, class Step>
  capture::Compared<Ran<Result>> compare(capture::Scene const& scene, Kept& kept, Batch& batch, Step& step) {
    Snapshot const before(scene.world);
    std::string waited;
    capture::Compared<Ran<Result>> compared;
    auto& ran = compared.ran;
    ran.result.emplace(side_->run(waited, [&] { return step(batch); }));
    auto const left = capture::cut_off(*ran.result, step.board, scene.world);
    ran.changed = scene.changed();
    if (ran.changed || left.logged != kept.left.logged || !left.refusal.empty()) {
      compared.wrong = left.refusal.empty() ? capture::other_bits : left.refusal;
      return compared;
    }
    Snapshot const as_written(scene.world, left.tensors);
    auto const replayed = [&] {
      before.restore();
      launch(kept, scene.batch);
      return Snapshot(scene.world, kept.left.tensors);
    };
    auto const first = replayed();
    if (as_written.same(first)) return compared;
    // Some kernels add in another order now and then (atomics): then replays differ, too, if not each from the next.
    double const far = as_written.distance(first);
    auto const within = [&] { return far <= most_noise * kept.spread; };
    bool right = within();
    for (int more = 0; !right && more != most_replays; ++more) {
      auto const next = replayed();
      kept.spread = std::max(kept.spread, next.distance(first));
      right = as_written.same(next) || within();
    }
    if (!right) compared.wrong = capture::other_bits;
    as_written.restore();
    return compared;
  }

  void replay(Kept& kept, std::vector<at::Tensor> const& batch) {
    launch(kept, batch);
    for (auto& counter : kept.written) counter.bump();
  }
  /// What the last replay gives. What leaves twice, as a loss that is also logged, is copied once.
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
                                return copy;
                              });
  }
  static Snapshot before(capture::World const& world, Kept const&) { return Snapshot(world); }

 private:
  static constexpr int steps_before_recording = 3;
  /// Of squares: a replay may differ eight times as much from the step as from itself.
  static constexpr double most_noise = 64;
  static constexpr int most_replays = 32;  ///< to find out how much it differs from itself

  template <class Result, class Batch, class Step>
  capture::Prepared<Result> record(capture::Scene const& scene, Kept& kept, Batch& batch, Step& step,
                                   CaptureReport& report) {
    capture::Prepared<Result> made;
    auto& wrong = made.refusal;
    auto fixed = std::make_shared<std::remove_const_t<Batch>>(batch);
    kept.inputs = Inputs(*fixed);
    kept.inputs.feed(scene.batch);
    kept.graph = std::make_unique<Graph>(*side_);
    std::optional<Result> result;
    try {
      capture::SetFor<Kept*> const here(recorded_, &kept);
      kept.graph->capture([&] {
        result.emplace(step(*fixed));
        kept.left = capture::cut_off(*result, step.board, scene.world);
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
    kept.batch = std::move(fixed);
    kept.result = std::make_shared<Result>(std::move(*result));
    made.sound = made.ready = true;
    return made;
  }

  static void launch(Kept& kept, std::vector<at::Tensor> const& batch) {
    kept.inputs.feed(batch);
    kept.graph->replay();
  }

  std::unique_ptr<typename Graph::Side> side_;
  Kept* recorded_ = nullptr;  ///< while a graph is recorded
  bool observes_ = false;     ///< while a step is looked at
};

}  // namespace fulgurite::libtorch::graph
