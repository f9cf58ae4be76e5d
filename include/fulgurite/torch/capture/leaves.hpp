#pragma once
// Batches and results as a recording sees them: their tensors in a fixed order.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/torch/data/walk.hpp>

namespace fulgurite::libtorch::capture {

template <class T, std::size_t Depth>
consteval bool only();

template <std::size_t Depth>
struct AllOf {
  template <class... Fields>
  constexpr auto operator()(Fields&...) const
      -> std::bool_constant<(only<std::remove_const_t<Fields>, Depth>() && ...)> {
    return {};
  }
};

template <class T, std::size_t... I, std::size_t Depth>
consteval bool tuple_only(std::index_sequence<I...>, std::integral_constant<std::size_t, Depth>) {
  return (only<std::remove_const_t<std::tuple_element_t<I, T>>, Depth>() && ...);
}

template <class T, std::size_t Depth>
consteval bool only() {
  if constexpr (TensorLike<T>) return true;
  else if constexpr (Depth == 0 || !(std::is_class_v<T> || std::is_bounded_array_v<T>) || PackedSequenceLike<T>)
    return false;
  else if constexpr (walk::is_example<T>) {
    if constexpr (std::is_void_v<typename T::TargetType>) return only<typename T::DataType, Depth - 1>();
    else return only<typename T::DataType, Depth - 1>() && only<typename T::TargetType, Depth - 1>();
  } else if constexpr (walk::is_optional<T> || walk::Container<T>)
    return only<std::remove_const_t<typename T::value_type>, Depth - 1>();
  else if constexpr (std::is_bounded_array_v<T>) return only<std::remove_const_t<std::remove_extent_t<T>>, Depth - 1>();
  else if constexpr (walk::TupleLike<T>)
    return tuple_only<T>(std::make_index_sequence<std::tuple_size_v<T>>{},
                         std::integral_constant<std::size_t, Depth - 1>{});
  else if constexpr (aggregate::fields<T> != 0)
    return decltype(aggregate::with_fields(std::declval<T&>(), AllOf<Depth - 1>{}))::value;
  else return false;
}

/// Whether a T holds nothing but tensors, in containers that are known. A step would use a number, a text or a class
/// that cannot be looked into without the recording knowing of it.
template <class T>
inline constexpr bool only_tensors = only<std::remove_cvref_t<T>, 6>();

/// f(tensor) for each place of a tensor, whether there is one or not; extent(n) for the length of each container and
/// optional.
template <class T, class F, class G>
void each_leaf(T& object, F&& f, G&& extent) {
  using B = std::remove_const_t<T>;
  if constexpr (TensorLike<B>) f(object);
  else {
    if constexpr (walk::is_optional<B>) extent(static_cast<std::int64_t>(object.has_value()));
    else if constexpr (requires { object.size(); }) extent(static_cast<std::int64_t>(object.size()));
    each_part(object, [&](auto& part) { each_leaf(part, f, extent); });
  }
}

/// Everything about a batch that decides which recording it needs, and what its metrics weigh. On the CPU this includes
/// where in a cache line each tensor begins, since kernels may add in another order elsewhere.
template <class B>
void shape_of(B const& batch, std::vector<std::int64_t>& row) {
  row.clear();
  each_leaf(
      batch,
      [&](at::Tensor const& tensor) {
        row.push_back(tensor.defined());
        if (!tensor.defined()) return;
        row.push_back(static_cast<std::int64_t>(tensor.key_set().raw_repr()));
        row.push_back(static_cast<std::int64_t>(tensor.scalar_type()));
        row.push_back(tensor.requires_grad());
        row.push_back(tensor.dim());
        if (tensor.layout() != at::kStrided) return;
        row.insert(row.end(), tensor.sizes().begin(), tensor.sizes().end());
        row.insert(row.end(), tensor.strides().begin(), tensor.strides().end());
        if (tensor.device().is_cpu() && tensor.has_storage())
          row.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64));
      },
      [&](std::int64_t n) { row.push_back(n); });
  // A batch that says its own size decides with it what logged values weigh.
  if constexpr (requires {
                  { batch.batch_size() } -> std::convertible_to<std::int64_t>;
                })
    row.push_back(batch.batch_size());
}

/// The shape and the tensors of the batch while one step runs: no longer, since loaders reuse memory that nobody holds.
class HeldLeaves {
 public:
  template <class Batch>
  HeldLeaves(std::vector<std::int64_t>& shape, std::vector<at::Tensor>& leaves, Batch const& batch) : leaves_(leaves) {
    shape_of(batch, shape);
    each_leaf(batch, [&](at::Tensor const& tensor) { leaves_.push_back(tensor); }, [](std::int64_t) {});
  }
  ~HeldLeaves() { leaves_.clear(); }
  HeldLeaves(HeldLeaves const&) = delete;
  HeldLeaves& operator=(HeldLeaves const&) = delete;

 private:
  std::vector<at::Tensor>& leaves_;
};

}  // namespace fulgurite::libtorch::capture
