#pragma once
// How a process is connected to the others of its run: opened once, waited on with an eye on who is gone, closed when
// the process ends.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/cuda.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/distributed/place.hpp>
#include <fulgurite/distributed/store.hpp>

namespace fulgurite::distributed {

/// As torchrun does: where nobody has said with how many threads a process computes, it is one, so that the processes
/// of a machine do not crowd each other out.
inline void share_processors() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr && at::get_num_threads() == at::intraop_default_num_threads())
    at::set_num_threads(1);
}

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
inline Engine gloo_engine(Store const& store, Place const& place, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  char const* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(place.one_machine() ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                             : interface         ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                                 : c10d::ProcessGroupGloo::createDefaultDevice());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.world, options);
}

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
inline void require_nccl(int local_world) {
#if !defined(FULGURITE_HAS_NCCL)
  static_cast<void>(local_world);
  throw Error(
      "fulgurite.distributed.nccl_absent",
      "NCCL was asked for, and this program was compiled without it: it needs a LibTorch with CUDA, the headers "
      "of the CUDA toolkit, and nccl.h; or take Collectives::gloo, which computes on the CPU");
#else
  if (!torch::cuda::is_available())
    throw Error("fulgurite.distributed.nccl_absent",
                "NCCL was asked for, and LibTorch sees no GPU here: install a driver, or take Collectives::gloo, which "
                "computes on the CPU");
  if (torch::cuda::device_count() < local_world)
    throw Error("fulgurite.distributed.gpus", "there are " + std::to_string(torch::cuda::device_count()) +
                                                  " GPUs for " + std::to_string(local_world) +
                                                  " processes of this machine: each needs one of its own; start "
                                                  "fewer, or take Collectives::gloo, which computes on the CPU");
#endif
}

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
  bool uses_nccl() const {
#if defined(FULGURITE_HAS_NCCL)
    return backend == Collectives::nccl || (backend == Collectives::by_device && torch::cuda::is_available());
#else
    return backend == Collectives::nccl;
#endif
  }

  /// Whether both name the same who carries messages. Of engines only their types can be compared.
  bool is_carried_like(GroupOptions const& other) const {
    return engine.target_type() == other.engine.target_type() && (engine || uses_nccl() == other.uses_nccl());
  }

  /// The place that a launcher gave this process, else rank 0 of those that this program is to start. An Error where
  /// options and launcher disagree.
  Place place() const {
    if (devices < 0 || num_nodes < 0 || timeout <= std::chrono::milliseconds(0))
      throw Error("fulgurite.distributed.options",
                  "devices and num_nodes cannot be negative, and timeout has to be more than nothing");
    auto const& given = launched_place();
    if (!given) return alone();
    int const nodes = given->world / given->local_world;
    if (devices != 0 && devices != given->local_world) disagree("devices", devices, given->local_world);
    if (num_nodes != 0 && num_nodes != nodes) disagree("num_nodes", num_nodes, nodes);
    return *given;
  }

 private:
  Place alone() const {
    if (num_nodes > 1)
      throw Error("fulgurite.distributed.num_nodes",
                  "num_nodes = " + std::to_string(num_nodes) +
                      ", and nobody has started processes on other machines: start this program on each with torchrun "
                      "--no-python --nnodes, or with srun");
    Place place;
    place.world = place.local_world = devices != 0 ? devices : 1;
#if defined(FULGURITE_HAS_NCCL)
    if (devices == 0 && uses_nccl() && torch::cuda::is_available())
      place.world = place.local_world = static_cast<int>(torch::cuda::device_count());
#endif
    return place;
  }
  [[noreturn]] static void disagree(std::string const& name, int asked, int given) {
    throw Error("fulgurite.distributed.devices", name + " = " + std::to_string(asked) + ", and the launcher started " +
                                                     std::to_string(given) +
                                                     ": give the launcher the same number, or leave the option out");
  }
};

}  // namespace distributed
}  // namespace fulgurite

