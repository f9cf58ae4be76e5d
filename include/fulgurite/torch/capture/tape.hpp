#pragma once
// A recorded step, made ready to be run again. It gets memory of its own; views and calls without effect are left out;
// where an operator allocates its results, their memory takes the place of what the recorded step had.

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/tape_memory.hpp>
#include <fulgurite/torch/capture/tape_step.hpp>
#include <fulgurite/torch/native/products.hpp>
#include <fulgurite/torch/native/small_call.hpp>

namespace fulgurite::libtorch::capture {

// A step clears its gradients and then adds to them. A replay writes them where they belong instead: without the
// clearing, without the addition, and if possible without memory in between.

/// Finds, after each zero_() of the model's memory, what is added first to a slice of it. If that is the only result of
/// a call, and is used for nothing else, the call writes it to the slice. Otherwise it is copied there, as for a
/// convolution, which makes all of its gradients in one call.
class DirectGradients {
 public:
  DirectGradients(std::vector<Call> const& calls, std::vector<bool> const& alive,
                  std::vector<std::optional<OutForm>> const& forms, Listing const& listing,
                  std::vector<at::Tensor> const& leaving);

  /// What is done in place of a call; nullopt: the call itself.
  std::optional<Memory> instead_of(std::size_t call) const;
  /// The call whose result this call adds to cleared memory, so that 0 + x is left of the addition; nullopt: this call
  /// is no such addition.
  std::optional<std::size_t> added_by(std::size_t call) const;
  /// Where a call writes its result; nullptr: into the result's own memory.
  at::Tensor const* place_of(std::size_t call) const;

 private:
  void after_clearing(std::size_t clearing, Listing const& listing);

  /// Whether this call adds a tensor to a slice of the same layout that nothing has read or written since the clearing.
  bool is_first_addition(std::size_t adding, at::Tensor const& whole, std::vector<Span> const& touched) const;

  /// The call whose result such an addition adds, if it can write to the slice itself.
  std::optional<std::size_t> maker_of(std::size_t adding, std::size_t clearing, at::Tensor const& whole,
                                      Listing const& listing, std::vector<Span> const& touched) const;

  static at::Tensor part(at::Tensor const& whole, Span span);

  std::vector<Call> const& calls_;
  std::vector<bool> const& alive_;
  std::vector<std::optional<OutForm>> const& forms_;
  std::unordered_map<Storage, int> reads_;
  std::unordered_map<Storage, std::size_t> makers_;
  std::unordered_map<std::size_t, Memory> instead_;
  std::unordered_map<std::size_t, std::size_t> added_by_;
  std::unordered_map<std::size_t, at::Tensor> places_;
};

// Products that are added to a gradient as it is, in the later batches of an accumulation window: one pass less where
// the product adds itself.

/// Finds the products whose only use is to be added to a tensor of the model, which nobody looks at from the product to
/// the addition: there it does not matter when the sum is made. It is made of the same two numbers, so with the same
/// bits, and only where Epilogue::then_onto is certified.
class LaterAdditions {
 public:
  /// `first`: the additions that are dealt with already.
  LaterAdditions(std::vector<Call> const& calls, std::vector<bool> const& alive, DirectGradients const& first,
                 Listing const& listing, std::vector<at::Tensor> const& leaving);

  /// Where a product would add its result itself; nullptr: nowhere.
  at::Tensor const* place_of(std::size_t product) const;
  /// The product that would make this addition needless.
  std::optional<std::size_t> product_of(std::size_t addition) const;

 private:
  void look_at(std::size_t adding, Listing const& listing);

  /// By a call from `first` on that comes before `last`.
  bool is_touched(at::Tensor const& slice, std::size_t first, std::size_t last) const;

  std::vector<Call> const& calls_;
  std::vector<bool> const& alive_;
  std::unordered_map<Storage, int> reads_;
  std::unordered_map<Storage, std::size_t> products_;
  std::unordered_map<std::size_t, at::Tensor> places_;
  std::unordered_map<std::size_t, std::size_t> added_;
};

// Whether a function on few numbers has the bits of the operator that it would replace: tried before it is used, once
// in a process for each operator and shape.

/// Runs an operator and the candidates for it on the recorded values and on draws, in memory that nobody else sees.
class SmallTrial {
 public:
  SmallTrial(Call const& call, OutForm const& form);

  /// Which candidate has the operator's bits; nullopt: none.
  std::optional<std::size_t> passing();

 private:
  static constexpr std::size_t enough = 512, most_rounds = 64;  // results compared, if few are made at once; draws

  bool passes(native::SmallCall const& candidate);
  /// `zero`: numbers that stand alone are 0, by which some operators divide.
  void draw(native::Numbers& numbers, native::Draw kind, bool zero);
  static void clear(Stack const& places);
  static at::Tensor copy(at::Tensor const& tensor);

