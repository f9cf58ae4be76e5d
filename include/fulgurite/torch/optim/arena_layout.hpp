#pragma once
// Where the parameters of an arena and their gradients lie, and how they come back there.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

// Which part of an optimizer's state a process keeps, where several of them update the same parameters together.

/// Of each flat buffer, cut into as many equal parts as there are processes, this one updates the part with its number,
/// and keeps the state of that part alone. The default is one process, which keeps all.
struct ArenaPart {
  int mine = 0, of = 1;
  /// Of a flat tensor each process has its own part; afterwards all of them have all of it. A collective.
  std::function<void(at::Tensor const&)> gather = nullptr;

  bool is_whole() const { return of == 1; }
  /// How long a buffer is that can be cut: parts begin where slices may.
  std::int64_t padded(std::int64_t size, at::Tensor const& like) const;
  std::int64_t length(std::int64_t padded_size) const { return padded_size / of; }
  std::int64_t begin(std::int64_t padded_size) const { return mine * length(padded_size); }
  std::int64_t end(std::int64_t padded_size) const;
};

/// What a part has of one slice: `length` elements from `in_slice` on, which lie from `in_part` on in it.
struct Overlap {
  std::int64_t in_slice = 0, in_part = 0, length = 0;

  Overlap(ArenaPart const& part, std::int64_t buffer_size, std::int64_t slice_begin, std::int64_t slice_size);
};

/// The numbers of `value` in the order in which a slice in the shape of `like` has them in memory.
at::Tensor in_memory_order(at::Tensor const& value, at::Tensor const& like);

// What an optimizer keeps of the parameters of an arena: all of it, or the part of one process.

/// A parameter, and its place in a buffer.
struct ArenaSlot {
  at::Tensor parameter = {};
  std::size_t group = 0;
  std::size_t buffer = 0;
  std::int64_t begin = 0;  ///< in elements of the buffer
  at::Tensor gradient = {};
  std::vector<at::Tensor> states = {};  ///< undefined where the optimizer does not keep that one, or not all of it
  bool received = false;                ///< it has a gradient, as LibTorch understands it
  std::uint32_t version = 0;            ///< of the gradient, when last looked at
  bool stays = false;                   ///< its gradient may stay where backward has made it
  std::uint32_t cleared = 0;            ///< the version of `gradient` when that, staying unused, was cleared
  long steps = 0;
};
/// Flat tensors of one element type on one device, in which slots lie one after the other; of the states it may have a
/// part alone.
struct ArenaBuffer {
  at::Tensor parameters = {}, gradients = {};
  at::Tensor gradients_too = {};  ///< the same memory for clipping: its writes are no clearing
  std::vector<at::Tensor> states = {};
  std::int64_t states_begin = 0;  ///< the element whose state is their first
  std::vector<std::size_t> slots = {};
  std::int64_t size = 0;
  std::uint32_t version = 0;  ///< of `gradients`, when last looked at
  bool some_stay = false;     ///< so it is with the gradient of some slot
  bool taken = false;         ///< somebody has had the flat gradients since they were cleared
};

/// Flat tensors in the buffers, which are made when they are first needed: a strategy that keeps a part of them comes
/// first. Kept whole, the slots have slices of them.
class ArenaStates {
 public:
  using Slots = std::vector<ArenaSlot>;
  using Buffers = std::vector<ArenaBuffer>;

  /// `count`: how many tensors the optimizer keeps of each parameter.
  explicit ArenaStates(std::size_t count) : count_(count) {}

  std::size_t count() const { return count_; }
  /// The first value of each state of a group, nullopt for a state that is not kept.
  void begin_with(std::size_t group, std::vector<std::optional<double>> const& initial);
  bool keeps(std::size_t group, std::size_t state) const;

  ArenaPart const& part() const { return part_; }
  void set_part(ArenaPart part) { part_ = std::move(part); }
  /// Whether all of them are at hand, in the slots.
  bool are_whole() const { return part_.is_whole() || gathered_; }
  /// How many numbers this process keeps.
  std::int64_t numbers(Buffers const& buffers) const;

  void make(Slots& slots, Buffers& buffers);
  /// Into buffers that were made anew: what the slots have, else the first values.
  void move_in(Slots& slots, Buffers& buffers);

