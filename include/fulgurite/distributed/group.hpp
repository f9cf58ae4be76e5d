#pragma once
// The processes of a run as one group: what they tell each other, in turn, with nobody waiting for ever.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/distributed/group_options.hpp>
#include <fulgurite/distributed/leaving.hpp>
#include <fulgurite/distributed/parted.hpp>
#include <fulgurite/distributed/rendezvous.hpp>
#include <fulgurite/distributed/traffic.hpp>
#include <fulgurite/distributed/watch.hpp>
#include <fulgurite/loop/rank_ended.hpp>

namespace fulgurite::distributed {

/// One in a process, made by the first strategy that needs it and kept until the process ends. All members that talk
/// are collectives: every rank calls them, in the same order. Where another rank has ended they throw loop::RankEnded;
/// where one does not come in time, an Error that says which.
class Group {
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
    if (auto const place = options.place(); place.world != one->place_.world)
      throw Error("fulgurite.distributed.devices",
                  "this process belongs to a group of " + std::to_string(one->place_.world) +
                      " already, and a strategy asks for " + std::to_string(place.world) +
                      ": a program has one group, so give all its strategies the same number");
    one->go_on_with(options);
    return *one;
  }
  static bool is_open() { return current() != nullptr; }

  Group(Group const&) = delete;
  Group& operator=(Group const&) = delete;
  Place const& place() const { return place_; }
  Traffic const& traffic() const { return traffic_; }

  /// What `work()` gives, which talks to another rank. Where that rank's connection breaks, it is named.
  template <class Work>
  auto or_lost(std::string_view what, Work&& work) {
    if (auto const ended = watch_->ended()) gone(*ended);
    try {
      return work();
    } catch (std::exception const& error) { lost(what, error.what()); }
  }

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
    shape.insert(shape.begin(), place_.world);
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
    std::vector<std::vector<at::Tensor>> all{bytes.chunk(place_.world)};
    std::vector<at::Tensor> mine{all[0].at(static_cast<std::size_t>(place_.rank))};
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
        throw_mismatch(place_, what, static_cast<int>(rank), theirs);
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
  /// Waits for what other ranks bring about, looking after them meanwhile. `ready(time)` says whether it is there, and
  /// waits for it no longer than that; it throws where it never will be.
  template <class Ready>
  void await(std::string_view what, Ready&& ready) {
    if (auto const ended = watch_->ended()) gone(*ended);
    auto const began = Clock::now();
    bool told = false;
    try {
      while (!ready(std::chrono::milliseconds(100))) {
        if (auto const ended = watch_->ended()) {
          if (ready(std::chrono::milliseconds(1))) break;  // what the one that has ended had sent before
          gone(*ended);
        }
        auto const waited = Clock::now() - began;
        if (!std::exchange(told, true)) watch_->waits(std::string(what));
        // What a rank had sent before it left is here at once.
        if (auto const left = watch_->left(); left && Clock::now() - left->second > grace) {
          let_go();
          throw_left(place_, what, left->first);
        }
        if (waited > options_.timeout) time_is_up(what);
      }
    } catch (loop::RankEnded const&) { throw; } catch (Error const&) {
      throw;
    } catch (std::exception const& error) { lost(what, error.what()); }
    if (told) watch_->waits({});
  }

  /// Tells the others that this rank's run has failed. Never throws.
  void abort(std::string_view text) noexcept {
    try {
      watch_->tell(place_.rank, std::string(text));
    } catch (...) {}
    let_go();
  }

 private:
  static constexpr std::size_t name_size = 56, inline_size = 192, message_size = 8 + name_size + inline_size;
  using Clock = std::chrono::steady_clock;

  explicit Group(GroupOptions const& options) : options_(options), place_(options.place()) {}
  static Group*& current() {
    static Group* group = nullptr;
    return group;
  }

  /// Another strategy of the program, or the same one for another run.
  void go_on_with(GroupOptions const& options) {
    if (!options_.is_carried_like(options))
      throw Error("fulgurite.distributed.backend",
                  "the processes of this program are connected already, by another .backend or .engine than this "
                  "strategy asks for: a program has one group, so give all its strategies the same");
    if (options.timeout == options_.timeout) return;
    options_.timeout = options.timeout;
    for (auto const& engine : {decisions_, gradients_, buckets_})
      if (engine) engine->setTimeout(2 * options_.timeout);
  }