namespace fulgurite::distributed {

// How processes of a run leave at their end: who keeps the store waits for the others, and a failure is no success.

/// Who keeps the store leaves last: where the run has failed, when the others have heard of it.
inline void leave_together(Store const& store, Place const& place, Watch& watch, bool failed,
                           std::chrono::milliseconds patience) noexcept {
  try {
    if (!failed) watch.leave();
    if (place.rank != 0 || place.agent_has_store) return;
    auto const until = std::chrono::steady_clock::now() + (failed ? patience / 2 : patience);
    auto const ended = watch.ended();
    for (int rank = 1; rank != place.world; ++rank) {
      auto const of_rank = std::to_string(rank);
      if (failed && ((ended && ended->rank == rank) || !store->check({"here/" + of_rank}))) continue;
      while (!store->check({(failed ? "heard/" : "left/") + of_rank}) && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  } catch (...) {}
}

/// This process was about to end with success, and one that it started has failed.
[[noreturn]] inline void end_as_failed(Watch::Ended const& ended) {
  std::fprintf(stderr, "%s\n", loop::RankEnded(ended.rank, ended.text).what());
  std::fflush(nullptr);
  std::_Exit(1);
}

// The sentences about ranks that do not come: who is gone, who has left, who hangs, who is elsewhere.

/// Appends one more to a list with commas, for a sentence.
inline void list(std::string& all, std::string_view one) { all.append(all.empty() ? "" : ", ").append(one); }

/// `rank` is at another collective than this one.
[[noreturn]] inline void throw_mismatch(Place const& place, std::string_view what, int rank, std::string_view other) {
  std::string sentence("ranks have parted: rank ");
  sentence.append(std::to_string(place.rank)).append(" is at '").append(what).append("', rank ");
  sentence.append(std::to_string(rank)).append(" at '").append(other);
  throw Error("fulgurite.distributed.parted",
              sentence.append("': all ranks have to run the same program on the same number of batches"));
}

/// `rank` comes to no collective any more.
[[noreturn]] inline void throw_left(Place const& place, std::string_view what, int rank) {
  std::string sentence("ranks have parted: rank ");
  sentence.append(std::to_string(place.rank)).append(" is at '").append(what).append("', and the program of rank ");
  throw Error("fulgurite.distributed.parted",
              sentence.append(std::to_string(rank))
                  .append(" has ended with success: all ranks have to run the same program to its end"));
}

/// A connection broke, the roll was called, and nobody has said that it ended.
[[noreturn]] inline void throw_lost(Place const& place, Watch& watch, std::string_view what, std::string_view why) {
  std::string silent;
  auto const all = watch.all();
  for (std::size_t rank = 0; all && rank != all->size(); ++rank) {
    if ((*all)[rank].left) throw_left(place, what, static_cast<int>(rank));
    if (!(*all)[rank].is_there) list(silent, std::to_string(rank));
  }
  std::string sentence("another process of this run is gone");
  if (!silent.empty()) sentence.append(", of rank ").append(silent).append(", which answers nobody any more");
  sentence.append(" (while ").append(what).append("): ").append(why.substr(0, why.find('\n')));
  throw Error("fulgurite.distributed.lost", sentence);
}

/// The timeout is over. The Error says which ranks are absent, and which wait for something else, as far as the store
/// knows.
[[noreturn]] inline void throw_time_is_up(Place const& place, Watch& watch, std::string_view what,
                                          std::chrono::milliseconds timeout) {
  std::string sentence("rank ");
  sentence.append(std::to_string(place.rank)).append(" has waited ").append(std::to_string(timeout.count()));
  sentence.append(" ms (while ").append(what).append("). ");
  auto const others = watch.all();
  if (!others) {
    sentence += "The store does not answer: its process, rank 0's or the launcher's, is stopped or gone";
  } else {
    std::string absent, elsewhere;
    for (std::size_t rank = 0; rank != others->size(); ++rank) {
      auto const& at = (*others)[rank].waits_for;
      if (static_cast<int>(rank) == place.rank || at == what) continue;
      if (at.empty()) list(absent, std::to_string(rank));
      else list(elsewhere, std::to_string(rank) + " (" + at + ")");
    }
    if (!absent.empty()) sentence.append("These ranks did not come: ").append(absent).append(". ");
    if (!elsewhere.empty()) sentence.append("These wait for something else: ").append(elsewhere).append(". ");
    sentence += "A rank that is stopped, hangs, or has another number of batches is the cause; where one only needs "
                "longer, to prepare data or to write a file, raise the strategy's .timeout";
  }
  throw Error("fulgurite.distributed.timeout", sentence);
}

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
inline void meet(Patience const& patience, Store const& store) {
  auto const& place = patience.place;
  auto const here = [](int rank) { return "here/" + std::to_string(rank); };
  answered(patience, [store, mine = here(place.rank)] { store->set(mine, bytes_of("yes")); });
  auto last = patience;  // who has waited long enough asks once more for each rank, and expects an answer to that
  last.until += std::chrono::seconds(5);
  std::string missing;
  for (int rank = 0; rank != place.world; ++rank) {
    auto const is_here = [&] { return answered(last, [store, key = here(rank)] { return store->check({key}); }); };
    bool came = is_here();
    while (!came && Patience::Clock::now() < patience.until) {
      if (auto const ended = patience.watch.ended_within(std::chrono::milliseconds(20)))
        throw loop::RankEnded(ended->rank, ended->text);
      came = is_here();
    }
    if (!came) missing.append(missing.empty() ? "" : ", ").append(std::to_string(rank));
  }
  if (!missing.empty())
    throw Error("fulgurite.distributed.absent",
                "of " + std::to_string(place.world) + " processes these ranks did not come within " +
                    std::to_string(patience.timeout.count()) + " ms: " + missing +
                    ": see whether they were started, and with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE");
}

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
  void abort(std::string_view text) noexcept {
    try {
      watch_->tell(place_.rank, std::string(text));
    } catch (...) {}
    let_go();
  }

 protected:
  explicit Connection(GroupOptions const& options) : options_(options), place_(options.place()) {}

  /// Another strategy of the program, or the same one for another run.
  void go_on_with(GroupOptions const& options) {
    if (!options_.is_carried_like(options))
      throw Error("fulgurite.distributed.backend",
                  "the processes of this program are connected already, by another .backend or .engine than this "
                  "strategy asks for: a program has one group, so give all its strategies the same");
    if (options.timeout == options_.timeout) return;
    options_.timeout = options.timeout;
    for (auto const& engine : {decisions_, gradients_, buckets_})
      if (engine) engine->setTimeout(2 * options_.timeout);
  }

  void open() {
    bool const nccl = options_.uses_nccl() && !options_.engine;
    if (nccl) require_nccl(place_.local_world);
    bool const own = !launched_place() && place_.world > 1;
    bool const serves = place_.rank == 0 && !place_.agent_has_store;
    store_ = serves ? serve(place_, options_.timeout) : connect(place_, options_.timeout);
    watch_ = std::make_unique<Watch>(place_, connect(place_, options_.timeout));
    try {
      if (own)
        others_ = std::make_unique<OwnRanks>(
            place_.world, place_.port, options_.others,
            [watch = watch_.get()](int rank, std::string const& how) { watch->tell(rank, how); });
      meet({place_, *watch_, options_.timeout}, store_);
      decisions_ = make("decisions");
#if defined(FULGURITE_HAS_NCCL)
      if (nccl) {
        Store const keys = c10::make_intrusive<c10d::PrefixStore>("gradients", store_);
        gradients_ = nccl_engine(keys, place_, 2 * options_.timeout);
        on_gpu_ = true;
        return;
      }
#endif
      gradients_ = make("gradients");
    } catch (std::exception const& error) {
      if (!dynamic_cast<loop::RankEnded const*>(&error)) abort(error.what());
      failed_ = true;
      close(1);
      throw;
    }
  }

  Engine make(std::string const& name) {
    Store const keys = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    auto const later = 2 * options_.timeout;  // the time that counts is measured here, where ranks can be named
    return answered({place_, *watch_, options_.timeout}, [keys, later, place = place_, engine = options_.engine] {
      return engine ? engine(keys, place, later) : gloo_engine(keys, place, later);
    });
  }

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
  static bool is_over(c10d::Work& work, std::chrono::milliseconds time) {
    try {
      work.wait(time);
      return true;
    } catch (std::exception const&) {
      if (!work.isCompleted()) return false;
    }
    work.wait();
    return true;
  }

  /// A sum on a GPU that a rank no longer comes to would never end, and neither would what is asked of the GPU after
  /// it.
  void let_go() noexcept {
    failed_ = true;
    try {
      if (std::exchange(on_gpu_, false)) gradients_->abort();
    } catch (...) {}
  }

  /// At the end of the process: rank 0 keeps the store until the others are gone, and sees to it that they go. Where
  /// one that it started has failed when no collective could tell of it any more, its own success is none.
  void close(int status) {
    bool const knows = failed_, started = others_ != nullptr;
    if (status != 0) watch_->tell(place_.rank, "its program returned " + std::to_string(status));
    if (watch_->ended()) failed_ = true;
    if (others_) {
      if (!failed_) watch_->leave();
      auto const gone = [&](std::chrono::milliseconds time) { return others_->wait_for(time); };
      if (!gone(failed_ ? std::min(patience, options_.timeout) : options_.timeout)) {
        tell(stderr, "rank 0 has ended, and ends the processes that it started and that go on\n");
        others_->signal(SIGTERM);
        if (!gone(patience / 5)) others_->signal(SIGKILL);
      }
      others_.reset();
    } else {
      leave_together(store_, place_, *watch_, failed_, patience);
    }
    watch_->stop();
    if (auto const ended = watch_->ended(); started && ended && !knows && status == 0) end_as_failed(*ended);
    if (failed_) return;  // what still waits would hold up whoever destroys it
    if (on_gpu_) gradients_->shutdown();
    buckets_.reset();
    gradients_.reset();
    decisions_.reset();
  }

 private:
  [[noreturn]] void gone(Watch::Ended const& ended) {
    let_go();
    throw loop::RankEnded(ended.rank, ended.text);
  }
  /// A connection broke: the process at its other end is gone, and soon somebody says which, or it alone is silent.
  [[noreturn]] void lost(std::string_view what, std::string_view why) {
    watch_->call_roll();
    if (auto const ended = watch_->ended_within(grace)) gone(*ended);
    let_go();
    throw_lost(place_, *watch_, what, why);
  }
  [[noreturn]] void time_is_up(std::string_view what) {
    let_go();
    throw_time_is_up(place_, *watch_, what, options_.timeout);
  }

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
