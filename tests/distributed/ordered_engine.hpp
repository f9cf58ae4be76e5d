#pragma once
// A backend of c10d for tests: rank 0 receives what all have, sums it in the order of ranks, and sends it back. Its
// sums are therefore known to the last bit, and it can be killed in the middle of a message.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <fulgurite/distributed/connection.hpp>
#include <fulgurite/distributed/place.hpp>

namespace fulgurite::test {

/// A collective runs in a thread of its own, as those of gloo do, so that who waits can look after other ranks.
/// `late`: the first wait with a time limit is too short by as little as can be, so that the work is over as soon as
/// one has heard that it is not.
class ThreadWork : public c10d::Work {
 public:
  explicit ThreadWork(bool late) : late_(late) {}
  static c10::intrusive_ptr<ThreadWork> begin(std::function<void()> body, bool late) {
    auto work = c10::make_intrusive<ThreadWork>(late);
    std::thread([work, body = std::move(body)] {
      try {
        body();
        work->finish();
      } catch (...) { work->finish(std::current_exception()); }
    }).detach();
    return work;
  }
  bool wait(std::chrono::milliseconds time) override {
    if (time == kNoTimeout || !std::exchange(late_, false)) return Work::wait(time);
    Work::wait(kNoTimeout);
    throw std::runtime_error("Operation timed out!");
  }

 private:
  bool late_;
};

class OrderedEngine : public c10d::Backend {
 public:
  /// `dies_in`: in the middle of its so-many-th sum this process is killed; 0: never.
  OrderedEngine(distributed::Store const& store, int rank, int world, long dies_in, bool late = false)
      : Backend(rank, world), dies_in_(dies_in), late_(late) {
    if (rank == 0) {
      int const listening = ::socket(AF_INET, SOCK_STREAM, 0);
      auto address = loopback(0);
      socklen_t length = sizeof address;
      check(::bind(listening, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(listening, 64) == 0);
      check(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length) == 0);
      store->set("port", distributed::bytes_of(std::to_string(ntohs(address.sin_port))));
      peers_.resize(static_cast<std::size_t>(world), -1);
      for (int i = 1; i != world; ++i) {
        int const peer = ::accept(listening, nullptr, nullptr);
        std::int32_t who = 0;
        receive(peer, &who, sizeof who);
        peers_.at(static_cast<std::size_t>(who)) = peer;
      }
      ::close(listening);
    } else {
      int const peer = ::socket(AF_INET, SOCK_STREAM, 0);
      auto address = loopback(std::stoi(distributed::text_of(store->get("port"))));
      check(::connect(peer, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
      std::int32_t const who = rank;
      send(peer, &who, sizeof who);
      peers_ = {peer};
    }
  }
  ~OrderedEngine() override {
    for (int const peer : peers_)
      if (peer >= 0) ::close(peer);
  }
  std::string const getBackendName() const override { return "ordered"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, c10d::AllreduceOptions const&) override {
    return begin([this, tensor = tensors.at(0)]() mutable {
      bool const dies = ++sums_ == dies_in_;
      gather_to_zero(tensor, dies, [&](at::Tensor const& other) { tensor.add_(other); });
      from_zero(tensor);
    });
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           c10d::BroadcastOptions const& options) override {
    check(options.rootRank == 0);
    return begin([this, tensor = tensors.at(0)]() mutable { from_zero(tensor); });
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs, c10d::AllgatherOptions const&) override {
    return begin([this, all = outputs.at(0), mine = inputs.at(0)]() mutable {
      std::size_t next = 0;
      all.at(next++).copy_(mine);
      gather_to_zero(mine, false, [&](at::Tensor const& other) { all.at(next++).copy_(other); });
      for (auto& one : all) from_zero(one);
    });
  }

 private:
  /// One after another, in the order in which they were begun.
  c10::intrusive_ptr<c10d::Work> begin(std::function<void()> body) {
    auto before = std::exchange(last_, nullptr);
    auto work = ThreadWork::begin(
        [before, body = std::move(body)] {
          if (before) before->wait(kNoTimeout);
          body();
        },
        late_);
    last_ = work;
    return work;
  }
  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static void check(bool fine) {
    if (!fine) throw std::runtime_error("the connection of the ordered engine broke");
  }
  static void send(int to, void const* data, std::size_t size) {
    for (auto const* from = static_cast<char const*>(data); size != 0;) {
      auto const count = ::send(to, from, size, MSG_NOSIGNAL);
      check(count > 0);
      from += count;
      size -= static_cast<std::size_t>(count);
    }
  }
  static void receive(int from, void* data, std::size_t size) {
    for (auto* to = static_cast<char*>(data); size != 0;) {
      auto const count = ::recv(from, to, size, 0);
      check(count > 0);
      to += count;
      size -= static_cast<std::size_t>(count);
    }
  }

  template <class Take>
  void gather_to_zero(at::Tensor const& mine, bool dies, Take&& take) {
    if (getRank() != 0) {
      send(peers_[0], mine.const_data_ptr(), dies ? mine.nbytes() / 2 : mine.nbytes());
      if (dies) ::raise(SIGKILL);
      return;
    }
    if (dies) ::raise(SIGKILL);
    auto other = at::empty_like(mine);
    for (std::size_t rank = 1; rank != peers_.size(); ++rank) {
      receive(peers_[rank], other.mutable_data_ptr(), other.nbytes());
      take(other);
    }
  }
  void from_zero(at::Tensor& tensor) {
    if (getRank() != 0) return receive(peers_[0], tensor.mutable_data_ptr(), tensor.nbytes());
    for (std::size_t rank = 1; rank != peers_.size(); ++rank)
      send(peers_[rank], tensor.const_data_ptr(), tensor.nbytes());
  }

  long dies_in_, sums_ = 0;
  bool late_;
  c10::intrusive_ptr<c10d::Work> last_ = {};
  std::vector<int> peers_;
};

/// Strategies beside the first one, whose group they all have: what is refused, a line each; then one that waits less.
template <class Strategy>
void use_another(Strategy const& first) {
  first.barrier("the first strategy");
  auto const refused = [&](auto change) {
    auto other = first;
    change(other);
    try {
      other.barrier("another strategy");
    } catch (std::exception const& error) { std::fprintf(stderr, "%s\n", error.what()); }
  };
  refused([](auto& other) { other.backend = Collectives::nccl; });
  refused([](auto& other) {
    other.engine = [](auto const& store, auto const& place, auto) {
      return c10::make_intrusive<OrderedEngine>(store, place.rank, place.world, 0);
    };
  });
  auto hasty = first;
  hasty.timeout = std::chrono::milliseconds(1500);
  if (first.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
  hasty.barrier("tea");
}

}  // namespace fulgurite::test
