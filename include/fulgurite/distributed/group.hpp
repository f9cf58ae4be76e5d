#pragma once
// The processes of a run as one group: what they tell each other, in turn, with nobody waiting for ever.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/connection.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::distributed {

// What a process has sent to the others of its run, for who watches what a step costs.

/// What went over the wire, counted.
struct Traffic {
  long all_reduces = 0, all_reduce_bytes = 0;  ///< of gradients
  long in_backward = 0;                        ///< of these, begun before backward had ended
  long broadcasts = 0;                         ///< of weights and buffers
  long of_layers = 0;                          ///< inside of forward and backward
  long all_gathers = 0, all_gather_bytes = 0;  ///< of what ranks keep a part of each
  long exchanges = 0;                          ///< of decisions and numbers
};

/// One in a process, made by the first strategy that needs it and kept until the process ends. All members that talk
/// are collectives: every rank calls them, in the same order. Where another rank has ended they throw loop::RankEnded;
/// where one does not come in time, an Error that says which.
class Group : public Connection {
 public:
  /// The group of this process. Rank 0 starts the others where nobody has, and all wait until all are there.
  static Group& of(GroupOptions const& options) {
    auto& one = current();
    if (!one) {
      auto made = std::unique_ptr<Group>(new Group(options));
      made->open();
      one = made.release();  // its threads outlive static objects, so it is closed at exit and never destroyed
      ::on_exit([](int status, void*) { current()->close(status); }, nullptr);
    }
    if (auto const place = options.place(); place.world != one->place().world)
      throw Error("fulgurite.distributed.devices",
                  "this process belongs to a group of " + std::to_string(one->place().world) +
                      " already, and a strategy asks for " + std::to_string(place.world) +
                      ": a program has one group, so give all its strategies the same number");
    one->go_on_with(options);
    return *one;
  }
  static bool is_open() { return current() != nullptr; }

  Traffic const& traffic() const { return traffic_; }

  /// The sum over all ranks, in place.
  void all_reduce(at::Tensor const& tensor, std::string_view what) {
    ++traffic_.all_reduces;
    traffic_.all_reduce_bytes += static_cast<long>(tensor.nbytes());
    std::vector<at::Tensor> tensors{tensor};
    on_tensors(what, [&] { return gradients_->allreduce(tensors); });
  }
  /// From here on sums can be begun, over connections of their own: what layers ask of other ranks goes on beside them.
  void open_buckets() {
    if (!buckets_) or_lost("connecting to exchange gradients", [&] { buckets_ = make("buckets"); });
  }
  /// As all_reduce of a tensor on the CPU, several of which can be under way at once: `end` waits for one of them.
  c10::intrusive_ptr<c10d::Work> begin_sum(at::Tensor const& tensor, bool in_backward) {
    ++traffic_.all_reduces;
    traffic_.all_reduce_bytes += static_cast<long>(tensor.nbytes());
    traffic_.in_backward += in_backward ? 1 : 0;
    std::vector<at::Tensor> tensors{tensor};
    return buckets_->allreduce(tensors);
  }
  void end(c10d::Work& sum, std::string_view what) {
    await(what, [&](std::chrono::milliseconds time) { return is_over(sum, time); });
  }
  /// What rank `from` has, to all.
  void broadcast(at::Tensor const& tensor, int from, std::string_view what) {
    ++traffic_.broadcasts;
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    on_tensors(what, [&] { return gradients_->broadcast(tensors, options); });
  }

  /// The sum over all ranks of what a layer has, which does not count as gradients.
  void sum(at::Tensor const& tensor, std::string_view what) {
    ++traffic_.of_layers;
    std::vector<at::Tensor> tensors{tensor};
    on_tensors(what, [&] { return gradients_->allreduce(tensors); });
  }
  /// What each rank has, in the order of ranks along a new first dimension. All have the same shape.
  at::Tensor stack(at::Tensor const& mine, std::string_view what) {
    ++traffic_.of_layers;
    auto shape = mine.sizes().vec();
    shape.insert(shape.begin(), place().world);
    auto all = at::empty(shape, mine.options());
    std::vector<std::vector<at::Tensor>> parts{all.unbind(0)};
    std::vector<at::Tensor> own{mine};
    on_tensors(what, [&] { return gradients_->allgather(parts, own); });
    return all;
  }
  /// Of `flat`, as many equal parts as there are ranks, each rank has the part with its number; afterwards all have
  /// all.
  void all_gather(at::Tensor const& flat, std::string_view what) {
    ++traffic_.all_gathers;
    traffic_.all_gather_bytes += static_cast<long>(flat.nbytes());
    auto bytes = flat.view(at::kByte);
    std::vector<std::vector<at::Tensor>> all{bytes.chunk(place().world)};
    std::vector<at::Tensor> mine{all[0].at(static_cast<std::size_t>(place().rank))};
    if (!flat.is_cpu()) return on_tensors(what, [&] { return gradients_->_allgather_base(bytes, mine[0]); });
    run(what, [&] { return (on_gpu_ ? decisions_ : gradients_)->allgather(all, mine); });
  }

