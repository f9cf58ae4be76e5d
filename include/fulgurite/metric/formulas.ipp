#pragma once
// The bodies of metric/formulas.hpp.

#include <algorithm>
#include <cmath>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/formulas.hpp>

namespace fulgurite::metric {

FULGURITE_BULK_BODY ClassCounts::ClassCounts(std::span<double const> sums, std::string_view who)
    : sums_(sums), classes_((sums.size() - faults) / 3) {
  refuse_faults(sums.last(faults), classes_, who);
  double all = 0;
  for (std::size_t c = 0; c != classes_; ++c) all += labelled(c);
  if (all == 0)
    throw Error("fulgurite.metric.empty",
                std::string(who) + " has counted no label: update it with at least one sample that is not ignored");
}

FULGURITE_BODY void ClassCounts::refuse_faults(std::span<double const> counted, std::size_t classes,
                                               std::string_view who) {
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

FULGURITE_BULK_BODY double F1::of(ClassCounts const& n, std::size_t c) { return n.predicted(c) + n.labelled(c); }

FULGURITE_BULK_BODY double Confusion::operator()(std::size_t label, std::size_t predicted) const {
  return counts.at(label * classes + predicted);
}

FULGURITE_BULK_BODY Confusion ConfusionMatrix::compute(std::span<double const> sums) const {
  auto const classes = static_cast<std::size_t>(num_classes);
  ClassCounts::refuse_faults(sums.last(ClassCounts::faults), classes, name());
  auto const pairs = sums.first(classes * classes);
  return {classes, {pairs.begin(), pairs.end()}};
}

FULGURITE_BULK_BODY double Perplexity::compute(std::span<double const> sums) {
  if (sums[2] != 0)
    throw Error("fulgurite.metric.labels",
                std::to_string(static_cast<long>(sums[2])) +
                    " tokens of Perplexity are not in the vocabulary, which is the predictions' last extent: say "
                    ".ignore_index for a label that means none");
  if (sums[1] == 0)
    throw Error("fulgurite.metric.empty", "Perplexity has counted no token: update it with one that is not ignored");
  return std::exp(sums[0] / sums[1]);
}

FULGURITE_BODY void refuse_one_class(std::string_view who, std::string const& what) {
  throw Error("fulgurite.metric.one_class",
              std::string(who) + " is not defined: " + what + "; update it with more samples before compute()");
}

FULGURITE_BULK_BODY double area(Curve curve, std::span<ScoreGroup const> groups, std::string_view who,
                                std::size_t of_class) {
  ScoreGroup all;
  for (auto const& group : groups) {
    all.positives += group.positives;
    all.negatives += group.negatives;
  }
  std::string const name = "class " + std::to_string(of_class);
  if (all.positives == 0) refuse_one_class(who, "no label is " + name);
  if (all.negatives == 0 && curve == Curve::roc) refuse_one_class(who, "every label is " + name);
  double sum = 0, above = 0, samples = 0;
  for (auto const& group : groups) {
    samples += group.positives + group.negatives;
    if (curve == Curve::roc) sum += group.negatives * (above + group.positives / 2);
    above += group.positives;
    if (curve == Curve::precision_recall && samples != 0) sum += group.positives * (above / samples);
  }
  return sum / all.positives / (curve == Curve::roc ? all.negatives : 1);
}

/// The groups of kept samples: each row has a score for each of `heads`, then the label. With one head the class is 1,
/// otherwise that of the head.
FULGURITE_BULK_BODY std::vector<ScoreGroup> groups_of(std::span<double const> rows, std::size_t heads,
                                                      std::size_t head) {
  std::vector<std::pair<double, bool>> scores;
  auto const of_class = static_cast<double>(heads == 1 ? 1 : head);
  for (std::size_t at = 0; at != rows.size(); at += heads + 1)
    scores.emplace_back(rows[at + head], rows[at + heads] == of_class);
  std::sort(scores.begin(), scores.end(), [](auto const& a, auto const& b) { return a.first > b.first; });
  std::vector<ScoreGroup> groups;
  for (std::size_t i = 0; i != scores.size(); ++i) {
    if (i == 0 || scores[i].first != scores[i - 1].first) groups.emplace_back();
    (scores[i].second ? groups.back().positives : groups.back().negatives) += 1;
  }
  return groups;
}

/// The groups of counted samples: the negatives of each bin, then the positives, bins from the lowest.
FULGURITE_BULK_BODY std::vector<ScoreGroup> groups_of_bins(std::span<double const> counts) {
  std::size_t const bins = counts.size() / 2;
  std::vector<ScoreGroup> groups;
  for (std::size_t bin = bins; bin-- != 0;) groups.push_back({counts[bins + bin], counts[bin]});
  return groups;
}

/// Throws if a kept label is not a class, if a kept score is NaN, or, with several heads, whose scores depend on each
/// other, if a score is not a probability. The scores of one head are only ranked, so any range is valid.
FULGURITE_BODY void refuse_bad_rows(std::span<double const> rows, std::size_t heads, std::string_view who) {
  double const classes = static_cast<double>(heads == 1 ? 2 : heads);
  double labels = 0, scores = 0, outside = 0;
  for (std::size_t at = 0; at != rows.size(); at += heads + 1) {
    double const label = rows[at + heads];
    labels += !(label >= 0 && label < classes);
    bool nan = false, out = false;
    for (std::size_t head = 0; head != heads; ++head) {
      double const score = rows[at + head];
      nan = nan || score != score;
      out = out || (heads != 1 && (score < -rounded_off || score > 1 + rounded_off));
    }
    scores += nan;
    outside += out;
  }
  double const counted[] = {labels, scores, outside};
  ClassCounts::refuse_faults(counted, static_cast<std::size_t>(classes), who);
}

/// The mean area over the classes, each against the rest, from samples that were kept in rows.
FULGURITE_BULK_BODY double area_of_rows(Curve curve, std::span<double const> rows, long num_classes,
                                        std::string_view who) {
  std::size_t const heads = heads_of(num_classes);
  refuse_bad_rows(rows, heads, who);
  double sum = 0;
  for (std::size_t head = 0; head != heads; ++head)
    sum += area(curve, groups_of(rows, heads, head), who, heads == 1 ? 1 : head);
  return sum / static_cast<double>(heads);
}

/// The mean area over the classes, from samples that were counted in bins.
FULGURITE_BULK_BODY double area_of_bins(Curve curve, std::span<double const> sums, long num_classes,
                                        std::string_view who) {
  ClassCounts::refuse_faults(sums.last(ClassCounts::faults), static_cast<std::size_t>(num_classes), who);
  std::size_t const heads = heads_of(num_classes), of_each = (sums.size() - ClassCounts::faults) / heads;
  double sum = 0;
  for (std::size_t head = 0; head != heads; ++head)
    sum += area(curve, groups_of_bins(sums.subspan(head * of_each, of_each)), who, heads == 1 ? 1 : head);
  return sum / static_cast<double>(heads);
}

FULGURITE_BULK_BODY double AUROC::compute(std::span<double const> rows) const {
  return area_of_rows(Curve::roc, rows, num_classes, name());
}

FULGURITE_BULK_BODY double AveragePrecision::compute(std::span<double const> rows) const {
  return area_of_rows(Curve::precision_recall, rows, num_classes, name());
}

FULGURITE_BULK_BODY double BinnedAUROC::compute(std::span<double const> sums) const {
  return area_of_bins(Curve::roc, sums, num_classes, name());
}

FULGURITE_BULK_BODY double BinnedAveragePrecision::compute(std::span<double const> sums) const {
  return area_of_bins(Curve::precision_recall, sums, num_classes, name());
}

FULGURITE_BULK_BODY double MeanMetric::compute(std::span<double const> sums) { return sums[0] / sums[1]; }

FULGURITE_BULK_BODY Range MinMax::compute(std::span<double const> sums) { return {-sums[0], sums[1]}; }

FULGURITE_BULK_BODY double MeanOfLast::compute(std::span<double const> sums) { return sums[0] / sums[1]; }

FULGURITE_BULK_BODY double MeanSquaredError::compute(std::span<double const> sums) const {
  return root ? std::sqrt(sums[0] / sums[1]) : sums[0] / sums[1];
}

FULGURITE_BULK_BODY double MeanAbsoluteError::compute(std::span<double const> sums) { return sums[0] / sums[1]; }

FULGURITE_BULK_BODY double R2::compute(std::span<double const> sums) const {
  double all = 0;
  auto const n = static_cast<std::size_t>(outputs);
  for (std::size_t i = 0; i != n; ++i) all += of_output(sums[i], sums[n + i], sums[2 * n + i], sums[3 * n + i]);
  return all / static_cast<double>(outputs);
}

FULGURITE_BULK_BODY double R2::of_output(double samples, double mean, double squares, double errors) {
  double const rounding = 8 * std::numeric_limits<double>::epsilon() * mean;
  if (squares <= samples * rounding * rounding)
    throw Error("fulgurite.metric.constant_target",
                "R2 compares predictions with the targets' mean, and the targets do not differ by more than their "
                "rounding: update it with more samples, or subtract a constant from both");
  return 1 - errors / squares;
}

}  // namespace fulgurite::metric
