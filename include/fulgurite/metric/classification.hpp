#pragma once
// Accuracy, precision, recall and F1: what they are called, what may be chosen, and their formulas over counts.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/metric/average.hpp>

namespace fulgurite::metric {

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
  static double of(ClassCounts const& n, std::size_t c) { return n.predicted(c) + n.labelled(c); }
  double compute(std::span<double const> sums) const { return averaged(*this, sums); }
  std::vector<double> per_class(std::span<double const> sums) const { return each_class(*this, sums); }
  bool operator==(F1 const&) const = default;
};

/// How often each label was predicted to be each class.
struct Confusion {
  std::size_t classes = 0;
  std::vector<double> counts = {};  ///< rows are labels, columns are predictions
  double operator()(std::size_t label, std::size_t predicted) const { return counts.at(label * classes + predicted); }
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
  Confusion compute(std::span<double const> sums) const {
    auto const classes = static_cast<std::size_t>(num_classes);
    ClassCounts::refuse_faults(sums.last(ClassCounts::faults), classes, name());
    auto const pairs = sums.first(classes * classes);
    return {classes, {pairs.begin(), pairs.end()}};
  }
  /// Declared as "val/pairs" it has a row "val/pairs.LABEL.PREDICTED" for each pair.
  template <class F>
  static void each(Confusion const& seen, F&& f) {
    for (std::size_t label = 0; label != seen.classes; ++label)
      for (std::size_t predicted = 0; predicted != seen.classes; ++predicted)
        f(std::to_string(label) + "." + std::to_string(predicted), seen(label, predicted));
  }
  bool operator==(ConfusionMatrix const&) const = default;
};

}  // namespace fulgurite::metric