  /// What each rank says, in the order of ranks. `what` names the occasion: an Error where ranks are not at the same
  /// one.
  std::vector<std::string> exchange(std::string_view said, std::string_view what) {
    auto const name = what.substr(0, name_size);
    std::string message(8, '\0');
    std::uint64_t const size = said.size();
    std::memcpy(message.data(), &size, 8);
    message.append(name).resize(8 + name_size);
    message.append(said.substr(0, inline_size)).resize(message_size);
    auto all = all_gather(message, what);
    std::vector<std::string> answers;
    std::uint64_t longest = 0;
    for (std::size_t rank = 0; rank != all.size(); ++rank) {
      std::string_view const other(all[rank]);
      std::uint64_t length = 0;
      std::memcpy(&length, other.data(), 8);
      auto const at = other.substr(8, name_size);
      if (auto const theirs = at.substr(0, at.find('\0')); theirs != name) {
        let_go();
        throw_mismatch(place(), what, static_cast<int>(rank), theirs);
      }
      answers.emplace_back(other.substr(8 + name_size, std::min<std::uint64_t>(length, inline_size)));
      longest = std::max(longest, length);
    }
    if (longest <= inline_size) return answers;
    std::string rest(said);
    rest.resize(longest);
    auto whole = all_gather(rest, what);
    for (std::size_t rank = 0; rank != all.size(); ++rank) {
      std::uint64_t length = 0;
      std::memcpy(&length, all[rank].data(), 8);
      whole[rank].resize(length);
    }
    return whole;
  }

  /// For messages between two ranks.
  c10d::Backend& between_two() { return *gradients_; }

 private:
  static constexpr std::size_t name_size = 56, inline_size = 192, message_size = 8 + name_size + inline_size;
  explicit Group(GroupOptions const& options) : Connection(options) {}
  static Group*& current() {
    static Group* group = nullptr;
    return group;
  }

  std::vector<std::string> all_gather(std::string const& message, std::string_view what) {
    ++traffic_.exchanges;
    auto const bytes = static_cast<std::int64_t>(message.size());
    auto const one = [&] { return at::empty({bytes}, at::TensorOptions().dtype(at::kByte)); };
    std::vector<at::Tensor> mine{one()};
    std::memcpy(mine[0].mutable_data_ptr(), message.data(), message.size());
    std::vector<std::vector<at::Tensor>> all(1);
    for (int rank = 0; rank != place().world; ++rank) all[0].push_back(one());
    run(what, [&] { return decisions_->allgather(all, mine); });
    std::vector<std::string> answers;
    for (auto const& tensor : all[0])
      answers.emplace_back(static_cast<char const*>(tensor.const_data_ptr()), message.size());
    return answers;
  }

  /// Of weights or gradients. On a GPU its own queue waits: the exchange of decisions before has named who hangs.
  template <class Begin>
  void on_tensors(std::string_view what, Begin&& begin) {
    if (!on_gpu_) return run(what, begin);
    or_lost(what, [&] { begin()->wait(); });
  }

  Traffic traffic_ = {};
};

// Numbers and answers that several processes come to together. They are folded in the order of ranks, on each of them
// alike, so that all have the same bits whoever carries the messages.

/// True on all ranks if any rank says so.
inline bool agree(Group& group, bool any) {
  for (auto const& said : group.exchange(any ? "1" : "0", "agreeing"))
    if (said == "1") return true;
  return false;
}

/// Two numbers reduced to one. A mean is summed here; fold_all divides it when all ranks are in.
template <class Number>
Number fold(Number so_far, Number next, Reduce how) {
  switch (how) {
  case Reduce::min: return std::min(so_far, next);
  case Reduce::max: return std::max(so_far, next);
  default: return so_far + next;
  }
}

