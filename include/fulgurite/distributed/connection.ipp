#pragma once
// The bodies of distributed/connection.hpp.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <system_error>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/cuda.h>

#include <fulgurite/core/text.hpp>
#include <fulgurite/distributed/connection.hpp>

namespace fulgurite::distributed {

/// A socket that listens on loopback, so that the store cannot be reached from other machines. Port 0: any free port.
class Loopback : Pinned {
 public:
  explicit Loopback(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    int const on = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    if (socket_ < 0 || ::bind(socket_, any, length) != 0 || ::listen(socket_, 1024) != 0 ||
        ::getsockname(socket_, any, &length) != 0) {
      int const problem = errno;
      ::close(socket_);
      std::string what = "rank 0 cannot listen on port " + std::to_string(port) + " of this machine: ";
      what += std::generic_category().message(problem);
      throw Error("fulgurite.distributed.port",
                  what += ". Another run has it: give each run a MASTER_PORT of its own (torchrun --master-port), or "
                          "none, where this program starts its other processes by itself");
    }
    port_ = ntohs(address.sin_port);
  }
  ~Loopback() {
    if (socket_ >= 0) ::close(socket_);
  }

  int port() const { return port_; }
  /// Releases the descriptor: the store closes it.
  int release() { return std::exchange(socket_, -1); }

 private:
  int socket_;
  int port_ = 0;
};

/// Options of a TCP store at a place's port. `timeout`: how long a read waits for its key.
FULGURITE_BODY c10d::TCPStoreOptions store_options(Place const& place, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place.port);
  options.timeout = timeout;
  options.waitWorkers = false;
  options.useLibUV = false;  // some builds of LibTorch lack it; both kinds use the same protocol
  return options;
}

/// A view of the store with a key prefix for this start of the processes, since an agent's store outlives a restart.
FULGURITE_BODY Store keys_of(Place const& place, Store store) {
  return c10::make_intrusive<c10d::PrefixStore>("fulgurite/" + std::to_string(place.restart), std::move(store));
}

/// Returns what work() returns, run in a thread of its own: c10d waits for the store's answer without a limit, and a
/// stopped process never answers. A caller that gives up abandons the thread, so `work` must own all that it needs.
template <class Work>
auto in_background(Work work) {
  std::packaged_task<std::invoke_result_t<Work&>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

FULGURITE_BODY Store connect(Place const& place, std::chrono::milliseconds timeout) {
  auto made = in_background([host = place.host, options = store_options(place, timeout)] {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  });
  try {
    if (made.wait_for(timeout) == std::future_status::ready) return keys_of(place, made.get());
  } catch (std::exception const&) {}
  throw Error("fulgurite.distributed.store",
              "rank " + std::to_string(place.rank) + " reached no store that answers at " + place.host + ":" +
                  std::to_string(place.port) + " within " + std::to_string(timeout.count()) +
                  " ms: rank 0 has ended, was not started or is stopped, or MASTER_ADDR and MASTER_PORT name another "
                  "place");
}

/// Opens the store of a run that rank 0 keeps. On one machine it is bound to loopback.
FULGURITE_BODY Store serve(Place& place, std::chrono::milliseconds timeout) {
  auto options = store_options(place, timeout);
  options.isServer = true;
  if (place.one_machine()) {
    Loopback socket(place.port);
    options.port = static_cast<std::uint16_t>(place.port = socket.port());
    options.masterListenFd = socket.release();
    return keys_of(place, c10::make_intrusive<c10d::TCPStore>(place.host, options));
  }
  try {
    return keys_of(place, c10::make_intrusive<c10d::TCPStore>(place.host, options));
  } catch (std::exception const& error) {
    throw Error("fulgurite.distributed.port", "rank 0 cannot keep the store at " + place.host + ":" +
                                                  std::to_string(place.port) +
                                                  ": give each run a MASTER_PORT of its own; " + error.what());
  }
}

FULGURITE_BODY std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

FULGURITE_BODY std::string text_of(std::vector<std::uint8_t> const& bytes) { return {bytes.begin(), bytes.end()}; }

/// Reads and writes notices; each call is one request to the store, or a few. As long as there is no news, a reader
/// polls one key.
class Notices {
 public:
  Notices(Place const& place, c10d::Store& store) : place_(&place), store_(&store) {}

  /// Reports that a rank has ended. Only the first report counts.
  void end(Ended const& ended) {
    store_->compareSet("ended", {}, bytes_of(std::to_string(ended.rank) + "\n" + ended.text));
    set("news");
  }
  std::optional<Ended> ended() {
    if (!has("news") || !has("ended")) return std::nullopt;
    auto const text = text_of(store_->get("ended"));
    auto const line = text.find('\n');
    try {
      set("notified/" + mine());        // lets the process that keeps the store end
    } catch (std::exception const&) {}  // the store is gone, but its notice has arrived
    return Ended{std::stoi(text), text.substr(line + 1)};
  }

  /// Reports that the program of this rank ends with success.
  void leave() {
    set("left/" + mine());
    set("left");
  }
  /// The first rank that has left.
  std::optional<int> left() {
    if (!has("left")) return std::nullopt;
    for (int rank = 0; rank != place_->world; ++rank)
      if (has("left/" + std::to_string(rank))) return rank;
    return std::nullopt;
  }

  /// Called after a connection broke: asks all ranks to report that they are there.
  void call_roll() {
    set("roll");
    set("news");
  }
  /// Answers the roll call; returns true if this rank has done so.
  bool answer_roll() {
    if (!has("news") || !has("roll")) return false;
    set("there/" + mine());
    return true;
  }

  void waits(std::string const& what) { store_->set("waits/" + mine(), bytes_of(what)); }

  std::vector<Seen> all() {
    std::vector<Seen> seen;
    for (int rank = 0; rank != place_->world; ++rank) {
      auto const of_rank = std::to_string(rank), key = "waits/" + of_rank;
      seen.push_back(
          {has(key) ? text_of(store_->get(key)) : std::string(), has("left/" + of_rank), has("there/" + of_rank)});
    }
    return seen;
  }

 private:
  std::string mine() const { return std::to_string(place_->rank); }
  bool has(std::string const& key) { return store_->check({key}); }
  void set(std::string const& key) { store_->set(key, bytes_of("yes")); }

  Place const* place_;
  c10d::Store* store_;
};

FULGURITE_BODY Watch::Watch(Place const& place, Store store)
    : shared_(std::make_shared<Shared>()), thread_(&Watch::work, shared_, place, std::move(store)) {}

FULGURITE_BODY void Watch::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard const lock(shared_->mutex);
    shared_->stops = true;
  }
  shared_->changed.notify_all();
  std::unique_lock lock(shared_->mutex);
  bool const over = shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->over; });
  lock.unlock();
  if (over) thread_.join();
  else thread_.detach();
}

