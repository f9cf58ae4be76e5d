#pragma once
// The hyper-parameters that a model or a data module declares, as options, and the object that is made of them.

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/cli/list_text.hpp>
#include <fulgurite/cli/table.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/diagnose/subject.hpp>
#include <fulgurite/report/reflected.hpp>

namespace fulgurite::cli {

/// In the place of settings where a class has none.
struct NoSettings {};

/// `T::hparams` is a struct of settings, from which a T is made.
template <class T>
concept HasSettings = requires(T& object) { object.hparams; };

/// The type of a class's settings, as its ::type; NoSettings where it has none.
template <class T>
struct SettingsOf : std::type_identity<NoSettings> {};
template <HasSettings T>
struct SettingsOf<T> : std::type_identity<std::remove_cvref_t<decltype(std::declval<T&>().hparams)>> {};

/// What --help says of a setting.
template <class T, class Field>
struct About {
  Field T::* field;
  std::string_view text;
};
/// `about` of a struct of settings is a tuple of these:
///     static constexpr auto about = std::tuple(cli::about(&Settings::hidden, "units of the hidden layer"));
template <class T, class Field>
constexpr About<T, Field> about(Field T::* field, std::string_view text) {
  return {field, text};
}

/// The line of a field, which is known by its address: what its struct says about it, and its range.
template <class H, class V>
std::string about_field(H const& object, V const& value) {
  std::string text;
  [[maybe_unused]] auto const is_it = [&](auto const field) {
    return static_cast<void const*>(std::addressof(object.*field)) == static_cast<void const*>(std::addressof(value));
  };
  if constexpr (requires { H::about; })
    std::apply([&](auto const&... one) { ((is_it(one.field) ? void(text = one.text) : void()), ...); }, H::about);
  if constexpr (requires { H::ranges; }) {
    auto const add = [&](auto const& range) {
      if (is_it(range.field)) (text += text.empty() ? "" : ", ") += reflect::range_text(range);
    };
    std::apply([&](auto const&... one) { (add(one), ...); }, H::ranges);
  }
  return text;
}

/// Adds the members that a struct names in `hyperparameters(list)`, in the place of such a list.
template <class H>
class MemberList {
 public:
  MemberList(Table& table, std::string group, H& object) : table_(table), group_(std::move(group)), object_(object) {}

  /// What lies outside of the object, such as a constant, is no option.
  template <class V>
  MemberList& operator()(std::string_view name, V const& value) {
    if constexpr (Textual<V>)
      if (is_member(value)) {
        std::string whole = group_;
        ((whole += '.') += name);
        auto& member = const_cast<V&>(value);  // of an object that is not const
        table_.add(std::move(whole), member, about_field(object_, value));
      }
    return *this;
  }

 private:
  template <class V>
  bool is_member(V const& value) const {
    auto const* const at = reinterpret_cast<std::byte const*>(std::addressof(value));
    auto const* const begin = reinterpret_cast<std::byte const*>(std::addressof(object_));
    return !std::less<>{}(at, begin) && std::less<>{}(at, begin + sizeof(H));
  }

  Table& table_;
  std::string group_;
  H& object_;
};

/// Adds all settings under `group.`: the fields of a struct that Boost.Hana knows, with those of such structs in it,
/// else those it names to a list of hyper-parameters.
template <class H>
void add_settings(Table& table, std::string const& group, H& settings) {
  if constexpr (reflect::Reflected<H>)
    reflect::each_leaf(settings, [&]<class V>(std::string_view name, V& field, auto const& owner) {
      if constexpr (Textual<V>) table.add(group + "." + std::string(name), field, about_field(owner, field));
    });
  else if constexpr (requires(MemberList<H> list) { std::as_const(settings).hyperparameters(list); }) {
    MemberList<H> list(table, group, settings);
    std::as_const(settings).hyperparameters(list);
  }
}

/// An Error with the option's whole name where a field is outside of the range that the struct declares for it.
template <class H>
void check_settings(std::string const& group, H const& settings) {
  if constexpr (reflect::Reflected<H>) {
    try {
      static_cast<void>(reflect::checked(settings));
    } catch (Error const& error) {
      std::string const what = error.what();
      throw Error(error.identifier(), "--" + group + "." + what.substr(error.identifier().size() + 3));
    }
  }
}

/// A T of its settings; T() where it declares none.
template <class T>
T made(typename SettingsOf<T>::type const& settings) {
  constexpr bool takes = std::constructible_from<T, typename SettingsOf<T>::type const&>;
  constexpr bool alone = !HasSettings<T> && std::default_initializable<T>;
  static_assert(takes || alone, "[fulgurite.cli.construction] a command line makes the model and the data from their "
                                "settings: write `explicit Net(Settings)` with a member `Settings hparams`, or a "
                                "constructor without parameters");
  if constexpr (takes) return T(settings);
  else if constexpr (alone) return T();
  else return refusal::nothing<T>();
}

}  // namespace fulgurite::cli
