// Metric objects on LibTorch: scikit-learn's values, no host read in an update, and what is refused.
#include "fixtures.hpp"

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
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/metric/meter.hpp>

namespace {
using namespace fulgurite::metric;
using Catch::Approx;
using Catch::Matchers::StartsWith;
using torch::Tensor;

// What `tests/metric_oracle.py` prints.
namespace oracle {
// scikit-learn 1.9.1
constexpr double accuracy = 0.5166666666666667;
constexpr double accuracy_top2 = 0.7166666666666667;
constexpr double precision_micro = 0.5166666666666667;
constexpr double precision_macro = 0.44311145510835914;
constexpr double precision_weighted = 0.6001547987616099;
constexpr double precision_positive = 0.3448275862068966;
constexpr double recall_micro = 0.5166666666666667;
constexpr double recall_macro = 0.38541666666666663;
constexpr double recall_weighted = 0.5166666666666667;
constexpr double recall_positive = 0.5882352941176471;
constexpr double f1_micro = 0.5166666666666667;
constexpr double f1_macro = 0.41166699237834664;
constexpr double f1_weighted = 0.5544655071330857;
constexpr double f1_positive = 0.43478260869565216;
constexpr double auroc = 0.6258549931600548;
constexpr double auroc_binned = 0.6238030095759235;
constexpr double auroc_classes = 0.49506250000000007;
constexpr double auroc_classes_binned = 0.50909375;
constexpr double average_precision = 0.5310222765271805;
constexpr double average_precision_binned = 0.5138266658572614;
constexpr double average_precision_classes = 0.28387914517024143;
constexpr double average_precision_classes_binned = 0.2779568709428052;
constexpr double mean_squared_error = 0.10064697265625;
constexpr double mean_absolute_error = 0.2654947916666667;
constexpr double r2 = 0.9802845917378012;
constexpr double r2_outputs = 0.9815919589737054;
constexpr double perplexity = 4.140360443217488;
constexpr double confusion[] = {10, 3, 2, 3, 4, 8, 4, 2, 3, 5, 13, 3, 0, 0, 0, 0};
constexpr double precisions[] = {0.5882352941176471, 0.5, 0.6842105263157895, 0.0};
}  // namespace oracle

constexpr long samples = 60, classes = 4;
double score(long i, long c) { return static_cast<double>((i * i * 31 + i * 17 + c * 53 + i * c * 29) % 127) / 128; }

/// The data of tests/metric_oracle.py.
struct Data {
  Tensor scores = at::empty({samples, classes}, at::kDouble), labels = at::empty({samples}, at::kLong),
         every = at::empty({samples}, at::kLong), chance = at::empty({samples}, at::kDouble),
         positive = at::empty({samples}, at::kLong), target = at::empty({samples, 2}, at::kDouble),
         guess = at::empty({samples, 2}, at::kDouble);
  Data() {
    for (long i = 0; i != samples; ++i) {
      long const label = (i * i + i / 5) % 7 % 3;
      labels[i] = label;
      for (long c = 0; c != classes; ++c)
        scores[i][c] = score(i, c) + (c == label ? static_cast<double>(i % 3) / 4 : 0);
      every[i] = (i * i + i / 3) % classes;
      long const is = i * i * 7 % 11 < 4;
      positive[i] = is;
      chance[i] = std::nearbyint((score(i, 0) * 96 + static_cast<double>(is) * 24) / 4) / 32;
      for (long c = 0; c != 2; ++c) {
        target[i][c] = score(i, c) * 8 - 3;
        guess[i][c] = target[i][c] + score(i, c + 2) - 0.375;
      }
    }
  }
};

/// In three batches, of which another meter has seen the last.
template <class D>
auto value_of(D definition, Tensor const& predictions, Tensor const& target) {
  Meter mine{definition}, other{definition};
  mine.update(predictions.slice(0, 0, 25), target.slice(0, 0, 25));
  mine.update(predictions.slice(0, 25, 26), target.slice(0, 25, 26));
  other.update(predictions.slice(0, 26), target.slice(0, 26));
  mine.merge(other);
  return mine.compute();
}

/// A strategy of one rank, to which a meter tells what it has seen.
template <class Seen>
struct Listens {
  static constexpr bool is_distributed = true;
  Seen seen = {};
  void reduce_in_place(std::span<double> all, std::span<fulgurite::Reduce const>) {
    seen.assign(all.begin(), all.end());
  }
  std::vector<std::string> gather(std::string const& mine) {
    seen.assign(mine.begin(), mine.end());
    return {mine};
  }
};

/// Two ranks of one process, of which the other has seen `other`.
template <class M>
struct WithRank {
  static constexpr bool is_distributed = true;
  M const& other;
  void reduce_in_place(std::span<double> values, std::span<fulgurite::Reduce const> how) {
    Listens<std::vector<double>> alone;
    (void)other.compute(alone);
    for (std::size_t i = 0; i != values.size(); ++i)
      values[i] = how[i] == fulgurite::Reduce::max ? std::max(values[i], alone.seen[i]) : values[i] + alone.seen[i];
  }
  std::vector<std::string> gather(std::string const& bytes) {
    Listens<std::string> alone;
    (void)other.compute(alone);
    return {bytes, alone.seen};
  }
};

Tensor of(std::vector<double> const& values) { return torch::tensor(values, at::kDouble); }

}  // namespace