  /// Of states in parts, all of them in the slots until `drop_gathered`. A process that says `keeps_all` = false takes
  /// part, so that others may have them, and keeps its own part alone. A collective.
  void gather(Slots& slots, Buffers const& buffers, bool keeps_all);
  /// The same where a step was made, as it was by all processes or by none: before the first one there is nothing to
  /// move, and one process alone may have looked at its part.
  void gather_moved(Slots& slots, Buffers const& buffers);
  void drop_gathered(Slots& slots);

  /// What of a parameter lies in the part of this process; nullopt where that is nothing.
  std::optional<Overlap> own(ArenaSlot const& slot, ArenaBuffer const& buffer) const;
  /// Of a whole state of a parameter, that part.
  void put_own(ArenaSlot const& slot, ArenaBuffer const& buffer, std::size_t state, at::Tensor const& whole) const;

 private:
  bool any_keeps(std::size_t state) const;

  void lay(Slots& slots, Buffers& buffers);
  void lay(ArenaSlot& slot, ArenaBuffer const& buffer, std::size_t state, at::Tensor const& before, double initial);

  std::size_t count_;
  std::vector<std::vector<std::optional<double>>> initial_ = {};  ///< by group
  ArenaPart part_ = {};
  bool made_ = false;
  bool gathered_ = false;  ///< of states in parts: the slots have all of them
};

/// Buffers by the types and devices of the parameters, which become slices of them, as do their gradients.
///
/// Whatever the user has done to a parameter (another gradient, set_data, to(device)) is put right when the arena is
/// used next: the tensor is copied into the buffer if it fits; else all buffers are made anew, and the state of the
/// optimizer moves along.
class ArenaLayout {
 public:
  using Slot = ArenaSlot;
  using Buffer = ArenaBuffer;

  /// Adds the parameters of one group. `initial`: the first value of each state, nullopt for a state that is not kept.
  void add(std::vector<at::Tensor> const& parameters, std::size_t group,
           std::vector<std::optional<double>> const& initial);

  ArenaStates const& states() const { return states_; }
  std::vector<at::Tensor> const& parameters() const { return parameters_; }
  std::vector<Slot> const& slots() const { return slots_; }
  std::vector<Slot>& slots() { return slots_; }
  std::vector<Buffer> const& buffers() const { return buffers_; }

  /// Whether large gradients on the CPU may stay where backward makes them, to be read there by the update. Else
  /// backward adds them to their slices, which were cleared before: two more passes over memory. Their slices have no
  /// memory while they are not used.
  void leave_gradients(bool leave);

 protected:
  /// `states`: how many tensors the optimizer keeps of each parameter.
  explicit ArenaLayout(std::size_t states) : states_(states) {}

  /// Validation may run in inference mode, whose tensors could not be trained on.
  struct Mode {
    c10::InferenceMode off{false};
    at::NoGradGuard no_graph{};
  };

  static std::uint32_t version(at::Tensor const& tensor);

  bool fits(Slot const& slot) const;

  void put_right();

  /// The slot has a gradient that stays where it was made.
  static bool is_elsewhere(Slot const& slot);
  /// Who takes gradients as a whole finds all of them in the buffers.
  void bring_home();
  /// Only slices without a gap behind them, since an update goes on to the end of a cache line.
  void choose_staying();
  /// Clears the slice of a gradient that will be made elsewhere, and leaves its memory to the system meanwhile.
  static void clear_unused(Slot& slot);

  static void require_shape(Slot const& slot);

  /// Copies the parameter's values into its slice, and makes the parameter that slice.
  void take_data(Slot& slot);

  /// Takes over a gradient that backward or the user has made elsewhere.
  void take_gradient(Slot& slot);

  /// Makes new buffers for all parameters, by their present types and devices; values, gradients and states move over.
  void rebuild();
  void lay_out();

  void move_in(Slot& slot, Buffer const& buffer);

  ArenaStates states_;
  std::vector<at::Tensor> parameters_;
  std::vector<Slot> slots_;
  std::vector<Buffer> buffers_;
  bool leaves_ = false;

 private:
  /// A smaller gradient stays in the cache, where a pass costs next to nothing.
  static constexpr std::size_t least_to_stay = std::size_t{1} << 16;
};

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/arena_layout.ipp>
#endif
