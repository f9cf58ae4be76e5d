#pragma once
// Kinds of steps. Steps that differ in their place in the accumulation window, in the shape of the batch, in its weight
// for what is logged, in a number of it, or in a value that they read from the context, need recordings of their own.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/data/walk.hpp>

namespace fulgurite::libtorch::capture {

// Decides when a replay is checked against the step as it is written: ever more rarely, and never at regular intervals.

class Pace {
 public:
  /// Called before each replay.
  bool check_is_due() { return until_check_-- <= 0; }
  /// True if the next call of check_is_due() returns true.
  bool is_over() const { return until_check_ <= 0; }
  /// Draws the number of replays until the next check, between 0.5 and 1.5 times `gap`. The intervals are irregular so
  /// that an event in every n-th step cannot always fall between two checks. `noise`: the state of the random numbers,
  /// shared by all kinds of steps.
  void next_check(std::uint64_t& noise);
  /// The interval doubles, up to `longest` replays.
  void rarer_checks(long longest);

 private:
  long gap_ = 16, until_check_ = 0;
};

/// What is done with the next step of a kind. `prepare`: it runs as it is written, on the way to a recording. `check`:
/// it runs as it is written and is compared with a replay. `replay`: it is replayed. `as_written`: this kind is never
/// replayed again.
enum class Next { prepare, check, replay, as_written };

/// What is known about one kind of step, whether tapes or graphs record it.
struct StepKind {
  Next next = Next::prepare;
  StepKey key{};
  std::vector<std::int64_t> shape = {};
  std::int64_t weight = 0;                  ///< of what the step logs
  std::optional<std::string> numbers = {};  ///< what the batch holds besides tensors; nullopt: anything, of any weight
  loop::Answers answers = {};               ///< what the recorded step read from its context
  std::vector<char> host = {};              ///< the model's bytes on the host, when the step last ran as written
  int epoch = -1;                           ///< epoch of the last check
  Pace pace = {};
  int checks = 0;            ///< checks passed so far, counted until the kind is trusted
  long unchecked = 0;        ///< replays since the last check
  bool fresh = false;        ///< the only unchecked replay is of the step just recorded, whose code has also run
  int changes = 0;           ///< how often it was recorded again because the model's host bytes changed
  std::string because = {};  ///< what changed last time, in the user's words
  bool trusted = false;      ///< its first checks have passed
  int idle = 0;              ///< checks in a row as an epoch begins or ends, while no step of any kind was replayed
  long replays = 0;          ///< the number of replays at that time
  long born = 0, used = 0;
  int short_lived = 0;                   ///< earlier kinds that differ in answers only and were never trusted
  std::shared_ptr<void> last = nullptr;  ///< the last batch of this kind
  void (*audit)(void* owner, StepKind& one, void* step) = nullptr;
};

/// A StepKind with its recording, or with what has been recorded so far.
template <class Kept>
struct RecordedKind : StepKind {
  Kept kept = {};

  /// Starts a new recording.
  void restart() {
    next = Next::prepare;
    checks = 0;
    pace = {};
    trusted = false;
    [[maybe_unused]] Kept const gone = std::exchange(kept, Kept{});  // destroys the members in their declared order
  }
};

/// Returns true if the next step of this kind has to be checked: when Pace says so, at the first replay and the last
/// batch of an epoch, and where the host has changed.
bool check_is_due(StepKind& one, World const& world, auto const& step) {
  return one.pace.check_is_due() || step.is_last() || one.epoch != step.epoch() || !world.host().same(one.host);
}

/// The reason why a step that called these members of its context cannot be replayed: a value cannot be compared before
/// a replay, or the call has an effect that a replay would skip. Empty if it can be replayed.
std::string not_replayable(loop::Questions const& asked);

/// A batch as recordings see it.
struct Parts {
  std::vector<std::int64_t> shape = {};
  std::int64_t weight = 0;               ///< of what the step logs
  std::string numbers = {};              ///< the bytes of what it holds besides tensors
  std::vector<at::Tensor> tensors = {};  ///< in order; absent ones are undefined
};

/// Appended to a warning if a check fails after earlier ones had passed.
inline constexpr char const* found_late =
    ". Checks before had found nothing: some of the steps replayed before may be wrong";

/// All kinds of steps of one model. `P` is a RecordedKind.
template <class P>
class StepKinds {
 public:
  static constexpr std::size_t most = 64;

  /// Returns the kind of this step, or nullptr if there is none yet. A kind matches only if the batch's weight, its
  /// numbers and everything that its recorded step read from the context have the same values now.
  P* find(StepKey key, Parts const& batch, auto const& step) {
    for (auto& one : kinds_)
      if (one->key == key && one->shape == batch.shape &&
          (!one->numbers || (one->weight == batch.weight && *one->numbers == batch.numbers)) &&
          !step.changed(one->answers)) {
        one->used = ++clock_;
        return one.get();
      }
    return nullptr;
  }

