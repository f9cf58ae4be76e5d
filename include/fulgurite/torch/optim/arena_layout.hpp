#pragma once
// Where an arena places parameters and their gradients, and how it restores that placement.

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

// Which part of an optimizer's state a process keeps, if several processes update the same parameters together.

/// Each flat buffer is cut into as many equal parts as there are processes. This process updates the part with index
/// `mine`, and keeps the state of that part only. The default is a single process, which keeps all.
struct ArenaPart {
  int mine = 0, of = 1;
  /// Fills a flat tensor of which each process has its own part, so that all processes have all of it. A collective.
  std::function<void(at::Tensor const&)> gather = nullptr;

  bool is_whole() const { return of == 1; }
  /// The length of a buffer after padding: parts begin where slices may begin.
  std::int64_t padded(std::int64_t size, at::Tensor const& like) const;
  std::int64_t length(std::int64_t padded_size) const { return padded_size / of; }
  std::int64_t begin(std::int64_t padded_size) const { return mine * length(padded_size); }
  std::int64_t end(std::int64_t padded_size) const;
};

/// The overlap of a part with one slice: `length` elements, starting at `in_slice` in the slice and at `in_part` in the
/// part.
struct Overlap {
  std::int64_t in_slice, in_part, length;
};

/// A parameter, and its place in a buffer.
struct ArenaSlot {
  at::Tensor parameter = {};
  std::size_t group = 0;
  std::size_t buffer = 0;
  std::int64_t begin = 0;  ///< in elements of the buffer
  at::Tensor gradient = {};
  std::vector<at::Tensor> states = {};  ///< undefined if the optimizer does not keep that state, or only a part of it
  bool received = false;                ///< it has a gradient, as LibTorch understands it
  std::uint32_t version = 0;            ///< version of the gradient, when last checked
  bool stays = false;                   ///< its gradient may stay in the memory that backward allocated
  std::uint32_t cleared = 0;            ///< version of the unused `gradient` slice when it was cleared
  long steps = 0;

  /// parameter.grad(), without LibTorch's question whether the parameter is a leaf, which was asked once.
  at::Tensor const& held() const;
};
/// Flat tensors of one element type on one device, in which slots lie one after the other. The states may be a part
/// only.
struct ArenaBuffer {
  at::Tensor parameters = {}, gradients = {};
  at::Tensor gradients_too = {};  ///< the same memory for clipping, whose writes must not count as clearing
  std::vector<at::Tensor> states = {};
  std::int64_t states_begin = 0;  ///< the element to which the first state element belongs
  std::vector<std::size_t> slots = {};
  std::int64_t size = 0;
  std::uint32_t version = 0;  ///< version of `gradients`, when last checked
  bool some_stay = false;     ///< true if some slot `stays`
  bool taken = false;         ///< the flat gradients were handed out since they were cleared
};

/// Flat buffers by the types and devices of the parameters. Parameters and gradients become slices of them.
///
/// The user may do anything to a parameter (another gradient, set_data, to(device)); the arena repairs its layout when
/// it is next used. The tensor is copied into the buffer if it fits; else all buffers are allocated again, and the
/// optimizer's state is moved.
class ArenaLayout : Pinned {
 public:
  using Slot = ArenaSlot;
  using Buffer = ArenaBuffer;

  /// Adds the parameters of one group. `initial`: the initial value of each state; nullopt for a state that is not
  /// kept.
  void add(std::vector<at::Tensor> const& parameters, std::size_t group,
           std::vector<std::optional<double>> const& initial);

  std::vector<at::Tensor> const& parameters() const { return parameters_; }
  std::vector<Slot> const& slots() const { return slots_; }
  std::vector<Slot>& slots() { return slots_; }
  std::vector<Buffer> const& buffers() const { return buffers_; }

