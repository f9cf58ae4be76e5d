#pragma once
// One operator on a tape: the recorded call, with the memory that its results go to, and how it is run again.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/native/small_call.hpp>

namespace fulgurite::libtorch::capture {

// Forms of operators that write their result into memory which they are given: those with the same arguments, and some
// of other operators.

/// An operator, and where its arguments come from.
struct OutForm {
  /// Where an argument of the form comes from: the call's own arguments, the places of its results, a constant, or what
  /// the form before this one has made.
  struct Source {
    enum class Kind { given, place, constant, before };
    Kind kind;
    std::size_t index = 0;
    IValue constant = {};
  };
  c10::OperatorHandle op;
  std::vector<Source> arguments = {};
  std::optional<std::size_t> rows = std::nullopt;  ///< each row of the place is this argument before the call
  std::vector<OutForm> before = {};                ///< at most one: runs first, into a tensor like the first argument
  double divisor = 1;                              ///< of the result, after the call

  Stack stack(Stack const& given, Stack const& places, at::Tensor const& made = {}) const;
};

/// All overloads of an operator.
std::vector<c10::OperatorHandle> const& overloads(std::string const& name);

/// The overload that takes the same arguments in the same order, then a place for each result. It must have a kernel of
/// the CPU's own, not one that is made of the plain form.
std::optional<OutForm> same_arguments(c10::FunctionSchema const& plain, c10::OperatorHandle const& op);

/// Some operators have no such form, but do the same as another operator that has one.
std::optional<OutForm> other_name(std::string const& name);

/// The mean of squared differences, made of other operators: LibTorch's own form for it warns, and divides the sum by
/// one operator more, which for a few numbers takes longer than all the rest.
std::optional<OutForm> mean_of_squares(Call const& call);

// What a replay does to memory by itself, without an operator.

/// These work on dense tensors alone.
struct Memory {
  enum class Kind {
    clear,
    add_to_zero,  ///< x becomes 0 + x, in place, float or double: only -0 changes, to 0
    zero_plus,    ///< the first tensor becomes 0 + the second, of the same layout
    repeat,       ///< the first tensor becomes each row of the second
    divide,       ///< each x becomes x / number
  };
  Kind kind;
  std::vector<at::Tensor> tensors = {};
  double number = 1;

  void run() const;

  /// Whether the first tensor is a row of the second.
  bool fits_rows() const;

  template <class T>
  static void zero_plus(T* to, T const* from, std::int64_t n) {
    native::each_number(n, [](auto value) { return T(0) + value; }, to, from);
  }

 private:
  static void repeat(at::Tensor const& row, at::Tensor const& all);
  static void add(at::Tensor const& to, at::Tensor const& from);
  void divide(at::Tensor const& tensor) const;
  template <class T>
  static void divide(T* values, T by, std::int64_t n) {
    native::each_number(n, [=](auto value) { return value / by; }, values, values);
  }
};

// Whether a form of an operator gives the bits of the operator itself.

/// Runs both forms on copies of what the call received. The bits, the layouts and the arguments must be the same
/// afterwards, and there must be no warning.
class Trial {
 public:
  explicit Trial(Call const& call) : call_(call), quiet_(&count_) {}

  bool passes(OutForm const& form);

 private:
  struct Count : c10::WarningHandler {
    int warnings = 0;
    void process(c10::Warning const&) override { ++warnings; }
  };

  /// A copy of the bytes that the tensor looks at, as far from the start of a cache line as the tensor's own.
  static at::Tensor copy(at::Tensor const& tensor);
  static bool same_bytes(at::Tensor const& a, at::Tensor const& b);
  Stack copies() const;
  bool arguments_untouched(Stack const& now) const;

  Call const& call_;
  Count count_;
  c10::WarningUtils::WarningHandlerGuard quiet_;
};

// Finds the form of an operator that writes its result into memory which it is given, where there is one that gives the
// same bits.

/// The form to call in place of this call; nullopt: the plain form is called, and its result adopted.
std::optional<OutForm> out_form(Call const& call);

/// What a replay does not pass through again: autograd, views and autocast have had their say while recording.
c10::DispatchKeySet above_kernels();

/// A result whose memory takes the place of what the recorded call had made: `result` counts the call's, `element`
/// those of a list.
struct AdoptedResult {
  std::size_t result, element;
  bool listed;
  at::Tensor into;
};

/// A call that is run again in each replay.
struct TapeStep {
  c10::OperatorHandle op;
  Stack in;
  std::size_t returns;
  bool graph, straight;
  c10::DispatchKeySet keys;
  std::vector<AdoptedResult> adopted;

  /// `stack` is memory for arguments and results.
  void run(Stack& stack) const;

  /// The call in a form that writes into memory it is given. `place`: where its only result goes, if not into the
  /// result's own memory.
  static TapeStep written_to(Call const& call, OutForm const& form, at::Tensor const* place, at::Tensor const& before);

  /// The call as it was; whatever it allocates is adopted.
  static TapeStep adopting(Call const& call);

  /// If the CPU's kernel would be called next in any case, it is called without the dispatcher.
  static TapeStep finished(TapeStep step);

 private:
  /// Gives the memory of `made` to `into`, so that whoever looks at `into`, or at a view of it, sees the new values.
  void adopt(at::Tensor const& made, at::Tensor const& into) const;
};

}  // namespace fulgurite::libtorch::capture

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/tape_step.ipp>
#endif
