#pragma once
// What can neither be copied nor moved, made where it is to stay.

#include <utility>

namespace fulgurite::loop {

/// `std::optional<Scope> scope; scope.emplace(InPlace{[] { return Scope(...); }});`
template <class F>
struct InPlace {
  F make;
  operator decltype(std::declval<F&>()())() { return make(); }
};
template <class F>
InPlace(F) -> InPlace<F>;

}  // namespace fulgurite::loop
