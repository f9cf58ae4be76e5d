#pragma once
// A file with the weights of a model and the state of its run, in the safetensors format. The state is text in the
// file's metadata; its tensors are stored with the weights, under names with a prefix. Python reads only the weights by
//   weights = {n: t for n, t in safetensors.torch.load_file(path).items() if not n.startswith("fulgurite:")}

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite {

// The parts from which a run was assembled, as its files list them: their names, and one short fingerprint of them and
// of the layout of the weights.

/// The entry of the state that lists the parts: an object of lists of names, by kind.
inline constexpr char const* assembly_key = "assembly";
/// The entry of the metadata with the fingerprint.
inline constexpr char const* fingerprint_key = "fulgurite.fingerprint";

/// Sixteen hexadecimal digits, computed from the parts of the run that `state` lists, and from the names, element types
/// and shapes of the weights. Two files have the same fingerprint if the same program wrote them, at whatever point of
/// a run.
std::string fingerprint(ArchiveNode const& state, std::vector<safetensors::Entry> const& tensors);

// The hyper-parameters of a run as text in the metadata of its files.

/// The entry of the metadata with the hyper-parameters, if a run has any.
inline constexpr char const* hyperparameters_key = "hyperparameters";

/// `{"lr":0.001,"layers":4,"optimizer":"adam"}`, in the order of declaration, in the notation of saved state: a number
/// that is not an integer has a point or an exponent, and a value that JSON lacks is an object ("$bits", "$bytes").
std::string hyperparameter_text(std::span<Hyperparameter const> all);

/// The entry of the metadata with the state.
inline constexpr char const* run_state_key = "fulgurite";
/// The entry with the version of this library's format, and the version that it writes and reads.
inline constexpr char const* run_format_key = "fulgurite.format";
/// A file of another version is refused when it is read.
inline constexpr char const* run_format = "2";

/// Writes such a file; `Backend::save` calls it. `each_weight(f)` passes the weights to `f`, `fold(archive)` saves the
/// state of the run. Tensors of the state are written one by one after the weights, so nothing may change them until
/// this returns.
///   save_run_file(path, [&](auto&& f) { each_weight(model, f); }, fold);
void save_run_file(std::filesystem::path const& path, EachWeight each_weight, FunctionRef<void(StateSaver&)> fold,
                   std::span<Hyperparameter const> hyperparameters = {});
/// With other metadata, too.
void save_run_file(std::filesystem::path const& path, EachWeight each_weight, FunctionRef<void(StateSaver&)> fold,
                   std::span<Hyperparameter const> hyperparameters, Metadata metadata,
                   std::uint64_t longest = safetensors::longest_header);

/// Reads the state from a file, with all its tensors, for `load_state`. Nothing in the file is trusted: check_run_file
/// first checks all of it, including the weights.
ArchiveNode run_state(SafetensorsFile const& file);
/// Reads the state from a file, as run_state does; an empty tree if the file holds only weights.
ArchiveNode run_state_if_any(SafetensorsFile const& file);

// The state of a run's data module, read from one of the run's files: another program needs it to encode rows as in
// training.

/// The entry of a run's state for the data module.
inline constexpr char const* data_module_key = "data_module";
/// The entry of a run's state for the model.
inline constexpr char const* model_key = "model";

/// The state in a run's file, with or without the values of its tensors; empty if the file holds only weights, or was
/// written by another version or another library.
ArchiveNode state_beside_weights(SafetensorsFile const& file, bool with_tensors);
/// The names of the values that one part of a run has saved.
std::vector<std::string> entries_of(ArchiveNode const& state, char const* part);

/// The state in a run's file, for the part of the data module. Throws the errors of run_state, and
/// [fulgurite.checkpoint.no_data_state] if the file has no data module.
ArchiveNode state_with_data(SafetensorsFile const& file);

/// Loads the saved state of a run's data module into a new object, which reads it by its own `state(archive)`:
///   auto houses = data_state<data::TableInputs>("runs/a/last.safetensors");
///   auto words = data_state<data::Vocabulary>("runs/b/last.safetensors");
/// The data with which the run was trained is not needed. Entries that `T` does not read are skipped.
template <std::default_initializable T>
T data_state(std::filesystem::path const& file) {
  auto const tree = state_with_data(SafetensorsFile(file));
  T object{};
  load_state(tree, [&](auto& archive) { archive.child(data_module_key, object); });
  return object;
}

/// Receives the name, element type and shape of a weight.
using TakeShape = FunctionRef<void(std::string_view name, std::string_view dtype, std::vector<std::int64_t> shape)>;
/// Describes in which parts a program differs from the one that wrote a file; empty if in none, or if the file does not
/// list the parts of its run. `each_shape(f)` calls f(name, dtype, shape) for each weight of the program,
/// `fold(archive)` saves the program's list of parts.
std::string assembly_difference(SafetensorsFile const& file, ArchiveNode const& state,
                                FunctionRef<void(TakeShape)> each_shape, FunctionRef<void(StateSaver&)> fold);

// The settings of a run, read from one of its files.

/// True for lists whose entries can be set from a file.
template <class T>
inline constexpr bool is_readable_list = false;
template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, std::string>)
inline constexpr bool is_readable_list<std::vector<T>> = true;

