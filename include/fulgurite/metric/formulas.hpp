#pragma once
// The metrics of this library: their names, options, and formulas over counts and sums.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::metric {

// From counts of classes to one number: accuracy, precision, recall and F1 are the same sum with different terms.

/// How the values of the classes are averaged. micro: all samples have the same weight. macro: all classes have the
/// same weight, except those that occur neither among labels nor among predictions. weighted: a class is weighted by
/// the number of its labels. positive: only the value of class 1, for two classes.
enum class Average : std::uint8_t { micro, macro, weighted, positive };

/// No label is ignored: the default of `.ignore_index`.
inline constexpr long no_label = std::numeric_limits<long>::min();

/// How far outside of 0 to 1 a probability may be, since a mean or a sum of probabilities is rounded.
inline constexpr double rounded_off = 1e-6;

/// The counts of each class, as sums over batches and processes: how often it was found, how often it was predicted,
/// and how often it is the label; then the numbers of three kinds of faults: samples whose label is not a class, whose
/// score is NaN, and whose score should be a probability but is outside of 0 to 1.
class ClassCounts {
 public:
  static constexpr std::size_t faults = 3;
  static constexpr std::size_t size(long classes) { return 3 * static_cast<std::size_t>(classes) + faults; }

  /// Throws if there were samples with faults. `who` is the metric's name.
  explicit ClassCounts(std::span<double const> sums, std::string_view who);

  std::size_t classes() const { return classes_; }
  double found(std::size_t c) const { return sums_[c]; }
  double predicted(std::size_t c) const { return sums_[classes_ + c]; }
  double labelled(std::size_t c) const { return sums_[2 * classes_ + c]; }

  static void refuse_faults(std::span<double const> counted, std::size_t classes, std::string_view who);

 private:
  std::span<double const> sums_;
  std::size_t classes_;
};

/// part / of, and 0 if `of` is 0.
constexpr double ratio(double part, double of) { return of == 0 ? 0 : part / of; }

/// The average over the classes of a metric that gives, for each class, a number of hits and of how many:
/// `M::part(counts, c) / M::of(counts, c)`.
template <class M>
double averaged(M const& metric, std::span<double const> sums) {
  ClassCounts const n(sums, M::name());
  if (metric.average == Average::positive) return ratio(M::part(n, 1), M::of(n, 1));
  double parts = 0, wholes = 0;
  for (std::size_t c = 0; c != n.classes(); ++c) {
    if (metric.average == Average::micro) {
      parts += M::part(n, c);
      wholes += M::of(n, c);
    } else {
      bool const occurs = n.predicted(c) + n.labelled(c) != 0;
      double const weight = metric.average == Average::weighted ? n.labelled(c) : static_cast<double>(occurs);
      parts += weight * ratio(M::part(n, c), M::of(n, c));
      wholes += weight;
    }
  }
  return ratio(parts, wholes);
}

/// The value of each class.
template <class M>
std::vector<double> each_class(M const&, std::span<double const> sums) {
  ClassCounts const n(sums, M::name());
  std::vector<double> all;
  for (std::size_t c = 0; c != n.classes(); ++c) all.push_back(ratio(M::part(n, c), M::of(n, c)));
  return all;
}

/// Describes what is wrong with the options that all metrics of classes have; nullptr if nothing is.
constexpr char const* class_fault(long num_classes, Average average = Average::micro, double threshold = 0.5) {
  if (num_classes < 2) return ".num_classes is at least 2";
  if (average == Average::positive && num_classes != 2)
    return "Average::positive is of two classes: say Average::macro";
  if (!(threshold >= 0 && threshold <= 1))
    return ".threshold must be a probability, from 0 to 1, also with .logits = true";
  if (threshold != 0.5 && num_classes != 2)
    return ".threshold is of two classes: of more, the one with the highest score is predicted";
  return nullptr;
}

// Accuracy, precision, recall and F1: their names, options, and formulas over counts.

/// The share of samples whose class was predicted: `Meter{Accuracy{.num_classes = 10, .top_k = 5}}`. Predictions are
/// scores [batch, classes, ...], labels, or, for two classes, the probabilities of class 1 (with .logits the model's
/// output before sigmoid()). Labels are [batch, ...] of an integer type. The macro average is the mean of the
/// accuracies of the classes, which suits rare classes.
struct Accuracy {
  long num_classes = 2;
  Average average = Average::micro;
  long top_k = 1;                ///< a sample is found if its class is among this many classes with the highest scores
  double threshold = 0.5;        ///< a probability above it is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are ignored