/// Values of one kind, folded position by position. A mean of whole numbers is cut.
template <class Number>
void fold_all(Group& group, std::span<Number> values, auto const& how) {
  std::string_view const mine(reinterpret_cast<char const*>(values.data()), values.size_bytes());
  auto const said = group.exchange(mine, "reducing " + std::to_string(values.size()) + " numbers");
  for (std::size_t rank = 0; rank != said.size(); ++rank)
    for (std::size_t i = 0; i != values.size(); ++i) {
      Number number{};
      std::memcpy(&number, said[rank].data() + i * sizeof(Number), sizeof(Number));
      values[i] = rank == 0 ? number : fold(values[i], number, how(i));
    }
  for (std::size_t i = 0; i != values.size(); ++i)
    if (how(i) == Reduce::mean) values[i] /= static_cast<Number>(said.size());
}

/// A number, or a span of doubles in place.
template <class V>
V reduce(Group& group, V value, Reduce how) {
  auto const same = [how](std::size_t) { return how; };
  if constexpr (std::is_same_v<V, std::span<double>>) {
    fold_all(group, value, same);
    return value;
  } else if constexpr (std::is_integral_v<V>) {
    auto number = static_cast<std::int64_t>(value);
    fold_all(group, std::span(&number, 1), same);
    return static_cast<V>(number);
  } else {
    auto number = static_cast<double>(value);
    fold_all(group, std::span(&number, 1), same);
    return static_cast<V>(number);
  }
}

/// Several numbers, each in its own way, in one message.
inline void reduce_in_place(Group& group, std::span<double> values, std::span<Reduce const> how) {
  fold_all(group, values, [how](std::size_t i) { return how[i]; });
}

// Tensors from one process to another, in one direction.

/// c10d's send, or recv, with one neighbour. What is posted goes on its way at once; `wait` waits until all of it has
/// arrived, looking after the other ranks. gloo closes all connections where somebody waits with a time limit and it is
/// up, so a thread of the channel's own waits without one. It outlives a channel that nobody waits for any more.
class Channel {
 public:
  enum class Direction : bool { to, from };

  Channel(Group& group, Direction direction, int peer)
      : group_(&group), direction_(direction), peer_(peer), shared_(std::make_shared<Shared>()) {
    std::thread(&Channel::work, shared_).detach();
  }
  Channel(Channel const&) = delete;
  Channel& operator=(Channel const&) = delete;
  ~Channel() {
    std::lock_guard const lock(shared_->mutex);
    shared_->over = true;
    shared_->changed.notify_all();
  }

  /// The tensor is sent, or filled. It is contiguous, and must not be written to until it has arrived.
  void post(at::Tensor const& tensor) {
    std::vector<at::Tensor> one{tensor};
    // A connection that is broken already says so at once.
    auto work = group_->or_lost("talking to a neighbouring stage", [&] {
      auto& engine = group_->between_two();
      return direction_ == Direction::to ? engine.send(one, peer_, tag_) : engine.recv(one, peer_, tag_);
    });
    tag_ = (tag_ + 1) % tags;
    ++messages_;
    bytes_ += static_cast<long>(tensor.nbytes());
    std::lock_guard const lock(shared_->mutex);
    shared_->waiting.push_back({std::move(work), tensor});
    shared_->changed.notify_all();
  }
  void wait(std::string_view what) {
    group_->await(what, [&](std::chrono::milliseconds time) {
      std::unique_lock lock(shared_->mutex);
      auto const ready = [&] { return shared_->waiting.empty() || shared_->problem; };
      shared_->changed.wait_for(lock, time, ready);
      if (shared_->problem) std::rethrow_exception(shared_->problem);
      return ready();
    });
  }

  long messages() const { return messages_; }
  long bytes() const { return bytes_; }

 private:
  struct Message {
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor tensor;
  };
  struct Shared {
    std::mutex mutex = {};
    std::condition_variable changed = {};
    bool over = false;
    std::deque<Message> waiting = {};
    std::exception_ptr problem = {};
  };

  static void work(std::shared_ptr<Shared> shared) {
    std::unique_lock lock(shared->mutex);
    for (;;) {
      shared->changed.wait(lock, [&] { return shared->over || !shared->waiting.empty(); });
      if (shared->waiting.empty() || shared->problem) return;
      auto const first = shared->waiting.front().work;
      lock.unlock();
      std::exception_ptr problem;
      try {
        first->wait();
      } catch (...) { problem = std::current_exception(); }
      lock.lock();
      if (problem) shared->problem = problem;
      else shared->waiting.pop_front();
      shared->changed.notify_all();
    }
  }

  static constexpr int tags = 1 << 15;

  Group* group_;
  Direction direction_;
  int peer_;
  int tag_ = 0;
  long messages_ = 0, bytes_ = 0;
  std::shared_ptr<Shared> shared_;
};

}  // namespace fulgurite::distributed
