#pragma once
// The bodies of callback/timer.hpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

#include <fulgurite/callback/timer.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

FULGURITE_BODY Timer::Timer(TimerOptions options) : options_(options) {
  if (!options.duration) return;
  double const seconds = options.duration->count();
  if (!(seconds >= 0))
    throw Error("fulgurite.callback.timer_duration",
                "Timer: `duration` must not be negative, got " + std::to_string(seconds) + " s");
  if (std::isfinite(seconds)) limit_ = options.duration;
}

FULGURITE_BODY Timer::Timer(TimeSpan duration, TimerOptions options)
    : Timer(TimerOptions{duration, options.interval, options.verbose}) {
  if (options.duration)
    throw Error("fulgurite.callback.timer_duration",
                "Timer: two durations are given: leave out the option .duration, or the first argument");
}

FULGURITE_BODY Timer::Seconds Timer::elapsed(Timed what) const { return Seconds(of(what).before + of(what).running); }

FULGURITE_BODY std::optional<Timer::Seconds> Timer::start_time(Timed what) const { return moment(of(what).began); }

FULGURITE_BODY std::optional<Timer::Seconds> Timer::end_time(Timed what) const { return moment(of(what).ended); }

FULGURITE_BODY std::optional<Timer::Seconds> Timer::remaining() const {
  if (!limit_) return std::nullopt;
  return std::max(Seconds(0), *limit_ - elapsed());
}

FULGURITE_BODY std::optional<Timer::Seconds> Timer::moment(std::optional<double> seconds) {
  return seconds ? std::optional(Seconds(*seconds)) : std::nullopt;
}

FULGURITE_BODY Timer::Clock& Timer::of(Timed what) { return clocks_[static_cast<std::size_t>(what)]; }

FULGURITE_BODY Timer::Clock const& Timer::of(Timed what) const { return clocks_[static_cast<std::size_t>(what)]; }

void Timer::state(auto& archive) {
  std::array<double, 3> spent{};
  for (std::size_t i = 0; i != 3; ++i) spent[i] = clocks_[i].before + clocks_[i].running;
  archive("elapsed", spent).option("duration", limit_);
  archive.option("interval", std::string(options_.interval == Interval::step ? "step" : "epoch"));
  if (archive.loading)
    for (std::size_t i = 0; i != 3; ++i)
      if (auto& clock = clocks_[i]; !clock.runs() && spent[i] != clock.before + clock.running)
        clock = {.before = spent[i]};
}
FULGURITE_STATE(Timer)

FULGURITE_BULK_BODY void Timer::on_train_batch_end(Context& ctx) {
  if (!limit_ || options_.interval != Interval::step || ctx.accumulating()) return;
  stop_when_spent(ctx);
}

FULGURITE_BODY void Timer::before_save(Context& ctx) {
  for (auto const what : {Timed::train, Timed::validate, Timed::test}) look(what, ctx);
}

FULGURITE_BODY void Timer::on_exception(Context& ctx) {
  for (auto const what : {Timed::train, Timed::validate, Timed::test})
    if (of(what).runs()) end(what, ctx);
}

FULGURITE_BODY void Timer::begin(Timed what, Context& ctx) {
  auto& clock = of(what);
  clock = {clock.before + clock.running, 0, ctx.seconds_now(), std::nullopt};
}

FULGURITE_BULK_BODY void Timer::look(Timed what, Context& ctx) {
  if (auto& clock = of(what); clock.runs()) clock.running = ctx.seconds_now() - *clock.began;
}

FULGURITE_BODY void Timer::end(Timed what, Context& ctx) {
  look(what, ctx);
  of(what).ended = ctx.seconds_now();
}

FULGURITE_BODY void Timer::stop_when_spent(Context& ctx) {
  look(Timed::train, ctx);
  if (!limit_ || elapsed() < *limit_) return;
  if (options_.verbose && !ctx.stop_requested() && ctx.rank() == 0)
    print_lines(stderr, "Timer: " + exact_number(elapsed().count()) + " s are used up, of " +
                            exact_number(limit_->count()) + ": training stops\n");
  // The stop is for this fit only: with a larger limit, the next fit trains on.
  ctx.request_stop_for_now("Timer: " + exact_number(limit_->count()) + " s are used up");
}

}  // namespace fulgurite
