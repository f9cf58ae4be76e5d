#pragma once
// Reads the pickles of PyTorch's state dicts without running them: what they may hold, which names they may call, and
// the machine that their opcodes work on.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite::pickle {

// What a pickle of PyTorch may hold: plain data, and tensors that name their bytes. A tree of values that refer to each
// other by number, so that one which contains itself does no harm.

/// A value of the same pickle, by its number.
enum class Ref : std::uint32_t { none, yes, no };

using None = std::monostate;
/// A function or class that the pickle names. Only those of the short list in this file get so far.
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

  Value const& operator[](Ref ref) const;
  Value& operator[](Ref ref);
  template <class T>
  T const* get(Ref ref) const {
    return std::get_if<T>(&(*this)[ref]);
  }
  /// The value of a text key in a dict, the last one where it repeats; nullptr where there is none.
  Ref const* find(Dict const& dict, std::string_view key) const;
};

// The functions and classes that a pickle of PyTorch's state dicts may name. All others are refused by name.

/// What calling a global comes to here.
enum class Meaning {
  ordered_dict,  ///< an empty dict
  counter,       ///< the dict that it is given
  tensor,        ///< a tensor from a storage, an offset, a shape and strides
  parameter,     ///< the tensor that it is given
  plain,         ///< a value of no interest
  mentioned,     ///< is only mentioned, and not called
  storage,       ///< the type of a storage; not called
};

struct Known {
  std::string_view name;
  Meaning meaning;
  std::string_view dtype = {};  ///< of a storage, by safetensors' name; empty where safetensors has none
};

inline constexpr std::array<Known, 47> known_globals{{
    {"collections.OrderedDict", Meaning::ordered_dict},
    {"collections.Counter", Meaning::counter},
    {"torch._utils._rebuild_tensor_v2", Meaning::tensor},
    {"torch._utils._rebuild_parameter", Meaning::parameter},
    {"torch.Size", Meaning::plain},
    {"torch.device", Meaning::plain},
    {"_codecs.encode", Meaning::plain},  // how protocol 2 writes bytes
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

/// The entry of that name; nullptr for all that may not be named.
constexpr Known const* known(std::string_view name) {
  auto const* const found =
      std::find_if(known_globals.begin(), known_globals.end(), [&](Known const& one) { return one.name == name; });
  return found == known_globals.end() ? nullptr : found;
}

// What the opcodes of a pickle work on: its bytes, a stack with marks, and a memo, all of them within limits.

/// How much of a pickle is taken. A state dict of 100,000 tensors stays far below.
struct Limits {
  std::size_t bytes = std::size_t{1} << 26;
  std::size_t values = std::size_t{1} << 22;
  std::size_t stack = std::size_t{1} << 20;
  std::size_t depth = 1000;     ///< containers that are open at once
  std::size_t name = 200;       ///< bytes of a module's or a function's name
  std::size_t text = 1U << 20;  ///< bytes of a text
};

/// The state of a reader between two opcodes. Whatever is missing, or too much, is an Error with the byte where it is.
class Machine {
 protected:
  Machine(std::string_view bytes, std::string source, Limits limits);

  [[noreturn]] void fail(std::string const& why) const;

  std::string_view take(std::size_t count);
  template <class I>
  I take_number() {
    I value{};
    std::memcpy(&value, take(sizeof(I)).data(), sizeof(I));  // protocol 2 is little endian
    return value;
  }
  std::string_view take_line();

  void push(Ref ref);
  void push(Value value);
  /// What may be taken from the stack: all since the last mark.
  std::size_t available() const;
  Ref pop();
  std::vector<Ref> pop(std::size_t count);
  std::vector<Ref> pop_to_mark();
  /// The value on top, which has to be of that kind.
  template <class T>
  T& top(char const* kind) {
    if (available() == 0) fail("a value is missing");
    auto* const value = std::get_if<T>(&values_[stack_.back()]);
    if (value == nullptr) fail(std::string(kind) + " expected");
    return *value;
  }
  template <class T>
  T const& expect(Ref ref, char const* kind) const {
    auto const* const value = values_.get<T>(ref);
    if (value == nullptr) fail(std::string(kind) + " expected");
    return *value;
  }
  void mark();

  void remember(std::size_t index);
  void recall(std::size_t index);

  std::string_view bytes_;
  std::string source_;
  Limits limits_;
  std::size_t at_ = 0;
  Values values_;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Ref> memo_;
};

// Reads the pickles of PyTorch's state dicts without running them: a few opcodes and a short list of names. What it
// does not know it refuses by name.

/// Reads one pickle of protocol 2, which torch.save writes unless it is told otherwise. Nothing recurses, and no value
/// is larger than the bytes that describe it. Errors are [fulgurite.checkpoint.pt_pickle] with file and byte.
class Reader : private Machine {
 public:
  Reader(std::string_view bytes, std::string source, Limits limits = {});

  Values read();

 private:
  // The opcodes, by their names in Python's pickletools.
  bool step();
  [[noreturn]] void refuse_opcode(unsigned code);
  std::size_t text_length();
  static double real(std::uint64_t big_endian);
  /// An integer of any length; one of more than 64 bits is of no interest.
  static Value long_number(std::string_view bytes);
  void append(std::vector<Ref> const& items);
  void set_items(std::vector<Ref> const& items);

  // Names, and what calling them comes to.
  Value global();
  static std::string printable(std::string text);
  Value storage(Tuple const& id) const;
  void call();
};

}  // namespace fulgurite::pickle

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/pickle.ipp>
#endif