/// Takes the place of the list in an object's function `hyperparameters(list)`, and sets the members that it names to
/// the values in a file. A named value outside of the object, such as a string literal or a static constant, cannot be
/// set, and must equal the value in the file.
template <class H>
class HyperparameterReader {
 public:
  HyperparameterReader(ArchiveNode const& saved, H& object) : saved_(&saved), object_(&object) {}

  template <class V>
  HyperparameterReader& operator()(std::string_view name, V&& value) {
    using T = std::remove_cvref_t<V>;
    constexpr bool text = std::is_same_v<T, std::string> || std::is_array_v<T>;
    constexpr bool one = std::is_arithmetic_v<T> || std::is_enum_v<T> || text;
    constexpr bool readable = std::is_lvalue_reference_v<V> && (one || is_readable_list<T> || is_optional<T>);
    static_assert(readable, "[fulgurite.checkpoint.hyperparameter_member] hyperparameters<H>(file) sets members of H, "
                            "and this is a temporary, or no number, truth value, enum, std::string or std::vector or "
                            "std::optional of these: name the member itself");
    if constexpr (readable) {
      auto const* const found = saved_->find(name);
      if (found == nullptr) absent(name, value);
      else if constexpr (std::is_array_v<T>) fixed(name, *found, std::string(std::string_view(value)));
      else if (!is_member(value)) fixed(name, *found, value);
      else read(name, *found, const_cast<T&>(value));  // the object is not const: see hyperparameters below
    }
    return *this;
  }

  /// The values that could not be set, and why; empty if all were set.
  std::string const& differences() const { return differences_; }

