#pragma once
// The meters of a model's declared metrics, for one loader.

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/metric/meter.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::metric {

/// What a metric without definition has in the place of a meter.
struct NoMeter {};

namespace declared {
template <class M, class Backend>
struct Place {
  using type = NoMeter;
  static type made(M const&) { return {}; }
};
template <class M, class Backend>
  requires is_counted<M>
struct Place<M, Backend> {
  using type = typename Backend::template Meter<typename M::metric::Definition>;
  static type made(M const& metric) { return type(metric.how); }
};
}  // namespace declared

/// One for each metric of the list that has a definition; `Backend::Meter<Definition>` knows the tensors.
template <class List, class Backend>
class DeclaredMeters;

template <auto... Ms, class Backend>
class DeclaredMeters<MetricList<Ms...>, Backend> {
 public:
  static constexpr bool any = (is_counted<decltype(Ms)> || ...);
  /// Some of them have several numbers.
  static constexpr bool any_several = (counts_several<decltype(Ms)> || ...);
  /// The type of a metric, by its position.
  template <std::size_t I>
  using Declared = std::remove_const_t<std::tuple_element_t<I, std::tuple<decltype(Ms)...>>>;

  template <std::size_t I>
  auto& get() {
    return std::get<I>(meters_);
  }
  /// f(position as a constant, meter) for each.
  template <class F>
  void each([[maybe_unused]] F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (at<I>(f), ...); }(std::index_sequence_for<decltype(Ms)...>());
  }
  void restart() {
    each([](auto, auto& meter) { meter.reset(); });
  }

 private:
  template <class M>
  using Place = declared::Place<std::remove_const_t<M>, Backend>;

  template <std::size_t I, class F>
  void at(F& f) {
    if constexpr (!std::is_same_v<std::tuple_element_t<I, All>, NoMeter>)
      f(std::integral_constant<std::size_t, I>(), std::get<I>(meters_));
  }

  using All = std::tuple<typename Place<decltype(Ms)>::type...>;
  All meters_{Place<decltype(Ms)>::made(Ms)...};
};

}  // namespace fulgurite::metric
