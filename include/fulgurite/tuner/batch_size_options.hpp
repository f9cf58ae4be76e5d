#pragma once
// What a search for a batch size is told.

#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <typeindex>
#include <typeinfo>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/loop/batch_sizes.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite::tune {

/// How a size follows from the one before. `power`: twice as large until memory ends, then the last that fitted.
/// `binsearch`: the same, then halves of what lies between the largest that fitted and the smallest that did not.
enum class SizeMode : std::uint8_t { power, binsearch };
using enum SizeMode;

/// Whose loaders are tried.
enum class Method : std::uint8_t { fit, validate, test, predict };
using enum Method;

/// Where a batch size is kept from which loaders are made: a member of the model or of the data module. Any member
/// pointer to an integer, `&Net::batch_size` or `&Data::batch_size`.
class SizeField {
 public:
  SizeField() = default;
  template <class T, class C>
  SizeField(T C::* field) : holder_(typeid(C)), most_(most_of<T>()) {
    read_ = [field](void const* object) { return static_cast<long>(static_cast<C const*>(object)->*field); };
    write_ = [field](void* object, long size) { static_cast<C*>(object)->*field = static_cast<T>(size); };
  }
  bool is_given() const { return write_ != nullptr; }
  std::type_index holder() const { return holder_; }
  /// The largest number that the field can hold.
  long most() const { return most_; }
  long read(void const* object) const { return read_(object); }
  void write(void* object, long size) const { write_(object, size); }

  template <class T>
  static constexpr bool is_count = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_const_v<T>;

 private:
  template <class T>
  static constexpr long most_of() {
    if constexpr (!is_count<T>) {
      constexpr bool a_count = is_count<T>;
      static_assert(a_count, "[fulgurite.tuner.size_type] a batch size is written into this field, which is no integer "
                             "that can be written to: give a member like `long batch_size = 2;`");
      return 0;
    } else if constexpr (sizeof(T) < sizeof(long) || std::is_signed_v<T>) {
      return static_cast<long>(std::numeric_limits<T>::max());
    } else {
      return std::numeric_limits<long>::max();
    }
  }

  std::type_index holder_ = typeid(void);
  long most_ = std::numeric_limits<long>::max();
  std::function<long(void const*)> read_ = nullptr;
  std::function<void(void*, long)> write_ = nullptr;
};

/// An aggregate: `{.mode = tune::binsearch, .field = &Data::batch_size}`.
struct BatchSizeOptions {
  SizeMode mode = SizeMode::power;
  long init_val = 2;         ///< the first size
  int max_trials = 25;       ///< with binsearch: trials that fitted
  long steps_per_trial = 3;  ///< optimizer steps; of evaluations: batches
  long max_val = 8192;       ///< no size above it; with power it is not tried itself
  double margin = 0.05;      ///< binsearch: the part that is taken off again where memory has ended
  SizeField field = {};      ///< not given: the loader's own size, or the data module's
  bool show = true;          ///< a line for each trial
  std::FILE* stream = stderr;
};

inline void check(BatchSizeOptions const& options) {
  auto const at_least = [](char const* name, long value, long least) {
    if (value < least)
      loop::refuse_option("fulgurite.tuner.batch_size_option", name, value, "it is at least " + std::to_string(least));
  };
  at_least(".init_val", options.init_val, 1);
  at_least(".max_trials", options.max_trials, 0);
  at_least(".steps_per_trial", options.steps_per_trial, 1);
  at_least(".max_val", options.max_val, options.init_val);
  if (!(options.margin >= 0 && options.margin < 1))
    loop::refuse_option("fulgurite.tuner.batch_size_option", ".margin", options.margin, "it is a part, from 0 to below 1");
}

}  // namespace fulgurite::tune
