#pragma once
// The bodies of data/batches.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/batches.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY void Position::set_epoch(long epoch) {
  if (epoch != epoch_) {
    first_ = consumed_ = 0;
    over_ = false;
  }
  epoch_ = epoch;
  chosen_ = true;
}

FULGURITE_BULK_BODY void Position::resume_at(long batch) {
  if (batch < 0)
    throw Error("fulgurite.data.resume_at", "batch " + std::to_string(batch) + " to resume at: batches count from 0");
  first_ = consumed_ = batch;
  over_ = false;
  if (begun_) chosen_ = true;  // the batch refers to the current epoch
}

FULGURITE_BULK_BODY long Position::begin(long batches) {
  bool const finished = batches >= 0 && first_ > 0 && first_ >= batches;  // the checkpoint is from the epoch's end
  if (!chosen_ && (begun_ || finished)) {
    ++epoch_;
    first_ = 0;
  }
  begun_ = counts_ = true;
  chosen_ = over_ = false;
  consumed_ = first_;
  first_ = 0;
  return consumed_;
}

FULGURITE_BULK_BODY void Position::finish(long batches) {
  if (!counts_) return;
  over_ = true;
  if (batches >= 0) consumed_ = batches;
}

FULGURITE_BULK_BODY void Position::change_layout(long batches) {
  bool const finished = batches >= 0 && first_ >= batches;
  if (first_ > 0 && !finished)
    throw Error("fulgurite.data.batch_size_within",
                "another batch size for a loader that resumes after " + std::to_string(first_) +
                    " batches of an epoch, which are not the same samples then: set it between epochs");
  if (!chosen_ && (begun_ || first_ > 0)) {
    ++epoch_;
    chosen_ = true;
  }
  first_ = consumed_ = 0;
  counts_ = over_ = false;
}

FULGURITE_BULK_BODY void Position::loaded(Layout saved, Layout const& now) {
  first_ = consumed_;
  begun_ = chosen_ = over_ = false;
  for (auto const member : {&Layout::batch_size, &Layout::samples})
    if (saved.*member < 0) saved.*member = now.*member;  // the file does not know it
  bool const over = saved.batches >= 0 && consumed_ >= saved.batches;
  if (saved == now || (consumed_ == 0 && !over)) return;
  auto in_its_order = now;
  in_its_order.order = saved.order;
  if (!over)
    throw Error("fulgurite.data.resume",
                "the checkpoint stopped after " + std::to_string(consumed_) + " batches of an epoch of " + said(saved) +
                    "; this loader has " +
                    (saved == in_its_order
                         ? "others, or these in another order or with other random numbers (.shuffle, .seed)"
                         : said(now)) +
                    ": resume with the same data and options, or from a checkpoint written between epochs");
  // The epoch is over, and this loader would count its end by batches of another kind.
  ++epoch_;
  first_ = consumed_ = 0;
  chosen_ = true;
}

FULGURITE_BULK_BODY void refuse_two_passes() {
  throw Error("fulgurite.data.two_passes",
              "a loader is read by one loop at a time, and another one has begun to read this one: a second fit, the "
              "validation inside of an epoch, or a loop of the program. Give each a loader of its own");
}

FULGURITE_BULK_BODY std::string Position::said(Layout const& layout) {
  std::string text = layout.samples < 0 ? "" : std::to_string(layout.samples) + " samples in ";
  if (layout.batches >= 0) text += std::to_string(layout.batches) + " ";
  text += "batches";
  return layout.batch_size < 0 ? text : text + " of " + std::to_string(layout.batch_size);
}

}  // namespace fulgurite::data
