#pragma once
// The metrics of this library: what they are called, what may be chosen, and their formulas over counts and sums.

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

// From counts of classes to one number: accuracy, precision, recall and F1 are the same sum with other terms.

/// How the figures of classes become one. micro: all samples count the same. macro: all classes count the same, but for
/// those that occur neither among labels nor among predictions. weighted: a class counts as often as it is a label.
/// positive: the figure of class 1 alone, where there are two.
enum class Average : std::uint8_t { micro, macro, weighted, positive };

/// No label is left out: the default of `.ignore_index`.
inline constexpr long no_label = std::numeric_limits<long>::min();

/// How far from 0 to 1 a probability may lie, since a mean or a sum of probabilities is rounded.
inline constexpr double rounded_off = 1e-6;

/// What is counted of each class, as sums that several batches and processes add up: how often it was found, how often
/// it was predicted, how often it is the label; then three numbers of faults: samples whose label is no class, whose
/// score is not a number, and whose score should be a probability and lies outside of 0 to 1.
class ClassCounts {
 public:
  static constexpr std::size_t faults = 3;
  static constexpr std::size_t size(long classes) { return 3 * static_cast<std::size_t>(classes) + faults; }

  /// Throws an Error where samples were counted that cannot be judged. `who` is the metric's name.
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

/// A part of nothing is 0.
constexpr double ratio(double part, double of) { return of == 0 ? 0 : part / of; }

/// The average over the classes of a metric that says, of each, how often it was right and of how many:
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

/// The same of each class.
template <class M>
std::vector<double> each_class(M const&, std::span<double const> sums) {
  ClassCounts const n(sums, M::name());
  std::vector<double> all;
  for (std::size_t c = 0; c != n.classes(); ++c) all.push_back(ratio(M::part(n, c), M::of(n, c)));
  return all;
}

/// What is wrong with the options that all metrics of classes have; nothing: nullptr.
constexpr char const* class_fault(long num_classes, Average average = Average::micro, double threshold = 0.5) {
  if (num_classes < 2) return ".num_classes is at least 2";
  if (average == Average::positive && num_classes != 2)
    return "Average::positive is of two classes: say Average::macro";
  if (!(threshold >= 0 && threshold <= 1))
    return ".threshold must be a probability, from 0 to 1, also with .logits = true";
  return nullptr;
}

// Accuracy, precision, recall and F1: what they are called, what may be chosen, and their formulas over counts.

/// The part of samples whose class was found: `Meter{Accuracy{.num_classes = 10, .top_k = 5}}`. Predictions are scores
/// [batch, classes, ...], labels, or for two classes the probabilities of class 1, with .logits what the model returns
/// before sigmoid(); labels are [batch, ...] of an integer type. Its macro average is the mean of the classes' own
/// accuracies, which is what a rare class asks for.
struct Accuracy {
  long num_classes = 2;
  Average average = Average::micro;
  long top_k = 1;                ///< found means: among that many classes of the highest scores
  double threshold = 0.5;        ///< above it, a probability is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are left out

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

/// Of the samples that were predicted to be of a class, the part that is: `Meter{Precision{.num_classes = 10}}`.
/// Predictions and labels as for Accuracy. A class that nobody predicted has 0.
struct Precision {
  long num_classes = 2;
  Average average = Average::macro;
  double threshold = 0.5;        ///< above it, a probability is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are left out

  static constexpr std::string_view name() { return "Precision"; }
  constexpr std::size_t sums() const { return ClassCounts::size(num_classes); }
  constexpr char const* fault() const { return class_fault(num_classes, average, threshold); }
  static double part(ClassCounts const& n, std::size_t c) { return n.found(c); }
  static double of(ClassCounts const& n, std::size_t c) { return n.predicted(c); }
  double compute(std::span<double const> sums) const { return averaged(*this, sums); }
  std::vector<double> per_class(std::span<double const> sums) const { return each_class(*this, sums); }
  bool operator==(Precision const&) const = default;
};

/// Of the samples that are of a class, the part that was predicted to be: `Meter{Recall{.num_classes = 10}}`.
/// Predictions and labels as for Accuracy. A class that is no label has 0.
struct Recall {
  long num_classes = 2;
  Average average = Average::macro;
  double threshold = 0.5;        ///< above it, a probability is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are left out

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
  double threshold = 0.5;        ///< above it, a probability is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are left out

