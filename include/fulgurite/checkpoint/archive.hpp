#pragma once
// The two archives behind `void state(auto& archive)`: one takes values into a tree, the other gives them back.

#include <array>
#include <chrono>
#include <concepts>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

namespace archive {
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_duration = false;
template <class R, class P>
inline constexpr bool is_duration<std::chrono::duration<R, P>> = true;
template <class V>
inline constexpr bool archivable = false;
}  // namespace archive

/// Takes the state of objects into a tree:  ArchiveNode tree;  StateSaver saver(tree);  saver.child("early", early_stopping);
/// Values: bool, integers, enumerations, float, double, std::string, path, durations (their count), whatever has `state`, and
/// std::optional, std::vector and std::array of those. A name used twice, or starting with '$', is an Error.
class StateSaver {
 public:
  static constexpr bool loading = false;

  explicit StateSaver(ArchiveNode& tree, std::string path = {}) : tree_(&tree), path_(std::move(path)) {
    if (!std::holds_alternative<ArchiveNode::Object>(tree.value)) tree.value = ArchiveNode::Object{};
  }

  template <class T>
  StateSaver& operator()(std::string_view name, T&& value) {
    put(entry(name), value, full(name));
    return *this;
  }
  /// An object with `state`, a function that takes an archive, or one that needs no state and leaves no trace.
  template <class T>
  StateSaver& child(std::string_view key, T&& object) {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (std::invocable<T&, StateSaver&>) {
      StateSaver inner(entry(key), full(key));
      object(inner);
    } else if constexpr (Stateful<Plain, StateSaver>) {
      put(entry(key), object, full(key));
    } else {
      constexpr bool remembers = Remembers<Plain>;  // a bool: the concept's own explanation would bury the sentence
      static_assert(remembers, "[fulgurite.checkpoint.no_state] an archived object needs `void state(auto& archive)`, or `using Stateless = ByChoice;`");
    }
    return *this;
  }

 private:
  std::string full(std::string_view name) const { return path_.empty() ? std::string(name) : path_ + "." + std::string(name); }

  ArchiveNode& entry(std::string_view name) {
    if (tree_->find(name) != nullptr) throw Error("fulgurite.checkpoint.state_name", "'" + full(name) + "' is saved twice: give each value its own name");
    if (name.starts_with('$')) throw Error("fulgurite.checkpoint.state_name", "'" + full(name) + "': a name must not start with '$'");
    return std::get<ArchiveNode::Object>(tree_->value).emplace_back(ArchiveEntry{std::string(name), {}}).node;
  }

  template <class T>
  static void put(ArchiveNode& node, T& value, std::string const& path) {
    using V = std::remove_const_t<T>;
    if constexpr (std::is_same_v<V, bool>) node.value = value;
    else if constexpr (std::is_enum_v<V>) put(node, static_cast<std::underlying_type_t<V>>(value), path);
    else if constexpr (std::signed_integral<V>) node.value = static_cast<std::int64_t>(value);
    else if constexpr (std::unsigned_integral<V>) {
      auto const wide = static_cast<std::uint64_t>(value);
      if (std::in_range<std::int64_t>(wide)) node.value = static_cast<std::int64_t>(wide);
      else node.value = wide;
    } else if constexpr (std::is_same_v<V, float> || std::is_same_v<V, double>) node.value = static_cast<double>(value);
    else if constexpr (std::is_same_v<V, std::filesystem::path>) node.value = value.native();
    else if constexpr (std::is_convertible_v<V const&, std::string_view>) node.value = std::string(std::string_view(value));
    else if constexpr (archive::is_duration<V>) put(node, value.count(), path);
    else if constexpr (archive::is_optional<V>) {
      node.value = std::monostate{};
      if (value) put(node, *value, path);
    } else if constexpr (archive::is_vector<V> || archive::is_array<V>) {
      ArchiveNode::List list;
      for (std::size_t i = 0; i != value.size(); ++i) {
        auto const at = path + "[" + std::to_string(i) + "]";
        if constexpr (std::is_same_v<V, std::vector<bool>>) put(list.emplace_back(), bool(value[i]), at);
        else put(list.emplace_back(), value[i], at);
      }
      node.value = std::move(list);
    } else if constexpr (Stateful<V, StateSaver>) {
      StateSaver inner(node, path);
      const_cast<V&>(value).state(inner);  // `state` saves and loads, so it is never const; saving changes nothing
    } else {
      static_assert(archive::archivable<V>, "[fulgurite.checkpoint.value] an archive takes numbers, strings, paths, durations, optionals, vectors, and what has `state`");
    }
  }
  template <class T>
  static void put(ArchiveNode& node, T&& value, std::string const& path) {
    put(node, std::as_const(value), path);
  }

  ArchiveNode* tree_;
  std::string path_;
};

/// Gives the state back. A missing, mistyped or out-of-range entry is an Error [fulgurite.checkpoint.state_entry] with its full
/// name ("callbacks.EarlyStopping.best"); the object keeps what it had in that entry.
class StateLoader {
 public:
  static constexpr bool loading = true;

