#pragma once
// Captured{strategy}: a training step is recorded once and replayed from then on, with the same bits.

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/anomaly_mode.h>

#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/policy/captured.hpp>
#include <fulgurite/torch/capture/compare.hpp>
#include <fulgurite/torch/capture/leaves.hpp>
#include <fulgurite/torch/capture/plan.hpp>
#include <fulgurite/torch/capture/report.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/graph/captured.hpp>
#include <fulgurite/torch/single_device.hpp>

namespace fulgurite {

/// The first two steps of a kind (place in the accumulation window, shape of the batch) are recorded and compared, the next three are replayed and also run
/// as they are written, bits compared; from then on they are replayed, with a check now and then. training_step does not run in a replay: only what it
/// computes with tensors happens, and what it logs as tensors is logged. A step that cannot be replayed stays as it is, and a warning says why.
template <class Device>
class Captured<SingleDevice<Device>> : public SingleDevice<Device> {
  using Base = SingleDevice<Device>;

 public:
  static constexpr bool captures = true;

  explicit Captured(Base strategy) : Base(std::move(strategy)), report_(std::make_shared<CaptureReport>()) {}
  /// A copy has no tapes: they belong to one model in one fit.
  Captured(Captured const& other) : Base(other), report_(other.report_) {}
  Captured(Captured&&) noexcept = default;
  Captured& operator=(Captured const&) = delete;

  std::shared_ptr<CaptureReport const> report() const { return report_; }
  /// The same in lines of text, which describe(trainer) prints.
  std::vector<std::string> account() const { return libtorch::capture::account(*report_); }

  template <class Model, class Precision>
  void setup(Model& model, Precision const& precision) {
    forget();
    forgotten_ = 0;
    off_ = false;
    Base::setup(model, precision);
    if constexpr (std::derived_from<Model, torch::nn::Module>) model_ = &model;
    else stay_eager("the model is no torch::nn::Module, so its tensors are not known");
    if (this->is_on_gpu()) graphs_.setup(model, this->device());
    else if (!libtorch::capture::available()) stay_eager("another copy of this library in the process has taken LibTorch's hook");
  }
  template <class Model>
  void teardown(Model& model) {
    graphs_.teardown();
    forget();
    model_ = nullptr;
    Base::teardown(model);
  }

  void backward(at::Tensor const& loss, at::Tensor const& seed) {
    seed_ = seed;
    graphs_.backward(seed, [&] { Base::backward(loss, seed); });
  }

  template <class Batch, class Board, class Body>
  auto gradients(StepKey key, Batch& batch, Board& board, Body&& body) {
    using Result = std::remove_cvref_t<decltype(body(batch))>;
    if constexpr (Base::on_gpu != Known::no) {
      auto on_gpu = [&](Batch& taken) { return Base::gradients(key, taken, board, body); };
      if (this->is_on_gpu()) return graphs_.gradients(key, batch, board, on_gpu);
    }
    auto const as_written = [&] { return Base::gradients(key, batch, board, body); };
    if (off_ || torch::autograd::AnomalyMode::is_enabled()) {
      ++report_->eager;
      return as_written();
    }
    if constexpr (!libtorch::capture::only_tensors<Batch>) {
      stay_eager("the batch holds more than tensors, so a tape would not know what the step takes from it: put numbers into tensors");
      ++report_->eager;
      return as_written();
    } else if constexpr (!libtorch::capture::only_tensors<Result> || !std::is_copy_constructible_v<Result>) {
      stay_eager("training_step returns more than tensors, and what is no tensor would never change");
      ++report_->eager;
      return as_written();
    } else {
      Leaves const leaves(*this, batch);
      if (world_ && !world_->unchanged()) forget_changed();
      if (off_) {
        ++report_->eager;
        return as_written();
      }
      auto& plan = plan_of(key);
      switch (plan.stage) {
        case Stage::eager: ++report_->eager; return as_written();
        case Stage::replay:
          if (!plan.pace.check_is_due()) return replay<Result>(plan, board);
          [[fallthrough]];
        case Stage::check: return check<Result>(plan, board, as_written);
        case Stage::first:
        case Stage::second: break;
      }
      auto taken = record<Result>(board, as_written);
      if (!plans_.empty()) settle<Result>(plan, taken);
      return std::move(*taken.result);
    }
  }

