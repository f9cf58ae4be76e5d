#pragma once
// The bodies of distributed/group.hpp.

#include <fcntl.h>

#include <chrono>
#include <thread>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/group.hpp>

namespace fulgurite::distributed {

FULGURITE_BODY Group& Group::of(GroupOptions const& options) {
  auto& one = current();
  if (!one) {
    auto made = std::unique_ptr<Group>(new Group(options));
    made->open();
    one = made.release();  // its threads outlive static objects, so it is closed at exit but never destroyed
    ::on_exit([](int status, void*) { current()->close(status); }, nullptr);
  }
  if (auto const place = options.place(); place.world != one->place().world)
    throw Error("fulgurite.distributed.devices",
                "this process belongs to a group of " + std::to_string(one->place().world) +
                    " already, and a strategy asks for " + std::to_string(place.world) +
                    ": a program has one group, so give all its strategies the same number");
  one->continue_with(options);
  return *one;
}

FULGURITE_BODY void Group::all_reduce(at::Tensor const& tensor, std::string_view what) {
  ++traffic_.all_reduces;
  traffic_.all_reduce_bytes += static_cast<long>(tensor.nbytes());
  std::vector<at::Tensor> tensors{tensor};
  on_tensors(what, [&] { return gradients_->allreduce(tensors); });
}

FULGURITE_BODY void Group::open_buckets() {
  if (!buckets_) or_lost("connecting to exchange gradients", [&] { buckets_ = make("buckets"); });
}

FULGURITE_BODY c10::intrusive_ptr<c10d::Work> Group::begin_sum(at::Tensor const& tensor, bool in_backward) {
  ++traffic_.all_reduces;
  traffic_.all_reduce_bytes += static_cast<long>(tensor.nbytes());
  traffic_.in_backward += in_backward ? 1 : 0;
  std::vector<at::Tensor> tensors{tensor};
  return buckets_->allreduce(tensors);
}

FULGURITE_BODY void Group::end(c10d::Work& sum, std::string_view what) {
  await(what, [&](std::chrono::milliseconds time) { return is_over(sum, time); });
}

FULGURITE_BODY void Group::broadcast(at::Tensor const& tensor, int from, std::string_view what) {
  ++traffic_.broadcasts;
  std::vector<at::Tensor> tensors{tensor};
  c10d::BroadcastOptions options;
  options.rootRank = from;
  on_tensors(what, [&] { return gradients_->broadcast(tensors, options); });
}

FULGURITE_BODY void Group::sum(at::Tensor const& tensor, std::string_view what) {
  ++traffic_.of_layers;
  std::vector<at::Tensor> tensors{tensor};
  on_tensors(what, [&] { return gradients_->allreduce(tensors); });
}

FULGURITE_BODY at::Tensor Group::stack(at::Tensor const& mine, std::string_view what) {
  ++traffic_.of_layers;
  auto shape = mine.sizes().vec();
  shape.insert(shape.begin(), place().world);
  auto all = at::empty(shape, mine.options());
  std::vector<std::vector<at::Tensor>> parts{all.unbind(0)};
  std::vector<at::Tensor> own{mine};
  on_tensors(what, [&] { return gradients_->allgather(parts, own); });
  return all;
}

FULGURITE_BODY void Group::all_gather(at::Tensor const& flat, std::string_view what) {
  ++traffic_.all_gathers;
  traffic_.all_gather_bytes += static_cast<long>(flat.nbytes());
  auto bytes = flat.view(at::kByte);
  std::vector<std::vector<at::Tensor>> all{bytes.chunk(place().world)};
  std::vector<at::Tensor> mine{all[0].at(static_cast<std::size_t>(place().rank))};
  if (!flat.is_cpu()) return on_tensors(what, [&] { return gradients_->_allgather_base(bytes, mine[0]); });
  run(what, [&] { return (on_gpu_ ? decisions_ : gradients_)->allgather(all, mine); });
}

FULGURITE_BODY std::vector<std::string> Group::exchange(std::string_view said, std::string_view what) {
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
      abort_collectives();
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

FULGURITE_BODY std::vector<std::string> Group::all_gather(std::string const& message, std::string_view what) {
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

FULGURITE_BODY bool agree(Group& group, bool any) {
  for (auto const& said : group.exchange(any ? "1" : "0", "agreeing"))
    if (said == "1") return true;
  return false;
}

FULGURITE_BODY void reduce_in_place(Group& group, std::span<double> values, std::span<Reduce const> how) {
  fold_all(group, values, [how](std::size_t i) { return how[i]; });
}

FULGURITE_BODY Channel::Channel(Group& group, Direction direction, int peer)
    : group_(&group), direction_(direction), peer_(peer), shared_(std::make_shared<Shared>()) {
  std::thread(&Channel::work, shared_).detach();
}

FULGURITE_BODY Channel::~Channel() {
  std::lock_guard const lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
}

FULGURITE_BODY void Channel::post(at::Tensor const& tensor) {
  std::vector<at::Tensor> one{tensor};
  // A connection that is already broken throws at once.
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

FULGURITE_BODY void Channel::wait(std::string_view what) {
  group_->await(what, [&](std::chrono::milliseconds time) {
    std::unique_lock lock(shared_->mutex);
    auto const ready = [&] { return shared_->waiting.empty() || shared_->problem; };
    shared_->changed.wait_for(lock, time, ready);
    if (shared_->problem) std::rethrow_exception(shared_->problem);
    return ready();
  });
}

FULGURITE_BODY void Channel::work(std::shared_ptr<Shared> shared) {
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

}  // namespace fulgurite::distributed
