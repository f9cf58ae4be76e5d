#pragma once
// What Accuracy, Precision, Recall, F1 and ConfusionMatrix count of a batch.

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/metric/classification.hpp>
#include <fulgurite/torch/metric/samples_judged.hpp>

namespace fulgurite {

namespace libtorch {

/// Where each sample is counted by its label, and where by its prediction: the same place where it is not judged.
struct Judged {
  at::Tensor label, predicted;
};

/// A sample whose label is among the `top_k` highest scores counts as predicted to be that. Logits are compared with
/// the logit of the threshold, so that nothing is rounded.
FULGURITE_BULK Judged judge(at::Tensor const& predictions, at::Tensor const& target, long classes, long top_k,
                            double threshold, bool logits, long ignore_index, std::string_view who) {
  require_labels(predictions, target, who);
  auto const labels = target.detach().reshape({-1}).to(at::kLong);
  at::Tensor predicted, unsound, outside;
  if (are_scores(predictions, target, classes)) {
    auto const scores = flat_scores(predictions, classes);
    unsound = scores.isnan().any(1);
    predicted = scores.argmax(1);
    if (top_k > 1) {
      auto const among = std::get<1>(scores.topk(top_k, 1)).eq(labels.unsqueeze(1)).any(1);
      predicted = at::where(among, labels, predicted);
    }
  } else if (predictions.sizes() == target.sizes() && top_k == 1 &&
             (classes == 2 || at::isIntegralType(predictions.scalar_type(), true))) {
    auto const flat = predictions.detach().reshape({-1});
    if (at::isFloatingType(flat.scalar_type())) {
      unsound = flat.isnan();
      if (!logits) outside = outside_of_one(flat);
      predicted = flat.gt(logits ? std::log(threshold / (1 - threshold)) : threshold).to(at::kLong);
    } else {
      predicted = flat.to(at::kLong);
    }
  } else {
    std::string wanted = "give scores [batch, " + std::to_string(classes) + ", ...] of labels [batch, ...]";
    if (top_k == 1) wanted += ", or the predicted classes in the labels' shape";
    if (top_k == 1 && classes == 2) wanted += ", or probabilities of class 1 (with .logits logits) in that shape";
    refuse_shapes(predictions, target, who, wanted);
  }
  auto place = places(labels, classes, ignore_index, unsound, outside);
  auto const judged = place.lt(classes);
  // A prediction that is no class is the sample's fault, as such a label is.
  auto const known = predicted.ge(0).logical_and(predicted.lt(classes));
  place = place.masked_fill(judged.logical_and(known.logical_not()), classes + no_class);
  return {place, at::where(judged.logical_and(known), predicted, place)};
}

template <class M>
Judged judge(M const& of, at::Tensor const& predictions, at::Tensor const& target) {
  long top_k = 1;
  if constexpr (requires { of.top_k; }) top_k = of.top_k;
  return judge(predictions, target, of.num_classes, top_k, of.threshold, of.logits, of.ignore_index, of.name());
}

/// [found of each class, predicted of each class, labels of each class, no class, not a number, no probability].
FULGURITE_BULK at::Tensor class_sums(Judged const& judged, long classes) {
  auto const size = classes + places_behind;
  auto const right = judged.label.masked_fill(judged.label.ne(judged.predicted), classes + ignored);
  auto const found = occurrences(right, size), labelled = occurrences(judged.label, size);
  return at::cat({found.slice(0, 0, classes), occurrences(judged.predicted, size).slice(0, 0, classes),
                  labelled.slice(0, 0, classes + no_class + 1), labelled.slice(0, classes + not_a_number)});
}

}  // namespace libtorch

namespace metric {

/// What an update of each adds to its sums; found by the compiler through the definition.
inline at::Tensor tally(Accuracy const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::class_sums(libtorch::judge(of, predictions, target), of.num_classes);
}
inline at::Tensor tally(Precision const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::class_sums(libtorch::judge(of, predictions, target), of.num_classes);
}
inline at::Tensor tally(Recall const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::class_sums(libtorch::judge(of, predictions, target), of.num_classes);
}
inline at::Tensor tally(F1 const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::class_sums(libtorch::judge(of, predictions, target), of.num_classes);
}
inline at::Tensor tally(ConfusionMatrix const& of, at::Tensor const& predictions, at::Tensor const& target) {
  auto const classes = of.num_classes;
  auto const [label, predicted] = libtorch::judge(of, predictions, target);
  auto const pairs = classes * classes;
  auto const counts =
      libtorch::occurrences(at::where(label.lt(classes), label * classes + predicted, label + (pairs - classes)),
                            pairs + libtorch::places_behind);
  return at::cat({counts.slice(0, 0, pairs + libtorch::no_class + 1), counts.slice(0, pairs + libtorch::not_a_number)});
}

}  // namespace metric
}  // namespace fulgurite
