#pragma once
// Several ranks as threads of one process: a strategy on toy tensors whose sums have an order, whose collectives are
// counted, and which fails on demand. Loops under several ranks are unit tests by it.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/metric.hpp>

#include "toy.hpp"

namespace toy {

/// Where the ranks meet. One primitive: each brings bytes, and gets those of all, in the order of ranks.
class Meeting {
 public:
  explicit Meeting(int ranks, std::chrono::milliseconds limit = std::chrono::seconds(20))
      : limit_(limit), bytes_(static_cast<std::size_t>(ranks)) {}

  int world() const { return static_cast<int>(bytes_.size()); }

  /// Error where another rank has ended, has left, is at another kind of collective, or does not come in time.
  std::vector<std::string> meet(int rank, std::string const& what, std::string bytes) {
    std::unique_lock lock(mutex_);
    require_no_end(rank);
    if (arrived_ == 0) what_ = what;
    else if (what_ != what)
      fail("rank " + std::to_string(rank) + " came to " + what + " while another rank is at " + what_);
    bytes_[static_cast<std::size_t>(rank)] = std::move(bytes);
    long const round = round_;
    if (++arrived_ == world()) {
      if (before_round) before_round(what, bytes_);
      result_ = bytes_;
      ++counts_[what];
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return result_;
    }
    bool const came = changed_.wait_for(lock, limit_, [&] { return round_ != round || ended_ || !fault_.empty(); });
    if (round_ == round && !came)
      fail("rank " + std::to_string(rank) + " waits at " + what + ", and the others do not come");
    if (round_ == round) require_no_end(rank);
    return result_;
  }

  void abort(int rank, std::string_view text) {
    std::scoped_lock const lock(mutex_);
    if (!ended_) ended_.emplace(rank, text);
    changed_.notify_all();
  }
  void leave(int rank) {
    std::scoped_lock const lock(mutex_);
    if (arrived_ != 0 && fault_.empty()) fault_ = "rank " + std::to_string(rank) + " left while others are at " + what_;
    changed_.notify_all();
  }

  /// Whether a rank waits for others.
  bool has_waiting() {
    std::scoped_lock const lock(mutex_);
    return arrived_ != 0;
  }

  std::map<std::string, long> const& counts() const { return counts_; }
  long count(std::string const& what) const {
    auto const found = counts_.find(what);
    return found == counts_.end() ? 0 : found->second;
  }
  /// Called with what the ranks have brought when all have, before they get it.
  std::function<void(std::string const& what, std::vector<std::string> const&)> before_round = nullptr;

 private:
  [[noreturn]] void fail(std::string const& why) {
    fault_ = why;
    changed_.notify_all();
    throw fulgurite::Error("toy.ranks", why);
  }
  void require_no_end(int rank) const {
    if (ended_ && ended_->first != rank) throw fulgurite::loop::RankEnded(ended_->first, ended_->second);
    if (!fault_.empty()) throw fulgurite::Error("toy.ranks", fault_);
  }

  std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> bytes_, result_;
  std::string what_, fault_;
  std::optional<std::pair<int, std::string>> ended_;
  std::map<std::string, long> counts_;
  int arrived_ = 0;
  long round_ = 0;
};

template <class T>
std::string to_bytes(std::span<T const> values) {
  std::string bytes(values.size_bytes(), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class T>
std::vector<T> from_bytes(std::string const& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// One rank. Gradients become their mean: the sum in the order of ranks, divided by their number.
class Rank : public Device {
 public:
  static constexpr bool is_distributed = true;

  Rank(Meeting& meeting, int rank) : meeting_(&meeting), rank_(rank) {}

  template <class M, class P>
  void setup(M& model, P const&) {
    parameters_ = Backend::weights(model);
  }

  int rank() const { return rank_; }
  int world() const { return meeting_->world(); }
  int local_rank() const { return rank_ % ranks_a_machine; }
  bool agree(bool says) const {
    for (auto const& one : meeting_->meet(rank_, "agree", says ? "1" : "0"))
      if (one == "1") says = true;
    return says;
  }
  template <class V>
  V reduce(V value, fulgurite::Reduce how) const {
    std::vector<double> one{static_cast<double>(value)};
    fold("reduce", one, std::vector<fulgurite::Reduce>{how});
    return static_cast<V>(one.front());
  }
  void reduce_in_place(std::span<double> values, std::span<fulgurite::Reduce const> how) const {
    fold("reduce_in_place", values, how);
  }
  std::string broadcast(std::string bytes, int from = 0) const {
    return meeting_->meet(rank_, "broadcast", std::move(bytes))[static_cast<std::size_t>(from)];
  }
  std::vector<std::string> gather(std::string bytes) const { return meeting_->meet(rank_, "gather", std::move(bytes)); }
  void barrier(std::string_view what) const { meeting_->meet(rank_, "barrier " + std::string(what), {}); }
  void reduce_gradients(std::span<double> riders, auto& /*optimizers*/) {
    std::vector<double> all;
    for (auto const& p : parameters_) {
      all.push_back(p.has_grad() ? 1 : 0);
      all.push_back(p.grad());
    }
    all.insert(all.end(), riders.begin(), riders.end());
    fold("gradients", all, std::vector(all.size(), fulgurite::Reduce::sum));
    std::size_t at = 0;
    for (auto const& p : parameters_) {
      if (all[at] != 0) p.set_grad(all[at + 1] / world());
      at += 2;
    }
    for (auto& rider : riders) rider = all[at++];
  }
  void abort(std::string_view text) { meeting_->abort(rank_, text); }

  int ranks_a_machine = 1'000;

 private:
  void fold(std::string const& what, std::span<double> values, std::span<fulgurite::Reduce const> how) const {
    auto const all = meeting_->meet(rank_, what, to_bytes(std::span<double const>(values)));
    std::vector<std::vector<double>> numbers;
    for (auto const& one : all) {
      numbers.push_back(from_bytes<double>(one));
      if (numbers.back().size() != values.size()) throw fulgurite::Error("toy.ranks", "ranks bring different numbers");
    }
    for (std::size_t i = 0; i != values.size(); ++i) {
      double value = numbers[0][i];
      for (std::size_t r = 1; r != numbers.size(); ++r) value = fulgurite::reduced(value, numbers[r][i], how[i]);
      values[i] = how[i] == fulgurite::Reduce::mean ? value / world() : value;
    }
  }

  Meeting* meeting_;
  int rank_;
  std::vector<Tensor> parameters_ = {};
};

/// What became of each rank: what it returned, or what it threw.
template <class Result>
struct RankResult {
  std::optional<Result> result = std::nullopt;
  std::string error = "";
};

/// f(rank) on as many threads; what rank 0 has done to its world stays. Tests look at the results on their own thread.
template <class F>
auto on_ranks(Meeting& meeting, F f) {
  using Result = std::invoke_result_t<F&, Rank>;
  std::vector<RankResult<Result>> results(static_cast<std::size_t>(meeting.world()));
  std::vector<World> worlds(results.size(), world);
  std::vector<std::thread> threads;
  for (int r = 0; r != meeting.world(); ++r)
    threads.emplace_back([&, r] {
      auto const at = static_cast<std::size_t>(r);
      rank_world = &worlds[at];
      try {
        results[at].result.emplace(f(Rank(meeting, r)));
      } catch (std::exception const& error) { results[at].error = error.what(); }
      meeting.leave(r);
    });
  for (auto& thread : threads) thread.join();
  world = worlds.front();
  return results;
}
template <class F>
auto on_ranks(int count, F f) {
  Meeting meeting(count);
  return on_ranks(meeting, std::move(f));
}

}  // namespace toy
