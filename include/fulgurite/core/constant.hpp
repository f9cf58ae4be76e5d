#pragma once
// What a class says of itself as a constant: `static constexpr TYPE NAME = ...`.

#include <string_view>
#include <type_traits>

// Whether class C says NAME, as a value of TYPE or as a text. A data member of such a name means something else; it is
// asked for first, since g++ 12 takes the question for its value for an error. Macros, since a name cannot be passed
// on.
#define FULGURITE_SAYS(C, TYPE, NAME)                                                                                  \
  requires {                                                                                                           \
    requires !std::is_member_pointer_v<decltype(&C::NAME)>;                                                            \
    typename std::integral_constant<TYPE, C::NAME>;                                                                    \
  }
#define FULGURITE_SAYS_TEXT(C, NAME)                                                                                   \
  requires {                                                                                                           \
    requires !std::is_member_pointer_v<decltype(&C::NAME)>;                                                            \
    typename std::bool_constant<std::string_view(C::NAME).empty()>;                                                    \
  }
