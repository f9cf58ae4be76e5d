#pragma once
// The store through which the processes of a run meet: c10d's TCPStore, in rank 0 or in the launcher's agent.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
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

}  // namespace fulgurite::distributed
