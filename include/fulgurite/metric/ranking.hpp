#pragma once
// AUROC and average precision, exact and binned: what they are called, what may be chosen, and how they are summed up.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/keeps.hpp>
#include <fulgurite/metric/score_groups.hpp>

namespace fulgurite::metric {

/// How many scores a sample has: two classes are told apart by one, that of class 1.
constexpr std::size_t heads_of(long num_classes) {
  return num_classes == 2 ? 1 : static_cast<std::size_t>(num_classes);
}

/// The mean area over the classes, each against the rest, of samples that were kept in rows.
FULGURITE_BULK double area_of_rows(Curve curve, std::span<double const> rows, long num_classes, std::string_view who) {
  std::size_t const heads = heads_of(num_classes);
  refuse_bad_rows(rows, heads, who);
  double sum = 0;
  for (std::size_t head = 0; head != heads; ++head)
    sum += area(curve, groups_of(rows, heads, head), who, heads == 1 ? 1 : head);
  return sum / static_cast<double>(heads);
}

/// What the binned forms count: for each class the negatives and the positives of each bin, and the numbers of faults.
constexpr std::size_t binned_sums(long num_classes, long thresholds) {
  return heads_of(num_classes) * 2 * static_cast<std::size_t>(thresholds + 1) + ClassCounts::faults;
}

/// The same mean area, of samples that were counted in bins.
FULGURITE_BULK double area_of_bins(Curve curve, std::span<double const> sums, long num_classes, std::string_view who) {
  ClassCounts::refuse_faults(sums.last(ClassCounts::faults), static_cast<std::size_t>(num_classes), who);
  std::size_t const heads = heads_of(num_classes), of_each = (sums.size() - ClassCounts::faults) / heads;
  double sum = 0;
  for (std::size_t head = 0; head != heads; ++head)
    sum += area(curve, groups_of_bins(sums.subspan(head * of_each, of_each)), who, heads == 1 ? 1 : head);
  return sum / static_cast<double>(heads);
}

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
  double compute(std::span<double const> rows) const { return area_of_rows(Curve::roc, rows, num_classes, name()); }
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
  double compute(std::span<double const> rows) const {
    return area_of_rows(Curve::precision_recall, rows, num_classes, name());
  }
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
  double compute(std::span<double const> sums) const { return area_of_bins(Curve::roc, sums, num_classes, name()); }
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
  double compute(std::span<double const> sums) const {
    return area_of_bins(Curve::precision_recall, sums, num_classes, name());
  }
  bool operator==(BinnedAveragePrecision const&) const = default;
};

}  // namespace fulgurite::metric
