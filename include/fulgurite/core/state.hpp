#pragma once
// Which objects have state that a checkpoint must hold, and how they declare it.

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite {

// The archives, which core/archive.hpp defines.
class StateSaver;
class StateLoader;

/// `using Stateless = ByChoice;` declares that a struct's members are configuration, or may be lost.
struct ByChoice {};

/// A type whose `state` both saves and loads:
///
///     void state(auto& archive) { archive("best", best)("bad", bad).option("patience", patience); }
///
/// A value is state, and loading sets it. An option is set by the program: a file holds it too, but loading never sets
/// it, and a fit that resumes from a file with other options warns once and lists all that differ.
template <class T, class Archive>
concept Stateful = requires(T& object, Archive& archive) { object.state(archive); };

/// A type that declares, by `using Stateless = ByChoice`, that a checkpoint need not hold its members.
template <class T>
concept DeclaredStateless = requires { typename T::Stateless; };

/// Takes the place of an archive to check whether a type has `state`.
struct ArchiveProbe {
  static constexpr bool loading = false;
  template <class V>
  ArchiveProbe& operator()(std::string_view, V&&) {
    return *this;
  }
  template <class V>
  ArchiveProbe& option(std::string_view, V const&) {
    return *this;
  }
  template <class V>
  ArchiveProbe& option(std::string_view, V const&, V&) {
    return *this;
  }
  template <class V>
  ArchiveProbe& tensor(std::string_view, V&&) {
    return *this;
  }
  template <class V>
  ArchiveProbe& child(std::string_view, V&&) {
    return *this;
  }
};

/// When loading: true if the saved state has no entry of that name, since it is older or from a program with fewer
/// parts.
bool lacks(auto const& archive, std::string_view name) {
  if constexpr (requires { archive.has(name); }) return !archive.has(name);
  else return false;
}

/// When loading: calls write() once all of the state is known to fit; at once if the archive does not wait for that.
template <class Archive, class Write>
void commit(Archive const& archive, Write&& write) {
  if constexpr (requires { archive.commit(write); }) archive.commit(std::forward<Write>(write));
  else write();
}

/// When loading: allows unread entries here, those of a program with more parts. Anywhere else an unread entry means
/// that the file does not fit.
void leave_out_others(auto const& archive) {
  if constexpr (requires { archive.leave_out_others(); }) archive.leave_out_others();
}

/// When loading: one sentence for each option so far that differs from the saved state. When saving: empty.
std::vector<std::string> differences(auto const& archive) {
  if constexpr (requires { archive.differences(); }) return archive.differences();
  else return {};
}

/// A type of which a checkpoint forgets nothing: it has `state`, has no members, or declares that it needs no state.
template <class T>
concept Remembers = std::is_empty_v<T> || (std::is_polymorphic_v<T> && sizeof(T) == sizeof(void*)) ||
                    DeclaredStateless<T> || Stateful<T, ArchiveProbe>;

// The settings that a model or a data module declares, so that loggers and files can record how a run was made.

/// A list of settings, such as the widths of layers: its entries may have different types.
using HyperparameterValues = std::vector<std::variant<bool, std::int64_t, double, std::string>>;
/// A named setting of a run: `{"lr", 1e-3}`, `{"optimizer", std::string("adam")}`, `{"layers", std::int64_t{4}}`.
using Hyperparameter =
    std::pair<std::string, std::variant<bool, std::int64_t, double, std::string, HyperparameterValues>>;

/// The text of a setting, in which a kind of file writes a `number` and a `text` in its own way, and truth values as
/// `yes` and `no`; a list becomes "[a, b]", with `between` between two entries.
std::string setting_text(Hyperparameter::second_type const& setting, std::function<std::string(double)> const& number,
                         std::function<std::string(std::string const&)> const& text, std::string_view between = ", ",
                         std::string_view yes = "true", std::string_view no = "false");

/// True for types of a single hyper-parameter.
template <class V>
inline constexpr bool is_setting =
    std::is_arithmetic_v<V> || std::is_enum_v<V> || std::convertible_to<V const&, std::string_view>;
/// True for a std::vector of such types.
template <class V>
inline constexpr bool is_setting_list = false;
template <class V>
inline constexpr bool is_setting_list<std::vector<V>> = is_setting<V>;

/// Collects settings in the order in which they are named. A model, a data module, or its member `hparams`, declares
/// them:
///
///   struct Settings {
///     double lr = 1e-3;
///     int layers = 4;
///     void hyperparameters(auto& list) const { list("lr", lr)("layers", layers); }
///   };
///   struct Net { Settings hparams; ... };
class HyperparameterList {
 public:
  HyperparameterList();
  FULGURITE_MOVES(HyperparameterList);

  /// Adds a setting. The same name with another value is an Error, since one run cannot have both, and so is a whole
  /// number above 2^63 - 1, which files cannot hold. An empty std::optional is left out.
  template <class V>
  HyperparameterList& operator()(std::string_view name, V const& value) {
    constexpr bool one = is_setting<V>, list = is_setting_list<V>, held = requires { value.has_value(); };
    static_assert(
        one || list || held,
        "[fulgurite.logger.hyperparameter] a hyper-parameter is a number, a truth value, an enum, a text, or a "
        "std::vector or std::optional of these: convert it to one of them");
    if constexpr (one) {
      add(name, kept(name, value));
    } else if constexpr (held) {
      if (value) (*this)(name, *value);
    } else if constexpr (list) {
      HyperparameterValues all;
      for (typename V::value_type const& entry : value) all.emplace_back(kept(name, entry));
      add(name, std::move(all));
    }
    return *this;
  }

  /// Adds the settings that an object declares, if any.
  HyperparameterList& of(auto const& object) {
    if constexpr (requires { object.hyperparameters(*this); }) object.hyperparameters(*this);
    else if constexpr (requires { object.hparams.hyperparameters(*this); }) object.hparams.hyperparameters(*this);
    return *this;
  }

  std::span<Hyperparameter const> all() const;
  std::vector<Hyperparameter> copy() const { return all_; }

 private:
  template <class V>
  static auto kept(std::string_view name, V const& value) {
    if constexpr (std::same_as<V, bool>) return value;
    else if constexpr (std::is_floating_point_v<V>) return static_cast<double>(value);
    else if constexpr (std::is_arithmetic_v<V> || std::is_enum_v<V>) {
      if constexpr (std::is_unsigned_v<V> && sizeof(V) == sizeof(std::int64_t))
        if (value > static_cast<V>(std::numeric_limits<std::int64_t>::max())) refuse_large(name, value);
      return static_cast<std::int64_t>(value);
    } else return std::string(std::string_view(value));
  }
  [[noreturn]] static void refuse_large(std::string_view name, std::uint64_t value);
  void add(std::string_view name, Hyperparameter::second_type value);

  std::vector<Hyperparameter> all_;
};

/// The settings that these objects declare, together: `hyperparameters(model)`, `hyperparameters(model, data)`.
template <class... Ts>
std::vector<Hyperparameter> hyperparameters(Ts const&... objects) {
  HyperparameterList list;
  (list.of(objects), ...);
  return list.copy();
}

}  // namespace fulgurite

// For a function that takes other arguments and then an archive: FULGURITE_FOLD(EXTERN, NAME, TYPES) follows its
// declaration, and FULGURITE_FOLD(INSTANTIATE, NAME, TYPES) its definition in a body file.
#define FULGURITE_FOLD(WHAT, NAME, ...)                                                                                \
  FULGURITE_##WHAT(void NAME(__VA_ARGS__, ::fulgurite::StateSaver&));                                                  \
  FULGURITE_##WHAT(void NAME(__VA_ARGS__, ::fulgurite::StateLoader&))

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/state.ipp>
#endif
