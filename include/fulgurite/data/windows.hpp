#pragma once
// Windows of a time series: so many time steps to see, and the steps after them to predict.

#include <cstddef>
#include <string>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/split.hpp>

namespace fulgurite::data {

/// Window i has the time steps i * stride to i * stride + length - 1, and predicts the `horizon` after them.
struct WindowShape {
  long length = 32;
  long horizon = 1;
  long stride = 1;

  /// Time steps of a window and its horizon.
  long span() const { return length + horizon; }
};

/// The windows of a series of `steps` time steps, parted in time: validation has the end of the series. No time step is
/// in windows of both parts, neither as what is seen nor as what is predicted, so windows across the border are left
/// out. Error [fulgurite.data.windows] for a shape that makes no sense, or a part that has no window.
FULGURITE_BULK Split split_windows(std::size_t steps, WindowShape const& shape, Share validation) {
  at_least(1, "fulgurite.data.windows", ".length", shape.length);
  at_least(1, "fulgurite.data.windows", ".horizon", shape.horizon);
  at_least(1, "fulgurite.data.windows", ".stride", shape.stride);
  long const all = static_cast<long>(steps), border = all - static_cast<long>(validation.of(steps));
  Split parts;
  for (long start = 0, i = 0; start <= all - shape.span(); start += shape.stride, ++i) {
    if (start + shape.span() <= border) parts.train.push_back(static_cast<std::size_t>(i));
    else if (start >= border) parts.validation.push_back(static_cast<std::size_t>(i));
  }
  if (parts.train.empty() || (parts.validation.empty() && border < all)) {
    std::string const parted = std::to_string(border) + " are to train on and " + std::to_string(all - border);
    throw Error("fulgurite.data.windows",
                "of " + std::to_string(steps) + " time steps " + parted + " to validate on, and a window needs " +
                    std::to_string(shape.span()) +
                    " (.length + .horizon): shorten it, or give another share to .validation");
  }
  return parts;
}

}  // namespace fulgurite::data