 private:
  using Step = libtorch::capture::Listing;
  using Plan = libtorch::capture::Plan;
  using Stage = libtorch::capture::Stage;
  using Logged = libtorch::capture::Logged;
  static constexpr int most_failures = 3;
  static constexpr int checks_before_trust = 3;
  static constexpr std::size_t most_plans = 64;
  static constexpr int most_forgotten = 32;
  static constexpr char const* other_model =
      "the model has other modules, parameters or buffers than it had when its steps were recorded (they are recorded anew): "
      "some of the steps replayed before may be wrong";

  template <class Result>
  struct Taken {
    std::optional<Result> result = std::nullopt;
    std::vector<libtorch::capture::Call> calls = {};
    std::unique_ptr<Step> step = nullptr;
    std::vector<at::Tensor> leaving = {};
    std::vector<Logged> logged = {};
    std::vector<std::string> text = {};
    std::string refusal = {};
  };

  /// The batch's tensors while one step runs: no longer, since loaders reuse memory that nobody holds.
  class Leaves {
   public:
    template <class Batch>
    Leaves(Captured& owner, Batch const& batch) : owner_(owner) {
      libtorch::capture::shape_of(batch, owner.shape_);
      libtorch::capture::each_leaf(batch, [&](at::Tensor const& tensor) { owner.leaves_.push_back(tensor); }, [](std::int64_t) {});
    }
    ~Leaves() {
      owner_.leaves_.clear();
      owner_.seed_.reset();
    }
    Leaves(Leaves const&) = delete;
    Leaves& operator=(Leaves const&) = delete;

   private:
    Captured& owner_;
  };

  Plan& plan_of(StepKey key) {
    for (auto& plan : plans_)
      if (plan->key == key && plan->shape == shape_) return *plan;
    if (plans_.size() == most_plans) {
      warn("there are more than 64 kinds and shapes of steps");
      crowd_.stage = Stage::eager;
      return crowd_;
    }
    auto& plan = *plans_.emplace_back(std::make_unique<Plan>());
    plan.key = key;
    plan.shape = shape_;
    for (auto const& tensor : leaves_)
      if (tensor.defined() && (!libtorch::capture::is_plain(tensor) || !tensor.is_non_overlapping_and_dense() || tensor.requires_grad()))
        give_up(plan, "the batch has a tensor that is not a dense real one of the CPU, or that needs a gradient");
    return plan;
  }

  /// Runs the step as it is written, and writes it down.
  template <class Result, class Board, class AsWritten>
  Taken<Result> record(Board& board, AsWritten& as_written) {
    using namespace libtorch::capture;
    Taken<Result> taken;
    if (!world_) world_.emplace(*model_);
    Recorder recorder;
    {
      Recording const on(recorder);
      taken.result.emplace(as_written());
    }
    ++report_->recorded;
    taken.refusal = !world_->refusal().empty() ? world_->refusal() : recorder.refusal;
    taken.calls = std::move(recorder.calls);
    // From here on nobody needs the graph; what still holds memory of the step afterwards is code of the model.
    each_leaf(
        *taken.result,
        [&](at::Tensor& tensor) {
          if (!tensor.defined()) return;
          taken.leaving.push_back(detached(tensor));
          tensor = detached(tensor);
        },
        [](std::int64_t) {});
    std::vector<typename Board::Entry> entries;
    board.each_pending([&](auto const& entry) {
      if (entry.value.defined()) entries.push_back({entry.metric, detached(entry.value), entry.weight, entry.origin});
      else entries.push_back(entry);
    });
    board.discard_step();
    for (auto const& entry : entries) {
      board.post(entry);
      if (!entry.value.defined()) {
        taken.refusal = "a tensor without value is logged";
        continue;
      }
      taken.leaving.push_back(detached(entry.value));
      taken.logged.push_back({entry.metric, entry.weight, entry.origin});
    }
    if (!taken.refusal.empty()) return taken;
    if (bool const same = world_->is_of(*model_); !same || !world_->unchanged()) {
      if (!same && replayed_) warn(other_model);
      forget_changed();
      return taken;
    }
    taken.step = std::make_unique<Step>(taken.calls, leaves_, *world_, seed_);
    taken.text = taken.step->lines;
    for (auto const& tensor : taken.leaving) taken.text.push_back("leaves" + taken.step->leaves(tensor));
    for (auto const& logged : taken.logged)
      taken.text.push_back("logs " + std::to_string(logged.metric) + " " + std::to_string(std::bit_cast<std::uint64_t>(logged.weight)) + " " +
                           std::to_string(int(logged.origin)));
    taken.refusal = taken.step->refusal;
    if (taken.refusal.empty()) look_for_keepers(taken, entries);
    return taken;
  }

