#pragma once
// A fit that is a guest in the program's own loop: of a robot, a game, a simulation.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite {

/// What an open fit says after `advance`.
enum class FitStatus : std::uint8_t {
  more,     ///< more batches follow
  waiting,  ///< the next batch has not arrived
  finished  ///< training has ended: call `close`
};

namespace loop {

/// How long the last batches took, and how many more fit into a budget of time.
class BatchTimes {
 public:
  using Duration = TrainerOptions::Clock::duration;

  void add(Duration batch);
  /// The longest of the last batches; 0 before the first one.
  Duration expected() const;
  /// Forgets the oldest batch. Called if no batch fits into a budget, so that one slow batch does not end training.
  void forget_one();

 private:
  static constexpr std::size_t most = 8;
  std::array<Duration, most> times_{};
  std::size_t first_ = 0, count_ = 0;
};

/// True for an argument of `open` that is no variable, but data that the fit would refer to after they are gone.
template <class Given>
inline constexpr bool is_temporary_data =
    !std::is_lvalue_reference_v<Given> && !is_waiver<Given> && !StartingPoint<std::remove_cvref_t<Given>>;

/// The error with which a fit ends that the program left without `close`.
Error left_open();

/// The result of an `open` that does not compile, so that what the program does with it is no further error. It has a
/// destructor, so that compilers do not warn of an unused variable.
struct NotOpened {
  ~NotOpened() {}
  FitStatus advance() { return {}; }
  FitStatus advance_for(TrainerOptions::Clock::duration) { return {}; }
  void close() {}
};

}  // namespace loop

/// A fit that is advanced batch by batch, made by `trainer.open`. It holds references to the trainer, the model and the
/// data, which must outlive it. After all batches the weights have the same bits as after `trainer.fit`, unless the
/// program draws numbers from LibTorch's generators in between. Until `close`, `deterministic`, `benchmark` and
/// `detect_anomaly` apply to the whole program.
///
///     auto fit = trainer.open(net, data);
///     while (control()) fit.advance_for(2ms);
///     fit.close();
///
/// If it is destroyed before `close`, the fit ends as by an exception: on_exception is called, and loggers are
/// finalized as failed.
template <class R, class Pack, class Source, class From>
class [[nodiscard]] OpenedFit {
 public:
  OpenedFit(loop::State<R>& run, Pack& pack, Source source, From from)
      : run_(run), source_(std::move(source)), fit_(run, pack, source_, std::move(from)) {}
  ~OpenedFit() {
    if (open_) fit_.abandon(loop::left_open());
  }
  OpenedFit(OpenedFit const&) = delete;
  OpenedFit& operator=(OpenedFit const&) = delete;

  /// Trains on one batch, with everything that follows from it: hooks, validation, checkpoints, the end of the epoch.
  /// Returns `waiting` without doing anything if the loader has `batch_is_ready()` and it returns false. After
  /// the end it returns `finished` each time.
  FitStatus advance() {
    if (!open_ || finished_) return FitStatus::finished;
    if (!guarded([&] { return fit_.is_ready(); })) return FitStatus::waiting;
    finished_ = !guarded([&] { return fit_.advance(); });
    return finished_ ? FitStatus::finished : FitStatus::more;
  }

  /// Trains on as many batches as fit into `budget`, going by the longest of the last eight; on none if that one is
  /// longer than the budget. A batch that takes longer than those before it ends later: the budget is exceeded by one
  /// batch at most. Returns `waiting` as soon as `advance` does. Several ranks may find room for different numbers of
  /// batches, and then wait for each other.
  FitStatus advance_for(TrainerOptions::Clock::duration budget) {
    auto const now = run_.asked.options.now;
    auto const began = now();
    auto last = began;
    if (times_.expected() > budget) {
      times_.forget_one();
      return finished_ || !open_ ? FitStatus::finished : FitStatus::more;
    }
    for (;;) {
      auto const status = advance();
      if (status == FitStatus::waiting) return status;
      auto const here = now();
      times_.add(here - std::exchange(last, here));
      if (status == FitStatus::finished || here - began + times_.expected() > budget) return status;
    }
  }

  /// Ends training: hooks from on_train_end to teardown, the last checkpoints. An epoch that has begun ends early, as
  /// by a requested stop: an open accumulation window is stepped, the epoch's end hooks run, and no validation follows.
  void close() {
    if (!std::exchange(open_, false)) return;
    fit_.close();
  }

 private:
  /// After an exception the fit is over.
  template <class Body>
  bool guarded(Body&& body) {
    try {
      return body();
    } catch (...) {
      open_ = false;
      throw;
    }
  }

  loop::State<R>& run_;
  Source source_;
  loop::OpenFit<R, Pack, Source, From> fit_;
  loop::BatchTimes times_{};
  bool open_ = true, finished_ = false;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/open.ipp>
#endif
