#pragma once
// From counts of classes to one number: accuracy, precision, recall and F1 are the same sum with other terms.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::metric {

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
  explicit ClassCounts(std::span<double const> sums, std::string_view who)
      : sums_(sums), classes_((sums.size() - faults) / 3) {
    refuse_faults(sums.last(faults), classes_, who);
    double all = 0;
    for (std::size_t c = 0; c != classes_; ++c) all += labelled(c);
    if (all == 0)
      throw Error("fulgurite.metric.empty",
                  std::string(who) + " has counted no label: update it with at least one sample that is not ignored");
  }

  std::size_t classes() const { return classes_; }
  double found(std::size_t c) const { return sums_[c]; }
  double predicted(std::size_t c) const { return sums_[classes_ + c]; }
  double labelled(std::size_t c) const { return sums_[2 * classes_ + c]; }

  FULGURITE_COLD static void refuse_faults(std::span<double const> counted, std::size_t classes, std::string_view who) {
    if (counted[0] != 0)
      throw Error("fulgurite.metric.labels",
                  std::to_string(static_cast<long>(counted[0])) + " samples of " + std::string(who) +
                      " have a label or a prediction that is none of 0 to " + std::to_string(classes - 1) +
                      ": say .num_classes, or .ignore_index for a label that means none");
    if (counted[1] != 0)
      throw Error("fulgurite.metric.not_a_number",
                  std::to_string(static_cast<long>(counted[1])) + " samples of " + std::string(who) +
                      " have a score that is not a number: look for the step in which the weights became so");
    if (counted[2] != 0)
      throw Error("fulgurite.metric.scores",
                  std::to_string(static_cast<long>(counted[2])) + " samples of " + std::string(who) +
                      " have a score outside of 0 to 1, where probabilities must lie: say .logits = true if the model "
                      "returns logits, or update it with probabilities");
  }

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

}  // namespace fulgurite::metric
