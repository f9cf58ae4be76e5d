#pragma once
// How many places a window finds along one dimension.

#include <algorithm>

#include <fulgurite/torch/chain/step.hpp>

namespace fulgurite::chain {

/// A window along one dimension, with stride, padding and dilation.
struct Window {
  Extent kernel, stride, padding, dilation;

  constexpr bool sane() const { return kernel > 0 && stride > 0 && padding >= 0 && dilation > 0; }
  /// The least extent in which it fits.
  constexpr Extent least() const { return std::max<Extent>(dilation * (kernel - 1) + 1 - 2 * padding, 1); }
  constexpr bool fits(Extent in) const { return in == unknown || in >= least(); }
  constexpr Extent places(Extent in) const {
    return in == unknown ? unknown : (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

/// A sample of channels and of the dimensions along which windows slide. `channels` 0: any number of them.
template <std::size_t N>
constexpr Step slide(Shape in, Extent channels, std::array<Window, N> const& windows) {
  for (auto const& window : windows)
    if (!window.sane()) return refuse(Fault::extents);
  if (!in.known_rank()) {
    in = Shape{unknown};
    for (std::size_t i = 0; i < N; ++i) in = in.then(unknown);
  }
  constexpr auto rank = static_cast<int>(N) + 1;
  if (in.rank() != rank) return refuse(Fault::rank, in.rank(), rank);
  if (channels != 0 && differ(in[0], channels)) return refuse(Fault::channels, in[0], channels);
  for (int i = 1; i < rank; ++i) {
    auto const& window = windows[static_cast<std::size_t>(i - 1)];
    if (!window.fits(in[i])) return refuse(Fault::window, in[i], window.least());
    in = in.with(i, window.places(in[i]));
  }
  return {in};
}

}  // namespace fulgurite::chain
