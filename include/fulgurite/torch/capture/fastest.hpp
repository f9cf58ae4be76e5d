#pragma once
// Fastest{SingleDevice{...}}: the first steps of a fit find out whether recorded or written steps are faster.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/single_device.hpp>

namespace fulgurite::libtorch::capture {

/// A time in seconds, of which only differences count.
using StepClock = double (*)();
double seconds_now();

/// Runs steps in two ways in turn, and takes the one with the lower median.
class Race {
 public:
  enum class Way : std::uint8_t { undecided, as_written, captured };

  explicit Race(StepClock clock) : clock_(clock) {}

  Way way() const { return way_; }
  double now() const { return clock_(); }
  /// True if the next step of the race runs as it is written.
  bool as_written_next() const { return as_written_.size() != timed; }
  /// The time of a step as it is written, and of a replay. The last one decides, and prints the choice.
  void ran(double seconds) { as_written_.push_back(seconds); }
  void replayed(double seconds);
  /// A step that was recorded or checked, whose time says nothing. Too many of these decide, too.
  void prepared();
  /// The choice and both times, for describe(trainer).
  std::string account() const;

  /// Only the choice is saved. A file of a fit with another strategy has none.
  void state(auto& archive);

 private:
  static constexpr std::size_t timed = 9;       ///< steps of each way
  static constexpr std::size_t patience = 100;  ///< steps after which a fit that was not replayed is as it is written

  static double median(std::vector<double> times);
  void choose(Way way);

  StepClock clock_;
  Way way_ = Way::undecided;
  std::size_t prepared_ = 0;
  std::vector<double> as_written_ = {}, replayed_ = {};
};

}  // namespace fulgurite::libtorch::capture

namespace fulgurite {

/// Runs steps captured or as they are written, whichever is faster for this model on this machine:
///
///     auto trainer = make_trainer<Net>(options, Fastest{SingleDevice{cpu}});
///
/// The first steps of a fit are measured: nine as they are written, then as many replays. Both have the same bits, so
/// the choice changes nothing but time. It is printed once, holds for later fits of the trainer, and is saved with the
/// state of the run, so that a resumed fit does not measure again. Otherwise as Captured.
template <class Device>
class Fastest : public Captured<SingleDevice<Device>> {
  using Written = SingleDevice<Device>;
  using Recorded = Captured<SingleDevice<Device>>;
  using Way = libtorch::capture::Race::Way;

 public:
  explicit Fastest(SingleDevice<Device> strategy, CaptureOptions options = {},
                   libtorch::capture::StepClock clock = &libtorch::capture::seconds_now)
      : Recorded(std::move(strategy), options), race_(clock) {}
  /// Refused at compile time.
  template <class fulgurite_capture_fastest_takes_a_device = Written>
  explicit Fastest(...) FULGURITE_REFUSED("[fulgurite.capture.fastest] Fastest takes a SingleDevice, then options by "
                                          "their names: Fastest{SingleDevice{cpu}, {.go_back = false}}");

  auto gradients(StepKey key, auto& batch, auto& board, auto& seam) {
    if (race_.way() == Way::captured) return Recorded::gradients(key, batch, board, seam);
    if (race_.way() == Way::as_written) return Written::gradients(key, batch, board, seam);
    bool const as_written = race_.as_written_next();
    long const before = this->unchecked();
    libtorch::synchronize(this->device());
    auto const begin = race_.now();
    auto result =
        as_written ? Written::gradients(key, batch, board, seam) : Recorded::gradients(key, batch, board, seam);
    this->finish_replays();
    libtorch::synchronize(this->device());
    auto const seconds = race_.now() - begin;
    if (as_written) race_.ran(seconds);
    else if (this->unchecked() > before) race_.replayed(seconds);
    else race_.prepared();
    return result;
  }

  /// Replays that wait for their check may still be undone.
  bool may_replay() const { return race_.way() == Way::as_written ? this->unchecked() != 0 : Recorded::may_replay(); }
  std::vector<std::string> account() const {
    auto lines = Recorded::account();
    lines.insert(lines.begin(), race_.account());
    return lines;
  }
  void state(auto& archive) { race_.state(archive); }

 private:
  libtorch::capture::Race race_;
};
template <class Device>
Fastest(SingleDevice<Device>) -> Fastest<Device>;
template <class = void>
Fastest(...) -> Fastest<Cpu>;
template <class Device>
Fastest(SingleDevice<Device>, CaptureOptions) -> Fastest<Device>;
template <class Device>
Fastest(SingleDevice<Device>, CaptureOptions, libtorch::capture::StepClock) -> Fastest<Device>;

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/fastest.ipp>
#endif