TEST_CASE("metrics have scikit-learn's values, batch by batch and merged") {
  Data const d;
  CHECK(value_of(Accuracy{.num_classes = 4}, d.scores, d.labels) == Approx(oracle::accuracy));
  CHECK(value_of(Accuracy{.num_classes = 4}, d.scores.argmax(1), d.labels) == Approx(oracle::accuracy));
  CHECK(value_of(Accuracy{.num_classes = 4, .top_k = 2}, d.scores, d.labels) == Approx(oracle::accuracy_top2));
  CHECK(value_of(Accuracy{.num_classes = 4, .average = Average::macro}, d.scores, d.labels) ==
        Approx(oracle::recall_macro));
  auto const of_classes = [&](Average by, double precision, double recall, double f1) {
    CHECK(value_of(Precision{.num_classes = 4, .average = by}, d.scores, d.labels) == Approx(precision));
    CHECK(value_of(Recall{.num_classes = 4, .average = by}, d.scores, d.labels) == Approx(recall));
    CHECK(value_of(F1{.num_classes = 4, .average = by}, d.scores, d.labels) == Approx(f1));
  };
  of_classes(Average::micro, oracle::precision_micro, oracle::recall_micro, oracle::f1_micro);
  of_classes(Average::macro, oracle::precision_macro, oracle::recall_macro, oracle::f1_macro);
  of_classes(Average::weighted, oracle::precision_weighted, oracle::recall_weighted, oracle::f1_weighted);
  CHECK(value_of(Precision{.average = Average::positive}, d.chance, d.positive) == Approx(oracle::precision_positive));
  CHECK(value_of(Recall{.average = Average::positive}, d.chance, d.positive) == Approx(oracle::recall_positive));
  CHECK(value_of(F1{.average = Average::positive}, d.chance, d.positive) == Approx(oracle::f1_positive));
  auto const matrix = value_of(ConfusionMatrix{.num_classes = 4}, d.scores, d.labels);
  CHECK(std::equal(matrix.counts.begin(), matrix.counts.end(), std::begin(oracle::confusion)));
  Meter precision{Precision{.num_classes = 4}};
  precision.update(d.scores, d.labels);
  auto const each = precision.per_class();
  REQUIRE(each.size() == 4);
  for (std::size_t c = 0; c != 4; ++c) CHECK(each[c] == Approx(oracle::precisions[c]));

  auto const chances = d.scores.softmax(1);
  CHECK(value_of(AUROC{}, d.chance, d.positive) == Approx(oracle::auroc));
  CHECK(value_of(AUROC{.num_classes = 4}, chances, d.every) == Approx(oracle::auroc_classes));
  CHECK(value_of(BinnedAUROC{.thresholds = 11}, d.chance, d.positive) == Approx(oracle::auroc_binned));
  CHECK(value_of(BinnedAUROC{.num_classes = 4, .thresholds = 11}, chances, d.every) ==
        Approx(oracle::auroc_classes_binned));
  CHECK(value_of(AveragePrecision{}, d.chance, d.positive) == Approx(oracle::average_precision));
  CHECK(value_of(AveragePrecision{.num_classes = 4}, chances, d.every) == Approx(oracle::average_precision_classes));
  CHECK(value_of(BinnedAveragePrecision{.thresholds = 11}, d.chance, d.positive) ==
        Approx(oracle::average_precision_binned));
  CHECK(value_of(BinnedAveragePrecision{.num_classes = 4, .thresholds = 11}, chances, d.every) ==
        Approx(oracle::average_precision_classes_binned));

  CHECK(value_of(MeanSquaredError{}, d.guess, d.target) == Approx(oracle::mean_squared_error));
  CHECK(value_of(MeanSquaredError{.root = true}, d.guess, d.target) == Approx(std::sqrt(oracle::mean_squared_error)));
  CHECK(value_of(MeanAbsoluteError{}, d.guess, d.target) == Approx(oracle::mean_absolute_error));
  CHECK(value_of(R2{}, d.guess.select(1, 0), d.target.select(1, 0)) == Approx(oracle::r2));
  CHECK(value_of(R2{.outputs = 2}, d.guess, d.target) == Approx(oracle::r2_outputs));
  CHECK(value_of(Perplexity{}, d.scores, d.every) == Approx(oracle::perplexity));
}

