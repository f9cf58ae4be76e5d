#pragma once
// What was meant by a name that nobody knows.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fulgurite::cli {

/// How many letters have to be inserted, left out, exchanged or swapped with their neighbour to make one of the other
/// (Damerau and Levenshtein, no letter moved twice).
inline std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    last = now;
  }
  return last[b.size()];
}

/// The known name that is meant: one that begins so, else the nearest, by all of it or by what stands behind its last
/// point, as `max_epochs` of `trainer.max_epochs`; empty where none is near enough: a letter in three may be wrong.
inline std::string nearest(std::string_view name, std::vector<std::string> const& known) {
  std::string best;
  std::size_t least = std::string::npos;
  for (auto const& one : known)
    if (name.size() > 2 && one.starts_with(name)) return one;
  auto const tail = [](std::string_view whole) { return whole.substr(whole.rfind('.') + 1); };
  for (auto const& one : known)
    for (bool const whole : {true, false}) {
      if (!whole && name.find('.') != std::string_view::npos) continue;
      auto const against = whole ? std::string_view(one) : tail(one);
      auto const far = distance(name, against);
      if (far > std::max<std::size_t>(1, std::min(name.size(), against.size()) / 3) || far >= least) continue;
      least = far;
      best = one;
    }
  return best;
}

}  // namespace fulgurite::cli
