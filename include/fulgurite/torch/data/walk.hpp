#pragma once
// The only traversal of a batch's structure: it finds the tensors in whatever a loader yields. Moving, converting,
// counting and recording batches all use it.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/hana/accessors.hpp>
#include <boost/hana/concept/struct.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/unpack.hpp>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::aggregate {

// The fields of a plain struct that is not adapted: they are counted by brace initialization, and accessed by
// structured bindings.

inline constexpr std::size_t most_fields = 12;

/// Converts to the type of any field. The conversion is const, so that a converting constructor of the field (such as
/// that of std::optional) is preferred to it.
struct Anything {
  template <class T>
  operator T() const;  // declared only
};

/// Converts only to a base class of T. Detects whether an aggregate has base classes, whose fields structured bindings
/// do not reach.
template <class T>
struct AnyBaseOf {
  template <class B>
    requires(std::is_base_of_v<B, T> && !std::is_same_v<B, T>)
  operator B() const;
};

/// A type that only fields that take everything accept, such as std::any.
struct Unrelated {};

template <std::size_t>
using Any = Anything;

template <class T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires { T{Any<I>{}...}; };
}

/// True if braces can enclose the middle initializers: `T{before..., {inside...}, after...}`.
template <class T, std::size_t... B, std::size_t... I, std::size_t... A>
consteval bool takes_nested(std::index_sequence<B...>, std::index_sequence<I...>, std::index_sequence<A...>) {
  return requires { T{Any<B>{}..., {Any<I>{}...}, Any<A>{}...}; };
}

/// The number of initializers that T takes. Elements of an array member count one by one, since braces may be omitted.
/// most_fields + 1 means: too many.
template <class T, std::size_t N = most_fields + 1>
consteval std::size_t initializers() {
  if constexpr (N == 0) return 0;
  else if constexpr (takes<T>(std::make_index_sequence<N>{})) return N;
  else return initializers<T, N - 1>();
}

/// True if an array member of K elements begins at initializer I: braces around K of them fit, and leave room for
/// exactly the rest.
template <class T, std::size_t I, std::size_t K, std::size_t N>
consteval bool array_at() {
  constexpr auto before = std::make_index_sequence<I>{};
  constexpr auto inside = std::make_index_sequence<K>{};
  return takes_nested<T>(before, inside, std::make_index_sequence<N - I - K>{}) &&
         !takes_nested<T>(before, inside, std::make_index_sequence<N - I - K + 1>{});
}

template <class T, std::size_t N, std::size_t I = 0, std::size_t K = 2>
consteval bool has_array() {
  if constexpr (I + 2 > N) return false;
  else if constexpr (I + K > N) return has_array<T, N, I + 1, 2>();
  else if constexpr (array_at<T, I, K, N>()) return true;
  else return has_array<T, N, I, K + 1>();
}

template <class T>
consteval bool has_base() {
  return requires { T{AnyBaseOf<T>{}}; } && !requires { T{Unrelated{}}; };
}

template <class T>
consteval std::size_t count() {
  constexpr std::size_t n = initializers<T>();
  if constexpr (n == 0 || n > most_fields) return 0;
  else if constexpr (has_base<T>() || has_array<T, n>()) return 0;
  else return n;
}

/// The number of fields of a struct that structured bindings can access; 0 for types that are not aggregates, or have
/// base classes, array members or too many fields.
template <class T>
inline constexpr std::size_t fields = [] {
  if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_empty_v<T>) return count<T>();
  else return std::size_t{0};
}();