TEST_CASE("binned metrics compare scores with their limits in the type of the scores, as torchmetrics does") {
  // In single precision 0.7 is less than in double precision; it is in the bin that begins there, with 0.75.
  for (auto const type : {at::kFloat, at::kDouble}) {
    Meter binned{BinnedAUROC{.thresholds = 11}};
    binned.update(torch::tensor({0.7, 0.75, 0.65}, type), torch::tensor({1, 0, 0}, at::kLong));
    CHECK(binned.compute() == 0.75);
  }
}

TEST_CASE("a threshold is compared with probabilities of class 1 alone, and refused where it would be ignored") {
  Meter strict{Accuracy{.threshold = 0.9}};
  CHECK_THROWS_WITH(strict.update(torch::tensor({{0.4F, 0.6F}}), torch::tensor({1}, at::kLong)),
                    StartsWith("[fulgurite.metric.shape] Accuracy was given predictions of shape [1, 2] and a target "
                               "of shape [1]: with a .threshold it takes the probabilities of class 1"));
  auto const labels = torch::tensor({0, 1}, at::kLong);
  for (auto const type : {at::kLong, at::kBool})
    CHECK_THROWS_WITH(strict.update(torch::tensor({0, 1}).to(type), labels),
                      StartsWith("[fulgurite.metric.shape] Accuracy was given predictions of shape [2] and a target "
                                 "of shape [2]: with a .threshold it takes the probabilities of class 1"));
  strict.update(torch::tensor({0.6F, 0.95F}), labels);
  CHECK(strict.compute() == 1);
  Meter usual{Accuracy{}};
  for (auto const type : {at::kLong, at::kBool}) usual.update(torch::tensor({0, 1}).to(type), labels);
  CHECK(usual.compute() == 1);
}

TEST_CASE("R2 does not lose digits where targets lie far from 0") {
  auto const noise = torch::arange(60000, at::kDouble).mul(0.7).sin(), error = torch::arange(60000, at::kDouble).cos();
  auto const around = [&](double offset) {
    Meter meter{R2{}};
    auto const target = noise * 1e-3 + offset, guess = target + error * 1e-4;
    for (std::int64_t i = 0; i != 60; ++i)
      meter.update(guess.slice(0, i * 1000, (i + 1) * 1000), target.slice(0, i * 1000, (i + 1) * 1000));
    return meter.compute();
  };
  CHECK(around(9.5e5) == Approx(around(0)).epsilon(1e-6));  // the targets themselves have 1e-10 of the offset
  CHECK(around(0) == Approx(0.99).epsilon(1e-3));
}

TEST_CASE("metrics take pictures and sequences: scores with classes in the second place, tokens in the last") {
  Data const d;
  // [20, 4, 3] of labels [20, 3].
  auto const pictures = d.scores.reshape({20, 3, 4}).transpose(1, 2), labels = d.labels.reshape({20, 3});
  CHECK(value_of(Accuracy{.num_classes = 4}, pictures, labels) == Approx(oracle::accuracy));
  CHECK(value_of(F1{.num_classes = 4}, pictures.to(at::kFloat), labels.to(at::kByte)) == Approx(oracle::f1_macro));
  CHECK(value_of(AUROC{.num_classes = 4}, pictures.softmax(1), d.every.reshape({20, 3})) ==
        Approx(oracle::auroc_classes));
  CHECK(value_of(Perplexity{}, d.scores.reshape({20, 3, 4}), d.every.reshape({20, 3})) == Approx(oracle::perplexity));
  // Half precision: thousands of samples do not stand still.
  Meter error{MeanSquaredError{}};
  error.update(torch::ones({9000}, at::kBFloat16), torch::zeros({9000}, at::kBFloat16));
  CHECK(error.compute() == 1);
}

