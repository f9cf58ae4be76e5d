#pragma once
// Weights that Python saved: by torch.save(model.state_dict(), "x.pt"), or in a checkpoint of Lightning.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/checkpoint/zip_archive.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

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
  Machine(std::string_view bytes, std::string source, Limits limits)
      : bytes_(bytes), source_(std::move(source)), limits_(limits) {}

  [[noreturn]] void fail(std::string const& why) const {
    throw Error("fulgurite.checkpoint.pt_pickle", source_ + ", byte " + std::to_string(at_) + ": " + why);
  }

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) fail("the pickle ends inside a value");
    return bytes_.substr(std::exchange(at_, at_ + count), count);
  }
  template <class I>
  I take_number() {
    I value{};
    std::memcpy(&value, take(sizeof(I)).data(), sizeof(I));  // protocol 2 is little endian
    return value;
  }
  FULGURITE_BULK std::string_view take_line() {
    auto const line = bytes_.substr(at_, limits_.name + 1);
    auto const end = line.find('\n');
    if (end == line.npos) fail("a name of at most " + std::to_string(limits_.name) + " bytes expected");
    at_ += end + 1;
    return line.substr(0, end);
  }

  void push(Ref ref) {
    if (stack_.size() == limits_.stack) fail("more values at once than " + std::to_string(limits_.stack));
    stack_.push_back(ref);
  }
  FULGURITE_BULK void push(Value value) {
    if (values_.all.size() == limits_.values) fail("more values than " + std::to_string(limits_.values));
    values_.all.push_back(std::move(value));
    push(static_cast<Ref>(values_.all.size() - 1));
  }
  /// What may be taken from the stack: all since the last mark.
  std::size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  Ref pop() {
    if (available() == 0) fail("a value is missing");
    auto const ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  FULGURITE_BULK std::vector<Ref> pop(std::size_t count) {
    if (available() < count) fail("a value is missing");
    std::vector<Ref> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    auto items = pop(available());
    marks_.pop_back();
    return items;
  }
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
  void mark() {
    if (marks_.size() == limits_.depth) fail("nested more than " + std::to_string(limits_.depth) + " deep");
    marks_.push_back(stack_.size());
  }

  FULGURITE_BULK void remember(std::size_t index) {
    if (available() == 0) fail("a value is missing");
    if (index > memo_.size()) fail("a value is remembered out of order");
    if (index == memo_.size()) memo_.push_back(stack_.back());
    else memo_[index] = stack_.back();
  }
  void recall(std::size_t index) {
    if (index >= memo_.size()) fail("a value is recalled that was not remembered");
    push(memo_[index]);
  }

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
  Reader(std::string_view bytes, std::string source, Limits limits = {}) : Machine(bytes, std::move(source), limits) {}

  FULGURITE_BULK Values read() {
    if (bytes_.size() > limits_.bytes) fail("the pickle is longer than " + std::to_string(limits_.bytes) + " bytes");
    if (take(2) != "\x80\x02")
      fail("a pickle of protocol 2 expected: save it by torch.save(state_dict, file), without pickle_protocol");
    while (step()) {}
    if (!marks_.empty() || stack_.size() != 1) fail("a pickle ends with one value");
    if (at_ != bytes_.size()) fail("nothing more expected");
    values_.root = stack_.back();
    return std::move(values_);
  }

 private:
  // The opcodes, by their names in Python's pickletools.
  FULGURITE_BULK bool step() {
    auto const code = take(1).front();
    switch (code) {
    case '.': return false;                                                                 // STOP
    case 'N': push(Ref::none); break;                                                       // NONE
    case '\x88': push(Ref::yes); break;                                                     // NEWTRUE
    case '\x89': push(Ref::no); break;                                                      // NEWFALSE
    case 'J': push(Value(std::int64_t{take_number<std::int32_t>()})); break;                // BININT
    case 'K': push(Value(std::int64_t{take_number<std::uint8_t>()})); break;                // BININT1
    case 'M': push(Value(std::int64_t{take_number<std::uint16_t>()})); break;               // BININT2
    case '\x8a': push(long_number(take(take_number<std::uint8_t>()))); break;               // LONG1
    case 'G': push(Value(real(take_number<std::uint64_t>()))); break;                       // BINFLOAT
    case 'X': push(Value(take(text_length()))); break;                                      // BINUNICODE
    case 'c': push(global()); break;                                                        // GLOBAL
    case ')': push(Value(Tuple{})); break;                                                  // EMPTY_TUPLE
    case ']': push(Value(List{})); break;                                                   // EMPTY_LIST
    case '}': push(Value(Dict{})); break;                                                   // EMPTY_DICT
    case '\x85': push(Value(Tuple{pop(1)})); break;                                         // TUPLE1
    case '\x86': push(Value(Tuple{pop(2)})); break;                                         // TUPLE2
    case '\x87': push(Value(Tuple{pop(3)})); break;                                         // TUPLE3
    case 't': push(Value(Tuple{pop_to_mark()})); break;                                     // TUPLE
    case '(': mark(); break;                                                                // MARK
    case 'a': append(pop(1)); break;                                                        // APPEND
    case 'e': append(pop_to_mark()); break;                                                 // APPENDS
    case 's': set_items(pop(2)); break;                                                     // SETITEM
    case 'u': set_items(pop_to_mark()); break;                                              // SETITEMS
    case 'q': remember(take_number<std::uint8_t>()); break;                                 // BINPUT
    case 'r': remember(take_number<std::uint32_t>()); break;                                // LONG_BINPUT
    case 'h': recall(take_number<std::uint8_t>()); break;                                   // BINGET
    case 'j': recall(take_number<std::uint32_t>()); break;                                  // LONG_BINGET
    case 'Q': push(storage(expect<Tuple>(pop(), "the tuple of a storage"))); break;         // BINPERSID
    case 'R': call(); break;                                                                // REDUCE
    case 'b': pop(), top<Dict>("an object that takes attributes (an OrderedDict)"); break;  // BUILD: _metadata
    default: refuse_opcode(static_cast<unsigned char>(code));
    }
    return true;
  }
  [[noreturn]] void refuse_opcode(unsigned code) {
    constexpr char digits[] = "0123456789abcdef";
    --at_;
    fail(std::string("the opcode 0x") + digits[code >> 4] + digits[code & 15] +
         " is none that a state dict needs: save model.state_dict() alone");
  }
  std::size_t text_length() {
    std::size_t const length = take_number<std::uint32_t>();
    if (length > limits_.text) fail("a text of more than " + std::to_string(limits_.text) + " bytes");
    return length;
  }
  FULGURITE_BULK static double real(std::uint64_t big_endian) {
    std::uint64_t bits = 0;
    for (int i = 0; i != 8; ++i, big_endian >>= 8) bits = bits << 8 | (big_endian & 0xFF);
    return std::bit_cast<double>(bits);
  }
  /// An integer of any length; one of more than 64 bits is of no interest.
  FULGURITE_BULK static Value long_number(std::string_view bytes) {
    if (bytes.size() > 8) return Plain{};
    std::uint64_t bits = !bytes.empty() && (bytes.back() & '\x80') != 0 ? ~std::uint64_t{0} : 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return static_cast<std::int64_t>(bits);
  }
  void append(std::vector<Ref> const& items) {
    auto& list = top<List>("a list").items;
    list.insert(list.end(), items.begin(), items.end());
  }
  FULGURITE_BULK void set_items(std::vector<Ref> const& items) {
    auto& dict = top<Dict>("a dict").items;
    if (items.size() % 2 != 0) fail("a key without a value");
    for (std::size_t i = 0; i != items.size(); i += 2) dict.emplace_back(items[i], items[i + 1]);
  }

  // Names, and what calling them comes to.
  FULGURITE_BULK Value global() {
    auto const from = at_;
    auto const module = take_line(), name = take_line();
    auto const full = std::string(module) + "." + std::string(name);
    auto const* const entry = known(full);
    if (entry == nullptr) {
      at_ = from;
      fail("the pickle names " + printable(full) +
           ", which is neither a tensor nor plain data: save model.state_dict() alone, or as safetensors");
    }
    return Global{entry->name};
  }
  static std::string printable(std::string text) {
    for (char& c : text)
      if (c < ' ' || c > '~') c = '?';
    return "'" + text + "'";
  }
  FULGURITE_BULK Value storage(Tuple const& id) const {
    if (id.items.size() != 5 || expect<std::string_view>(id.items[0], "the word 'storage'") != "storage")
      fail("a persistent object that is no storage");
    auto const kind = expect<Global>(id.items[1], "the type of a storage").name;
    auto const count = expect<std::int64_t>(id.items[4], "the size of a storage");
    if (known(kind)->meaning != Meaning::storage || count < 0) fail("the type and the size of a storage expected");
    return Storage{known(kind)->dtype, kind, expect<std::string_view>(id.items[2], "the name of a storage"),
                   static_cast<std::uint64_t>(count)};
  }
  FULGURITE_BULK void call() {
    auto const& arguments = expect<Tuple>(pop(), "a tuple of arguments").items;  // until the next push
    auto const name = expect<Global>(pop(), "a name that is called").name;
    auto const needs = [&](bool fine) {
      if (!fine) fail("'" + std::string(name) + "' is called with arguments that it does not take");
    };
    switch (known(name)->meaning) {
    case Meaning::ordered_dict: needs(arguments.empty()); return push(Value(Dict{}));
    case Meaning::counter:
      needs(arguments.size() == 1 && values_.get<Dict>(arguments[0]) != nullptr);
      return push(arguments[0]);
    case Meaning::parameter:
      needs(arguments.size() == 3 && values_.get<Tensor>(arguments[0]) != nullptr);
      return push(arguments[0]);
    case Meaning::tensor: {
      // Storage, offset, shape, strides, whether it needs gradients, hooks; then flags, if there are any.
      needs(arguments.size() == 6 || arguments.size() == 7);
      needs(values_.get<Storage>(arguments[0]) != nullptr);
      if (arguments.size() == 7 && !expect<Dict>(arguments[6], "the flags of a tensor").items.empty())
        fail("a tensor with flags (conjugated or negated): save it by .resolve_conj().resolve_neg()");
      for (auto const i : {std::size_t{2}, std::size_t{3}}) needs(values_.get<Tuple>(arguments[i]) != nullptr);
      return push(Value(Tensor{arguments[0], expect<std::int64_t>(arguments[1], "the offset of a tensor"), arguments[2],
                               arguments[3]}));
    }
    case Meaning::plain: return push(Value(Plain{}));
    case Meaning::mentioned:
    case Meaning::storage: needs(false);
    }
  }
};

}  // namespace fulgurite::pickle

