#pragma once
// The store through which the processes of a run meet: c10d's TCPStore, in rank 0 or in the launcher's agent.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/place.hpp>

namespace fulgurite::distributed {

/// Where the processes of a run leave notes for each other: c10d's table of keys and bytes, which rank 0 or the
/// launcher keeps.
using Store = c10::intrusive_ptr<c10d::Store>;

/// A socket that listens on loopback, so that nobody outside of this machine can reach the store. Port 0: one that is
/// free.
class Loopback {
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
  Loopback(Loopback const&) = delete;
  Loopback& operator=(Loopback const&) = delete;
  ~Loopback() {
    if (socket_ >= 0) ::close(socket_);
  }

  int port() const { return port_; }
  /// The store closes it from here on.
  int release() { return std::exchange(socket_, -1); }

 private:
  int socket_;
  int port_ = 0;
};

/// Options of a store over TCP at a place's port. `timeout`: how long a read waits for its key.
inline c10d::TCPStoreOptions store_options(Place const& place, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place.port);
  options.timeout = timeout;
  options.waitWorkers = false;
  options.useLibUV = false;  // some builds of LibTorch lack it; both kinds speak the same language
  return options;
}

/// Keys of one start of all processes: an agent's store outlives it.
inline Store keys_of(Place const& place, Store store) {
  return c10::make_intrusive<c10d::PrefixStore>("fulgurite/" + std::to_string(place.restart), std::move(store));
}