  static constexpr std::string_view name() { return "Accuracy"; }
  constexpr std::size_t sums() const { return ClassCounts::size(num_classes); }
  constexpr char const* fault() const {
    if (top_k < 1 || top_k > num_classes) return ".top_k is at least 1 and at most .num_classes";
    return class_fault(num_classes, average, threshold);
  }
  static double part(ClassCounts const& n, std::size_t c) { return n.found(c); }
  static double of(ClassCounts const& n, std::size_t c) { return n.labelled(c); }
  double compute(std::span<double const> sums) const { return averaged(*this, sums); }
  std::vector<double> per_class(std::span<double const> sums) const { return each_class(*this, sums); }
  bool operator==(Accuracy const&) const = default;
};

/// Of the samples predicted as a class, the share that has that label: `Meter{Precision{.num_classes = 10}}`.
/// Predictions and labels as for Accuracy. A class that was never predicted has 0.
struct Precision {
  long num_classes = 2;
  Average average = Average::macro;
  double threshold = 0.5;        ///< a probability above it is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are ignored

  static constexpr std::string_view name() { return "Precision"; }
  constexpr std::size_t sums() const { return ClassCounts::size(num_classes); }
  constexpr char const* fault() const { return class_fault(num_classes, average, threshold); }
  static double part(ClassCounts const& n, std::size_t c) { return n.found(c); }
  static double of(ClassCounts const& n, std::size_t c) { return n.predicted(c); }
  double compute(std::span<double const> sums) const { return averaged(*this, sums); }
  std::vector<double> per_class(std::span<double const> sums) const { return each_class(*this, sums); }
  bool operator==(Precision const&) const = default;
};

/// Of the samples with a label, the share that was predicted as that class: `Meter{Recall{.num_classes = 10}}`.
/// Predictions and labels as for Accuracy. A class without labels has 0.
struct Recall {
  long num_classes = 2;
  Average average = Average::macro;
  double threshold = 0.5;        ///< a probability above it is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are ignored

  static constexpr std::string_view name() { return "Recall"; }
  constexpr std::size_t sums() const { return ClassCounts::size(num_classes); }
  constexpr char const* fault() const { return class_fault(num_classes, average, threshold); }
  static double part(ClassCounts const& n, std::size_t c) { return n.found(c); }
  static double of(ClassCounts const& n, std::size_t c) { return n.labelled(c); }
  double compute(std::span<double const> sums) const { return averaged(*this, sums); }
  std::vector<double> per_class(std::span<double const> sums) const { return each_class(*this, sums); }
  bool operator==(Recall const&) const = default;
};

/// The harmonic mean of precision and recall: `Meter{F1{.num_classes = 10}}`. Predictions and labels as for Accuracy.
struct F1 {
  long num_classes = 2;
  Average average = Average::macro;
  double threshold = 0.5;        ///< a probability above it is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are ignored

  static constexpr std::string_view name() { return "F1"; }
  constexpr std::size_t sums() const { return ClassCounts::size(num_classes); }
  constexpr char const* fault() const { return class_fault(num_classes, average, threshold); }
  static double part(ClassCounts const& n, std::size_t c) { return 2 * n.found(c); }
  static double of(ClassCounts const& n, std::size_t c);
  double compute(std::span<double const> sums) const { return averaged(*this, sums); }
  std::vector<double> per_class(std::span<double const> sums) const { return each_class(*this, sums); }
  bool operator==(F1 const&) const = default;
};

/// How often each label was predicted as each class.
struct Confusion {
  std::size_t classes = 0;
  std::vector<double> counts = {};  ///< rows are labels, columns are predictions
  double operator()(std::size_t label, std::size_t predicted) const;
};

/// Counts all pairs of a label and a prediction: `Meter{ConfusionMatrix{.num_classes = 10}}`; compute() returns a
/// Confusion. Predictions and labels as for Accuracy.
struct ConfusionMatrix {
  long num_classes = 2;
  double threshold = 0.5;        ///< a probability above it is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are ignored

  static constexpr std::string_view name() { return "ConfusionMatrix"; }
  constexpr std::size_t sums() const {
    return static_cast<std::size_t>(num_classes * num_classes) + ClassCounts::faults;
  }
  constexpr char const* fault() const { return class_fault(num_classes, Average::micro, threshold); }
  Confusion compute(std::span<double const> sums) const;
  /// Declared as "val/pairs", it logs a row "val/pairs.LABEL.PREDICTED" for each pair.
  static void each(Confusion const& seen, auto&& f) {
    for (std::size_t label = 0; label != seen.classes; ++label)
      for (std::size_t predicted = 0; predicted != seen.classes; ++predicted)
        f(std::to_string(label) + "." + std::to_string(predicted), seen(label, predicted));
  }
  bool operator==(ConfusionMatrix const&) const = default;
};

