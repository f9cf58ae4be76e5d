#pragma once
// Settings that are named once: Boost.Hana's adaptation of a struct lists, prints, checks and saves them. Optional: a
// program that names its settings in `hyperparameters(list)` needs neither this header nor Hana.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <boost/hana/accessors.hpp>
#include <boost/hana/adapt_struct.hpp>
#include <boost/hana/concept/struct.hpp>
#include <boost/hana/first.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/string.hpp>
#include <boost/hana/unpack.hpp>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::reflect {

/// A struct whose fields are known by name. Adapt it after the struct, in the global namespace:
///
///     struct Settings {
///       double lr = 1e-3;
///       int layers = 4;
///       static constexpr auto ranges = std::tuple(reflect::within(&Settings::lr, 0.0, 1.0));
///       void hyperparameters(auto& list) const { reflect::list(*this, list); }  // for loggers and files
///       void state(auto& archive) { reflect::state(*this, archive); }           // for checkpoints
///     };
///     BOOST_HANA_ADAPT_STRUCT(Settings, lr, layers);
///
/// Only fields that are named there are used: a field that is left out is in no list, text, check or file.
template <class T>
concept Reflected = boost::hana::Struct<std::remove_cvref_t<T>>::value;

/// Calls f(name, field) for each field, in the order of the adaptation.
template <Reflected T, class F>
constexpr void each_field(T& object, F&& f) {
  boost::hana::unpack(boost::hana::accessors<std::remove_const_t<T>>(), [&](auto... field) {
    (f(std::string_view(boost::hana::first(field).c_str()), boost::hana::second(field)(object)), ...);
  });
}

/// Calls f(name, field, owner) for each field. For a field that is such a struct itself, calls it for each of the inner
/// fields instead, with the name `outer.inner` and the inner struct as `owner`.
template <Reflected T, class F>
constexpr void each_leaf(T& object, F&& f, std::string const& before = {}) {
  each_field(object, [&]<class Field>(std::string_view name, Field& field) {
    auto const whole = before + std::string(name);
    if constexpr (Reflected<Field>) each_leaf(field, f, whole + ".");
    else f(std::string_view(whole), field, object);
  });
}

/// The names of the fields.
template <Reflected T>
std::vector<std::string_view> names(T const& object) {
  std::vector<std::string_view> all;
  each_field(object, [&](std::string_view name, auto const&) { all.push_back(name); });
  return all;
}

/// Passes all fields to a list of hyper-parameters, or to a reader of them: each must be a number, a boolean, an enum,
/// a string, or a std::vector or std::optional of these.
template <Reflected T>
void list(T const& object, auto& to) {
  each_leaf(object, [&](std::string_view name, auto const& field, auto const&) { to(name, field); });
}

/// Saves or loads all fields.
template <Reflected T>
void state(T& object, auto& archive) {
  each_leaf(object, [&](std::string_view name, auto& field, auto&) { archive(name, field); });
}

/// A line such as `lr = 0.001` for each field that has a text. With `beside`, only those whose text differs from the
/// one there: `text(options, TrainerOptions{})` shows the options that were given.
template <Reflected T>
std::string text(T const& object, T const* beside = nullptr) {
  std::vector<std::optional<std::string>> known;
  auto const shown = [](auto const& field) -> std::optional<std::string> {
    if constexpr (requires { field_text(field); }) return field_text(field);
    else return std::nullopt;
  };
  if (beside)
    each_leaf(*beside, [&](std::string_view, auto const& field, auto const&) { known.push_back(shown(field)); });
  std::string lines;
  std::size_t at = 0;
  each_leaf(object, [&](std::string_view name, auto const& field, auto const&) {
    auto const value = shown(field);
    if (std::size_t const here = at++; !value || (beside && known[here] == value)) return;
    lines += name;
    lines += " = ";
    lines += *value;
    lines += "\n";
  });
  return lines;
}
template <Reflected T>
std::string text(T const& object, T const& beside) {
  return text(object, &beside);
}

/// The allowed range of a field; `ranges` of a struct is a tuple of these.
template <class T, class Field>
struct Range {
  Field T::* field;
  std::optional<Field> least, most;
};
/// The field must be at least this.
template <class T, class Field>
constexpr Range<T, Field> at_least(Field T::* field, std::type_identity_t<Field> least) {
  return {field, least, std::nullopt};
}
/// The field must be from `least` to `most`, both included.
template <class T, class Field>
constexpr Range<T, Field> within(Field T::* field, std::type_identity_t<Field> least,
                                 std::type_identity_t<Field> most) {
  return {field, least, most};
}

/// A range as text for a person: "from 0 to 0.9", "at least 1".
template <class T, class Field>
std::string range_text(Range<T, Field> const& range) {
  if (range.most) return "from " + field_text(*range.least) + " to " + field_text(*range.most);
  return "at least " + field_text(*range.least);
}

/// Throws [fulgurite.options.field] for the first field that is out of its range; NaN is out of every range. `before`:
/// a prefix for the field's name.
template <Reflected T>
void check_ranges(T const& settings, std::string const& before = {}) {
  auto const check = [&](auto const& range) {
    auto const& value = settings.*range.field;
    if ((!range.least || value >= *range.least) && (!range.most || value <= *range.most)) return;
    std::string said = "a field";
    each_field(settings, [&](std::string_view name, auto const& field) {
      if (static_cast<void const*>(&field) == static_cast<void const*>(&value)) said = before + std::string(name);
    });
    throw Error("fulgurite.options.field", said + " = " + field_text(value) + ": it must be " + range_text(range));
  };
  if constexpr (requires { T::ranges; }) std::apply([&](auto const&... range) { (check(range), ...); }, T::ranges);
  each_field(settings, [&]<class Field>(std::string_view name, Field const& field) {
    if constexpr (Reflected<Field>) check_ranges(field, before + std::string(name) + ".");
  });
}
/// Returns the settings after checking them, for constructors: `Net(Settings s) : hparams(reflect::checked(s))`. Throws
/// [fulgurite.options.field].
template <Reflected T>
T checked(T settings) {
  check_ranges(settings);
  return settings;
}

}  // namespace fulgurite::reflect

// The trainer's options, reflected: `reflect::text(trainer.options(), TrainerOptions{})` shows the options that were
// given.

BOOST_HANA_ADAPT_STRUCT(fulgurite::TrainerOptions, max_epochs, min_epochs, max_steps, min_steps, max_time,
                        limit_train_batches, limit_val_batches, limit_test_batches, limit_predict_batches,
                        val_check_interval, check_val_every_n_epoch, num_sanity_val_steps, log_every_n_steps,
                        fast_dev_run, overfit_batches, reload_dataloaders_every_n_epochs, use_distributed_sampler,
                        inference_mode, non_finite, detect_anomaly, deterministic, benchmark, barebones,
                        default_root_dir, save_in_background, silence, now);
BOOST_HANA_ADAPT_STRUCT(fulgurite::Automatic, accumulate_grad_batches, clip, tbptt);
