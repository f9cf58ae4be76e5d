#pragma once
// One tensor inside a saved state: what a callback or an optimizer that keeps tensors puts into an archive.

#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/weight_view.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>

namespace fulgurite {

/// The element type (by safetensors' name for it, such as "F32"), the shape and the bytes of one tensor, in row-major
/// order and little endian. It either owns its bytes or is a handle of a tensor, from which it fetches them each time
/// they are read; a file that is written from the latter needs one tensor at a time in the host's memory. Copies share
/// the bytes. The default is no tensor at all.
class SavedTensor {
 public:
  using Bytes = std::span<std::byte const>;
  /// Calls its argument once with the bytes, which live as long as that call.
  using Fetch = std::function<void(FunctionRef<void(Bytes)>)>;
  /// Makes each of several handles of one library the handle of a copy, which lies on the same device.
  using Keep = void (*)(std::span<SavedTensor* const>);

  SavedTensor() = default;
  SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, Fetch fetch)
      : dtype_(dtype), shape_(std::move(shape)), fetch_(std::move(fetch)) {
    auto const size = safetensors::bytes_of(dtype_, shape_);
    if (!size) refuse("a file cannot hold a tensor of type '" + dtype_ + "' and that shape");
    size_ = *size;
  }
  SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, std::vector<std::byte> bytes)
      : SavedTensor(dtype, std::move(shape), Fetch{}) {
    if (bytes.size() != size_)
      refuse("a tensor of " + std::to_string(size_) + " bytes was given " + std::to_string(bytes.size()));
    own_ = std::make_shared<std::vector<std::byte> const>(std::move(bytes));
  }

  /// A handle that also gives the tensor itself to its own library.
  SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, Fetch fetch, std::any of, Keep how)
      : SavedTensor(dtype, std::move(shape), std::move(fetch)) {
    tensor_ = std::move(of);
    keep_ = how;
  }

  explicit operator bool() const { return !dtype_.empty(); }
  std::string const& dtype() const { return dtype_; }
  std::vector<std::int64_t> const& shape() const { return shape_; }
  std::uint64_t size() const { return size_; }  ///< in bytes

  /// Calls f(bytes); the bytes live as long as the call.
  void read(FunctionRef<void(Bytes)> f) const {
    if (own_) f(Bytes(*own_));
    else if (fetch_) fetch_(f);
    else f(Bytes{});
  }
  /// A copy that owns its bytes, so that no later change of the tensor reaches it.
  FULGURITE_COLD SavedTensor owned() const {
    if (!fetch_) return *this;
    std::vector<std::byte> bytes;
    read([&](Bytes now) { bytes.assign(now.begin(), now.end()); });
    return {dtype_, shape_, std::move(bytes)};
  }
  /// The tensor itself, where this is a handle of one of type T; else nullptr.
  template <class T>
  T const* tensor() const {
    return std::any_cast<T>(&tensor_);
  }
  /// How the library copies handles; nullptr where bytes are all that there is.
  Keep keep() const { return keep_; }

  /// Says of a handle that a load writes to the tensor in `archive.commit` alone: until all of the state has been found
  /// to fit, the tensor stays as it is, and nobody needs a copy to go back to.
  SavedTensor written_last() && {
    written_last_ = true;
    return std::move(*this);
  }
  bool is_written_last() const { return written_last_; }

  /// "F32 [2, 3]", for messages.
  std::string description() const {
    std::string text;
    for (auto const extent : shape_) (text += text.empty() ? "" : ", ") += std::to_string(extent);
    return dtype_ + " [" + text + "]";
  }

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
///   static void load(T& to, SavedTensor const& from, std::string const& name);  // or an Error that names it
/// Where `load` throws, `to` is as it was.
template <class T>
struct TensorState;

template <>
struct TensorState<SavedTensor> {
  static SavedTensor save(SavedTensor const& tensor) { return tensor; }
  static void load(SavedTensor& to, SavedTensor const& from, std::string const&) { to = from; }
};

/// Whether an archive takes values of this type as tensors.
template <class T>
concept ArchivedTensor = requires(T& to, T const& tensor, SavedTensor const& saved, std::string const& name) {
  { TensorState<T>::save(tensor) } -> std::convertible_to<SavedTensor>;
  TensorState<T>::load(to, saved, name);
};

/// Tensors of the state are told from weights by this prefix of their names. No weight's name may begin with it.
inline constexpr std::string_view state_tensor_prefix = "fulgurite:";
/// Whether a tensor of that name in a file belongs to the state, not to the weights.
constexpr bool is_state_tensor(std::string_view name) { return name.starts_with(state_tensor_prefix); }

}  // namespace fulgurite
