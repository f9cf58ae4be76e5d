#pragma once
// The hyper-parameters of all members of a sweep: a list, all combinations of a grid, or random draws.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::tune {

// A field of the user's hyper-parameters, by its member pointer: its type, name, and value as text.

namespace fields {

template <class T>
struct Of;
template <class S, class T>
  requires std::is_object_v<T>
struct Of<T S::*> {
  using Setting = S;
  using Value = T;
};

/// The types that a table can show as distinct values.
template <class T>
concept Shown = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::convertible_to<T const&, std::string_view>;

template <class T>
std::string text(T const& value, bool exactly = true) {
  if constexpr (std::is_convertible_v<T const&, std::string_view>) return std::string(std::string_view(value));
  else if constexpr (!std::is_floating_point_v<T>) return reflect::field_text(value);
  else return exactly ? reflect::field_text(value) : report::formatted("%.6g", static_cast<double>(value));
}

}  // namespace fields

/// A pointer to a data member, such as `&Setting::rate`.
template <auto Field>
concept FieldPointer = requires { typename fields::Of<std::remove_const_t<decltype(Field)>>::Value; };

/// The struct that a field belongs to.
template <auto Field>
using SettingOf = typename fields::Of<std::remove_const_t<decltype(Field)>>::Setting;
/// The type of a field's values.
template <auto Field>
using ValueOf = typename fields::Of<std::remove_const_t<decltype(Field)>>::Value;

/// The name of a field as it was declared: `field_name<&Setting::rate>()` is "rate".
template <auto Field>
consteval std::string_view field_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("Field = ") + 8);
  name = name.substr(0, name.find_first_of(";]"));
  if (name.ends_with(')')) name.remove_suffix(1);  // g++ writes (& Setting::rate)
  auto const last = name.rfind("::");
  return last == std::string_view::npos ? name : name.substr(last + 2);
}

// The values of one field of the hyper-parameters: listed, or drawn.

namespace axes {

/// Checks that apply to every axis. A pointer to something else gives a single error message.
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

/// Converts a listed value to the field's type.
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

/// A value between two bounds, drawn uniformly on the scale that `Forth` maps to and `Back` maps from.
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
      // Each integer gets the width, on the logarithmic scale, of the numbers that are rounded to it.
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

/// Listed values of a field, for a grid or for drawing.
template <auto Field>
struct Values : axes::Axis<Field> {
  std::vector<ValueOf<Field>> all;

