#pragma once
// What AUROC and AveragePrecision keep of a batch, and what their binned forms count.

#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

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

/// Rows of the scores and the label.
FULGURITE_BULK at::Tensor rows_of(Scored const& of) {
  auto const type = of.scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::cat({of.scores.to(type), of.labels.unsqueeze(1).to(type)}, 1);
}

/// [for each head: negatives of each bin, positives of each bin; no class; scores that are not within 0 and 1].
FULGURITE_BULK at::Tensor bins_of(Scored const& of, long classes, long thresholds) {
  auto const scores = of.scores.to(at::kDouble).contiguous();
  auto const labels = of.labels.unsqueeze(1);
  std::int64_t const heads = scores.size(1), bins = thresholds + 1, total = heads * 2 * bins;
  auto const limits = at::linspace(0, 1, thresholds, scores.options());
  auto const head = at::arange(heads, labels.options());
  auto const positive = labels.eq(heads == 1 ? at::ones({1}, labels.options()) : head).to(at::kLong);
  auto index = (head * 2 + positive) * bins + at::bucketize(scores, limits, false, true);
  auto const inside = scores.ge(0).logical_and(scores.le(1));
  index = at::where(inside, index, total + 1);
  auto const known = labels.ge(0).logical_and(labels.lt(classes));
  // A label that is no class counts once, not once a head.
  index = at::where(known, index, at::where(head.eq(0), at::full({}, total, head.options()), total + 2));
  return occurrences(index.reshape({-1}), total + 3).slice(0, 0, total + 2);
}

}  // namespace libtorch

namespace metric {

/// What an update of each adds; found by the compiler through the definition.
inline at::Tensor tally(AUROC const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::rows_of(libtorch::scored(predictions, target, of.num_classes, of.name()));
}
inline at::Tensor tally(AveragePrecision const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::rows_of(libtorch::scored(predictions, target, of.num_classes, of.name()));
}
inline at::Tensor tally(BinnedAUROC const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::bins_of(libtorch::scored(predictions, target, of.num_classes, of.name()), of.num_classes,
                           of.thresholds);
}
inline at::Tensor tally(BinnedAveragePrecision const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::bins_of(libtorch::scored(predictions, target, of.num_classes, of.name()), of.num_classes,
                           of.thresholds);
}

}  // namespace metric
}  // namespace fulgurite
