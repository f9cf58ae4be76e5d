#pragma once
// What the metrics of this library count of a batch of LibTorch's tensors.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/formulas.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

/// Labels are integers, and lie where the predictions lie; else an Error. `who` is the metric's name.
FULGURITE_COLD void require_labels(at::Tensor const& predictions, at::Tensor const& labels, std::string_view who) {
  auto const refuse = [&](char const* identifier, std::string const& why) {
    throw Error(identifier, std::string(who) + why);
  };
  if (!predictions.defined() || !labels.defined())
    refuse("fulgurite.metric.shape", " was updated with an undefined tensor: give it predictions and labels");
  if (!at::isIntegralType(labels.scalar_type(), true))
    refuse("fulgurite.metric.labels_type", std::string(" takes labels of an integer type, and was given ") +
                                               c10::toString(labels.scalar_type()) +
                                               ": predictions come first, labels second");
  if (predictions.device() != labels.device())
    refuse("fulgurite.metric.device", " was given predictions on " + predictions.device().str() + " and labels on " +
                                          labels.device().str() + ": take both from the batch that the step was given");
}

[[noreturn]] FULGURITE_COLD void refuse_shapes(at::Tensor const& predictions, at::Tensor const& target,
                                               std::string_view who, std::string const& wanted) {
  throw Error("fulgurite.metric.shape", std::string(who) + " was given predictions of shape " +
                                            shape_text(predictions.sizes()) + " and a target of shape " +
                                            shape_text(target.sizes()) + ": " + wanted);
}

/// Whether predictions are scores [batch, classes, ...] of labels [batch, ...].
FULGURITE_BULK bool are_scores(at::Tensor const& predictions, at::Tensor const& labels, long classes) {
  if (predictions.dim() != labels.dim() + 1 || labels.dim() < 1 || !at::isFloatingType(predictions.scalar_type()))
    return false;
  return predictions.size(1) == classes && predictions.size(0) == labels.size(0) &&
         predictions.sizes().slice(2) == labels.sizes().slice(1);
}

/// Scores [samples, classes] in the order of labels.reshape({-1}).
inline at::Tensor flat_scores(at::Tensor const& scores, long classes) {
  return scores.detach().movedim(1, -1).reshape({-1, classes});
}

/// Places behind those of the classes: where a sample is counted that is of none, is ignored, has no number for a
/// score, or a number that is no probability.
enum BehindClasses : std::int64_t { no_class, ignored, not_a_number, no_probability, places_behind };

/// The place of each sample: its label, or one of those behind. `unsound` and `outside` may be undefined: samples whose
/// scores are no numbers, or no probabilities.
FULGURITE_BULK at::Tensor places(at::Tensor const& labels, long classes, long ignore_index, at::Tensor const& unsound,
                                 at::Tensor const& outside) {
  auto place = labels.masked_fill(labels.lt(0).logical_or(labels.ge(classes)), classes + no_class);
  if (outside.defined()) place = place.masked_fill(outside, classes + no_probability);
  if (unsound.defined()) place = place.masked_fill(unsound, classes + not_a_number);
  if (ignore_index != metric::no_label) place = place.masked_fill(labels.eq(ignore_index), classes + ignored);
  return place;
}

/// Which numbers lie outside of 0 to 1, but for what rounding makes of a mean of probabilities.
inline at::Tensor outside_of_one(at::Tensor const& scores) {
  return scores.lt(-metric::rounded_off).logical_or(scores.gt(1 + metric::rounded_off));
}

/// How often each index from 0 to `size` - 1 occurs, without a look at the greatest one.
inline at::Tensor occurrences(at::Tensor const& index, std::int64_t size) {
  auto const options = index.options().dtype(at::kDouble);
  return at::zeros({size}, options).scatter_add_(0, index, at::ones({1}, options).expand(index.sizes()));
}

}  // namespace fulgurite::libtorch

