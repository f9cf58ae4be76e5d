#pragma once
// One operator on a tape: the recorded call, the memory for its results, and how it is run again.

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

// Out-forms: overloads that write their result to given memory. Some have the same arguments as the operator, some
// belong to other operators.

/// An operator, and where its arguments come from.
struct OutForm {
  /// Where an argument of the form comes from: the call's own arguments, the memory for its results, a constant, or the
  /// result of the form that runs before this one.
  struct Source {
    enum class Kind { given, place, constant, before };
    Kind kind;
    std::size_t index = 0;
    IValue constant = {};
  };
  c10::OperatorHandle op;
  std::vector<Source> arguments = {};
  std::optional<std::size_t> rows = std::nullopt;  ///< before the call, each row of the result becomes this argument
  std::vector<OutForm> before = {};                ///< at most one; runs first, into a tensor like the first argument
  double divisor = 1;                              ///< divides the result, after the call

  Stack stack(Stack const& given, Stack const& places, at::Tensor const& made = {}) const;
};

std::vector<c10::OperatorHandle> const& overloads(std::string const& name);

/// Returns the overload that takes the same arguments in the same order, followed by memory for each result. It must
/// have a CPU kernel of its own, and not one that calls the plain form.
std::optional<OutForm> same_arguments(c10::FunctionSchema const& plain, c10::OperatorHandle const& op);

/// Some operators have no out-form, but another operator computes the same and has one.
std::optional<OutForm> other_name(std::string const& name);

/// Computes the mean of squared differences by other operators: LibTorch's own out-form of it warns, and divides the
/// sum by a separate operator, which for a few numbers takes longer than the rest.
std::optional<OutForm> mean_of_squares(Call const& call);

// What a replay does to memory without an operator.

/// Works on dense tensors only.
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

  /// True if the first tensor has the layout of a row of the second.
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

// Finds out by trial whether an out-form gives the bits of the operator.

/// Runs both forms on copies of the call's arguments. The bits, layouts and arguments must be the same afterwards, and
/// there must be no warning.
class Trial {
 public:
  explicit Trial(Call const& call) : call_(call), quiet_(&count_) {}

  bool passes(OutForm const& form);

 private:
  struct Count : c10::WarningHandler {
    int warnings = 0;
    void process(c10::Warning const&) override { ++warnings; }
  };

  /// A copy of the tensor's bytes, at the same offset from the start of a cache line.
  static at::Tensor copy(at::Tensor const& tensor);
  static bool same_bytes(at::Tensor const& a, at::Tensor const& b);
  Stack copies() const;
  bool arguments_untouched(Stack const& now) const;

  Call const& call_;
  Count count_;
  c10::WarningUtils::WarningHandlerGuard quiet_;
};

// Finds an operator's out-form that gives the same bits, if there is one.

/// The form to call in place of this call; nullopt: call the plain form and adopt its result.
std::optional<OutForm> out_form(Call const& call);

/// The dispatch keys that a replay skips: autograd, views and autocast had their effect while recording.
c10::DispatchKeySet above_kernels();

/// A result whose memory replaces that of the recorded result. `result`: index among the call's results; `element`:
/// index in a list of tensors.
struct AdoptedResult {
  std::size_t result, element;
  bool listed;
  at::Tensor into;
};

/// A call that is run in each replay.
struct TapeStep {
  c10::OperatorHandle op;
  Stack in;
  std::size_t returns;
  bool graph, straight;
  c10::DispatchKeySet keys;
  std::vector<AdoptedResult> adopted;

  /// `stack` is scratch memory for arguments and results.
  void run(Stack& stack) const;

  /// The call in a form that writes to given memory. `place`: where its only result goes, if not to the result's own
  /// memory.
  static TapeStep written_to(Call const& call, OutForm const& form, at::Tensor const* place, at::Tensor const& before);

  /// The call in its plain form. The memory of its results is adopted.
  static TapeStep adopting(Call const& call);

  /// If the dispatcher would go straight to the CPU's kernel, the step calls that kernel directly.
  static TapeStep finished(TapeStep step);

 private:
  /// Moves the memory of `made` to `into`, so that `into` and its views have the new values.
  void adopt(at::Tensor const& made, at::Tensor const& into) const;
};

}  // namespace fulgurite::libtorch::capture

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/tape_step.ipp>
#endif
