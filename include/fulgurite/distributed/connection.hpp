#pragma once
// How a process is connected to the others of its run: opened once, waited on with an eye on who is gone, closed when
// the process ends.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/cuda.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/place.hpp>
#include <fulgurite/distributed/store.hpp>

namespace fulgurite::distributed {

/// As torchrun does: where nobody has said with how many threads a process computes, it is one, so that the processes
/// of a machine do not crowd each other out.
void share_processors();

}  // namespace fulgurite::distributed

// gloo as LibTorch brings it: sums on the CPU, over TCP.

#if !__has_include(<gloo/algorithm.h>)
#error                                                                                                                 \
    "[fulgurite.distributed.gloo_headers] LibTorch has gloo without its headers, and what is declared in their place \
is not on the include path: take fulgurite-torch from Meson, CMake or pkg-config, or add \
-idirafter .../include/fulgurite/distributed/gloo_declared"
#endif

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif

#include <type_traits>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace fulgurite::distributed {

// The layout of c10d's class must not depend on what gloo's classes hold.
static_assert(std::is_same_v<decltype(c10d::ProcessGroupGloo::Options::devices),
                             std::vector<std::shared_ptr<gloo::transport::Device>>> &&
              std::is_abstract_v<gloo::rendezvous::Store>);

/// What carries messages between processes: a backend of c10d (gloo or NCCL), counted by reference.
using Engine = c10::intrusive_ptr<c10d::Backend>;

/// On one machine it talks through loopback. Else it takes the interface that GLOO_SOCKET_IFNAME names, or the one that
/// the machine's own name leads to.
Engine gloo_engine(Store const& store, Place const& place, std::chrono::milliseconds timeout);

}  // namespace fulgurite::distributed

// NCCL as LibTorch brings it: sums on GPUs. Compiled where the headers of CUDA and NCCL are.

#if defined(FULGURITE_HAS_NCCL)
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace fulgurite::distributed {

/// Whether this program and this machine have it, with a GPU for each of these processes; else an Error that says what
/// is missing.
void require_nccl(int local_world);

#if defined(FULGURITE_HAS_NCCL)
/// This process's GPU becomes the thread's own, and is taken into use at once, so that CUDA is closed after whatever is
/// closed at the end of the process.
inline c10::intrusive_ptr<c10d::Backend> nccl_engine(Store const& store, Place const& place,
                                                     std::chrono::milliseconds timeout) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(place.local_rank), true);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, place.rank, place.world, options);
}
#endif

}  // namespace fulgurite::distributed

namespace fulgurite {

// What a group of processes is made of, and which place this process has in it before it is made.

/// Who sums the gradients of several processes, and with it on what they compute.
enum class Collectives : std::uint8_t {
  by_device,  ///< nccl where LibTorch sees a GPU and this program was compiled with it, else gloo
  gloo,       ///< on the CPU
  nccl        ///< one GPU for each process
};

namespace distributed {

/// Makes a c10d backend in place of gloo, as a test does. Called up to three times: gradients, decisions and buckets
/// of gradients go their own ways.
using MakeEngine = std::function<Engine(Store const&, Place const&, std::chrono::milliseconds)>;

/// What strategies of several processes are told of these. 0 devices or nodes: as many as the launcher started; without
/// a launcher one process, or one for each GPU. `timeout`: how long a rank waits for the others before an Error.
struct GroupOptions {
  Collectives backend = Collectives::by_device;  ///< who sums gradients
  int devices = 0;                               ///< processes on each machine
  int num_nodes = 0;                             ///< machines
  OtherRanks others = OtherRanks::prefixed;      ///< what becomes of the other processes' output
  std::chrono::milliseconds timeout{};
  MakeEngine engine = nullptr;  ///< in place of `backend`'s own, for tests

  /// Whether NCCL sums the gradients, so that each process has a GPU.
  bool uses_nccl() const;

  /// Whether both name the same who carries messages. Of engines only their types can be compared.
  bool is_carried_like(GroupOptions const& other) const;

  /// The place that a launcher gave this process, else rank 0 of those that this program is to start. An Error where
  /// options and launcher disagree.
  Place place() const;

 private:
  Place alone() const;
  [[noreturn]] static void disagree(std::string const& name, int asked, int given);
};

}  // namespace distributed
}  // namespace fulgurite

namespace fulgurite::distributed {

// How processes of a run leave at their end: who keeps the store waits for the others, and a failure is no success.

/// Who keeps the store leaves last: where the run has failed, when the others have heard of it.
void leave_together(Store const& store, Place const& place, Watch& watch, bool failed,
                    std::chrono::milliseconds patience) noexcept;

/// This process was about to end with success, and one that it started has failed.
[[noreturn]] void end_as_failed(Watch::Ended const& ended);

// The sentences about ranks that do not come: who is gone, who has left, who hangs, who is elsewhere.

/// Appends one more to a list with commas, for a sentence.
void list(std::string& all, std::string_view one);

/// `rank` is at another collective than this one.
[[noreturn]] void throw_mismatch(Place const& place, std::string_view what, int rank, std::string_view other);

/// `rank` comes to no collective any more.
[[noreturn]] void throw_left(Place const& place, std::string_view what, int rank);

/// A connection broke, the roll was called, and nobody has said that it ended.
[[noreturn]] void throw_lost(Place const& place, Watch& watch, std::string_view what, std::string_view why);

/// The timeout is over. The Error says which ranks are absent, and which wait for something else, as far as the store
/// knows.
[[noreturn]] void throw_time_is_up(Place const& place, Watch& watch, std::string_view what,
                                   std::chrono::milliseconds timeout);

// How the processes of a run find each other through their store, with nobody waiting for ever.

/// Who waits, looking after the others, and how long at most.
struct Patience {
  using Clock = std::chrono::steady_clock;

