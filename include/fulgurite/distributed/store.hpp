#pragma once
// The store through which the processes of a run meet: c10d's TCPStore, in rank 0 or in the launcher's agent.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <fulgurite/core/body.hpp>
#include <fulgurite/distributed/place.hpp>

namespace fulgurite::distributed {

/// Where the processes of a run leave notes for each other: c10d's table of keys and bytes, which rank 0 or the
/// launcher keeps.
using Store = c10::intrusive_ptr<c10d::Store>;

/// A socket that listens on loopback, so that nobody outside of this machine can reach the store. Port 0: one that is
/// free.
class Loopback {
 public:
  explicit Loopback(int port);
  Loopback(Loopback const&) = delete;
  Loopback& operator=(Loopback const&) = delete;
  ~Loopback();

  int port() const { return port_; }
  /// The store closes it from here on.
  int release();

 private:
  int socket_;
  int port_ = 0;
};

/// Options of a store over TCP at a place's port. `timeout`: how long a read waits for its key.
c10d::TCPStoreOptions store_options(Place const& place, std::chrono::milliseconds timeout);

/// Keys of one start of all processes: an agent's store outlives it.
Store keys_of(Place const& place, Store store);

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
Store connect(Place const& place, std::chrono::milliseconds timeout);

/// The store of a run that rank 0 keeps. On one machine it is bound to loopback.
Store serve(Place& place, std::chrono::milliseconds timeout);

/// A text as the store takes it.
std::vector<std::uint8_t> bytes_of(std::string_view text);
/// The text of such bytes.
std::string text_of(std::vector<std::uint8_t> const& bytes);

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
  Notices(Place const& place, c10d::Store& store);

  /// The first who ended is the one that counts.
  void end(Ended const& ended);
  std::optional<Ended> ended();

  /// The program of this rank ends with success.
  void leave();
  /// The first rank that has left.
  std::optional<int> left();

  /// A connection broke: who is there shall say so.
  void call_roll() {
    set("roll");
    set("news");
  }
  /// Whether this rank has said so.
  bool answer_roll();

  void waits(std::string const& what);

  std::vector<Seen> all();

 private:
  std::string mine() const { return std::to_string(place_->rank); }
  bool has(std::string const& key) { return store_->check({key}); }
  void set(std::string const& key);

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

  Watch(Place const& place, Store store);
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;
  ~Watch() { stop(); }

  /// Nobody is looked after any more. A thread that waits for an answer is left to itself.
  void stop();

  /// Who has ended first, and why; cheap where nobody has.
  std::optional<Ended> ended() const;
  /// The same, waiting for it a while.
  std::optional<Ended> ended_within(std::chrono::milliseconds time) const;

  /// Tells the others that a rank has ended, unless another one has before. Waits for it a second at most.
  void tell(int rank, std::string text);

  /// What this rank waits for, so that others can name it when time is up.
  void waits(std::string what);
  /// This rank's program ends with success; the others are told within a second, or not at all.
  void leave();
  /// A rank that has left, as far as was heard since this one waits, and when that was heard.
  std::optional<std::pair<int, Clock::time_point>> left() const;

  /// A connection broke. Who is there says so, and `all()` tells of it.
  void call_roll();
  /// What each rank has said last; nothing where the store does not answer.
  std::optional<std::vector<Seen>> all();

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

  static void work(std::shared_ptr<Shared> shared, Place place, Store store);

  /// Whether to look again.
  static bool look(Shared& shared, Notices& notices);
  static void found(Shared& shared, Ended ended);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace fulgurite::distributed

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/store.ipp>
#endif
