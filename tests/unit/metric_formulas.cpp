// Metrics without tensors: their formulas over counts, what is refused, and what a meter does with its store.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch_approx.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/metric/formulas.hpp>
#include <fulgurite/metric/meter.hpp>

#include "host_store.hpp"

using namespace fulgurite;
using namespace fulgurite::metric;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

using Numbers = std::vector<double>;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Of 4 classes: found, predicted, labels. Class 2 is predicted and no label, class 3 does not occur. No faults.
Numbers const four = {3, 1, 0, 0, 4, 2, 2, 0, 5, 3, 0, 0, 0, 0, 0};

/// A metric as somebody else writes one.
struct Mean {
  static constexpr std::size_t sums() { return 2; }
  static Numbers tally(double value, double weight = 1) { return {value * weight, weight}; }
  static double compute(std::span<double const> sums) { return sums[0] / sums[1]; }
};
struct Greatest {
  static constexpr Reduce reduce = Reduce::max;
  static constexpr std::size_t sums() { return 1; }
  static Numbers tally(double value) { return {value}; }
  static double compute(std::span<double const> sums) { return sums[0]; }
};
template <class D>
using HostMeter = BasicMeter<D, toy::HostStore>;

/// This rank and another one, which has `other`.
struct TwoRanks {
  static constexpr bool is_distributed = true;
  Numbers other;
  void reduce_in_place(std::span<double> values, std::span<Reduce const> how) const {
    for (std::size_t i = 0; i != values.size(); ++i)
      values[i] = how[i] == Reduce::max ? std::max(values[i], other[i]) : values[i] + other[i];
  }
  std::vector<std::string> gather(std::string const& mine) const {
    std::string bytes(other.size() * sizeof(double), 0);
    std::memcpy(bytes.data(), other.data(), bytes.size());
    return {mine, bytes};
  }
};
struct Alone {
  static constexpr bool is_distributed = false;
};
/// The same two through a context.
struct GivesAll {
  Numbers other;
  std::vector<Numbers> all_gather(std::span<double const> mine) const {
    return {Numbers(mine.begin(), mine.end()), other};
  }
};

}  // namespace

TEST_CASE("metrics of classes: one formula each, four averages") {
  CHECK(Accuracy{.num_classes = 4}.compute(four) == Approx(4.0 / 8));
  // Three classes occur, of which one is no label.
  CHECK(Accuracy{.num_classes = 4, .average = Average::macro}.compute(four) == Approx((3.0 / 5 + 1.0 / 3) / 3));
  CHECK(Precision{.num_classes = 4}.compute(four) == Approx((3.0 / 4 + 1.0 / 2) / 3));
  CHECK(Precision{.num_classes = 4, .average = Average::micro}.compute(four) == Approx(4.0 / 8));
  CHECK(Precision{.num_classes = 4, .average = Average::weighted}.compute(four) ==
        Approx((5 * 3.0 / 4 + 3 * 1.0 / 2) / 8));
  CHECK(Recall{.num_classes = 4}.compute(four) == Approx((3.0 / 5 + 1.0 / 3) / 3));
  CHECK(F1{.num_classes = 4}.compute(four) == Approx((6.0 / 9 + 2.0 / 5) / 3));
  CHECK(Precision{.num_classes = 4}.per_class(four) == Numbers{0.75, 0.5, 0, 0});
  Numbers const two = {7, 2, 8, 5, 9, 4, 0, 0, 0};
  CHECK(Precision{.average = Average::positive}.compute(two) == Approx(2.0 / 5));
  CHECK(Recall{.average = Average::positive}.compute(two) == Approx(2.0 / 4));
  CHECK(F1{.average = Average::positive}.compute(two) == Approx(4.0 / 9));
  auto const matrix = ConfusionMatrix{}.compute(Numbers{1, 2, 3, 4, 0, 0, 0});
  CHECK(matrix(1, 0) == 3);
}

