#pragma once
// Metrics on LibTorch's tensors: `Meter accuracy{Accuracy{.num_classes = 10}}`. Includes what tallies those of the
// library.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/meter.hpp>
#include <fulgurite/metric/over_ranks.hpp>
#include <fulgurite/torch/metric/tallies.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

// What holds while a metric is updated: no gradients, and no inference mode.

/// Tensors that a metric keeps are normal ones, also where an evaluation makes tensors for inference, so that a later
/// epoch may write to them.
class MetricScope {
 public:
  MetricScope() = default;
  /// What is kept by somebody of whom a recording does not know would stand still while the step is replayed.
  static void refuse_recording();
  MetricScope(MetricScope const&) = delete;
  MetricScope& operator=(MetricScope const&) = delete;

 private:
  c10::InferenceMode const normal_{false};
  at::NoGradGuard const no_graph_;  // after the above, which turns gradients on
};

/// A tensor where the other one lies. One that a file has left on the CPU moves to the device of what is added to it;
/// a number of the host goes to the device where the sums are. Neither waits for the device.
void meet(at::Tensor& kept, at::Tensor& added);

/// The elements of a tensor on the host, in double precision, in row-major order.
std::vector<double> host_numbers(at::Tensor const& tensor);

// The samples of a metric that no sum can tell, such as the scores below a curve.

/// Copies of rows, on their device until compute() reads them: a loader may reuse the memory of a batch.
class KeptSamples {
 public:
  using Scope = MetricScope;

  template <class D>
  explicit KeptSamples(D const& definition) : width_(static_cast<std::int64_t>(definition.width())) {}

  /// Adds rows [samples, width].
  void add(at::Tensor const& rows);

  std::vector<double> numbers() const;
  template <class Ranks>
  std::vector<double> numbers_of_all(Ranks& ranks, long& updates) const {
    auto samples = numbers();
    metric::join_over_ranks(ranks, samples, updates);
    return samples;
  }
  void reset() { parts_.clear(); }
  void merge(KeptSamples const& other);
  void state(auto& archive);

 private:
  /// All rows as one tensor, on the device of the latest.
  at::Tensor together() const;

  std::int64_t width_;
  std::vector<at::Tensor> parts_ = {};
};

// The sums of a metric in one tensor, on the device of what is counted.

/// In double precision, in which counts are exact up to 9e15. Copies are values of their own.
class KeptSums {
 public:
  using Scope = MetricScope;

  template <class D>
  explicit KeptSums(D const& definition) : size_(definition.sums()), how_(metric::combining_of<D>()) {
    if constexpr (metric::JoinsSums<D>) join_ = &joined<D>;
  }

  /// Adds what tally() of a definition has returned: one dimension, as many elements as there are sums.
  void add(at::Tensor more);

  std::vector<double> numbers() const;
  template <class Ranks>
  std::vector<double> numbers_of_all(Ranks& ranks, long& updates) const {
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

/// The newest stands at the end. Over ranks a window is that of each, and the sums are added.
class KeptWindow {
 public:
  using Scope = MetricScope;

  template <class D>
  explicit KeptWindow(D const& definition) : window_(definition.window) {}

  /// Adds one value or several, [values].
  void add(at::Tensor more);

  /// The sum of the values, and how many they are.
  std::vector<double> numbers() const;
  template <class Ranks>
  std::vector<double> numbers_of_all(Ranks& ranks, long& updates) const {
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

}  // namespace fulgurite::libtorch

namespace fulgurite {

namespace libtorch {

template <class Keeps>
struct StoreOf;
template <>
struct StoreOf<metric::Sums> {
  using type = KeptSums;
};
template <>
struct StoreOf<metric::Samples> {
  using type = KeptSamples;
};
template <>
struct StoreOf<metric::Window> {
  using type = KeptWindow;
};

}  // namespace libtorch

namespace metric {

/// A metric at work on LibTorch's tensors, on whichever device they are; what it keeps lies there, too:
///   metric::Meter accuracy{metric::Accuracy{.num_classes = 10}};
///   accuracy.update(logits, labels);        // in each step
///   double const value = accuracy.compute();  // at the epoch's end, then accuracy.reset()
template <Definition D>
class Meter : public BasicMeter<D, typename libtorch::StoreOf<KeptBy<D>>::type> {
 public:
  explicit Meter(D definition = {})
      : BasicMeter<D, typename libtorch::StoreOf<KeptBy<D>>::type>(std::move(definition)) {}
};

}  // namespace metric
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/metric/meter.ipp>
#endif
