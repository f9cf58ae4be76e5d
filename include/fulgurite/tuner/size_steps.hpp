#pragma once
// Which batch size is tried next, and which one is found: arithmetic alone.

#include <algorithm>
#include <limits>
#include <optional>

#include <fulgurite/tuner/batch_size_search.hpp>

namespace fulgurite::tune {

/// Asked for `next()`, told `fits()` or `fails()`, until there is no next size.
class SizeSteps {
 public:
  /// `most`: no size above it.
  template <class Model, class Data>
  SizeSteps(BatchSizeSearch<Model, Data> const& search, long most)
      : mode_(search.mode),
        max_trials_(search.max_trials),
        margin_(search.margin),
        most_(std::min(search.max_val, most)),
        size_(std::min(search.init_val, most_)) {}

  std::optional<long> next() const {
    bool const enough = (mode_ == power ? trials_ : fitted_) >= max_trials_;
    return over_ || enough ? std::nullopt : std::optional(size_);
  }
  /// There are so many samples, and no batch has more. Known when the first size is tried.
  void bound(long samples) {
    samples_ = samples;
    size_ = std::min(size_, samples);
  }
  long size() const { return size_; }

  void fits() {
    ++trials_;
    ++fitted_;
    low_ = size_;
    if (size_ >= samples_ || size_ >= most_) over_ = true;
    else if (mode_ == power || !high_) size_ = twice();
    else between();
  }
  void fails() {
    ++trials_;
    high_ = size_;
    if (mode_ == binsearch) return between();
    over_ = fitted_ > 0 || size_ == 1;
    size_ /= 2;
  }

  /// The largest that was tried and fitted, with binsearch and where memory has ended less the margin; nothing where no
  /// size fitted.
  std::optional<long> found() const {
    if (fitted_ == 0) return std::nullopt;
    if (mode_ == power || !high_) return low_;
    return std::max(1L, static_cast<long>(static_cast<double>(low_) * (1 - margin_)));
  }
  /// The smallest that did not fit.
  std::optional<long> high() const { return high_; }

 private:
  long twice() const { return std::min({size_ > most_ / 2 ? most_ : 2 * size_, samples_}); }
  void between() {
    long const low = std::max(1L, low_);
    if (*high_ - low > 1) size_ = (low + *high_) / 2;
    else if (low_ == 0 && *high_ > 1) size_ = 1;  // which was taken for one that fits
    else over_ = true;
  }

  SizeMode mode_;
  int max_trials_;
  double margin_;
  long most_, size_;
  long samples_ = std::numeric_limits<long>::max();
  long trials_ = 0, fitted_ = 0;
  long low_ = 0;  ///< the largest that fitted
  std::optional<long> high_ = std::nullopt;
  bool over_ = false;
};

}  // namespace fulgurite::tune
