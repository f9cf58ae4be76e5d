#pragma once
// The connection of a process to the others of its run: opened once, with waits that notice when another process has
// ended, and closed when this process ends.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/distributed/place.hpp>

// gloo from LibTorch: sums on the CPU, over TCP.

#if !__has_include(<gloo/algorithm.h>)
#error                                                                                                                 \
    "[fulgurite.distributed.gloo_headers] LibTorch has gloo without its headers, and what is declared in their place \
is not on the include path: take fulgurite-torch from Meson, CMake or pkg-config, or add \
-idirafter .../include/fulgurite/distributed/gloo_declared"
#endif

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

// NCCL from LibTorch: sums on GPUs. Compiled if the headers of CUDA and NCCL are available.

#if defined(FULGURITE_HAS_NCCL)
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace fulgurite {

/// The library that sums the gradients of several processes, which also decides the device.
enum class Collectives : std::uint8_t {
  by_device,  ///< nccl where LibTorch sees a GPU and this program was compiled with it, else gloo
  gloo,       ///< on the CPU
  nccl        ///< one GPU for each process
};

namespace distributed {

/// The key-value store through which the processes of a run exchange notices: c10d's TCPStore, kept by rank 0 or by the
/// launcher's agent.
using Store = c10::intrusive_ptr<c10d::Store>;

/// Opens another connection to the store.
Store connect(Place const& place, std::chrono::milliseconds timeout);

/// Converts a text to the store's bytes.
std::vector<std::uint8_t> bytes_of(std::string_view text);
/// Converts the store's bytes to a text.
std::string text_of(std::vector<std::uint8_t> const& bytes);

/// A rank that has ended before the others, and the reason.
struct Ended {
  int rank;
  std::string text;
};

/// The last known state of a rank.
struct Seen {
  std::string waits_for = {};  ///< empty: it does not wait, as far as known
  bool left = false;           ///< its program has ended with success
  bool is_there = false;       ///< the rank has answered the last roll call
};

class Notices;  // what they say of themselves in their store

// The thread that notifies the processes of a run of each other's end.

/// Polls every 100 ms whether a rank has reported its end, over a connection to the store of its own: an answer that
/// never comes (because the store's process is stopped) blocks this thread only.
class Watch : Pinned {
  using Clock = std::chrono::steady_clock;

 public:
  using Ended = distributed::Ended;

  Watch(Place const& place, Store store);
  ~Watch() { stop(); }

  /// Stops watching. A thread that waits for an answer is abandoned.
  void stop();

  /// The first rank that has ended, and the reason. Cheap as long as none has.
  std::optional<Ended> ended() const;
  /// The same, but waits up to `time` for it.
  std::optional<Ended> ended_within(std::chrono::milliseconds time) const;

  /// Notifies the others that a rank has ended, unless another one has before. Takes at most one second.
  void notify(int rank, std::string text);

  /// Publishes what this rank waits for, so that others can name it at a timeout.
  void waits(std::string what);
  /// Publishes that this rank's program ends with success. Gives up after a second.
  void leave();
  /// A rank that has left and that this one noticed while waiting, and when it noticed.
  std::optional<std::pair<int, Clock::time_point>> left() const;

  /// Called after a connection broke: all ranks that are there report so, and `all()` returns that.
  void call_roll();
  /// The last notice of each rank; nullopt if the store does not answer.
  std::optional<std::vector<Seen>> all();

 private:
  struct Shared {
    std::atomic<bool> any = false;
    mutable std::mutex mutex = {};
    mutable std::condition_variable changed = {};
    bool stops = false, over = false, asked = false, leaves = false, calls_roll = false, answered_roll = false;
    std::optional<Ended> ended = {}, to_publish = {};
    std::optional<std::pair<int, Clock::time_point>> left = {};
    std::string waits = {}, waits_published = {};
    std::optional<std::vector<Seen>> others = {};
  };

  static void work(std::shared_ptr<Shared> shared, Place place, Store store);

  /// Polls once; returns true if it should be called again.
  static bool look(Shared& shared, Notices& notices);
  static void found(Shared& shared, Ended ended);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

/// Does as torchrun: if there are several processes on this machine, and nothing sets the number of compute threads, it
/// becomes 1, so that they do not compete for its processors.
void share_processors(Place const& place);

// The layout of c10d's class must not depend on the members of gloo's classes.
static_assert(std::is_same_v<decltype(c10d::ProcessGroupGloo::Options::devices),
                             std::vector<std::shared_ptr<gloo::transport::Device>>> &&
              std::is_abstract_v<gloo::rendezvous::Store>);

/// Carries messages between processes: a backend of c10d (gloo or NCCL), reference-counted.
using Engine = c10::intrusive_ptr<c10d::Backend>;

/// On one machine gloo uses the loopback interface. Otherwise it uses the interface that GLOO_SOCKET_IFNAME names, or
/// the one that the machine's host name resolves to.
Engine gloo_engine(Store const& store, Place const& place, std::chrono::milliseconds timeout);

/// Throws an Error that says what is missing, unless this program and this machine have NCCL, and a GPU for each of the
/// machine's `local_world` processes.
void require_nccl(int local_world);

#if defined(FULGURITE_HAS_NCCL)
/// Makes this process's GPU the thread's current device and initializes it at once, so that CUDA is closed after
/// everything that is closed at the end of the process.
inline c10::intrusive_ptr<c10d::Backend> nccl_engine(Store const& store, Place const& place,
                                                     std::chrono::milliseconds timeout) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(place.local_rank), true);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, place.rank, place.world, options);
}
#endif