  ValueOf<Field> draw(data::Random& random) const { return all[static_cast<std::size_t>(random.below(all.size()))]; }
};

/// `values<&Setting::width>(32, 64, 128)`: these values of a field, in this order. A value of a type that the field
/// cannot hold does not compile; an integer out of the field's range throws [fulgurite.tune.range].
template <auto Field, class... Vs>
  requires FieldPointer<Field> && (!std::is_same_v<std::vector<ValueOf<Field>>, std::remove_cvref_t<Vs>> && ...)
Values<Field> values(Vs&&... all) {
  static_assert(sizeof...(Vs) != 0, "[fulgurite.tune.empty_axis] a field without a value makes a space without a "
                                    "member: list its values");
  return {{}, {axes::listed<Field>(std::forward<Vs>(all))...}};
}
/// The same for values that are known only at run time. Throws [fulgurite.tune.empty] if there are none.
template <auto Field>
  requires FieldPointer<Field>
Values<Field> values(std::vector<ValueOf<Field>> all) {
  if (all.empty())
    throw Error("fulgurite.tune.empty",
                axes::named<Field>("values") + ": a field without a value makes a space without a member");
  return {{}, std::move(all)};
}
/// Refuses anything that is no data member.
template <auto Field, class... Vs>
  requires(!FieldPointer<Field>)
axes::Axis<Field> values(Vs&&...) {
  return {};
}

/// `choice<&Setting::width>(32, 64, 128)`: drawn from these values with equal probability.
template <auto Field, class... Vs>
auto choice(Vs&&... all) {
  return values<Field>(std::forward<Vs>(all)...);
}

/// `uniform<&Setting::dropout>(0.0, 0.5)`: drawn uniformly between these bounds; integers include both. Throws
/// [fulgurite.tune.range] for invalid bounds.
template <auto Field>
axes::Between<Field> uniform(ValueOf<Field> low, ValueOf<Field> high) {
  return axes::between<Field>("uniform", low, high, false);
}

/// `log_uniform<&Setting::rate>(1e-4, 1e-1)`: drawn so that each order of magnitude has the same probability; the lower
/// bound must be above 0. Works for integers, too.
template <auto Field>
axes::Between<Field> log_uniform(ValueOf<Field> low, ValueOf<Field> high) {
  return axes::between<Field>("log_uniform", low, high, true);
}

/// The settings of a sweep's members, in their order, and the columns that tables show. `Setting` is your own
/// aggregate.
template <class Setting>
struct Space {
  /// A column of the tables: its name, and its text for a setting, exact or with six digits.
  struct Column {
    std::string name;
    std::function<std::string(Setting const&, bool exactly)> text;
  };
  std::vector<Setting> settings;
  std::vector<Column> columns;
};

namespace spaces {

template <class... Axes>
inline constexpr bool are_axes = sizeof...(Axes) != 0 && (Axes::is_axis && ...);

/// Takes the place of the class where axes have an error.
struct None {};
/// The class to which the fields of axes belong; None if that is an error.
template <class... Axes>
consteval auto setting_of() {
  if constexpr (are_axes<Axes...>) return std::type_identity<typename TypeAt<0, Axes...>::Setting>{};
  else return std::type_identity<None>{};
}
template <class... Axes>
using Setting = typename decltype(setting_of<Axes...>())::type;

/// True if two axes are of the same field.
template <class A, class B>
consteval bool same_field() {
  if constexpr (std::is_same_v<std::remove_const_t<decltype(A::field)>, std::remove_const_t<decltype(B::field)>>)
    return A::field == B::field;
  else return false;
}
template <class... Axes>
consteval bool is_repeated() {
  constexpr auto count = []<class A>(std::type_identity<A>) { return (0 + ... + int(same_field<A, Axes>())); };
  return ((count(std::type_identity<Axes>{}) > 1) || ...);
}

/// Checks the rules about axes at compile time.
template <class... Axes>
consteval bool fit_together() {
  static_assert(sizeof...(Axes) != 0, "[fulgurite.tune.empty_space] a space without a field has no member: give it "
                                      "values<&Setting::rate>(...), or list the settings");
  if constexpr (are_axes<Axes...>) {
    constexpr bool one = (std::is_same_v<Setting<Axes...>, typename Axes::Setting> && ...);
    constexpr bool repeated = is_repeated<Axes...>();
    static_assert(one, "[fulgurite.tune.settings] the fields of a space belong to one type of hyper-parameters");
    static_assert(!repeated,
                  "[fulgurite.tune.twice] a field is listed twice in a space: list all of its values at once");
    return one && !repeated;
  } else {
    return false;  // the axis itself has the error message, or there is none
  }
}

template <class Axis>
auto column_of() {
  using Setting = typename Axis::Setting;
  return
      typename Space<Setting>::Column{std::string(field_name<Axis::field>()), [](Setting const& setting, bool exactly) {
                                        return fields::text(setting.*Axis::field, exactly);
                                      }};
}

}  // namespace spaces

/// All combinations, with the last field varying fastest. Fields that are not named keep their value in `base`:
///
///     tune::grid(tune::values<&Setting::rate>(1e-3, 1e-2), tune::values<&Setting::width>(32, 64))
template <class... Axes>
Space<spaces::Setting<Axes...>> grid_from(spaces::Setting<Axes...> const& base, Axes const&... axes) {
  Space<spaces::Setting<Axes...>> space;
  if constexpr (spaces::fit_together<Axes...>()) {
    space.columns = {spaces::column_of<Axes>()...};
    space.settings = {base};
    auto const multiply = [&](auto const& axis) {
      auto const before = std::exchange(space.settings, {});
      for (auto const& setting : before)
        for (auto const& value : axis.all) {
          space.settings.push_back(setting);
          space.settings.back().*std::remove_cvref_t<decltype(axis)>::field = value;
        }
    };
    (multiply(axes), ...);
  }
  return space;
}
/// All combinations of the values of all axes, with the last one varying fastest: `grid(values<&Setting::rate>(1e-3,
/// 1e-2), ...)`.
template <class... Axes>
auto grid(Axes const&... axes) {
  return grid_from(spaces::Setting<Axes...>{}, axes...);
}

/// The number of settings to draw, and the seed.
struct Draws {
  long count;              ///< number of settings, at least 1
  std::uint64_t seed = 0;  ///< decides what is drawn
};

/// Random settings, in which each field is drawn independently. Setting i is the same for any count.
///
///     tune::draws({.count = 64}, tune::log_uniform<&Setting::rate>(1e-4, 1e-1), tune::choice<&Setting::width>(32, 64))
///
/// Throws [fulgurite.tune.empty] for a count below 1.
template <class... Axes>
Space<spaces::Setting<Axes...>> draws_from(spaces::Setting<Axes...> const& base, Draws how, Axes const&... axes) {
  Space<spaces::Setting<Axes...>> space;
  if constexpr (spaces::fit_together<Axes...>()) {
    if (how.count < 1)
      throw Error("fulgurite.tune.empty", ".count = " + std::to_string(how.count) + ": a sweep has one member or more");
    space.columns = {spaces::column_of<Axes>()...};
    for (long i = 0; i != how.count; ++i) {
      data::Random random{how.seed, static_cast<std::uint64_t>(i)};
      space.settings.push_back(base);
      ((space.settings.back().*Axes::field = axes.draw(random)), ...);
    }
  }
  return space;
}
/// Settings drawn at random, each value from its axis: `draws({.count = 64}, log_uniform<&Setting::rate>(1e-4, 1e-1))`.
/// Member i is the same however many are drawn.
template <class... Axes>
auto draws(Draws how, Axes const&... axes) {
  return draws_from(spaces::Setting<Axes...>{}, how, axes...);
}

/// These settings. Tables show what `hyperparameters(list)` of the setting names. Throws [fulgurite.tune.empty] for an
/// empty list.
template <class Setting>
Space<Setting> list(std::vector<Setting> settings) {
  constexpr bool named = requires(Setting const& setting, HyperparameterList& all) { setting.hyperparameters(all); };
  static_assert(named, "[fulgurite.tune.names] a list of settings needs names for its table: declare void "
                       "hyperparameters(auto& list) const { list(\"rate\", rate); }, or use grid or draws");
  Space<Setting> space;
  if constexpr (named) {
    if (settings.empty()) throw Error("fulgurite.tune.empty", "a list of no settings: a sweep has one member or more");
    for (auto const& [name, first] : hyperparameters(settings.front()))
      space.columns.push_back({name, [column = name](Setting const& setting, bool exactly) {
                                 for (auto const& [other, now] : hyperparameters(setting))
                                   if (other == column)
                                     return setting_text(
                                         now, [&](double number) { return fields::text(number, exactly); },
                                         [](std::string const& words) { return words; });
                                 return std::string();
                               }});
    space.settings = std::move(settings);
  }
  return space;
}
template <class Setting>
Space<Setting> list(std::initializer_list<Setting> settings) {
  return list(std::vector<Setting>(settings));
}

}  // namespace fulgurite::tune