// How well a language model predicts: its name, and its formula over sums.

/// exp of the mean negative log likelihood of the target tokens: the number of equally likely tokens among which the
/// model would be as uncertain. Predictions are logits [..., vocabulary], with the vocabulary last; targets are [...]
/// of an integer type. `Meter{Perplexity{.ignore_index = 0}}` ignores the padding.
struct Perplexity {
  long ignore_index = no_label;  ///< tokens with this label are ignored

  static constexpr std::string_view name() { return "Perplexity"; }
  static constexpr std::size_t sums() { return 3; }
  /// `sums`: the sum of negative log likelihoods, their number, and the number of labels outside of the vocabulary.
  static double compute(std::span<double const> sums);
  bool operator==(Perplexity const&) const = default;
};

// The area under the ROC curve and the average precision, over samples in the order of their scores.

/// The numbers of samples with one score that are in the class, and that are not.
struct ScoreGroup {
  double positives = 0;
  double negatives = 0;
};

/// Under which curve the area is computed.
enum class Curve : bool { roc, precision_recall };

/// The area under the curve over all thresholds; `groups` begin with the highest score. ROC: the probability that a
/// sample of the class has a higher score than one that is not, where equal scores count half. Precision-recall: the
/// precision at each group's score, weighted by the recall that the group adds, without interpolation.
double area(Curve curve, std::span<ScoreGroup const> groups, std::string_view who, std::size_t of_class);

// AUROC and average precision, exact and binned: their names, options, and how they are computed.

/// The number of scores of a sample: for two classes one, that of class 1.
constexpr std::size_t heads_of(long num_classes) {
  return num_classes == 2 ? 1 : static_cast<std::size_t>(num_classes);
}

/// The number of sums of the binned forms: for each class the negatives and the positives of each bin, and the faults.
constexpr std::size_t binned_sums(long num_classes, long thresholds) {
  return heads_of(num_classes) * 2 * static_cast<std::size_t>(thresholds + 1) + ClassCounts::faults;
}

/// Describes what is wrong with the options of the binned forms; nullptr if nothing is.
constexpr char const* binned_fault(long num_classes, long thresholds) {
  if (thresholds < 2) return ".thresholds is at least 2";
  return class_fault(num_classes);
}

/// The area under the ROC curve: the probability that a sample of a class has a higher score for that class than
/// another sample. For two classes, predictions are scores of class 1 in the labels' shape, of any range. For more,
/// they are probabilities [batch, classes, ...] (with .logits the model's output before softmax()), and the result is
/// the mean over the classes, each against the rest. It is exact, so it keeps every score until reset(); BinnedAUROC
/// does not.
struct AUROC {
  using Keeps = Samples;
  long num_classes = 2;
  bool logits = false;  ///< scores of several classes are logits, to which softmax() is applied

  static constexpr std::string_view name() { return "AUROC"; }
  constexpr std::size_t width() const { return heads_of(num_classes) + 1; }
  constexpr char const* fault() const { return class_fault(num_classes); }
  double compute(std::span<double const> rows) const;
  bool operator==(AUROC const&) const = default;
};

/// The precision averaged over the recall that each score adds. Predictions and labels as for AUROC.
struct AveragePrecision {
  using Keeps = Samples;
  long num_classes = 2;
  bool logits = false;  ///< scores of several classes are logits, to which softmax() is applied

  static constexpr std::string_view name() { return "AveragePrecision"; }
  constexpr std::size_t width() const { return heads_of(num_classes) + 1; }
  constexpr char const* fault() const { return class_fault(num_classes); }
  double compute(std::span<double const> rows) const;
  bool operator==(AveragePrecision const&) const = default;
};

/// AUROC in constant memory. Scores are probabilities; it counts them between thresholds that divide 0 to 1 evenly. The
/// result is that of AUROC with each score rounded down to a threshold.
struct BinnedAUROC {
  long num_classes = 2;
  long thresholds = 200;
  bool logits = false;  ///< scores are logits, to which sigmoid(), or for several classes softmax(), is applied

  static constexpr std::string_view name() { return "BinnedAUROC"; }
  constexpr std::size_t sums() const { return binned_sums(num_classes, thresholds); }
  constexpr char const* fault() const { return binned_fault(num_classes, thresholds); }
  double compute(std::span<double const> sums) const;
  bool operator==(BinnedAUROC const&) const = default;
};

/// AveragePrecision in constant memory, binned as BinnedAUROC.
struct BinnedAveragePrecision {
  long num_classes = 2;
  long thresholds = 200;
  bool logits = false;  ///< scores are logits, to which sigmoid(), or for several classes softmax(), is applied