  /// A tensor of the step that a member of the model keeps would not change in replays.
  template <class Result, class Entries>
  void look_for_keepers(Taken<Result>& taken, Entries const& entries) {
    using namespace libtorch::capture;
    std::unordered_map<Storage, std::size_t> held;
    auto const count = [&](at::Tensor const& tensor) { ++held[storage_of(tensor)]; };
    for (auto const& call : taken.calls) {
      each_tensor_of(call.in, count);
      each_tensor_of(call.out, count);
    }
    for (auto const& tensor : taken.leaving) count(tensor);
    for (auto const& entry : entries) count(entry.value);
    each_leaf(*taken.result, [&](at::Tensor const& tensor) { if (tensor.defined()) count(tensor); }, [](std::int64_t) {});
    for (auto const& call : taken.calls)
      each_tensor_of(call.out, [&](at::Tensor const& tensor) {
        if (taken.refusal.empty() && taken.step->role(tensor).kind == Role::Kind::made && tensor.storage().use_count() > held[storage_of(tensor)])
          taken.refusal = "a result of " + call.name() + " is kept after the step, where a replay would not change it: return it or log it";
      });
  }

  /// After the first or second recording of a step. What is made once and kept, such as the seed of backward, is there from the second step of
  /// the process on: a step may fail and try again.
  template <class Result>
  void settle(Plan& plan, Taken<Result>& taken) {
    using namespace libtorch::capture;
    std::string wrong = taken.refusal;
    if (wrong.empty() && plan.stage == Stage::second) wrong = difference(plan.text, taken.text);
    if (!wrong.empty() && ++plan.failures == most_failures) return give_up(plan, wrong);
    if (!wrong.empty() || plan.stage == Stage::first) {
      plan.text = std::move(taken.text);
      plan.stage = taken.refusal.empty() ? Stage::second : Stage::first;
      return;
    }
    plan.logged = taken.logged;
    plan.result = std::make_shared<Result>(*taken.result);
    for (auto const& tensor : taken.leaving) plan.of_model.push_back(taken.step->role(tensor).kind == Role::Kind::world);
    plan.draws = std::any_of(taken.calls.begin(), taken.calls.end(), [](Call const& call) { return call.op.hasTag(at::Tag::nondeterministic_seeded); });
    plan.tape = std::make_unique<Tape>(std::move(taken.calls), *taken.step, leaves_, std::move(taken.leaving), seed_);
    report_->tapes.push_back(plan.tape->facts());
    plan.stage = Stage::check;
  }

