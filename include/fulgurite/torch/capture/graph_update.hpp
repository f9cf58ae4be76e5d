#pragma once
// The optimizer's update as the last part of a step's graph.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/update_kernel.hpp>

namespace fulgurite::libtorch::graph {

/// Limits gradients outside of a graph.
void clip_as_written(ArenaParameters const& parameters, Clip const& clip);

/// What differs from step to step (learning rates, bias corrections) is not part of the graph: its kernels read it from
/// a table on the device. The table holds the numbers of several steps, as they will be if no learning rate changes;
/// each replay moves on to the next row. Where a row would be wrong, or all were used, it is written again before the
/// replay, in the order of the stream, so that neither the host nor the device waits.
class UpdateInGraph : Pinned {
 public:
  /// Allocates the table, for at most so many runs. Not while a graph is recorded, in whose memory it would lie:
  /// replays would overwrite it.
  UpdateInGraph(std::size_t most_runs, at::Device device);

  /// `runs`: what the update of the recorded step does. False if they are too many for the table.
  bool take(std::vector<TracedUpdate> runs);

  /// Limits the gradients in the graph that is being recorded, before `launch`, with the bits of clip_norm and
  /// clip_value; where the update is turned off, it leaves every bit as it is. Returns the norm, if that is limited.
  at::Tensor clip(ArenaParameters const& parameters, Clip const& clip) const;
  /// Lets each replay add zero times a value to a number on the device, which is nan from the first value on that is
  /// not finite.
  void note(at::Tensor const& value) const;
  at::Tensor const& noted() const { return noted_; }
  /// Launches the kernels, for the graph that is being recorded.
  void launch() const;

  std::vector<TracedUpdate> const& runs() const { return runs_; }
  at::Tensor const& table() const { return table_; }

  /// True if the update `now` differs from the recorded one in its numbers at most, and the kernels run.
  bool fits(std::vector<TracedUpdate> const& now) const;

  // One of these is called before each replay.

  /// The replay makes the update `now`. `later(n)`: the one n steps after it, as far as it is known now.
  void turn_on(std::vector<TracedUpdate> const& now, FunctionRef<std::vector<TracedUpdate>(long)> later);
  /// The replay makes no update: it is compared with a step as it is written, which has none.
  void turn_off();

  /// Called after a replay with the update. The first time it waits, and reads whether the kernels have run; if they
  /// have not, none of them will any more.
  bool made();

  static constexpr std::int64_t most_rows = 64;

 private:
  /// Appends the numbers of an update to the rows that the table has.
  void append(std::vector<TracedUpdate> const& update);
  void upload();

  std::vector<TracedUpdate> runs_ = {};
  at::Tensor table_, noted_;
  std::size_t most_runs_;
  enum class Proof { none, made, failed } proof_ = Proof::none;
  std::vector<double> rows_ = {};  ///< those in the table
  std::size_t next_ = 0;           ///< index in rows_ of the row that the next replay reads
  std::int64_t foreseen_ = 1;      ///< rows written at once: more and more while they turn out to be right
  enum class State { unwritten, off, on } state_ = State::unwritten;
};

/// Undoes at its end what replays have noted meanwhile, which are compared and do not count.
class NotesUndone : Pinned {
 public:
  /// `update`: nullptr if the graph has none.
  explicit NotesUndone(UpdateInGraph const* update);
  ~NotesUndone();

 private:
  at::Tensor noted_{}, before_{};
};

}  // namespace fulgurite::libtorch::graph

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/graph_update.ipp>
#endif
