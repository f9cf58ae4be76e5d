#pragma once
// What passes between the machine that decides what is done with a step (CapturedSteps) and what records and replays it
// (Tapes, Graphs).

#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::capture {

/// The step at hand: the strategy that runs it, its place in the accumulation window, what it logs to, and what the
/// loop tells of it.
template <class Strategy, class Board, class Seam>
struct StepAtHand {
  Strategy& strategy;
  StepKey key;
  Board& board;
  Seam& seam;

  /// Runs it as it is written.
  template <class Batch>
  auto operator()(Batch& batch) const {
    return strategy.gradients(key, batch, board, seam);
  }
};

/// What a step may touch: the model, and the tensors of its batch (in order; those that are not there are undefined).
struct Scene {
  World& world;
  torch::nn::Module const& model;
  std::vector<at::Tensor> const& batch;

  /// The model is not what it was when the first step was recorded.
  bool changed() const { return !world.is_of(model) || !world.unchanged(); }
};

/// What came of a step on the way to a recording.
template <class Result>
struct Prepared {
  std::optional<Result> result = std::nullopt;  ///< none: nothing was executed, and the step is still to do
  bool changed = false;                         ///< the model was changed in it, so that all recordings are void
  bool sound = false;                           ///< nothing speaks against recording it
  bool repeated = false;     ///< it was the step before once more, whatever the host has changed in between
  bool ready = false;        ///< there is a recording now, which has to be checked
  std::string refusal = {};  ///< why steps of this kind run as they are written for good; empty: they need not
};

/// A step as it is written against its replay. `Ran` has the members result and changed, as Prepared does.
template <class Ran>
struct Compared {
  Ran ran = {};
  std::string wrong = {};  ///< what differs; empty: nothing
};

/// Where bits differ.
inline constexpr char const* other_bits =
    "a replay does not give the same bits as the step: it uses something that no operator shows, as a number of the "
    "host that changes";

/// A member that has another value until the scope ends.
template <class T>
class SetFor {
 public:
  SetFor(T& at, T value) : at_(at), before_(at) { at_ = value; }
  ~SetFor() { at_ = before_; }
  SetFor(SetFor const&) = delete;
  SetFor& operator=(SetFor const&) = delete;

 private:
  T& at_;
  T before_;
};

}  // namespace fulgurite::libtorch::capture