  /// Adds the kind of this step. If kinds of this key and shape keep differing in one value read from the context, or
  /// in the batch's weight or numbers, `why` says so, and such steps run as they are written. Calls `audit(kind)`
  /// before it drops a kind that was not used for long.
  P& add(StepKey key, Parts const& batch, auto const& step, std::string& why, auto&& audit) {
    auto const& shape = batch.shape;
    P* newest = nullptr;
    P* oldest = nullptr;
    std::size_t alike = 0;
    for (auto& one : kinds_) {
      if (!(one->key == key && one->shape == shape)) continue;
      ++alike;
      if (!newest || one->born > newest->born) newest = one.get();
      if (!oldest || one->used < oldest->used) oldest = one.get();
    }
    int const short_lived = newest && !newest->trusted ? newest->short_lived + 1 : 0;
    if (short_lived == most_short_lived) {
      auto const question = step.changed(newest->answers);
      why = question
                ? "training_step reads ctx." + std::string(loop::name_of(*question)) + "(), which changes too often"
            : newest->weight != batch.weight
                ? "the batch's batch_size, which weights what is logged, changes too often"
                : "the batch holds a number or a text that changes too often: put it into a tensor, which a "
                  "replay reads each time";
    }
    if (alike == most_alike || !why.empty()) {
      for (auto& one : kinds_)
        if (one->key == key && one->shape == shape && (one.get() == oldest || !why.empty()) && one->unchecked != 0)
          audit(*one);
      std::erase_if(kinds_, [&](auto const& one) {
        return one->key == key && one->shape == shape && (one.get() == oldest || !why.empty());
      });
    }
    auto& one = *kinds_.emplace_back(std::make_unique<P>());
    one.key = key;
    one.shape = shape;
    one.weight = batch.weight;
    if (why.empty()) one.numbers = batch.numbers;
    one.born = one.used = ++clock_;
    one.short_lived = short_lived;
    return one;
  }

  /// Keeps the step's batch. All kinds of one shape and the same numbers share it: if it were held twice, a loader
  /// could not reuse its memory.
  template <class Batch>
  void keep(P& one, Batch const& batch) {
    if (!one.last) {
      for (auto& other : kinds_)
        if (other->shape == one.shape && other->numbers == one.numbers && other->last) one.last = other->last;
      if (!one.last) one.last = std::make_shared<Batch>(batch);
    }
    *static_cast<Batch*>(one.last.get()) = batch;
  }

  /// Checks each kind that was replayed since its last check.
  void audit(void* owner, auto& step) {
    for (auto& one : kinds_)
      if (one->unchecked != 0) one->audit(owner, *one, &step);
  }

  bool full() const { return kinds_.size() == most; }
  void clear() { kinds_.clear(); }

 private:
  static constexpr std::size_t most_alike = 4;
  static constexpr int most_short_lived = 4;

  std::vector<std::unique_ptr<P>> kinds_;
  long clock_ = 0;
};

// The interface between CapturedSteps, which decides what is done with a step, and Tapes and Graphs, which record and
// replay it.

/// The current step: the strategy that runs it, its place in the accumulation window, the board it logs to, and its
/// view of the loop.
template <class Strategy, class Board, class Seam>
struct CurrentStep {
  Strategy& strategy;
  StepKey key;
  Board& board;
  Seam& seam;

  /// Runs the step as it is written.
  template <class Batch>
  auto operator()(Batch& batch) const {
    return strategy.gradients(key, batch, board, seam);
  }
};

/// What a step may touch: the model, and the tensors of its batch, in order (absent ones are undefined tensors).
struct Scene {
  World& world;
  torch::nn::Module const& model;
  std::vector<at::Tensor> const& batch;