namespace fulgurite {

/// Whether a file of that name is read as one that torch.save wrote: .pt, .pth, .ckpt or .bin. A file of another name
/// never is, whatever it contains, so that none is taken for a pickle by surprise.
inline bool is_pt_name(std::filesystem::path const& path) {
  auto const extension = path.extension();
  return extension == ".pt" || extension == ".pth" || extension == ".ckpt" || extension == ".bin";
}

/// The tensors of a state dict that torch.save wrote (PyTorch 1.6 or newer), with the face of SafetensorsFile. Where
/// the file holds a dict with "state_dict" in it, as a checkpoint of Lightning does, it is that one. No code of the
/// file is run, and what is neither a tensor nor plain data is refused by name. All is checked when the file is opened,
/// but checksums when bytes are read. Errors are [fulgurite.checkpoint.pt_zip], [...pt_pickle] and [...pt_file].
class PtFile {
 public:
  struct Entry {
    std::string name;
    std::string dtype;  ///< safetensors' name, such as "F32"
    std::vector<std::int64_t> shape;
    ZipArchive::Entry const* storage = nullptr;
    std::uint64_t offset = 0;           ///< in elements of the storage
    std::vector<std::int64_t> strides;  ///< in elements
  };

  explicit PtFile(std::filesystem::path path) : zip_(std::move(path)) {
    auto const* const pickle = find_pickle();
    check_kind();
    if (pickle->size > pickle::Limits{}.bytes) refuse("its pickle is too long: save model.state_dict() alone");
    std::string bytes(static_cast<std::size_t>(pickle->size), '\0');
    zip_.read(*pickle, 0, std::as_writable_bytes(std::span(bytes)));
    auto const values = pickle::Reader(bytes, zip_.path().string() + ", " + pickle->name).read();
    for (auto const& [key, value] : state_dict(values).items)
      if (auto const* tensor = values.get<pickle::Tensor>(value)) add(values, key, *tensor);
    if (entries_.empty()) refuse("there is no tensor in its state dict: save model.state_dict()");
  }

