#pragma once
// The shape of one sample as a constant: what a layer takes and gives. A batch adds a dimension in front, which no
// shape here has.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace fulgurite::chain {

/// How many numbers a shape has along a dimension, such as channels or pixels; also counts of parameters and FLOPs.
using Extent = std::int64_t;

/// An extent or a count that the types do not tell, as the height of an image without `Input<...>`.
inline constexpr Extent unknown = -1;

/// `Shape{3, 28, 28}`: three channels of 28 by 28. A default one is of unknown rank.
class Shape {
 public:
  static constexpr std::size_t most = 8;  ///< dimensions beside the batch's

  constexpr Shape() = default;
  constexpr Shape(std::integral auto... extents)
    requires(sizeof...(extents) <= most)
      : rank_(static_cast<int>(sizeof...(extents))), extents_{static_cast<Extent>(extents)...} {}
  /// A sample that is one number, such as a token.
  static constexpr Shape scalar() {
    Shape one;
    one.rank_ = 0;
    return one;
  }

  constexpr bool known_rank() const { return rank_ >= 0; }
  constexpr int rank() const { return rank_; }
  constexpr Extent operator[](int i) const { return extents_[static_cast<std::size_t>(i)]; }
  constexpr Extent last() const { return rank_ > 0 ? (*this)[rank_ - 1] : unknown; }
  constexpr Shape with(int i, Extent extent) const {
    auto other = *this;
    other.extents_[static_cast<std::size_t>(i)] = extent;
    return other;
  }
  constexpr Shape with_last(Extent extent) const { return with(rank_ - 1, extent); }
  /// The shape with one dimension more. There are at most `most`, which the caller checks.
  constexpr Shape then(Extent extent) const {
    auto other = *this;
    other.extents_[static_cast<std::size_t>(other.rank_++)] = extent;
    return other;
  }

  /// The product of the extents [from, to); unknown if one of them is.
  constexpr Extent elements(int from, int to) const {
    if (!known_rank()) return unknown;
    Extent all = 1;
    for (int i = from; i < to; ++i) {
      if ((*this)[i] == unknown) return unknown;
      all *= (*this)[i];
    }
    return all;
  }
  constexpr Extent elements() const { return elements(0, rank_); }

  friend constexpr bool operator==(Shape const&, Shape const&) = default;

 private:
  int rank_ = -1;
  std::array<Extent, most> extents_{};
};

/// Whether two extents are both known and differ.
constexpr bool differ(Extent a, Extent b) { return a != unknown && b != unknown && a != b; }

/// A product of counts, unknown if one of them is.
constexpr Extent times(Extent a, Extent b) { return a == unknown || b == unknown ? unknown : a * b; }
/// A sum of counts, unknown if one of them is.
constexpr Extent plus(Extent a, Extent b) { return a == unknown || b == unknown ? unknown : a + b; }

}  // namespace fulgurite::chain

namespace fulgurite {

/// A height and a width, as of a kernel, a stride or a padding. One number stands for both: `Conv2d<1, 8, 3>`,
/// `Conv2d<1, 8, Size2{3, 5}>`.
struct Size2 {
  chain::Extent height, width;

  constexpr Size2(std::integral auto both) : height(both), width(both) {}
  constexpr Size2(std::integral auto high, std::integral auto wide) : height(high), width(wide) {}
  friend constexpr bool operator==(Size2, Size2) = default;
};

}  // namespace fulgurite