  /// True if the model differs from what it was when the first step was recorded.
  bool changed() const;
};

/// The outcome of a step on the way to a recording.
template <class Result>
struct Prepared {
  std::optional<Result> result = std::nullopt;  ///< none: nothing was executed, and the step has yet to run
  bool changed = false;                         ///< the step changed the model, so all recordings are invalid
  bool sound = false;                           ///< the step can be recorded
  bool repeated = false;                        ///< it repeated the step before, in spite of changes on the host
  bool ready = false;                           ///< there is a recording now, still to be checked
  std::string refusal = {};                     ///< why steps of this kind can never be replayed; empty: they can
};

/// The comparison of a step as it is written with its replay. `Ran` has the members result and changed, as Prepared
/// does.
template <class Ran>
struct Compared {
  Ran ran = {};
  std::string wrong = {};  ///< what differs; empty: nothing
};

/// The reason given where bits differ.
inline constexpr char const* other_bits =
    "a replay does not give the same bits as the step: it uses something that no operator shows, as a number of the "
    "host that changes";

/// The reason given where the trainer's turn in a step logs, which a replay would repeat.
inline constexpr char const* hook_logs = "a hook of an optimizer's step logs: log in on_train_batch_end";

/// Bytes. Kernels may sum in another order at another offset of a tensor in its line.
inline constexpr std::uintptr_t cache_line = 64;

/// Memory of the same strides, also if there are gaps, and with the same offset in a cache line. A tensor whose
/// elements share memory gets memory without that.
at::Tensor memory_like(at::Tensor const& tensor);

/// The number of values that a step has logged so far.
std::size_t pending(auto const& board) {
  std::size_t n = 0;
  board.each_pending([&](auto const&) { ++n; });
  return n;
}

/// Sets a member to a value until the scope ends.
template <class T>
class SetFor : Pinned {
 public:
  SetFor(T& at, T value) : at_(at), before_(at) { at_ = value; }
  ~SetFor() { at_ = before_; }

 private:
  T& at_;
  T before_;
};

// Batches and results as a recording sees them: their tensors in a fixed order.

/// What a batch or a result may hold besides tensors: compared byte by byte, so a type without unused bytes.
template <class T>
concept HostNumber = std::is_enum_v<T> || (std::is_arithmetic_v<T> && !std::same_as<T, long double>);

template <class T, std::size_t Depth>
consteval bool only() {
  constexpr auto all = []<class... Parts>(walk::Types<Parts...>) { return (only<Parts, Depth - 1>() && ...); };
  if constexpr (TensorLike<T> || HostNumber<T> || std::same_as<T, std::string>) return true;
  else if constexpr (std::same_as<T, std::vector<bool>>) return false;  // its elements cannot be referred to
  else if constexpr (Depth == 0 || !(std::is_class_v<T> || std::is_bounded_array_v<T>) || PackedSequenceLike<T>)
    return false;
  else if constexpr (walk::HasElements<T>) return all(walk::element_types<T>());
  else if constexpr (aggregate::fields<T> != 0) return all(walk::FieldTypes<T>{});
  else return false;
}

/// True if T holds nothing but tensors, numbers and texts, in known containers. If T held a class that cannot be looked
/// into, a step could use what is in it unnoticed by the recording.
template <class T>
inline constexpr bool is_known = only<std::remove_cvref_t<T>, 6>();

/// Calls `f(tensor)` for each place that can hold a tensor, empty or not, and `extent(n)` for the length of each
/// container and optional.
template <class T, class F, class G>
void each_leaf(T& object, F&& f, G&& extent) {
  using B = std::remove_const_t<T>;
  if constexpr (TensorLike<B>) f(object);
  else {
    if constexpr (walk::is_optional<B>) extent(static_cast<std::int64_t>(object.has_value()));
    else if constexpr (requires { object.size(); }) extent(static_cast<std::int64_t>(object.size()));
    each_part(object, [&](auto& part) { each_leaf(part, f, extent); });
  }
}

/// Appends the bytes of the numbers and texts in an object, in order, and the lengths of its texts.
template <class T>
void append_numbers(T const& object, std::string& bytes) {
  if constexpr (HostNumber<T>) {
    bytes.append(reinterpret_cast<char const*>(&object), sizeof object);
  } else if constexpr (std::same_as<T, std::string>) {
    append_numbers(object.size(), bytes);
    bytes += object;
  } else if constexpr (!TensorLike<T>) {
    each_part(object, [&](auto const& part) { append_numbers(part, bytes); });
  }
}

/// Writes everything about a batch, beside its numbers and texts, that decides which recording it needs. This includes
/// each tensor's offset in its cache line.
void shape_of(auto const& batch, std::vector<std::int64_t>& row) {
  row.clear();
  each_leaf(
      batch,
      [&](at::Tensor const& tensor) {
        row.push_back(tensor.defined());
        if (!tensor.defined()) return;
        row.push_back(static_cast<std::int64_t>(tensor.key_set().raw_repr()));
        row.push_back(static_cast<std::int64_t>(tensor.scalar_type()));
        row.push_back(tensor.requires_grad());
        row.push_back(tensor.dim());
        if (tensor.layout() != at::kStrided) return;
        row.insert(row.end(), tensor.sizes().begin(), tensor.sizes().end());
        row.insert(row.end(), tensor.strides().begin(), tensor.strides().end());
        if (tensor.has_storage())
          row.push_back(
              static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % cache_line));
      },
      [&](std::int64_t n) { row.push_back(n); });
}

