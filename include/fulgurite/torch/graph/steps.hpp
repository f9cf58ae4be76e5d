#pragma once
// Steps recorded as graphs: prepared, recorded, compared with the step as it is written, and replayed.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/anomaly_mode.h>

#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/torch/capture/pace.hpp>
#include <fulgurite/torch/capture/report.hpp>
#include <fulgurite/torch/graph/inputs.hpp>
#include <fulgurite/torch/graph/left.hpp>
#include <fulgurite/torch/graph/observer.hpp>
#include <fulgurite/torch/graph/snapshot.hpp>

namespace fulgurite::libtorch::graph {

/// The gradients of one model's steps. A kind of step (place in the accumulation window, layout of the batch) runs three times as it is
/// written, on the side stream: the real steps of the run, so that preparing changes nothing. The fourth is recorded, which executes nothing,
/// and replayed in its place. The next three, and later one now and then, are replayed and also run as they are written, from the same state:
/// the same bits, or the step stays eager. The code of the model runs once in each step that is not a replay; only where recording fails
/// half-way it runs a second time.
///
/// `Graph`: NoGraph and CudaGraph show what it takes. The optimizer's step is not part of it.
template <class Graph>
class GraphSteps {
 public:
  explicit GraphSteps(std::shared_ptr<CaptureReport> report = std::make_shared<CaptureReport>()) : report_(std::move(report)) {}
  /// A copy has no graphs: they belong to one model in one fit.
  GraphSteps(GraphSteps const& other) : report_(other.report_) {}
  GraphSteps(GraphSteps&&) noexcept = default;
  GraphSteps& operator=(GraphSteps const&) = delete;

  std::shared_ptr<CaptureReport const> report() const { return report_; }

  template <class Model>
  void setup(Model& model, at::Device device) {
    teardown();
    device_ = device;
    off_ = false;
    forgotten_ = 0;
    if constexpr (std::derived_from<Model, torch::nn::Module>) model_ = &model;
    else stay_eager("the model is no torch::nn::Module, so its tensors are not known");
    if (auto const why = Graph::missing(device); !why.empty()) stay_eager(why);
    else if (!capture::available()) stay_eager("another copy of this library in the process has taken LibTorch's hook");
    if (!off_) side_ = std::make_unique<typename Graph::Side>(device);
  }
  void teardown() {
    forget();
    side_.reset();
    model_ = nullptr;
    recording_ = nullptr;
    observing_ = false;
    off_ = true;
  }

  /// run() is backward, from `seed`, which is made elsewhere, and kept right by its maker: it lives as long as the graph.
  template <class F>
  void backward(at::Tensor const& seed, F&& run) {
    if (recording_ != nullptr) recording_->held.push_back(seed);
    std::optional<c10::impl::ExcludeDispatchKeyGuard> unseen;
    if (observing_) unseen.emplace(capture::seam);
    run();
  }

  /// body(batch): the step as it is written.
  template <class Batch, class Board, class Body>
  auto gradients(StepKey key, Batch& batch, Board& board, Body& body) {
    using Result = std::remove_cvref_t<decltype(body(batch))>;
    if constexpr (!capture::only_tensors<Batch> || !std::is_copy_constructible_v<Batch>) {
      if (!off_) stay_eager("the batch holds more than tensors, so a graph would not know what the step takes from it: put numbers into tensors");
    } else if constexpr (!capture::only_tensors<Result> || !std::is_copy_constructible_v<Result>) {
      if (!off_) stay_eager("training_step returns more than tensors, and what is no tensor would never change");
    } else if (!off_ && !torch::autograd::AnomalyMode::is_enabled()) {
      if (world_ && !world_->unchanged()) forget_changed();
      if (!off_) {
        if (!world_) world_.emplace(*model_, device_);
        auto& plan = plan_of(key, batch);
        switch (plan.stage) {
          case Stage::prepare: return prepare<Result>(plan, batch, board, body);
          case Stage::record: return record<Result>(plan, batch, board, body);
          case Stage::check: return check<Result>(plan, batch, board, body);
          case Stage::replay: return plan.pace.check_is_due() ? check<Result>(plan, batch, board, body) : replay<Result>(plan, batch, board);
          case Stage::eager: break;
        }
      }
    }
    ++report_->eager;
    return body(batch);
  }

