#pragma once
// The processes of a run as one group: what they tell each other, in turn, with nobody waiting for ever.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/connection.hpp>
#include <fulgurite/distributed/group_options.hpp>
#include <fulgurite/distributed/parted.hpp>
#include <fulgurite/distributed/traffic.hpp>

namespace fulgurite::distributed {

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

  /// For messages between two ranks (channel.hpp).
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

}  // namespace fulgurite::distributed
