#pragma once
// Loads a state as a whole or not at all, and converts the state of one object to text. Includes both archives with
// which `void state(auto& archive)` is called: the one that saves and the one that loads.

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite::archive {

// What both archives refuse. Each function is consteval, so that its sentence comes at the place of the call, before
// errors of the code that follows.

/// Does not compile unless `archive.tensor` can take a T. Returns the result, so that callers skip the code that would
/// add errors.
template <class T>
consteval bool takes_tensor() {
  constexpr bool known = ArchivedTensor<T>;
  static_assert(known, "[fulgurite.checkpoint.tensor] archive.tensor takes a tensor of a library that specialises "
                       "fulgurite::TensorState: give other values to archive(name, value)");
  return known;
}

/// Does not compile unless a T has state, or declares that it needs none.
template <class T>
consteval void require_state() {
  constexpr bool remembers = Remembers<T>;  // a bool, since the concept's own explanation would hide the sentence
  static_assert(remembers, "[fulgurite.checkpoint.no_state] an archived object needs `void state(auto& archive)`, "
                           "or `using Stateless = ByChoice;`");
}

/// Does not compile unless an archive can take a T as a value.
template <class T>
consteval void require_value() {
  static_assert(archivable<T>,
                "[fulgurite.checkpoint.value] an archive takes numbers, strings, paths, durations, tensors, "
                "optionals and vectors: give other types `void state(auto& archive)`");
}

/// True if a type has `state` and is not handled by another rule of an archive.
template <class V, class Archive>
inline constexpr bool is_object =
    Stateful<V, Archive> && !ArchivedTensor<V> && !is_scalar<V> && !is_optional<V> && !is_vector<V> && !is_array<V> &&
    !std::is_same_v<V, ArchiveNode> && !std::is_convertible_v<V const&, std::string_view>;

/// Is a value that an archive takes, or has `state`. What a list or an optional holds is not looked at.
template <class V, class Archive>
inline constexpr bool is_taken =
    Stateful<V, Archive> || ArchivedTensor<V> || is_scalar<V> || is_optional<V> || is_vector<V> || is_array<V> ||
    std::is_same_v<V, ArchiveNode> || std::is_same_v<V, std::filesystem::path> ||
    std::is_convertible_v<V const&, std::string_view>;

}  // namespace fulgurite::archive

namespace fulgurite {

// The archive that saves: `void state(auto& archive)` writes its values to a tree.

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
  /// are for callers that write the tree to a file before anything changes a tensor.
  enum class Tensors { copied, borrowed };

  explicit StateSaver(ArchiveNode& tree, std::string path = {}, Tensors tensors = Tensors::copied);

  template <class T>
  StateSaver& operator()(std::string_view name, T&& value) {
    using V = std::remove_cvref_t<T>;
    if constexpr (archive::is_scalar<V>) put_scalar(name, archive::scalar(value));
    else if constexpr (archive::is_object<V, StateSaver>) put_object(name, const_cast<V&>(std::as_const(value)));
    else if constexpr (std::is_convertible_v<V const&, std::string_view> && !ArchivedTensor<V>) put_text(name, value);
    else if constexpr (archive::is_taken<V, StateSaver>) put_value(name, std::as_const(value));
    else archive::require_value<V>();
    return *this;
  }
  /// An option that the program sets. Loading compares it and never sets it.
  StateSaver& option(std::string_view name, auto const& given) { return (*this)(name, given); }
  /// An option that a run may change, such as a learning rate: `now` is its current value, which is state.
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
  /// An object with `state`, a function that takes an archive, or an object that needs no state, for which nothing is
  /// saved.
  template <class T>
  StateSaver& child(std::string_view key, T&& object) {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (std::invocable<T&, StateSaver&>) {
      nested(key, object);
    } else if constexpr (archive::is_object<Plain, StateSaver>) {
      put_object(key, const_cast<Plain&>(std::as_const(object)));
    } else if constexpr (Stateful<Plain, StateSaver>) {
      put_value(key, std::as_const(object));
    } else {
      archive::require_state<Plain>();
    }
    return *this;
  }

 private:
  void nested(std::string_view key, FunctionRef<void(StateSaver&)> save);

  std::string full(std::string_view name) const;

  ArchiveNode& entry(std::string_view name);

  void put_scalar(std::string_view name, archive::Scalar const& value);
  static void put_scalar(ArchiveNode& node, archive::Scalar const& value);
  void put_tensor(ArchiveNode& node, SavedTensor const& tensor, std::string const& path) const;
  void put_text(std::string_view name, std::string_view text);
  static void put_text(ArchiveNode& node, std::string_view text);
  static void put_list(ArchiveNode& node, std::size_t size, std::string const& path,
                       FunctionRef<void(std::size_t, ArchiveNode&, std::string const&)> put_one);
  void put_object(ArchiveNode& node, std::string const& path, FunctionRef<void(StateSaver&)> save) const;