TEST_CASE("metrics leave a label out that means none, and count every other one") {
  auto const scores = of({2, 1, 0, 0, 3, 1, 1, 0, 5, 1, 2, 3}).reshape({4, 3});
  auto const labels = torch::tensor({0, 1, -100, 0}, at::kLong);
  Meter strict{Accuracy{.num_classes = 3}}, lenient{Accuracy{.num_classes = 3, .ignore_index = -100}};
  strict.update(scores, labels);
  lenient.update(scores, labels);
  CHECK_THROWS_WITH(strict.compute(), StartsWith("[fulgurite.metric.labels] 1 samples of Accuracy"));
  CHECK(lenient.compute() == Approx(2.0 / 3));
  // Where it is a class that is predicted, that class has no label, and counts with 0 as in scikit-learn.
  auto const guessed = torch::tensor({0, 1, 2, 0, 2}), meant = torch::tensor({1, 1, 2, 2, 0});
  auto const of_classes = [&]<class Definition>(Definition definition, std::int64_t predicted) {
    definition.num_classes = 3, definition.average = Average::macro, definition.ignore_index = 0;
    return value_of(definition, guessed.where(guessed != 0, predicted), meant);
  };
  CHECK(of_classes(Recall{}, 0) == Approx(1.0 / 3));
  CHECK(of_classes(Precision{}, 0) == Approx(2.0 / 3));
  CHECK(of_classes(F1{}, 0) == Approx(4.0 / 9));
  CHECK(of_classes(Recall{}, 1) == Approx(3.0 / 4));
  Meter perplexity{Perplexity{.ignore_index = -100}}, of_all{Perplexity{}};
  perplexity.update(scores, labels);
  of_all.update(scores, labels);
  auto const kept = torch::tensor({0, 1, 3}, at::kLong);
  auto const loss = torch::cross_entropy_loss(scores.index_select(0, kept), labels.index_select(0, kept));
  CHECK(perplexity.compute() == Approx(std::exp(loss.item<double>())));
  CHECK_THROWS_WITH(of_all.compute(), StartsWith("[fulgurite.metric.labels] 1 tokens"));
  Meter predicted{ConfusionMatrix{.num_classes = 3}};
  predicted.update(torch::tensor({0, 3}, at::kLong), torch::tensor({0, 1}, at::kLong));
  CHECK_THROWS_WITH(predicted.compute(), StartsWith("[fulgurite.metric.labels] 1 samples of ConfusionMatrix"));
  Meter unsound{Accuracy{.num_classes = 3}};
  unsound.update(scores / 0.0 - scores / 0.0, torch::tensor({0, 1, 2, 0}, at::kLong));
  CHECK_THROWS_WITH(unsound.compute(), StartsWith("[fulgurite.metric.not_a_number] 4 samples"));
  Meter logits{BinnedAUROC{}};
  logits.update(of({0.5, 1.5, -1}), torch::tensor({0, 1, 1}, at::kLong));
  CHECK_THROWS_WITH(logits.compute(), StartsWith("[fulgurite.metric.scores] 2 samples of BinnedAUROC"));
  Meter third{BinnedAUROC{}};
  third.update(of({0.5, 0.5}), torch::tensor({0, 2}, at::kLong));
  CHECK_THROWS_WITH(third.compute(), StartsWith("[fulgurite.metric.labels]"));
}

