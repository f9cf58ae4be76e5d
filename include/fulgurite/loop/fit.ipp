#pragma once
// The bodies of loop/fit.hpp.

#include <algorithm>

#include <fulgurite/loop/fit.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void BatchTimes::add(Duration batch) {
  times_[(first_ + count_) % most] = batch;
  if (count_ == most) first_ = (first_ + 1) % most;
  else ++count_;
}

FULGURITE_BODY BatchTimes::Duration BatchTimes::expected() const {
  Duration longest{};
  for (std::size_t i = 0; i != count_; ++i) longest = std::max(longest, times_[(first_ + i) % most]);
  return longest;
}

FULGURITE_BODY void BatchTimes::forget_one() {
  if (count_ == 0) return;
  first_ = (first_ + 1) % most;
  --count_;
}

FULGURITE_BULK_BODY Error left_open() {
  return Error("fulgurite.trainer.left_open",
               "an open fit was destroyed before it was closed: call close() when training is to end");
}

}  // namespace fulgurite::loop