  void put_object(std::string_view name, auto& object) {
    nested(name, [&object](StateSaver& inner) { object.state(inner); });
  }
  void put_value(std::string_view name, auto const& value);

  template <class V>
  void put(ArchiveNode& node, V const& value, std::string const& path) {
    if constexpr (std::is_same_v<V, ArchiveNode>) node = value;
    else if constexpr (ArchivedTensor<V>) {
      put_tensor(node, TensorState<V>::save(value), path);
    } else if constexpr (archive::is_scalar<V>) put_scalar(node, archive::scalar(value));
    else if constexpr (std::is_same_v<V, std::filesystem::path>) put_text(node, value.native());
    else if constexpr (std::is_convertible_v<V const&, std::string_view>) put_text(node, value);
    else if constexpr (archive::is_optional<V>) {
      if (value) put(node, *value, path);
    } else if constexpr (archive::is_vector<V> || archive::is_array<V>) {
      put_list(node, value.size(), path, [&](std::size_t i, ArchiveNode& to, std::string const& at) {
        if constexpr (std::is_same_v<V, std::vector<bool>>) put(to, bool(value[i]), at);
        else put(to, value[i], at);
      });
    } else if constexpr (Stateful<V, StateSaver>) {
      // `state` saves and loads, so it is never const; saving changes nothing
      put_object(node, path, [&](StateSaver& inner) { const_cast<V&>(value).state(inner); });
    } else {
      archive::require_value<V>();
    }
  }
  ArchiveNode* tree_;
  std::string path_;
  Tensors tensors_;
};

void StateSaver::put_value(std::string_view name, auto const& value) { put(entry(name), value, full(name)); }

// The archive that loads: `void state(auto& archive)` gets its values from a tree, or throws an Error with the full
// name of the wrong entry.

/// Loads a state. An entry that is missing, of another type or out of range is an Error
/// [fulgurite.checkpoint.state_entry] with its full name, such as "callbacks.EarlyStopping.best". Entries before it
/// have their new values by then. `load_state` also restores these, and lets the loader continue after an entry that
/// does not fit, so that its Error lists all of them.
class StateLoader {
 public:
  static constexpr bool loading = true;
  using Problems = std::vector<Error>;
  using Commits = std::vector<std::function<void()>>;
  /// One text, with the name and both values, for each option whose value in the tree differs from the program's.
  using Differences = std::vector<std::string>;

  /// With `problems`, an entry that does not fit is left unchanged, and its Error is added to `problems`. With
  /// `commits`, functions that are passed to `commit` are added to it and not called. With `differences`, options that
  /// differ are added to it.
  explicit StateLoader(ArchiveNode const& tree, std::string path = {}, Problems* problems = nullptr,
                       Commits* commits = nullptr, Differences* differences = nullptr);
  explicit StateLoader(ArchiveNode&&, std::string = {}, Problems* = nullptr, Commits* = nullptr,
                       Differences* = nullptr) = delete;  // the tree must outlive the loader

  /// For writes that cannot fail and are costly to undo, such as to large tensors: `write()` is called when all of the
  /// state is known to fit, or at once if no caller waits for that. Tensors that are written this way are saved as
  /// handles that are `written_last()`.
  template <class Write>
  void commit(Write&& write) const {
    if (commits_ == nullptr) write();
    else commits_->push_back(std::forward<Write>(write));
  }

  bool has(std::string_view name) const { return tree_->find(name) != nullptr; }
  /// Allows unread entries here: they belong to parts that the program no longer has.
  void leave_out_others() const;
  /// The names of all entries here, in the order in which they were saved.
  std::vector<std::string> names() const;