  Place const& place;
  Watch& watch;
  std::chrono::milliseconds timeout;
  Clock::time_point until = Clock::now() + timeout;
};

/// What `work()` gives, which asks the store (in_background).
template <class Work>
auto answered(Patience const& patience, Work work) {
  auto result = in_background(std::move(work));
  while (result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (auto const ended = patience.watch.ended()) throw loop::RankEnded(ended->rank, ended->text);
    if (Patience::Clock::now() > patience.until)
      throw Error("fulgurite.distributed.store",
                  "rank " + std::to_string(patience.place.rank) + " has waited " +
                      std::to_string(patience.timeout.count()) + " ms for the store at " + patience.place.host + ":" +
                      std::to_string(patience.place.port) +
                      " or for connections to the other ranks, without an answer: the store's process, rank 0's or the "
                      "launcher's, or another rank is stopped, or the network is cut");
  }
  return result.get();
}

/// Waits until all ranks are there.
void meet(Patience const& patience, Store const& store);

/// What a Group stands on: the store where all meet, the watch over who is there, and the engines that carry messages.
/// Whatever waits, waits here: where another rank has ended, it throws loop::RankEnded; where one does not come in
/// time, an Error that says which.
class Connection {
 public:
  Connection(Connection const&) = delete;
  Connection& operator=(Connection const&) = delete;
  Place const& place() const { return place_; }

  /// What `work()` gives, which talks to another rank. Where that rank's connection breaks, it is named.
  template <class Work>
  auto or_lost(std::string_view what, Work&& work) {
    if (auto const ended = watch_->ended()) gone(*ended);
    try {
      return work();
    } catch (std::exception const& error) { lost(what, error.what()); }
  }

  /// Waits for what other ranks bring about, looking after them meanwhile. `ready(time)` says whether it is there, and
  /// waits for it no longer than that; it throws where it never will be.
  template <class Ready>
  void await(std::string_view what, Ready&& ready) {
    if (auto const ended = watch_->ended()) gone(*ended);
    auto const began = Clock::now();
    bool told = false;
    try {
      while (!ready(std::chrono::milliseconds(100))) {
        if (auto const ended = watch_->ended()) {
          if (ready(std::chrono::milliseconds(1))) break;  // what the one that has ended had sent before
          gone(*ended);
        }
        auto const waited = Clock::now() - began;
        if (!std::exchange(told, true)) watch_->waits(std::string(what));
        // What a rank had sent before it left is here at once.
        if (auto const left = watch_->left(); left && Clock::now() - left->second > grace) {
          let_go();
          throw_left(place_, what, left->first);
        }
        if (waited > options_.timeout) time_is_up(what);
      }
    } catch (loop::RankEnded const&) { throw; } catch (Error const&) {
      throw;
    } catch (std::exception const& error) { lost(what, error.what()); }
    if (told) watch_->waits({});
  }

  /// Tells the others that this rank's run has failed. Never throws.
  void abort(std::string_view text) noexcept;

 protected:
  explicit Connection(GroupOptions const& options);

  /// Another strategy of the program, or the same one for another run.
  void go_on_with(GroupOptions const& options);

  void open();

  Engine make(std::string const& name);

  /// Begins a collective and waits for it.
  template <class Begin>
  void run(std::string_view what, Begin&& begin) {
    decltype(begin()) work = {};
    await(what, [&](std::chrono::milliseconds time) {
      if (!work) work = begin();
      return is_over(*work, time);
    });
  }
  /// A wait whose time is up throws, as one does whose work has failed. The work may end between that and the question
  /// whether it is over, so only the work itself can say how it ended.
  static bool is_over(c10d::Work& work, std::chrono::milliseconds time);

  /// A sum on a GPU that a rank no longer comes to would never end, and neither would what is asked of the GPU after
  /// it.
  void let_go() noexcept;

  /// At the end of the process: rank 0 keeps the store until the others are gone, and sees to it that they go. Where
  /// one that it started has failed when no collective could tell of it any more, its own success is none.
  void close(int status);

 private:
  [[noreturn]] void gone(Watch::Ended const& ended);
  /// A connection broke: the process at its other end is gone, and soon somebody says which, or it alone is silent.
  [[noreturn]] void lost(std::string_view what, std::string_view why);
  [[noreturn]] void time_is_up(std::string_view what);

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds patience{5000}, grace{2000};

  GroupOptions options_;
  Place place_;
  Store store_ = {};
  std::unique_ptr<Watch> watch_ = {};
  std::unique_ptr<OwnRanks> others_ = {};  ///< that this process started
  bool failed_ = false;

 protected:
  Engine decisions_ = {}, gradients_ = {}, buckets_ = {};
  bool on_gpu_ = false;  ///< gradients; decisions are the CPU's
};

}  // namespace fulgurite::distributed

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/connection.ipp>
#endif
