#pragma once
// Kinds of steps. Steps that differ in their place in the accumulation window, in the shape of the batch, or in the
// answers of the context that they asked for, need recordings of their own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/torch/capture/pace.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::capture {

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
FULGURITE_BULK std::string out_of_reach(loop::Questions const& asked) {
  using loop::Question;
  std::string why;
  asked.each([&](Question question) {
    if (!why.empty() || question < Question::comparable) return;
    auto const call = "ctx." + std::string(loop::name_of(question)) + "()";
    if (question == Question::value || question == Question::optimizers || question == Question::seconds ||
        question == Question::outcome)
      why = "training_step asks " + call + ", whose answer may be another each time";
    else why = "training_step calls " + call + ", which a replay would leave out";
  });
  return why;
}

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

}  // namespace fulgurite::libtorch::capture