  static constexpr std::string_view name() { return "F1"; }
  constexpr std::size_t sums() const { return ClassCounts::size(num_classes); }
  constexpr char const* fault() const { return class_fault(num_classes, average, threshold); }
  static double part(ClassCounts const& n, std::size_t c) { return 2 * n.found(c); }
  static double of(ClassCounts const& n, std::size_t c);
  double compute(std::span<double const> sums) const { return averaged(*this, sums); }
  std::vector<double> per_class(std::span<double const> sums) const { return each_class(*this, sums); }
  bool operator==(F1 const&) const = default;
};

/// How often each label was predicted to be each class.
struct Confusion {
  std::size_t classes = 0;
  std::vector<double> counts = {};  ///< rows are labels, columns are predictions
  double operator()(std::size_t label, std::size_t predicted) const;
};

/// All pairs of a label and a prediction, counted: `Meter{ConfusionMatrix{.num_classes = 10}}`, whose compute() is a
/// Confusion. Predictions and labels as for Accuracy.
struct ConfusionMatrix {
  long num_classes = 2;
  double threshold = 0.5;        ///< above it, a probability is a prediction of class 1
  bool logits = false;           ///< predictions in the labels' shape are logits of class 1, not probabilities
  long ignore_index = no_label;  ///< samples with this label are left out

  static constexpr std::string_view name() { return "ConfusionMatrix"; }
  constexpr std::size_t sums() const {
    return static_cast<std::size_t>(num_classes * num_classes) + ClassCounts::faults;
  }
  constexpr char const* fault() const { return class_fault(num_classes, Average::micro, threshold); }
  Confusion compute(std::span<double const> sums) const;
  /// Declared as "val/pairs" it has a row "val/pairs.LABEL.PREDICTED" for each pair.
  template <class F>
  static void each(Confusion const& seen, F&& f) {
    for (std::size_t label = 0; label != seen.classes; ++label)
      for (std::size_t predicted = 0; predicted != seen.classes; ++predicted)
        f(std::to_string(label) + "." + std::to_string(predicted), seen(label, predicted));
  }
  bool operator==(ConfusionMatrix const&) const = default;
};

// How well a model of language predicts: what it is called, and its formula over sums.

/// exp of the mean negative log likelihood of the tokens that came: as many tokens the model could not tell apart.
/// Predictions are logits [..., vocabulary], with the vocabulary last; targets are [...] of an integer type.
/// `Meter{Perplexity{.ignore_index = 0}}` leaves the padding out.
struct Perplexity {
  long ignore_index = no_label;  ///< tokens with this label are left out

