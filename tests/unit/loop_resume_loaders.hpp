#pragma once
// Loaders that fits resume on: with and without a size, with and without a place that they keep. What is drawn comes
// from `Draw`. In a namespace, since other tests of the same program may use the same words.

#include <cstddef>
#include <iterator>
#include <optional>
#include <tuple>
#include <vector>

namespace resumed {

/// The number that stands for a batch of any kind.
inline double number(double x) { return x; }
inline double number(std::vector<int> const& all) {
  double sum = 0;
  for (int x : all) sum += x;
  return sum;
}
template <class T>
double number(std::optional<T> const& x) {
  return x ? number(*x) : 0.5;
}
template <class A, class B>
double number(std::tuple<A, B> const& both) {
  return number(std::get<0>(both)) + 10 * number(std::get<1>(both));
}

/// So many numbers, from one upwards.
template <int count>
struct Upwards {
  using difference_type = std::ptrdiff_t;
  using value_type = double;
  double from;
  int at = 0;
  double operator*() const { return from + at; }
  Upwards& operator++() { return ++at, *this; }
  void operator++(int) { ++at; }
  bool operator==(std::default_sentinel_t) const { return at == count; }
};

/// Five numbers in an order that is drawn when a pass begins; nobody knows how many there are.
template <double (*Draw)()>
struct Shuffled {
  static constexpr bool batches_stay_valid = true;
  Upwards<5> begin() const { return {Draw()}; }
  std::default_sentinel_t end() const { return {}; }
};
/// Like it, but knows its place: how many batches were moved past, and where its pass began.
template <double (*Draw)()>
struct Placed {
  static constexpr bool batches_stay_valid = true;
  long consumed = 5;
  double from = 0;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    Placed* of;
    double operator*() const { return of->from + static_cast<double>(of->consumed); }
    Iterator& operator++() { return ++of->consumed, *this; }
    void operator++(int) { ++of->consumed; }
    bool operator==(std::default_sentinel_t) const { return of->consumed == 5; }
  };
  Iterator begin() {
    if (consumed == 5) {
      consumed = 0;
      from = Draw();
    }
    return {this};
  }
  std::default_sentinel_t end() const { return {}; }
  void state(auto& archive) { archive("consumed", consumed)("from", from); }
};
/// Each pass yields two numbers that tell which pass it is.
struct Passes {
  double passes = 0;
  Upwards<2> begin() { return {++passes}; }
  std::default_sentinel_t end() const { return {}; }
  void state(auto& archive) { archive("passes", passes); }
};

}  // namespace resumed
