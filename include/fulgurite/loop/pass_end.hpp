#pragma once
// A pass over evaluation loaders that ends before their batches do: one that is tried out.

#include <fulgurite/hook/pack.hpp>

namespace fulgurite::loop {

/// The pack of a pass that is tried out, whose one callback has `ends_pass()`.
template <class Pack>
inline constexpr bool tries_pass_out = false;

/// No other batch of any loader follows.
template <class Callbacks>
bool ends_pass([[maybe_unused]] Callbacks& pack) {
  bool ends = false;
  if constexpr (tries_pass_out<Callbacks>) pack.each([&](auto& callback) { ends = callback.ends_pass(); });
  return ends;
}

}  // namespace fulgurite::loop
