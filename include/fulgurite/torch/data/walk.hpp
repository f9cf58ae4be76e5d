#pragma once
// The one walk over the structure of batches: it finds the tensors in whatever a loader yields. Moving, converting,
// counting and recording are all written with it.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <ATen/core/Tensor.h>
#include <boost/hana/accessors.hpp>
#include <boost/hana/concept/struct.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/unpack.hpp>

#include <fulgurite/core/is_optional.hpp>
#include <fulgurite/torch/data/aggregate.hpp>

namespace torch::data {
template <typename Data, typename Target>
struct Example;  // its header costs as much as all of ATen, and whoever has such batches has included it
}

namespace fulgurite::libtorch {

template <class T>
concept TensorLike = std::is_base_of_v<at::Tensor, std::remove_cvref_t<T>>;

/// torch::nn::utils::rnn::PackedSequence, known by its members. Its tensors can only be read, so it is replaced as a
/// whole.
template <class T>
concept PackedSequenceLike = requires(T const& packed) {
  packed.data();
  packed.batch_sizes();
  packed.sorted_indices();
  packed.unsorted_indices();
};

/// A batch type may have a way of its own to move, `Batch to(torch::Device) const`, which is preferred to the walk.
template <class T>
concept MovesItself =
    std::is_class_v<T> && !TensorLike<T> && !PackedSequenceLike<T> && requires(T const& batch, at::Device device) {
      { batch.to(device) } -> std::convertible_to<T>;
    };

namespace walk {
template <class T>
inline constexpr bool is_example = false;
template <class D, class T>
inline constexpr bool is_example<torch::data::Example<D, T>> = true;

/// Containers that own their elements. A view does not, and through one a walk would write into what it looks at.
template <class T>
concept Container = requires(T& t) {
  typename T::allocator_type;
  typename T::value_type;
  t.begin();
  t.end();
};
using fulgurite::is_optional;
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T>
concept HanaStruct = std::is_class_v<T> && boost::hana::Struct<T>::value;

template <class T, std::size_t Depth>
consteval bool holds();

template <std::size_t Depth>
struct AnyOf {
  template <class... Fields>
  constexpr auto operator()(Fields&...) const
      -> std::bool_constant<(holds<std::remove_const_t<Fields>, Depth>() || ...)> {
    return {};
  }
};

}  // namespace walk

/// f(part) for each direct part of a batch: element, field, or what an optional holds. Nothing happens for a type that
/// cannot be looked into.
template <class T, class F>
void each_part(T& object, F&& f) {
  using B = std::remove_const_t<T>;
  if constexpr (walk::is_optional<B>) {
    if (object) f(*object);
  } else if constexpr (walk::is_example<B>) {
    f(object.data);
    if constexpr (requires { object.target; }) f(object.target);
  } else if constexpr (walk::Container<B> || std::is_bounded_array_v<B>) {
    for (auto& element : object) f(element);
  } else if constexpr (walk::TupleLike<B>) {
    std::apply([&](auto&... element) { (f(element), ...); }, object);
  } else if constexpr (walk::HanaStruct<B>) {
    boost::hana::unpack(boost::hana::accessors<B>(),
                        [&](auto... field) { (f(boost::hana::second(field)(object)), ...); });
  } else {
    aggregate::with_fields(object, [&](auto&... field) { (f(field), ...); });
  }
}

namespace walk {
template <class T, std::size_t... I, std::size_t Depth>
consteval bool tuple_holds(std::index_sequence<I...>, std::integral_constant<std::size_t, Depth>) {
  return (holds<std::remove_const_t<std::tuple_element_t<I, T>>, Depth>() || ...);
}

/// Whether values of type T can hold tensors. A type that contains itself is cut off at a depth, and said to.
template <class T, std::size_t Depth>
consteval bool holds() {
  if constexpr (TensorLike<T> || PackedSequenceLike<T> || MovesItself<T> || Depth == 0) return true;
  else if constexpr (!std::is_class_v<T> && !std::is_bounded_array_v<T>) return false;
  else if constexpr (is_optional<T> || Container<T>)
    return holds<std::remove_const_t<typename T::value_type>, Depth - 1>();
  else if constexpr (std::is_bounded_array_v<T>)
    return holds<std::remove_const_t<std::remove_extent_t<T>>, Depth - 1>();
  else if constexpr (is_example<T>) {
    if constexpr (std::is_void_v<typename T::TargetType>) return holds<typename T::DataType, Depth - 1>();
    else return holds<typename T::DataType, Depth - 1>() || holds<typename T::TargetType, Depth - 1>();
  } else if constexpr (TupleLike<T>) {
    return tuple_holds<T>(std::make_index_sequence<std::tuple_size_v<T>>{},
                          std::integral_constant<std::size_t, Depth - 1>{});
  } else if constexpr (HanaStruct<T>) {
    return decltype(boost::hana::unpack(boost::hana::accessors<T>(), [](auto... field) {
      return std::bool_constant<(
          holds<std::remove_cvref_t<decltype(boost::hana::second(field)(std::declval<T&>()))>, Depth - 1>() || ...)>{};
    }))::value;
  } else {
    return decltype(aggregate::with_fields(std::declval<T&>(), AnyOf<Depth - 1>{}))::value;
  }
}
}  // namespace walk

/// Whether a batch type can hold tensors at all. If it cannot, nothing is walked, copied or moved.
template <class T>
inline constexpr bool holds_tensors = walk::holds<std::remove_cvref_t<T>, 6>();

/// A class whose parts cannot be found, because of private members, base classes, or more fields than can be counted.
template <class T, class B = std::remove_cvref_t<T>>
inline constexpr bool hides_parts =
    std::is_class_v<B> && !std::is_empty_v<B> && !TensorLike<B> && !PackedSequenceLike<B> && !walk::is_optional<B> &&
    !walk::is_example<B> && !walk::Container<B> && !walk::TupleLike<B> && !walk::HanaStruct<B> &&
    aggregate::fields<B> == 0;
/// One that does not move itself either. It may hold tensors.
template <class T, class B = std::remove_cvref_t<T>>
inline constexpr bool is_opaque = hides_parts<B> && !MovesItself<B>;

/// f(tensor) for each defined tensor, in order of declaration or iteration.
template <class T, class F>
void each_tensor(T const& object, F&& f) {
  if constexpr (!holds_tensors<T>) {
  } else if constexpr (TensorLike<T>) {
    if (object.defined()) f(object);
  } else if constexpr (PackedSequenceLike<T>) {
    for (auto const* tensor :
         {&object.data(), &object.batch_sizes(), &object.sorted_indices(), &object.unsorted_indices()})
      if (tensor->defined()) f(*tensor);
  } else {
    each_part(object, [&](auto const& part) { each_tensor(part, f); });
  }
}

}  // namespace fulgurite::libtorch