  OutForm const& form_;
  std::string name_;
  Stack given_, theirs_, ours_;
};

/// What decides which candidate has the bits: the operator, the sizes, and all that is no tensor.
std::string small_key(OutForm const& form, Stack const& arguments);

/// The function to call in place of the operator; nullopt: the operator. `place`: where its only result goes, if not
/// into its own memory. The recorded values have to be there still.
std::optional<native::SmallCall> small_call(Call const& call, OutForm const& form, at::Tensor const* place);

/// A step that can be replayed: made of the calls that a Listing has found fit, with memory of its own. A replay gives
/// the bits of the code on that batch, or the step should not have been recorded; nothing but the batch is checked
/// here.
class Tape : TapeMemory {
 public:
  /// Takes over the calls of a step that `listing` has found fit. `leaving`: the tensors that the step returned and
  /// logged, in order. `parameters`: of the model, of which some may want their gradients looked at.
  Tape(std::vector<Call> calls, Listing const& listing, std::vector<at::Tensor> const& batch,
       std::vector<at::Tensor> leaving, at::Tensor seed, std::vector<at::Tensor> const& parameters);
  Tape(Tape const&) = delete;
  Tape& operator=(Tape const&) = delete;

  /// Runs the step once more, on this batch, which has the layout of the recorded one.
  void replay(std::vector<at::Tensor> const& batch);

  /// What leaves the step, as the last replay has computed it. The next replay overwrites it.
  std::vector<at::Tensor> const& leaving() const { return leaving_; }
  TapeFacts const& facts() const { return facts_; }

  /// f(generator) for each generator that the step names in a call.
  template <class F>
  void each_generator(F&& f) const {
    for (auto const& call : calls_)
      for (IValue const& value : call.in)
        if (value.isGenerator()) f(value.toGenerator());
  }

 private:
  class Graphs {
   public:
    ~Graphs() { c10::GradMode::set_enabled(outer_); }

   private:
    bool outer_ = c10::GradMode::is_enabled();
  };

  at::Tensor seed_;                             ///< held, so that its values stay as long as the tape
  std::vector<c10::VariableVersion> versions_;  ///< of the model's tensors: a replay moves them as the step did
  Stack stack_;
  std::vector<std::size_t> looks_;  ///< which of the steps are looks
};

}  // namespace fulgurite::libtorch::capture

namespace fulgurite {

// What a captured strategy tells about its work.

namespace libtorch::capture {

/// A number that several threads may count: copies of a strategy, as the members of a sweep have them, share one
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

/// Counts of what a captured strategy has done so far. Ask `captured.report()` for it before the strategy is given to a
/// trainer.
struct CaptureReport {
  using Count = libtorch::capture::Count;
  Count eager;      ///< steps that ran as they are written, and were not recorded
  Count recorded;   ///< tapes: steps that ran as they are written, and were written down; graphs: those recorded
  Count checked;    ///< steps that ran as they are written, and were compared with a replay, bit for bit
  Count confirmed;  ///< steps that ran once more as they are written, for a check alone, and of which nothing was kept
  Count replayed;   ///< steps of which no code of the model ran
  std::vector<std::string> reasons = {};                 ///< why steps stay eager
  std::vector<libtorch::capture::TapeFacts> tapes = {};  ///< one for each kind and shape of step
  Count dropped;   ///< how often recordings were dropped, or made anew, since the model had changed
  Count unproven;  ///< replays that a change of the model followed which no check can look behind
  Count told_unproven;
  Count noted;  ///< how many reasons there are
  Count told;   ///< of the reasons, those that were told as warnings
};

namespace libtorch::capture {

/// Against threads that write to the lists of a report, which is seldom.
inline std::mutex& lists_of_reports() {
  static std::mutex mutex;
  return mutex;
}

/// Notes a reason, once. `tell` hands it on.
void stays_as_written(CaptureReport& report, std::string const& reason);
void add_tape(CaptureReport& report, TapeFacts const& facts);

/// say(identifier, sentence) for each reason that was not told yet.
template <class Say>
void tell(CaptureReport& report, Say&& say) {
  if (long const all = report.unproven, n = all - report.told_unproven; n != 0) {
    report.told_unproven = all;
    say("fulgurite.capture.unchecked",
        std::to_string(n) + " replayed steps can no longer be checked, since the model was changed after them in a way "
                            "that cannot be undone for a check: they may be wrong if something else changed, too");
  }
  while (report.told < report.noted) {
    std::string reason;
    {
      std::lock_guard const lock(lists_of_reports());
      if (report.told >= report.noted) return;  // another thread has told it
      reason = report.reasons[static_cast<std::size_t>(long{report.told})];
      ++report.told;
    }
    say("fulgurite.capture.eager", "steps of a captured fit run as they are written, because of this: " + reason);
  }
}

std::vector<std::string> account(CaptureReport const& report);

}  // namespace libtorch::capture

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/tape.ipp>
#endif