  explicit StateLoader(ArchiveNode const& tree, std::string path = {}) : tree_(&tree), path_(std::move(path)) {}
  explicit StateLoader(ArchiveNode&&, std::string = {}) = delete;  // the tree must outlive the loader

  bool has(std::string_view name) const { return tree_->find(name) != nullptr; }

  template <class T>
  StateLoader& operator()(std::string_view name, T&& value) {
    get(entry(name), value, full(name));
    return *this;
  }
  template <class T>
  StateLoader& child(std::string_view key, T&& object) {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (std::invocable<T&, StateLoader&>) {
      StateLoader inner(entry(key), full(key));
      object(inner);
    } else if constexpr (Stateful<Plain, StateLoader>) {
      get(entry(key), object, full(key));
    } else {
      constexpr bool remembers = Remembers<Plain>;  // a bool: the concept's own explanation would bury the sentence
      static_assert(remembers, "[fulgurite.checkpoint.no_state] an archived object needs `void state(auto& archive)`, or `using Stateless = ByChoice;`");
    }
    return *this;
  }

 private:
  std::string full(std::string_view name) const { return path_.empty() ? std::string(name) : path_ + "." + std::string(name); }

  ArchiveNode const& entry(std::string_view name) const {
    auto const* found = tree_->find(name);
    if (found == nullptr) wrong(full(name), "is not in the saved state: it was saved by another version or another set of callbacks");
    return *found;
  }
  [[noreturn]] static void wrong(std::string const& path, std::string const& how) {
    throw Error("fulgurite.checkpoint.state_entry", "'" + path + "' " + how);
  }
  template <class T>
  static T const& as(ArchiveNode const& node, std::string const& path, char const* kind) {
    auto const* value = std::get_if<T>(&node.value);
    if (value == nullptr) wrong(path, std::string("should be ") + kind + ", but is " + to_text(node).substr(0, 40));
    return *value;
  }

  template <class V>
  static void get(ArchiveNode const& node, V& value, std::string const& path) {
    if constexpr (std::is_same_v<V, bool>) value = as<bool>(node, path, "true or false");
    else if constexpr (std::is_enum_v<V>) {
      auto number = static_cast<std::underlying_type_t<V>>(value);
      get(node, number, path);
      value = static_cast<V>(number);
    } else if constexpr (std::integral<V>) {
      auto const narrow = [&](auto wide) {
        if (!std::in_range<V>(wide)) wrong(path, "does not fit: " + to_text(node));
        value = static_cast<V>(wide);
      };
      if (auto const* large = std::get_if<std::uint64_t>(&node.value)) narrow(*large);
      else narrow(as<std::int64_t>(node, path, "an integer"));
    } else if constexpr (std::is_same_v<V, float> || std::is_same_v<V, double>)
      value = static_cast<V>(as<double>(node, path, "a floating-point number"));
    else if constexpr (std::is_same_v<V, std::string> || std::is_same_v<V, std::filesystem::path>)
      value = as<std::string>(node, path, "a string");
    else if constexpr (archive::is_duration<V>) {
      auto count = value.count();
      get(node, count, path);
      value = V(count);
    } else if constexpr (archive::is_optional<V>) {
      if (std::holds_alternative<std::monostate>(node.value)) value.reset();
      else get(node, value.emplace(), path);
    } else if constexpr (archive::is_vector<V> || archive::is_array<V>) {
      auto const& list = as<ArchiveNode::List>(node, path, "a list");
      if constexpr (archive::is_vector<V>) value.resize(list.size());
      else if (list.size() != value.size()) wrong(path, "should have " + std::to_string(value.size()) + " elements, but has " + std::to_string(list.size()));
      for (std::size_t i = 0; i != list.size(); ++i) {
        auto const at = path + "[" + std::to_string(i) + "]";
        if constexpr (std::is_same_v<V, std::vector<bool>>) value[i] = as<bool>(list[i], at, "true or false");
        else get(list[i], value[i], at);
      }
    } else if constexpr (Stateful<V, StateLoader>) {
      as<ArchiveNode::Object>(node, path, "an object");
      StateLoader inner(node, path);
      value.state(inner);
    } else {
      static_assert(archive::archivable<V>, "[fulgurite.checkpoint.value] an archive takes numbers, strings, paths, durations, optionals, vectors, and what has `state`");
    }
  }

  ArchiveNode const* tree_;
  std::string path_;
};

/// The state of one object as text, and back: what a checkpoint's metadata holds.
template <class T>
std::string state_text(T& object) {
  ArchiveNode tree;
  StateSaver saver(tree);
  object.state(saver);
  return to_text(tree);
}
template <class T>
void load_state_text(T& object, std::string_view text, std::string source = "saved state") {
  auto const tree = from_text(text, std::move(source));
  StateLoader loader(tree);
  object.state(loader);
}

}  // namespace fulgurite
