#pragma once
// A file with the weights of a model and the state of its run, in the safetensors format. The state is text in the
// file's metadata; tensors of the state stand beside the weights, under names with a prefix. Python reads the weights
// alone by
//   weights = {n: t for n, t in safetensors.torch.load_file(path).items() if not n.startswith("fulgurite:")}

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/archive_text.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

// What a run was put together from, as its files say it: the names of its parts, and one short value for them and for
// the layout of the weights.

/// The entry of the state that lists the parts: an object of lists of names, by kind.
inline constexpr char const* assembly_key = "assembly";
/// The entry of the metadata that holds the value.
inline constexpr char const* fingerprint_key = "fulgurite.fingerprint";

/// Sixteen hexadecimal digits of all that `state` lists of the run's parts, and of the names, element types and shapes
/// of the weights. Two files have the same where the same program wrote them, wherever their runs were.
std::string fingerprint(ArchiveNode const& state, std::vector<safetensors::Entry> const& tensors);

// The hyper-parameters of a run as text in the metadata of its files.

/// The entry of the metadata that holds them, where a run has any.
inline constexpr char const* hyperparameters_key = "hyperparameters";

/// `{"lr":0.001,"layers":4,"optimizer":"adam"}`, in the order in which they were declared, in the words of saved state:
/// a number that is no integer has a point or an exponent, and what JSON cannot say is an object ("$bits", "$bytes").
std::string hyperparameter_text(std::span<Hyperparameter const> all);

/// The entry of the metadata that holds the state.
inline constexpr char const* run_state_key = "fulgurite";
/// The entry with the version of what this library puts into a file, and the version that it writes and reads.
inline constexpr char const* run_format_key = "fulgurite.format";
/// Another version is refused when a file is read.
inline constexpr char const* run_format = "2";

/// Throws an Error that names the part of the state which makes its text longer than the header of a file can be.
[[noreturn]] void refuse_long_state(std::filesystem::path const& path, ArchiveNode const& tree, std::uint64_t longest);

/// The metadata of such a file, from the state of the run. `tensor(ArchiveTensor const&)` is called for each tensor of
/// it. `longest`: what a header may have in bytes.
Metadata run_metadata(std::filesystem::path const& path, ArchiveNode const& tree,
                      std::span<Hyperparameter const> hyperparameters, Metadata metadata, std::uint64_t longest,
                      FunctionRef<void(ArchiveTensor const&)> tensor);

/// Adds the value that stands for the program to the metadata of a file.
struct AddFingerprint {
  ArchiveNode const& state;
  void operator()(Metadata& metadata, std::vector<safetensors::Entry> const& tensors) const;
};

/// No weight may have a name that only tensors of the state have.
void refuse_state_name(std::filesystem::path const& path, std::string_view weight);

/// Writes such a file from a state that has been saved: see save_run_file.
void write_run_file(std::filesystem::path const& path, ArchiveNode const& tree, EachWeight each_weight,
                    std::span<Hyperparameter const> hyperparameters, Metadata metadata, std::uint64_t longest);

/// Writes such a file; `Backend::save` calls it. `each_weight(f)` hands over the weights, `fold(archive)` saves the
/// state of the run. Tensors of the state are written one by one after the weights, so nothing may change them until
/// this returns.
///   save_run_file(path, [&](auto&& f) { each_weight(model, f); }, fold);
void save_run_file(std::filesystem::path const& path, EachWeight each_weight, FunctionRef<void(StateSaver&)> fold,
                   std::span<Hyperparameter const> hyperparameters = {}, Metadata metadata = {},
                   std::uint64_t longest = safetensors::longest_header);

/// The file holds the state of a run, in this library's format, and every byte of it is as it was written. Errors
/// [fulgurite.checkpoint.no_run_state] where the file holds weights alone, [fulgurite.checkpoint.format] where another
/// version wrote it, [fulgurite.checkpoint.checksum] where it is damaged.
void check_run_file(SafetensorsFile const& file);

/// Reads the state from a file, with all its tensors, for `load_state`. Nothing in the file is trusted; that all of it,
/// weights too, is as it was written is checked first: see check_run_file.
ArchiveNode run_state(SafetensorsFile const& file);
/// The same, or an empty tree where the file holds weights alone.
ArchiveNode run_state_if_any(SafetensorsFile const& file);

// What the data module of a run has learned, read back from one of the run's files: a second program needs it to see
// rows as they were trained on.

/// The entries of a run's state that are the data module's and the model's own.
inline constexpr char const* data_module_key = "data_module";
inline constexpr char const* model_key = "model";

/// The state of a run's file, with the values of its tensors or without; empty where the file holds weights alone, or
/// another version or another library wrote it.
ArchiveNode state_beside_weights(SafetensorsFile const& file, bool with_tensors);
/// The names of what one part of a run has saved.
std::vector<std::string> entries_of(ArchiveNode const& state, char const* part);

/// The state of a run's file, for what the data module of the run saved. Errors: those of run_state, and
/// [fulgurite.checkpoint.no_data_state] where the file keeps no data module.
ArchiveNode state_with_data(SafetensorsFile const& file);

/// What the data module of a run has saved of itself, in an object that reads it by its own `state(archive)`:
///   auto houses = data_state<data::TableInputs>("runs/a/last.safetensors");
///   auto words = data_state<data::Vocabulary>("runs/b/last.safetensors");
/// The file of data that the run was trained on is not needed. Entries that `T` does not read are skipped.
template <std::default_initializable T>
T data_state(std::filesystem::path const& file) {
  auto const tree = state_with_data(SafetensorsFile(file));
  T object{};
  load_state(tree, [&](auto& archive) { archive.child(data_module_key, object); });
  return object;
}

/// Takes what tells one weight from another.
using TakeShape = FunctionRef<void(std::string_view name, std::string_view dtype, std::vector<std::int64_t> shape)>;
/// In which parts a program differs from the one that wrote a file, in words; empty where it does in none, or the file
/// does not say of which parts its run was. `each_shape(f)` calls f(name, dtype, shape) for each weight of the program,
/// `fold(archive)` saves its list of parts.
std::string assembly_difference(SafetensorsFile const& file, ArchiveNode const& state,
                                FunctionRef<void(TakeShape)> each_shape, FunctionRef<void(StateSaver&)> fold);

// The settings with which a run was made, read back from one of its files.

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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/run_file.ipp>
#endif