/// Holds the parts of the batch while one step runs, and its tensors no longer, since loaders reuse memory that is not
/// held.
class HeldParts : Pinned {
 public:
  HeldParts(Parts& parts, auto const& batch, std::int64_t weight) : parts_(parts) {
    shape_of(batch, parts.shape);
    parts.weight = weight;
    parts.numbers.clear();
    append_numbers(batch, parts.numbers);
    each_leaf(batch, [&](at::Tensor const& tensor) { parts_.tensors.push_back(tensor); }, [](std::int64_t) {});
  }
  ~HeldParts() { parts_.tensors.clear(); }

 private:
  Parts& parts_;
};

// The outputs of a step: the tensors that training_step returns, and those that it logs.

/// The metric that a logged tensor belongs to, and its weight.
struct Logged {
  std::size_t metric;
  double weight;
  Origin origin;
  friend bool operator==(Logged const&, Logged const&) = default;
};

struct Left {
  std::vector<at::Tensor> tensors = {};  ///< those of the result, then the logged ones
  std::vector<bool> of_model = {};       ///< for each tensor: it lives in the model's memory, so it is not copied
  std::vector<Logged> logged = {};
  std::string numbers = {};  ///< the bytes of what the result holds besides tensors, and of its extents
  std::string refusal = {};  ///< why a replay cannot produce these; empty: it can
};

/// The reason given where all steps are checked.
inline constexpr char const* never_replayed =
    "epochs are so short that each step is checked, as the first of its kind or as the last of its epoch, and none is "
    "replayed: let an epoch have more batches";

/// The reason given where a step returns other numbers than its recording.
inline constexpr char const* other_numbers =
    "training_step returns a number or a text that is not the same each time: return it as a tensor, or log it";

/// Collects the outputs of a step that has just run. The result and the logged tensors are detached, since whoever kept
/// their autograd graph would keep the step's memory alive.
template <class Result, class Board>
Left cut_off(Result& result, Board& board, World const& world) {
  Left left;
  auto const refuse = [&](std::string reason) {
    if (left.refusal.empty()) left.refusal = std::move(reason);
  };
  auto const take = [&](at::Tensor& tensor) {
    left.tensors.push_back(detached(tensor));
    tensor = detached(tensor);
    bool const plain = is_plain(tensor, world.device());
    left.of_model.push_back(plain && world.number(storage_of(tensor)).has_value());
    if (!plain) refuse("the step returns or logs a tensor that is not a dense real one of " + name_of(world.device()));
  };
  append_numbers(result, left.numbers);
  each_leaf(
      result,
      [&](at::Tensor& tensor) {
        append_numbers(tensor.defined(), left.numbers);
        if (tensor.defined()) take(tensor);
      },
      [&](std::int64_t n) { append_numbers(n, left.numbers); });
  std::vector<typename Board::Entry> entries;
  board.each_pending([&](auto const& entry) { entries.push_back(entry); });
  board.discard_step();
  for (auto& entry : entries) {
    if (entry.value.defined()) {
      take(entry.value);
      left.logged.push_back({entry.metric, entry.weight, entry.origin});
    } else {
      refuse("a tensor without value is logged");
    }
    board.post(entry);
  }
  return left;
}

/// Hands out a replay's outputs: returns the result, and logs the logged tensors to the board. `copy(number)` returns
/// what is handed out in place of that tensor, which the next replay overwrites.
template <class Result, class Board, class Copy>
Result give_away(Left const& left, Result result, Board& board, Copy&& copy) {
  std::size_t next = 0;
  each_leaf(
      result,
      [&](at::Tensor& tensor) {
        if (!tensor.defined()) return;
        tensor = left.of_model[next] ? detached(left.tensors[next]) : copy(next);
        ++next;
      },
      [](std::int64_t) {});
  for (auto const& logged : left.logged) board.post({logged.metric, copy(next++), logged.weight, logged.origin});
  return result;
}

// Sets a model back to the state in which its steps were recorded, so that replays before a change can be checked.

/// While this object lives, the model's switches and numbers are the earlier ones. Otherwise a check could not
/// distinguish wrong replays from right ones that came before a change.
class Earlier : Pinned {
 public:
  Earlier(World const& world, torch::nn::Module const& model, std::vector<char> const& host);
  ~Earlier();

  /// True if the model is in its earlier state. It is not if it has other tensors or modules, if a tensor's memory or
  /// hooks have been replaced, or if LibTorch's switches differ.
  bool reached() const { return reached_; }
  /// Keeps the earlier switches after this object's end, because the fit rolls back to that state.
  void stay() { stays_ = true; }

 private:
  World const& world_;
  bool of_model_;
  World::Switches now_;
  std::optional<HostBytes::Earlier> numbers_ = std::nullopt;
  bool reached_ = false, stays_ = false;
};

}  // namespace fulgurite::libtorch::capture

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/step_kind.ipp>
#endif
