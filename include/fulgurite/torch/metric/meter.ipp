#pragma once
// The bodies of torch/metric/meter.hpp.

#include <algorithm>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/metric/meter.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY void MetricScope::refuse_recording() {
  if (c10::impl::tls_is_dispatch_key_included(recording_key))
    throw Error("fulgurite.metric.captured",
                "a metric object is updated inside a training step that is being recorded, and a replay would leave "
                "it out: declare the metric with its definition and call ctx.update, or update the object in "
                "on_train_batch_end");
}

FULGURITE_BULK_BODY void meet(at::Tensor& kept, at::Tensor& added) {
  if (kept.device() == added.device()) return;
  if (kept.is_cpu()) kept = kept.to(added.device());
  else added = added.to(kept.device());
}

FULGURITE_BULK_BODY std::vector<double> host_numbers(at::Tensor const& tensor) {
  at::NoGradGuard const no_graph;
  auto const host = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  auto const* const first = data_of<double>(host);
  return {first, first + host.numel()};
}

FULGURITE_BULK_BODY void KeptSamples::add(at::Tensor const& rows) {
  if (!rows.defined() || rows.dim() != 2 || rows.size(1) != width_)
    throw Error("fulgurite.metric.tally",
                "tally() returned a tensor of shape " + (rows.defined() ? shape_text(rows.sizes()) : "none") +
                    ", and width() says " + std::to_string(width_) + ": return rows of that many numbers");
  parts_.push_back(rows.detach().clone());
}

FULGURITE_BULK_BODY std::vector<double> KeptSamples::numbers() const {
  return parts_.empty() ? std::vector<double>() : host_numbers(together());
}

FULGURITE_BULK_BODY void KeptSamples::merge(KeptSamples const& other) {
  parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
}

FULGURITE_BULK_BODY at::Tensor KeptSamples::together() const {
  MetricScope const scope;
  if (parts_.size() == 1) return parts_.front();
  std::vector<at::Tensor> parts;
  for (auto const& part : parts_) parts.push_back(part.to(parts_.back().device()));
  return at::cat(parts);
}

FULGURITE_BULK_BODY void KeptSums::add(at::Tensor more) {
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
  if (sums_.use_count() > 1) sums_ = sums_.clone();  // a copy, or a file that is being written, shares the tensor
  if (how_.reduce == Reduce::max) at::maximum_out(sums_, sums_, more);
  else if (how_.reduce == Reduce::min) at::minimum_out(sums_, sums_, more);
  else sums_.add_(more);
}

FULGURITE_BULK_BODY std::vector<double> KeptSums::numbers() const {
  return sums_.defined() ? host_numbers(sums_) : std::vector<double>(size_, metric::neutral(how_.reduce));
}

FULGURITE_BULK_BODY void KeptSums::merge(KeptSums const& other) {
  if (other.sums_.defined()) add(other.sums_);
}

FULGURITE_BULK_BODY void KeptWindow::add(at::Tensor more) {
  more = more.detach().to(at::kDouble);
  if (!values_.defined()) {
    values_ = last(more).clone();
    return;
  }
  meet(values_, more);
  values_ = last(at::cat({values_, more})).clone();
}

FULGURITE_BULK_BODY std::vector<double> KeptWindow::numbers() const {
  double sum = 0;
  auto const values = values_.defined() ? host_numbers(values_) : std::vector<double>();
  for (double const value : values) sum += value;
  return {sum, static_cast<double>(values.size())};
}

FULGURITE_BULK_BODY void KeptWindow::merge(KeptWindow const& other) {
  if (other.values_.defined()) add(other.values_);
}

FULGURITE_BULK_BODY at::Tensor KeptWindow::last(at::Tensor const& values) const {
  return values.slice(0, std::max<std::int64_t>(0, values.size(0) - window_));
}

void KeptSamples::state(auto& archive) {
  constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
  at::Tensor all = loading || parts_.empty() ? at::Tensor() : together();
  archive.tensor("samples", all);
  if constexpr (loading) {
    parts_.clear();
    if (all.defined()) add(all);
  }
}
FULGURITE_STATE(KeptSamples)

void KeptSums::state(auto& archive) {
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) sums_.reset();
  archive.tensor("sums", sums_);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
    if (sums_.defined() && (sums_.dim() != 1 || static_cast<std::size_t>(sums_.numel()) != size_))
      throw Error("fulgurite.checkpoint.state_entry",
                  "the saved sums of a metric have shape " + shape_text(sums_.sizes()) + ", here they are " +
                      std::to_string(size_) + ": load them into a metric of the options that it was saved with");
}
FULGURITE_STATE(KeptSums)

void KeptWindow::state(auto& archive) {
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) values_.reset();
  archive.tensor("values", values_);
}
FULGURITE_STATE(KeptWindow)

}  // namespace fulgurite::libtorch