TEST_CASE("metrics of classes: a label that is no class, a score that is no number and no label at all are refused") {
  auto bad = four;
  bad[12] = 2;
  CHECK_THROWS_WITH(Accuracy{.num_classes = 4}.compute(bad),
                    StartsWith("[fulgurite.metric.labels] 2 samples of Accuracy have a label or a prediction that is "
                               "none of 0 to 3: "));
  CHECK_THROWS_WITH(F1{.num_classes = 4}.per_class(bad), StartsWith("[fulgurite.metric.labels]"));
  bad[12] = 0;
  bad[13] = 1;
  CHECK_THROWS_WITH(Recall{.num_classes = 4}.compute(bad), StartsWith("[fulgurite.metric.not_a_number]"));
  CHECK_THROWS_WITH(Accuracy{}.compute(Numbers(9, 0)), StartsWith("[fulgurite.metric.empty]"));
  CHECK_THROWS_WITH(ConfusionMatrix{}.compute(Numbers{1, 2, 3, 4, 1, 0, 0}), StartsWith("[fulgurite.metric.labels]"));
}

TEST_CASE("metrics of classes refuse scores that are no probabilities, and name .logits as the cure") {
  auto bad = four;
  bad[14] = 3;
  CHECK_THROWS_WITH(Accuracy{.num_classes = 4}.compute(bad),
                    StartsWith("[fulgurite.metric.scores] 3 samples of Accuracy have a score outside of 0 to 1, where "
                               "probabilities must lie: say .logits = true"));
  CHECK_THROWS_WITH(Precision{.num_classes = 4}.compute(bad), StartsWith("[fulgurite.metric.scores]"));
  CHECK_THROWS_WITH(Recall{.num_classes = 4}.per_class(bad), StartsWith("[fulgurite.metric.scores]"));
  CHECK_THROWS_WITH(F1{.num_classes = 4}.compute(bad), StartsWith("[fulgurite.metric.scores]"));
  CHECK_THROWS_WITH(ConfusionMatrix{}.compute(Numbers{1, 2, 3, 4, 0, 0, 1}), StartsWith("[fulgurite.metric.scores]"));
  // The scores of one head are only ranked; those of several are compared with each other's probabilities.
  CHECK(AUROC{}.compute(Numbers{-2, 0, 3, 1}) == 1);
  Numbers const three = {.9, .1, .1, 0, -1, 2, .1, 1, .1, .1, .9, 2};
  CHECK_THROWS_WITH(AUROC{.num_classes = 3}.compute(three), StartsWith("[fulgurite.metric.scores] 1 samples of AUROC"));
  CHECK_THROWS_WITH(AveragePrecision{.num_classes = 3}.compute(three), StartsWith("[fulgurite.metric.scores]"));
}

TEST_CASE("curves: equal scores count half, and precision is that of each score") {
  // Two heads would be classes 0 and 1; one is class 1. Rows of score and label.
  Numbers const rows = {0.9, 1, 0.8, 0, 0.8, 1, 0.3, 0, 0.1, 1};
  // Pairs of a positive and a negative: 0.9 wins 2, 0.8 draws 1 and wins 1, 0.1 loses 2.
  CHECK(AUROC{}.compute(rows) == Approx(3.5 / 6));
  CHECK(AveragePrecision{}.compute(rows) == Approx((1.0 + 2.0 / 3 + 3.0 / 5) / 3));
  CHECK_THROWS_WITH(AUROC{}.compute(Numbers{0.9, 1, 0.8, 1}),
                    ContainsSubstring("[fulgurite.metric.one_class] AUROC is not defined: every label is class 1"));
  CHECK_THROWS_WITH(AveragePrecision{}.compute(Numbers{0.9, 0}), ContainsSubstring("no label is class 1"));
  CHECK(AveragePrecision{}.compute(Numbers{0.9, 1}) == 1);
  CHECK_THROWS_WITH(AUROC{}.compute(Numbers{0.9, 1, 0.8, 2}), StartsWith("[fulgurite.metric.labels] 1 samples"));
  CHECK_THROWS_WITH(AUROC{}.compute(Numbers{not_a_number, 1, 0.8, 0}), StartsWith("[fulgurite.metric.not_a_number]"));
  // Three classes, each right: every head orders its own class first.
  CHECK(AUROC{.num_classes = 3}.compute(Numbers{.9, .1, .1, 0, .1, .9, .1, 1, .1, .1, .9, 2}) == 1);
}

