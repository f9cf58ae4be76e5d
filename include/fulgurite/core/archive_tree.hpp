#pragma once
// Saved state in memory: named values, tensors and children. And as text, from which the same state can be restored bit
// for bit.

#include <any>
#include <array>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite {

// One named tensor as bytes: what a tensor library passes to the file format, and the format's element types.

/// A named tensor's bytes on the host, in row-major order and little endian. `dtype` is safetensors' name of the
/// element type, such as "F32".
struct WeightView {
  std::string_view dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte const> bytes;
};

/// Receives a tensor and its name.
using TakeWeight = FunctionRef<void(std::string_view name, WeightView const& view)>;
/// Calls its argument for each tensor, in the same order each time.
using EachWeight = FunctionRef<void(TakeWeight)>;

namespace safetensors {

/// An element type of the format, and the size of one element in bytes.
struct ElementType {
  std::string_view name;
  std::size_t size;
};
inline constexpr std::array<ElementType, 17> element_types{{{"F64", 8},
                                                            {"F32", 4},
                                                            {"F16", 2},
                                                            {"BF16", 2},
                                                            {"F8_E4M3", 1},
                                                            {"F8_E5M2", 1},
                                                            {"F8_E8M0", 1},
                                                            {"C64", 8},
                                                            {"I64", 8},
                                                            {"I32", 4},
                                                            {"I16", 2},
                                                            {"I8", 1},
                                                            {"U64", 8},
                                                            {"U32", 4},
                                                            {"U16", 2},
                                                            {"U8", 1},
                                                            {"BOOL", 1}}};

/// The size of one element in bytes; nullopt for a name that this library does not know.
constexpr std::optional<std::size_t> element_size(std::string_view dtype) {
  for (auto const& type : element_types)
    if (type.name == dtype) return type.size;
  return std::nullopt;
}

/// The size of a tensor in bytes; nullopt for an unknown element type, a negative extent, or a product that does not
/// fit into 64 bits.
constexpr std::optional<std::uint64_t> bytes_of(std::string_view dtype, std::span<std::int64_t const> shape) {
  auto const size = element_size(dtype);
  if (!size) return std::nullopt;
  std::uint64_t bytes = *size;
  for (auto const extent : shape) {
    if (extent < 0) return std::nullopt;
    auto const factor = static_cast<std::uint64_t>(extent);
    if (factor != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

}  // namespace safetensors

// One tensor inside a saved state, from a callback or an optimizer that keeps tensors.

/// Where the copies of handles lie.
enum class CopyTo : std::uint8_t { same_device, host };

/// The host waits once for a copy from a device, so several tensors are copied together: up to this many bytes, which
/// is what a file that is written from handles needs in host memory.
inline constexpr std::uint64_t copied_together = std::uint64_t{64} << 20;

/// Calls f(begin, end) for successive ranges of `count` tensors that are copied together; `bytes(i)` is a tensor's
/// size.
void each_range_copied_together(std::size_t count, auto&& bytes, auto&& f) {
  for (std::size_t begin = 0, end = 0; begin != count; begin = end) {
    std::uint64_t all = 0;
    do all += bytes(end++);
    while (end != count && all + bytes(end) <= copied_together);
    f(begin, end);
  }
}

/// The element type (by safetensors' name, such as "F32"), the shape and the bytes of one tensor, in row-major order
/// and little endian. It either owns its bytes, or is a handle of a tensor, from which it fetches them each time they
/// are read. Copies share the bytes. A default one is no tensor.
class SavedTensor {
 public:
  using Bytes = std::span<std::byte const>;
  /// Calls its argument once with the bytes, which are valid during that call.
  using Fetch = std::function<void(FunctionRef<void(Bytes)>)>;
  /// Replaces each of several handles of one library by the handle of a copy; on the host only those of a device are
  /// copied.
  using Keep = void (*)(std::span<SavedTensor* const>, CopyTo);

  SavedTensor();
  FULGURITE_COPIES(SavedTensor);
  SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, Fetch fetch);
  SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, std::vector<std::byte> bytes);

  /// A handle that also holds the tensor itself, for its own library.
  SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, Fetch fetch, std::any of, Keep how);

  explicit operator bool() const { return !dtype_.empty(); }
  std::string const& dtype() const { return dtype_; }
  std::vector<std::int64_t> const& shape() const { return shape_; }
  std::uint64_t size() const { return size_; }  ///< in bytes

  /// Calls f(bytes); the bytes are valid during the call.
  void read(FunctionRef<void(Bytes)> f) const;
  /// A copy that owns its bytes, so that later changes of the tensor do not affect it.
  SavedTensor owned() const;
  /// The tensor itself, if this is a handle of one of type T; else nullptr.
  template <class T>
  T const* tensor() const {
    return std::any_cast<T>(&tensor_);
  }
  /// How the library copies handles; nullptr if there are only bytes.
  Keep keep() const { return keep_; }