/// Calls `f(field...)` with all fields of the object, in order; without arguments if the fields cannot be accessed.
template <class T, class F>
constexpr decltype(auto) with_fields(T& object, F&& f) {
  constexpr std::size_t n = fields<std::remove_const_t<T>>;
  // clang-format off
  if constexpr (n == 0) { return f(); }
  else if constexpr (n == 1) { auto& [a] = object; return f(a); }
  else if constexpr (n == 2) { auto& [a, b] = object; return f(a, b); }
  else if constexpr (n == 3) { auto& [a, b, c] = object; return f(a, b, c); }
  else if constexpr (n == 4) { auto& [a, b, c, d] = object; return f(a, b, c, d); }
  else if constexpr (n == 5) { auto& [a, b, c, d, e] = object; return f(a, b, c, d, e); }
  else if constexpr (n == 6) { auto& [a, b, c, d, e, g] = object; return f(a, b, c, d, e, g); }
  else if constexpr (n == 7) { auto& [a, b, c, d, e, g, h] = object; return f(a, b, c, d, e, g, h); }
  else if constexpr (n == 8) { auto& [a, b, c, d, e, g, h, i] = object; return f(a, b, c, d, e, g, h, i); }
  else if constexpr (n == 9) { auto& [a, b, c, d, e, g, h, i, j] = object; return f(a, b, c, d, e, g, h, i, j); }
  else if constexpr (n == 10) { auto& [a, b, c, d, e, g, h, i, j, k] = object; return f(a, b, c, d, e, g, h, i, j, k); }
  // clang-format on
  else if constexpr (n == 11) {
    auto& [a, b, c, d, e, g, h, i, j, k, l] = object;
    return f(a, b, c, d, e, g, h, i, j, k, l);
  } else if constexpr (n == 12) {
    auto& [a, b, c, d, e, g, h, i, j, k, l, m] = object;
    return f(a, b, c, d, e, g, h, i, j, k, l, m);
  }
}

}  // namespace fulgurite::aggregate

namespace torch::data {
template <typename Data, typename Target>
struct Example;  // its header costs as much as all of ATen; programs with such batches include it
}

