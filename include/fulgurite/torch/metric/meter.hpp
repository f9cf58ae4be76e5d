#pragma once
// Metrics on LibTorch's tensors: `Meter accuracy{Accuracy{.num_classes = 10}}`. Includes the tally functions of the
// library's metrics.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <c10/core/InferenceMode.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/formulas.hpp>
#include <fulgurite/metric/meter.hpp>

namespace fulgurite {
namespace libtorch {

// What MeanMetric, MinMax and MeanOfLast use of a value.

/// A tensor, or a host number.
template <class V>
concept TensorOrNumber = std::is_arithmetic_v<V> || std::same_as<V, at::Tensor>;

at::Tensor as_tensor(double value);
at::Tensor as_tensor(at::Tensor const& value);

void require_values(at::Tensor const& value, std::string_view who);

/// Returns [sum, number of terms].
at::Tensor sum_and_count(at::Tensor const& terms);

// The modes in which a metric is updated: no gradients, and no inference mode.

/// A metric keeps normal tensors, even if an evaluation runs in inference mode, so that a later epoch may write to
/// them.
class MetricScope : Pinned {
 public:
  MetricScope() = default;
  /// Throws in a recording: a metric that the recorder does not know would not be updated when the step is replayed.
  static void refuse_recording();

 private:
  c10::InferenceMode const normal_{false};
  at::NoGradGuard const no_graph_;  // after normal_, which turns gradients on
};

/// Moves one tensor to the device of the other. A kept tensor that was loaded from a file to the CPU moves to the
/// device of the tensor that is added; an added host number moves to the device of the sums. Neither waits for the
/// device.
void meet(at::Tensor& kept, at::Tensor& added);

// The samples of a metric that sums cannot compute, such as the scores for a curve.

/// Copies of rows, which stay on their device until compute() reads them. Copies are needed since a loader may reuse
/// the memory of a batch.
class KeptSamples {
 public:
  using Scope = MetricScope;

  explicit KeptSamples(auto const& definition) : width_(static_cast<std::int64_t>(definition.width())) {}

  /// Adds rows [samples, width].
  void add(at::Tensor const& rows);

  std::vector<double> numbers() const;
  std::vector<double> numbers_of_all(auto& ranks, long& updates) const {
    auto samples = numbers();
    metric::join_over_ranks(ranks, samples, updates);
    return samples;
  }
  void reset() { parts_.clear(); }
  void merge(KeptSamples const& other);
  void state(auto& archive);

 private:
  /// All rows as one tensor, on the device of the latest row.
  at::Tensor together() const;

  std::int64_t width_;
  std::vector<at::Tensor> parts_ = {};
};

// The sums of a metric in one tensor, on the device of the tensors that are counted.

/// Sums in double precision, in which counts are exact up to 9e15. Copies are independent values.
class KeptSums {
 public:
  using Scope = MetricScope;

  template <class D>
  explicit KeptSums(D const& definition) : size_(definition.sums()), how_(metric::combining_of<D>()) {
    if constexpr (metric::JoinsSums<D>) join_ = &joined<D>;
  }

  /// Adds the result of a definition's tally(): one dimension, one element per sum.
  void add(at::Tensor more);

  std::vector<double> numbers() const;
  std::vector<double> numbers_of_all(auto& ranks, long& updates) const {
    auto sums = numbers();
    metric::combine_over_ranks(ranks, sums, how_, updates);
    return sums;
  }
  void reset() { sums_.reset(); }
  void merge(KeptSums const& other);
  void state(auto& archive);

 private:
  using Join = at::Tensor (*)(at::Tensor const&, at::Tensor const&);
  template <class D>
  static at::Tensor joined(at::Tensor const& all, at::Tensor const& more) {
    auto const parts = [](at::Tensor const& sums) {
      auto const rows = sums.reshape({static_cast<std::int64_t>(D::parts), -1});
      std::array<at::Tensor, D::parts> each;
      for (std::size_t p = 0; p != D::parts; ++p) each[p] = rows[static_cast<std::int64_t>(p)];
      return each;
    };
    return at::cat(at::TensorList(D::joined(parts(all), parts(more))));
  }

  std::size_t size_;
  metric::Combining how_;
  Join join_ = nullptr;
  at::Tensor sums_ = {};
};

// The last values of a metric, in one tensor on their device.

/// The newest value is at the end. With several ranks each has its own window, and the sums are added.
class KeptWindow {
 public:
  using Scope = MetricScope;

  explicit KeptWindow(auto const& definition) : window_(definition.window) {}

  /// Adds one value or several, [values].
  void add(at::Tensor more);

  /// The sum of the values, and their number.
  std::vector<double> numbers() const;
  std::vector<double> numbers_of_all(auto& ranks, long& updates) const {
    auto sums = numbers();
    metric::combine_over_ranks(ranks, sums, {}, updates);
    return sums;
  }
  void reset() { values_.reset(); }
  void merge(KeptWindow const& other);
  void state(auto& archive);

 private:
  at::Tensor last(at::Tensor const& values) const;

  std::int64_t window_;
  at::Tensor values_ = {};
};

template <class Keeps>
using StoreOf = std::conditional_t<std::is_same_v<Keeps, metric::Sums>, KeptSums,
                                   std::conditional_t<std::is_same_v<Keeps, metric::Samples>, KeptSamples, KeptWindow>>;

}  // namespace libtorch

namespace metric {

/// What an update of each metric adds to what it keeps of the batches; overload resolution finds the function by the
/// definition.
at::Tensor tally(Accuracy const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(Precision const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(Recall const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(F1 const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(ConfusionMatrix const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(Perplexity const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(AUROC const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(AveragePrecision const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(BinnedAUROC const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(BinnedAveragePrecision const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(MeanSquaredError const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(MeanAbsoluteError const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(R2 const& of, at::Tensor const& predictions, at::Tensor const& target);

/// A weight applies to every element.
at::Tensor tally(MeanMetric const& of, libtorch::TensorOrNumber auto const& value, double weight = 1) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  auto const sums = libtorch::sum_and_count(values);
  return weight == 1 ? sums : sums * weight;
}
at::Tensor tally(MinMax const& of, libtorch::TensorOrNumber auto const& value) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  return at::stack({-values.amin().to(at::kDouble), values.amax().to(at::kDouble)});
}
at::Tensor tally(MeanOfLast const& of, libtorch::TensorOrNumber auto const& value) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  if (values.numel() != 1)
    throw Error("fulgurite.metric.shape", "MeanOfLast was updated with a tensor of " + std::to_string(values.numel()) +
                                              " elements: give it the mean()");
  return values.reshape({1});
}

/// A metric that computes with LibTorch's tensors and keeps its state on their device:
///
///     metric::Meter accuracy{metric::Accuracy{.num_classes = 10}};
///     accuracy.update(logits, labels);          // in each step
///     double const value = accuracy.compute();  // at the epoch's end, then accuracy.reset()
template <Definition D>
class Meter : public BasicMeter<D, libtorch::StoreOf<KeptBy<D>>> {
 public:
  explicit Meter(D definition = {}) : BasicMeter<D, libtorch::StoreOf<KeptBy<D>>>(std::move(definition)) {}
};

}  // namespace metric
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/metric/meter.ipp>
#endif