namespace fulgurite {

// What Accuracy, Precision, Recall, F1 and ConfusionMatrix count of a batch.

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

namespace fulgurite::metric {

// What Perplexity sums up of a batch.

/// [negative log likelihoods, tokens, labels that are not in the vocabulary].
FULGURITE_BULK at::Tensor tally(Perplexity const& of, at::Tensor const& predictions, at::Tensor const& target) {
  libtorch::require_labels(predictions, target, of.name());
  if (predictions.dim() != target.dim() + 1 ||
      predictions.sizes().slice(0, predictions.sizes().size() - 1) != target.sizes() ||
      !at::isFloatingType(predictions.scalar_type()))
    libtorch::refuse_shapes(predictions, target, of.name(),
                            "give logits [..., vocabulary] of tokens [...]; transpose(1, 2) brings the vocabulary to "
                            "the end");
  auto const vocabulary = predictions.size(-1);
  auto const type = predictions.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto const tokens = target.detach().reshape({-1}).to(at::kLong);
  auto const place = libtorch::places(tokens, vocabulary, of.ignore_index, {}, {});
  auto const counts = place.lt(vocabulary);
  auto const logs = at::log_softmax(predictions.detach().reshape({-1, vocabulary}), 1, type);
  auto const log = logs.gather(1, tokens.masked_fill(counts.logical_not(), 0).unsqueeze(1)).squeeze(1);
  return at::stack({at::where(counts, -log, at::zeros_like(log)).sum(at::kDouble), counts.sum(at::kDouble),
                    place.eq(vocabulary + libtorch::no_class).sum(at::kDouble)});
}

}  // namespace fulgurite::metric

namespace fulgurite {

// What AUROC and AveragePrecision keep of a batch, and what their binned forms count.

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

// What MeanSquaredError, MeanAbsoluteError and R2 sum up of a batch.

namespace libtorch {

/// Predictions minus targets, in single precision where neither has double. Shapes that LibTorch would stretch are an
/// Error: [batch, 1] and [batch] would compare everything with everything.
FULGURITE_BULK at::Tensor differences(at::Tensor const& predictions, at::Tensor const& target, std::string_view who) {
  if (!predictions.defined() || !target.defined())
    throw Error("fulgurite.metric.shape",
                std::string(who) + " was updated with an undefined tensor: give it predictions and targets");
  if (predictions.sizes() != target.sizes())
    refuse_shapes(predictions, target, who, "they must be the same; squeeze(1) takes an extent of 1 away");
  if (predictions.numel() == 0)
    throw Error("fulgurite.metric.shape", std::string(who) + " was updated with no sample: leave an empty batch out");
  auto const wide = [](at::Tensor const& tensor) {
    return tensor.scalar_type() == at::kDouble || at::isIntegralType(tensor.scalar_type(), true);
  };
  auto const type = wide(predictions) || wide(target) ? at::kDouble : at::kFloat;
  return predictions.detach().to(type) - target.detach().to(type);
}

/// A number of the host beside a tensor.
inline at::Tensor number_beside(at::Tensor const& tensor, double value) {
  return at::full({}, value, tensor.options().dtype(at::kDouble));
}

/// [sum, how many].
inline at::Tensor sum_and_count(at::Tensor const& terms) {
  return at::stack({terms.sum(at::kDouble), number_beside(terms, static_cast<double>(terms.numel()))});
}

}  // namespace libtorch

namespace metric {

/// What an update of each adds to its sums; found by the compiler through the definition.
inline at::Tensor tally(MeanSquaredError const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::sum_and_count(libtorch::differences(predictions, target, of.name()).square());
}
inline at::Tensor tally(MeanAbsoluteError const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::sum_and_count(libtorch::differences(predictions, target, of.name()).abs());
}
inline at::Tensor tally(R2 const& of, at::Tensor const& predictions, at::Tensor const& target) {
  auto const errors = libtorch::differences(predictions, target, of.name());
  if (target.dim() < 1 || target.dim() > 2 || (target.dim() == 2 ? target.size(1) : 1) != of.outputs)
    libtorch::refuse_shapes(predictions, target, of.name(),
                            "give [batch, " + std::to_string(of.outputs) + "]" +
                                (of.outputs == 1 ? " or [batch]" : "") + ", or say .outputs");
  auto const targets = target.detach().to(at::kDouble).reshape({-1, of.outputs});
  auto const samples = libtorch::number_beside(targets, static_cast<double>(targets.size(0))).expand({of.outputs});
  auto const mean = targets.mean(0);
  return at::cat({samples, mean, (targets - mean).square().sum(0),
                  errors.to(at::kDouble).square().reshape({-1, of.outputs}).sum(0)});
}

}  // namespace metric

// What MeanMetric, MinMax and MeanOfLast take of a value.

namespace libtorch {

/// A tensor, or a number of the host.
template <class V>
concept TensorOrNumber = std::is_arithmetic_v<V> || std::same_as<V, at::Tensor>;

inline at::Tensor as_tensor(double value) { return at::scalar_tensor(value, at::TensorOptions(at::kDouble)); }
inline at::Tensor as_tensor(at::Tensor const& value) { return value.defined() ? value.detach() : value; }

FULGURITE_COLD void require_values(at::Tensor const& value, std::string_view who) {
  if (!value.defined() || value.numel() == 0)
    throw Error("fulgurite.metric.shape",
                std::string(who) + " was updated with no value: give it a number or a tensor that has some");
}

}  // namespace libtorch

namespace metric {

/// What an update of each adds; found by the compiler through the definition. A weight belongs to every element.
template <libtorch::TensorOrNumber V>
at::Tensor tally(MeanMetric const& of, V const& value, double weight = 1) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  auto const sums = libtorch::sum_and_count(values);
  return weight == 1 ? sums : sums * weight;
}
template <libtorch::TensorOrNumber V>
at::Tensor tally(MinMax const& of, V const& value) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  return at::stack({-values.amin().to(at::kDouble), values.amax().to(at::kDouble)});
}
template <libtorch::TensorOrNumber V>
at::Tensor tally(MeanOfLast const& of, V const& value) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  if (values.numel() != 1)
    throw Error("fulgurite.metric.shape", "MeanOfLast was updated with a tensor of " + std::to_string(values.numel()) +
                                              " elements: give it the mean()");
  return values.reshape({1});
}

}  // namespace metric
}  // namespace fulgurite
