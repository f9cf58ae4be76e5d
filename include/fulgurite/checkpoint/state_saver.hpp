#pragma once
// The archive that saves: `void state(auto& archive)` puts its values into a tree.

#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <fulgurite/checkpoint/archive_refusals.hpp>
#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/archive_values.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

/// Saves the state of objects into a tree:
///   ArchiveNode tree;
///   StateSaver saver(tree);
///   saver.child("early", early_stopping);
/// Values may be bool, integers, enumerations, float, double, std::string, paths, durations (their count), objects that
/// have `state`, and std::optional, std::vector and std::array of those; also tensors of a library that specialises
/// TensorState, by `archive(name, tensor)` or `archive.tensor(name, tensor)`. A name that is used twice or begins with
/// '$' is an Error.
class StateSaver {
 public:
  static constexpr bool loading = false;
  /// Whether the tree gets copies of the tensors' bytes, or handles that fetch the bytes when they are read. Handles
  /// are for whoever writes the tree to a file before anything changes a tensor.
  enum class Tensors { copied, borrowed };

  explicit StateSaver(ArchiveNode& tree, std::string path = {}, Tensors tensors = Tensors::copied)
      : tree_(&tree), path_(std::move(path)), tensors_(tensors) {
    if (!std::holds_alternative<ArchiveNode::Object>(tree.value)) tree.value = ArchiveNode::Object{};
  }

  template <class T>
  StateSaver& operator()(std::string_view name, T&& value) {
    using V = std::remove_cvref_t<T>;
    if constexpr (archive::is_scalar<V>) put_scalar(entry(name), archive::scalar(value));
    else put(entry(name), value, full(name));
    return *this;
  }
  /// An option that the program gives. Loading compares it and never sets it.
  template <class T>
  StateSaver& option(std::string_view name, T const& given) {
    return (*this)(name, given);
  }
  /// An option that a run may move, such as a learning rate: `now` is its present value, which is state.
  template <class T>
  StateSaver& option(std::string_view name, T const& given, T& now) {
    return (*this)(name, given)(archive::moved_name(name), now);
  }
  /// A value that is a tensor.
  template <class T>
  StateSaver& tensor(std::string_view name, T&& value) {
    if constexpr (archive::takes_tensor<std::remove_cvref_t<T>>()) (*this)(name, value);
    return *this;
  }
  /// An object with `state`, a function that takes an archive, or one that needs no state and leaves no trace.
  template <class T>
  StateSaver& child(std::string_view key, T&& object) {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (std::invocable<T&, StateSaver&>) {
      nested(key, object);
    } else if constexpr (Stateful<Plain, StateSaver>) {
      put(entry(key), object, full(key));
    } else {
      archive::require_state<Plain>();
    }
    return *this;
  }

 private:
  FULGURITE_COLD void nested(std::string_view key, FunctionRef<void(StateSaver&)> save) {
    StateSaver inner(entry(key), full(key), tensors_);
    save(inner);
  }

  std::string full(std::string_view name) const { return path_ + (path_.empty() ? "" : ".") + std::string(name); }

  FULGURITE_COLD ArchiveNode& entry(std::string_view name) {
    auto const refuse = [&](char const* why) {
      throw Error("fulgurite.checkpoint.state_name", std::string("'").append(full(name)) + "'" + why);
    };
    if (name.starts_with('$')) refuse(": a name must not start with '$'");
    auto* const made = std::get<ArchiveNode::Object>(tree_->value).add(name);
    if (made == nullptr) refuse(" is saved twice: give each value its own name");
    return *made;
  }

  FULGURITE_COLD static void put_scalar(ArchiveNode& node, archive::Scalar const& value) {
    std::visit([&](auto number) { node.value = number; }, value);
  }
  FULGURITE_COLD static void put_text(ArchiveNode& node, std::string_view text) { node.value = std::string(text); }

  template <class T>
  void put(ArchiveNode& node, T& value, std::string const& path) {
    using V = std::remove_const_t<T>;
    if constexpr (std::is_same_v<V, ArchiveNode>) node = value;
    else if constexpr (ArchivedTensor<V>) {
      SavedTensor const handle = TensorState<V>::save(value);
      if (handle) node.value = ArchiveTensor{path, tensors_ == Tensors::copied ? handle.owned() : handle};
    } else if constexpr (archive::is_scalar<V>) put_scalar(node, archive::scalar(value));
    else if constexpr (std::is_same_v<V, std::filesystem::path>) put_text(node, value.native());
    else if constexpr (std::is_convertible_v<V const&, std::string_view>) put_text(node, value);
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
      StateSaver inner(node, path, tensors_);
      const_cast<V&>(value).state(inner);  // `state` saves and loads, so it is never const; saving changes nothing
    } else {
      archive::require_value<V>();
    }
  }
  template <class T>
  void put(ArchiveNode& node, T&& value, std::string const& path) {
    put(node, std::as_const(value), path);
  }

  ArchiveNode* tree_;
  std::string path_;
  Tensors tensors_;
};

}  // namespace fulgurite
