#pragma once
// Numbers and answers that several processes come to together. They are folded in the order of ranks, on each of them
// alike, so that all have the same bits whoever carries the messages.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/distributed/group.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::distributed {

/// True on all ranks if any rank says so.
inline bool agree(Group& group, bool any) {
  for (auto const& said : group.exchange(any ? "1" : "0", "agreeing"))
    if (said == "1") return true;
  return false;
}

/// Two numbers reduced to one. A mean is summed here; fold_all divides it when all ranks are in.
template <class Number>
Number fold(Number so_far, Number next, Reduce how) {
  switch (how) {
  case Reduce::min: return std::min(so_far, next);
  case Reduce::max: return std::max(so_far, next);
  default: return so_far + next;
  }
}

/// Values of one kind, folded position by position. A mean of whole numbers is cut.
template <class Number>
void fold_all(Group& group, std::span<Number> values, auto const& how) {
  std::string_view const mine(reinterpret_cast<char const*>(values.data()), values.size_bytes());
  auto const said = group.exchange(mine, "reducing " + std::to_string(values.size()) + " numbers");
  for (std::size_t rank = 0; rank != said.size(); ++rank)
    for (std::size_t i = 0; i != values.size(); ++i) {
      Number number{};
      std::memcpy(&number, said[rank].data() + i * sizeof(Number), sizeof(Number));
      values[i] = rank == 0 ? number : fold(values[i], number, how(i));
    }
  for (std::size_t i = 0; i != values.size(); ++i)
    if (how(i) == Reduce::mean) values[i] /= static_cast<Number>(said.size());
}

/// A number, or a span of doubles in place.
template <class V>
V reduce(Group& group, V value, Reduce how) {
  auto const same = [how](std::size_t) { return how; };
  if constexpr (std::is_same_v<V, std::span<double>>) {
    fold_all(group, value, same);
    return value;
  } else if constexpr (std::is_integral_v<V>) {
    auto number = static_cast<std::int64_t>(value);
    fold_all(group, std::span(&number, 1), same);
    return static_cast<V>(number);
  } else {
    auto number = static_cast<double>(value);
    fold_all(group, std::span(&number, 1), same);
    return static_cast<V>(number);
  }
}

/// Several numbers, each in its own way, in one message.
inline void reduce_in_place(Group& group, std::span<double> values, std::span<Reduce const> how) {
  fold_all(group, values, [how](std::size_t i) { return how[i]; });
}

}  // namespace fulgurite::distributed
