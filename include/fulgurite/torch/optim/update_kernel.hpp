#pragma once
// The update rule of an optimizer on a GPU, as one kernel over flat buffers. The rule is called once with values that
// write down what is done to them; the kernel does all of it in one pass over memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/optim/arena.hpp>

namespace fulgurite::libtorch {

/// What an update rule does, operation by operation. Values are numbered: the parameters are 0, the gradients 1, the
/// states follow.
class UpdateTrace {
 public:
  enum class What : std::uint8_t { copy, scale, divide, add_number, sum, add_product, add_quotient, root, maximum };
  /// value[to] = what(value[from], value[a], value[b], number)
  struct Operation {
    What what;
    std::uint8_t to, from, a, b;
    bool operator==(Operation const&) const = default;
  };
  static constexpr std::size_t most = 24;

  explicit UpdateTrace(std::size_t inputs) : inputs_(inputs), values_(inputs) {}

  void note(What what, std::size_t to, std::size_t from, double number, std::size_t a = 0, std::size_t b = 0);
  std::size_t fresh() { return values_++; }

  std::size_t inputs() const { return inputs_; }
  std::size_t values() const { return values_; }
  std::span<Operation const> operations() const;
  std::span<double const> numbers() const;
  /// False if the rule does more than a trace can hold.
  bool whole() const { return whole_; }

 private:
  std::size_t inputs_, values_, size_ = 0;
  bool whole_ = true;
  std::array<Operation, most> operations_{};
  std::array<double, most> numbers_{};
};

/// A value with at::Tensor's operations that an update rule uses. Each is noted in the trace.
class TracedValue {
  using enum UpdateTrace::What;

 public:
  TracedValue(UpdateTrace& trace, std::size_t number) : trace_(&trace), number_(number) {}

  TracedValue const& mul_(double factor) const { return change(scale, factor); }
  TracedValue const& div_(double divisor) const { return change(divide, divisor); }
  TracedValue const& add_(double summand) const { return change(add_number, summand); }
  TracedValue const& add_(TracedValue const& y, double alpha) const { return change(sum, alpha, y); }
  TracedValue add(TracedValue const& y, double alpha) const { return result(sum, alpha, y); }
  TracedValue const& addcmul_(TracedValue const& a, TracedValue const& b, double value) const;
  TracedValue addcmul(TracedValue const& a, TracedValue const& b, double value) const;
  TracedValue const& addcdiv_(TracedValue const& a, TracedValue const& b, double value = 1.0) const;
  TracedValue sqrt() const { return result(root, 0); }
  TracedValue const& copy_(TracedValue const& from) const { return change(copy, 0, from); }
  friend void take_maximum(TracedValue const& x, TracedValue const& other) { x.change(maximum, 0, other); }

 private:
  template <class... Values>
  TracedValue const& change(UpdateTrace::What what, double number, Values const&... values) const {
    trace_->note(what, number_, number_, number, values.number_...);
    return *this;
  }
  template <class... Values>
  TracedValue result(UpdateTrace::What what, double number, Values const&... values) const {
    auto const to = trace_->fresh();
    trace_->note(what, to, number_, number, values.number_...);
    return {*trace_, to};
  }
  UpdateTrace* trace_;
  std::size_t number_;
};

/// What an update does to one run of an arena, with the numbers of one step.
struct TracedUpdate {
  UpdateTrace trace;
  at::ScalarType type;
  at::Device device;
  std::int64_t count = 0;
  std::array<void*, 8> memory = {};  ///< of each input; null where the rule has no such state

  std::span<void* const> inputs() const;
  /// True if the kernel of this update does the other one, too: they differ in numbers at most. Adam's corrections
  /// become 1, by which a product or a quotient is exact.
  bool does(TracedUpdate const& other) const;
};

/// Runs the traced rule on `count` consecutive numbers of each input: `memory` points to their first elements, null
/// where the rule has no such state. False if there is no kernel with the bits of LibTorch's operators; then nothing
/// was changed. Kernels are compiled and compared with `operators`, which runs the same rule on tensors, before their
/// first use in the process; while a CUDA graph is recorded there is none that was not used before.
bool updated_by_kernel(UpdateTrace const& trace, std::span<void* const> memory, std::int64_t count, at::ScalarType type,
                       at::Device device, std::function<void(std::span<at::Tensor const>)> const& operators);

// The same kernel as part of a CUDA graph. It reads the numbers of its step from a table on the device, so that they
// may differ in each replay.

/// The columns of the table's head: whether the kernels do anything; the row that they read next; a count of blocks
/// that are done; 0, or a reason to leave this update out. Rows follow, in each of them the numbers of all runs,
/// UpdateTrace::most for each.
enum class UpdateTable : std::int64_t { on, row, done, left_out, head };

/// True if `launch_update_in_graph` can launch this: its kernel is compiled and compared with `operators` like that of
/// updated_by_kernel, and in the same way must be known before the graph is recorded.
bool has_kernel_in_graph(TracedUpdate const& update, std::function<void(std::span<at::Tensor const>)> const& operators);

/// Launches the kernel for run `index` of `runs`. The last run moves the table to its next row.
void launch_update_in_graph(TracedUpdate const& update, at::Tensor const& table, std::size_t index, std::size_t runs);

/// Writes the numbers of an update of tensors of this type as the kernels of a device take them.
void write_numbers(UpdateTrace const& trace, at::ScalarType type, at::Device device, double* to);

}  // namespace fulgurite::libtorch