TEST_CASE("metrics of classes refuse logits in the place of probabilities, and take them with .logits = true") {
  Data const d;
  auto const& chance = d.chance;  // no probability is exactly 0 or 1 here, so that each has a logit
  auto const logits = chance.add(0.01).mul(0.9).logit();
  auto const chances = logits.sigmoid();
  auto const both = [&](auto definition) {
    CHECK_THROWS_WITH(value_of(definition, logits, d.positive), StartsWith("[fulgurite.metric.scores] "));
    auto const wanted = value_of(definition, chances, d.positive);
    definition.logits = true;
    if constexpr (std::is_same_v<decltype(definition), ConfusionMatrix>)
      CHECK(value_of(definition, logits, d.positive).counts == wanted.counts);
    else CHECK(value_of(definition, logits, d.positive) == Approx(wanted));
  };
  both(Accuracy{});
  both(Accuracy{.threshold = 0.25});
  both(Precision{});
  both(Recall{.average = Average::positive});
  both(F1{});
  both(ConfusionMatrix{.threshold = 0.75});
  both(BinnedAUROC{});
  both(BinnedAveragePrecision{});
  // A mean of probabilities may be rounded to a little more than 1, or less than 0.
  auto const about = torch::tensor({1.0000001F, 0.6F, -1e-7F, 0.2F}), exact = torch::tensor({1.0F, 0.6F, 0.0F, 0.2F});
  auto const of_them = torch::tensor({1, 0, 0, 1});
  auto const rounded = [&](auto definition) {
    CHECK(value_of(definition, about, of_them) == value_of(definition, exact, of_them));
    CHECK_THROWS_WITH(value_of(definition, exact.add(1e-5), of_them), StartsWith("[fulgurite.metric.scores] 1 "));
    CHECK_THROWS_WITH(value_of(definition, exact.sub(1e-5), of_them), StartsWith("[fulgurite.metric.scores] 1 "));
  };
  rounded(Accuracy{});
  rounded(BinnedAUROC{});
  rounded(BinnedAveragePrecision{});
  auto const three = torch::tensor({{1.0000001F, -1e-7F, 0.0F}, {0.1F, 0.8F, 0.1F}, {0.2F, 0.2F, 0.6F}});
  auto const each = torch::tensor({0, 1, 2});
  CHECK(value_of(AUROC{.num_classes = 3}, three, each) == 1);
  CHECK_THROWS_WITH(value_of(AUROC{.num_classes = 3}, three.mul(1.001), each),
                    StartsWith("[fulgurite.metric.scores] 1 "));
  // An ignored label has no score to judge; scores of each class are compared with each other, in any range.
  Meter ignores{Accuracy{.ignore_index = 7}};
  ignores.update(of({-3, 0.9, 0.1}), torch::tensor({7, 1, 1}, at::kLong));
  CHECK(ignores.compute() == 0.5);
  CHECK(value_of(Accuracy{.num_classes = 4}, d.scores * 9 - 4, d.labels) == Approx(oracle::accuracy));
  // The smallest logit above 0 is class 1, as its sigmoid, 0.5 in single precision, would not be.
  Meter smallest{Accuracy{.logits = true}};
  smallest.update(torch::tensor({1e-12F, -1e-12F, 0.0F}), torch::tensor({1, 0, 0}, at::kLong));
  CHECK(smallest.compute() == 1);

  auto const spread = d.scores * 9 - 4;
  CHECK(value_of(AUROC{}, logits, d.positive) == value_of(AUROC{.logits = true}, logits, d.positive));
  CHECK_THROWS_WITH(value_of(AUROC{.num_classes = 4}, spread, d.every), StartsWith("[fulgurite.metric.scores] "));
  CHECK_THROWS_WITH(value_of(AveragePrecision{.num_classes = 4}, spread, d.every),
                    StartsWith("[fulgurite.metric.scores] "));
  CHECK(value_of(AUROC{.num_classes = 4, .logits = true}, d.scores, d.every) == Approx(oracle::auroc_classes));
  CHECK(value_of(AveragePrecision{.num_classes = 4, .logits = true}, d.scores, d.every) ==
        Approx(oracle::average_precision_classes));
  CHECK(value_of(BinnedAUROC{.num_classes = 4, .thresholds = 11, .logits = true}, d.scores, d.every) ==
        Approx(oracle::auroc_classes_binned));
}