  static constexpr std::string_view name() { return "BinnedAveragePrecision"; }
  constexpr std::size_t sums() const { return binned_sums(num_classes, thresholds); }
  constexpr char const* fault() const { return binned_fault(num_classes, thresholds); }
  double compute(std::span<double const> sums) const;
  bool operator==(BinnedAveragePrecision const&) const = default;
};

// Statistics of a series of values, such as losses: their mean, their range, the mean of the last ones.

/// The mean of all values, or sum(value * weight) / sum(weight): `Meter{MeanMetric{}}`, `update(loss)`, `update(loss,
/// 32)`. A value is a number or a tensor, of which every element counts.
struct MeanMetric {
  static constexpr std::string_view name() { return "MeanMetric"; }
  static constexpr std::size_t sums() { return 2; }
  /// The weighted sum, and the sum of weights.
  static double compute(std::span<double const> sums);
  bool operator==(MeanMetric const&) const = default;
};

/// The minimum and the maximum of values.
struct Range {
  double least = 0;
  double greatest = 0;
  bool operator==(Range const&) const = default;
};

/// The minimum and the maximum of all values: `Meter{MinMax{}}`; compute() returns a Range. A value is a number or a
/// tensor, of which every element counts. A NaN makes both NaN.
struct MinMax {
  static constexpr Reduce reduce = Reduce::max;
  static constexpr std::string_view name() { return "MinMax"; }
  static constexpr std::size_t sums() { return 2; }
  /// `sums`: the maximum of -value, and the maximum of value.
  static Range compute(std::span<double const> sums);
  /// Declared as "val/x", it logs the rows "val/x.min" and "val/x.max".
  static void each(Range const& range, auto&& f) {
    f("min", range.least);
    f("max", range.greatest);
  }
  bool operator==(MinMax const&) const = default;
};

/// The mean of the last `window` values: `Meter{MeanOfLast{.window = 100}}` smooths a loss for display. A value is a
/// number or a tensor of one element.
struct MeanOfLast {
  using Keeps = Window;
  long window = 100;

  static constexpr std::string_view name() { return "MeanOfLast"; }
  constexpr char const* fault() const { return window < 1 ? ".window is at least 1" : nullptr; }
  /// The sum of the values, and their number.
  static double compute(std::span<double const> sums);
  bool operator==(MeanOfLast const&) const = default;
};

// Errors of regression: their names, and their formulas over sums.

/// The mean of (prediction - target) squared: `Meter{MeanSquaredError{}}`; with .root its square root. Predictions and
/// targets have the same shape.
struct MeanSquaredError {
  bool root = false;

  static constexpr std::string_view name() { return "MeanSquaredError"; }
  static constexpr std::size_t sums() { return 2; }
  /// The sum of squares, and their number.
  double compute(std::span<double const> sums) const;
  bool operator==(MeanSquaredError const&) const = default;
};

/// The mean of |prediction - target|: `Meter{MeanAbsoluteError{}}`. Predictions and targets have the same shape.
struct MeanAbsoluteError {
  static constexpr std::string_view name() { return "MeanAbsoluteError"; }
  static constexpr std::size_t sums() { return 2; }
  /// The sum of distances, and their number.
  static double compute(std::span<double const> sums);
  bool operator==(MeanAbsoluteError const&) const = default;
};

/// The share of the targets' variance that the predictions explain: 1 is perfect, 0 is as good as always predicting the
/// targets' mean. Predictions and targets have the same shape, [batch] or [batch, outputs]; for several outputs it is
/// the mean. `Meter{R2{.outputs = 3}}`.
struct R2 {
  long outputs = 1;

  static constexpr std::string_view name() { return "R2"; }
  constexpr std::size_t sums() const { return parts * static_cast<std::size_t>(outputs); }
  constexpr char const* fault() const { return outputs < 1 ? ".outputs is at least 1" : nullptr; }
  /// For each output: the number of samples, the mean of the targets, their squared distances to it, and the squared
  /// errors.
  static constexpr std::size_t parts = 4;
  /// Combines these of two batches, without a difference of large sums: Chan, Golub and LeVeque.
  template <class Number>
  static std::array<Number, parts> joined(std::array<Number, parts> const& a, std::array<Number, parts> const& b) {
    Number const all = a[0] + b[0], part = b[0] / all, apart = b[1] - a[1];
    return {all, a[1] + apart * part, a[2] + b[2] + apart * apart * (a[0] * part), a[3] + b[3]};
  }
  double compute(std::span<double const> sums) const;
  bool operator==(R2 const&) const = default;

 private:
  static double of_output(double samples, double mean, double squares, double errors);
};

}  // namespace fulgurite::metric

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/metric/formulas.ipp>
#endif
