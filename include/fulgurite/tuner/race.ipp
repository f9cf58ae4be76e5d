#pragma once
// The bodies of tuner/race.hpp.

#include <cmath>
#include <limits>
#include <thread>

#include <fulgurite/core/error.hpp>
#include <fulgurite/tuner/race.hpp>

namespace fulgurite::tune {

FULGURITE_BODY int Standing::epochs() const { return static_cast<int>(curve.size()); }
FULGURITE_BODY bool Standing::has_value() const {
  return fate != Fate::failed && fate != Fate::not_started && value && !std::isnan(*value);
}

/// True if value `a` is better than `b`. NaN and nullopt rank last.
FULGURITE_BODY bool value_before(Mode mode, std::optional<double> a, std::optional<double> b) {
  bool const has_a = a && !std::isnan(*a), has_b = b && !std::isnan(*b);
  return has_a && (!has_b || watch::better(mode, *a, *b));
}

FULGURITE_BODY bool before(Mode mode, Standing const& a, Standing const& b) {
  auto const out = [](Standing const& s) {
    return s.has_value() ? 0 : s.fate == Fate::not_started ? 3 : s.fate == Fate::failed ? 2 : 1;
  };
  if (out(a) != out(b)) return out(a) < out(b);
  if (a.rungs != b.rungs) return a.rungs > b.rungs;
  bool const a_cut = a.fate == Fate::interrupted, b_cut = b.fate == Fate::interrupted;
  if (a_cut != b_cut) return b_cut;
  return value_before(mode, a.value, b.value);
}

FULGURITE_BODY void check(SweepOptions const& options) {
  int before = 0;
  for (int const rung : options.rungs) {
    if (rung <= before)
      throw Error("fulgurite.tune.rungs",
                  "rungs are numbers of epochs: the first must be above 0, and each above the one before "
                  "it; " +
                      std::to_string(rung) + " comes after " + std::to_string(before));
    before = rung;
  }
  if (!(options.keep > 0 && options.keep < 1))
    throw Error("fulgurite.tune.keep", ".keep = " + std::to_string(options.keep) +
                                           ": the fraction of members to keep must be above 0 and below 1");
  if (options.threads < 0)
    throw Error("fulgurite.tune.threads",
                ".threads = " + std::to_string(options.threads) + ": it must be at least 1, or 0 for all cores");
}

FULGURITE_BODY std::size_t threads_of(SweepOptions const& options, std::size_t members) {
  auto const cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::min(members, static_cast<std::size_t>(options.threads == 0 ? cores : options.threads));
}

FULGURITE_BODY Race::Race(std::size_t members, std::size_t threads, SweepOptions options)
    : options_(std::move(options)), free_(threads), members_(members) {}

FULGURITE_BODY void Race::end(int signal) {
  std::lock_guard const lock(mutex_);
  ended_ = true;
  signal_ = signal;
  changed_.notify_all();
}

FULGURITE_BODY int Race::signal() const {
  std::lock_guard const lock(mutex_);
  return signal_;
}

FULGURITE_BODY Standing Race::standing(std::size_t member) const {
  std::lock_guard const lock(mutex_);
  return members_[member].standing;
}

FULGURITE_BODY bool Race::has_ended(std::size_t member) const {
  std::lock_guard const lock(mutex_);
  return members_[member].at == At::ended;
}

FULGURITE_BODY bool Race::epoch_ended(std::size_t member, int epoch, std::optional<double> value, bool is_last) {
  std::unique_lock lock(mutex_);
  throw_if_ended();
  auto& own = members_[member];
  own.standing.value = value;
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  own.standing.curve.resize(static_cast<std::size_t>(epoch) + 1, none);
  own.standing.curve.back() = value.value_or(none);
  if (is_last || next_rung_ == options_.rungs.size() || own.standing.epochs() != options_.rungs[next_rung_])
    return true;
  if (!value)
    throw Error("fulgurite.tune.no_value", "the metric was not logged by the end of epoch " +
                                               std::to_string(own.standing.epochs()) +
                                               ", after which there is a rung: log it, or validate before");
  rest(own);
  own.at = At::waiting;
  judge_if_all_are_here();
  changed_.wait(lock, [&] { return ended_ || own.at == At::out || (own.at == At::ready && free_ > 0); });
  throw_if_ended();
  if (own.at == At::out) {
    // The member runs to the end of its fit, which only calls hooks, so no other member has to wait for it.
    own.at = At::running;
    own.standing.fate = Fate::left;
    own.holds_turn = false;
    own.began = Clock::now();
    return false;
  }
  --free_;
  own.at = At::running;
  own.began = Clock::now();
  return true;
}

FULGURITE_BODY Standing Race::ended(std::size_t member, Fate fate, std::string why) {
  std::lock_guard const lock(mutex_);
  auto& own = members_[member];
  if (own.at == At::running) rest(own);
  own.at = At::ended;
  if (own.standing.fate != Fate::left || fate == Fate::failed) own.standing.fate = fate;
  own.standing.why = std::move(why);
  judge_if_all_are_here();
  changed_.notify_all();
  return own.standing;
}

FULGURITE_BODY void Race::throw_if_ended() const {
  if (int const signal = CaughtSignals::caught()) throw Interrupted(signal);
  if (ended_) throw SweepEnded();
}

FULGURITE_BODY void Race::rest(Member& own) {
  own.standing.seconds += std::chrono::duration<double>(Clock::now() - own.began).count();
  if (std::exchange(own.holds_turn, true)) ++free_;
  changed_.notify_all();
}

FULGURITE_BODY bool Race::is_in_the_race(Member const& m) const {
  return m.standing.rungs == next_rung_ && (m.at == At::waiting || (m.at == At::ended && completed(m)));
}

FULGURITE_BODY bool Race::completed(Member const& m) { return m.standing.fate == Fate::completed; }

FULGURITE_BODY void Race::judge_if_all_are_here() {
  if (ended_ || next_rung_ == options_.rungs.size()) return;
  auto const on_its_way = [](Member const& m) {
    return m.at == At::start || m.at == At::ready || (m.at == At::running && m.standing.fate != Fate::left);
  };
  if (std::ranges::any_of(members_, on_its_way)) return;
  std::vector<std::size_t> here;
  for (std::size_t i = 0; i != members_.size(); ++i)
    if (is_in_the_race(members_[i])) here.push_back(i);
  std::ranges::sort(here, [&](std::size_t a, std::size_t b) {
    auto const of_a = members_[a].standing.value, of_b = members_[b].standing.value;
    auto const mode = options_.mode.mode;
    return value_before(mode, of_a, of_b) || (a < b && !value_before(mode, of_b, of_a));
  });
  // A third of 9 must be 3, although 9 times the double nearest to 1/3 may be less.
  auto const part = static_cast<std::size_t>(static_cast<double>(here.size()) * options_.keep + 1e-9);
  auto const kept = std::max<std::size_t>(1, part);
  ++next_rung_;
  for (std::size_t place = 0; place != here.size(); ++place) {
    auto& member = members_[here[place]];
    if (place < kept) ++member.standing.rungs;
    if (member.at == At::waiting) member.at = place < kept ? At::ready : At::out;
  }
  changed_.notify_all();
}

}  // namespace fulgurite::tune
