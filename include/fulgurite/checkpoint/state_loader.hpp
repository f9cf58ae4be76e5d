#pragma once
// The archive that loads: `void state(auto& archive)` gets its values from a tree, or throws an Error with the full
// name of the entry at fault.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/archive_refusals.hpp>
#include <fulgurite/checkpoint/archive_text.hpp>
#include <fulgurite/checkpoint/archive_values.hpp>
#include <fulgurite/checkpoint/state_saver.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

/// Loads a state. An entry that is missing, of another type or out of range is an Error
/// [fulgurite.checkpoint.state_entry] with its full name, such as "callbacks.EarlyStopping.best". Entries before it
/// have their new values by then; `load_state` restores these, too, and lets the loader go on after an entry that does
/// not fit, so that its Error tells of all of them.
class StateLoader {
 public:
  static constexpr bool loading = true;
  using Problems = std::vector<Error>;
  using Commits = std::vector<std::function<void()>>;
  /// Of options whose value in the tree is not the program's: name and both values.
  using Differences = std::vector<std::string>;

  /// With `problems`, an entry that does not fit is left as it is, and what is wrong with it is added to them. With
  /// `commits`, what `commit` is given waits in there. With `differences`, options that differ are added to them.
  explicit StateLoader(ArchiveNode const& tree, std::string path = {}, Problems* problems = nullptr,
                       Commits* commits = nullptr, Differences* differences = nullptr)
      : tree_(&tree), path_(std::move(path)), problems_(problems), commits_(commits), differences_(differences) {}
  explicit StateLoader(ArchiveNode&&, std::string = {}, Problems* = nullptr, Commits* = nullptr,
                       Differences* = nullptr) = delete;  // the tree must outlive it

  /// For what cannot fail and is costly to undo, such as writing to large tensors: `write()` is called when all of the
  /// state has been found to fit, or at once where nobody waits for that. Tensors so written are saved as handles that
  /// are `written_last()`.
  template <class Write>
  void commit(Write&& write) const {
    if (commits_ == nullptr) write();
    else commits_->push_back(std::forward<Write>(write));
  }

  bool has(std::string_view name) const { return tree_->find(name) != nullptr; }
  /// Entries here that are not asked for may be left out: they belong to parts that the program has no more.
  FULGURITE_COLD void leave_out_others() const {
    if (auto const* entries = std::get_if<ArchiveNode::Object>(&tree_->value))
      for (auto const& [name, node] : *entries)
        if (node.read == ArchiveNode::Read::no) node.read = ArchiveNode::Read::need_not;
  }
  /// The names of all entries here, in the order in which they were saved.
  FULGURITE_COLD std::vector<std::string> names() const {
    std::vector<std::string> all;
    if (auto const* entries = std::get_if<ArchiveNode::Object>(&tree_->value))
      for (auto const& [name, node] : *entries) all.push_back(name);
    return all;
  }

  template <class T>
  StateLoader& operator()(std::string_view name, T&& value) {
    using V = std::remove_cvref_t<T>;
    if constexpr (archive::is_scalar<V>) {
      if (auto const read = scalar_entry(name, archive::scalar_kind<V>())) value = archive::from_scalar<V>(*read);
    } else {
      note([&] { get(entry(name), value, full(name)); });
    }
    return *this;
  }
  /// An option that the program gives: it is compared with the saved one and never set.
  template <class T>
  StateLoader& option(std::string_view name, T const& given) {
    same_option(name, [&](StateSaver& here) { here(name, given); });
    return *this;
  }
  /// An option that a run may move. Where the program gives the same as before, `now` is what was saved, else what the
  /// program gives.
  template <class T>
  StateLoader& option(std::string_view name, T const& given, T& now) {
    auto const moved = archive::moved_name(name);
    if (same_option(name, [&](StateSaver& here) { here(name, given); })) return (*this)(moved, now);
    now = given;
    if (auto const* const passed = tree_->find(moved)) passed->read = ArchiveNode::Read::need_not;
    return *this;
  }
  /// The options so far, also of children, that differ.
  Differences differences() const { return differences_ ? *differences_ : Differences(); }

  /// A value that is a tensor.
  template <class T>
  StateLoader& tensor(std::string_view name, T&& value) {
    if constexpr (archive::takes_tensor<std::remove_cvref_t<T>>()) (*this)(name, value);
    return *this;
  }
  template <class T>
  StateLoader& child(std::string_view key, T&& object) {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (std::invocable<T&, StateLoader&>) {
      nested(key, object);
    } else if constexpr (Stateful<Plain, StateLoader>) {
      note([&] { get(entry(key), object, full(key)); });
    } else {
      archive::require_state<Plain>();
    }
    return *this;
  }

 private:
  /// Does `load`, and keeps what an Error says where that is wanted.
  FULGURITE_COLD void note(FunctionRef<void()> load) {
    if (problems_ == nullptr) return load();
    try {
      load();
    } catch (Error const& error) { problems_->push_back(error); }
  }

