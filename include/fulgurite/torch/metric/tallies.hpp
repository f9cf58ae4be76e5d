#pragma once
// What the metrics of this library count in a batch of LibTorch's tensors.

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

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/formulas.hpp>

namespace fulgurite::libtorch {

/// Throws an Error unless labels are integers on the device of the predictions. `who` is the metric's name.
void require_labels(at::Tensor const& predictions, at::Tensor const& labels, std::string_view who);

[[noreturn]] void refuse_shapes(at::Tensor const& predictions, at::Tensor const& target, std::string_view who,
                                std::string const& wanted);

/// True if predictions are scores [batch, classes, ...] for labels [batch, ...].
bool are_scores(at::Tensor const& predictions, at::Tensor const& labels, long classes);

/// Scores [samples, classes] in the order of labels.reshape({-1}).
at::Tensor flat_scores(at::Tensor const& scores, long classes);

/// Extra counters after those of the classes, for a sample whose label is not a class, that is ignored, whose score is
/// NaN, or whose score is not a probability.
enum BehindClasses : std::int64_t { no_class, ignored, not_a_number, no_probability, places_behind };

/// The counter of each sample: that of its label, or an extra one. `unsound` and `outside` mark samples whose scores
/// are NaN, or not probabilities; they may be undefined.
at::Tensor places(at::Tensor const& labels, long classes, long ignore_index, at::Tensor const& unsound,
                  at::Tensor const& outside);

/// Marks numbers outside of 0 to 1, with a tolerance for the rounding in a mean of probabilities.
at::Tensor outside_of_one(at::Tensor const& scores);

/// How often each index from 0 to `size` - 1 occurs, without computing the largest index.
at::Tensor occurrences(at::Tensor const& index, std::int64_t size);

}  // namespace fulgurite::libtorch

namespace fulgurite {

// What Accuracy, Precision, Recall, F1 and ConfusionMatrix count in a batch.

namespace libtorch {

/// The counter of each sample by its label, and the one by its prediction; both are the same extra counter if the
/// sample is not judged.
struct Judged {
  at::Tensor label, predicted;
};

/// If the label of a sample is among the `top_k` highest scores, the label counts as its prediction. Logits are
/// compared with the logit of the threshold, which avoids rounding.
Judged judge(at::Tensor const& predictions, at::Tensor const& target, long classes, long top_k, double threshold,
             bool logits, long ignore_index, std::string_view who);

template <class M>
Judged judge(M const& of, at::Tensor const& predictions, at::Tensor const& target) {
  long top_k = 1;
  if constexpr (requires { of.top_k; }) top_k = of.top_k;
  return judge(predictions, target, of.num_classes, top_k, of.threshold, of.logits, of.ignore_index, of.name());
}

/// Returns [hits of each class, predictions of each class, labels of each class, no class, not a number, no
/// probability].
at::Tensor class_sums(Judged const& judged, long classes);

}  // namespace libtorch

namespace metric {

/// The sums that an update of each metric adds; overload resolution finds the function by the definition.
at::Tensor tally(Accuracy const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(Precision const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(Recall const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(F1 const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(ConfusionMatrix const& of, at::Tensor const& predictions, at::Tensor const& target);

}  // namespace metric
}  // namespace fulgurite

namespace fulgurite::metric {

// What Perplexity sums up in a batch.

/// Returns [negative log likelihoods, tokens, labels that are not in the vocabulary].
at::Tensor tally(Perplexity const& of, at::Tensor const& predictions, at::Tensor const& target);

}  // namespace fulgurite::metric

namespace fulgurite {

// What AUROC and AveragePrecision keep of a batch, and what their binned forms count.

namespace libtorch {

/// Scores [samples, heads] and labels [samples].
struct Scored {
  at::Tensor scores, labels;
};

Scored scored(at::Tensor const& predictions, at::Tensor const& target, long classes, std::string_view who);

/// Rows of the scores and the label. Logits of a single head are not converted, since sigmoid() keeps their order.
at::Tensor rows_of(Scored const& of, bool logits);

/// Returns [for each head: negatives in each bin, positives in each bin; no class; not a number; no probability].
at::Tensor bins_of(Scored const& of, long classes, long thresholds, bool logits);

}  // namespace libtorch

namespace metric {

/// What an update of each metric adds; overload resolution finds the function by the definition.
at::Tensor tally(AUROC const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(AveragePrecision const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(BinnedAUROC const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(BinnedAveragePrecision const& of, at::Tensor const& predictions, at::Tensor const& target);

}  // namespace metric

// What MeanSquaredError, MeanAbsoluteError and R2 sum up in a batch.

namespace libtorch {

/// Predictions minus targets, in single precision if neither is double. Throws an Error for shapes that LibTorch would
/// broadcast: [batch, 1] and [batch] would compare everything with everything.
at::Tensor differences(at::Tensor const& predictions, at::Tensor const& target, std::string_view who);

/// A host number as a tensor on the device of another one.
at::Tensor number_beside(at::Tensor const& tensor, double value);

/// Returns [sum, number of terms].
at::Tensor sum_and_count(at::Tensor const& terms);

}  // namespace libtorch

namespace metric {

/// The sums that an update of each metric adds; overload resolution finds the function by the definition.
at::Tensor tally(MeanSquaredError const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(MeanAbsoluteError const& of, at::Tensor const& predictions, at::Tensor const& target);
at::Tensor tally(R2 const& of, at::Tensor const& predictions, at::Tensor const& target);

}  // namespace metric

// What MeanMetric, MinMax and MeanOfLast use of a value.

namespace libtorch {

/// A tensor, or a host number.
template <class V>
concept TensorOrNumber = std::is_arithmetic_v<V> || std::same_as<V, at::Tensor>;

at::Tensor as_tensor(double value);
at::Tensor as_tensor(at::Tensor const& value);

void require_values(at::Tensor const& value, std::string_view who);

}  // namespace libtorch

namespace metric {

/// What an update of each metric adds; overload resolution finds the function by the definition. A weight applies to
/// every element.
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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/metric/tallies.ipp>
#endif
