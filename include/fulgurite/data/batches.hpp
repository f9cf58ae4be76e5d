#pragma once
// What all loaders share: begin and end, one batch of lookahead, epochs, the position of a checkpoint. Base of a loader of your own.

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include <fulgurite/data/position.hpp>

namespace fulgurite::data {

/// `struct Mine : Batches<Mine, MyBatch>` becomes a loader (an input range of batches) by two members:
///
///     void start(long epoch, long first);        // get ready to yield batch `first` of `epoch`; stops whatever was going on
///     bool next(std::optional<MyBatch>& batch);  // fills in the next one, or returns false at the end
///
/// and, where they are known, `std::size_t size() const` (batches of an epoch) and `Layout layout() const`.
///
/// Each `begin()` starts an epoch: the one given to `set_epoch`, else the one after the last. It may be called at any time, also when
/// the loop before it was left early; iterators from before are then not to be used. A batch stays valid until the second `++` after it
/// was yielded, or the next `begin()`. Moving a loader is allowed between epochs.
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
    using iterator_category = std::input_iterator_tag;  // all five, since range-v3's counted views ask std::iterator_traits

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
    ended_ = true;  // and stays so if what follows throws
    slots_[0].reset();
    slots_[1].reset();
    long const first = position_.begin(where().batches);
    self().start(position_.epoch(), first);
    pull();
    return Iterator{this};
  }
  std::default_sentinel_t end() const { return {}; }

  /// The epoch that the next `begin()` starts: with a seed it decides the order.
  void set_epoch(long epoch) { position_.set_epoch(epoch); }
  long epoch() const { return position_.epoch(); }

  /// The next `begin()` starts at batch `batch` of the epoch. A loop that counts its own batches calls this after `state` loaded.
  void resume_at(long batch) { position_.resume_at(batch); }
  /// Batches moved past with `++` in this epoch.
  long consumed() const { return position_.consumed(); }

  void state(auto& archive) { position_.state(archive, where()); }

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
  Position position_;
};

}  // namespace fulgurite::data
