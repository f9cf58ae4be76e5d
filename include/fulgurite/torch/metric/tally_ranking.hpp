#pragma once
// What AUROC and AveragePrecision keep of a batch, and what their binned forms count.

#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/metric/ranking.hpp>
#include <fulgurite/torch/metric/samples_judged.hpp>

namespace fulgurite {

namespace libtorch {

/// Scores [samples, heads] and labels [samples].
struct Scored {
  at::Tensor scores, labels;
};

FULGURITE_BULK Scored scored(at::Tensor const& predictions, at::Tensor const& target, long classes,
                             std::string_view who) {
  require_labels(predictions, target, who);
  auto const labels = target.detach().reshape({-1}).to(at::kLong);
  bool const numbers = at::isFloatingType(predictions.scalar_type());
  if (classes == 2 && numbers && predictions.sizes() == target.sizes())
    return {predictions.detach().reshape({-1, 1}), labels};
  if (classes != 2 && are_scores(predictions, target, classes)) return {flat_scores(predictions, classes), labels};
  refuse_shapes(predictions, target, who,
                classes == 2 ? "of two classes it takes the scores of class 1 in the labels' shape, such as "
                               "logits.select(1, 1)"
                             : "give scores [batch, " + std::to_string(classes) + ", ...] of labels [batch, ...]");
}

/// Rows of the scores and the label. Logits of one head stay as they are: sigmoid() does not change their order.
FULGURITE_BULK at::Tensor rows_of(Scored const& of, bool logits) {
  auto const type = of.scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto scores = of.scores.to(type);
  if (logits && scores.size(1) != 1) scores = scores.softmax(1);
  return at::cat({scores, of.labels.unsqueeze(1).to(type)}, 1);
}

/// [for each head: negatives of each bin, positives of each bin; no class; not a number; no probability].
FULGURITE_BULK at::Tensor bins_of(Scored const& of, long classes, long thresholds, bool logits) {
  auto scores = of.scores.to(at::kDouble).contiguous();
  if (logits) scores = scores.size(1) == 1 ? scores.sigmoid() : scores.softmax(1);
  auto const labels = of.labels.unsqueeze(1);
  std::int64_t const heads = scores.size(1), bins = thresholds + 1, total = heads * 2 * bins;
  auto const limits = at::linspace(0, 1, thresholds, scores.options());
  auto const head = at::arange(heads, labels.options());
  auto const positive = labels.eq(heads == 1 ? at::ones({1}, labels.options()) : head).to(at::kLong);
  auto index = (head * 2 + positive) * bins + at::bucketize(scores.clamp(0, 1), limits, false, true);
  // A sample with a fault counts once, not once a head; place 3 behind the bins is read by nobody.
  auto const fault = at::full_like(labels, 3)
                         .masked_fill(outside_of_one(scores).any(1, true), 2)
                         .masked_fill(scores.isnan().any(1, true), 1)
                         .masked_fill(labels.lt(0).logical_or(labels.ge(classes)), 0);
  index = at::where(fault.lt(3), total + fault.masked_fill(head.ne(0), 3), index);
  return occurrences(index.reshape({-1}), total + 4).slice(0, 0, total + 3);
}

}  // namespace libtorch

namespace metric {

/// What an update of each adds; found by the compiler through the definition.
inline at::Tensor tally(AUROC const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::rows_of(libtorch::scored(predictions, target, of.num_classes, of.name()), of.logits);
}
inline at::Tensor tally(AveragePrecision const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::rows_of(libtorch::scored(predictions, target, of.num_classes, of.name()), of.logits);
}
inline at::Tensor tally(BinnedAUROC const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::bins_of(libtorch::scored(predictions, target, of.num_classes, of.name()), of.num_classes,
                           of.thresholds, of.logits);
}
inline at::Tensor tally(BinnedAveragePrecision const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::bins_of(libtorch::scored(predictions, target, of.num_classes, of.name()), of.num_classes,
                           of.thresholds, of.logits);
}

}  // namespace metric
}  // namespace fulgurite