  template <class T>
  StateLoader& operator()(std::string_view name, T&& value) {
    using V = std::remove_cvref_t<T>;
    if constexpr (archive::is_scalar<V>) {
      if (auto const read = scalar_entry(name, archive::scalar_kind<V>())) value = archive::from_scalar<V>(*read);
    } else if constexpr (archive::is_object<V, StateLoader>) {
      get_object(name, [&](StateLoader& inner) { value.state(inner); });
    } else if constexpr (archive::is_taken<V, StateLoader>) {
      get_value(name, value);
    } else {
      archive::require_value<V>();
    }
    return *this;
  }
  /// An option that the program sets: it is compared with the saved one and never set.
  StateLoader& option(std::string_view name, auto const& given) {
    is_same(name, given);
    return *this;
  }
  /// An option that a run may change. If the program's value equals the saved one, `now` becomes the saved current
  /// value; otherwise it becomes the program's value.
  template <class T>
  StateLoader& option(std::string_view name, T const& given, T& now) {
    if (is_same(name, given)) return (*this)(archive::moved_name(name), now);
    now = given;
    pass_moved(name);
    return *this;
  }
  /// The options so far, including those of children, that differ.
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
    } else if constexpr (archive::is_object<Plain, StateLoader>) {
      get_object(key, [&](StateLoader& inner) { object.state(inner); });
    } else if constexpr (Stateful<Plain, StateLoader>) {
      get_value(key, object);
    } else {
      archive::require_state<Plain>();
    }
    return *this;
  }

 private:
  /// Calls `load`, and adds its Error to the problems if these are collected.
  void note(FunctionRef<void()> load);

  /// True if the option has the same value in the tree. A missing option was saved by another version.
  bool same_option(std::string_view name, FunctionRef<void(StateSaver&)> give);
  bool same_option(std::string_view name, archive::Scalar const& given);
  template <class T>
  bool is_same(std::string_view name, T const& given) {
    if constexpr (archive::is_scalar<T>) return same_option(name, archive::scalar(given));
    else return same_option(name, [&](StateSaver& here) { here(name, given); });
  }
  /// Marks the saved current value of an option as read: the program has set the option to another value.
  void pass_moved(std::string_view option) const;

  /// nullopt if the Error was added to the problems.
  std::optional<archive::ReadScalar> scalar_entry(std::string_view name, archive::ScalarKind kind);

  void nested(std::string_view key, FunctionRef<void(StateLoader&)> load);

  std::string full(std::string_view name) const;

  ArchiveNode const& entry(std::string_view name) const;
  [[noreturn]] static void wrong(std::string const& path, std::string const& how);
  template <class T>
  static T const& as(ArchiveNode const& node, std::string const& path, char const* kind) {
    auto const* value = std::get_if<T>(&node.value);
    if (value == nullptr) wrong_kind(node, path, kind);
    return *value;
  }
  [[noreturn]] static void wrong_kind(ArchiveNode const& node, std::string const& path, char const* kind);
  static void require_size(ArchiveNode::List const& list, std::size_t size, std::string const& path);
  static void get_list(ArchiveNode::List const& list, std::string const& path,
                       FunctionRef<void(std::size_t, std::string const&)> get_one);
  void get_object(ArchiveNode const& node, std::string const& path, FunctionRef<void(StateLoader&)> load) const;
  void get_object(std::string_view name, FunctionRef<void(StateLoader&)> load);
  /// The tensor in a node. An empty SavedTensor was saved as null.
  static SavedTensor const& tensor_in(ArchiveNode const& node, std::string const& path);
  /// The beginning of a value, for messages.
  static std::string brief(ArchiveNode const& node);
  static std::string text(ArchiveNode const& node);

  static archive::ReadScalar scalar(ArchiveNode const& node, archive::ScalarKind const& kind, std::string const& path);

  void get_value(std::string_view name, auto& value);

  template <class V>
  void get(ArchiveNode const& node, V& value, std::string const& path) {
    if constexpr (std::is_same_v<V, ArchiveNode>) {  // unchanged, for callers that load it later
      value = node;
      node.read = ArchiveNode::Read::need_not;
    } else if constexpr (ArchivedTensor<V>) {
      TensorState<V>::load(value, tensor_in(node, path), path);
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
      else require_size(list, value.size(), path);
      get_list(list, path, [&](std::size_t i, std::string const& at) {
        if constexpr (std::is_same_v<V, std::vector<bool>>) value[i] = as<bool>(list[i], at, "true or false");
        else get(list[i], value[i], at);
      });
    } else if constexpr (Stateful<V, StateLoader>) {
      get_object(node, path, [&](StateLoader& inner) { value.state(inner); });
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

void StateLoader::get_value(std::string_view name, auto& value) {
  note([&] { get(entry(name), value, full(name)); });
}

// The library contains the instantiations for the types that states mostly use.
#define FULGURITE_ARCHIVED(DO, V)                                                                                      \
  DO(void StateSaver::put_value(std::string_view, V const&));                                                          \
  DO(void StateLoader::get_value(std::string_view, V&))
#define FULGURITE_ALL_ARCHIVED(DO)                                                                                     \
  FULGURITE_ARCHIVED(DO, ArchiveNode);                                                                                 \
  FULGURITE_ARCHIVED(DO, SavedTensor);                                                                                 \
  DO(void StateLoader::get_value(std::string_view, std::string&));                                                     \
  FULGURITE_ARCHIVED(DO, std::filesystem::path);                                                                       \
  FULGURITE_ARCHIVED(DO, std::optional<bool>);                                                                         \
  FULGURITE_ARCHIVED(DO, std::optional<int>);                                                                          \
  FULGURITE_ARCHIVED(DO, std::optional<long>);                                                                         \
  FULGURITE_ARCHIVED(DO, std::optional<double>);                                                                       \
  FULGURITE_ARCHIVED(DO, std::optional<std::string>);                                                                  \
  FULGURITE_ARCHIVED(DO, std::vector<bool>);                                                                           \
  FULGURITE_ARCHIVED(DO, std::vector<int>);                                                                            \
  FULGURITE_ARCHIVED(DO, std::vector<long>);                                                                           \
  FULGURITE_ARCHIVED(DO, std::vector<double>);                                                                         \
  FULGURITE_ARCHIVED(DO, std::vector<std::string>)
FULGURITE_ALL_ARCHIVED(FULGURITE_EXTERN);

// Copies of the tensors in a saved state, on their devices: a few operations of the tensor library for all of them.

/// Which tensors of a state are copied.
enum class Copied : bool {
  all,          ///< all, so that no later change affects the state
  written_soon  ///< all except those that a load writes last: for restoring the state if a load fails before that
};

/// Replaces handles by copies, those of one library together. A handle that belongs to no library is left as it is.
void copy_handles(std::span<SavedTensor* const> handles, CopyTo where);

/// Replaces handles by copies. Each library copies its own tensors at once, on their devices; for a handle that belongs
/// to no library, the bytes are fetched.
void keep_tensors(ArchiveNode& tree, Copied which = Copied::all);

// Entries of a saved state from which nothing was loaded: parts of the saved run that are missing now.

/// Whether a state may hold entries that nothing reads.
enum class Unread : bool { allowed, refused };

/// The full names of unread entries, such as "optimizers.1 SGD"; for an object that was not read at all, only its own
/// name.
std::vector<std::string> unread_entries(ArchiveNode const& node, std::string const& path = {});

/// load_state with its two functions.
void load_state_by(ArchiveNode const& tree, FunctionRef<void(StateSaver&)> save, FunctionRef<void(StateLoader&)> load,
                   Unread unread);

/// Loads all of a state, or nothing. `fold(archive)` visits the objects to load, as `state` does, and is called with a
/// saver first: if the new state turns out not to fit, the old one is restored, and one Error lists every entry that
/// does not fit. Functions that were passed to `archive.commit` are called last, when all of it fits.
///   load_state(tree, [&](auto& archive) { archive.child("early", early_stopping); });
/// With Unread::refused, an entry that neither this fold nor an earlier one of the same tree has read does not fit,
/// since the object from which it was saved is missing here.
void load_state(ArchiveNode const& tree, auto&& fold, Unread unread = Unread::allowed) {
  load_state_by(tree, fold, fold, unread);
}

/// The state of one object as text, including tensors.
std::string state_text(auto& object) {
  ArchiveNode tree;
  StateSaver saver(tree);
  object.state(saver);
  return to_text(tree);
}
/// Loads the state of one object from the text that state_text made, all of it or nothing. `source` names the text in
/// an Error.
void load_state_text(auto& object, std::string_view text, std::string source = "saved state") {
  auto const tree = from_text(text, std::move(source));
  load_state(tree, [&](auto& archive) { object.state(archive); });
}

/// Holds the values that all parts of a run save in `state(archive)`, and restores them. Tensors are copied on their
/// devices, adjacent ones in one operation.
class StateMemory {
 public:
  /// Saves by calling fold(archive).
  void save(FunctionRef<void(StateSaver&)> fold);
  /// Saves the held state to another archive.
  void add_to(StateSaver& archive) const;
  /// Saves one entry of the held state. Returns false if there is none of that name.
  bool add_to(StateSaver& archive, std::string_view name) const;
  /// Holds an entry of a state that is being loaded, for loading it later.
  void take(std::string_view name, StateLoader& archive);
  bool holds_nothing() const { return tree_.holds_nothing(); }
  /// The held state as text, including tensors, for another process; `read` takes such a text.
  std::string text() const { return to_text(tree_); }
  void read(std::string_view text) { tree_ = from_text(text, "what a rank has saved of itself"); }
  /// Calls fold(archive) with an archive that saves, and drops the result: for processes that only have to take part in
  /// a fold.
  static void visit(FunctionRef<void(StateSaver&)> fold);
  /// Loads all of it, or nothing.
  void load(auto&& fold) const { load_state(tree_, fold); }
  /// Restores the state of the same objects that were saved. All of it fits, so nothing is kept for a failure.
  void restore(FunctionRef<void(StateLoader&)> fold) const;

 private:
  ArchiveNode tree_ = {};
};

}  // namespace fulgurite

// Follows the definition of a class's `state(auto& archive)` in a body file: the library instantiates it for both
// archives.
#if defined(FULGURITE_COMPILED)
#define FULGURITE_STATE(...)                                                                                           \
  template void __VA_ARGS__::state(::fulgurite::StateSaver&);                                                          \
  template void __VA_ARGS__::state(::fulgurite::StateLoader&);
#else
#define FULGURITE_STATE(...)
#endif

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/archive.ipp>
#endif