TEST_CASE("metrics of values: weighted mean, range, the mean of the last ones") {
  Meter mean{MeanMetric{}};
  mean.update(2.0);
  mean.update(of({4, 6}));
  mean.update(torch::tensor(1.0F), 3);
  CHECK(mean.compute() == Approx((2 + 4 + 6 + 3.0) / 6));
  Meter range{MinMax{}};
  range.update(of({4, -6}));
  range.update(1);
  CHECK(range.compute() == Range{-6, 4});
  range.update(std::nan(""));
  CHECK(std::isnan(range.compute().greatest));
  auto copy = mean;
  copy.update(100.0);
  CHECK(mean.compute() == Approx((2 + 4 + 6 + 3.0) / 6));
  Meter running{MeanOfLast{.window = 3}}, later{MeanOfLast{.window = 3}};
  running.update(1.0);
  CHECK(running.compute() == 1);
  for (double const loss : {2.0, 4.0, 9.0}) running.update(torch::tensor(loss, at::kFloat));
  CHECK(running.compute() == 5);
  later.update(11.0);
  running.merge(later);
  CHECK(running.compute() == 8);
}

TEST_CASE("an update of a metric reads nothing on the host, makes no graph and keeps no batch") {
  Data const d;
  auto const logits = d.scores.clone().requires_grad_(true);
  Meter accuracy{Accuracy{.num_classes = 4, .average = Average::macro}};
  Meter curve{AUROC{.num_classes = 4}};
  Meter bins{BinnedAUROC{.num_classes = 4}};
  Meter running{MeanOfLast{}};
  Meter explained{R2{.outputs = 4}};
  Meter tokens{Perplexity{}};
  auto const chances = logits.softmax(1);
  auto const update = [&] {
    accuracy.update(logits, d.labels);
    curve.update(chances, d.every);
    bins.update(chances, d.every);
    running.update(chances.sum());
    explained.update(chances, logits);
    tokens.update(chances, d.every);
  };
  update();
  fixtures::Operators const operators;
  update();
  CHECK(operators.host_reads() == 0);
  CHECK(!operators.saw("aten::nonzero"));
  CHECK(!operators.saw("aten::bincount"));
  CHECK(!operators.saw("aten::is_nonzero"));
  auto const before = curve.compute();
  torch::NoGradGuard const no_graph;
  chances.zero_();
  CHECK(curve.compute() == before);
}

TEST_CASE("a metric may be updated in inference mode and outside, in any order") {
  auto const labels = torch::tensor({0, 1}, at::kLong);
  Meter accuracy{Accuracy{}};
  Meter curve{AUROC{}};
  Meter running{MeanOfLast{}};
  auto const update = [&](Tensor const& chance) {
    accuracy.update(chance, labels);
    curve.update(chance, labels);
    running.update(chance.mean());
  };
  {
    c10::InferenceMode const inference;
    update(of({0.25, 0.75}));
  }
  update(of({0.75, 0.25}));
  {
    c10::InferenceMode const inference;
    update(of({0.25, 0.75}));
  }
  CHECK(accuracy.compute() == Approx(4.0 / 6));
  CHECK(curve.compute() == Approx(6.0 / 9));
  CHECK(running.compute() == 0.5);
}

TEST_CASE("a metric goes on from its saved state, and refuses that of another one") {
  Data const d;
  auto const check = [](auto definition, Tensor const& predictions, Tensor const& target) {
    Meter whole{definition}, first{definition}, second{definition};
    whole.update(predictions, target);
    first.update(predictions.slice(0, 0, 30), target.slice(0, 0, 30));
    fulgurite::load_state_text(second, fulgurite::state_text(first));
    CHECK(second.updates() == 1);
    second.update(predictions.slice(0, 30), target.slice(0, 30));
    CHECK(second.compute() == whole.compute());
    Meter fresh{definition};
    fulgurite::load_state_text(second, fulgurite::state_text(fresh));
    CHECK_THROWS_WITH(second.compute(), StartsWith("[fulgurite.metric.empty]"));
  };
  check(Accuracy{.num_classes = 4}, d.scores, d.labels);
  check(AUROC{}, d.chance, d.positive);
  check(R2{.outputs = 2}, d.guess, d.target);
  Meter running{MeanOfLast{.window = 2}}, again{MeanOfLast{.window = 2}};
  for (double const loss : {1.0, 2.0, 4.0}) running.update(loss);
  fulgurite::load_state_text(again, fulgurite::state_text(running));
  CHECK(again.compute() == 3);
  Meter narrow{MeanOfLast{.window = 1}};
  fulgurite::load_state_text(narrow, fulgurite::state_text(running));
  CHECK(narrow.compute() == 4);  // of its own window
  Meter scores{AUROC{}}, of_classes{AUROC{.num_classes = 4}};
  scores.update(d.chance, d.positive);
  auto const area = scores.compute();
  of_classes.update(d.scores.softmax(1), d.labels);
  CHECK_THROWS_WITH(fulgurite::load_state_text(scores, fulgurite::state_text(of_classes)),
                    StartsWith("[fulgurite.checkpoint.state_entry] the saved samples of a metric have shape [60, 5]"));
  CHECK(scores.compute() == area);
  Meter four{Accuracy{.num_classes = 4}}, two{Accuracy{}};
  four.update(d.scores, d.labels);
  two.update(d.chance, d.positive);
  auto const before = two.compute();
  CHECK_THROWS_WITH(fulgurite::load_state_text(two, fulgurite::state_text(four)),
                    StartsWith("[fulgurite.checkpoint.state_entry] the saved sums of a metric have shape"));
  CHECK(two.compute() == before);
}