 private:
  bool is_member(auto const& value) const {
    auto const* const at = reinterpret_cast<std::byte const*>(std::addressof(value));
    auto const* const begin = reinterpret_cast<std::byte const*>(object_);
    return !std::less<>{}(at, begin) && std::less<>{}(at, begin + sizeof(H));
  }
  /// An empty std::optional is not in the file; everything else is.
  template <class T>
  void absent(std::string_view name, T const& value) {
    if constexpr (!is_optional<T>) differs(name, "is not there");
    else if (is_member(value)) const_cast<T&>(value).reset();
    else if (value) differs(name, "is not there, and here it cannot be set");
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

  /// Sets `to` and returns true if the saved value can be represented exactly as a T.
  template <class T>
  static bool take(ArchiveNode const& from, T& to) {
    if constexpr (is_optional<T>) {
      return take(from, to.emplace());
    } else if constexpr (is_readable_list<T>) {
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
    if constexpr (is_optional<T>) return kind<typename T::value_type>();
    else if constexpr (is_readable_list<T>) return "a list, each entry " + kind<typename T::value_type>() + ",";
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

/// The type whose members are set: H, or that of its `hparams` if those declare settings and H does not.
template <class H>
constexpr auto settings_of() {
  if constexpr (
      !requires(H const& h, HyperparameterReader<H>& list) { h.hyperparameters(list); } &&
      requires(H& h) { h.hparams; })
    return std::type_identity<std::remove_cvref_t<decltype(std::declval<H&>().hparams)>>();
  else return std::type_identity<H>();
}

/// Reads the settings of the run that wrote this file, as `H` also declares them for loggers:
///   struct Settings {
///     double lr = 1e-3;
///     int layers = 4;
///     void hyperparameters(auto& list) const { list("lr", lr)("layers", layers); }
///   };
///   Net net(hyperparameters<Settings>("runs/a/last.safetensors"));
/// `H{}` must be valid and assignable: a const member cannot be set. The file may have more names than H. The Error
/// [fulgurite.checkpoint.hyperparameters] lists all names that are missing or of another type.
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

// Writes the files of a run on a separate thread, while the run continues.

// A copy of everything that a run's file will hold: it can be written while the run continues.

/// A copy of the weights and of the state of a run. The next copy uses its memory again.
class RunImage {
 public:
  RunImage();
  FULGURITE_MOVES(RunImage);

  /// Makes the copy; the arguments are those of save_run_file.
  void take(EachWeight each_weight, FunctionRef<void(StateSaver&)> fold,
            std::span<Hyperparameter const> hyperparameters);

  /// Writes the file, durably. Any thread may call it; `take` and `rename` must not be called until it returns.
  void write(std::filesystem::path const& path) const;

  /// Replaces `from` by `to` in the state: a file got another name after the copy was made.
  void rename(std::filesystem::path const& from, std::filesystem::path const& to);

 private:
  struct Part {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
  };

  ArchiveNode tree_;
  std::vector<Hyperparameter> hyperparameters_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::byte>>
      memory_;  ///< memory of each part; kept from the previous copy if the size is the same
};

/// One copy of a run, and the files that are written from it. Call `plan` for each file, then `start`, and `wait` when
/// it is `done`. Afterwards `write` gives the result of each file, and `remove` and `let_go` delete the files that they
/// displace. Only the owning thread may call these.
class BackgroundWriter : Pinned {
 public:
  BackgroundWriter();
  ~BackgroundWriter();

  /// The copy that is written next. It may be changed while no write is in progress.
  RunImage& image() { return image_; }

  /// Adds a file to be written, after the earlier ones. `is_new`: if such a file exists by then, it is left unchanged.
  void plan(std::filesystem::path const& file, bool is_new);
  void start();
  bool done() const { return done_.load(std::memory_order_acquire); }
  void wait();

  /// The result of a planned file, once: returns if it was written, and otherwise throws what was thrown then. A file
  /// that was not planned, or not reached, is written now.
  void write(std::filesystem::path const& path);
  /// Removes a file's name at once; returns true if the file existed. Freeing the space of a large file takes longer
  /// than copying it in memory: `let_go` makes the other thread do that.
  bool remove(std::filesystem::path const& path);
  void let_go();
  /// Clears the list of files.
  void clear();

 private:
  struct File {
    std::filesystem::path path;
    bool is_new;
    bool tried;
    std::exception_ptr failure;
  };

  void elsewhere(auto const& work);

  /// If a file cannot be written, the later ones are not written either: they would refer to it. A file whose name is
  /// taken first gets another name.
  void work() noexcept;

  RunImage image_;
  std::vector<File> files_;
  std::vector<FileDescriptor> removed_;
  std::atomic<bool> done_{true};
  std::thread thread_{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/run_file.ipp>
#endif
