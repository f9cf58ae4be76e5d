#pragma once
// One operator on a tape: the recorded call, the memory for its results, and how it is run again.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/native/products.hpp>
#include <fulgurite/torch/native/small_call.hpp>
#include <fulgurite/torch/optim/clip.hpp>

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
    native::each_number(
        n, [](auto& y, auto const& value) __attribute__((always_inline)) { y = T(0) + value; }, to, from);
  }

 private:
  static void repeat(at::Tensor const& row, at::Tensor const& all);
  static void clear(at::Tensor const& tensor);
  static void add(at::Tensor const& to, at::Tensor const& from);
  void divide(at::Tensor const& tensor) const;
  template <class T>
  static void divide(T* values, T by, std::int64_t n) {
    native::each_number(
        n, [=](auto& y, auto const& value) __attribute__((always_inline)) { y = value / by; }, values, values);
  }
};

// Finds an operator's out-form that gives the same bits, if there is one.

/// The form to call in place of this call; nullopt: call the plain form and adopt its result.
std::optional<OutForm> out_form(Call const& call);

/// The dispatch keys that a replay skips: autograd, views and autocast had their effect while recording.
c10::DispatchKeySet above_kernels();

/// True for an operator that a kernel of this library in front of LibTorch's may compute while the scope for products
/// on this thread is open (native/fastest.hpp). A tape has to call it where the step as it is written does.
bool may_be_ours(c10::OperatorHandle const& op);

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

// The memory of a tape: a recorded step's results get memory of their own, and share it where possible.

// Where the results of a tape are placed: results that are never needed at the same time share memory, as in a step
// that frees what it no longer needs.

/// Gives memory to storages that have none so far. If each result of a tape had a place of its own, a replay would
/// touch several times as much memory as a plain step, and more than fits into the caches. For larger nets that costs
/// more than a replay saves.
class MemoryPlan : Pinned {
 public:
  MemoryPlan() = default;

  /// This storage gets its memory elsewhere, or keeps it permanently, so it shares memory with no other.
  void leave_out(Storage storage) { apart_.insert(storage); }
  /// The tape's step with this index reads or writes the storage.
  void use(Storage storage, std::size_t step);

  std::size_t last_use(Storage storage) const { return uses_.at(storage).last; }

  /// Gives memory to all storages that were used and not left out. Each place begins at a cache line, as LibTorch's own
  /// memory does, since kernels may sum in another order at another alignment.
  void lay_out();

  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t line = 64;
  struct Use {
    std::size_t number, first, last;  ///< index in the order of first uses; first and last step
    Use(std::size_t n, std::size_t from, std::size_t to);
  };
  struct Place {
    Storage storage;
    std::size_t begin, end, last;
  };

  std::unordered_map<Storage, Use> uses_;
  std::unordered_set<Storage> apart_;
  std::size_t bytes_ = 0;
  at::DataPtr memory_;
};

// A matrix product on a tape: calls the certified kernel directly in place of LibTorch's product.

/// The positions of such a call's arguments.
struct ProductArguments {
  std::size_t a, b;
  bool adds;  ///< the first argument is added to the product
};
std::optional<ProductArguments> product_arguments(Call const& call);

/// Returns the plan of a recorded product, or nullptr if the scope open on this thread does not want one. Must be
/// called while the recorded values are still in memory. `and_then`: what follows the product. Epilogue::zero_plus: the
/// result goes to a gradient that was cleared before; then_onto, then_row: it is added to the gradient `other`, or the
/// row `other` to it. A call that adds something itself can do nothing else.
native::Plan const* plan_of(Call const& call, native::Epilogue and_then, at::Tensor const* other = nullptr);

struct Product {
  native::Plan const* plan;
  at::Tensor a, b, c, start;
  bool fastest;  ///< the plan's bits are wanted whatever LibTorch's are

  /// `place`: where the result goes, if not to its own memory; else nullptr. `row`: that of Epilogue::then_row.
  Product(native::Plan const& by, Call const& call, at::Tensor const* place, at::Tensor const* row);

  /// To be called before the first `run`, and when a tensor has other memory.
  void look_up();
  void run() const;

 private:
  float const *a_at_ = nullptr, *b_at_ = nullptr, *start_at_ = nullptr;
  float* c_at_ = nullptr;
  bool any_threads_ = false;  ///< the number of LibTorch's threads does not matter
};

// Inspects each large gradient of a tape right after its last write, while it is in the cache: see GradientLooks.

/// One look. If the last write is 0 + x, the look does it, too, in stretches that stay in the first-level cache.
struct TapeLook {
  std::shared_ptr<SeenGradients> seen;
  at::Tensor gradient, added = {};  ///< the parameter's own handle; the x of 0 + x, or undefined
  bool finite = true;

  void run();
  /// Reports the look. Call it after the version counters have been incremented as in the recorded step.
  void report() const;

 private:
  static constexpr std::int64_t stretch = 4096;

