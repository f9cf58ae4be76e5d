#pragma once
// The samples of a metric that no sum can tell, such as the scores below a curve.

#include <cstddef>
#include <cstdint>
#include <string>
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

}  // namespace fulgurite::libtorch
