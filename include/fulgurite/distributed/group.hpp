#pragma once
// The processes of a run as one group: their collectives, none of which waits forever.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
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

// Counts what a process has sent to the others, for measuring the cost of a step.

/// Counts of messages and bytes.
struct Traffic {
  long all_reduces = 0, all_reduce_bytes = 0;  ///< of gradients
  long in_backward = 0;                        ///< of these, started before backward had ended
  long broadcasts = 0;                         ///< of weights and buffers
  long of_layers = 0;                          ///< collectives of layers, inside forward and backward
  long all_gathers = 0, all_gather_bytes = 0;  ///< of tensors of which each rank keeps a part
  long exchanges = 0;                          ///< of decisions and numbers
};

/// The process group. There is one per process; the first strategy that needs it makes it, and it is kept until the
/// process ends. All members that communicate are collectives: every rank must call them in the same order. They throw
/// loop::RankEnded if another rank has ended, and an Error that names the missing ranks at a timeout.
class Group : public Connection {
 public:
  /// The group of this process. Rank 0 starts the other processes if no launcher has; all wait until all have arrived.
  static Group& of(GroupOptions const& options);
  static bool is_open() { return current() != nullptr; }

  Traffic const& traffic() const { return traffic_; }

  /// Replaces the tensor by its sum over all ranks.
  void all_reduce(at::Tensor const& tensor, std::string_view what);
  /// Opens the connections on which sums can be started while layers communicate over the other ones.
  void open_buckets();
  /// Like all_reduce for a tensor on the CPU, but several can run at once: `end` waits for one of them.
  c10::intrusive_ptr<c10d::Work> begin_sum(at::Tensor const& tensor, bool in_backward);
  void end(c10d::Work& sum, std::string_view what);
  /// Gives all ranks the tensor of rank `from`.
  void broadcast(at::Tensor const& tensor, int from, std::string_view what);

  /// Sums a layer's tensor over all ranks. Not counted as gradients.
  void sum(at::Tensor const& tensor, std::string_view what);
  /// Stacks the tensors of all ranks along a new first dimension, in the order of ranks. All must have the same shape.
  at::Tensor stack(at::Tensor const& mine, std::string_view what);
  /// `flat` consists of as many equal parts as there are ranks, and each rank has the part with its number; afterwards
  /// all ranks have all parts.
  void all_gather(at::Tensor const& flat, std::string_view what);

  /// Returns the texts of all ranks, in the order of ranks. `what` names the occasion: throws an Error if ranks are at
  /// different ones.
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

  /// For weights or gradients. On a GPU only the stream waits: the exchange of decisions before it has named ranks that
  /// hang.
  void on_tensors(std::string_view what, auto&& begin) {
    if (!on_gpu_) return run(what, begin);
    or_lost(what, [&] { begin()->wait(); });
  }

  Traffic traffic_ = {};
};

// Reduces numbers and decisions over several processes. They are folded in the order of ranks, in the same way on each
// rank, so that all have the same bits with any engine.

/// True on all ranks if `any` is true on any rank.
bool agree(Group& group, bool any);

/// Reduces values of one type, position by position. A mean of integers is truncated.
template <class Number>
void fold_all(Group& group, std::span<Number> values, auto const& how) {
  std::string_view const mine(reinterpret_cast<char const*>(values.data()), values.size_bytes());
  auto const said = group.exchange(mine, "reducing " + std::to_string(values.size()) + " numbers");
  for (std::size_t rank = 0; rank != said.size(); ++rank)
    for (std::size_t i = 0; i != values.size(); ++i) {
      Number number{};
      std::memcpy(&number, said[rank].data() + i * sizeof(Number), sizeof(Number));
      values[i] = rank == 0 ? number : reduced(values[i], number, how(i));
    }
  for (std::size_t i = 0; i != values.size(); ++i)
    if (how(i) == Reduce::mean) values[i] /= static_cast<Number>(said.size());
}

/// Reduces a number, or a span of doubles in place.
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

/// Reduces several numbers, each in its own way, in one message.
void reduce_in_place(Group& group, std::span<double> values, std::span<Reduce const> how);

// Sends tensors from one process to another, in one direction.

/// c10d's send or recv with one neighbour. A posted tensor is sent at once; `wait` waits until all posted tensors have
/// arrived, and watches the other ranks meanwhile. gloo closes all connections if a wait with a time limit times out,
/// so a thread of the channel waits without a limit. The thread may outlive the channel.
class Channel : Pinned {
 public:
  enum class Direction : bool { to, from };

  Channel(Group& group, Direction direction, int peer);
  ~Channel();

  /// Sends or fills the tensor. It must be contiguous, and must not be written to until it has arrived.
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