 private:
  enum class Stage { prepare, record, check, replay, eager };
  static constexpr int steps_before_recording = 3;
  static constexpr int checks_before_trust = 3;
  static constexpr std::size_t most_plans = 64;
  static constexpr int most_forgotten = 32;
  static constexpr double most_noise = 64;  ///< of squares: a replay may differ eight times as much as it does from itself

  struct Plan {
    StepKey key{};
    std::vector<std::int64_t> layout = {};
    Stage stage = Stage::prepare;
    int prepared = 0, checks = 0;
    capture::Pace pace = {};
    long replayed = 0;
    Inputs inputs = {};
    Left left = {};
    std::shared_ptr<void> batch = nullptr, result = nullptr;
    std::vector<at::Tensor> held = {};
    std::vector<c10::VariableVersion> written = {};
    std::unique_ptr<Graph> graph = nullptr;  ///< goes first, and waits for the device
  };

  template <class Batch>
  Plan& plan_of(StepKey key, Batch const& batch) {
    capture::layout_of(batch, layout_, [](at::Tensor const&) {});
    for (auto& plan : plans_)
      if (plan->key == key && plan->layout == layout_) return *plan;
    if (plans_.size() == most_plans) {
      warn("there are more than 64 kinds and shapes of steps");
      crowd_.stage = Stage::eager;
      return crowd_;
    }
    auto& plan = *plans_.emplace_back(std::make_unique<Plan>());
    plan.key = key;
    plan.layout = layout_;
    if (!world_->refusal().empty()) give_up(plan, world_->refusal());
    for (auto const& tensor : tensors_of(batch))
      if (!capture::is_plain(tensor, device_) || !tensor.is_non_overlapping_and_dense() || tensor.requires_grad())
        give_up(plan, "the batch has a tensor that is not a dense real one of the model's device, or that needs a gradient");
    return plan;
  }

  template <class Batch>
  static std::vector<at::Tensor> tensors_of(Batch const& batch) {
    std::vector<at::Tensor> all;
    capture::each_leaf(
        batch,
        [&](at::Tensor const& tensor) {
          if (tensor.defined()) all.push_back(tensor);
        },
        [](std::int64_t) {});
    return all;
  }

  /// As it is written, on the side stream, where the graph will be recorded. The last such step is looked at: the first ones may wait for, or
  /// keep, what is made once.
  template <class Result, class Batch, class Board, class Body>
  Result prepare(Plan& plan, Batch& batch, Board& board, Body& body) {
    ++report_->eager;
    std::string wrong;
    auto const run = [&] { return side_->run(wrong, [&] { return body(batch); }); };
    if (++plan.prepared < steps_before_recording) {
      auto result = run();
      leaving(result, board);
      return result;
    }
    Observer observer(*world_, device_);
    observing_ = true;
    auto result = observer.run(run);
    observing_ = false;
    auto const left = leaving(result, board);
    plan.written = observer.written();
    if (auto const seen = observer.wrong(tensors_of(batch), left.tensors); wrong.empty()) wrong = seen;
    plan.stage = Stage::record;
    if (!wrong.empty()) give_up(plan, wrong);
    return result;
  }

  template <class Result, class Batch, class Board, class Body>
  Result record(Plan& plan, Batch& batch, Board& board, Body& body) {
    auto fixed = std::make_shared<Batch>(batch);
    plan.inputs = Inputs(*fixed);
    plan.inputs.feed(batch);
    plan.graph = std::make_unique<Graph>(*side_);
    std::optional<Result> result;
    std::string wrong;
    recording_ = &plan;
    try {
      plan.graph->capture([&] {
        result.emplace(body(*fixed));
        plan.left = leaving(*result, board);
      });
    } catch (std::exception const& error) {
      wrong = std::string("it cannot be recorded: ") + error.what();
      wrong = wrong.substr(0, wrong.find('\n'));
    }
    recording_ = nullptr;
    board.discard_step();
    if (wrong.empty() && plan.inputs.written()) wrong = "the step writes into its batch, and a graph would write into a copy of it";
    for (auto const& tensor : plan.left.tensors)
      if (wrong.empty() && (!tensor.defined() || tensor.device() != device_)) wrong = "a tensor that it returns or logs has no value, or is not on the device";
    bool const changed = wrong.empty() && !world_->unchanged();
    if (changed) forget_changed();
    if (!wrong.empty()) give_up(plan, wrong);
    if (changed || !wrong.empty()) {  // nothing was executed: the step is still to do
      ++report_->eager;
      return body(batch);
    }
    ++report_->recorded;
    plan.batch = std::move(fixed);
    plan.result = std::make_shared<Result>(*result);
    plan.stage = Stage::check;
    return replay<Result>(plan, batch, board);
  }