/// Makes a c10d backend in place of gloo, for tests. Called up to three times: gradients, decisions and buckets of
/// gradients have separate connections.
using MakeEngine = std::function<Engine(Store const&, Place const&, std::chrono::milliseconds)>;

/// Options that all multi-process strategies share. 0 devices or nodes: as many as the launcher started; without a
/// launcher one process, or one for each GPU. `timeout`: how long a rank waits for the others before it throws an
/// Error.
struct GroupOptions {
  Collectives backend = Collectives::by_device;  ///< the library that sums gradients
  int devices = 0;                               ///< processes on each machine
  int num_nodes = 0;                             ///< machines
  OtherRanks others = OtherRanks::prefixed;      ///< what is done with the other processes' output
  std::chrono::milliseconds timeout{};
  MakeEngine engine = nullptr;  ///< replaces `backend`, for tests

  /// True if NCCL sums the gradients, so that each process has a GPU.
  bool uses_nccl() const;

  /// True if both options use the same backend. Custom engines are compared by type only.
  bool is_carried_like(GroupOptions const& other) const;

  /// The place that a launcher gave this process; otherwise rank 0 of the processes that this program is to start.
  /// Throws an Error if the options contradict the launcher.
  Place place() const;

 private:
  Place alone() const;
  [[noreturn]] static void disagree(std::string const& name, int asked, int given);
};

// The error messages about ranks that are missing: which one has ended, has left, hangs, or is at another collective.

/// Throws: `rank` is at another collective than this rank.
[[noreturn]] void throw_mismatch(Place const& place, std::string_view what, int rank, std::string_view other);

/// Throws: `rank` has left, and will call no further collective.
[[noreturn]] void throw_left(Place const& place, std::string_view what, int rank);

/// The base of Group: the store through which all ranks meet, the watch over the other ranks, and the engines that
/// carry messages. All waits throw loop::RankEnded if another rank has ended, and an Error that names the missing ranks
/// at a timeout.
class Connection : Pinned {
 public:
  Place const& place() const { return place_; }

  /// Returns what `work()`, which communicates with another rank, returns. If the connection breaks, the Error names
  /// that rank.
  auto or_lost(std::string_view what, auto&& work) {
    if (auto const ended = watch_->ended()) gone(*ended);
    try {
      return work();
    } catch (std::exception const& error) { lost(what, error.what()); }
  }

  /// Waits for something that other ranks cause, and watches them meanwhile. `ready(time)` waits no longer than `time`
  /// and returns true when it has happened; it throws if it can no longer happen.
  void await(std::string_view what, auto&& ready) {
    if (auto const ended = watch_->ended()) gone(*ended);
    auto const began = Clock::now();
    bool published = false;
    try {
      while (!ready(std::chrono::milliseconds(100))) {
        if (auto const ended = watch_->ended()) {
          if (ready(std::chrono::milliseconds(1))) break;  // the ended rank may have sent it before
          gone(*ended);
        }
        auto const waited = Clock::now() - began;
        if (!std::exchange(published, true)) watch_->waits(std::string(what));
        // Messages that a rank sent before it left arrive almost at once.
        if (auto const left = watch_->left(); left && Clock::now() - left->second > grace) {
          abort_collectives();
          throw_left(place_, what, left->first);
        }
        if (waited > options_.timeout) timed_out(what);
      }
    } catch (loop::RankEnded const&) { throw; } catch (Error const&) {
      throw;
    } catch (std::exception const& error) { lost(what, error.what()); }
    if (published) watch_->waits({});
  }

  /// Notifies the others that this rank's run has failed. Never throws.
  void abort(std::string_view text) noexcept;

 protected:
  explicit Connection(GroupOptions const& options);

  /// Continues with the options of another strategy of the program, or of the same strategy for another run.
  void continue_with(GroupOptions const& options);

  void open();

  Engine make(std::string const& name);

  /// Starts a collective and waits for it.
  void run(std::string_view what, auto&& begin) {
    decltype(begin()) work = {};
    await(what, [&](std::chrono::milliseconds time) {
      if (!work) work = begin();
      return is_over(*work, time);
    });
  }
  /// Waits for at most `time`, and returns true if the work is done. c10d's wait throws both at a timeout and when the
  /// work has failed, and the work may end in between, so only the work itself can say which of the two it was.
  static bool is_over(c10d::Work& work, std::chrono::milliseconds time);

  /// Aborts the GPU's collectives. A sum that a rank never joins would not end, and neither would any later work on the
  /// GPU.
  void abort_collectives() noexcept;

  /// Called at the end of the process: rank 0 keeps the store until the others have ended, and makes sure that they do.
  /// If a process that it started has failed after the last collective, rank 0 ends with failure, too.
  void close(int status);

 private:
  [[noreturn]] void gone(Watch::Ended const& ended);
  /// Throws after a connection broke. The process at its other end has ended and a rank soon reports which, or it
  /// hangs.
  [[noreturn]] void lost(std::string_view what, std::string_view why);
  [[noreturn]] void timed_out(std::string_view what);

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds patience{5000}, grace{2000};

  GroupOptions options_;
  Place place_;
  Store store_ = {};
  std::unique_ptr<Watch> watch_ = {};
  std::unique_ptr<OwnRanks> others_ = {};  ///< the processes that this one started
  bool failed_ = false;

 protected:
  Engine decisions_ = {}, gradients_ = {}, buckets_ = {};
  bool on_gpu_ = false;  ///< gradients are summed on the GPU; decisions always use the CPU
};

}  // namespace distributed
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/connection.ipp>
#endif