/// What work() gives, in a thread of its own: c10d waits for an answer of the store without a limit, and one whose
/// process is stopped never answers. Who waits for it no longer leaves the thread to itself, so it owns all that it
/// needs.
template <class Work>
auto in_background(Work work) {
  std::packaged_task<std::invoke_result_t<Work&>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

/// One more connection to the store.
inline Store connect(Place const& place, std::chrono::milliseconds timeout) {
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

/// The store of a run that rank 0 keeps. On one machine it is bound to loopback.
inline Store serve(Place& place, std::chrono::milliseconds timeout) {
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

/// A text as the store takes it.
inline std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
/// The text of such bytes.
inline std::string text_of(std::vector<std::uint8_t> const& bytes) { return {bytes.begin(), bytes.end()}; }

// What processes of a run leave in their store for each other: who has ended and why, who has left, who is there.

/// A rank that has ended before the others, and why.
struct Ended {
  int rank;
  std::string text;
};

/// What a rank is known to do, by what it said last.
struct Seen {
  std::string waits_for = {};  ///< empty: it has not said that it waits
  bool left = false;           ///< its program has ended with success
  bool is_there = false;       ///< it has answered the last roll call
};

/// Each call is one answer of the store, or a few. As long as nobody has news, whoever looks asks for one key.
class Notices {
 public:
  Notices(Place const& place, c10d::Store& store) : place_(&place), store_(&store) {}

  /// The first who ended is the one that counts.
  void end(Ended const& ended) {
    store_->compareSet("ended", {}, bytes_of(std::to_string(ended.rank) + "\n" + ended.text));
    set("news");
  }
  std::optional<Ended> ended() {
    if (!has("news") || !has("ended")) return std::nullopt;
    auto const text = text_of(store_->get("ended"));
    auto const line = text.find('\n');
    try {
      set("heard/" + mine());           // whose process keeps the store may go
    } catch (std::exception const&) {}  // it has gone: what it said is here
    return Ended{std::stoi(text), text.substr(line + 1)};
  }

  /// The program of this rank ends with success.
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

  /// A connection broke: who is there shall say so.
  void call_roll() {
    set("roll");
    set("news");
  }
  /// Whether this rank has said so.
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

// The thread that tells the processes of a run of each other's end.

/// Looks every 100 ms whether some rank has said that it ended, with a connection to the store of its own: an answer
/// that never comes (the process that keeps the store is stopped) holds up this thread alone.
class Watch {
  using Clock = std::chrono::steady_clock;

 public:
  using Ended = distributed::Ended;

  Watch(Place const& place, Store store)
      : shared_(std::make_shared<Shared>()), thread_(&Watch::work, shared_, place, std::move(store)) {}
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;
  ~Watch() { stop(); }

  /// Nobody is looked after any more. A thread that waits for an answer is left to itself.
  void stop() {
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

  /// Who has ended first, and why; cheap where nobody has.
  std::optional<Ended> ended() const {
    if (!shared_->any.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard const lock(shared_->mutex);
    return shared_->ended;
  }
  /// The same, waiting for it a while.
  std::optional<Ended> ended_within(std::chrono::milliseconds time) const {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, time, [&] { return shared_->ended.has_value(); });
    return shared_->ended;
  }

  /// Tells the others that a rank has ended, unless another one has before. Waits for it a second at most.
  void tell(int rank, std::string text) {
    std::unique_lock lock(shared_->mutex);
    if (shared_->ended || shared_->telling) return;
    shared_->telling = Ended{rank, std::move(text)};
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->ended.has_value(); });
  }

  /// What this rank waits for, so that others can name it when time is up.
  void waits(std::string what) {
    std::lock_guard const lock(shared_->mutex);
    shared_->waits = std::move(what);
    shared_->changed.notify_all();
  }
  /// This rank's program ends with success; the others are told within a second, or not at all.
  void leave() {
    std::unique_lock lock(shared_->mutex);
    shared_->leaves = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->over || !shared_->leaves; });
  }
  /// A rank that has left, as far as was heard since this one waits, and when that was heard.
  std::optional<std::pair<int, Clock::time_point>> left() const {
    std::lock_guard const lock(shared_->mutex);
    return shared_->left;
  }

  /// A connection broke. Who is there says so, and `all()` tells of it.
  void call_roll() {
    std::lock_guard const lock(shared_->mutex);
    shared_->calls_roll = true;
    shared_->changed.notify_all();
  }
  /// What each rank has said last; nothing where the store does not answer.
  std::optional<std::vector<Seen>> all() {
    std::unique_lock lock(shared_->mutex);
    shared_->asked = true;
    shared_->others.reset();
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, std::chrono::seconds(2), [&] { return shared_->others.has_value(); });
    return shared_->others;
  }

 private:
  struct Shared {
    std::atomic<bool> any = false;
    mutable std::mutex mutex = {};
    mutable std::condition_variable changed = {};
    bool stops = false, over = false, asked = false, leaves = false, calls_roll = false, answered_roll = false;
    std::optional<Ended> ended = {}, telling = {};
    std::optional<std::pair<int, Clock::time_point>> left = {};
    std::string waits = {}, waits_told = {};
    std::optional<std::vector<Seen>> others = {};
  };

  static void work(std::shared_ptr<Shared> shared, Place place, Store store) {
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

  /// Whether to look again.
  static bool look(Shared& shared, Notices& notices) {
    std::unique_lock lock(shared.mutex);
    shared.changed.wait_for(lock, std::chrono::milliseconds(100), [&] {
      return shared.stops || shared.asked || shared.leaves || shared.calls_roll || (shared.telling && !shared.ended) ||
             shared.waits != shared.waits_told;
    });
    if (shared.stops) return false;
    auto const telling = shared.ended ? std::nullopt : shared.telling;
    auto const waits = shared.waits;
    bool const told = waits == shared.waits_told, asked = std::exchange(shared.asked, false);
    bool const leaves = shared.leaves, calls_roll = std::exchange(shared.calls_roll, false);
    bool const looks_for_left = !shared.left && !waits.empty();
    lock.unlock();
    if (telling) notices.end(*telling);
    if (leaves) notices.leave();
    if (calls_roll) notices.call_roll();
    if (!told) notices.waits(waits);
    if (!shared.any)
      if (auto ended = notices.ended()) found(shared, std::move(*ended));
    if (!shared.answered_roll) shared.answered_roll = notices.answer_roll();  // of this thread alone
    auto const left = looks_for_left ? notices.left() : std::nullopt;
    std::optional<std::vector<Seen>> others;
    if (asked) others = notices.all();
    lock.lock();
    shared.waits_told = waits;
    if (left) shared.left = {*left, Clock::now()};
    if (leaves) shared.leaves = false;
    if (others) shared.others = std::move(others);
    shared.changed.notify_all();
    return true;
  }
  static void found(Shared& shared, Ended ended) {
    std::lock_guard const lock(shared.mutex);
    if (!shared.ended) shared.ended = std::move(ended);
    shared.any.store(true, std::memory_order_release);
    shared.changed.notify_all();
  }

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace fulgurite::distributed