FULGURITE_BODY std::optional<Watch::Ended> Watch::ended() const {
  if (!shared_->any.load(std::memory_order_acquire)) return std::nullopt;
  std::lock_guard const lock(shared_->mutex);
  return shared_->ended;
}

FULGURITE_BODY std::optional<Watch::Ended> Watch::ended_within(std::chrono::milliseconds time) const {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, time, [&] { return shared_->ended.has_value(); });
  return shared_->ended;
}

FULGURITE_BODY void Watch::notify(int rank, std::string text) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->ended || shared_->to_publish) return;
  shared_->to_publish = Ended{rank, std::move(text)};
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->ended.has_value(); });
}

FULGURITE_BODY void Watch::waits(std::string what) {
  std::lock_guard const lock(shared_->mutex);
  shared_->waits = std::move(what);
  shared_->changed.notify_all();
}

FULGURITE_BODY void Watch::leave() {
  std::unique_lock lock(shared_->mutex);
  shared_->leaves = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->over || !shared_->leaves; });
}

FULGURITE_BODY std::optional<std::pair<int, Watch::Clock::time_point>> Watch::left() const {
  std::lock_guard const lock(shared_->mutex);
  return shared_->left;
}

FULGURITE_BODY void Watch::call_roll() {
  std::lock_guard const lock(shared_->mutex);
  shared_->calls_roll = true;
  shared_->changed.notify_all();
}

FULGURITE_BODY std::optional<std::vector<Seen>> Watch::all() {
  std::unique_lock lock(shared_->mutex);
  shared_->asked = true;
  shared_->others.reset();
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, std::chrono::seconds(2), [&] { return shared_->others.has_value(); });
  return shared_->others;
}

FULGURITE_BODY void Watch::work(std::shared_ptr<Shared> shared, Place place, Store store) {
  try {
    Notices notices(place, *store);
    while (look(*shared, notices)) {}
  } catch (std::exception const&) {
    found(*shared, {0, place.agent_has_store ? "the launcher's store does not answer any more"
                                             : "its store does not answer any more, so its process is gone"});
  }
  std::lock_guard const lock(shared->mutex);
  shared->over = true;
  shared->changed.notify_all();
}

