#pragma once
// The bodies of torch/metric/meter.hpp.

#include <algorithm>
#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/metric/meter.hpp>

namespace fulgurite::libtorch {

// What the metrics of this library count in a batch of LibTorch's tensors.

/// Throws an Error unless labels are integers on the device of the predictions. `who` is the metric's name.
FULGURITE_BODY void require_labels(at::Tensor const& predictions, at::Tensor const& labels, std::string_view who) {
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

[[noreturn]] FULGURITE_BODY void refuse_shapes(at::Tensor const& predictions, at::Tensor const& target,
                                               std::string_view who, std::string const& wanted) {
  throw Error("fulgurite.metric.shape", std::string(who) + " was given predictions of shape " +
                                            shape_text(predictions.sizes()) + " and a target of shape " +
                                            shape_text(target.sizes()) + ": " + wanted);
}

/// True if predictions are scores [batch, classes, ...] for labels [batch, ...].
FULGURITE_BULK_BODY bool are_scores(at::Tensor const& predictions, at::Tensor const& labels, long classes) {
  if (predictions.dim() != labels.dim() + 1 || labels.dim() < 1 || !at::isFloatingType(predictions.scalar_type()))
    return false;
  return predictions.size(1) == classes && predictions.size(0) == labels.size(0) &&
         predictions.sizes().slice(2) == labels.sizes().slice(1);
}

/// Scores [samples, classes] in the order of labels.reshape({-1}).
FULGURITE_BULK_BODY at::Tensor flat_scores(at::Tensor const& scores, long classes) {
  return scores.detach().movedim(1, -1).reshape({-1, classes});
}

/// Extra counters after those of the classes, for a sample whose label is not a class, that is ignored, whose score is
/// NaN, or whose score is not a probability.
enum BehindClasses : std::int64_t { no_class, ignored, not_a_number, no_probability, places_behind };

/// The counter of each sample: that of its label, or an extra one. `unsound` and `outside` mark samples whose scores
/// are NaN, or not probabilities; they may be undefined.
FULGURITE_BULK_BODY at::Tensor places(at::Tensor const& labels, long classes, long ignore_index,
                                      at::Tensor const& unsound, at::Tensor const& outside) {
  auto place = labels.masked_fill(labels.lt(0).logical_or(labels.ge(classes)), classes + no_class);
  if (outside.defined()) place = place.masked_fill(outside, classes + no_probability);
  if (unsound.defined()) place = place.masked_fill(unsound, classes + not_a_number);
  if (ignore_index != metric::no_label) place = place.masked_fill(labels.eq(ignore_index), classes + ignored);
  return place;
}

/// Marks numbers outside of 0 to 1, with a tolerance for the rounding in a mean of probabilities.
FULGURITE_BULK_BODY at::Tensor outside_of_one(at::Tensor const& scores) {
  return scores.lt(-metric::rounded_off).logical_or(scores.gt(1 + metric::rounded_off));
}

/// How often each index from 0 to `size` - 1 occurs, without computing the largest index.
FULGURITE_BULK_BODY at::Tensor occurrences(at::Tensor const& index, std::int64_t size) {
  auto const options = index.options().dtype(at::kDouble);
  return at::zeros({size}, options).scatter_add_(0, index, at::ones({1}, options).expand(index.sizes()));
}

/// The counter of each sample by its label, and the one by its prediction; both are the same extra counter if the
/// sample is not judged.
struct Judged {
  at::Tensor label, predicted;
};

/// If the label of a sample is among the `top_k` highest scores, the label counts as its prediction. Logits are
/// compared with the logit of the threshold, which avoids rounding.
FULGURITE_BULK_BODY Judged judge(at::Tensor const& predictions, at::Tensor const& target, long classes, long top_k,
                                 double threshold, bool logits, long ignore_index, std::string_view who) {
  require_labels(predictions, target, who);
  auto const labels = target.detach().reshape({-1}).to(at::kLong);
  at::Tensor predicted, unsound, outside;
  auto const type = predictions.scalar_type();
  bool const floating = at::isFloatingType(type);
  if (threshold == 0.5 && are_scores(predictions, target, classes)) {
    auto const scores = flat_scores(predictions, classes);
    unsound = scores.isnan().any(1);
    predicted = scores.argmax(1);
    if (top_k > 1) {
      auto const among = std::get<1>(scores.topk(top_k, 1)).eq(labels.unsqueeze(1)).any(1);
      predicted = at::where(among, labels, predicted);
    }
  } else if (predictions.sizes() == target.sizes() && top_k == 1 &&
             (floating ? classes == 2 : threshold == 0.5 && (classes == 2 || at::isIntegralType(type, true)))) {
    auto const flat = predictions.detach().reshape({-1});
    if (floating) {
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
    if (threshold != 0.5)
      wanted = "with a .threshold it takes the probabilities of class 1 in the labels' shape, and no predicted "
               "classes: give logits.softmax(1).select(1, 1)";
    refuse_shapes(predictions, target, who, wanted);
  }
  auto place = places(labels, classes, ignore_index, unsound, outside);
  auto const judged = place.lt(classes);
  // A prediction that is not a class counts as a fault of the sample, like such a label.
  auto const known = predicted.ge(0).logical_and(predicted.lt(classes));
  place = place.masked_fill(judged.logical_and(known.logical_not()), classes + no_class);
  return {place, at::where(judged.logical_and(known), predicted, place)};
}

Judged judge(auto const& of, at::Tensor const& predictions, at::Tensor const& target) {
  long top_k = 1;
  if constexpr (requires { of.top_k; }) top_k = of.top_k;
  return judge(predictions, target, of.num_classes, top_k, of.threshold, of.logits, of.ignore_index, of.name());
}

/// Returns [hits of each class, predictions of each class, labels of each class, no class, not a number, no
/// probability].
FULGURITE_BULK_BODY at::Tensor class_sums(Judged const& judged, long classes) {
  auto const size = classes + places_behind;
  auto const right = judged.label.masked_fill(judged.label.ne(judged.predicted), classes + ignored);
  auto const found = occurrences(right, size), labelled = occurrences(judged.label, size);
  return at::cat({found.slice(0, 0, classes), occurrences(judged.predicted, size).slice(0, 0, classes),
                  labelled.slice(0, 0, classes + no_class + 1), labelled.slice(0, classes + not_a_number)});
}

/// Scores [samples, heads] and labels [samples].
struct Scored {
  at::Tensor scores, labels;
};

FULGURITE_BULK_BODY Scored scored(at::Tensor const& predictions, at::Tensor const& target, long classes,
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

/// Rows of the scores and the label. Logits of a single head are not converted, since sigmoid() keeps their order.
FULGURITE_BULK_BODY at::Tensor rows_of(Scored const& of, bool logits) {
  auto const type = of.scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto scores = of.scores.to(type);
  if (logits && scores.size(1) != 1) scores = scores.softmax(1);
  return at::cat({scores, of.labels.unsqueeze(1).to(type)}, 1);
}

/// Returns [for each head: negatives in each bin, positives in each bin; no class; not a number; no probability].
FULGURITE_BULK_BODY at::Tensor bins_of(Scored const& of, long classes, long thresholds, bool logits) {
  // The limits have the type of the scores, so that a score of 0.7F is not below the limit of 0.7.
  auto scores = of.scores.to(of.scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).contiguous();
  if (logits) scores = scores.size(1) == 1 ? scores.sigmoid() : scores.softmax(1);
  auto const labels = of.labels.unsqueeze(1);
  std::int64_t const heads = scores.size(1), bins = thresholds + 1, total = heads * 2 * bins;
  auto const limits = at::linspace(0, 1, thresholds, scores.options());
  auto const head = at::arange(heads, labels.options());
  auto const positive = labels.eq(heads == 1 ? at::ones({1}, labels.options()) : head).to(at::kLong);
  auto index = (head * 2 + positive) * bins + at::bucketize(scores.clamp(0, 1), limits, false, true);
  // A sample with a fault counts once, not once per head; the counter at place 3 after the bins is never read.
  auto const fault = at::full_like(labels, 3)
                         .masked_fill(outside_of_one(scores).any(1, true), 2)
                         .masked_fill(scores.isnan().any(1, true), 1)
                         .masked_fill(labels.lt(0).logical_or(labels.ge(classes)), 0);
  index = at::where(fault.lt(3), total + fault.masked_fill(head.ne(0), 3), index);
  return occurrences(index.reshape({-1}), total + 4).slice(0, 0, total + 3);
}

/// Predictions minus targets, in single precision if neither is double. Throws an Error for shapes that LibTorch would
/// broadcast: [batch, 1] and [batch] would compare everything with everything.
FULGURITE_BULK_BODY at::Tensor differences(at::Tensor const& predictions, at::Tensor const& target,
                                           std::string_view who) {
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

/// A host number as a tensor on the device of another one.
FULGURITE_BULK_BODY at::Tensor number_beside(at::Tensor const& tensor, double value) {
  return at::full({}, value, tensor.options().dtype(at::kDouble));
}

FULGURITE_BULK_BODY at::Tensor sum_and_count(at::Tensor const& terms) {
  return at::stack({terms.sum(at::kDouble), number_beside(terms, static_cast<double>(terms.numel()))});
}

FULGURITE_BULK_BODY at::Tensor as_tensor(double value) {
  return at::scalar_tensor(value, at::TensorOptions(at::kDouble));
}

FULGURITE_BULK_BODY at::Tensor as_tensor(at::Tensor const& value) { return value.defined() ? value.detach() : value; }

FULGURITE_BODY void require_values(at::Tensor const& value, std::string_view who) {
  if (!value.defined() || value.numel() == 0)
    throw Error("fulgurite.metric.shape",
                std::string(who) + " was updated with no value: give it a number or a tensor that has some");
}

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

/// The elements of a tensor on the host, in double precision, in row-major order.
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

/// For saved tensors of another shape than the metric's.
[[noreturn]] FULGURITE_BODY void refuse_saved(std::string const& what, at::Tensor const& saved,
                                              std::string const& here) {
  throw Error("fulgurite.checkpoint.state_entry",
              "the saved " + what + " of a metric have shape " + shape_text(saved.sizes()) + ", here they are " + here +
                  ": load them into a metric of the options that it was saved with");
}

void KeptSamples::state(auto& archive) {
  constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
  at::Tensor all = loading || parts_.empty() ? at::Tensor() : together();
  archive.tensor("samples", all);
  if constexpr (loading) {
    if (all.defined() && (all.dim() != 2 || all.size(1) != width_))
      refuse_saved("samples", all, "rows of " + std::to_string(width_));
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
      refuse_saved("sums", sums_, std::to_string(size_));
}
FULGURITE_STATE(KeptSums)

void KeptWindow::state(auto& archive) {
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) values_.reset();
  archive.tensor("values", values_);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
    if (!values_.defined()) return;
    if (values_.dim() != 1) refuse_saved("values", values_, "one row of them");
    values_ = last(values_).clone();  // the file's window may be longer
  }
}
FULGURITE_STATE(KeptWindow)

}  // namespace fulgurite::libtorch

namespace fulgurite::metric {

// Metrics of which one expression is added.
#define FULGURITE_TALLY(METRIC, ...)                                                                                   \
  FULGURITE_BULK_BODY at::Tensor tally(METRIC const& of, at::Tensor const& predictions, at::Tensor const& target) {    \
    return libtorch::__VA_ARGS__;                                                                                      \
  }
#define FULGURITE_SCORED libtorch::scored(predictions, target, of.num_classes, of.name())
#define FULGURITE_DIFFERENCES libtorch::differences(predictions, target, of.name())
FULGURITE_TALLY(Accuracy, class_sums(libtorch::judge(of, predictions, target), of.num_classes))
FULGURITE_TALLY(Precision, class_sums(libtorch::judge(of, predictions, target), of.num_classes))
FULGURITE_TALLY(Recall, class_sums(libtorch::judge(of, predictions, target), of.num_classes))
FULGURITE_TALLY(F1, class_sums(libtorch::judge(of, predictions, target), of.num_classes))
FULGURITE_TALLY(AUROC, rows_of(FULGURITE_SCORED, of.logits))
FULGURITE_TALLY(AveragePrecision, rows_of(FULGURITE_SCORED, of.logits))
FULGURITE_TALLY(BinnedAUROC, bins_of(FULGURITE_SCORED, of.num_classes, of.thresholds, of.logits))
FULGURITE_TALLY(BinnedAveragePrecision, bins_of(FULGURITE_SCORED, of.num_classes, of.thresholds, of.logits))
FULGURITE_TALLY(MeanSquaredError, sum_and_count(FULGURITE_DIFFERENCES.square()))
FULGURITE_TALLY(MeanAbsoluteError, sum_and_count(FULGURITE_DIFFERENCES.abs()))
#undef FULGURITE_DIFFERENCES
#undef FULGURITE_SCORED
#undef FULGURITE_TALLY

FULGURITE_BULK_BODY at::Tensor tally(ConfusionMatrix const& of, at::Tensor const& predictions,
                                     at::Tensor const& target) {
  auto const classes = of.num_classes;
  auto const [label, predicted] = libtorch::judge(of, predictions, target);
  auto const pairs = classes * classes;
  auto const counts =
      libtorch::occurrences(at::where(label.lt(classes), label * classes + predicted, label + (pairs - classes)),
                            pairs + libtorch::places_behind);
  return at::cat({counts.slice(0, 0, pairs + libtorch::no_class + 1), counts.slice(0, pairs + libtorch::not_a_number)});
}

/// Returns [negative log likelihoods, tokens, labels that are not in the vocabulary].
FULGURITE_BULK_BODY at::Tensor tally(Perplexity const& of, at::Tensor const& predictions, at::Tensor const& target) {
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

FULGURITE_BULK_BODY at::Tensor tally(R2 const& of, at::Tensor const& predictions, at::Tensor const& target) {
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

}  // namespace fulgurite::metric
