#pragma once
// A file with the weights of a model and the state of its run, in the safetensors format. The state is text in the
// file's metadata; tensors of the state stand beside the weights, under names with a prefix. Python reads the weights
// alone by
//   weights = {n: t for n, t in safetensors.torch.load_file(path).items() if not n.startswith("fulgurite:")}

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/archive_text.hpp>
#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/cold.hpp>
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
inline std::string fingerprint(ArchiveNode const& state, std::vector<safetensors::Entry> const& tensors) {
  std::vector<std::string> lines;
  for (auto const& tensor : tensors) {
    if (is_state_tensor(tensor.name)) continue;
    auto& line = lines.emplace_back(json::quoted(tensor.name));
    line += tensor.dtype;
    for (auto const extent : tensor.shape) (line += ' ') += std::to_string(extent);
  }
  sort_seldom(lines);
  if (auto const* const parts = state.find(assembly_key)) lines.push_back(to_text(*parts));
  std::uint64_t value = 14695981039346656037U;  // FNV-1a: nobody has a reason to forge it
  for (auto const& line : lines)
    for (char const c : line + '\n') value = (value ^ static_cast<unsigned char>(c)) * 1099511628211U;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

// The hyper-parameters of a run as text in the metadata of its files.

/// The entry of the metadata that holds them, where a run has any.
inline constexpr char const* hyperparameters_key = "hyperparameters";

/// `{"lr":0.001,"layers":4,"optimizer":"adam"}`, in the order in which they were declared, in the words of saved state:
/// a number that is no integer has a point or an exponent, and what JSON cannot say is an object ("$bits", "$bytes").
FULGURITE_COLD std::string hyperparameter_text(std::span<Hyperparameter const> all) {
  ArchiveNode tree{ArchiveNode::Object{}};
  for (auto const& [name, value] : all) {
    auto* const entry = name.starts_with('$') ? nullptr : std::get<ArchiveNode::Object>(tree.value).add(name);
    if (entry == nullptr)
      throw Error("fulgurite.checkpoint.hyperparameter",
                  "'" + name +
                      "' cannot be the name of a hyper-parameter in a file: it begins with '$', or is there "
                      "twice");
    std::visit(
        [&]<class T>(T const& now) {
          if constexpr (std::is_same_v<T, HyperparameterValues>) {
            ArchiveNode::List list;
            for (auto const& one : now) std::visit([&](auto const& v) { list.emplace_back().value = v; }, one);
            entry->value = std::move(list);
          } else entry->value = now;
        },
        value);
  }
  return to_text(tree);
}

/// The entry of the metadata that holds the state.
inline constexpr char const* run_state_key = "fulgurite";
/// The entry with the version of what this library puts into a file, and the version that it writes and reads.
inline constexpr char const* run_format_key = "fulgurite.format";
/// Another version is refused when a file is read.
inline constexpr char const* run_format = "2";

/// Throws an Error that names the part of the state which makes its text longer than the header of a file can be.
[[noreturn]] inline void refuse_long_state(std::filesystem::path const& path, ArchiveNode const& tree,
                                           std::uint64_t longest) {
  std::pair<std::size_t, std::string> part;
  for (auto const& [name, node] : std::get<ArchiveNode::Object>(tree.value))
    part = std::max(part, {to_text(node, [](ArchiveTensor const&) { return std::string(); }).size(), name});
  throw Error("fulgurite.checkpoint.state_size",
              "cannot write " + path.string() + ": the state of '" + part.second + "' is a text of " +
                  std::to_string(part.first) + " bytes, and the header of a file holds " + std::to_string(longest) +
                  ": keep large values as tensors, by archive.tensor(name, tensor)");
}

/// The metadata of such a file, from the state of the run. `tensor(ArchiveTensor const&)` is called for each tensor of
/// it. `longest`: what a header may have in bytes.
FULGURITE_COLD Metadata run_metadata(std::filesystem::path const& path, ArchiveNode const& tree,
                                     std::span<Hyperparameter const> hyperparameters, Metadata metadata,
                                     std::uint64_t longest, FunctionRef<void(ArchiveTensor const&)> tensor) {
  auto const by_name = [&](ArchiveTensor const& one) {
    tensor(one);
    return R"({"$tensor":)" + json::quoted(one.name) + "}";
  };
  auto text = to_text(tree, by_name);
  auto const escapes = std::count_if(text.begin(), text.end(), [](char c) { return c == '"' || c == '\\'; });
  if (text.size() + static_cast<std::size_t>(escapes) > longest) refuse_long_state(path, tree, longest);
  metadata[run_state_key] = std::move(text);
  metadata[run_format_key] = run_format;
  if (!hyperparameters.empty()) metadata[hyperparameters_key] = hyperparameter_text(hyperparameters);
  metadata.emplace("format", "pt");  // Python's libraries ask for it before they load
  return metadata;
}

/// Adds the value that stands for the program to the metadata of a file.
struct AddFingerprint {
  ArchiveNode const& state;
  void operator()(Metadata& metadata, std::vector<safetensors::Entry> const& tensors) const {
    metadata[fingerprint_key] = fingerprint(state, tensors);
  }
};

/// No weight may have a name that only tensors of the state have.
inline void refuse_state_name(std::filesystem::path const& path, std::string_view weight) {
  if (is_state_tensor(weight))
    throw Error("fulgurite.checkpoint.weights",
                "cannot write " + path.string() + ": the weight '" + std::string(weight) +
                    "' has a name that only tensors of the run's state have: rename it");
}

/// Writes such a file from a state that has been saved: see save_run_file.
FULGURITE_COLD void write_run_file(std::filesystem::path const& path, ArchiveNode const& tree, EachWeight each_weight,
                                   std::span<Hyperparameter const> hyperparameters, Metadata metadata,
                                   std::uint64_t longest) {
  std::vector<ArchiveTensor const*> tensors;
  auto all = run_metadata(path, tree, hyperparameters, std::move(metadata), longest,
                          [&](ArchiveTensor const& tensor) { tensors.push_back(&tensor); });
  auto const each = [&](TakeWeight f) {
    each_weight([&](std::string_view name, WeightView const& view) {
      refuse_state_name(path, name);
      f(name, view);
    });
    for (auto const* one : tensors)
      one->tensor.read([&](SavedTensor::Bytes bytes) {
        f(std::string(state_tensor_prefix) + one->name, WeightView{one->tensor.dtype(), one->tensor.shape(), bytes});
      });
  };
  write_safetensors(path, std::move(all), each, Checksums::written, AddFingerprint{tree});
}

/// Writes such a file; `Backend::save` calls it. `each_weight(f)` hands over the weights, `fold(archive)` saves the
/// state of the run. Tensors of the state are written one by one after the weights, so nothing may change them until
/// this returns.
///   save_run_file(path, [&](auto&& f) { each_weight(model, f); }, fold);
template <class Fold>
void save_run_file(std::filesystem::path const& path, EachWeight each_weight, Fold&& fold,
                   std::span<Hyperparameter const> hyperparameters = {}, Metadata metadata = {},
                   std::uint64_t longest = safetensors::longest_header) {
  ArchiveNode tree;
  StateSaver saver(tree, {}, StateSaver::Tensors::borrowed);
  fold(saver);
  write_run_file(path, tree, each_weight, hyperparameters, std::move(metadata), longest);
}

/// The file holds the state of a run, in this library's format, and every byte of it is as it was written. Errors
/// [fulgurite.checkpoint.no_run_state] where the file holds weights alone, [fulgurite.checkpoint.format] where another
/// version wrote it, [fulgurite.checkpoint.checksum] where it is damaged.
inline void check_run_file(SafetensorsFile const& file) {
  auto const& all = file.metadata();
  if (!all.contains(run_state_key))
    throw Error("fulgurite.checkpoint.no_run_state",
                file.path().string() + " holds weights alone, not the state of a run: nothing can be resumed from it");
  auto const format = all.find(run_format_key);
  if (format == all.end() || format->second != run_format)
    throw Error("fulgurite.checkpoint.format",
                file.path().string() + " has " +
                    (format == all.end() ? "no format" : "format '" + format->second + "'") +
                    ", and this version of the library reads format '" + run_format +
                    "': read it with the version that wrote it; its weights alone can be loaded by load_weights");
  if (!file.has_checksums())
    throw Error("fulgurite.checkpoint.checksum",
                file.path().string() + " has no checksums, so it was changed since it was written: take another one");
  file.verify();
}

/// Reads the state from a file, with all its tensors, for `load_state`. Nothing in the file is trusted; that all of it,
/// weights too, is as it was written is checked first: see check_run_file.
inline ArchiveNode run_state(SafetensorsFile const& file) {
  check_run_file(file);
  auto const refuse = [&](std::string const& name, char const* how) {
    throw Error("fulgurite.checkpoint.state_tensor",
                file.path().string() + how + "'" + name +
                    "': the file was not written by this library, or was changed since");
  };
  std::set<std::string> taken;
  auto tree = from_text(file.metadata().at(run_state_key), file.path().string() + ", state of the run",
                        [&](std::string const& name) {
                          auto const full = std::string(state_tensor_prefix) + name;
                          auto const* entry = file.find(full);
                          if (entry == nullptr) refuse(full, " lacks a tensor of the run's state, ");
                          if (!taken.insert(full).second) refuse(full, " uses twice a tensor of the run's state, ");
                          std::vector<std::byte> bytes(entry->end - entry->begin);
                          file.read(*entry, bytes);
                          return SavedTensor(entry->dtype, entry->shape, std::move(bytes));
                        });
  for (auto const& entry : file.entries())
    if (is_state_tensor(entry.name) && !taken.contains(entry.name))
      refuse(entry.name, " holds a tensor that the run's state does not know, ");
  return tree;
}
/// The same, or an empty tree where the file holds weights alone.
inline ArchiveNode run_state_if_any(SafetensorsFile const& file) {
  return file.metadata().find(run_state_key) == file.metadata().end() ? ArchiveNode{} : run_state(file);
}

// What the data module of a run has learned, read back from one of the run's files: a second program needs it to see
// rows as they were trained on.

/// The entries of a run's state that are the data module's and the model's own.
inline constexpr char const* data_module_key = "data_module";
inline constexpr char const* model_key = "model";

/// The state of a run's file, with the values of its tensors or without; empty where the file holds weights alone, or
/// another version or another library wrote it.
FULGURITE_COLD ArchiveNode state_beside_weights(SafetensorsFile const& file, bool with_tensors) {
  auto const& all = file.metadata();
  auto const text = all.find(run_state_key), format = all.find(run_format_key);
  if (text == all.end() || format == all.end() || format->second != run_format) return {};
  if (with_tensors) return run_state(file);
  auto const no_bytes = [](std::string const&) { return SavedTensor(); };
  return from_text(text->second, file.path().string() + ", state of the run", no_bytes);
}
/// The names of what one part of a run has saved.
FULGURITE_COLD std::vector<std::string> entries_of(ArchiveNode const& state, char const* part) {
  auto const* const kept = state.find(part);
  return kept == nullptr ? std::vector<std::string>() : StateLoader(*kept).names();
}

/// The state of a run's file, for what the data module of the run saved. Errors: those of run_state, and
/// [fulgurite.checkpoint.no_data_state] where the file keeps no data module.
FULGURITE_COLD ArchiveNode state_with_data(SafetensorsFile const& file) {
  auto tree = run_state(file);
  if (tree.find(data_module_key) == nullptr)
    throw Error("fulgurite.checkpoint.no_data_state",
                file.path().string() +
                    " keeps nothing of a data module: its run was given loaders, or a module without state(archive); "
                    "pass the module itself to fit");
  return tree;
}

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

namespace assembly {

using Names = std::vector<std::string>;
using Shapes = std::map<std::string, std::pair<std::string, std::vector<std::int64_t>>, std::less<>>;

/// Floating types stand for each other here, as they do where weights are loaded: the precision decides between them.
inline std::string kind(std::string_view dtype) {
  return dtype.starts_with('F') || dtype.starts_with('B') ? dtype == "BOOL" ? "BOOL" : "F" : std::string(dtype);
}

inline std::string counted(std::size_t count, char const* one, char const* several) {
  return std::to_string(count) + (count == 1 ? one : several);
}
inline void add(std::string& list, std::string const& one, char const* between) {
  if (one.empty()) return;
  if (!list.empty()) list += between;
  list += one;
}

/// Empty where the weights have the same names and shapes.
inline std::string difference(Shapes const& now, Shapes const& then) {
  std::size_t differ = 0, fresh = 0, gone = 0;
  for (auto const& [name, shape] : now) {
    auto const found = then.find(name);
    if (found == then.end()) ++fresh;
    else differ += found->second != shape;
  }
  for (auto const& [name, shape] : then) gone += !now.contains(name);
  std::string said;
  if (differ != 0) add(said, counted(differ, " weight differs", " weights differ"), ", ");
  if (fresh != 0) add(said, counted(fresh, " weight is new", " weights are new"), ", ");
  if (gone != 0) add(said, counted(gone, " weight is gone", " weights are gone"), ", ");
  return said;
}

/// The names of one kind of parts; none where there is no such kind.
inline Names names_in(ArchiveNode const* parts, std::string_view kind) {
  Names names;
  auto const* const found = parts == nullptr ? nullptr : parts->find(kind);
  auto const* const list = found == nullptr ? nullptr : std::get_if<ArchiveNode::List>(&found->value);
  if (list != nullptr)
    for (auto const& one : *list)
      if (auto const* const name = std::get_if<std::string>(&one.value)) names.push_back(*name);
  sort_seldom(names);
  return names;
}

/// Empty where there are the same names.
inline std::string difference(Names const& now, Names const& then) {
  Names fresh, gone;
  std::set_difference(now.begin(), now.end(), then.begin(), then.end(), std::back_inserter(fresh));
  std::set_difference(then.begin(), then.end(), now.begin(), now.end(), std::back_inserter(gone));
  if (fresh.size() == 1 && gone.size() == 1) return fresh.front() + " in place of " + gone.front();
  std::string said;
  for (auto const& name : fresh) add(said, name + " is new", ", ");
  for (auto const& name : gone) add(said, name + " is gone", ", ");
  return said;
}

}  // namespace assembly

/// In which parts a program differs from the one that wrote a file, in words; empty where it does in none, or the file
/// does not say of which parts its run was. `each_shape(f)` calls f(name, dtype, shape) for each weight of the program,
/// `fold(archive)` saves its list of parts.
template <class EachShape, class Fold>
std::string assembly_difference(SafetensorsFile const& file, ArchiveNode const& state, EachShape&& each_shape,
                                Fold&& fold) {
  auto const value = file.metadata().find(fingerprint_key);
  auto const* const then = state.find(assembly_key);
  if (value == file.metadata().end() || then == nullptr) return {};
  ArchiveNode program;
  StateSaver saver(program);
  fold(saver);
  auto const* const now = program.find(assembly_key);
  assembly::Shapes shapes_now, shapes_then;
  each_shape([&](std::string_view name, std::string_view dtype, std::vector<std::int64_t> shape) {
    shapes_now.emplace(name, std::pair(assembly::kind(dtype), std::move(shape)));
  });
  for (auto const& entry : file.entries())
    if (!is_state_tensor(entry.name))
      shapes_then.emplace(entry.name, std::pair(assembly::kind(entry.dtype), entry.shape));
  std::string parts;
  auto const of = [&](std::string const& part, std::string const& how) {
    if (!how.empty()) assembly::add(parts, part + ": " + how, "; ");
  };
  of("model", assembly::difference(shapes_now, shapes_then));
  for (auto const* kind : {"strategy", "precision", "optimization", "optimizers", "schedules", "callbacks", "loaders"})
    of(kind, assembly::difference(assembly::names_in(now, kind), assembly::names_in(then, kind)));
  if (parts.empty()) return {};
  return "the file was written by a program that is put together differently (fingerprint " + value->second +
         "): " + parts;
}

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
