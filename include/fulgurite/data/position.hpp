#pragma once
// The position of a loader: its epoch, and how many of the epoch's batches were consumed. A checkpoint keeps it.

#include <string>
#include <type_traits>

#include <fulgurite/core/error.hpp>

namespace fulgurite::data {

/// Decides which samples batch k holds. A negative number means that it is not known, as of a stream.
struct Layout {
  long batches = -1, batch_size = -1, samples = -1;
  long order = -1;  ///< stands for the samples, the kind of their order and its seed; the epoch is saved apart
  bool operator==(Layout const&) const = default;
};

/// Keeps the position of a loader; each `Batches` has one. A batch is consumed when it is moved past with `++`; what
/// workers have prefetched does not count.
class Position {
 public:
  long epoch() const { return epoch_; }
  long consumed() const { return consumed_; }

  /// Sets the epoch that the next `begin()` starts. Without it, each `begin()` starts the epoch after the last one.
  void set_epoch(long epoch) {
    if (epoch != epoch_) first_ = consumed_ = 0;
    epoch_ = epoch;
    chosen_ = true;
  }

  /// Makes the next `begin()` start at this batch of its epoch.
  void resume_at(long batch) {
    if (batch < 0)
      throw Error("fulgurite.data.resume_at", "batch " + std::to_string(batch) + " to resume at: batches count from 0");
    first_ = consumed_ = batch;
    if (begun_) chosen_ = true;  // the batch of the epoch that was going on
  }

  /// Begins an epoch and returns the first batch to yield. `batches` is the number of the epoch's batches, negative
  /// where it is not known.
  long begin(long batches) {
    bool const finished = batches >= 0 && first_ > 0 && first_ >= batches;  // a checkpoint taken after the last batch
    if (!chosen_ && (begun_ || finished)) {
      ++epoch_;
      first_ = 0;
    }
    begun_ = true;
    chosen_ = false;
    consumed_ = first_;
    first_ = 0;
    return consumed_;
  }

  void advance() { ++consumed_; }

  /// The batches hold other samples from the next `begin()` on, which starts the epoch that it would have started.
  /// Error [fulgurite.data.batch_size_within] where it would have gone on inside of an epoch. `batches`: of an epoch,
  /// so far.
  void lay_out_anew(long batches) {
    bool const finished = batches >= 0 && first_ >= batches;
    if (first_ > 0 && !finished)
      throw Error("fulgurite.data.batch_size_within",
                  "another batch size for a loader that goes on after " + std::to_string(first_) +
                      " batches of an epoch, which are not the same samples then: set it between epochs");
    if (!chosen_ && (begun_ || first_ > 0)) {
      ++epoch_;
      chosen_ = true;
    }
    first_ = consumed_ = 0;
  }

  /// Saves or loads the position. Error [fulgurite.data.resume] where a position within an epoch meets another layout;
  /// between epochs the layout may change.
  void state(auto& archive, Layout const now) {
    Layout saved = now;
    archive("epoch", epoch_)("consumed", consumed_)("batches", saved.batches)("batch_size", saved.batch_size)(
        "samples", saved.samples)("order", saved.order);
    archive.option("rows of a batch", now.batch_size);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) loaded(saved, now);
  }

 private:
  void loaded(Layout const& saved, Layout const& now) {
    first_ = consumed_;
    begun_ = chosen_ = false;
    bool const between = consumed_ == 0 || (saved.batches >= 0 && consumed_ >= saved.batches);
    auto in_its_order = now;
    in_its_order.order = saved.order;
    if (!between && saved != now)
      throw Error("fulgurite.data.resume",
                  "the checkpoint stopped after " + std::to_string(consumed_) + " batches of an epoch of " +
                      said(saved) + "; this loader has " +
                      (saved == in_its_order ? "others, or these in another order (.shuffle, .seed)" : said(now)) +
                      ": resume with the same data and options, or from a checkpoint written between epochs");
  }

  static std::string said(Layout const& layout) {
    return std::to_string(layout.samples) + " samples in batches of " + std::to_string(layout.batch_size);
  }

  long epoch_ = 0, consumed_ = 0;
  long first_ = 0;
  bool begun_ = false;
  bool chosen_ = false;
};

}  // namespace fulgurite::data
