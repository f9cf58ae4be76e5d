#pragma once
// What loaders of datasets share: batches of equal size, cut from the order that a sampler gives.

#include <cstddef>
#include <utility>
#include <vector>

#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/rank_share.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

/// A base like Batches<Derived, B>, with `size`, `layout` and the sampler's state. `start` and `next` remain to be
/// written.
template <class Derived, class B, Sampler S>
class SampledBatches : public Batches<Derived, B> {
 public:
  /// The number of batches in an epoch.
  std::size_t size() const { return batch_count(samples(), batch_size_, drop_last_); }

  Layout layout() const {
    return {.batches = static_cast<long>(size()),
            .batch_size = batch_size_,
            .samples = static_cast<long>(samples()),
            .order = order_of(sampler_)};
  }

  long batch_size() const { return batch_size_; }
  /// Holds from the next `begin()` on, which starts an epoch. Errors: [fulgurite.data.batch_size] below 1,
  /// [fulgurite.data.batch_size_within] after a file of the middle of an epoch was loaded.
  void set_batch_size(long size) {
    at_least(1, "fulgurite.data.batch_size", ".batch_size", size);
    if (size == batch_size_) return;
    this->lay_out_anew();
    batch_size_ = size;
  }

  /// Takes the part of one process among several, of the order that the sampler gives to all of them: every `world`-th
  /// sample. In training all get equally many: where the samples do not divide evenly, the first ones come once more,
  /// or with `.drop_last` the rest is left out. In evaluation every sample is seen once. The trainer calls this. A
  /// loader with a `Stride` is left as it is.
  void shard(int rank, int world, bool training) {
    if constexpr (!requires { S::shares_samples; }) {
      RankShare const now{rank, world, !training ? Leftover::keep : drop_last_ ? Leftover::drop : Leftover::repeat};
      if (now == share_) return;
      this->lay_out_anew();
      share_ = now;
    }
  }

  /// While on, every epoch has the same order: the samples as they lie in the dataset where the sampler is one of
  /// `.shuffle`, else the order of epoch 0.
  void in_order(bool on) {
    if constexpr (requires { sampler_.in_order(on); }) sampler_.in_order(on);
    this->repeat_epoch(on);
  }

  void state(auto& archive) {
    Batches<Derived, B>::state(archive);
    if constexpr (requires { sampler_.state(archive); }) archive.child("sampler", sampler_);
  }

  /// What this loader takes of the order that all ranks share.
  RankShare share() const {
    if constexpr (requires { sampler_.share(); }) return sampler_.share();
    else return share_;
  }

 protected:
  /// Error [fulgurite.data.batch_size] for a batch size below 1.
  SampledBatches(S sampler, long batch_size, bool drop_last)
      : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
    at_least(1, "fulgurite.data.batch_size", ".batch_size", batch_size);
  }

  /// The samples of an epoch.
  std::size_t samples() const { return share_.world == 1 ? sampler_.size() : share_.size(sampler_.size()); }
  /// f(index) for each of them, of a data set that has so many.
  void each_sample(long epoch, std::size_t of_data, auto&& f) const {
    if (share_.world == 1) return each_index(sampler_, epoch, of_data, f);
    std::vector<std::size_t> order;
    order.reserve(sampler_.size());
    each_index(sampler_, epoch, of_data, [&](std::size_t index) { order.push_back(index); });
    for (std::size_t i = 0, n = share_.size(order.size()); i != n; ++i) f(order[share_.position(i, order.size())]);
  }

  S sampler_;
  long batch_size_;

 private:
  RankShare share_{};
  bool drop_last_;
};

}  // namespace fulgurite::data