  /// Declares that a load writes to the tensor of this handle only in `archive.commit`: until all of the state is known
  /// to fit, the tensor is unchanged, so no copy is needed to restore it.
  SavedTensor written_last() &&;
  bool is_written_last() const { return written_last_; }

  /// "F32 [2, 3]", for messages.
  std::string description() const;

 private:
  [[noreturn]] static void refuse(std::string const& why) { throw Error("fulgurite.checkpoint.saved_tensor", why); }

  std::string dtype_ = {};
  std::vector<std::int64_t> shape_ = {};
  std::uint64_t size_ = 0;
  Fetch fetch_ = nullptr;
  std::any tensor_ = {};
  Keep keep_ = nullptr;
  bool written_last_ = false;
  std::shared_ptr<std::vector<std::byte> const> own_ = nullptr;
};

/// How an archive saves and loads tensors of type T. Each tensor library specialises it:
///   static SavedTensor save(T const& tensor);  // a handle whose bytes are fetched later; SavedTensor{} for no tensor
///   static void load(T& to, SavedTensor const& from, std::string const& name);  // or throws an Error with the name
/// If `load` throws, `to` must be unchanged.
template <class T>
struct TensorState;

template <>
struct TensorState<SavedTensor> {
  static SavedTensor save(SavedTensor const& tensor) { return tensor; }
  static void load(SavedTensor& to, SavedTensor const& from, std::string const&) { to = from; }
};

/// True if an archive takes values of this type as tensors.
template <class T>
concept ArchivedTensor = requires(T& to, T const& tensor, SavedTensor const& saved, std::string const& name) {
  { TensorState<T>::save(tensor) } -> std::convertible_to<SavedTensor>;
  TensorState<T>::load(to, saved, name);
};

/// This prefix of their names distinguishes tensors of the state from weights. No weight's name may begin with it.
inline constexpr std::string_view state_tensor_prefix = "fulgurite:";
/// True if a tensor of that name in a file belongs to the state, not to the weights.
constexpr bool is_state_tensor(std::string_view name) { return name.starts_with(state_tensor_prefix); }

struct ArchiveNode;
struct ArchiveEntry;

/// Named values in the order in which they were added. A look-up takes logarithmic time, so an object may have any
/// number of entries.
class ArchiveObject {
 public:
  ArchiveNode const* find(std::string_view name) const;  ///< nullptr if there is none of that name
  ArchiveNode* change(std::string_view name);            ///< a mutable entry; nullptr if there is none
  ArchiveNode* add(std::string_view name);               ///< an empty entry; nullptr if there is one already
  void each(auto&& f);                                   ///< calls f(ArchiveNode&) for all entries, in their order
  inline bool empty() const;
  inline ArchiveEntry const* begin() const;
  ArchiveEntry const* end() const;

 private:
  std::vector<ArchiveEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// A tensor, and its full name in the state: "callbacks.EarlyStopping.values[3]".
struct ArchiveTensor {
  std::string name;
  SavedTensor tensor;
};

/// One value: nothing (an empty optional), a scalar, a list, an object with named entries, or a tensor. Integers are
/// `int64_t` if they fit, otherwise `uint64_t`.
struct ArchiveNode {
  using List = std::vector<ArchiveNode>;
  using Object = ArchiveObject;
  enum class Read : std::uint8_t { no, yes, need_not };
  using Value =
      std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List, Object, ArchiveTensor>;
  Value value;
  mutable Read read = Read::no;  ///< whether something was loaded from this entry

  ArchiveNode();
  ArchiveNode(Value of);
  FULGURITE_COPIES(ArchiveNode);

