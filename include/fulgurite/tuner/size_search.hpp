#pragma once
// Which batch size is tried next, and which one is found: arithmetic alone.

#include <algorithm>
#include <limits>
#include <optional>

#include <fulgurite/tuner/batch_size_options.hpp>

namespace fulgurite::tune {

/// Asked for `next()`, told `fits()` or `fails()`, until there is no next size.
class SizeSearch {
 public:
  /// `most`: no size above it.
  SizeSearch(BatchSizeOptions const& options, long most)
      : options_(options), most_(std::min(options.max_val, most)), size_(std::min(options.init_val, most_)) {}

  std::optional<long> next() const {
    bool const enough = options_.mode == power ? trials_ >= options_.max_trials || size_ >= most_
                                               : fitted_ >= options_.max_trials;
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
    if (size_ >= samples_ || (options_.mode == binsearch && !high_ && size_ >= most_)) over_ = true;
    else if (options_.mode == power) {
      if (trials_ < options_.max_trials) size_ = twice();
    } else if (fitted_ < options_.max_trials) {
      if (!high_) size_ = twice();
      else between();
    }
  }
  void fails() {
    ++trials_;
    high_ = size_;
    if (options_.mode == binsearch) return between();
    over_ = fitted_ > 0 || size_ == 1;
    size_ = fitted_ > 0 ? low_ : size_ / 2;
  }

  /// Nothing where no size fitted. With power it may be one that was not tried: the first above a limit, or, with no
  /// trial at all, the first of all.
  std::optional<long> found() const {
    if (trials_ == 0) return size_;
    if (fitted_ == 0) return std::nullopt;
    if (options_.mode == power) return size_;
    if (!high_) return low_;
    return std::max(1L, static_cast<long>(static_cast<double>(low_) * (1 - options_.margin)));
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

  BatchSizeOptions options_;
  long most_, size_;
  long samples_ = std::numeric_limits<long>::max();
  long trials_ = 0, fitted_ = 0;
  long low_ = 0;  ///< the largest that fitted
  std::optional<long> high_ = std::nullopt;
  bool over_ = false;
};

}  // namespace fulgurite::tune
