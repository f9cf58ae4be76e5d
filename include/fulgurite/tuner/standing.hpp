#pragma once
// Where a member of a sweep stands: its curve, how it ended, and who is before whom.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/mode.hpp>

namespace fulgurite::tune {

/// How a member ended.
enum class Fate : std::uint8_t {
  completed,    ///< its trainer ended the fit
  left,         ///< at a rung others were better
  interrupted,  ///< the sweep was ended by a signal, while it trained or waited
  failed,       ///< by an exception
  not_started,  ///< the sweep ended first
};

/// As tables show it.
constexpr std::string_view name_of(Fate fate) {
  switch (fate) {
  case Fate::completed: return "completed";
  case Fate::left: return "left";
  case Fate::interrupted: return "interrupted";
  case Fate::failed: return "failed";
  default: return "not started";
  }
}

/// What is known of a member.
struct Standing {
  Fate fate = Fate::not_started;
  std::size_t rungs = 0;             ///< at how many it was among those that go on
  std::optional<double> value = {};  ///< the metric, as of its last epoch
  std::vector<double> curve = {};    ///< the metric after each of its epochs; NaN before it had a value
  double seconds = 0;                ///< in which it trained
  std::string why = {};              ///< what the exception said, where it failed

  int epochs() const { return static_cast<int>(curve.size()); }
};

/// Whether value `a` is before `b`: none is last, and so is what is no number.
inline bool value_before(Mode mode, std::optional<double> a, std::optional<double> b) {
  bool const has_a = a && !std::isnan(*a), has_b = b && !std::isnan(*b);
  return has_a && (!has_b || watch::better(mode, *a, *b));
}

/// Whether `a` comes before `b` in a table. Members that failed or never began come last; then who came further comes
/// first, since a value after 9 epochs does not compare with one after 1; then who was not interrupted; then the
/// value decides.
inline bool before(Mode mode, Standing const& a, Standing const& b) {
  auto const out = [](Standing const& s) { return s.fate == Fate::not_started ? 2 : s.fate == Fate::failed ? 1 : 0; };
  if (out(a) != out(b)) return out(a) < out(b);
  if (a.rungs != b.rungs) return a.rungs > b.rungs;
  bool const a_cut = a.fate == Fate::interrupted, b_cut = b.fate == Fate::interrupted;
  if (a_cut != b_cut) return b_cut;
  return value_before(mode, a.value, b.value);
}

}  // namespace fulgurite::tune
