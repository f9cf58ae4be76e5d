#pragma once
// What all loaders of this library share, and a base class for your own loader: begin and end, epochs, and the position
// that a checkpoint saves.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

// The position of a loader: its epoch, and how many of the epoch's batches were consumed. A checkpoint saves it.

/// Decides which samples batch k holds. A negative number means that it is unknown, as for a stream.
struct Layout {
  long batches = -1, batch_size = -1, samples = -1;
  long order = -1;  ///< a hash of the samples, the kind of their order and the seeds; the epoch is saved separately
  bool operator==(Layout const&) const = default;
};

/// Keeps the position of a loader; each `Batches` has one. A batch is consumed when `++` moves past it; batches that
/// workers have prefetched do not count.
class Position {
 public:
  long epoch() const { return epoch_; }
  long consumed() const { return consumed_; }

  /// Sets the epoch that the next `begin()` starts. Without it, each `begin()` starts the epoch after the last one.
  void set_epoch(long epoch);

  /// Makes the next `begin()` start at this batch of its epoch.
  void resume_at(long batch);

  /// Begins an epoch and returns the index of the first batch to yield. `batches` is the number of batches in the
  /// epoch, negative if unknown.
  long begin(long batches);

  void advance() { consumed_ += counts_; }
  /// All batches of the epoch were consumed. `batches`: their number; less than 0: as many as were consumed.
  void finish(long batches);

  /// Makes the batches hold other samples from the next `begin()` on; that call starts the same epoch as it would have
  /// done otherwise. Throws [fulgurite.data.batch_size_within] if it would have resumed inside an epoch. `batches`: the
  /// number of batches in an epoch until now.
  void change_layout(long batches);

  /// Saves or loads the position. Throws [fulgurite.data.resume] if a position within an epoch is loaded into another
  /// layout; between epochs the layout may change, and the next `begin()` then starts the next epoch.
  void state(auto& archive, Layout const now) {
    Layout saved = now;
    if (over_ && now.batches < 0) saved.batches = consumed_;
    archive("epoch", epoch_)("consumed", consumed_)("batches", saved.batches)("batch_size", saved.batch_size)(
        "samples", saved.samples)("order", saved.order);
    archive.option("rows of a batch", now.batch_size);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) loaded(saved, now);
  }

 private:
  void loaded(Layout saved, Layout const& now);

  static std::string said(Layout const& layout);

  long epoch_ = 0, consumed_ = 0;
  long first_ = 0;
  bool begun_ = false;
  bool chosen_ = false;
  bool counts_ = true;  // false in the rest of a pass inside of which the layout was changed
  bool over_ = false;   // marks the end of an epoch whose number of batches is unknown
};

/// Throws [fulgurite.data.two_passes]: a loop reads on in a loader that another loop has begun to read.
[[noreturn]] void refuse_two_passes();

/// Base of loaders. `struct Mine : Batches<Mine, MyBatch>` becomes a loader, an input range of batches, by two members:
///
///     void start(long epoch, long first);        // begin at batch `first` of `epoch`, abandoning any unfinished pass
///     bool next(std::optional<MyBatch>& batch);  // fill in the next batch, or return false at the end
///
/// and, if they are known, `std::size_t size() const` (the number of batches in an epoch) and `Layout layout() const`.
/// Without a size, `next` is called only after the step on the previous batch, so it may use the model and may fill the
/// same memory again. A loader that does neither declares `static constexpr bool batches_stay_valid = true`, and the
/// loops may read it one batch ahead; see `BatchesStayValid`.
///
/// Each `begin()` starts an epoch: the one given to `set_epoch`, otherwise the one after the last. It may be called at
/// any time, also after leaving a loop early; older iterators then throw [fulgurite.data.two_passes]. A batch stays in
/// memory until the second `++` after it was yielded, or until the next `begin()`. A loader may be moved between
/// epochs.
template <class Derived, class B>
class Batches {
 public:
  using Batch = B;

  class Iterator {
   public:
    using value_type = B;
    using reference = B&;
    using pointer = B*;
    using difference_type = std::ptrdiff_t;
    using iterator_category =
        std::input_iterator_tag;  // all five types, since range-v3's counted views use std::iterator_traits

    Iterator() = default;
    explicit Iterator(Batches* loader) : loader_(loader), pass_(loader->passes_) {}

    B& operator*() const { return *pass().slots_[loader_->current_]; }
    B* operator->() const { return &**this; }
    Iterator& operator++() {
      pass().position_.advance();
      loader_->pull();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return pass().ended_; }

   private:
    Batches& pass() const {
      if (pass_ != loader_->passes_) refuse_two_passes();
      return *loader_;
    }

    Batches* loader_ = nullptr;
    unsigned pass_ = 0;
  };

  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// Sets the epoch that the next `begin()` starts; together with the seed it decides the order.
  void set_epoch(long epoch) { position_.set_epoch(epoch); }
  long epoch() const { return position_.epoch(); }

  /// Makes the next `begin()` start at batch `batch` of the epoch. A loop that counts its batches itself calls this
  /// after `state` has loaded.
  void resume_at(long batch) { position_.resume_at(batch); }
  /// Says that the epoch is over, although no `++` has followed its last batch.
  void finish_epoch() { position_.finish(where().batches); }
  /// How many batches of this epoch were consumed, that is, how many `++` has moved past.
  long consumed() const { return position_.consumed(); }

  void state(auto& archive);

