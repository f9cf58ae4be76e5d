#pragma once
// What all loaders of this library share, and a base for a loader of your own: begin and end, epochs, and the position
// that a checkpoint keeps.

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include <fulgurite/data/position.hpp>

namespace fulgurite::data {

/// `struct Mine : Batches<Mine, MyBatch>` becomes a loader, an input range of batches, by two members:
///
///     void start(long epoch, long first);           // begin at batch `first` of `epoch`, ending what was going on
///     bool next(std::optional<MyBatch>& batch);     // fill in the next batch, or return false at the end
///
/// and, where they are known, `std::size_t size() const` (batches of an epoch) and `Layout layout() const`. Without a
/// size, `next` is called only when the step on the batch before is over, so it may ask the model, and may fill the
/// same memory again. A loader that does neither says `static constexpr bool batches_stay_valid = true`, and the loops
/// may read it one batch ahead; see `BatchesStayValid`.
///
/// Each `begin()` starts an epoch: the one given to `set_epoch`, else the one after the last. It may be called at any
/// time, also after a loop that was left early; older iterators are invalid then. A batch stays in memory until the
/// second `++` after it was yielded, or until the next `begin()`. A loader may be moved between epochs.
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
        std::input_iterator_tag;  // all five, since range-v3's counted views ask std::iterator_traits

    Iterator() = default;
    explicit Iterator(Batches* loader) : loader_(loader) {}

    B& operator*() const { return *loader_->slots_[loader_->current_]; }
    B* operator->() const { return &**this; }
    Iterator& operator++() {
      loader_->position_.advance();
      loader_->pull();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return loader_->ended_; }

   private:
    Batches* loader_ = nullptr;
  };

  Iterator begin() {
    ended_ = true;  // it stays true if what follows throws
    slots_[0].reset();
    slots_[1].reset();
    long const first = position_.begin(where().batches);
    self().start(drawn_epoch(), first);
    pull();
    return Iterator{this};
  }
  std::default_sentinel_t end() const { return {}; }

  /// Sets the epoch that the next `begin()` starts; together with the seed it decides the order.
  void set_epoch(long epoch) { position_.set_epoch(epoch); }
  long epoch() const { return position_.epoch(); }

  /// Makes the next `begin()` start at batch `batch` of the epoch. A loop that counts its batches itself calls this
  /// after `state` has loaded.
  void resume_at(long batch) { position_.resume_at(batch); }
  /// How many batches of this epoch were consumed, that is, moved past with `++`.
  long consumed() const { return position_.consumed(); }

  void state(auto& archive) { position_.state(archive, where()); }

 protected:
  /// While on, each epoch has the order and the random numbers of epoch 0.
  void repeat_epoch(bool on) { repeats_ = on; }
  /// For loaders whose batches are cut anew: the next `begin()` starts an epoch.
  void lay_out_anew() { position_.lay_out_anew(where().batches); }
  /// The number of the epoch whose order and random numbers the batches have.
  long drawn_epoch() const { return repeats_ ? 0 : position_.epoch(); }

 private:
  friend class Iterator;
  Derived& self() { return static_cast<Derived&>(*this); }

  Layout where() const {
    auto const& derived = static_cast<Derived const&>(*this);
    if constexpr (requires { derived.layout(); }) return derived.layout();
    else if constexpr (requires { derived.size(); }) return {.batches = static_cast<long>(derived.size())};
    else return {};
  }

  void pull() {
    ended_ = true;
    current_ ^= 1U;
    slots_[current_].reset();
    ended_ = !self().next(slots_[current_]);
  }

  std::optional<B> slots_[2];  // the current batch and the one before it
  unsigned current_ = 0;
  bool ended_ = true;
  bool repeats_ = false;
  Position position_;
};

}  // namespace fulgurite::data
