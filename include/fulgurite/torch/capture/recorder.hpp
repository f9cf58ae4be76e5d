#pragma once
// Writes down every operator that LibTorch dispatches on this thread, below autograd, while a step runs.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::capture {

using torch::jit::Stack;

/// A piece of memory that was written, and the counter by which others notice that.
struct Version {
  Storage storage;
  c10::VariableVersion counter;
};

/// One call: the operator, its arguments and results, whether graphs were being made (grad mode), and the version
/// counters of what it wrote.
struct Call {
  c10::OperatorHandle op;
  Stack in, out;
  bool graph;
  std::vector<Version> written = {};
  std::string name() const { return op.operator_name().name; }
};

class Recorder {
 public:
  explicit Recorder(at::Device device = at::kCPU) : device_(device) {}

  std::vector<Call> calls;
  std::string refusal;  ///< why the step cannot be recorded; from then on nothing is kept

  void refuse(std::string reason);

  void take(c10::OperatorHandle const& op, c10::DispatchKeySet below, Stack* stack);

  static Recorder*& current() {
    thread_local Recorder* recorder = nullptr;
    return recorder;
  }
  /// How many calls were intercepted on threads where nobody records.
  static std::atomic<long>& strays();

 private:
  at::Device device_;

  Stack keep(Stack const& values);

  static bool moved(IValue const& before, IValue const& after);
};

void intercept(c10::OperatorHandle const& op, c10::DispatchKeySet keys, Stack* stack);

/// Whether steps can be recorded. They cannot if someone else has taken the dispatch key, as another copy of this
/// library with hidden symbols would have.
bool available();

/// While it lives, calls of operators on this thread go to the recorder.
class Recording {
 public:
  explicit Recording(Recorder& recorder);
  ~Recording();
  Recording(Recording const&) = delete;
  Recording& operator=(Recording const&) = delete;

 private:
  Recorder& recorder_;
  Recorder* outer_;
  long strays_;
  c10::impl::IncludeDispatchKeyGuard on_;
};

// What a recording has to know of LibTorch's operators by their names.

bool one_of(std::string_view name, std::initializer_list<std::string_view> names);

/// The operator returns memory whose values are not set.
bool is_empty_factory(std::string_view name);
/// The operator returns values that follow from its arguments alone, without the values of tensors among them.
bool is_constant_factory(std::string_view name);
/// The operator sets its first argument without reading it.
bool overwrites(std::string_view name);
/// The operator answers from shapes and types, not from values.
bool asks_for_shape(std::string_view name);
/// The operator's results have as many elements as the values of its arguments say, though it lacks LibTorch's tag for
/// that.
bool is_sized_by_values(std::string_view name);
/// The operator writes running statistics, though its schema does not say so.
bool writes_undeclared(std::string_view name);

// Where each tensor of a recorded step comes from, and a text for it that is the same whenever the step is.

/// Where a tensor's memory comes from: the model, the batch, an operator of the step, or a number of the host that
/// LibTorch has wrapped in a tensor.
struct Role {
  enum class Kind { world, batch, made, constant };
  Kind kind;
  std::size_t number;
};

/// The text of tensors and other values, and the first reason why their step cannot be on a tape.
class StepText {
 public:
  std::string refusal;  ///< why this step cannot be on a tape; empty: it can

  /// The text of a tensor that leaves the step.
  std::string leaves(at::Tensor const& tensor);

  bool is_world(Storage storage) const;

  Role role(at::Tensor const& tensor) const;

 protected:
  /// `batch`: the tensors of the batch, in order. `seed`: what backward started from, or undefined.
  StepText(std::vector<at::Tensor> batch, World const& world, at::Tensor const& seed);

  void refuse(std::string reason);

  static bool within(at::Tensor const& part, at::Tensor const& whole);

  bool shares_batch(Storage storage) const;

  void append(at::Tensor const& tensor, std::string const& reader);

  void append(IValue const& value, std::string const& reader);

  static bool overlap(at::Tensor const& a, at::Tensor const& b);
  static std::uint64_t bits_of(at::Tensor const& tensor);

  World const& world_;
  std::unordered_map<Storage, std::size_t> made_;
  std::string text_;

 private:
  std::vector<at::Tensor> batch_;
  at::Tensor seed_;
};

// Reads a recorded step call by call: why it cannot become a tape, and a line for each call, the same whenever the step
// is.

/// What a Tape is made from.
class Listing : public StepText {
 public:
  std::vector<std::string> lines;         ///< one a call
  std::vector<bool> view;                 ///< of each call: whether it only makes views, or asks for shapes
  std::unordered_set<Storage> rewritten;  ///< memory that some call writes in place

  /// `batch`: the tensors of the batch, in order. `seed`: what backward started from, or undefined; its values belong
  /// to the step.
  Listing(std::vector<Call> const& calls, std::vector<at::Tensor> batch, World const& world, at::Tensor const& seed);

 private:
  std::string line(Call const& call);

  /// Whether a call of aten::index is one of x.index({numbers}), whose result has the shape of the numbers, and not of
  /// x.index({mask}), whose result depends on values.
  static bool indexes_by_number(Call const& call);
  static bool is_written(Call const& call, std::size_t argument);
  std::vector<Storage> set_;         ///< by the call at hand
  std::unordered_set<Storage> raw_;  ///< made without values, and none set so far
};

// Which calls of a recorded step a replay runs again, and the counts of a tape.

/// Counts that describe a tape to a person.
struct TapeFacts {
  std::size_t recorded = 0, replayed = 0, views = 0, constants = 0, dead = 0, out_forms = 0, direct = 0;
  std::size_t products = 0;  ///< of the replayed, those that a kernel of ours computes
  std::size_t small = 0;     ///< of the replayed, those that are functions on few numbers instead of operators
  std::size_t bytes = 0;     ///< kept for what the step computes
};

/// All that are not known to be without effect.
std::vector<bool> live_calls(std::vector<Call> const& calls, std::vector<at::Tensor> const& leaving,
                             Listing const& listing, TapeFacts& facts);

}  // namespace fulgurite::libtorch::capture

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/recorder.ipp>
#endif