namespace fulgurite::libtorch {

template <class T>
concept TensorLike = std::is_base_of_v<at::Tensor, std::remove_cvref_t<T>>;

/// torch::nn::utils::rnn::PackedSequence, recognised by its members. Its tensors are read-only, so the whole is
/// replaced.
template <class T>
concept PackedSequenceLike = requires(T const& packed) {
  packed.data();
  packed.batch_sizes();
  packed.sorted_indices();
  packed.unsorted_indices();
};

/// A batch type may define its own move, `Batch to(torch::Device) const`, which is preferred to the traversal.
template <class T>
concept MovesItself =
    std::is_class_v<T> && !TensorLike<T> && !PackedSequenceLike<T> && requires(T const& batch, at::Device device) {
      { batch.to(device) } -> std::convertible_to<T>;
    };

namespace walk {
template <class T>
inline constexpr bool is_example = is_of<torch::data::Example, T>;

/// Containers that own their elements. Views are excluded, since writing through one would change the viewed object.
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

/// The types of the direct parts of a T, as each_part finds them; none if its fields cannot be accessed.
template <class... Parts>
struct Types {};
struct TypesOfFields {
  template <class... Fields>
  constexpr auto operator()(Fields&...) const -> Types<std::remove_const_t<Fields>...> {
    return {};
  }
};
template <class T>
using FieldTypes = decltype(aggregate::with_fields(std::declval<T&>(), TypesOfFields{}));

/// True for a T with parts of its own: elements, or the content of an optional or an example.
template <class T>
concept HasElements = is_optional<T> || is_example<T> || Container<T> || std::is_bounded_array_v<T> || TupleLike<T>;
template <HasElements T>
consteval auto element_types() {
  if constexpr (is_optional<T> || Container<T>) return Types<std::remove_const_t<typename T::value_type>>{};
  else if constexpr (std::is_bounded_array_v<T>) return Types<std::remove_const_t<std::remove_extent_t<T>>>{};
  else if constexpr (!is_example<T>)
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return Types<std::remove_const_t<std::tuple_element_t<I, T>>...>{};
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  else if constexpr (std::is_void_v<typename T::TargetType>) return Types<typename T::DataType>{};
  else return Types<typename T::DataType, typename T::TargetType>{};
}
template <class T>
consteval auto part_types() {
  if constexpr (HasElements<T>) return element_types<T>();
  else if constexpr (HanaStruct<T>)
    return decltype(boost::hana::unpack(boost::hana::accessors<T>(), [](auto... field) {
      return Types<std::remove_cvref_t<decltype(boost::hana::second(field)(std::declval<T&>()))>...>{};
    })){};
  else return FieldTypes<T>{};
}

/// True if values of type T can hold tensors. The recursion into a type that contains itself stops at Depth, with true.
template <class T, std::size_t Depth>
consteval bool holds() {
  if constexpr (TensorLike<T> || PackedSequenceLike<T> || MovesItself<T> || Depth == 0) return true;
  else if constexpr (!std::is_class_v<T> && !std::is_bounded_array_v<T>) return false;
  else return []<class... Parts>(Types<Parts...>) { return (holds<Parts, Depth - 1>() || ...); }(part_types<T>());
}

}  // namespace walk

/// Calls `f(part)` for each direct part of a batch: element, field, or content of an optional. Does nothing for a type
/// whose fields cannot be accessed.
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

/// True if a batch type can hold tensors at all. If not, nothing is traversed, copied or moved.
template <class T>
inline constexpr bool holds_tensors = walk::holds<std::remove_cvref_t<T>, 6>();

/// True for a class whose parts cannot be found, because of private members, base classes, or too many fields.
template <class T, class B = std::remove_cvref_t<T>>
inline constexpr bool hides_parts =
    std::is_class_v<B> && !std::is_empty_v<B> && !TensorLike<B> && !PackedSequenceLike<B> && !walk::is_optional<B> &&
    !walk::is_example<B> && !walk::Container<B> && !walk::TupleLike<B> && !walk::HanaStruct<B> &&
    aggregate::fields<B> == 0;
/// True for a class with hidden parts that does not move itself either. It may hold tensors.
template <class T, class B = std::remove_cvref_t<T>>
inline constexpr bool is_opaque = hides_parts<B> && !MovesItself<B>;

/// Calls `f(tensor)` for each defined tensor, in order of declaration or iteration.
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

// Moves a batch to a device and converts its floating-point tensors, in every container that the traversal knows.

/// Replaces every tensor of the object by its copy on the device.
template <class T>
void move_in_place(T& object, at::Device device) {
  static_assert(!std::is_const_v<T> || !holds_tensors<T>,
                "a const member or key of this batch holds a tensor, which cannot be replaced");
  if constexpr (std::is_const_v<T>) {
  } else if constexpr (MovesItself<T>) {
    object = object.to(device);
  } else if constexpr (!holds_tensors<T>) {
  } else if constexpr (TensorLike<T>) {
    object = to_device(object, device);
  } else if constexpr (PackedSequenceLike<T>) {
    object = object.to(device);
  } else {
    each_part(object, [&](auto& part) { move_in_place(part, device); });
  }
}

/// Replaces every floating-point tensor of the object by one of the given type.
template <class T>
void convert_in_place(T& object, at::ScalarType type) {
  if constexpr (!holds_tensors<T> || std::is_const_v<T>) {
  } else if constexpr (TensorLike<T>) {
    if (object.defined() && object.is_floating_point() && object.scalar_type() != type) object = object.to(type);
  } else if constexpr (PackedSequenceLike<T>) {
    if (object.data().is_floating_point() && object.data().scalar_type() != type) object = object.to(type);
  } else {
    each_part(object, [&](auto& part) { convert_in_place(part, type); });
  }
}

/// The batch that is changed and returned: a copy of its handles, so that the loader's batch stays as it is. A batch
/// that cannot be copied is changed in place.
template <class B>
using Changed = std::conditional_t<std::is_constructible_v<std::remove_cvref_t<B>, B>, std::remove_cvref_t<B>, B>;

/// The batch on the device. If its type cannot hold tensors, the given reference is returned.
template <class B>
auto moved(B&& batch, at::Device device) -> std::conditional_t<holds_tensors<B>, Changed<B>, B> {
  if constexpr (!holds_tensors<B>) return std::forward<B>(batch);
  else {
    Changed<B> result(std::forward<B>(batch));
    move_in_place(result, device);
    return result;
  }
}

/// The batch with its floating-point tensors in the type of the precision. For Float32 and the mixed precisions it is
/// the batch itself.
template <class B, class Precision>
auto convert_input(B&& batch, Precision const&)
    -> std::conditional_t<converts_inputs<Precision> && holds_tensors<B>, Changed<B>, B> {
  if constexpr (converts_inputs<Precision> && holds_tensors<B>) {
    Changed<B> result(std::forward<B>(batch));
    convert_in_place(result, scalar_type(Precision::parameters));
    return result;
  } else {
    return std::forward<B>(batch);
  }
}

/// The weight of this batch in a mean over batches: `batch.batch_size()`, or `batch_size(batch)` found by ADL,
/// otherwise the first extent of the first tensor (1 for a scalar, the number of sequences for a PackedSequence); 0 if
/// there is no tensor.
template <class B>
long batch_extent(B const& batch) {
  if constexpr (requires {
                  { batch.batch_size() } -> std::convertible_to<long>;
                })
    return static_cast<long>(batch.batch_size());
  else if constexpr (requires {
                       { batch_size(batch) } -> std::convertible_to<long>;
                     })
    return static_cast<long>(batch_size(batch));
  else if constexpr (!holds_tensors<B>) return 0;
  else if constexpr (TensorLike<B>)
    return !batch.defined() ? 0 : batch.dim() == 0 ? 1 : static_cast<long>(batch.size(0));
  else if constexpr (PackedSequenceLike<B>) {
    auto const& sizes = batch.batch_sizes();  // always on the CPU
    return sizes.defined() && sizes.numel() != 0
               ? static_cast<long>(*static_cast<std::int64_t const*>(sizes.const_data_ptr()))
               : 0;
  } else {
    long found = 0;
    each_part(batch, [&](auto const& part) {
      if (found == 0) found = batch_extent(part);
    });
    return found;
  }
}

// Truncated back-propagation on LibTorch: slices batches along time, and detaches the state that is passed from one
// slice to the next.

namespace slicing {

/// A list of sequences; each is sliced along its first dimension.
template <class T>
concept Sequences = walk::Container<T> && TensorLike<typename T::value_type>;

[[noreturn]] inline void refuse(std::string const& why) {
  throw Error("fulgurite.data.time",
              why + ": give the model `tbptt_split_batch(batch, k, ctx)`, which cuts it as you mean");
}

/// The number of time steps in a batch: dimension 1 of its tensors, dimension 0 of the sequences in a list. All must
/// agree. -1 means that there is nothing to slice.
template <class T>
void measure(T const& part, std::int64_t& steps) {
  auto const agree = [&](std::int64_t found) {
    if (steps >= 0 && steps != found)
      throw Error("fulgurite.data.time", "a batch has parts of " + std::to_string(steps) + " and of " +
                                             std::to_string(found) +
                                             " time steps: all must have as many, pad or sort them");
    steps = found;
  };
  if constexpr (TensorLike<T>) {
    if (!part.defined()) return;
    if (part.dim() < 2) refuse("a tensor of " + std::to_string(part.dim()) + " dimensions has no time in dimension 1");
    agree(part.size(1));
  } else if constexpr (PackedSequenceLike<T>) {
    refuse("a PackedSequence cannot be cut along time");
  } else if constexpr (Sequences<T>) {
    for (auto const& sequence : part) {
      if (sequence.dim() == 0) refuse("a sequence without a dimension has no time");
      agree(sequence.size(0));
    }
  } else if constexpr (holds_tensors<T>) {
    each_part(part, [&](auto const& inner) { measure(inner, steps); });
  }
}

template <class T>
void cut(T& part, std::int64_t from, std::int64_t count) {
  if constexpr (TensorLike<T>) {
    if (part.defined()) part = part.narrow(1, from, count);
  } else if constexpr (Sequences<T>) {
    for (auto& sequence : part) sequence = sequence.narrow(0, from, count);
  } else if constexpr (holds_tensors<T> && !PackedSequenceLike<T>) {
    each_part(part, [&](auto& inner) { cut(inner, from, count); });
  }
}

}  // namespace slicing

/// Slices of `length` time steps; the last one may be shorter. They are views of the batch; nothing is copied. A tensor
/// (batch, time, ...) is sliced along dimension 1, each sequence of a list along dimension 0. Throws
/// fulgurite.data.time if lengths differ or there is no time dimension.
template <class Batch>
std::vector<std::remove_const_t<Batch>> time_slices(Batch const& batch, long length) {
  std::int64_t steps = -1;
  slicing::measure(batch, steps);
  std::vector<std::remove_const_t<Batch>> slices;
  for (std::int64_t from = 0; from < steps; from += length) {
    slices.push_back(batch);
    slicing::cut(slices.back(), from, std::min<std::int64_t>(length, steps - from));
  }
  return slices;
}

template <class T>
void detach_in_place(T& part) {
  if constexpr (TensorLike<T>) {
    if (part.defined()) part = part.detach();
  } else if constexpr (holds_tensors<T>) {
    each_part(part, [](auto& inner) { detach_in_place(inner); });
  }
}

/// The state that one slice passes to the next, detached from its graph.
template <class Hidden>
Hidden detached_state(Hidden const& hidden) {
  Hidden state = hidden;
  detach_in_place(state);
  return state;
}

}  // namespace fulgurite::libtorch
