#pragma once
// The area below the ROC curve and the average precision, over samples in the order of their scores.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/average.hpp>

namespace fulgurite::metric {

/// How many samples of one score are of the class, and how many are not.
struct ScoreGroup {
  double positives = 0;
  double negatives = 0;
};

/// Which of the two a curve is summed up to.
enum class Curve : bool { roc, precision_recall };

namespace curves {

FULGURITE_COLD void refuse_one_class(std::string_view who, std::string const& what) {
  throw Error("fulgurite.metric.one_class",
              std::string(who) + " is not defined: " + what + "; update it with more samples before compute()");
}

}  // namespace curves

/// The area below the curve of all thresholds between scores; the groups begin with the highest score. ROC: how likely
/// a sample of the class has a higher score than one that is not, where equal scores count half. Precision and recall:
/// the precision at each group's score, weighted by how much recall it adds, without interpolation.
FULGURITE_BULK double area(Curve curve, std::span<ScoreGroup const> groups, std::string_view who,
                           std::size_t of_class) {
  ScoreGroup all;
  for (auto const& group : groups) {
    all.positives += group.positives;
    all.negatives += group.negatives;
  }
  std::string const name = "class " + std::to_string(of_class);
  if (all.positives == 0) curves::refuse_one_class(who, "no label is " + name);
  if (all.negatives == 0 && curve == Curve::roc) curves::refuse_one_class(who, "every label is " + name);
  double sum = 0, above = 0, samples = 0;
  for (auto const& group : groups) {
    samples += group.positives + group.negatives;
    if (curve == Curve::roc) sum += group.negatives * (above + group.positives / 2);
    above += group.positives;
    if (curve == Curve::precision_recall && samples != 0) sum += group.positives * (above / samples);
  }
  return sum / all.positives / (curve == Curve::roc ? all.negatives : 1);
}

/// The groups of samples as they were kept: rows of a score for each of `heads` and the label. With one head the class
/// is 1, else it is that of the head.
FULGURITE_BULK std::vector<ScoreGroup> groups_of(std::span<double const> rows, std::size_t heads, std::size_t head) {
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

/// The groups of samples as they were counted: the negatives of each bin, then the positives, bins from the lowest.
FULGURITE_BULK std::vector<ScoreGroup> groups_of_bins(std::span<double const> counts) {
  std::size_t const bins = counts.size() / 2;
  std::vector<ScoreGroup> groups;
  for (std::size_t bin = bins; bin-- != 0;) groups.push_back({counts[bins + bin], counts[bin]});
  return groups;
}

/// Throws an Error where a kept label is no class, or a kept score no number; or no probability where there are several
/// heads, whose scores depend on each other. The scores of one head are only ranked, so that any range is right.
FULGURITE_COLD void refuse_bad_rows(std::span<double const> rows, std::size_t heads, std::string_view who) {
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

}  // namespace fulgurite::metric