 protected:
  /// While on, each epoch has the order and the random numbers of epoch 0.
  void repeat_epoch(bool on) { repeats_ = on; }
  /// For loaders whose batches change their size or samples: the next `begin()` starts an epoch.
  void change_layout() { position_.change_layout(where().batches); }
  /// The number of the epoch that determines the batches' order and random numbers.
  long drawn_epoch() const { return repeats_ ? 0 : position_.epoch(); }

 private:
  friend class Iterator;
  Derived& self() { return static_cast<Derived&>(*this); }

  Layout where() const;

  void pull();

  std::optional<B> slots_[2];  // the current batch and the one before it
  unsigned current_ = 0;
  unsigned passes_ = 0;
  bool ended_ = true;
  bool repeats_ = false;
  Position position_;
};

template <class Derived, class B>
typename Batches<Derived, B>::Iterator Batches<Derived, B>::begin() {
  ++passes_;
  ended_ = true;  // stays true if one of the following calls throws
  slots_[0].reset();
  slots_[1].reset();
  long const first = position_.begin(where().batches);
  self().start(drawn_epoch(), first);
  pull();
  return Iterator{this};
}

template <class Derived, class B>
void Batches<Derived, B>::state(auto& archive) {
  position_.state(archive, where());
}

template <class Derived, class B>
Layout Batches<Derived, B>::where() const {
  auto const& derived = static_cast<Derived const&>(*this);
  if constexpr (requires { derived.layout(); }) return derived.layout();
  else if constexpr (requires { derived.size(); }) return {.batches = static_cast<long>(derived.size())};
  else return {};
}

template <class Derived, class B>
void Batches<Derived, B>::pull() {
  ended_ = true;
  current_ ^= 1U;
  slots_[current_].reset();
  ended_ = !self().next(slots_[current_]);
  if (ended_) position_.finish(-1);
}

/// A base class like Batches<Derived, B> that adds `size`, `layout` and the sampler's state. The derived class has to
/// define `start` and `next`.
template <class Derived, class B, Sampler S>
class SampledBatches : public Batches<Derived, B> {
 public:
  /// The number of batches in an epoch.
  std::size_t size() const { return batch_count(samples(), batch_size_, drop_last_); }

  Layout layout() const;

  long batch_size() const { return batch_size_; }
  /// Takes effect at the next `begin()`, which starts an epoch. Errors: [fulgurite.data.batch_size] below 1,
  /// [fulgurite.data.batch_size_within] after loading a checkpoint from the middle of an epoch.
  void set_batch_size(long size);

  /// Keeps one rank's part of the order that the sampler gives to all ranks: every `world`-th sample. In training all
  /// ranks get equally many: if the samples do not divide evenly, the first ones are repeated, or the rest is dropped
  /// with `.drop_last`. In evaluation every sample is seen once. The trainer calls this. It does nothing to a loader
  /// with a `Stride`, or another sampler that is SharesSamples.
  void shard(int rank, int world, bool training);

  /// While on, every epoch has the same order: the dataset's own order if the sampler supports `in_order`, as that of
  /// `.shuffle` does, otherwise the order of epoch 0.
  void in_order(bool on) {
    if constexpr (requires { sampler_.in_order(on); }) sampler_.in_order(on);
    this->repeat_epoch(on);
  }

  void state(auto& archive);

  /// The part of all ranks' common order that this loader takes.
  RankShare share() const {
    if constexpr (requires { sampler_.share(); }) return sampler_.share();
    else return share_;
  }

 protected:
  /// `drawn`: the seed of the numbers that the derived class draws for its batches; 0 if it draws none. Throws
  /// [fulgurite.data.batch_size] for a batch size below 1.
  SampledBatches(S sampler, long batch_size, bool drop_last, std::uint64_t drawn = 0)
      : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last), drawn_(drawn) {
    at_least(1, "fulgurite.data.batch_size", ".batch_size", batch_size);
  }

  /// The number of samples in an epoch.
  std::size_t samples() const { return share_.world == 1 ? sampler_.size() : share_.size(sampler_.size()); }
  /// Calls `f(index)` for each sample of an epoch. `of_data`: the number of samples in the dataset.
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
  std::uint64_t drawn_;
};

template <class Derived, class B, Sampler S>
Layout SampledBatches<Derived, B, S>::layout() const {
  return {.batches = static_cast<long>(size()),
          .batch_size = batch_size_,
          .samples = static_cast<long>(samples()),
          .order = order_of(sampler_) ^ static_cast<long>(drawn_)};
}

template <class Derived, class B, Sampler S>
void SampledBatches<Derived, B, S>::set_batch_size(long size) {
  at_least(1, "fulgurite.data.batch_size", ".batch_size", size);
  if (size == batch_size_) return;
  this->change_layout();
  batch_size_ = size;
}

template <class Derived, class B, Sampler S>
void SampledBatches<Derived, B, S>::shard(int rank, int world, bool training) {
  if constexpr (!SharesSamples<S>) {
    RankShare const now{rank, world, !training ? Leftover::keep : drop_last_ ? Leftover::drop : Leftover::repeat};
    if (now == share_) return;
    this->change_layout();
    share_ = now;
  }
}

template <class Derived, class B, Sampler S>
void SampledBatches<Derived, B, S>::state(auto& archive) {
  Batches<Derived, B>::state(archive);
  if constexpr (requires { sampler_.state(archive); }) archive.child("sampler", sampler_);
}

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/batches.ipp>
#endif