  void open() {
    bool const nccl = options_.uses_nccl() && !options_.engine;
    if (nccl) require_nccl(place_.local_world);
    bool const own = !launched_place() && place_.world > 1;
    bool const serves = place_.rank == 0 && !place_.agent_has_store;
    store_ = serves ? serve(place_, options_.timeout) : connect(place_, options_.timeout);
    watch_ = std::make_unique<Watch>(place_, connect(place_, options_.timeout));
    try {
      if (own)
        others_ = std::make_unique<OwnRanks>(
            place_.world, place_.port, options_.others,
            [watch = watch_.get()](int rank, std::string const& how) { watch->tell(rank, how); });
      meet({place_, *watch_, options_.timeout}, store_);
      decisions_ = make("decisions");
#if defined(FULGURITE_HAS_NCCL)
      if (nccl) {
        Store const keys = c10::make_intrusive<c10d::PrefixStore>("gradients", store_);
        gradients_ = nccl_engine(keys, place_, 2 * options_.timeout);
        on_gpu_ = true;
        return;
      }
#endif
      gradients_ = make("gradients");
    } catch (std::exception const& error) {
      if (!dynamic_cast<loop::RankEnded const*>(&error)) abort(error.what());
      failed_ = true;
      close(1);
      throw;
    }
  }

  Engine make(std::string const& name) {
    Store const keys = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    auto const later = 2 * options_.timeout;  // the time that counts is measured here, where ranks can be named
    return answered({place_, *watch_, options_.timeout}, [keys, later, place = place_, engine = options_.engine] {
      return engine ? engine(keys, place, later) : gloo_engine(keys, place, later);
    });
  }

  std::vector<std::string> all_gather(std::string const& message, std::string_view what) {
    ++traffic_.exchanges;
    auto const bytes = static_cast<std::int64_t>(message.size());
    auto const one = [&] { return at::empty({bytes}, at::TensorOptions().dtype(at::kByte)); };
    std::vector<at::Tensor> mine{one()};
    std::memcpy(mine[0].mutable_data_ptr(), message.data(), message.size());
    std::vector<std::vector<at::Tensor>> all(1);
    for (int rank = 0; rank != place_.world; ++rank) all[0].push_back(one());
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

  /// Begins a collective and waits for it.
  template <class Begin>
  void run(std::string_view what, Begin&& begin) {
    decltype(begin()) work = {};
    await(what, [&](std::chrono::milliseconds time) {
      if (!work) work = begin();
      return is_over(*work, time);
    });
  }
  /// A wait whose time is up throws, as one does whose work has failed. The work may end between that and the question
  /// whether it is over, so only the work itself can say how it ended.
  static bool is_over(c10d::Work& work, std::chrono::milliseconds time) {
    try {
      work.wait(time);
      return true;
    } catch (std::exception const&) {
      if (!work.isCompleted()) return false;
    }
    work.wait();
    return true;
  }

  [[noreturn]] void gone(Watch::Ended const& ended) {
    let_go();
    throw loop::RankEnded(ended.rank, ended.text);
  }
  /// A sum on a GPU that a rank no longer comes to would never end, and neither would what is asked of the GPU after
  /// it.
  void let_go() noexcept {
    failed_ = true;
    try {
      if (std::exchange(on_gpu_, false)) gradients_->abort();
    } catch (...) {}
  }

  /// A connection broke: the process at its other end is gone, and soon somebody says which, or it alone is silent.
  [[noreturn]] void lost(std::string_view what, std::string_view why) {
    watch_->call_roll();
    if (auto const ended = watch_->ended_within(grace)) gone(*ended);
    let_go();
    throw_lost(place_, *watch_, what, why);
  }
  [[noreturn]] void time_is_up(std::string_view what) {
    let_go();
    throw_time_is_up(place_, *watch_, what, options_.timeout);
  }

  /// At the end of the process: rank 0 keeps the store until the others are gone, and sees to it that they go. Where
  /// one that it started has failed when no collective could tell of it any more, its own success is none.
  void close(int status) {
    bool const knows = failed_, started = others_ != nullptr;
    if (status != 0) watch_->tell(place_.rank, "its program returned " + std::to_string(status));
    if (watch_->ended()) failed_ = true;
    if (others_) {
      if (!failed_) watch_->leave();
      auto const gone = [&](std::chrono::milliseconds time) { return others_->wait_for(time); };
      if (!gone(failed_ ? std::min(patience, options_.timeout) : options_.timeout)) {
        tell(stderr, "rank 0 has ended, and ends the processes that it started and that go on\n");
        others_->signal(SIGTERM);
        if (!gone(patience / 5)) others_->signal(SIGKILL);
      }
      others_.reset();
    } else {
      leave_together(store_, place_, *watch_, failed_, patience);
    }
    watch_->stop();
    if (auto const ended = watch_->ended(); started && ended && !knows && status == 0) end_as_failed(*ended);
    if (failed_) return;  // what still waits would hold up whoever destroys it
    if (on_gpu_) gradients_->shutdown();
    buckets_.reset();
    gradients_.reset();
    decisions_.reset();
  }

  static constexpr std::chrono::milliseconds patience{5000}, grace{2000};

  GroupOptions options_;
  Place place_;
  Store store_ = {};
  std::unique_ptr<Watch> watch_ = {};
  std::unique_ptr<OwnRanks> others_ = {};  ///< that this process started
  Engine decisions_ = {}, gradients_ = {}, buckets_ = {};
  Traffic traffic_ = {};
  bool on_gpu_ = false;  ///< gradients; decisions are the CPU's
  bool failed_ = false;
};

}  // namespace fulgurite::distributed
