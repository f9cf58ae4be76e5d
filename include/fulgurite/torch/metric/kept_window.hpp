#pragma once
// The last values of a metric, in one tensor on their device.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/meter.hpp>
#include <fulgurite/torch/metric/scope.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

/// The newest stands at the end. Over ranks a window is that of each, and the sums are added.
class KeptWindow {
 public:
  using Scope = MetricScope;

  template <class D>
  explicit KeptWindow(D const& definition) : window_(definition.window) {}

  /// Adds one value or several, [values].
  FULGURITE_BULK void add(at::Tensor more) {
    more = more.detach().to(at::kDouble);
    if (!values_.defined()) {
      values_ = last(more).clone();
      return;
    }
    meet(values_, more);
    values_ = last(at::cat({values_, more})).clone();
  }

  /// The sum of the values, and how many they are.
  std::vector<double> numbers() const {
    double sum = 0;
    auto const values = values_.defined() ? host_numbers(values_) : std::vector<double>();
    for (double const value : values) sum += value;
    return {sum, static_cast<double>(values.size())};
  }
  template <class Ranks>
  std::vector<double> numbers_of_all(Ranks& ranks, long& updates) const {
    auto sums = numbers();
    metric::combine_over_ranks(ranks, sums, {}, updates);
    return sums;
  }
  void reset() { values_.reset(); }
  void merge(KeptWindow const& other) {
    if (other.values_.defined()) add(other.values_);
  }
  void state(auto& archive) {
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) values_.reset();
    archive.tensor("values", values_);
  }

 private:
  at::Tensor last(at::Tensor const& values) const {
    return values.slice(0, std::max<std::int64_t>(0, values.size(0) - window_));
  }

  std::int64_t window_;
  at::Tensor values_ = {};
};

}  // namespace fulgurite::libtorch