TEST_CASE("metrics over ranks have the value of all samples") {
  Data const d;
  auto const check = [](auto definition, Tensor const& predictions, Tensor const& target) {
    Meter whole{definition}, mine{definition}, other{definition};
    whole.update(predictions, target);
    mine.update(predictions.slice(0, 0, 20), target.slice(0, 0, 20));
    other.update(predictions.slice(0, 20), target.slice(0, 20));
    WithRank<decltype(other)> ranks{other};
    CHECK(mine.compute(ranks) == Approx(whole.compute()));
    if constexpr (requires { mine.per_class(); }) CHECK(mine.per_class(ranks) == whole.per_class());
    mine.reset();  // a rank without a batch
    other.update(predictions.slice(0, 0, 20), target.slice(0, 0, 20));
    CHECK(mine.compute(ranks) == Approx(whole.compute()));
  };
  check(Accuracy{.num_classes = 4}, d.scores, d.labels);
  check(AUROC{}, d.chance, d.positive);
  check(BinnedAUROC{}, d.chance, d.positive);
  check(MeanSquaredError{}, d.guess, d.target);
}

TEST_CASE("metrics refuse shapes and types that they would have to guess about") {
  auto const refuses = [](auto definition, Tensor const& predictions, Tensor const& target, char const* sentence) {
    Meter meter{definition};
    CHECK_THROWS_WITH(meter.update(predictions, target), StartsWith(sentence));
    CHECK(meter.updates() == 0);
  };
  auto const labels = torch::zeros({5}, at::kLong);
  refuses(Accuracy{.num_classes = 10}, torch::zeros({5, 3}), labels,
          "[fulgurite.metric.shape] Accuracy was given predictions of shape [5, 3] and a target of shape [5]: give "
          "scores [batch, 10, ...] of labels [batch, ...], or the predicted classes");
  refuses(Accuracy{.num_classes = 3}, torch::zeros({5}), labels, "[fulgurite.metric.shape]");
  refuses(Accuracy{.num_classes = 3, .top_k = 2}, labels, labels, "[fulgurite.metric.shape]");
  refuses(F1{}, torch::zeros({5}), torch::zeros({5}),
          "[fulgurite.metric.labels_type] F1 takes labels of an integer type, and was given Float: predictions come "
          "first");
  refuses(AUROC{}, torch::zeros({5, 2}), labels, "[fulgurite.metric.shape] AUROC was given");
  refuses(AUROC{.num_classes = 3}, torch::zeros({5, 2}), labels, "[fulgurite.metric.shape] AUROC was given");
  refuses(MeanSquaredError{}, torch::zeros({5, 1}), torch::zeros({5}),
          "[fulgurite.metric.shape] MeanSquaredError was given predictions of shape [5, 1] and a target of shape [5]: "
          "they must be the same");
  refuses(MeanAbsoluteError{}, torch::zeros({0}), torch::zeros({0}), "[fulgurite.metric.shape]");
  refuses(R2{.outputs = 3}, torch::zeros({5, 2}), torch::zeros({5, 2}), "[fulgurite.metric.shape]");
  refuses(Perplexity{}, torch::zeros({5, 9, 2}), torch::zeros({5, 2}, at::kLong), "[fulgurite.metric.shape]");
  refuses(Accuracy{}, Tensor(), labels, "[fulgurite.metric.shape] Accuracy was updated with an undefined tensor");
  refuses(Accuracy{}, torch::zeros({5}, at::kMeta), labels,
          "[fulgurite.metric.device] Accuracy was given predictions on meta and labels on cpu");
  Meter running{MeanOfLast{}};
  CHECK_THROWS_WITH(running.update(torch::zeros({2})), StartsWith("[fulgurite.metric.shape] MeanOfLast"));
  Meter mean{MeanMetric{}};
  CHECK_THROWS_WITH(mean.update(Tensor()), StartsWith("[fulgurite.metric.shape] MeanMetric"));
}

