#pragma once
// Kinds of steps. Steps that differ in their place in the accumulation window, in the shape of the batch, or in the
// answers of the context that they asked for, need recordings of their own.

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
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/data/walk.hpp>

namespace fulgurite::libtorch::capture {

// When a replay is checked against the step as it is written: ever more rarely, and never at regular distances.

class Pace {
 public:
  /// Asked before each replay.
  bool check_is_due() { return until_check_-- <= 0; }
  /// Draws the number of replays until the next check, from half of `gap` to one and a half. The distances are
  /// irregular so that something which happens in every n-th step cannot always fall between two checks. `noise`: the
  /// state of the random numbers, one for all kinds of steps.
  void next_check(std::uint64_t& noise);
  void rarer_checks();

 private:
  static constexpr long longest_gap = 512;  ///< replays
  long gap_ = 16, until_check_ = 0;
};

/// What is done with the next step of a kind: it runs as it is written on the way to a recording; it runs as it is
/// written and is compared with a replay; it is replayed; it runs as it is written for good.
enum class Next { prepare, check, replay, as_written };

/// What is known of one kind of step, however it is recorded.
struct StepKind {
  Next next = Next::prepare;
  StepKey key{};
  std::vector<std::int64_t> shape = {};
  loop::Answers answers = {};   ///< that the recorded step was given by its context
  std::vector<char> host = {};  ///< the model's bytes on the host, when the step last ran as written
  int epoch = -1;               ///< of the last check
  Pace pace = {};
  int checks = 0;            ///< passed before it is trusted
  long unchecked = 0;        ///< replays since the last check
  bool fresh = false;        ///< the one of them is the step that was recorded, whose code has just run
  int changes = 0;           ///< how often it was recorded anew because of what the host keeps
  std::string because = {};  ///< what had changed the last time, in the user's words
  bool trusted = false;      ///< its first checks have passed
  long born = 0, used = 0;
  int short_lived = 0;                   ///< how many kinds before it, different in answers alone, were never trusted
  std::shared_ptr<void> last = nullptr;  ///< the batch that was seen last
  void (*audit)(void* owner, StepKind& one, void* step) = nullptr;
};

/// The same with its recording, or what there is of it so far.
template <class Kept>
struct RecordedKind : StepKind {
  Kept kept = {};

  /// Recording begins anew.
  void anew() {
    next = Next::prepare;
    checks = 0;
    pace = {};
    trusted = false;
    [[maybe_unused]] Kept const gone = std::exchange(kept, Kept{});  // whose members go in their own order
  }
};

/// Whether the next step of this kind is to be checked: now and then, at the first replay and at the last batch of an
/// epoch, and where the host has changed.
template <class Step>
bool check_is_due(StepKind& one, World const& world, Step const& step) {
  return one.pace.check_is_due() || step.is_last() || one.epoch != step.epoch() || !world.host().same(one.host);
}

/// Why a step that has asked its context these questions cannot be replayed: an answer cannot be compared before a
/// replay, or the question is a call that a replay would leave out. Empty: it can be replayed.
std::string out_of_reach(loop::Questions const& asked);

/// Added to a warning where a check fails although others had passed.
inline constexpr char const* seen_late =
    ". Checks before had found nothing: some of the steps replayed before may be wrong";

/// All kinds of one model's steps. `P` is a RecordedKind.
template <class P>
class StepKinds {
 public:
  static constexpr std::size_t most = 64;

  /// The kind of this step, or nullptr if there is none yet. All that its recorded step asked the context must have the
  /// same answers now.
  template <class Step>
  P* find(StepKey key, std::vector<std::int64_t> const& shape, Step const& step) {
    for (auto& one : kinds_)
      if (one->key == key && one->shape == shape && !step.changed(one->answers)) {
        one->used = ++clock_;
        return one.get();
      }
    return nullptr;
  }

  /// Adds the kind of this step. `why`: if kinds of this key and shape differ again and again in an answer of the
  /// context, the question; such steps stay as they are written. `audit(kind)` is called before a kind that was not
  /// used for long is dropped.
  template <class Step, class Audit>
  P& add(StepKey key, std::vector<std::int64_t> const& shape, Step const& step, std::string& why, Audit&& audit) {
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
    if (short_lived == most_short_lived)
      why = "training_step asks ctx." + std::string(loop::name_of(*step.changed(newest->answers))) +
            "(), which is another number at each step";
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
    one.born = one.used = ++clock_;
    one.short_lived = short_lived;
    return one;
  }