TEST_CASE("curves in bins: as if each score were rounded down") {
  // Bins of 2 thresholds: below 0, 0 to 1, 1. Negatives, positives, faults.
  Numbers bins = {0, 2, 0, 0, 1, 3, 0, 0, 0};
  CHECK(BinnedAUROC{.thresholds = 2}.compute(bins) == Approx((2 * 3 + 2 * 0.5) / 8));
  CHECK(BinnedAveragePrecision{.thresholds = 2}.compute(bins) == Approx((3 * 1.0 + 4.0 / 6) / 4));
  bins[8] = 3;
  CHECK_THROWS_WITH(BinnedAUROC{.thresholds = 2}.compute(bins),
                    StartsWith("[fulgurite.metric.scores] 3 samples of BinnedAUROC have a score outside of 0 to 1"));
  bins[7] = 1;
  CHECK_THROWS_WITH(BinnedAUROC{.thresholds = 2}.compute(bins), StartsWith("[fulgurite.metric.not_a_number]"));
}

TEST_CASE("metrics of numbers: errors, variance explained, perplexity, range") {
  CHECK(MeanSquaredError{}.compute(Numbers{8, 2}) == 4);
  CHECK(MeanSquaredError{.root = true}.compute(Numbers{8, 2}) == 2);
  CHECK(MeanAbsoluteError{}.compute(Numbers{5, 2}) == 2.5);
  // Targets 1, 2, 3 and errors whose squares sum up to 0.5; a second output without errors.
  CHECK(R2{}.compute(Numbers{3, 2, 2, 0.5}) == 0.75);
  CHECK(R2{.outputs = 2}.compute(Numbers{3, 3, 2, 2, 2, 2, 0.5, 0}) == 0.875);
  CHECK_THROWS_WITH(R2{}.compute(Numbers{3, 0.1, 1e-34, 0.5}), StartsWith("[fulgurite.metric.constant_target]"));
  CHECK(Perplexity{}.compute(Numbers{std::log(8.0) * 5, 5, 0}) == Approx(8));
  CHECK_THROWS_WITH(Perplexity{}.compute(Numbers{1, 5, 2}), StartsWith("[fulgurite.metric.labels] 2 tokens"));
  CHECK_THROWS_WITH(Perplexity{}.compute(Numbers{0, 0, 0}), StartsWith("[fulgurite.metric.empty]"));
  CHECK(MinMax{}.compute(Numbers{3, 7}) == Range{-3, 7});
}

TEST_CASE("R2 of targets far from 0 is that of the same targets around 0, in batches and over ranks") {
  // Target i is 9.5e5 + i % 2 * 1e-3, of which an error is 1e-4: 1 - 1e-8 / 2.5e-7.
  auto const batch = [](double samples, double mean) {
    return Numbers{samples, mean, samples * 2.5e-7, samples * 1e-8};
  };
  HostMeter<R2> meter, other;
  for (int i = 0; i != 1000; ++i) meter.add(batch(600, 9.5e5));
  CHECK(meter.compute() == Approx(0.96).epsilon(1e-12));
  // A batch whose mean is 2 away: between the two are 600 * 600 / 1200 * 4.
  HostMeter<R2> near, far;
  near.add(batch(600, 9.5e5));
  far.add(batch(600, 9.5e5 + 2));
  other = near;
  other.merge(far);
  double const both = 1 - 1200 * 1e-8 / (1200 * 2.5e-7 + 1200);
  CHECK(other.compute() == Approx(both).epsilon(1e-14));
  auto const sums = batch(600, 9.5e5 + 2);
  auto with_updates = sums;
  with_updates.push_back(1);
  TwoRanks ranks{with_updates};
  CHECK(near.compute(ranks) == other.compute());
  GivesAll through_context{with_updates};
  CHECK(near.compute(through_context) == other.compute());
  TwoRanks alone{{0, 0, 0, 0, 0}};  // a rank that has seen nothing
  CHECK(near.compute(alone) == near.compute());
}

TEST_CASE("a meter is updated, computed, reset, merged and saved") {
  HostMeter<Mean> mean;
  CHECK_THROWS_WITH(mean.compute(), StartsWith("[fulgurite.metric.empty] a metric has no value yet"));
  mean.update(1.0);
  mean.update(4.0, 3.0);
  CHECK(mean.compute() == Approx(13.0 / 4));
  CHECK(mean.updates() == 2);

  HostMeter<Mean> other;
  mean.merge(other);
  CHECK(mean.updates() == 2);
  other.update(7.0);
  mean.merge(other);
  CHECK(mean.compute() == Approx(20.0 / 5));

  HostMeter<Mean> loaded;
  load_state_text(loaded, state_text(mean));
  CHECK(loaded.compute() == mean.compute());
  CHECK(loaded.updates() == 3);

  mean.reset();
  CHECK_THROWS_WITH(mean.compute(), StartsWith("[fulgurite.metric.empty]"));
  mean.update(2.0);
  CHECK(mean.compute() == 2);
}

