#pragma once
// Predictions and labels of classes as one list of samples, each with the place where it is counted.

#include <cstdint>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/average.hpp>
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
