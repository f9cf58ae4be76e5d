#pragma once
// How much of a loader a loop takes, and how often validation runs.

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/time_text.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>

namespace fulgurite {

/// A span of time, as an option takes it: `.max_time = "00:12:00:00"` (days, hours, minutes, seconds), `Seconds{90}`,
/// or any duration of std::chrono, such as 2h. Another text is an Error.
struct TimeSpan : Seconds {
  template <class Rep, class Period>
  constexpr TimeSpan(std::chrono::duration<Rep, Period> time) : Seconds(time) {}
  template <std::convertible_to<std::string_view> Text>
  constexpr TimeSpan(Text const& days_hours_minutes_seconds) : Seconds(time_of(days_hours_minutes_seconds)) {}
};

/// A number of batches: `.limit_train_batches = Batches{10}`; a plain integer means the same.
struct Batches {
  long count;
};

/// A part of a loader, in [0, 1]: `.val_check_interval = Fraction{0.25}` validates four times an epoch.
struct Fraction {
  double part;
};

namespace loop {
template <class T>
inline constexpr bool is_plain_fraction = std::floating_point<T>;
/// true would be one batch, and is mostly meant as all of them.
template <class T>
inline constexpr bool is_truth = std::same_as<T, bool>;
template <class T>
consteval void refuse_truth() {
  static_assert(!is_truth<T>, FULGURITE_SENTENCE_OPTIONS_LIMIT_TRUTH);
}
/// 0.5 is a part and 10.0 perhaps a count: the number alone does not tell.
template <class T>
consteval void refuse_plain_fraction() {
  static_assert(!is_plain_fraction<T>, FULGURITE_SENTENCE_OPTIONS_PLAIN_FRACTION);
}
}  // namespace loop

/// A count or a part of a loader; the default is all of it, 0 disables the loop.
struct Limit {
  enum class Kind : std::uint8_t { fraction, batches };
  Kind kind = Kind::fraction;
  long batches = 0;
  double part = 1.0;

  constexpr Limit() = default;
  template <std::integral I>
  constexpr Limit(I count) : Limit(Batches{static_cast<long>(count)}) {
    loop::refuse_truth<I>();
  }
  constexpr Limit(Batches count) : kind(Kind::batches), batches(count.count) {}
  constexpr Limit(Fraction of) : part(of.part) {}
  template <std::floating_point F>
  constexpr Limit(F) {
    loop::refuse_plain_fraction<F>();
  }

  constexpr bool all() const { return kind == Kind::fraction && part == 1.0; }
  constexpr bool none() const { return kind == Kind::fraction ? part == 0.0 : batches == 0; }
};

/// When validation runs inside an epoch: every so many batches, after each part of an epoch, or after so much time.
struct ValidationInterval {
  enum class Kind : std::uint8_t { fraction, batches, time };
  Kind kind = Kind::fraction;
  long batches = 0;
  double part = 1.0;
  Seconds time{};

  constexpr ValidationInterval() = default;
  template <std::integral I>
  constexpr ValidationInterval(I count) : ValidationInterval(Batches{static_cast<long>(count)}) {
    loop::refuse_truth<I>();
  }
  constexpr ValidationInterval(Batches count) : kind(Kind::batches), batches(count.count) {}
  constexpr ValidationInterval(Fraction of) : part(of.part) {}
  template <class Rep, class Period>
  constexpr ValidationInterval(std::chrono::duration<Rep, Period> every) : kind(Kind::time), time(every) {}
  /// "00:00:15:00": days, hours, minutes, seconds.
  template <std::convertible_to<std::string_view> Text>
  constexpr ValidationInterval(Text const& every) : kind(Kind::time), time(time_of(every)) {}
  template <std::floating_point F>
  constexpr ValidationInterval(F) {
    loop::refuse_plain_fraction<F>();
  }

  constexpr bool epoch_end() const { return kind == Kind::fraction && part == 1.0; }
};

}  // namespace fulgurite
