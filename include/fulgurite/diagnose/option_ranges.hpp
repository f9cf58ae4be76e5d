#pragma once
// What rules ask of single options: a bound, a range, a limit that is none.

#include <optional>

#include <fulgurite/loop/options.hpp>

namespace fulgurite::loop {

constexpr bool unlimited(auto const& value) { return !value || *value < 0; }
constexpr bool in_range(Limit const& limit) {
  return limit.kind == Limit::Kind::batches ? limit.batches >= 0 : limit.part >= 0.0 && limit.part <= 1.0;
}
constexpr bool in_range(ValidationInterval const& v) {
  return v.kind == ValidationInterval::Kind::batches ? v.batches >= 1
         : v.kind == ValidationInterval::Kind::time  ? v.time.count() > 0
                                                     : v.part > 0 && v.part <= 1;
}
template <class T>
constexpr bool least(std::optional<T> const& value, T bound) {
  return !value || *value >= bound;
}

}  // namespace fulgurite::loop
