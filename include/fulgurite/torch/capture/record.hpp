#pragma once
// A step that runs as it is written on the CPU, and is written down while it does.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fulgurite/torch/capture/leaves.hpp>
#include <fulgurite/torch/capture/left.hpp>
#include <fulgurite/torch/capture/listing.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_at_hand.hpp>

namespace fulgurite::libtorch::capture {

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

}  // namespace fulgurite::libtorch::capture