FULGURITE_BODY bool Watch::look(Shared& shared, Notices& notices) {
  std::unique_lock lock(shared.mutex);
  shared.changed.wait_for(lock, std::chrono::milliseconds(100), [&] {
    return shared.stops || shared.asked || shared.leaves || shared.calls_roll || (shared.to_publish && !shared.ended) ||
           shared.waits != shared.waits_published;
  });
  if (shared.stops) return false;
  auto const to_publish = shared.ended ? std::nullopt : shared.to_publish;
  auto const waits = shared.waits;
  bool const published = waits == shared.waits_published, asked = std::exchange(shared.asked, false);
  bool const leaves = shared.leaves, calls_roll = std::exchange(shared.calls_roll, false);
  bool const looks_for_left = !shared.left && !waits.empty();
  lock.unlock();
  if (to_publish) notices.end(*to_publish);
  if (leaves) notices.leave();
  if (calls_roll) notices.call_roll();
  if (!published) notices.waits(waits);
  if (!shared.any)
    if (auto ended = notices.ended()) found(shared, std::move(*ended));
  if (!shared.answered_roll) shared.answered_roll = notices.answer_roll();  // only this thread uses it
  auto const left = looks_for_left ? notices.left() : std::nullopt;
  std::optional<std::vector<Seen>> others;
  if (asked) others = notices.all();
  lock.lock();
  shared.waits_published = waits;
  if (left) shared.left = {*left, Clock::now()};
  if (leaves) shared.leaves = false;
  if (others) shared.others = std::move(others);
  shared.changed.notify_all();
  return true;
}

FULGURITE_BODY void Watch::found(Shared& shared, Ended ended) {
  std::lock_guard const lock(shared.mutex);
  if (!shared.ended) shared.ended = std::move(ended);
  shared.any.store(true, std::memory_order_release);
  shared.changed.notify_all();
}

FULGURITE_BODY void share_processors(Place const& place) {
  bool const is_set = std::getenv("OMP_NUM_THREADS") != nullptr || std::getenv("MKL_NUM_THREADS") != nullptr;
  if (place.local_world > 1 && !is_set && at::get_num_threads() == at::intraop_default_num_threads())
    at::set_num_threads(1);
}

FULGURITE_BODY Engine gloo_engine(Store const& store, Place const& place, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  char const* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(place.one_machine() ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                             : interface         ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                                 : c10d::ProcessGroupGloo::createDefaultDevice());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.world, options);
}