  static constexpr std::string_view name() { return "Perplexity"; }
  static constexpr std::size_t sums() { return 3; }
  /// The sum of negative log likelihoods, how many they are, and how many labels are not in the vocabulary.
  static double compute(std::span<double const> sums);
  bool operator==(Perplexity const&) const = default;
};

// The area below the ROC curve and the average precision, over samples in the order of their scores.

/// How many samples of one score are of the class, and how many are not.
struct ScoreGroup {
  double positives = 0;
  double negatives = 0;
};

/// Which of the two a curve is summed up to.
enum class Curve : bool { roc, precision_recall };

namespace curves {

void refuse_one_class(std::string_view who, std::string const& what);

}  // namespace curves

/// The area below the curve of all thresholds between scores; the groups begin with the highest score. ROC: how likely
/// a sample of the class has a higher score than one that is not, where equal scores count half. Precision and recall:
/// the precision at each group's score, weighted by how much recall it adds, without interpolation.
double area(Curve curve, std::span<ScoreGroup const> groups, std::string_view who, std::size_t of_class);

/// The groups of samples as they were kept: rows of a score for each of `heads` and the label. With one head the class
/// is 1, else it is that of the head.
std::vector<ScoreGroup> groups_of(std::span<double const> rows, std::size_t heads, std::size_t head);

/// The groups of samples as they were counted: the negatives of each bin, then the positives, bins from the lowest.
std::vector<ScoreGroup> groups_of_bins(std::span<double const> counts);

/// Throws an Error where a kept label is no class, or a kept score no number; or no probability where there are several
/// heads, whose scores depend on each other. The scores of one head are only ranked, so that any range is right.
void refuse_bad_rows(std::span<double const> rows, std::size_t heads, std::string_view who);

// AUROC and average precision, exact and binned: what they are called, what may be chosen, and how they are summed up.

/// How many scores a sample has: two classes are told apart by one, that of class 1.
constexpr std::size_t heads_of(long num_classes) {
  return num_classes == 2 ? 1 : static_cast<std::size_t>(num_classes);
}

/// The mean area over the classes, each against the rest, of samples that were kept in rows.
double area_of_rows(Curve curve, std::span<double const> rows, long num_classes, std::string_view who);

/// What the binned forms count: for each class the negatives and the positives of each bin, and the numbers of faults.
constexpr std::size_t binned_sums(long num_classes, long thresholds) {
  return heads_of(num_classes) * 2 * static_cast<std::size_t>(thresholds + 1) + ClassCounts::faults;
}

/// The same mean area, of samples that were counted in bins.
double area_of_bins(Curve curve, std::span<double const> sums, long num_classes, std::string_view who);

/// What is wrong with the options of the binned forms.
constexpr char const* binned_fault(long num_classes, long thresholds) {
  if (thresholds < 2) return ".thresholds is at least 2";
  return class_fault(num_classes);
}

/// The area below the ROC curve: how likely a sample of a class has a higher score for it than another one. Two
/// classes: scores of class 1 in the labels' shape, of any range; more: probabilities [batch, classes, ...], with
/// .logits what the model returns before softmax(), each class against the rest, and the mean of these. Exact, so it
/// keeps every score until reset(): BinnedAUROC does not.
struct AUROC {
  using Keeps = Samples;
  long num_classes = 2;
  bool logits = false;  ///< scores of several classes are logits, of which softmax() makes probabilities

  static constexpr std::string_view name() { return "AUROC"; }
  constexpr std::size_t width() const { return heads_of(num_classes) + 1; }
  constexpr char const* fault() const { return class_fault(num_classes); }
  double compute(std::span<double const> rows) const;
  bool operator==(AUROC const&) const = default;
};

/// The mean of the precision over what each score adds in recall. Predictions and labels as for AUROC.
struct AveragePrecision {
  using Keeps = Samples;
  long num_classes = 2;
  bool logits = false;  ///< scores of several classes are logits, of which softmax() makes probabilities

  static constexpr std::string_view name() { return "AveragePrecision"; }
  constexpr std::size_t width() const { return heads_of(num_classes) + 1; }
  constexpr char const* fault() const { return class_fault(num_classes); }
  double compute(std::span<double const> rows) const;
  bool operator==(AveragePrecision const&) const = default;
};

/// AUROC in constant memory: scores are probabilities, of which it counts how many lie between thresholds that divide 0
/// to 1 evenly. It is what AUROC would be if each score were rounded down to a threshold.
struct BinnedAUROC {
  long num_classes = 2;
  long thresholds = 200;
  bool logits = false;  ///< scores are logits, of which sigmoid(), or softmax() of several classes, makes probabilities

  static constexpr std::string_view name() { return "BinnedAUROC"; }
  constexpr std::size_t sums() const { return binned_sums(num_classes, thresholds); }
  constexpr char const* fault() const { return binned_fault(num_classes, thresholds); }
  double compute(std::span<double const> sums) const;
  bool operator==(BinnedAUROC const&) const = default;
};

/// AveragePrecision in constant memory, as BinnedAUROC is AUROC.
struct BinnedAveragePrecision {
  long num_classes = 2;
  long thresholds = 200;
  bool logits = false;  ///< scores are logits, of which sigmoid(), or softmax() of several classes, makes probabilities