TEST_CASE("a metric that is updated while a step is recorded is an Error, since a replay would leave it out") {
  REQUIRE(fulgurite::libtorch::capture::available());
  Meter mean{MeanMetric{}};
  auto const loss = torch::ones({});
  fulgurite::libtorch::capture::Recorder recorder;
  {
    fulgurite::libtorch::capture::Recording const on(recorder);
    CHECK_THROWS_WITH(mean.update(loss), StartsWith("[fulgurite.metric.captured]"));
  }
  mean.update(loss);
  CHECK(mean.compute() == 1);
}

namespace {
/// How far predictions lie above their targets, on average: a metric of one's own.
struct Bias {
  static constexpr std::size_t sums() { return 2; }
  static Tensor tally(Tensor const& predictions, Tensor const& target) {
    auto const sum = (predictions - target).sum();
    return at::stack({sum, at::full_like(sum, predictions.numel())});
  }
  static double compute(std::span<double const> sums) { return sums[0] / sums[1]; }
};
struct Wrong : Bias {
  static Tensor tally(Tensor const& predictions, Tensor const&) { return predictions; }
};
/// The median keeps every value.
struct Median {
  using Keeps = Samples;
  static constexpr std::size_t width() { return 1; }
  static Tensor tally(Tensor const& values) { return values.reshape({-1, 1}); }
  static double compute(std::span<double const> rows) {
    std::vector<double> sorted(rows.begin(), rows.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};
}  // namespace

TEST_CASE("a metric of one's own is three functions") {
  Meter<Bias> bias;
  bias.update(of({1, 2, 6}), of({1, 1, 1}));
  bias.update(of({0}), of({2}));
  CHECK(bias.compute() == 1);
  Meter<Median> median;
  median.update(of({5, 1}));
  median.update(of({3}));
  CHECK(median.compute() == 3);
  Meter<Wrong> wrong;
  CHECK_THROWS_WITH(wrong.update(of({1, 2, 6}), of({1})),
                    StartsWith("[fulgurite.metric.tally] tally() returned a tensor of shape [3], and sums() says 2"));
}

namespace {
struct Batch {
  Tensor x, y;
};
/// Scores are the inputs times a weight that does not learn much.
struct Scores : torch::nn::Module {
  static constexpr fulgurite::Metric<"val/accuracy", Accuracy> accuracy{.how = {.num_classes = 4}};
  static constexpr fulgurite::Metric<"val/auroc", AUROC> auroc{.how = {.num_classes = 4}};
  using Metrics = fulgurite::MetricList<accuracy, auroc>;
  Tensor weight = register_parameter("weight", torch::ones({}, at::kDouble));

  Tensor training_step(Batch const& batch) { return (batch.x * weight).mean() * 1e-9; }
  void validation_step(Batch const& batch, auto& ctx) {
    auto const scores = batch.x * weight;
    ctx.update(accuracy, scores, batch.y.remainder(4));
    ctx.update(auroc, scores.softmax(1), batch.y.div(4, "floor"));
  }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};
}  // namespace

TEST_CASE("declared metrics of a fit are scikit-learn's, and its validations and those outside share their sums") {
  using namespace fulgurite;
  Data const d;
  auto const both = d.labels + 4 * d.every;
  std::vector<Batch> const val = {{d.scores.slice(0, 0, 40), both.slice(0, 0, 40)},
                                  {d.scores.slice(0, 40), both.slice(0, 40)}};
  Scores model;
  auto trainer =
      make_trainer<Scores>(TrainerOptions{.max_epochs = 2}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, val, val);
  CHECK(*trainer.value(Scores::accuracy) == Approx(oracle::accuracy));
  CHECK(*trainer.value(Scores::auroc) == Approx(oracle::auroc_classes));
  trainer.validate(model, val);
  CHECK(*trainer.value(Scores::auroc) == Approx(oracle::auroc_classes));
}
