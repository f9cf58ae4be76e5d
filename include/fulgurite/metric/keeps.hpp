#pragma once
// What a metric keeps between update() and compute(), and what is asked of a definition of one.

#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include <fulgurite/metric/metric.hpp>

namespace fulgurite::metric {

/// A fixed number of sums, `sums()` of them: batches, and processes, add up. What a definition keeps that says nothing.
struct Sums {};
/// Every sample, as a row of `width()` numbers: for what no sum can tell.
struct Samples {};
/// The last `window` values.
struct Window {};

namespace keeps {
template <class D>
struct Of {
  using type = Sums;
};
template <class D>
  requires requires { typename D::Keeps; }
struct Of<D> {
  using type = typename D::Keeps;
};
}  // namespace keeps

/// Which of them a definition keeps.
template <class D>
using KeptBy = typename keeps::Of<D>::type;

/// What a metric is, apart from any tensor: its options and its formula. Accuracy, MeanSquaredError and AUROC are some.
/// One of your own has these members, `tally(predictions, target)`, which returns what an update adds, and if it likes
/// a name() and a fault(): docs/metrics.md shows one of ten lines.
template <class D>
concept Definition =
    std::copy_constructible<D> && requires(D const& d, std::span<double const> numbers) { d.compute(numbers); };

/// A definition whose sums are not added: `joined(a, b)` makes those of two batches, or processes, into those of both,
/// from `parts` numbers of each, which may be doubles or tensors. Where there are several outputs, the sums are all
/// first numbers, then all second ones, ...
template <class D>
concept JoinsSums = requires(std::array<double, D::parts> const& numbers) { D::joined(numbers, numbers); };

/// How a definition's sums of two batches, or processes, become one: they are added, or the least or greatest counts,
/// or they are joined.
struct Combining {
  Reduce reduce = Reduce::sum;
  void (*join)(std::span<double> all, std::span<double const> more) = nullptr;
};
/// The same of one definition.
template <class D>
constexpr Combining combining_of() {
  if constexpr (JoinsSums<D>)
    return {.join = [](std::span<double> all, std::span<double const> more) {
      std::size_t const outputs = all.size() / D::parts;
      for (std::size_t i = 0; i != outputs; ++i) {
        std::array<double, D::parts> a, b;
        for (std::size_t p = 0; p != D::parts; ++p) a[p] = all[p * outputs + i], b[p] = more[p * outputs + i];
        auto const both = D::joined(a, b);
        for (std::size_t p = 0; p != D::parts; ++p) all[p * outputs + i] = both[p];
      }
    }};
  else if constexpr (requires { D::reduce; }) return {.reduce = D::reduce};
  else return {};
}
/// What a sum is before the first update.
constexpr double neutral(Reduce how) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return how == Reduce::min ? infinity : how == Reduce::max ? -infinity : 0;
}

/// The metric's name, for messages.
template <class D>
constexpr std::string_view name_of() {
  if constexpr (requires { D::name(); }) return D::name();
  else return "a metric";
}

/// A declared metric has no definition, or one whose value is one number.
template <class M>
inline constexpr bool counts_one_number = true;
template <class M>
  requires is_counted<M>
inline constexpr bool counts_one_number<M> =
    requires(typename M::metric::Definition const& d, std::span<double const> numbers) {
      { d.compute(numbers) } -> std::convertible_to<double>;
    };
/// A declared metric whose definition computes several numbers and names them: `each(value, f)` calls f(name, number).
template <class M>
inline constexpr bool counts_several = false;
template <class M>
  requires is_counted<M>
inline constexpr bool counts_several<M> =
    !counts_one_number<M> && requires(typename M::metric::Definition const& d, std::span<double const> numbers,
                                      void (&f)(std::string_view, double)) { d.each(d.compute(numbers), f); };
/// A declared metric has no definition, or one with options that make sense.
template <class M>
constexpr bool is_sound(M const& metric) {
  if constexpr (requires { metric.how.fault(); }) return metric.how.fault() == nullptr;
  else return true;
}

}  // namespace fulgurite::metric