  std::filesystem::path const& path() const { return zip_.path(); }
  /// The tensors, in the order of the state dict.
  std::vector<Entry> const& entries() const& { return entries_; }
  void entries() && = delete;
  /// The tensor of that name, or nullptr.
  Entry const* find(std::string_view name) const {
    auto const found = index_.find(name);
    return found == index_.end() ? nullptr : &entries_[found->second];
  }
  /// Reads a tensor's bytes in row-major order into `into`, which has exactly the tensor's size.
  FULGURITE_BULK void read(Entry const& entry, std::span<std::byte> into) const {
    auto const element = *safetensors::element_size(entry.dtype);
    auto const size = *safetensors::bytes_of(entry.dtype, entry.shape);
    if (into.size() != size)
      refuse("'" + entry.name + "' has " + std::to_string(size) + " bytes, not " + std::to_string(into.size()));
    if (into.empty()) return;
    if (is_row_major(entry)) return zip_.read(*entry.storage, entry.offset * element, into);
    std::vector<std::byte> from(static_cast<std::size_t>((reach(entry) + 1) * element));
    zip_.read(*entry.storage, entry.offset * element, from);
    gather(entry, element, from.data(), into);
  }

 private:
  static constexpr std::size_t most_dimensions = 64;  // PyTorch's own limit

