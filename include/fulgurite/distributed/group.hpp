#pragma once
// The processes of a run as one group: what they tell each other, in turn, with nobody waiting for ever.

#include <algorithm>
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
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <sys/wait.h>

#include <fulgurite/core/body.hpp>
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
  static Group& of(GroupOptions const& options);
  static bool is_open() { return current() != nullptr; }

  Traffic const& traffic() const { return traffic_; }

  /// The sum over all ranks, in place.
  void all_reduce(at::Tensor const& tensor, std::string_view what);
  /// From here on sums can be begun, over connections of their own: what layers ask of other ranks goes on beside them.
  void open_buckets();
  /// As all_reduce of a tensor on the CPU, several of which can be under way at once: `end` waits for one of them.
  c10::intrusive_ptr<c10d::Work> begin_sum(at::Tensor const& tensor, bool in_backward);
  void end(c10d::Work& sum, std::string_view what);
  /// What rank `from` has, to all.
  void broadcast(at::Tensor const& tensor, int from, std::string_view what);

  /// The sum over all ranks of what a layer has, which does not count as gradients.
  void sum(at::Tensor const& tensor, std::string_view what);
  /// What each rank has, in the order of ranks along a new first dimension. All have the same shape.
  at::Tensor stack(at::Tensor const& mine, std::string_view what);
  /// Of `flat`, as many equal parts as there are ranks, each rank has the part with its number; afterwards all have
  /// all.
  void all_gather(at::Tensor const& flat, std::string_view what);

  /// What each rank says, in the order of ranks. `what` names the occasion: an Error where ranks are not at the same
  /// one.
  std::vector<std::string> exchange(std::string_view said, std::string_view what);

  /// For messages between two ranks.
  c10d::Backend& between_two() { return *gradients_; }

 private:
  static constexpr std::size_t name_size = 56, inline_size = 192, message_size = 8 + name_size + inline_size;
  explicit Group(GroupOptions const& options) : Connection(options) {}
  static Group*& current() {
    static Group* group = nullptr;
    return group;
  }

  std::vector<std::string> all_gather(std::string const& message, std::string_view what);

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
bool agree(Group& group, bool any);

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
void reduce_in_place(Group& group, std::span<double> values, std::span<Reduce const> how);

// Tensors from one process to another, in one direction.

/// c10d's send, or recv, with one neighbour. What is posted goes on its way at once; `wait` waits until all of it has
/// arrived, looking after the other ranks. gloo closes all connections where somebody waits with a time limit and it is
/// up, so a thread of the channel's own waits without one. It outlives a channel that nobody waits for any more.
class Channel {
 public:
  enum class Direction : bool { to, from };

  Channel(Group& group, Direction direction, int peer);
  Channel(Channel const&) = delete;
  Channel& operator=(Channel const&) = delete;
  ~Channel();

  /// The tensor is sent, or filled. It is contiguous, and must not be written to until it has arrived.
  void post(at::Tensor const& tensor);
  void wait(std::string_view what);

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

  static void work(std::shared_ptr<Shared> shared);

  static constexpr int tags = 1 << 15;

  Group* group_;
  Direction direction_;
  int peer_;
  int tag_ = 0;
  long messages_ = 0, bytes_ = 0;
  std::shared_ptr<Shared> shared_;
};

}  // namespace fulgurite::distributed

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/group.ipp>
#endif
