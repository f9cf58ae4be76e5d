#pragma once
// The archive that loads: `void state(auto& archive)` gets its values back from a tree, or an Error with their full name.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/archive_values.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

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
      static_assert(remembers,
                    "[fulgurite.checkpoint.no_state] an archived object needs `void state(auto& archive)`, or `using Stateless = ByChoice;`");
    }
    return *this;
  }

 private:
  std::string full(std::string_view name) const { return path_ + (path_.empty() ? "" : ".") + std::string(name); }

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
      else if (list.size() != value.size())
        wrong(path, "should have " + std::to_string(value.size()) + " elements, but has " + std::to_string(list.size()));
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
      static_assert(archive::archivable<V>,
                    "[fulgurite.checkpoint.value] an archive takes numbers, strings, paths, durations, optionals and vectors: give other types `void state(auto& archive)`");
    }
  }

  ArchiveNode const* tree_;
  std::string path_;
};

}  // namespace fulgurite