  /// An entry of an object, or nullptr.
  ArchiveNode const* find(std::string_view name) const;
  bool holds_nothing() const;  ///< an object without entries, or no value at all
};

/// A named value of an object.
struct ArchiveEntry {
  std::string name;
  ArchiveNode node;
};

void ArchiveObject::each(auto&& f) {
  for (auto& entry : entries_) f(entry.node);
}
inline bool ArchiveObject::empty() const { return entries_.empty(); }
inline ArchiveEntry const* ArchiveObject::begin() const { return entries_.data(); }

/// Calls f(ArchiveNode&) for the direct children of a node.
void each_child(ArchiveNode& node, auto&& f) {
  if (auto* const list = std::get_if<ArchiveNode::List>(&node.value))
    for (auto& item : *list) f(item);
  if (auto* const object = std::get_if<ArchiveNode::Object>(&node.value)) object->each(f);
}
/// Calls f(ArchiveTensor&) for each tensor of a tree, in the order in which they were saved.
void each_tensor(ArchiveNode& node, auto&& f) {
  if (auto* const one = std::get_if<ArchiveTensor>(&node.value)) f(*one);
  each_child(node, [&](ArchiveNode& child) { each_tensor(child, f); });
}

// The types of the standard library that an archive can save by splitting them into entries.

namespace archive {

/// The entry for the current value of an option that a run may change; the option's own entry has the program's value.
std::string moved_name(std::string_view option);

using fulgurite::is_optional;
template <class T>
inline constexpr bool is_vector = is_of<std::vector, T>;
template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_duration = is_of<std::chrono::duration, T>;
template <class V>
inline constexpr bool archivable = false;

/// True for types that are saved as one number: booleans, integers, enumerations, durations (their count), floating
/// point.
template <class V>
inline constexpr bool is_scalar =
    std::is_integral_v<V> || std::is_enum_v<V> || std::is_same_v<V, float> || std::is_same_v<V, double>;
template <class R, class P>
inline constexpr bool is_scalar<std::chrono::duration<R, P>> = is_scalar<R>;
/// An integer is unsigned only if it is too large for std::int64_t.
using Scalar = std::variant<bool, std::int64_t, std::uint64_t, double>;

template <class V>
Scalar scalar(V value) {
  if constexpr (is_duration<V>) return scalar(value.count());
  else if constexpr (std::is_enum_v<V>) return scalar(static_cast<std::underlying_type_t<V>>(value));
  else if constexpr (std::is_same_v<V, bool>) return value;
  else if constexpr (std::is_floating_point_v<V>) return static_cast<double>(value);
  else if constexpr (std::is_unsigned_v<V>) {
    auto const wide = static_cast<std::uint64_t>(value);
    if (!std::in_range<std::int64_t>(wide)) return wide;
    return static_cast<std::int64_t>(wide);
  } else return static_cast<std::int64_t>(value);
}

/// The range of numbers that a type accepts, and a number that was read: `bits` for an integer or a boolean, else
/// `real`.
struct ScalarKind {
  enum Sort : std::uint8_t { truth, integer, real } sort;
  std::int64_t least = 0;
  std::uint64_t most = 0;
};
struct ReadScalar {
  std::uint64_t bits = 0;
  double real = 0;
};

template <class V>
constexpr ScalarKind scalar_kind() {
  if constexpr (is_duration<V>) return scalar_kind<typename V::rep>();
  else if constexpr (std::is_enum_v<V>) return scalar_kind<std::underlying_type_t<V>>();
  else if constexpr (std::is_same_v<V, bool>) return {ScalarKind::truth};
  else if constexpr (std::is_floating_point_v<V>) return {ScalarKind::real};
  else
    return {ScalarKind::integer, static_cast<std::int64_t>(std::numeric_limits<V>::min()),
            static_cast<std::uint64_t>(std::numeric_limits<V>::max())};
}
template <class V>
V from_scalar(ReadScalar const& read) {
  if constexpr (is_duration<V>) return V(from_scalar<typename V::rep>(read));
  else if constexpr (std::is_floating_point_v<V>) return static_cast<V>(read.real);
  else return static_cast<V>(read.bits);
}

// Writes saved state as text, from which the same state can be restored bit for bit.

/// Bytes as hexadecimal digits, two for each.
std::string hex(std::string_view bytes);

template <class I>
std::string decimal(I value, int base = 10) {
  char text[72];
  return {text, std::to_chars(text, text + sizeof text, value, base).ptr};
}

// JSON has no NaN, no infinity and no strings that are not UTF-8. Such a value is written as an object with one member
// whose name begins with '$'; no entry of a state may have such a name. A double always has a point, an exponent or
// this form, so it is never read back as an integer.
std::string text_of(double value);
std::string text_of(std::string const& value);

}  // namespace archive

/// A tree as compact JSON. `tensor_text(ArchiveTensor const&)` returns the text for a tensor.
std::string to_text(ArchiveNode const& node, FunctionRef<std::string(ArchiveTensor const&)> tensor_text);
/// A tree as compact JSON that contains the bytes of its tensors.
std::string to_text(ArchiveNode const& node);

// Reads saved state from such a text.

namespace archive {

/// Finds a tensor by its name, for texts that contain names of tensors instead of their bytes.
using TensorLookup = std::function<SavedTensor(std::string const& name)>;

/// A tensor: the name of one in the text's file, or an object with its type, shape and bytes.
ArchiveNode tensor(json::Reader& in, TensorLookup const& lookup);

/// The value of an object whose only member has a name that begins with '$'.
ArchiveNode special(json::Reader& in, std::string const& key, TensorLookup const& lookup);

/// A number with a point or an exponent is a double, any other an integer.
ArchiveNode number(json::Reader& in);

/// Any value.
ArchiveNode read(json::Reader& in, TensorLookup const& lookup);

}  // namespace archive

/// The tree from which a text was made. `source` names the text in an Error [fulgurite.checkpoint.state_text]; `lookup`
/// finds tensors that the text names.
ArchiveNode from_text(std::string_view text, std::string source = "saved state",
                      archive::TensorLookup const& lookup = {});

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/archive_tree.ipp>
#endif
