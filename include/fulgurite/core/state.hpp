#pragma once
// Which objects carry state that a checkpoint must hold, and how they say so.

#include <concepts>
#include <cstdint>
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

/// `using Stateless = ByChoice;` says on purpose that a struct's members are configuration, or may be lost.
struct ByChoice {};

/// Both saves and loads: `void state(auto& archive) { archive("best", best)("bad", bad).option("patience", patience);
/// }`. A value is state, and loading sets it. An option is what the program gives: a file holds it too, loading never
/// sets it, and a fit that resumes from a file with other options warns once and lists them all.
template <class T, class Archive>
concept Stateful = requires(T& object, Archive& archive) { object.state(archive); };

/// It says, by `using Stateless = ByChoice`, that a checkpoint may forget its members.
template <class T>
concept DeclaredStateless = requires { typename T::Stateless; };

/// Stands in for an archive where only the presence of `state` is asked.
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

/// Loading, the saved state has no entry of that name: an older one, or one of a program with fewer parts.
template <class Archive>
bool lacks(Archive const& archive, std::string_view name) {
  if constexpr (requires { archive.has(name); }) return !archive.has(name);
  else return false;
}

/// Loading, calls write() when all of the state is known to fit; at once in an archive that does not wait for it.
template <class Archive, class Write>
void commit(Archive const& archive, Write&& write) {
  if constexpr (requires { archive.commit(write); }) archive.commit(std::forward<Write>(write));
  else write();
}

/// Loading, entries that nobody asks for may be left out: those of a program with more parts. Anywhere else such an
/// entry means that the file does not fit.
template <class Archive>
void leave_out_others(Archive const& archive) {
  if constexpr (requires { archive.leave_out_others(); }) archive.leave_out_others();
}

/// Loading, the options so far that are not those of the saved state: a sentence each. Saving, none.
template <class Archive>
std::vector<std::string> differences(Archive const& archive) {
  if constexpr (requires { archive.differences(); }) return archive.differences();
  else return {};
}

/// Nothing of it can be forgotten by a checkpoint: it has `state`, no members at all, or says that it needs none.
template <class T>
concept Remembers = std::is_empty_v<T> || (std::is_polymorphic_v<T> && sizeof(T) == sizeof(void*)) ||
                    DeclaredStateless<T> || Stateful<T, ArchiveProbe>;

// What a model or a data module says of its own settings, so that loggers and files can tell how a run was made.

/// A list of settings, such as the widths of layers: its entries need not have one type.
using HyperparameterValues = std::vector<std::variant<bool, std::int64_t, double, std::string>>;
/// A named setting of a run: `{"lr", 1e-3}`, `{"optimizer", std::string("adam")}`, `{"layers", std::int64_t{4}}`.
using Hyperparameter =
    std::pair<std::string, std::variant<bool, std::int64_t, double, std::string, HyperparameterValues>>;

/// The text of a setting. `text(value)` is that of one number, truth value or text; a list is "[a, b]" of these, with
/// `between` between two of them.
template <class Text>
std::string setting_text(Hyperparameter::second_type const& setting, Text const& text,
                         std::string_view between = ", ") {
  return std::visit(
      [&]<class T>(T const& value) -> std::string {
        if constexpr (std::same_as<T, HyperparameterValues>) {
          std::string all = "[";
          for (auto const& one : value) (all += all.size() > 1 ? between : "") += std::visit(text, one);
          return all + "]";
        } else return text(value);
      },
      setting);
}

/// What one entry of a hyper-parameter may be.
template <class V>
inline constexpr bool is_setting =
    std::is_arithmetic_v<V> || std::is_enum_v<V> || std::convertible_to<V const&, std::string_view>;
/// A std::vector of such entries.
template <class V>
inline constexpr bool is_setting_list = false;
template <class V>
inline constexpr bool is_setting_list<std::vector<V>> = is_setting<V>;

/// Collects settings in the order in which they are named. A model, a data module, or its member `hparams`, says which:
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

  /// A name again with another value is an Error: two places would tell two stories of one run.
  template <class V>
  HyperparameterList& operator()(std::string_view name, V const& value) {
    constexpr bool one = is_setting<V>, list = is_setting_list<V>;
    static_assert(
        one || list,
        "[fulgurite.logger.hyperparameter] a hyper-parameter is a number, a truth value, an enum, a text or a "
        "std::vector of these: convert it to one of them");
    if constexpr (one) {
      add(name, kept(value));
    } else if constexpr (list) {
      HyperparameterValues all;
      for (typename V::value_type const& entry : value) all.emplace_back(kept(entry));
      add(name, std::move(all));
    }
    return *this;
  }

  /// What an object declares; one that declares nothing adds nothing.
  template <class T>
  HyperparameterList& of(T const& object) {
    if constexpr (requires { object.hyperparameters(*this); }) object.hyperparameters(*this);
    else if constexpr (requires { object.hparams.hyperparameters(*this); }) object.hparams.hyperparameters(*this);
    return *this;
  }

  std::vector<Hyperparameter> const& all() const { return all_; }
  std::vector<Hyperparameter> copy() const;

 private:
  template <class V>
  static auto kept(V const& value) {
    if constexpr (std::same_as<V, bool>) return value;
    else if constexpr (std::is_floating_point_v<V>) return static_cast<double>(value);
    else if constexpr (std::is_arithmetic_v<V> || std::is_enum_v<V>) return static_cast<std::int64_t>(value);
    else return std::string(std::string_view(value));
  }
  void add(std::string_view name, Hyperparameter::second_type value);

  std::vector<Hyperparameter> all_;
};

/// What these declare, together: `hyperparameters(model)`, `hyperparameters(model, data)`.
template <class... Ts>
std::vector<Hyperparameter> hyperparameters(Ts const&... objects) {
  HyperparameterList list;
  (list.of(objects), ...);
  return list.copy();
}

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/state.ipp>
#endif
