#pragma once
// An axis of a plot: which values it can show, where each lies, and the numbers beside it.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <fulgurite/report/numbers.hpp>

namespace fulgurite::report {

/// How an axis is divided: in equal steps, in powers of ten, or in powers of two. The last two show positive values
/// alone.
enum class Scale { linear, log, log2 };

/// An axis by its name, "learning rate", and its scale.
struct Axis {
  std::string name{};
  Scale scale = Scale::linear;
};

namespace plot {

/// A number beside an axis; `at` is 0 at the axis' low end and 1 at its high end.
struct Tick {
  double at = 0;
  std::string text{};
};

/// "1e-05" as "1e-5", "1e+06" as "1e6".
inline std::string without_filling(std::string text) {
  auto const e = text.find('e');
  if (e == std::string::npos) return text;
  if (text[e + 1] == '+') text.erase(e + 1, 1);
  auto const digits = e + (text[e + 1] == '-' ? 2 : 1);
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

/// A number with so many digits behind its point, in any locale.
inline std::string fixed(double value, int digits, std::chars_format form = std::chars_format::fixed) {
  std::string text(400, '\0');
  auto const end = std::to_chars(text.data(), text.data() + text.size(), value, form, digits).ptr;
  text.resize(static_cast<std::size_t>(end - text.data()));
  return text;
}

/// m times 10 to the k, as precisely as a double can be.
inline double decimal(int m, int k) {
  std::string text = std::to_string(m);
  text += 'e';
  text += std::to_string(k);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The part of an axis that is shown, from the smallest to the largest value that it was given.
class Range {
 public:
  explicit Range(Scale scale) : scale_(scale) {}

  /// Whether the value has a place on this axis.
  bool shows(double value) const { return std::isfinite(value) && (scale_ == Scale::linear || value > 0); }
  /// Makes room for a value that this axis shows.
  void include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  /// Ends the choice of values. Leaves `margin` of the length free at both ends; an axis of one value, or of values
  /// that differ in their last digits, gets a length.
  void close(double margin) {
    if (low_ > high_) low_ = high_ = 1;
    double low = along(low_), high = along(high_);
    double const largest = std::max(std::abs(low), std::abs(high));
    if (high / 2 - low / 2 <= std::max(1e-9 * largest, 1e-290)) {
      double const more = scale_ != Scale::linear ? 0.5 : largest < 1e-290 ? 1 : 0.1 * largest;
      low -= more;
      high += more;
    }
    double const free = margin * high - margin * low;
    from_ = std::max(low - free, -std::numeric_limits<double>::max());
    to_ = std::min(high + free, std::numeric_limits<double>::max());
  }
  /// Where a value that this axis shows lies, from 0 to 1.
  double part(double value) const { return place(along(value)); }

  /// About `most` ticks at round values, from low to high.
  std::vector<Tick> ticks(int most) const {
    if (scale_ == Scale::linear) return linear(from_, to_, most);
    auto made = powers(most);
    return made.size() > 2 || to_ - from_ >= 2.5 ? made : linear(value_at(from_), value_at(to_), most);
  }

 private:
  double along(double value) const {
    return scale_ == Scale::linear ? value : scale_ == Scale::log ? std::log10(value) : std::log2(value);
  }
  double value_at(double along) const { return scale_ == Scale::log ? std::pow(10.0, along) : std::exp2(along); }
  double place(double along) const {
    // Halves, since the difference of the ends may be beyond the largest double.
    return std::clamp((along / 2 - from_ / 2) / (to_ / 2 - from_ / 2), 0.0, 1.0);
  }

  std::vector<Tick> powers(int most) const {
    int const first = static_cast<int>(std::ceil(from_ - 1e-9)), last = static_cast<int>(std::floor(to_ + 1e-9));
    std::vector<Tick> made;
    if (scale_ == Scale::log && to_ - from_ < 2.5 && most > 3) {  // too few powers of ten for an axis
      for (int k = first - 1; k <= last; ++k)
        for (int const m : {1, 2, 5})
          if (double const v = decimal(m, k); along(v) >= from_ - 1e-9 && along(v) <= to_ + 1e-9)
            made.push_back({part(v), without_filling(exact(v))});
      return made;
    }
    int stride = 1;
    for (int const each : {2, 3, 5, 10, 20, 50, 100, 200, 500})
      if ((last - first) / stride > most) stride = each;
    for (int k = first; k <= last; ++k)
      if (k % stride == 0) {
        double const v = scale_ == Scale::log ? decimal(1, k) : std::exp2(k);
        made.push_back({part(v), without_filling(exact(v))});
      }
    return made;
  }

  /// Multiples of 1, 2 or 5 times a power of ten.
  std::vector<Tick> linear(double low, double high, int most) const {
    double const raw = (high / std::max(1, most) - low / std::max(1, most));
    int exponent = static_cast<int>(std::floor(std::log10(raw)));
    double const digit = raw / decimal(1, exponent);
    int m = digit < 1.3 ? 1 : digit < 2.6 ? 2 : digit < 6.5 ? 5 : 10;
    if (m == 10) {
      m = 1;
      ++exponent;
    }
    double const step = decimal(m, exponent);
    double const first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
    double const largest = std::max(std::abs(low), std::abs(high));
    std::vector<Tick> made;
    for (double i = first; i <= last; ++i) {
      // Divided where the step is a fraction, so that three steps of 0.1 are 0.3.
      double const v = exponent < 0 && exponent > -300 ? i * m / decimal(1, -exponent) : i * step;
      made.push_back({part(v), i == 0                                ? "0"
                               : exponent > -6 && largest < 999999.5 ? fixed(v, std::max(0, -exponent))
                                                                     : powered(v, exponent)});
    }
    return made;
  }
  static std::string powered(double value, int last_digit) {
    int const first_digit = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
    return without_filling(fixed(value, std::clamp(first_digit - last_digit, 0, 16), std::chars_format::scientific));
  }

  Scale scale_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;  ///< values
  double from_ = 0, to_ = 1;                                             ///< along the scale
};

}  // namespace plot
}  // namespace fulgurite::report
