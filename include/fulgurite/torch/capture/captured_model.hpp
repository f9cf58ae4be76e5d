#pragma once
// What a captured fit knows of its model, and of the replays that wait for a check, whatever steps are recorded as.

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/wrong_replay.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/report.hpp>
#include <fulgurite/torch/capture/step_at_hand.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::capture {

/// The base of CapturedSteps.
class CapturedModel {
 public:
  /// How many replays no check has followed yet. The loops have them checked before anything relies on their results.
  long unchecked() const { return unchecked_; }
  /// Whether replays of one kind of step were just found right, while those of other kinds still wait for their check.
  bool half_checked() const { return half_checked_; }
  /// Some step may still be replayed in this fit.
  bool may_replay() const { return !off_; }

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

  /// Asked before each step.
  bool has_changed() const { return world_ && !world_->unchanged(); }
  void look_at_model() {
    if (!world_) world_.emplace(*model_, object_, device_);
  }
  Scene scene() { return {*world_, *model_, leaves_}; }

  /// Why a step with this batch cannot be recorded; empty: it can.
  FULGURITE_BULK std::string unfit() const {
    if (!world_->refusal().empty()) return world_->refusal();
    for (auto const& tensor : leaves_)
      if (tensor.defined() &&
          (!is_plain(tensor, device_) || !tensor.is_non_overlapping_and_dense() || tensor.requires_grad()))
        return "the batch has a tensor that is not a dense real one of " + name_of(device_) +
               ", or that needs a gradient";
    return {};
  }

  /// A check has passed: `kind` has no replay any more that waits for one. `host`: what the model kept on the host when
  /// the step began that was compared.
  template <class Seam>
  void passed(StepKind& kind, std::vector<char> host, loop::Questions const& asked, Seam const& seam) {
    bool const trusted = kind.next == Next::replay;
    world_->host().learn(kind.host, host, trusted ? patience : 1);
    kind.host = std::move(host);
    kind.answers = seam.answers(asked);
    kind.epoch = seam.epoch();
    none_waits(kind);
    if (trusted) {
      half_checked_ = unchecked_ != 0;
      kind.pace.rarer_checks();
    } else if (++kind.checks == checks_before_trust) {
      kind.next = Next::replay;
      kind.trusted = true;
    } else {
      return;
    }
    kind.pace.next_check(noise_);
  }
  void none_waits(StepKind& kind) {
    unchecked_ -= std::exchange(kind.unchecked, 0);
    kind.fresh = false;
  }
  /// Nobody can tell any more whether its replays were right: no error, but a warning.
  void unproven(StepKind& kind) {
    if (!kind.fresh) report_->unproven += kind.unchecked;
    none_waits(kind);
  }
  /// Names what the user's code may have changed. `same_model`: it still consists of the tensors that the way back
  /// would write to.
  [[noreturn]] void wrong_replay(StepKind const& kind, std::string const& wrong, bool same_model) const {
    throw loop::WrongReplay(who_changed(*world_, kind.host) + " (" + std::to_string(kind.unchecked) + " steps; " +
                                wrong + ")" + (kind.trusted ? seen_late : ""),
                            same_model);
  }

  /// No step of this fit is recorded from here on.
  void stay_as_written(std::string const& reason) {
    off_ = true;
    warn(reason);
  }
  void warn(std::string const& reason) { stays_as_written(*report_, reason); }

  /// What was known of the model is forgotten.
  void forget_model() {
    unchecked_ = 0;
    half_checked_ = false;
    world_.reset();
  }
  /// The model is not what it was when its steps were recorded: an unfrozen layer, a switch to eval(), gradients made
  /// anew. It is looked at anew, but not for ever.
  void forget_changed_model() {
    ++report_->dropped;
    forget_model();
    if (++times_void_ > most_changes)
      stay_as_written("parameters, gradients, buffers or switches of the model are replaced again and again");
  }

  static constexpr int checks_before_trust = 3;
  static constexpr int most_changes = 32;
  static constexpr std::uint8_t patience = 3;  ///< checks that pass although one byte of the host has changed

  std::optional<World> world_;
  long unchecked_ = 0;  ///< replays, of all kinds of steps
  bool half_checked_ = false;
  bool off_ = true;                  ///< until `take`
  std::vector<std::int64_t> shape_;  ///< of the batch of the step at hand, as are its leaves
  std::vector<at::Tensor> leaves_;
  std::shared_ptr<CaptureReport> report_;
  torch::nn::Module* model_ = nullptr;

 private:
  Object object_ = {};
  at::Device device_ = at::kCPU;
  int times_void_ = 0;  ///< how often all recordings were
  std::uint64_t noise_ = 88172645463325252U;
};

}  // namespace fulgurite::libtorch::capture