  template <class T>
  void run(std::size_t size) {
    auto* const to = static_cast<T*>(gradient.mutable_data_ptr());
    auto const* const from = added.defined() ? static_cast<T const*>(added.const_data_ptr()) : nullptr;
    bool const looks = seen->looks();
    if (!from) return void(finite = !looks || all_finite(gradient));
    std::atomic<bool> all = true;
    in_parts(static_cast<std::int64_t>(size), [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; i += stretch) {
        auto const length = std::min(stretch, end - i);
        Memory::zero_plus(to + i, from + i, length);
        if (looks && !all_finite(to + i, static_cast<std::size_t>(length))) all = false;
      }
    });
    finite = all;
  }
};

/// Where the trainer acts in a replay.
struct TapeTurn {
  loop::Turn turn;
  at::Tensor loss;                           ///< or undefined
  std::vector<at::Tensor> model;             ///< what it may read and write
  std::vector<c10::VariableVersion> before;  ///< of the model's tensors: incremented first, as the step did

  TapeTurn(Call const& call, std::vector<c10::VariableVersion> written);
};

/// Calls `f(tensor)` for each tensor that a step of a tape may read or write.
void each_tensor_of_step(auto const& what, auto f) {
  if (auto const* call = std::get_if<TapeStep>(&what)) {
    each_tensor_of(call->in, f);
    for (auto const& result : call->adopted) f(result.into);
  } else if (auto const* product = std::get_if<Product>(&what)) {
    for (auto const* tensor : {&product->a, &product->b, &product->c, &product->start})
      if (tensor->defined()) f(*tensor);
  } else if (auto const* small = std::get_if<native::SmallCall>(&what)) {
    for (auto const* tensors : {&small->in, &small->out})
      for (auto const& tensor : *tensors) f(tensor);
  } else if (auto const* memory = std::get_if<Memory>(&what)) {
    for (auto const& tensor : memory->tensors) f(tensor);
  } else if (auto const* turn = std::get_if<TapeTurn>(&what)) {
    if (turn->loss.defined()) f(turn->loss);
    for (auto const& tensor : turn->model) f(tensor);
  } else {
    auto const& look = std::get<TapeLook>(what);
    f(look.gradient);
    if (look.added.defined()) f(look.added);
  }
}

/// The calls of a step, the steps of its tape, and their memory.
class TapeMemory {
 protected:
  struct Entry {
    std::variant<TapeStep, Memory, Product, native::SmallCall, TapeLook, TapeTurn> what;
    std::vector<Storage>
        done;            ///< adopted memory that is no longer needed and still in the caches, for the next allocations
    bool moves = false;  ///< a tensor has other memory in each replay

    /// Looks up where the tensors are.
    void look_up();
  };

  TapeMemory(std::vector<Call> calls, std::vector<at::Tensor> leaving);

  bool is_constant(Call const& call) const;

  /// The index of the last step that may write to this memory; nullopt: no step does.
  std::optional<std::size_t> last_to_touch(at::Tensor const& memory) const;
  /// Inserts a look after the last write to each large gradient of these parameters.
  void add_looks(std::vector<at::Tensor> const& parameters);

  /// Adds a call to those that describe(trainer) lists. `product`: the kernel that computes it, or nullptr.
  void count(Call const& call, char const* kernel, native::Plan const* product = nullptr);

  /// Gives the batch, and everything that the step computes, new storages that no other tensor uses. Those of computed
  /// tensors have no memory yet.
  void own_memory(Listing const& listing, std::vector<at::Tensor> const& batch);
  static at::Storage without_memory(std::size_t bytes);
  /// A tensor of the same shape in memory of the tape.
  at::Tensor scratch_like(at::Tensor const& tensor);
  /// A tensor of the batch in the tape. `bytes`: its size, or 0 if its numbers are not dense. `lent`: it is large, and
  /// a replay leaves nothing in it, so that replays read the batch itself; between replays the storage has no memory.
  struct Fed {
    Storage storage;
    std::size_t offset, bytes;
    bool lent;
  };
  void prepare_feeding();
  /// Copies a batch into the tape's memory, or lends its memory to the tape, until TakesBack takes it back.
  void feed(std::vector<at::Tensor> const& batch);
  struct TakesBack : Pinned {
    std::vector<Fed> const& fed;
    ~TakesBack();
  };

  /// Gives the storage memory filled with a pattern, so that bytes which no call sets are easy to notice.
  void fill(Storage storage);

  /// Gives memory to what the step computes. The step's outputs, constants, and memory that the step allocates itself
  /// and may fill in part have places of their own. Adopted results bring their memory along, which is freed after its
  /// last use.
  void share_memory(std::vector<TapeStep> const& constants);

  MemoryPlan plan_;
  std::vector<Call> calls_;
  std::vector<Entry> steps_;
  std::vector<at::Tensor> inputs_, leaving_;
  std::vector<Fed> fed_;
  std::vector<at::Storage> retired_;
  std::unordered_set<Storage> made_, rewritten_;
  TapeFacts facts_;
};

}  // namespace fulgurite::libtorch::capture

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/tape_step.ipp>
#endif