  /// Whether the option has the same value in the tree. One that is not there was saved by another version.
  FULGURITE_COLD bool same_option(std::string_view name, FunctionRef<void(StateSaver&)> give) {
    auto const* const found = tree_->find(name);
    if (found == nullptr) return false;
    found->read = ArchiveNode::Read::need_not;
    ArchiveNode given;
    StateSaver saver(given);
    give(saver);
    auto const there = text(*found), here = text(*given.find(name));
    if (there == here) return true;
    auto const said = [](std::string const& value) { return value == "null" ? "not given" : value.substr(0, 40); };
    if (differences_)
      differences_->push_back("'" + full(name) + "' is " + said(there) + " in the file and " + said(here) +
                              " in the program");
    return false;
  }

  /// Nothing where what is wrong was noted.
  FULGURITE_COLD std::optional<archive::ReadScalar> scalar_entry(std::string_view name, archive::ScalarKind kind) {
    std::optional<archive::ReadScalar> read;
    note([&] { read = scalar(entry(name), kind, full(name)); });
    return read;
  }

  FULGURITE_COLD void nested(std::string_view key, FunctionRef<void(StateLoader&)> load) {
    note([&] {
      StateLoader inner(entry(key), full(key), problems_, commits_, differences_);
      load(inner);
    });
  }

  std::string full(std::string_view name) const { return path_ + (path_.empty() ? "" : ".") + std::string(name); }

  FULGURITE_COLD ArchiveNode const& entry(std::string_view name) const {
    auto const* found = tree_->find(name);
    if (found == nullptr)
      wrong(full(name),
            "is not in the saved state: resume with the parts that it was saved of, or begin a new run with "
            "its weights, load_weights(model, file)");
    found->read = ArchiveNode::Read::yes;
    return *found;
  }
  [[noreturn]] static void wrong(std::string const& path, std::string const& how) {
    throw Error("fulgurite.checkpoint.state_entry", "'" + path + "' " + how);
  }
  template <class T>
  static T const& as(ArchiveNode const& node, std::string const& path, char const* kind) {
    auto const* value = std::get_if<T>(&node.value);
    if (value == nullptr) wrong(path, std::string("should be ") + kind + ", but is " + brief(node));
    return *value;
  }
  /// The beginning of a value, for messages.
  static std::string brief(ArchiveNode const& node) { return text(node).substr(0, 40); }
  static std::string text(ArchiveNode const& node) {
    return to_text(node, [](ArchiveTensor const& t) { return "the tensor " + t.tensor.description(); });
  }

  FULGURITE_COLD static archive::ReadScalar scalar(ArchiveNode const& node, archive::ScalarKind const& kind,
                                                   std::string const& path) {
    if (kind.sort == archive::ScalarKind::truth) return {as<bool>(node, path, "true or false")};
    if (kind.sort == archive::ScalarKind::real) return {0, as<double>(node, path, "a floating-point number")};
    auto const* const large = std::get_if<std::uint64_t>(&node.value);
    auto const number = large ? 0 : as<std::int64_t>(node, path, "an integer");
    auto const bits = large ? *large : static_cast<std::uint64_t>(number);
    if (large || number >= 0 ? bits > kind.most : number < kind.least) wrong(path, "does not fit: " + brief(node));
    return {bits};
  }

  template <class V>
  void get(ArchiveNode const& node, V& value, std::string const& path) {
    if constexpr (std::is_same_v<V, ArchiveNode>) {  // as it is, for who loads it later
      value = node;
      node.read = ArchiveNode::Read::need_not;
    } else if constexpr (ArchivedTensor<V>) {
      // A tensor that is none at all was saved as null.
      if (std::holds_alternative<std::monostate>(node.value)) TensorState<V>::load(value, {}, path);
      else TensorState<V>::load(value, as<ArchiveTensor>(node, path, "a tensor").tensor, path);
    } else if constexpr (archive::is_scalar<V>)
      value = archive::from_scalar<V>(scalar(node, archive::scalar_kind<V>(), path));
    else if constexpr (std::is_same_v<V, std::string> || std::is_same_v<V, std::filesystem::path>)
      value = as<std::string>(node, path, "a string");
    else if constexpr (archive::is_optional<V>) {
      if (std::holds_alternative<std::monostate>(node.value)) value.reset();
      else if (value) get(node, *value, path);
      else {
        typename V::value_type fresh{};
        get(node, fresh, path);
        value = std::move(fresh);
      }
    } else if constexpr (archive::is_vector<V> || archive::is_array<V>) {
      auto const& list = as<ArchiveNode::List>(node, path, "a list");
      if constexpr (archive::is_vector<V>) value.resize(list.size());
      else if (list.size() != value.size())
        wrong(path,
              "should have " + std::to_string(value.size()) + " elements, but has " + std::to_string(list.size()));
      for (std::size_t i = 0; i != list.size(); ++i) {
        auto const at = path + "[" + std::to_string(i) + "]";
        if constexpr (std::is_same_v<V, std::vector<bool>>) value[i] = as<bool>(list[i], at, "true or false");
        else get(list[i], value[i], at);
      }
    } else if constexpr (Stateful<V, StateLoader>) {
      as<ArchiveNode::Object>(node, path, "an object");
      StateLoader inner(node, path, problems_, commits_, differences_);
      value.state(inner);
    } else {
      archive::require_value<V>();
    }
  }

  ArchiveNode const* tree_;
  std::string path_;
  Problems* problems_;
  Commits* commits_;
  Differences* differences_;
};

}  // namespace fulgurite