TEST_CASE("a meter over ranks: sums are added, the greatest is found, and what a rank keeps stays its own") {
  HostMeter<Mean> mean;
  TwoRanks both{{30, 4, 2}};
  CHECK(mean.compute(both) == 7.5);  // this rank has had no batch
  mean.update(10.0);
  CHECK(mean.compute(both) == 8);
  CHECK(mean.compute(both) == 8);
  CHECK(mean.compute() == 10);
  Alone alone;
  CHECK(mean.compute(alone) == 10);
  GivesAll const ctx{{30, 4, 2}};
  CHECK(mean.compute(ctx) == 8);

  HostMeter<Greatest> greatest;
  greatest.update(-5.0);
  TwoRanks empty{{-std::numeric_limits<double>::infinity(), 0}};
  CHECK(greatest.compute(empty) == -5);
  GivesAll const unsound{{not_a_number, 1}};
  CHECK(std::isnan(greatest.compute(unsound)));
  greatest.reset();
  CHECK_THROWS_WITH(greatest.compute(empty), StartsWith("[fulgurite.metric.empty]"));
}

TEST_CASE("options of metrics are judged by the compiler where they are constants, else by an Error") {
  static_assert(Accuracy{.num_classes = 10, .top_k = 5}.fault() == nullptr);
  static_assert(Accuracy{.num_classes = 3, .top_k = 4}.fault() != nullptr);
  static_assert(F1{.num_classes = 3, .average = Average::positive}.fault() != nullptr);
  static_assert(Accuracy{.threshold = -1}.fault() != nullptr);
  static_assert(ConfusionMatrix{.threshold = 2, .logits = true}.fault() != nullptr);
  static_assert(Accuracy{.num_classes = 10, .threshold = 0.9}.fault() != nullptr);
  static_assert(ConfusionMatrix{.num_classes = 3, .threshold = 0.4}.fault() != nullptr);
  static_assert(F1{.num_classes = 3, .logits = true}.fault() == nullptr);
  static_assert(BinnedAUROC{.thresholds = 1}.fault() != nullptr);
  static_assert(R2{.outputs = 0}.fault() != nullptr);
  static_assert(MeanOfLast{.window = 0}.fault() != nullptr);
  CHECK_THROWS_WITH(HostMeter<Accuracy>(Accuracy{.num_classes = 1}),
                    StartsWith("[fulgurite.metric.options] Accuracy: .num_classes is at least 2"));
  CHECK_THROWS_WITH(HostMeter<Accuracy>({.threshold = 1.5, .logits = true}),
                    StartsWith("[fulgurite.metric.options] Accuracy: .threshold must be a probability, from 0 to 1, "
                               "also with .logits = true, got 1.5"));
  CHECK_THROWS_WITH(HostMeter<Accuracy>({.threshold = -1e-8}), ContainsSubstring("got -1e-08"));
  HostMeter<Accuracy> ten(Accuracy{.num_classes = 10}), two;
  CHECK_THROWS_WITH(ten.merge(two), StartsWith("[fulgurite.metric.merge] Accuracy cannot be merged"));
}

TEST_CASE("options by which a metric counts are in its saved state, and a load says which of them are others") {
  fulgurite::ArchiveNode tree;
  fulgurite::StateSaver saver(tree);
  HostMeter<Accuracy> saved(Accuracy{.threshold = 0.25, .ignore_index = 7});
  saved.state(saver);
  auto const differences = [&](Accuracy const& definition) {
    HostMeter<Accuracy> meter(definition);
    fulgurite::StateLoader::Differences all;
    fulgurite::StateLoader loader(tree, "accuracy", nullptr, nullptr, &all);
    meter.state(loader);
    return all;
  };
  CHECK(differences({.average = Average::macro, .threshold = 0.25, .ignore_index = 7}).empty());
  auto const all = differences({.top_k = 2, .logits = true, .ignore_index = 7});
  REQUIRE(all.size() == 3);
  CHECK_THAT(all[0], StartsWith("'accuracy.top_k' is 1 in the file and 2 in the program"));
  CHECK_THAT(all[1], StartsWith("'accuracy.threshold' is 0.25 in the file and 0.5 in the program"));
  CHECK_THAT(all[2], StartsWith("'accuracy.logits' is false in the file and true in the program"));
}
