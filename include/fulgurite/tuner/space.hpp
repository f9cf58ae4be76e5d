#pragma once
// The hyper-parameters of all members of a sweep: listed, all combinations of a grid, or drawn.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/data/random.hpp>
#include <fulgurite/tuner/axis.hpp>

namespace fulgurite::tune {

/// The settings of a sweep's members, in their order, and what tables show of each. `Setting` is your own aggregate.
template <class Setting>
struct Space {
  /// A column of the tables: its name, and what it shows of a setting, exactly or in six digits.
  struct Column {
    std::string name;
    std::function<std::string(Setting const&, bool exactly)> text;
  };
  std::vector<Setting> settings;
  std::vector<Column> columns;
};

namespace spaces {

template <class... Axes>
inline constexpr bool are_axes = (Axes::is_axis && ...);

/// Whether two of several pointers to members are the same, and whether all are of one class.
template <class First, class... Axes>
consteval bool of_one_setting() {
  return (std::is_same_v<typename First::Setting, typename Axes::Setting> && ...);
}
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

/// Which rule about the axes is broken, judged while compiling.
template <class... Axes>
consteval bool fit_together() {
  static_assert(sizeof...(Axes) != 0, "[fulgurite.tune.empty_space] a space without a field has no member: give it "
                                      "values<&Setting::rate>(...), or list the settings");
  if constexpr (sizeof...(Axes) == 0) {
    return false;
  } else if constexpr (are_axes<Axes...>) {
    constexpr bool one = of_one_setting<Axes...>(), repeated = is_repeated<Axes...>();
    static_assert(one, "[fulgurite.tune.settings] the fields of a space belong to one type of hyper-parameters");
    static_assert(!repeated, "[fulgurite.tune.twice] a field stands twice in a space: list all of its values at once");
    return one && !repeated;
  } else {
    return false;  // said by the axis itself
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

struct None {};
template <class... Axes>
struct First {
  using type = None;
};
template <class A, class... Axes>
struct First<A, Axes...> {
  using type = typename A::Setting;
};
template <bool fits, class... Axes>
struct SettingOfAll {
  using type = None;
};
template <class... Axes>
struct SettingOfAll<true, Axes...> : First<Axes...> {};
template <class... Axes>
using Setting = typename SettingOfAll<(sizeof...(Axes) != 0) && are_axes<Axes...>, Axes...>::type;

}  // namespace spaces

/// All combinations, the last field varying fastest; fields that are not named keep the value that `base` has:
///   tune::grid(tune::values<&Setting::rate>(1e-3, 1e-2), tune::values<&Setting::width>(32, 64))
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
/// Every combination of the values of all axes, the last one fastest: `grid(values<&Setting::rate>(1e-3, 1e-2), ...)`.
template <class... Axes>
auto grid(Axes const&... axes) {
  return grid_from(spaces::Setting<Axes...>{}, axes...);
}

/// How many settings are drawn, and from which random numbers.
struct Draws {
  long count;
  std::uint64_t seed = 0;
};

/// Settings that are drawn, each field by itself: setting i is the same however many are drawn.
///   tune::draws({.count = 64}, tune::log_uniform<&Setting::rate>(1e-4, 1e-1), tune::choice<&Setting::width>(32, 64))
/// Error [fulgurite.tune.empty] for a count below 1.
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

/// These settings. Tables show what `hyperparameters(list)` of the setting names. Error [fulgurite.tune.empty] where
/// there are none.
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
                                         now, [&](auto const& shown) { return fields::text(shown, exactly); });
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
