#pragma once
// The store through which the processes of a run meet: c10d's TCPStore, kept by rank 0 or by the launcher's agent.

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

/// The key-value store through which the processes of a run exchange notices: c10d's, kept by rank 0 or by the
/// launcher.
using Store = c10::intrusive_ptr<c10d::Store>;

/// A socket that listens on loopback, so that the store cannot be reached from other machines. Port 0: any free port.
class Loopback {
 public:
  explicit Loopback(int port);
  Loopback(Loopback const&) = delete;
  Loopback& operator=(Loopback const&) = delete;
  ~Loopback();

  int port() const { return port_; }
  /// Releases the descriptor: the store closes it.
  int release();

 private:
  int socket_;
  int port_ = 0;
};

/// Options of a TCP store at a place's port. `timeout`: how long a read waits for its key.
c10d::TCPStoreOptions store_options(Place const& place, std::chrono::milliseconds timeout);

/// A view of the store with a key prefix for this start of the processes, since an agent's store outlives a restart.
Store keys_of(Place const& place, Store store);

/// Returns what work() returns, run in a thread of its own: c10d waits for the store's answer without a limit, and a
/// stopped process never answers. A caller that gives up abandons the thread, so `work` must own all that it needs.
template <class Work>
auto in_background(Work work) {
  std::packaged_task<std::invoke_result_t<Work&>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

/// Opens another connection to the store.
Store connect(Place const& place, std::chrono::milliseconds timeout);

/// Opens the store of a run that rank 0 keeps. On one machine it is bound to loopback.
Store serve(Place& place, std::chrono::milliseconds timeout);

/// Converts a text to the store's bytes.
std::vector<std::uint8_t> bytes_of(std::string_view text);
/// Converts the store's bytes to a text.
std::string text_of(std::vector<std::uint8_t> const& bytes);

// The notices that processes of a run put into their store: which rank has ended and why, has left, or is there.

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

/// Reads and writes notices; each call is one request to the store, or a few. As long as there is no news, a reader
/// polls one key.
class Notices {
 public:
  Notices(Place const& place, c10d::Store& store);

  /// Reports that a rank has ended. Only the first report counts.
  void end(Ended const& ended);
  std::optional<Ended> ended();

  /// Reports that the program of this rank ends with success.
  void leave();
  /// The first rank that has left.
  std::optional<int> left();

  /// Called after a connection broke: asks all ranks to report that they are there.
  void call_roll() {
    set("roll");
    set("news");
  }
  /// Answers the roll call; returns true if this rank has done so.
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

// The thread that notifies the processes of a run of each other's end.

/// Polls every 100 ms whether a rank has reported its end, over a connection to the store of its own: an answer that
/// never comes (because the store's process is stopped) blocks this thread only.
class Watch {
  using Clock = std::chrono::steady_clock;

 public:
  using Ended = distributed::Ended;

  Watch(Place const& place, Store store);
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;
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

}  // namespace fulgurite::distributed

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/store.ipp>
#endif
