#pragma once
// The bodies of distributed/store.hpp.

#include <cerrno>
#include <exception>
#include <system_error>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/store.hpp>

namespace fulgurite::distributed {

FULGURITE_BODY Loopback::Loopback(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
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

FULGURITE_BODY Loopback::~Loopback() {
  if (socket_ >= 0) ::close(socket_);
}

FULGURITE_BODY int Loopback::release() { return std::exchange(socket_, -1); }

FULGURITE_BODY c10d::TCPStoreOptions store_options(Place const& place, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(place.port);
  options.timeout = timeout;
  options.waitWorkers = false;
  options.useLibUV = false;  // some builds of LibTorch lack it; both kinds use the same protocol
  return options;
}

FULGURITE_BODY Store keys_of(Place const& place, Store store) {
  return c10::make_intrusive<c10d::PrefixStore>("fulgurite/" + std::to_string(place.restart), std::move(store));
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

FULGURITE_BODY Notices::Notices(Place const& place, c10d::Store& store) : place_(&place), store_(&store) {}

FULGURITE_BODY void Notices::end(Ended const& ended) {
  store_->compareSet("ended", {}, bytes_of(std::to_string(ended.rank) + "\n" + ended.text));
  set("news");
}

FULGURITE_BODY std::optional<Ended> Notices::ended() {
  if (!has("news") || !has("ended")) return std::nullopt;
  auto const text = text_of(store_->get("ended"));
  auto const line = text.find('\n');
  try {
    set("notified/" + mine());        // lets the process that keeps the store end
  } catch (std::exception const&) {}  // the store is gone, but its notice has arrived
  return Ended{std::stoi(text), text.substr(line + 1)};
}

FULGURITE_BODY void Notices::leave() {
  set("left/" + mine());
  set("left");
}

FULGURITE_BODY std::optional<int> Notices::left() {
  if (!has("left")) return std::nullopt;
  for (int rank = 0; rank != place_->world; ++rank)
    if (has("left/" + std::to_string(rank))) return rank;
  return std::nullopt;
}

FULGURITE_BODY bool Notices::answer_roll() {
  if (!has("news") || !has("roll")) return false;
  set("there/" + mine());
  return true;
}

FULGURITE_BODY void Notices::waits(std::string const& what) { store_->set("waits/" + mine(), bytes_of(what)); }

FULGURITE_BODY std::vector<Seen> Notices::all() {
  std::vector<Seen> seen;
  for (int rank = 0; rank != place_->world; ++rank) {
    auto const of_rank = std::to_string(rank), key = "waits/" + of_rank;
    seen.push_back(
        {has(key) ? text_of(store_->get(key)) : std::string(), has("left/" + of_rank), has("there/" + of_rank)});
  }
  return seen;
}

FULGURITE_BODY void Notices::set(std::string const& key) { store_->set(key, bytes_of("yes")); }

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

}  // namespace fulgurite::distributed