FULGURITE_BODY void require_nccl(int local_world) {
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

FULGURITE_BODY bool GroupOptions::uses_nccl() const {
#if defined(FULGURITE_HAS_NCCL)
  return backend == Collectives::nccl || (backend == Collectives::by_device && torch::cuda::is_available());
#else
  return backend == Collectives::nccl;
#endif
}

FULGURITE_BODY bool GroupOptions::is_carried_like(GroupOptions const& other) const {
  return engine.target_type() == other.engine.target_type() && (engine || uses_nccl() == other.uses_nccl());
}

FULGURITE_BODY Place GroupOptions::place() const {
  if (devices < 0 || num_nodes < 0 || timeout <= std::chrono::milliseconds(0))
    throw Error("fulgurite.distributed.options",
                "devices and num_nodes must not be negative, and timeout must be positive");
  auto const& given = launched_place();
  if (!given) return alone();
  int const nodes = given->world / given->local_world;
  if (devices != 0 && devices != given->local_world) disagree("devices", devices, given->local_world);
  if (num_nodes != 0 && num_nodes != nodes) disagree("num_nodes", num_nodes, nodes);
  return *given;
}

FULGURITE_BODY Place GroupOptions::alone() const {
  if (num_nodes > 1)
    throw Error(
        "fulgurite.distributed.num_nodes",
        "num_nodes = " + std::to_string(num_nodes) +
            ", but no launcher has started processes on other machines: start this program on each with torchrun "
            "--no-python --nnodes, or with srun");
  Place place;
  place.world = place.local_world = devices != 0 ? devices : 1;
#if defined(FULGURITE_HAS_NCCL)
  if (devices == 0 && uses_nccl() && torch::cuda::is_available())
    place.world = place.local_world = static_cast<int>(torch::cuda::device_count());
#endif
  return place;
}

FULGURITE_BODY void GroupOptions::disagree(std::string const& name, int asked, int given) {
  throw Error("fulgurite.distributed.devices", name + " = " + std::to_string(asked) + ", and the launcher started " +
                                                   std::to_string(given) +
                                                   ": give the launcher the same number, or leave the option out");
}

/// The process that keeps the store leaves last; if the run has failed, after the others have been notified.
FULGURITE_BODY void leave_together(Store const& store, Place const& place, Watch& watch, bool failed,
                                   std::chrono::milliseconds patience) noexcept {
  try {
    if (!failed) watch.leave();
    if (place.rank != 0 || place.agent_has_store) return;
    auto const until = std::chrono::steady_clock::now() + (failed ? patience / 2 : patience);
    auto const ended = watch.ended();
    for (int rank = 1; rank != place.world; ++rank) {
      auto const of_rank = std::to_string(rank);
      if (failed && ((ended && ended->rank == rank) || !store->check({"here/" + of_rank}))) continue;
      while (!store->check({(failed ? "notified/" : "left/") + of_rank}) && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  } catch (...) {}
}

/// Called if this process was about to end with success and a process that it started has failed. Ends with failure.
[[noreturn]] FULGURITE_BODY void end_as_failed(Watch::Ended const& ended) {
  std::fprintf(stderr, "%s\n", loop::RankEnded(ended.rank, ended.text).what());
  std::fflush(nullptr);
  std::_Exit(1);
}

FULGURITE_BODY void throw_mismatch(Place const& place, std::string_view what, int rank, std::string_view other) {
  std::string sentence("ranks have parted: rank ");
  sentence.append(std::to_string(place.rank)).append(" is at '").append(what).append("', rank ");
  sentence.append(std::to_string(rank)).append(" at '").append(other);
  throw Error("fulgurite.distributed.parted",
              sentence.append("': all ranks have to run the same program on the same number of batches"));
}

FULGURITE_BODY void throw_left(Place const& place, std::string_view what, int rank) {
  std::string sentence("ranks have parted: rank ");
  sentence.append(std::to_string(place.rank)).append(" is at '").append(what).append("', and the program of rank ");
  throw Error("fulgurite.distributed.parted",
              sentence.append(std::to_string(rank))
                  .append(" has ended with success: all ranks have to run the same program to its end"));
}

/// Throws: a connection broke, the roll was called, and no rank has reported that it ended.
[[noreturn]] FULGURITE_BODY void throw_lost(Place const& place, Watch& watch, std::string_view what,
                                            std::string_view why) {
  std::string silent;
  auto const all = watch.all();
  for (std::size_t rank = 0; all && rank != all->size(); ++rank) {
    if ((*all)[rank].left) throw_left(place, what, static_cast<int>(rank));
    if (!(*all)[rank].is_there) append_item(silent, std::to_string(rank));
  }
  std::string sentence("another process of this run is gone");
  if (!silent.empty()) sentence.append(", of rank ").append(silent).append(", which no longer answers");
  sentence.append(" (while ").append(what).append("): ").append(why.substr(0, why.find('\n')));
  throw Error("fulgurite.distributed.lost", sentence);
}

/// Throws after a timeout. The Error says which ranks are absent, and which wait for something else, as far as the
/// store knows.
[[noreturn]] FULGURITE_BODY void throw_timeout(Place const& place, Watch& watch, std::string_view what,
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
      if (at.empty()) append_item(absent, std::to_string(rank));
      else append_item(elsewhere, std::to_string(rank) + " (" + at + ")");
    }
    if (!absent.empty()) sentence.append("These ranks did not come: ").append(absent).append(". ");
    if (!elsewhere.empty()) sentence.append("These wait for something else: ").append(elsewhere).append(". ");
    sentence += "A rank that is stopped, hangs, or has another number of batches is the cause; where one only needs "
                "longer, to prepare data or to write a file, raise the strategy's .timeout";
  }
  throw Error("fulgurite.distributed.timeout", sentence);
}

// How the processes of a run find each other through their store, without waiting forever.

/// The rank that waits, its watch over the others, and its timeout.
struct Patience {
  using Clock = std::chrono::steady_clock;

  Place const& place;
  Watch& watch;
  std::chrono::milliseconds timeout;
  Clock::time_point until = Clock::now() + timeout;
};

/// Returns what `work()`, a request to the store, returns (see in_background).
template <class Work>
auto store_reply(Patience const& patience, Work work) {
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

/// Waits until all ranks have arrived.
FULGURITE_BODY void meet(Patience const& patience, Store const& store) {
  auto const& place = patience.place;
  auto const here = [](int rank) { return "here/" + std::to_string(rank); };
  store_reply(patience, [store, mine = here(place.rank)] { store->set(mine, bytes_of("yes")); });
  auto last = patience;  // after the timeout, each rank is looked up once more, within 5 more seconds
  last.until += std::chrono::seconds(5);
  std::string missing;
  for (int rank = 0; rank != place.world; ++rank) {
    auto const is_here = [&] { return store_reply(last, [store, key = here(rank)] { return store->check({key}); }); };
    bool came = is_here();
    while (!came && Patience::Clock::now() < patience.until) {
      if (auto const ended = patience.watch.ended_within(std::chrono::milliseconds(20)))
        throw loop::RankEnded(ended->rank, ended->text);
      came = is_here();
    }
    if (!came) append_item(missing, std::to_string(rank));
  }
  if (!missing.empty())
    throw Error("fulgurite.distributed.absent",
                "of " + std::to_string(place.world) + " processes these ranks did not come within " +
                    std::to_string(patience.timeout.count()) + " ms: " + missing +
                    ": see whether they were started, and with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE");
}

FULGURITE_BODY void Connection::abort(std::string_view text) noexcept {
  try {
    watch_->notify(place_.rank, std::string(text));
  } catch (...) {}
  abort_collectives();
}

FULGURITE_BODY Connection::Connection(GroupOptions const& options) : options_(options), place_(options.place()) {}

FULGURITE_BODY void Connection::continue_with(GroupOptions const& options) {
  if (!options_.is_carried_like(options))
    throw Error("fulgurite.distributed.backend",
                "the processes of this program are connected already, by another .backend or .engine than this "
                "strategy asks for: a program has one group, so give all its strategies the same");
  if (options.timeout == options_.timeout) return;
  options_.timeout = options.timeout;
  for (auto const& engine : {decisions_, gradients_, buckets_})
    if (engine) engine->setTimeout(2 * options_.timeout);
}

FULGURITE_BODY void Connection::open() {
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
          [watch = watch_.get()](int rank, std::string const& how) { watch->notify(rank, how); });
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

FULGURITE_BODY Engine Connection::make(std::string const& name) {
  Store const keys = c10::make_intrusive<c10d::PrefixStore>(name, store_);
  auto const later = 2 * options_.timeout;  // longer than our own timeout, whose Error can name the ranks
  return store_reply({place_, *watch_, options_.timeout}, [keys, later, place = place_, engine = options_.engine] {
    return engine ? engine(keys, place, later) : gloo_engine(keys, place, later);
  });
}

FULGURITE_BODY bool Connection::is_over(c10d::Work& work, std::chrono::milliseconds time) {
  try {
    work.wait(time);
    return true;
  } catch (std::exception const&) {
    if (!work.isCompleted()) return false;
  }
  work.wait();
  return true;
}

FULGURITE_BODY void Connection::abort_collectives() noexcept {
  failed_ = true;
  try {
    if (std::exchange(on_gpu_, false)) gradients_->abort();
  } catch (...) {}
}

FULGURITE_BODY void Connection::close(int status) {
  bool const knows = failed_, started = others_ != nullptr;
  if (status != 0) watch_->notify(place_.rank, "its program returned " + std::to_string(status));
  if (watch_->ended()) failed_ = true;
  if (others_) {
    if (!failed_) watch_->leave();
    auto const gone = [&](std::chrono::milliseconds time) { return others_->wait_for(time); };
    if (!gone(failed_ ? std::min(patience, options_.timeout) : options_.timeout)) {
      print_lines(stderr, "rank 0 has ended, and now ends the processes that it started and that still run\n");
      others_->signal(SIGTERM);
      if (!gone(patience / 5)) others_->signal(SIGKILL);
    }
    others_.reset();
  } else {
    leave_together(store_, place_, *watch_, failed_, patience);
  }
  watch_->stop();
  if (auto const ended = watch_->ended(); started && ended && !knows && status == 0) end_as_failed(*ended);
  if (failed_) return;  // destroying it would wait for unfinished work
  if (on_gpu_) gradients_->shutdown();
  buckets_.reset();
  gradients_.reset();
  decisions_.reset();
}

FULGURITE_BODY void Connection::gone(Watch::Ended const& ended) {
  abort_collectives();
  throw loop::RankEnded(ended.rank, ended.text);
}

FULGURITE_BODY void Connection::lost(std::string_view what, std::string_view why) {
  watch_->call_roll();
  if (auto const ended = watch_->ended_within(grace)) gone(*ended);
  abort_collectives();
  throw_lost(place_, *watch_, what, why);
}

FULGURITE_BODY void Connection::timed_out(std::string_view what) {
  abort_collectives();
  throw_timeout(place_, *watch_, what, options_.timeout);
}

}  // namespace fulgurite::distributed