  /// Keeps the batch of the step. All kinds of one shape share it: were it held twice, a loader could not use its
  /// memory again.
  template <class Batch>
  void keep(P& one, Batch const& batch) {
    if (!one.last) {
      for (auto& other : kinds_)
        if (other->shape == one.shape && other->last) one.last = other->last;
      if (!one.last) one.last = std::make_shared<Batch>(batch);
    }
    *static_cast<Batch*>(one.last.get()) = batch;
  }

  /// Checks each kind that was replayed since its last check.
  template <class Step>
  void audit(void* owner, Step& step) {
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

// What passes between the machine that decides what is done with a step (CapturedSteps) and what records and replays it
// (Tapes, Graphs).

/// The step at hand: the strategy that runs it, its place in the accumulation window, what it logs to, and what the
/// loop tells of it.
template <class Strategy, class Board, class Seam>
struct StepAtHand {
  Strategy& strategy;
  StepKey key;
  Board& board;
  Seam& seam;

  /// Runs it as it is written.
  template <class Batch>
  auto operator()(Batch& batch) const {
    return strategy.gradients(key, batch, board, seam);
  }
};

/// What a step may touch: the model, and the tensors of its batch (in order; those that are not there are undefined).
struct Scene {
  World& world;
  torch::nn::Module const& model;
  std::vector<at::Tensor> const& batch;

  /// The model is not what it was when the first step was recorded.
  bool changed() const;
};

/// What came of a step on the way to a recording.
template <class Result>
struct Prepared {
  std::optional<Result> result = std::nullopt;  ///< none: nothing was executed, and the step is still to do
  bool changed = false;                         ///< the model was changed in it, so that all recordings are void
  bool sound = false;                           ///< nothing speaks against recording it
  bool repeated = false;     ///< it was the step before once more, whatever the host has changed in between
  bool ready = false;        ///< there is a recording now, which has to be checked
  std::string refusal = {};  ///< why steps of this kind run as they are written for good; empty: they need not
};

/// A step as it is written against its replay. `Ran` has the members result and changed, as Prepared does.
template <class Ran>
struct Compared {
  Ran ran = {};
  std::string wrong = {};  ///< what differs; empty: nothing
};

/// Where bits differ.
inline constexpr char const* other_bits =
    "a replay does not give the same bits as the step: it uses something that no operator shows, as a number of the "
    "host that changes";

/// A member that has another value until the scope ends.
template <class T>
class SetFor {
 public:
  SetFor(T& at, T value) : at_(at), before_(at) { at_ = value; }
  ~SetFor() { at_ = before_; }
  SetFor(SetFor const&) = delete;
  SetFor& operator=(SetFor const&) = delete;

 private:
  T& at_;
  T before_;
};

// Batches and results as a recording sees them: their tensors in a fixed order.

template <class T, std::size_t Depth>
consteval bool only();

template <std::size_t Depth>
struct AllOf {
  template <class... Fields>
  constexpr auto operator()(Fields&...) const
      -> std::bool_constant<(only<std::remove_const_t<Fields>, Depth>() && ...)> {
    return {};
  }
};

template <class T, std::size_t... I, std::size_t Depth>
consteval bool tuple_only(std::index_sequence<I...>, std::integral_constant<std::size_t, Depth>) {
  return (only<std::remove_const_t<std::tuple_element_t<I, T>>, Depth>() && ...);
}

template <class T, std::size_t Depth>
consteval bool only() {
  if constexpr (TensorLike<T>) return true;
  else if constexpr (Depth == 0 || !(std::is_class_v<T> || std::is_bounded_array_v<T>) || PackedSequenceLike<T>)
    return false;
  else if constexpr (walk::is_example<T>) {
    if constexpr (std::is_void_v<typename T::TargetType>) return only<typename T::DataType, Depth - 1>();
    else return only<typename T::DataType, Depth - 1>() && only<typename T::TargetType, Depth - 1>();
  } else if constexpr (walk::is_optional<T> || walk::Container<T>)
    return only<std::remove_const_t<typename T::value_type>, Depth - 1>();
  else if constexpr (std::is_bounded_array_v<T>) return only<std::remove_const_t<std::remove_extent_t<T>>, Depth - 1>();
  else if constexpr (walk::TupleLike<T>)
    return tuple_only<T>(std::make_index_sequence<std::tuple_size_v<T>>{},
                         std::integral_constant<std::size_t, Depth - 1>{});
  else if constexpr (aggregate::fields<T> != 0)
    return decltype(aggregate::with_fields(std::declval<T&>(), AllOf<Depth - 1>{}))::value;
  else return false;
}

/// Whether a T holds nothing but tensors, in containers that are known. A step would use a number, a text or a class
/// that cannot be looked into without the recording knowing of it.
template <class T>
inline constexpr bool only_tensors = only<std::remove_cvref_t<T>, 6>();

/// f(tensor) for each place of a tensor, whether there is one or not; extent(n) for the length of each container and
/// optional.
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

/// Everything about a batch that decides which recording it needs, and what its metrics weigh. On the CPU this includes
/// where in a cache line each tensor begins, since kernels may add in another order elsewhere.
template <class B>
void shape_of(B const& batch, std::vector<std::int64_t>& row) {
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
        if (tensor.device().is_cpu() && tensor.has_storage())
          row.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64));
      },
      [&](std::int64_t n) { row.push_back(n); });
  // A batch that says its own size decides with it what logged values weigh.
  if constexpr (requires {
                  { batch.batch_size() } -> std::convertible_to<std::int64_t>;
                })
    row.push_back(batch.batch_size());
}

