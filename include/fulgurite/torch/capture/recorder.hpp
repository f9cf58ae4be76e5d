#pragma once
// Records every operator that LibTorch dispatches on this thread, below autograd, while a step runs; and what a
// captured strategy reports about its work.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
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
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite {
namespace libtorch::capture {

using torch::jit::Stack;

/// A piece of memory that was written, and the version counter that shows it.
struct Version {
  Storage storage;
  c10::VariableVersion counter;
};

/// One call: the operator, its arguments and results, grad mode, and the version counters of the memory it wrote.
struct Call {
  c10::OperatorHandle op;
  Stack in, out;
  bool graph;
  std::vector<Version> written = {};
  std::string const& name() const { return op.operator_name().name; }
};

class Recorder {
 public:
  explicit Recorder(at::Device device = at::kCPU) : device_(device) {}

  std::vector<Call> calls;
  std::string refusal;  ///< why the step cannot be recorded; once it is set, calls are no longer kept

  void refuse(std::string reason);

  void take(c10::OperatorHandle const& op, c10::DispatchKeySet below, Stack* stack);
  /// The trainer acts here: it reads `loss`, or reads and writes the tensors of the model.
  void take_turn(loop::Turn turn, at::Tensor const& loss, std::vector<at::Tensor> const& model);

  static Recorder*& current() {
    thread_local Recorder* recorder = nullptr;
    return recorder;
  }
  /// The number of calls that were intercepted on threads without a recording.
  static std::atomic<long>& strays();

 private:
  at::Device device_;

  Stack keep(Stack const& values);

  static bool moved(IValue const& before, IValue const& after);
};

/// True if steps can be recorded. They cannot if something else has taken the dispatch key, such as another copy of
/// this library with hidden symbols.
bool available();

/// While this object lives, operators called on this thread go to the recorder.
class Recording : Pinned {
 public:
  explicit Recording(Recorder& recorder);
  ~Recording();

 private:
  Recorder& recorder_;
  Recorder* outer_;
  long strays_;
  c10::impl::IncludeDispatchKeyGuard on_;
};

// What a recording has to know about LibTorch's operators, by their names.

/// True if the operator returns uninitialized memory.
bool is_empty_factory(std::string_view name);
/// True if the operator's results depend on its arguments alone, and not on the values of tensors among them.
bool is_constant_factory(std::string_view name);
/// True for a call of take_turn, whose arguments are the loss and the model's tensors, as lists, and the Turn.
inline bool is_turn(std::string_view name) { return name == "fulgurite::turn"; }
/// True if the operator writes running statistics, although its schema does not declare that.
bool writes_undeclared(std::string_view name);

// Where each tensor of a recorded step comes from, and a text for the tensor that is equal whenever the step is.

/// The origin of a tensor's memory: the model, the batch, an operator of the step, or a host number that LibTorch has
/// wrapped in a tensor.
struct Role {
  enum class Kind { world, batch, made, constant };
  Kind kind;
  std::size_t number;
};

// Reads a recorded step call by call. Finds the first reason why it cannot become a tape, and writes a line for each
// call that is equal whenever the step is.

/// The input of a Tape's constructor.
class Listing {
 public:
  std::string refusal;                    ///< why this step cannot be on a tape; empty: it can
  std::vector<std::string> lines;         ///< one line per call
  std::vector<bool> view;                 ///< for each call: it only makes views or reads shapes
  std::unordered_set<Storage> rewritten;  ///< memory that is written in place

  /// `batch`: the batch's tensors, in order. `seed`: the tensor from which backward started, or undefined; its values
  /// are part of the step.
  Listing(std::vector<Call> const& calls, std::vector<at::Tensor> batch, World const& world, at::Tensor const& seed);

  /// The text of a tensor that is an output of the step.
  std::string leaves(at::Tensor const& tensor);
  bool is_world(Storage storage) const;
  Role role(at::Tensor const& tensor) const;

 private:
  void refuse(std::string reason);
  static bool within(at::Tensor const& part, at::Tensor const& whole);
  bool shares_batch(Storage storage) const;
  void append(at::Tensor const& tensor, std::string const& reader);
  void append(IValue const& value, std::string const& reader);
  static std::uint64_t bits_of(at::Tensor const& tensor);
  std::string line(Call const& call);

  /// True if a call of aten::index is x.index({numbers}), whose result has the shape of the numbers, and not
  /// x.index({mask}), whose shape depends on values.
  static bool indexes_by_number(Call const& call);
  static bool is_written(Call const& call, std::size_t argument);

  World const& world_;
  std::vector<at::Tensor> batch_;
  at::Tensor seed_;
  std::unordered_map<Storage, std::size_t> made_;
  std::string text_;
  std::vector<Storage> set_;         ///< memory that the current call sets
  std::unordered_set<Storage> raw_;  ///< allocated without values, and not written so far
};

// Decides which calls of a recorded step a replay runs, and counts them.

/// Counts that describe a tape in reports.
struct TapeFacts {
  /// Calls that differ in nothing but their tensors.
  struct Calls {
    std::string what, kernel;  ///< "mm 768x384x128", "LIBXSMM"
    std::size_t count = 0;
    std::int64_t flops = 0;  ///< of all of them together: matrix products, convolutions and attention
  };
  std::size_t recorded = 0, replayed = 0, views = 0, constants = 0, dead = 0, out_forms = 0, direct = 0;
  std::size_t products = 0;  ///< replayed calls that a kernel of this library computes
  std::size_t small = 0;     ///< replayed calls that are small functions instead of operators
  std::size_t biases = 0;    ///< additions of a bias that the product before them makes
  std::size_t bytes = 0;     ///< memory for what the step computes
  std::vector<Calls> calls = {};
};

/// True for each call, except for those that are known to be without effect.
std::vector<bool> live_calls(std::vector<Call> const& calls, std::vector<at::Tensor> const& leaving,
                             Listing const& listing, TapeFacts& facts);

// What a captured strategy reports about its work.

/// A counter that several threads may increment: copies of a strategy, such as those of a sweep's members, share one
/// report.
class Count {
 public:
  Count(long number = 0) : number_(number) {}
  Count(Count const& other) : number_(long{other}) {}
  Count& operator=(Count const& other);
  operator long() const { return number_.load(std::memory_order_relaxed); }
  Count& operator+=(long more);
  Count& operator++() { return *this += 1; }

 private:
  std::atomic<long> number_;
};

}  // namespace libtorch::capture

/// Counts what a captured strategy has done. Get it before the strategy is given to a trainer:
///
///     Captured strategy{SingleDevice{cpu}};
///     auto report = strategy.report();
///     auto trainer = make_trainer<Net>(options, strategy);
///     trainer.fit(model, batches);  // then read report->replayed
struct CaptureReport {
  using Count = libtorch::capture::Count;
  Count eager;                    ///< steps that ran as they are written, and were not recorded
  Count recorded;                 ///< steps that were recorded (those of tapes also ran as they are written)
  Count checked;                  ///< steps that ran as they are written, and were compared with a replay, bit for bit
  Count confirmed;                ///< extra runs of a step as it is written, for a check; their results were discarded
  Count replayed;                 ///< steps in which no code of the model ran
  Count updated;                  ///< those of them whose graph makes the update, if numbers are finite
  std::string update_apart = {};  ///< why the update of some step is not part of its graph
  Count joined;                   ///< those that ran in a graph of several steps
  std::string single = {};        ///< why steps are not joined
  std::vector<std::string> reasons = {};                 ///< why steps run eagerly
  std::vector<libtorch::capture::TapeFacts> tapes = {};  ///< one for each kind and shape of step
  Count dropped;   ///< how often recordings were dropped or made again because the model had changed
  Count unproven;  ///< replays that can no longer be checked, because the model or their batch was changed after them
  Count warned_unproven;
  Count noted;   ///< size of `reasons`
  Count warned;  ///< number of reasons that were given as warnings
};

namespace libtorch::capture {

/// Guards the lists of all reports, which are seldom written.
inline std::mutex& lists_of_reports() {
  static std::mutex mutex;
  return mutex;
}

/// Adds a reason to the report, unless it is there already. `pass_on_reasons` gives it as a warning, unless it is
/// `given` already.
void stays_as_written(CaptureReport& report, std::string const& reason, bool given = false);
void add_tape(CaptureReport& report, TapeFacts const& facts);
void update_stays_apart(CaptureReport& report, std::string const& reason);
void steps_stay_single(CaptureReport& report, std::string const& reason);

/// Calls `say(identifier, sentence)` for each reason that was not given as a warning yet.
void pass_on_reasons(CaptureReport& report, auto&& say) {
  if (long const all = report.unproven, n = all - report.warned_unproven; n != 0) {
    report.warned_unproven = all;
    say("fulgurite.capture.unchecked",
        std::to_string(n) + " replayed steps can no longer be checked, since the model, or the form of their last "
                            "batch, was changed after them in a way that cannot be undone for a check: they may be "
                            "wrong if something else changed, too");
  }
  while (report.warned < report.noted) {
    std::string reason;
    {
      std::lock_guard const lock(lists_of_reports());
      if (report.warned >= report.noted) return;  // another thread has given it
      reason = report.reasons[static_cast<std::size_t>(long{report.warned})];
      ++report.warned;
    }
    say("fulgurite.capture.eager", "steps of a captured fit run as they are written, because of this: " + reason);
  }
}

std::vector<std::string> account(CaptureReport const& report);

}  // namespace libtorch::capture
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/recorder.ipp>
#endif
