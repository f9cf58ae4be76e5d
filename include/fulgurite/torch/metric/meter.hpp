#pragma once
// Metrics on LibTorch's tensors: `Meter accuracy{Accuracy{.num_classes = 10}}`. Includes what tallies those of the
// library.

#include <algorithm>
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

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/meter.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/value.hpp>
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
  static void refuse_recording() {
    if (c10::impl::tls_is_dispatch_key_included(recording_key))
      throw Error("fulgurite.metric.captured",
                  "a metric object is updated inside a training step that is being recorded, and a replay would leave "
                  "it out: declare the metric with its definition and call ctx.update, or update the object in "
                  "on_train_batch_end");
  }
  MetricScope(MetricScope const&) = delete;
  MetricScope& operator=(MetricScope const&) = delete;

 private:
  c10::InferenceMode const normal_{false};
  at::NoGradGuard const no_graph_;  // after the above, which turns gradients on
};

/// A tensor where the other one lies. One that a file has left on the CPU moves to the device of what is added to it;
/// a number of the host goes to the device where the sums are. Neither waits for the device.
inline void meet(at::Tensor& kept, at::Tensor& added) {
  if (kept.device() == added.device()) return;
  if (kept.is_cpu()) kept = kept.to(added.device());
  else added = added.to(kept.device());
}

/// The elements of a tensor on the host, in double precision, in row-major order.
FULGURITE_BULK std::vector<double> host_numbers(at::Tensor const& tensor) {
  at::NoGradGuard const no_graph;
  auto const host = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  auto const* const first = data_of<double>(host);
  return {first, first + host.numel()};
}

// The samples of a metric that no sum can tell, such as the scores below a curve.

/// Copies of rows, on their device until compute() reads them: a loader may reuse the memory of a batch.
class KeptSamples {
 public:
  using Scope = MetricScope;

  template <class D>
  explicit KeptSamples(D const& definition) : width_(static_cast<std::int64_t>(definition.width())) {}

  /// Adds rows [samples, width].
  FULGURITE_BULK void add(at::Tensor const& rows) {
    if (!rows.defined() || rows.dim() != 2 || rows.size(1) != width_)
      throw Error("fulgurite.metric.tally",
                  "tally() returned a tensor of shape " + (rows.defined() ? shape_text(rows.sizes()) : "none") +
                      ", and width() says " + std::to_string(width_) + ": return rows of that many numbers");
    parts_.push_back(rows.detach().clone());
  }

  std::vector<double> numbers() const { return parts_.empty() ? std::vector<double>() : host_numbers(together()); }
  template <class Ranks>
  std::vector<double> numbers_of_all(Ranks& ranks, long& updates) const {
    auto samples = numbers();
    metric::join_over_ranks(ranks, samples, updates);
    return samples;
  }
  void reset() { parts_.clear(); }
  void merge(KeptSamples const& other) { parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end()); }
  void state(auto& archive) {
    constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
    at::Tensor all = loading || parts_.empty() ? at::Tensor() : together();
    archive.tensor("samples", all);
    if constexpr (loading) {
      parts_.clear();
      if (all.defined()) add(all);
    }
  }

 private:
  /// All rows as one tensor, on the device of the latest.
  FULGURITE_BULK at::Tensor together() const {
    MetricScope const scope;
    if (parts_.size() == 1) return parts_.front();
    std::vector<at::Tensor> parts;
    for (auto const& part : parts_) parts.push_back(part.to(parts_.back().device()));
    return at::cat(parts);
  }

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
  FULGURITE_BULK void add(at::Tensor more) {
    if (!more.defined() || more.dim() != 1 || static_cast<std::size_t>(more.numel()) != size_)
      throw Error("fulgurite.metric.tally",
                  "tally() returned a tensor of shape " + (more.defined() ? shape_text(more.sizes()) : "none") +
                      ", and sums() says " + std::to_string(size_) + ": return at::stack of that many numbers");
    more = more.detach().to(at::kDouble);
    if (!sums_.defined()) {
      sums_ = more.clone();
      return;
    }
    meet(sums_, more);
    if (join_) {
      sums_ = join_(sums_, more);
      return;
    }
    if (sums_.use_count() > 1) sums_ = sums_.clone();  // a copy of this, or a file that is being written, has it, too
    if (how_.reduce == Reduce::max) at::maximum_out(sums_, sums_, more);
    else if (how_.reduce == Reduce::min) at::minimum_out(sums_, sums_, more);
    else sums_.add_(more);
  }

  std::vector<double> numbers() const {
    return sums_.defined() ? host_numbers(sums_) : std::vector<double>(size_, metric::neutral(how_.reduce));
  }
  template <class Ranks>
  std::vector<double> numbers_of_all(Ranks& ranks, long& updates) const {
    auto sums = numbers();
    metric::combine_over_ranks(ranks, sums, how_, updates);
    return sums;
  }
  void reset() { sums_.reset(); }
  void merge(KeptSums const& other) {
    if (other.sums_.defined()) add(other.sums_);
  }
  void state(auto& archive) {
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) sums_.reset();
    archive.tensor("sums", sums_);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
      if (sums_.defined() && (sums_.dim() != 1 || static_cast<std::size_t>(sums_.numel()) != size_))
        throw Error("fulgurite.checkpoint.state_entry",
                    "the saved sums of a metric have shape " + shape_text(sums_.sizes()) + ", here they are " +
                        std::to_string(size_) + ": load them into a metric of the options that it was saved with");
  }

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