// The optimizer's update as the last part of a step's graph.

namespace fulgurite::libtorch::graph {

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

  // What the graph that is being recorded does before `launch`.

  /// True on the device if the update is turned on.
  at::Tensor on() const;
  /// Not 0 on the device if a gradient is not finite.
  at::Tensor found_in(ArenaParameters const& parameters) const;
  /// Lets each replay leave its update out where `found` is not 0; if `looks`, also where `loss` (unless it is null)
  /// or what was noted before the replay is not finite.
  void leave_out(at::Tensor const& found, bool looks, at::Tensor const* loss);
  /// Limits the gradients with the bits of clip_norm and clip_value; where `on` is false, it leaves every bit as it is.
  /// Returns the norm, if that is limited.
  at::Tensor clip(ArenaParameters const& parameters, Clip const& clip, at::Tensor const& on) const;
  /// Adds zero times a value to a number on the device, which is nan from the first value on that is not finite: now,
  /// or in each replay of the graph that is being recorded.
  void note(at::Tensor const& value) const;
  at::Tensor const& noted() const { return noted_; }
  /// Lets each replay make this average after its update, unless it is empty. Also a replay that is not to update does:
  /// see TurnedOff.
  void take_average(loop::AverageOfStep<at::Tensor> const& average);
  /// Launches the kernels, for the graph that is being recorded, and makes the average.
  void launch() const;
  void make_average() const;

  std::vector<TracedUpdate> const& runs() const { return runs_; }
  at::Tensor const& table() const { return table_; }

  /// True if the update `now` differs from the recorded one in its numbers at most, the kernels run, and the average
  /// that the graph makes, if any, is that of the current step.
  bool fits(std::vector<TracedUpdate> const& now, loop::AverageOfStep<at::Tensor> const& average) const;

  // One of these is called before each replay.

  /// The replay makes the update `now`. `later(n)`: the one n steps after it, as far as it is known now.
  void turn_on(std::vector<TracedUpdate> const& now, FunctionRef<std::vector<TracedUpdate>(long)> later);
  /// The next replays make these updates: `rows` has the numbers of each.
  void turn_on(std::vector<double> rows);
  /// The replay makes no update: it is compared with a step as it is written, which has none. Afterwards averages have
  /// to be restored.
  void turn_off();
  void restore_averages();

  /// What has become of an update: it is made, or left out; or the kernels have not run, and never will.
  struct Outcome {
    bool ran = true, gradients_fit = true, loss_fits = true, averaged = false;
    bool counts() const { return gradients_fit && loss_fits; }
  };
  /// Called after a replay with the update. Waits the first time, and each time in a graph that may leave it out.
  Outcome outcome();

  /// True if a replay may leave its update out, so that the host asks for the outcome of each.
  bool may_leave_out() const { return may_leave_out_; }
  /// True if the outcome is known before a replay: its update is made.
  bool is_known() const { return proof_ == Proof::made && !may_leave_out_; }

  /// The numbers of an update, as a row of the table has them.
  static std::vector<double> numbers(std::vector<TracedUpdate> const& update);

  static constexpr std::int64_t most_rows = 64;

 private:
  void upload();
  void keep_averages();

  std::vector<TracedUpdate> runs_ = {};
  at::Tensor table_, noted_;
  std::vector<at::Tensor> averages_ = {}, averaged_ = {}, averages_before_ = {};
  double share_ = 0;
  std::size_t most_runs_;
  enum class Proof { none, made, failed } proof_ = Proof::none;
  std::vector<double> rows_ = {};  ///< those in the table
  std::size_t next_ = 0;           ///< index in rows_ of the row that the next replay reads
  std::int64_t foreseen_ = 1;      ///< rows written at once: more and more while they turn out to be right
  bool on_ = false;                ///< the kernels of the next replay do something
  bool may_leave_out_ = false;
};

/// While it lives replays make no update, and at its end averages are as before.
class TurnedOff : Pinned {
 public:
  /// `update`: nullptr if the graph has none.
  explicit TurnedOff(UpdateInGraph* update);
  ~TurnedOff();

 private:
  UpdateInGraph* update_;
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
#include <fulgurite/torch/optim/update_kernel.ipp>
#endif
