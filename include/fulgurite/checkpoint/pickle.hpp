#pragma once
// Reads the pickles of PyTorch's state dicts without running them: the values that they may hold, and the names that
// they may call.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite::pickle {

// The values that a pickle of PyTorch may hold: plain data, and tensors that refer to their bytes. The values refer to
// each other by number, so a value that contains itself does no harm.

/// The number of a value in the same pickle.
enum class Ref : std::uint32_t { none, yes, no };

using None = std::monostate;
/// A function or class that the pickle names. Only those in the short list in this file are accepted.
struct Global {
  std::string_view name;
};
/// A harmless value that is not needed here: a device, an element type, a size.
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
/// Bytes stored outside of the pickle, which several tensors may share.
struct Storage {
  std::string_view dtype;  ///< safetensors' name of the element type; empty if safetensors has none
  std::string_view kind;   ///< PyTorch's name of the storage
  std::string_view key;
  std::uint64_t count = 0;  ///< elements
};
/// The elements of a storage that make a tensor. Shape and strides are tuples; neither has been checked.
struct Tensor {
  Ref storage;
  std::int64_t offset = 0;
  Ref shape;
  Ref strides;
};

using Value =
    std::variant<None, bool, std::int64_t, double, std::string_view, Global, Plain, Tuple, List, Dict, Storage, Tensor>;

/// The values of a pickle. Strings are views into the pickle's bytes, which must outlive them.
struct Values {
  std::vector<Value> all = {None{}, true, false};  // the three values that Ref names
  Ref root = Ref::none;

  Value const& operator[](Ref ref) const;
  Value& operator[](Ref ref);
  template <class T>
  T const* get(Ref ref) const {
    return std::get_if<T>(&(*this)[ref]);
  }
  /// The value of a string key in a dict, the last one if the key repeats; nullptr if there is none.
  Ref const* find(Dict const& dict, std::string_view key) const;
};

// The functions and classes that a pickle of PyTorch's state dicts may name. All others are refused by name.

/// The effect of calling a global.
enum class Meaning {
  ordered_dict,  ///< returns an empty dict
  counter,       ///< returns its argument, a dict
  tensor,        ///< returns a tensor, from a storage, an offset, a shape and strides
  parameter,     ///< returns its argument, a tensor
  plain,         ///< returns a value that is not needed
  mentioned,     ///< may be named, but not called
  storage,       ///< the type of a storage; may not be called
};

struct Known {
  std::string_view name;
  Meaning meaning;
  std::string_view dtype = {};  ///< the element type of a storage, by safetensors' name; empty if safetensors has none
};

inline constexpr std::array<Known, 47> known_globals{{
    {"collections.OrderedDict", Meaning::ordered_dict},
    {"collections.Counter", Meaning::counter},
    {"torch._utils._rebuild_tensor_v2", Meaning::tensor},
    {"torch._utils._rebuild_parameter", Meaning::parameter},
    {"torch.Size", Meaning::plain},
    {"torch.device", Meaning::plain},
    {"_codecs.encode", Meaning::plain},  // protocol 2 writes bytes by it
    {"__builtin__.set", Meaning::plain},
    {"builtins.set", Meaning::plain},
    {"__builtin__.complex", Meaning::plain},
    {"builtins.complex", Meaning::plain},
    {"__builtin__.bytearray", Meaning::plain},
    {"builtins.bytearray", Meaning::plain},
    {"torch.float64", Meaning::mentioned},
    {"torch.float32", Meaning::mentioned},
    {"torch.float16", Meaning::mentioned},
    {"torch.bfloat16", Meaning::mentioned},
    {"torch.int64", Meaning::mentioned},
    {"torch.int32", Meaning::mentioned},
    {"torch.int16", Meaning::mentioned},
    {"torch.int8", Meaning::mentioned},
    {"torch.uint8", Meaning::mentioned},
    {"torch.bool", Meaning::mentioned},
    {"torch.complex64", Meaning::mentioned},
    {"torch.complex128", Meaning::mentioned},
    {"torch.strided", Meaning::mentioned},
    {"torch.contiguous_format", Meaning::mentioned},
    {"torch.preserve_format", Meaning::mentioned},
    {"torch.channels_last", Meaning::mentioned},
    {"torch.DoubleStorage", Meaning::storage, "F64"},
    {"torch.FloatStorage", Meaning::storage, "F32"},
    {"torch.HalfStorage", Meaning::storage, "F16"},
    {"torch.BFloat16Storage", Meaning::storage, "BF16"},
    {"torch.LongStorage", Meaning::storage, "I64"},
    {"torch.IntStorage", Meaning::storage, "I32"},
    {"torch.ShortStorage", Meaning::storage, "I16"},
    {"torch.CharStorage", Meaning::storage, "I8"},
    {"torch.ByteStorage", Meaning::storage, "U8"},
    {"torch.BoolStorage", Meaning::storage, "BOOL"},
    {"torch.ComplexDoubleStorage", Meaning::storage},
    {"torch.ComplexFloatStorage", Meaning::storage},
    {"torch.QUInt8Storage", Meaning::storage},
    {"torch.QInt8Storage", Meaning::storage},
    {"torch.QInt32Storage", Meaning::storage},
    {"torch.QUInt4x2Storage", Meaning::storage},
    {"torch.QUInt2x4Storage", Meaning::storage},
    {"torch.storage.UntypedStorage", Meaning::storage},
}};

/// The entry of that name; nullptr for names that are not allowed.
constexpr Known const* known(std::string_view name) {
  auto const* const found =
      std::find_if(known_globals.begin(), known_globals.end(), [&](Known const& one) { return one.name == name; });
  return found == known_globals.end() ? nullptr : found;
}

/// PyTorch's name of the storage for safetensors' name of an element type; empty if PyTorch has none.
constexpr std::string_view storage_of(std::string_view dtype) {
  for (auto const& one : known_globals)
    if (one.meaning == Meaning::storage && one.dtype == dtype) return one.name;
  return {};
}

/// Limits of a pickle. A state dict of 100,000 tensors is far below them.
struct Limits {
  std::size_t bytes = std::size_t{1} << 26;
  std::size_t values = std::size_t{1} << 22;
  std::size_t stack = std::size_t{1} << 20;
  std::size_t depth = 1000;     ///< containers that are open at the same time
  std::size_t name = 200;       ///< bytes of a module's or a function's name
  std::size_t text = 1U << 20;  ///< bytes of a string
};

/// Reads one pickle of protocol 2, the default of torch.save, by a few opcodes and the names above; everything else is
/// refused by name. Nothing recurses, and no value is larger than the bytes that describe it. Throws
/// [fulgurite.checkpoint.pt_pickle] with `source` and byte.
Values read(std::string_view bytes, std::string source, Limits const& limits = {});

}  // namespace fulgurite::pickle

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/pickle.ipp>
#endif