/// The shape and the tensors of the batch while one step runs: no longer, since loaders reuse memory that nobody holds.
class HeldLeaves {
 public:
  template <class Batch>
  HeldLeaves(std::vector<std::int64_t>& shape, std::vector<at::Tensor>& leaves, Batch const& batch) : leaves_(leaves) {
    shape_of(batch, shape);
    each_leaf(batch, [&](at::Tensor const& tensor) { leaves_.push_back(tensor); }, [](std::int64_t) {});
  }
  ~HeldLeaves() { leaves_.clear(); }
  HeldLeaves(HeldLeaves const&) = delete;
  HeldLeaves& operator=(HeldLeaves const&) = delete;

 private:
  std::vector<at::Tensor>& leaves_;
};

// What leaves a step: the tensors that training_step returns, and those that it logs.

/// Where a logged tensor goes, and what it weighs there.
struct Logged {
  std::size_t metric;
  double weight;
  Origin origin;
  friend bool operator==(Logged const&, Logged const&) = default;
};

struct Left {
  std::vector<at::Tensor> tensors = {};  ///< of the result, then those logged
  std::vector<bool> of_model = {};       ///< of each: its memory is the model's, and so it is given away as it is
  std::vector<Logged> logged = {};
  std::string refusal = {};  ///< why a replay could not give these; empty: it can
};

/// What leaves a step that has just run. The result and the logged tensors are cut off from autograd: nobody needs its
/// graph any more, and whoever held it would hold memory of the step.
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
  each_leaf(
      result,
      [&](at::Tensor& tensor) {
        if (tensor.defined()) take(tensor);
      },
      [](std::int64_t) {});
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

/// Gives a replay's results away: the result, and the logged tensors to the board. `copy(number)`: what is given in
/// place of that tensor, which the next replay overwrites.
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

// Puts a model back to what it was when its steps were recorded, to check replays after which it was changed.

/// While this lives, the switches and numbers of the model are what they were. Only so can replays before a change be
/// told from wrong ones.
class Earlier {
 public:
  Earlier(World const& world, torch::nn::Module const& model, std::vector<char> const& host);
  ~Earlier();
  Earlier(Earlier const&) = delete;
  Earlier& operator=(Earlier const&) = delete;

  /// Whether the model is what it was. It is not if it has other tensors or modules, if the memory or the hooks of a
  /// tensor are others, or if LibTorch's switches are.
  bool reached() const { return reached_; }
  /// At the end the switches stay as they were: the fit goes back to that time.
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