  /// Sets whether large gradients on the CPU may stay in the memory that backward allocated, for the update to read
  /// them there. Otherwise backward adds them to their slices, which were cleared before: two more passes over memory.
  /// While a slice is not used, it occupies no memory.
  void leave_gradients(bool leave);

  // The states of the parameters: all of them, or the part of one process.

  ArenaPart const& part() const { return part_; }
  bool keeps(std::size_t group, std::size_t state) const;
  /// Allocates the flat state tensors, if there are none yet: a strategy may first choose to keep a part of them. If
  /// they are kept whole, the slots have slices of them.
  void make_states();
  /// True if the slots have all states.
  bool has_whole_states() const { return part_.is_whole() || gathered_; }
  /// The number of state elements that this process keeps.
  std::int64_t kept_numbers() const;
  /// From now on this process keeps one part of the states and updates that part of the parameters. All processes have
  /// the same arena and must call this at the same point. Existing states are moved.
  void keep_part(ArenaPart part);
  /// Puts all states into the slots until `drop_gathered`, if the states are in parts. A process with `keeps_all` =
  /// false takes part so that others get the states, but keeps only its own part. A collective.
  void gather_states(bool keeps_all);
  void drop_gathered();

  /// The overlap of a parameter with this process's part; nullopt if there is none.
  std::optional<Overlap> own(Slot const& slot) const;
  /// Writes this process's part of a parameter's whole state.
  void put_own(Slot const& slot, std::size_t state, at::Tensor const& whole) const;

 protected:
  /// `states`: the number of state tensors for each parameter.
  explicit ArenaLayout(std::size_t states) : states_(states) {}
  ~ArenaLayout();

  /// Leaves inference mode, in which validation may run, since tensors made in it cannot be trained on.
  struct Mode {
    Mode();
    std::optional<c10::InferenceMode> off{};
    std::optional<at::NoGradGuard> no_graph{};
  };

  bool fits(Slot const& slot) const;

  void put_right();

  /// True if the slot has a gradient outside of the buffer.
  static bool is_elsewhere(Slot const& slot);
  /// Copies all gradients into the buffers, for callers that use flat gradients.
  void gather_into_buffers();
  /// Chooses slices without a gap behind them only, since an update continues to the end of a cache line.
  void choose_staying();
  /// Clears the slice of a gradient that backward will allocate elsewhere, and returns its memory to the system
  /// meanwhile.
  static void clear_unused(Slot& slot);

  static void require_shape(Slot const& slot);

  /// Copies the parameter's values into its slice, and makes the parameter that slice.
  void take_data(Slot& slot);

  /// Takes over a gradient that backward or the user has allocated elsewhere.
  void take_gradient(Slot& slot);

  /// Allocates new buffers for all parameters, by their current types and devices, and moves values, gradients and
  /// states.
  void rebuild();
  void lay_out();

  void move_in(Slot& slot, Buffer const& buffer);

  std::vector<at::Tensor> parameters_;
  std::vector<Slot> slots_;
  std::vector<Buffer> buffers_;
  bool leaves_ = false;

 private:
  bool any_keeps(std::size_t state) const;
  /// Like gather_states, with all of them, but does nothing before the first step, when no state has changed yet. All
  /// processes have taken a step, or none has.
  void gather_moved();
  void gather(bool keeps_all);
  /// Fills newly allocated buffers: with the slots' states, or the initial values where there are none.
  void lay_states();
  void lay_state(Slot& slot, std::size_t state, at::Tensor const& before, double initial);

  std::size_t states_;                                            ///< for each parameter
  std::vector<std::vector<std::optional<double>>> initial_ = {};  ///< index: group
  ArenaPart part_ = {};
  bool made_ = false;
  bool gathered_ = false;  ///< the states are in parts, and the slots have all of them

  /// A smaller gradient stays in the cache, where another pass costs almost nothing.
  static constexpr std::size_t least_to_stay = std::size_t{1} << 16;
};

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/arena_layout.ipp>
#endif
