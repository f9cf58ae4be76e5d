#pragma once
// What one field of the hyper-parameters takes: values that are listed, or values that are drawn.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/random.hpp>
#include <fulgurite/tuner/field.hpp>

namespace fulgurite::tune {

namespace axes {

/// What every axis says of its field. A pointer to something else is refused in one sentence.
template <auto Field>
struct Axis {
  static constexpr bool is_axis = FieldPointer<Field>;
  static_assert(is_axis, "[fulgurite.tune.field] a space is made of data members of your hyper-parameters: write "
                         "&Setting::rate");
  static constexpr auto field = Field;
};
template <auto Field>
  requires FieldPointer<Field>
struct Axis<Field> {
  static constexpr bool is_axis = true;
  static constexpr auto field = Field;
  using Setting = SettingOf<Field>;
  using Value = ValueOf<Field>;
  static constexpr bool is_shown = fields::Shown<Value>;
  static_assert(is_shown, "[fulgurite.tune.shown] a field of a space is a number, a truth value, an enum "
                          "or a text, so that the table can show it");
};

/// A listed value as the field's own type.
template <auto Field, class V>
ValueOf<Field> listed(V&& given) {
  using T = ValueOf<Field>;
  using From = std::remove_cvref_t<V>;
  constexpr bool cuts = std::is_floating_point_v<From> && std::is_integral_v<T>;
  constexpr bool fits = std::is_convertible_v<V, T> && !cuts;
  static_assert(fits, "[fulgurite.tune.value] this field cannot hold a value of that type: list values of the field's "
                      "own type");
  if constexpr (!fits) {
    return T{};
  } else {
    constexpr bool whole = std::is_integral_v<From> && std::is_integral_v<T>;
    if constexpr (whole && !std::is_same_v<From, T> && !std::is_same_v<From, bool> && !std::is_same_v<T, bool>)
      if (!std::in_range<T>(given))
        throw Error("fulgurite.tune.range", "values<&" + std::string(field_name<Field>()) +
                                                ">: the field cannot hold " + std::to_string(given));
    return static_cast<T>(std::forward<V>(given));
  }
}

template <auto Field>
std::string named(std::string const& what) {
  return what + "<&" + std::string(field_name<Field>()) + ">";
}

/// Between two bounds, drawn evenly on a scale that `Forth` leads to and `Back` from.
template <auto Field>
struct Between : Axis<Field> {
  using Value = ValueOf<Field>;
  static constexpr bool is_number = std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>;
  static_assert(is_number, "[fulgurite.tune.draw] only a number lies between two bounds: use choice for this field");
  Value low, high;
  bool log;

  Value draw(data::Random& random) const {
    auto const from = static_cast<double>(low), to = static_cast<double>(high);
    if constexpr (std::is_integral_v<Value>) {
      if (!log) {
        auto const count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
        return static_cast<Value>(static_cast<std::uint64_t>(low) + (count == 0 ? random() : random.below(count)));
      }
      // Each whole number is as wide on the logarithmic scale as what is rounded to it.
      double const drawn = std::exp(random.uniform(std::log(from - 0.5), std::log(to + 0.5)));
      return static_cast<Value>(std::clamp(std::round(drawn), from, to));
    } else {
      double const drawn = log ? std::exp(random.uniform(std::log(from), std::log(to))) : random.uniform(from, to);
      return static_cast<Value>(std::clamp(drawn, from, to));
    }
  }
};

template <auto Field, class V>
Between<Field> between(char const* name, V low, V high, bool log) {
  bool const finite = std::isfinite(static_cast<double>(low)) && std::isfinite(static_cast<double>(high));
  if (!finite || !(low <= high) || (log && !(static_cast<double>(low) > 0)))
    throw Error("fulgurite.tune.range", named<Field>(name) + "(" + fields::text(low) + ", " + fields::text(high) +
                                            "): bounds are finite, the lower one first" +
                                            (log ? ", and above 0, where a logarithm is" : ""));
  return {{}, low, high, log};
}

}  // namespace axes

/// Listed values of a field, for a grid or to be drawn from.
template <auto Field>
struct Values : axes::Axis<Field> {
  std::vector<ValueOf<Field>> all;

  ValueOf<Field> draw(data::Random& random) const { return all[static_cast<std::size_t>(random.below(all.size()))]; }
};

/// `values<&Setting::width>(32, 64, 128)`: these values of a field, in this order. A value of a type that
/// the field's cannot hold does not compile; a whole number that it cannot is an Error, [fulgurite.tune.range].
template <auto Field, class... Vs>
  requires FieldPointer<Field> && (!std::is_same_v<std::vector<ValueOf<Field>>, std::remove_cvref_t<Vs>> && ...)
Values<Field> values(Vs&&... all) {
  static_assert(sizeof...(Vs) != 0, "[fulgurite.tune.empty_axis] a field without a value makes a space without a "
                                    "member: list its values");
  return {{}, {axes::listed<Field>(std::forward<Vs>(all))...}};
}
/// The same of values that only the run knows. Error [fulgurite.tune.empty] where there are none.
template <auto Field>
  requires FieldPointer<Field>
Values<Field> values(std::vector<ValueOf<Field>> all) {
  if (all.empty())
    throw Error("fulgurite.tune.empty",
                axes::named<Field>("values") + ": a field without a value makes a space without a member");
  return {{}, std::move(all)};
}
/// What is no data member.
template <auto Field, class... Vs>
  requires(!FieldPointer<Field>)
axes::Axis<Field> values(Vs&&...) {
  return {};
}

/// `choice<&Setting::width>(32, 64, 128)`: drawn from these, all equally likely.
template <auto Field, class... Vs>
auto choice(Vs&&... all) {
  return values<Field>(std::forward<Vs>(all)...);
}

/// `uniform<&Setting::dropout>(0.0, 0.5)`: drawn evenly from the numbers between these bounds. Whole numbers include
/// both. Error [fulgurite.tune.range] where they are no bounds.
template <auto Field>
axes::Between<Field> uniform(ValueOf<Field> low, ValueOf<Field> high) {
  return axes::between<Field>("uniform", low, high, false);
}

/// `log_uniform<&Setting::rate>(1e-4, 1e-1)`: drawn so that each order of magnitude is as likely as any other; the
/// lower bound is above 0. Of whole numbers, too.
template <auto Field>
axes::Between<Field> log_uniform(ValueOf<Field> low, ValueOf<Field> high) {
  return axes::between<Field>("log_uniform", low, high, true);
}

}  // namespace fulgurite::tune