  template <class Result, class Batch, class Board>
  Result replay(Plan& plan, Batch const& batch, Board& board) {
    launch(plan, batch);
    for (auto& counter : plan.written) counter.bump();
    if (plan.stage == Stage::replay) ++plan.replayed;
    ++report_->replayed;
    return copied(plan.left, *static_cast<Result const*>(plan.result.get()), board);
  }

  template <class Batch>
  static void launch(Plan& plan, Batch const& batch) {
    plan.inputs.feed(batch);
    plan.graph->replay();
  }

  /// The step as it is written, then a replay from the same state, of which nothing remains.
  template <class Result, class Batch, class Board, class Body>
  Result check(Plan& plan, Batch& batch, Board& board, Body& body) {
    Snapshot const before(*world_, device_);
    std::string waited;
    auto result = side_->run(waited, [&] { return body(batch); });
    auto const left = leaving(result, board);
    if (!world_->unchanged()) {
      forget_changed();
      return result;
    }
    ++report_->checked;
    Snapshot const as_written(*world_, device_, left.tensors);
    auto const replayed = [&] {
      before.restore();
      launch(plan, batch);
      return Snapshot(*world_, device_, plan.left.tensors);
    };
    auto const first = replayed();
    bool good = left.logged == plan.left.logged && as_written.same(first);
    if (!good) {
      // Some kernels add in another order each time (atomics): then two replays differ too.
      auto const second = replayed();
      good = left.logged == plan.left.logged && !second.same(first) && as_written.distance(first) <= most_noise * second.distance(first);
      as_written.restore();
    }
    if (!good) {
      give_up(plan, "a replay does not give the same bits as the step: it uses something that no operator shows, as a number of the host that changes");
    } else if (plan.stage == Stage::replay) {
      plan.pace.rarer_checks();
      plan.pace.next_check(noise_);
    } else if (++plan.checks == checks_before_trust) {
      plan.stage = Stage::replay;
      plan.pace.next_check(noise_);
    }
    return result;
  }

  void give_up(Plan& plan, std::string reason) {
    plan.stage = Stage::eager;
    plan.graph.reset();
    plan.left = {};
    plan.batch = plan.result = nullptr;
    if (plan.replayed != 0) reason += ". It was seen in a check: some of the " + std::to_string(plan.replayed) + " steps replayed before may be wrong";
    warn(reason);
  }
  /// No step of this fit is recorded.
  void stay_eager(std::string const& reason) {
    off_ = true;
    warn(reason);
  }
  void warn(std::string const& reason) { capture::stays_as_written(*report_, reason); }

  void forget() {
    plans_.clear();
    world_.reset();
  }
  /// The model is not what it was when its steps were recorded: an unfrozen layer, a switch to eval(), gradients made anew.
  void forget_changed() {
    forget();
    if (++forgotten_ > most_forgotten) stay_eager("parameters, gradients, buffers or switches of the model are replaced again and again");
  }

  torch::nn::Module* model_ = nullptr;
  at::Device device_ = at::kCPU;
  bool off_ = true;  ///< until setup
  int forgotten_ = 0;
  std::uint64_t noise_ = 88172645463325252U;
  std::unique_ptr<typename Graph::Side> side_;
  std::optional<capture::World> world_;
  std::vector<std::unique_ptr<Plan>> plans_;
  Plan crowd_;  ///< of all that came too late
  Plan* recording_ = nullptr;
  bool observing_ = false;
  std::vector<std::int64_t> layout_;
  std::shared_ptr<CaptureReport> report_;
};

}  // namespace fulgurite::libtorch::graph
