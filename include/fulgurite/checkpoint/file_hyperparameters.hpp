#pragma once
// The settings with which a run was made, read back from one of its files.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/archive_reader.hpp>
#include <fulgurite/checkpoint/archive_text.hpp>
#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// A list whose entries a file can set.
template <class T>
inline constexpr bool is_readable_list = false;
template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, std::string>)
inline constexpr bool is_readable_list<std::vector<T>> = true;

/// Goes through the function `hyperparameters(list)` of an object, in the place of a list, and sets the members that it
/// names to what a file says. What is named and lies outside of the object, such as a text in quotes or a static
/// constant, cannot be set, and has to be what the file says.
template <class H>
class HyperparameterReader {
 public:
  HyperparameterReader(ArchiveNode const& saved, H& object) : saved_(&saved), object_(&object) {}

  template <class V>
  HyperparameterReader& operator()(std::string_view name, V&& value) {
    using T = std::remove_cvref_t<V>;
    constexpr bool text = std::is_same_v<T, std::string> || std::is_array_v<T>;
    constexpr bool one = std::is_arithmetic_v<T> || std::is_enum_v<T> || text;
    constexpr bool readable = std::is_lvalue_reference_v<V> && (one || is_readable_list<T>);
    static_assert(readable, "[fulgurite.checkpoint.hyperparameter_member] hyperparameters<H>(file) sets members of H, "
                            "and this is a temporary, or no number, truth value, enum, std::string or std::vector of "
                            "these: name the member itself");
    if constexpr (readable) {
      auto const* const found = saved_->find(name);
      if (found == nullptr) differs(name, "is not there");
      else if constexpr (std::is_array_v<T>) fixed(name, *found, std::string(std::string_view(value)));
      else if (!is_member(value)) fixed(name, *found, value);
      else read(name, *found, const_cast<T&>(value));  // of an object that is not const: see hyperparameters below
    }
    return *this;
  }

  /// What could not be set, and why; empty where all was.
  std::string const& differences() const { return differences_; }

 private:
  template <class T>
  bool is_member(T const& value) const {
    auto const* const at = reinterpret_cast<std::byte const*>(std::addressof(value));
    auto const* const begin = reinterpret_cast<std::byte const*>(object_);
    return !std::less<>{}(at, begin) && std::less<>{}(at, begin + sizeof(H));
  }
  template <class T>
  void read(std::string_view name, ArchiveNode const& from, T& to) {
    T now{};
    if (take(from, now)) to = std::move(now);
    else differs(name, "is " + to_text(from) + ", and " + kind<T>() + " is asked for");
  }
  template <class T>
  void fixed(std::string_view name, ArchiveNode const& from, T const& value) {
    T now{};
    if (!take(from, now) || !(now == value)) differs(name, "is " + to_text(from) + ", and here it cannot be set");
  }

  /// Whether the saved value is one of T, exactly.
  template <class T>
  static bool take(ArchiveNode const& from, T& to) {
    if constexpr (is_readable_list<T>) {
      auto const* const list = std::get_if<ArchiveNode::List>(&from.value);
      if (list == nullptr) return false;
      for (auto const& entry : *list) {
        typename T::value_type one{};
        if (!take(entry, one)) return false;
        to.push_back(std::move(one));
      }
      return true;
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
      auto const* const value = std::get_if<T>(&from.value);
      if (value) to = *value;
      return value != nullptr;
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      bool const taken = take(from, number);
      to = static_cast<T>(number);
      return taken;
    } else if constexpr (std::is_floating_point_v<T>) {
      auto const* const value = std::get_if<double>(&from.value);
      if (value == nullptr) return false;
      to = static_cast<T>(*value);
      return static_cast<double>(to) == *value || *value != *value;
    } else {
      auto const* const value = std::get_if<std::int64_t>(&from.value);
      if (value == nullptr) return false;
      to = static_cast<T>(*value);
      return static_cast<std::int64_t>(to) == *value && (sizeof(T) == sizeof *value || (to < T{}) == (*value < 0));
    }
  }
  template <class T>
  static std::string kind() {
    if constexpr (is_readable_list<T>) return "a list, each entry " + kind<typename T::value_type>() + ",";
    else if constexpr (std::is_same_v<T, bool>) return "a truth value";
    else if constexpr (std::is_same_v<T, std::string>) return "a text";
    else if constexpr (std::is_floating_point_v<T>) return sizeof(T) == sizeof(float) ? "a float" : "a double";
    else return "an integer of " + std::to_string(sizeof(T)) + " bytes";
  }
  void differs(std::string_view name, std::string const& how) {
    (((differences_ += differences_.empty() ? "'" : "; '") += name) += "' ") += how;
  }

  ArchiveNode const* saved_;
  H const* object_;
  std::string differences_{};
};

/// Whose members are set: those of H, or of its `hparams` where these declare settings and H does not.
template <class H>
constexpr auto settings_of() {
  if constexpr (
      !requires(H const& h, HyperparameterReader<H>& list) { h.hyperparameters(list); } &&
      requires(H& h) { h.hparams; })
    return std::type_identity<std::remove_cvref_t<decltype(std::declval<H&>().hparams)>>();
  else return std::type_identity<H>();
}

/// The settings of the run that has written this file, as `H` declares them for loggers, too:
///   struct Settings { double lr = 1e-3; int layers = 4; void hyperparameters(auto& list) const { list("lr",
///   lr)("layers", layers); } };
///   Net net(hyperparameters<Settings>("runs/a/last.safetensors"));
/// `H{}` has to be possible, and so has assigning one: a const member cannot be set. The file may have more names than
/// H. An Error lists all names that are missing or of another type.
template <std::default_initializable H>
H hyperparameters(std::filesystem::path const& file) {
  constexpr bool settable = std::is_move_assignable_v<typename decltype(settings_of<H>())::type>;
  static_assert(settable,
                "[fulgurite.checkpoint.hyperparameter_const] hyperparameters<H>(file) sets members of H, and H "
                "cannot be assigned: leave out its const members and references, or read a struct of settings "
                "without them");
  if constexpr (!settable) return H{};
  SafetensorsFile const opened(file);
  auto const found = opened.metadata().find("hyperparameters");
  if (found == opened.metadata().end())
    throw Error("fulgurite.checkpoint.no_hyperparameters",
                file.string() + " holds no hyper-parameters: the model that it was written with declares none (void "
                                "hyperparameters(auto& list) const), or another library wrote it");
  auto const saved = from_text(found->second, file.string() + ", hyper-parameters");
  H object{};
  HyperparameterReader<H> reader(saved, object);
  if constexpr (requires { std::as_const(object).hyperparameters(reader); })
    std::as_const(object).hyperparameters(reader);
  else if constexpr (requires { std::as_const(object).hparams.hyperparameters(reader); })
    std::as_const(object).hparams.hyperparameters(reader);
  else
    static_assert(std::is_void_v<H>, "[fulgurite.checkpoint.hyperparameters_of] hyperparameters<H>(file) asks H which "
                                     "settings it has: give it `void hyperparameters(auto& list) const`");
  if (!reader.differences().empty())
    throw Error("fulgurite.checkpoint.hyperparameters",
                "the hyper-parameters of " + file.string() + " do not fit: " + reader.differences());
  return object;
}

}  // namespace fulgurite