  [[noreturn]] void refuse(std::string const& why) const {
    throw Error("fulgurite.checkpoint.pt_file", zip_.path().string() + ": " + why);
  }

  FULGURITE_BULK ZipArchive::Entry const* find_pickle() {
    ZipArchive::Entry const* found = nullptr;
    for (auto const& entry : zip_.entries()) {
      auto const slash = entry.name.find('/');
      if (slash == entry.name.npos || std::string_view(entry.name).substr(slash) != "/data.pkl") continue;
      if (found != nullptr) refuse("two pickles are in it: '" + found->name + "' and '" + entry.name + "'");
      found = &entry;
      root_ = entry.name.substr(0, slash + 1);
    }
    if (found == nullptr) refuse("this is a zip archive without a data.pkl: torch.save did not write it");
    return found;
  }
  FULGURITE_COLD void check_kind() const {
    if (zip_.find(root_ + "constants.pkl") != nullptr)
      refuse("this is a program of TorchScript: save its weights, by torch.save(module.state_dict(), file)");
    auto const* const order = zip_.find(root_ + "byteorder");
    if (order == nullptr) return;  // before PyTorch 2.1
    std::string text(std::min<std::size_t>(static_cast<std::size_t>(order->size), 16), '\0');
    zip_.read(*order, 0, std::as_writable_bytes(std::span(text)));
    if (text != "little") refuse("its numbers are not little endian: save it on another machine");
  }

  /// The dict of weights, which is the file's value or stands in it.
  FULGURITE_BULK pickle::Dict const& state_dict(pickle::Values const& values) const {
    auto const* const root = values.get<pickle::Dict>(values.root);
    if (root == nullptr) refuse("it holds no dict: save model.state_dict()");
    if (auto const* const inner = values.find(*root, "state_dict")) {
      auto const* const dict = values.get<pickle::Dict>(*inner);
      if (dict == nullptr) refuse("its 'state_dict' is no dict");
      return *dict;
    }
    return *root;
  }