  static constexpr std::string_view name() { return "BinnedAveragePrecision"; }
  constexpr std::size_t sums() const { return binned_sums(num_classes, thresholds); }
  constexpr char const* fault() const { return binned_fault(num_classes, thresholds); }
  double compute(std::span<double const> sums) const;
  bool operator==(BinnedAveragePrecision const&) const = default;
};

// Figures of values as they come, such as losses: their mean, their range, the mean of the last ones.

/// The mean of all values, or sum(value * weight) / sum(weight): `Meter{MeanMetric{}}`, `update(loss)`,
/// `update(loss, 32)`. A value is a number or a tensor, of which every element counts.
struct MeanMetric {
  static constexpr std::string_view name() { return "MeanMetric"; }
  static constexpr std::size_t sums() { return 2; }
  /// The weighted sum, and the sum of weights.
  static double compute(std::span<double const> sums);
  bool operator==(MeanMetric const&) const = default;
};

/// The least and the greatest of values.
struct Range {
  double least = 0;
  double greatest = 0;
  bool operator==(Range const&) const = default;
};

/// The least and the greatest of all values: `Meter{MinMax{}}`, whose compute() is a Range. A value is a number or a
/// tensor, of which every element counts. A value that is not a number makes both so.
struct MinMax {
  static constexpr Reduce reduce = Reduce::max;
  static constexpr std::string_view name() { return "MinMax"; }
  static constexpr std::size_t sums() { return 2; }
  /// The greatest of -value, and the greatest of value.
  static Range compute(std::span<double const> sums);
  /// Declared as "val/x" it has the rows "val/x.min" and "val/x.max".
  template <class F>
  static void each(Range const& range, F&& f) {
    f("min", range.least);
    f("max", range.greatest);
  }
  bool operator==(MinMax const&) const = default;
};

/// The mean of the last `window` values: `Meter{MeanOfLast{.window = 100}}` is a loss that a person can watch. A value
/// is a number or a tensor of one element.
struct MeanOfLast {
  using Keeps = Window;
  long window = 100;

  static constexpr std::string_view name() { return "MeanOfLast"; }
  constexpr char const* fault() const { return window < 1 ? ".window is at least 1" : nullptr; }
  /// The sum of the values, and how many they are.
  static double compute(std::span<double const> sums);
  bool operator==(MeanOfLast const&) const = default;
};

// Errors of numbers that are predicted: what they are called, and their formulas over sums.

/// The mean of (prediction - target) squared: `Meter{MeanSquaredError{}}`; with .root its square root. Predictions and
/// targets have the same shape.
struct MeanSquaredError {
  bool root = false;

  static constexpr std::string_view name() { return "MeanSquaredError"; }
  static constexpr std::size_t sums() { return 2; }
  /// The sum of squares, and how many they are.
  double compute(std::span<double const> sums) const;
  bool operator==(MeanSquaredError const&) const = default;
};

/// The mean of |prediction - target|: `Meter{MeanAbsoluteError{}}`. Predictions and targets have the same shape.
struct MeanAbsoluteError {
  static constexpr std::string_view name() { return "MeanAbsoluteError"; }
  static constexpr std::size_t sums() { return 2; }
  /// The sum of distances, and how many they are.
  static double compute(std::span<double const> sums);
  bool operator==(MeanAbsoluteError const&) const = default;
};

/// The part of the targets' variance that the predictions explain: 1 is perfect, 0 is as good as always predicting
/// their mean. Both have the same shape, [batch] or [batch, outputs]; of several outputs it is the mean.
/// `Meter{R2{.outputs = 3}}`.
struct R2 {
  long outputs = 1;

  static constexpr std::string_view name() { return "R2"; }
  constexpr std::size_t sums() const { return parts * static_cast<std::size_t>(outputs); }
  constexpr char const* fault() const { return outputs < 1 ? ".outputs is at least 1" : nullptr; }
  /// Of each output the samples, the mean of the targets, their squared distances to it, and the squared errors.
  static constexpr std::size_t parts = 4;
  /// The same of two batches together, without a difference of large sums: Chan, Golub and LeVeque.
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
