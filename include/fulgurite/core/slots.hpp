#pragma once
// A pack of objects as indexed bases: empty ones cost nothing, access is a cast.

#include <cstddef>
#include <type_traits>
#include <utility>

namespace fulgurite {

/// One value of Slots; its position keeps two of the same type apart. An empty one takes no memory.
template <std::size_t I, class T>
struct Slot {
  [[no_unique_address]] T value;
};

template <class Indices, class... Ts>
struct IndexedSlots;

/// The type at a position.
#if defined(__has_builtin) && __has_builtin(__type_pack_element)
template <std::size_t I, class... Ts>
using TypeAt = __type_pack_element<I, Ts...>;
#else
// Only the base class is looked up: std::tuple_element makes the rest of the list anew at each position.
template <std::size_t I, class T>
std::type_identity<T> slot_type(Slot<I, T> const*);
template <std::size_t I, class... Ts>
using TypeAt =
    typename decltype(slot_type<I>(std::declval<IndexedSlots<std::index_sequence_for<Ts...>, Ts...> const*>()))::type;
#endif

template <std::size_t... I, class... Ts>
struct IndexedSlots<std::index_sequence<I...>, Ts...> : Slot<I, Ts>... {
  constexpr explicit IndexedSlots(Ts... values) : Slot<I, Ts>{std::move(values)}... {}
};

/// Callbacks live in one: `get<I>()` by position, `get<T>()` by type (each type occurs once; a rule sees to that).
template <class... Ts>
struct Slots : IndexedSlots<std::index_sequence_for<Ts...>, Ts...> {
  using Base = IndexedSlots<std::index_sequence_for<Ts...>, Ts...>;
  using Base::Base;
  static constexpr std::size_t size = sizeof...(Ts);
  template <std::size_t I>
  using Type = TypeAt<I, Ts...>;

  template <std::size_t I>
  [[gnu::always_inline]] constexpr Type<I>& get() {
    return static_cast<Slot<I, Type<I>>&>(*this).value;
  }

  template <class T>
  constexpr T& get() {
    return get<index_of<T>()>();
  }

  template <class T>
  static consteval std::size_t index_of() {
    std::size_t at = 0, found = size;
    ((std::is_same_v<T, Ts> ? void(found = at) : void(), ++at), ...);
    return found;
  }
};

}  // namespace fulgurite