  FULGURITE_BULK void add(pickle::Values const& values, pickle::Ref key, pickle::Tensor const& tensor) {
    auto const* const name = values.get<std::string_view>(key);
    if (name == nullptr || !utf8::is_valid(*name)) refuse("the name of a tensor is no text");
    Entry entry{std::string(*name), {}, {}, nullptr, 0, {}};
    auto const wrong = [&](std::string const& why) { refuse("'" + entry.name + "' " + why); };
    auto const& storage = *values.get<pickle::Storage>(tensor.storage);
    entry.dtype = storage.dtype;
    auto const element = safetensors::element_size(entry.dtype);
    if (!element) wrong("is in a " + std::string(storage.kind) + ", an element type that is not known here");
    auto const numbers = [&](pickle::Ref tuple, char const* what) {
      std::vector<std::int64_t> all;
      for (auto const item : values.get<pickle::Tuple>(tuple)->items) {
        auto const* const number = values.get<std::int64_t>(item);
        if (number == nullptr || *number < 0) wrong(std::string("has ") + what + " that are no numbers from 0 on");
        all.push_back(*number);
        if (all.size() > most_dimensions) wrong("has more than 64 dimensions");
      }
      return all;
    };
    entry.shape = numbers(tensor.shape, "extents");
    entry.strides = numbers(tensor.strides, "strides");
    if (entry.shape.size() != entry.strides.size()) wrong("has not one stride for each extent");
    if (tensor.offset < 0) wrong("begins before its storage");
    entry.offset = static_cast<std::uint64_t>(tensor.offset);
    entry.storage = zip_.find(root_ + "data/" + std::string(storage.key));
    if (entry.storage == nullptr) wrong("lies in 'data/" + std::string(storage.key) + "', which the file lacks");
    if (storage.count > std::numeric_limits<std::uint64_t>::max() / *element ||
        storage.count * *element != entry.storage->size)
      wrong("lies in '" + entry.storage->name + "', which has " + std::to_string(entry.storage->size) + " bytes, not " +
            std::to_string(storage.count) + " elements");
    auto const bytes = safetensors::bytes_of(entry.dtype, entry.shape);
    // An expanded tensor, which has more elements than its storage, could be made to fill any memory.
    if (!bytes || *bytes > entry.storage->size) wrong("is larger than its storage: save it by .contiguous()");
    if (*bytes != 0 && !fits(entry, storage.count)) wrong("leaves its storage");
    if (!index_.emplace(entry.name, entries_.size()).second) wrong("occurs twice");
    entries_.push_back(std::move(entry));
  }

  /// How far the last element is from the first. Only for entries that have elements and fit.
  FULGURITE_BULK static std::uint64_t reach(Entry const& entry) {
    std::uint64_t far = 0;
    for (std::size_t i = 0; i != entry.shape.size(); ++i)
      far += static_cast<std::uint64_t>(entry.shape[i] - 1) * static_cast<std::uint64_t>(entry.strides[i]);
    return far;
  }
  FULGURITE_BULK static bool fits(Entry const& entry, std::uint64_t count) {
    if (entry.offset >= count) return false;
    auto room = count - 1 - entry.offset;
    for (std::size_t i = 0; i != entry.shape.size(); ++i) {
      auto const steps = static_cast<std::uint64_t>(entry.shape[i] - 1);
      auto const stride = static_cast<std::uint64_t>(entry.strides[i]);
      if (steps != 0 && stride > room / steps) return false;
      room -= steps * stride;
    }
    return true;
  }
  FULGURITE_BULK static bool is_row_major(Entry const& entry) {
    std::int64_t stride = 1;
    for (std::size_t i = entry.shape.size(); i-- != 0; stride *= entry.shape[i])
      if (entry.shape[i] != 1 && entry.strides[i] != stride) return false;
    return true;
  }
  FULGURITE_BULK static void gather(Entry const& entry, std::size_t element, std::byte const* from,
                                    std::span<std::byte> into) {
    std::vector<std::int64_t> index(entry.shape.size(), 0);
    std::int64_t at = 0;
    for (auto* to = into.data(); to != into.data() + into.size(); to += element) {
      std::memcpy(to, from + static_cast<std::uint64_t>(at) * element, element);
      for (std::size_t i = index.size(); i-- != 0;) {  // the last index runs fastest
        if (++index[i] != entry.shape[i]) {
          at += entry.strides[i];
          break;
        }
        at -= entry.strides[i] * (entry.shape[i] - 1);
        index[i] = 0;
      }
    }
  }

  ZipArchive zip_;
  std::string root_;  // the folder in the archive, with a slash
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace fulgurite