  /// A replay from a copy of all that it may write, then the step as it is written from the same state: equal in every bit.
  template <class Result, class Board, class AsWritten>
  Result check(Plan& plan, Board& board, AsWritten& as_written) {
    using namespace libtorch::capture;
    Generators generators(*plan.tape, plan.draws);
    auto const before = world_->bytes();
    std::vector<char> world, leaving;
    std::vector<at::Tensor> drawn;
    bool failed = false;
    try {
      plan.tape->replay(leaves_);
      world = world_->bytes();
      leaving = bytes_of(plan.tape->leaving());
      drawn = generators.now();
    } catch (std::exception const&) {
      failed = true;  // where the step itself is at fault it says so below
    }
    world_->restore(before);
    generators.restore();

    auto taken = record<Result>(board, as_written);
    if (plans_.empty()) return std::move(*taken.result);  // the model was changed by the step itself
    ++report_->checked;
    auto const states = generators.now();
    bool const same_numbers = !failed && bytes_of(states) == bytes_of(drawn);
    std::string wrong = taken.refusal;
    if (wrong.empty()) wrong = difference(plan.text, taken.text);
    if (wrong.empty() && (!same_numbers || world != world_->bytes() || leaving != bytes_of(taken.leaving)))
      wrong = "a replay does not give the same bits as the step: it uses something that no operator shows";
    if (!wrong.empty()) {
      give_up(plan, wrong);
    } else if (plan.stage == Stage::replay) {
      plan.pace.rarer_checks();
      plan.pace.next_check(noise_);
    } else if (++plan.checks == checks_before_trust) {
      plan.stage = Stage::replay;
      plan.pace.next_check(noise_);
    }
    return std::move(*taken.result);
  }

  template <class Result, class Board>
  Result replay(Plan& plan, Board& board) {
    using namespace libtorch::capture;
    plan.tape->replay(leaves_);
    ++plan.replayed;
    replayed_ = true;
    ++report_->replayed;
    Result result = *static_cast<Result const*>(plan.result.get());
    std::size_t next = 0;
    each_leaf(
        result,
        [&](at::Tensor& tensor) {
          if (!tensor.defined()) return;
          tensor = plan.of_model[next] ? detached(plan.tape->leaving()[next]) : plan.copies.take(*plan.tape, next);
          ++next;
        },
        [](std::int64_t) {});
    for (auto const& logged : plan.logged) board.post({logged.metric, plan.copies.take(*plan.tape, next++), logged.weight, logged.origin});
    return result;
  }

  void give_up(Plan& plan, std::string reason) {
    plan.stage = Stage::eager;
    plan.tape.reset();
    plan.text.clear();
    if (plan.replayed != 0) reason += ". It was seen in a later check: some of the " + std::to_string(plan.replayed) + " steps replayed before may be wrong";
    warn(reason);
  }
  /// No step of this fit is captured.
  void stay_eager(std::string const& reason) {
    off_ = true;
    warn(reason);
  }
  void warn(std::string const& reason) { libtorch::capture::stays_as_written(*report_, reason); }

  void forget() {
    replayed_ = false;
    plans_.clear();
    world_.reset();
  }
  /// The model is not what it was when its steps were recorded: an unfrozen layer, a switch to eval(), gradients made anew.
  void forget_changed() {
    forget();
    if (++forgotten_ > most_forgotten)
      stay_eager("parameters, gradients, buffers or switches of the model are replaced again and again");
  }

  torch::nn::Module* model_ = nullptr;
  bool off_ = true;  ///< until setup
  int forgotten_ = 0;
  bool replayed_ = false;  ///< anything of the present recordings
  std::uint64_t noise_ = 88172645463325252U;
  std::optional<libtorch::capture::World> world_;
  std::vector<std::unique_ptr<Plan>> plans_;
  Plan crowd_;  ///< of all that came too late
  std::vector<std::int64_t> shape_;
  std::vector<at::Tensor> leaves_;
  at::Tensor seed_;
  std::shared_ptr<CaptureReport> report_;
  libtorch::graph::GraphSteps<libtorch::graph::DeviceGraph> graphs_{report_};
};

template <class Device>
Captured(SingleDevice<Device>) -> Captured<SingleDevice<Device>>;

}  // namespace fulgurite
