#pragma once
// What a pickle of PyTorch may hold: plain data, and tensors that name their bytes. A tree of values that refer to each
// other by number, so that one which contains itself does no harm.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::pickle {

/// A value of the same pickle, by its number.
enum class Ref : std::uint32_t { none, yes, no };

using None = std::monostate;
/// A function or class that the pickle names. Only those of the short list in pickle_globals.hpp get so far.
struct Global {
  std::string_view name;
};
/// A value that is harmless and of no interest here: a device, an element type, a size.
struct Plain {};
struct Tuple {
  std::vector<Ref> items;
};
struct List {
  std::vector<Ref> items;
};
/// A dict, an OrderedDict or a Counter. Keys may repeat.
struct Dict {
  std::vector<std::pair<Ref, Ref>> items;
};
/// Bytes beside the pickle, that several tensors may share.
struct Storage {
  std::string_view dtype;  ///< safetensors' name of the element type; empty for one that it lacks
  std::string_view kind;   ///< PyTorch's name of the storage
  std::string_view key;
  std::uint64_t count = 0;  ///< elements
};
/// Which elements of a storage make a tensor. Shape and strides are tuples; nothing about them has been checked.
struct Tensor {
  Ref storage;
  std::int64_t offset = 0;
  Ref shape;
  Ref strides;
};

using Value =
    std::variant<None, bool, std::int64_t, double, std::string_view, Global, Plain, Tuple, List, Dict, Storage, Tensor>;

/// The values of a pickle. Texts are parts of the pickle's bytes, which have to outlive them.
struct Values {
  std::vector<Value> all = {None{}, true, false};  // the three that Ref names
  Ref root = Ref::none;

  Value const& operator[](Ref ref) const { return all[static_cast<std::size_t>(ref)]; }
  Value& operator[](Ref ref) { return all[static_cast<std::size_t>(ref)]; }
  template <class T>
  T const* get(Ref ref) const {
    return std::get_if<T>(&(*this)[ref]);
  }
  /// The value of a text key in a dict, the last one where it repeats; nullptr where there is none.
  FULGURITE_BULK Ref const* find(Dict const& dict, std::string_view key) const {
    Ref const* found = nullptr;
    for (auto const& [name, value] : dict.items)
      if (auto const* text = get<std::string_view>(name); text != nullptr && *text == key) found = &value;
    return found;
  }
};

}  // namespace fulgurite::pickle
