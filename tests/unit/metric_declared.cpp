// Metrics that are declared with a definition: counted in an evaluation, computed once, and then like any other.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_summary.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/metric/formulas.hpp>

#include "callback_stream.hpp"
#include "models.hpp"
#include "ranks.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Rank;

namespace {

/// The root of the mean square, which is not the mean of the batches' roots. With `needs` batches at least.
struct Rms {
  double scale = 1;
  double needs = 0;
  static constexpr std::size_t sums() { return 2; }
  constexpr char const* fault() const { return scale > 0 ? nullptr : ".scale is above 0"; }
  std::vector<double> tally(double value) const { return {value * value * scale, 1}; }
  double compute(std::span<double const> sums) const {
    if (std::isnan(sums[0])) throw Error("fulgurite.metric.labels", "a label is none");
    if (sums[1] < needs) throw Error("fulgurite.metric.one_class", "too few");
    return std::sqrt(sums[0] / sums[1]);
  }
};

/// What a Net counts in a validation: each batch, each a larger number, for a metric that needs three batches, one
/// without a label, none, or one when the batches are over.
enum class Counts { batches, larger, needing, unlabelled, none, late };

/// Counts what it validates and tests, and reads that wherever an evaluation can.
struct Net : toy::P {
  static constexpr Metric<"val/rms", Rms> rms{};
  static constexpr Metric<"val/scaled", Rms> scaled{.how = {.scale = 4}, .logger = false};
  static constexpr Metric<"val/needs", Rms> needs{.how = {.needs = 3}};
  using Metrics = MetricList<toy::P::loss, rms, scaled, needs>;
  using Read = std::vector<std::optional<double>>;
  Counts counts = Counts::batches;
  double factor = 1;
  Read in_batch = {}, at_epoch_end = {}, at_end = {}, shared = {}, known = {}, clean = {};

  void validation_step(double batch, auto& ctx) {
    if (counts == Counts::batches) ctx.update(rms, batch), ctx.update(scaled, batch);
    if (counts == Counts::larger) ctx.update(rms, batch * (factor += 1));
    if (counts == Counts::needing) ctx.update(needs, batch);
    if (counts == Counts::unlabelled) ctx.update(rms, std::nan(""));
  }
  void test_step(double batch, auto& ctx) { ctx.update(rms, batch); }
  void on_validation_batch_end(auto& ctx) { in_batch.push_back(ctx.value(rms)); }
  void on_validation_epoch_end(auto& ctx) {
    if (counts == Counts::late) ctx.update(rms, 1.0);
    if (counts == Counts::batches) read(ctx);
  }
  void on_validation_end(auto& ctx) { at_end.push_back(ctx.value(rms)); }
  void on_test_epoch_end(auto& ctx) { read(ctx); }
  void on_test_end(auto& ctx) { at_end.push_back(ctx.value(rms)); }
  void read(auto& ctx) {
    at_epoch_end.push_back(ctx.value(rms));
    shared.push_back(ctx.shared_value(rms));
    known.push_back(ctx.known(rms));
    clean.push_back(ctx.value(rms.of("clean")));
  }
};
Net counting(Counts what) {
  Net net;
  net.counts = what;
  return net;
}
/// What trains most of them: one type for all, since each takes long to compile.
auto train(TrainerOptions options) { return toy::train<Net>(std::move(options), {}, toy::Rows{}); }

/// The least and the greatest of what it validates; and the numbers of its samples, under names of the moment.
struct Several : toy::P {
  struct Extremes {
    static constexpr Reduce reduce = Reduce::max;
    static constexpr std::size_t sums() { return 2; }
    std::vector<double> tally(double value) const { return {-value, value}; }
    metric::Range compute(std::span<double const> sums) const { return metric::MinMax::compute(sums); }
    template <class F>
    void each(metric::Range const& range, F&& f) const {
      metric::MinMax::each(range, f);
    }
  };
  static constexpr Metric<"val/x", Extremes> x{};
  static constexpr Metric<"val/mean"> mean{};
  using Metrics = MetricList<toy::P::loss, x, mean>;
  std::string extra = "val/layer";
  void validation_step(double batch, auto& ctx) {
    ctx.update(x, batch);
    ctx.log(mean, batch);
  }
  void on_validation_epoch_end(auto& ctx) {
    ctx.log_dynamic(extra, 7);
    ctx.log_dynamic("val/class", std::vector<double>{1, 2});
  }
};

double const three_four = std::sqrt(12.5);
std::vector<double> const val = {3, 4};

std::vector<std::pair<std::string, double>> values_of(std::vector<toy::Row> const& rows) {
  std::vector<std::pair<std::string, double>> all;
  for (auto const& row : rows)
    for (auto const& cell : row.cells)
      if (cell.first.starts_with("val/")) all.push_back(cell);
  return all;
}

auto unequal_loaders() {
  return std::tuple(data::named<"clean">(std::vector<double>{3, 4, 5}), std::vector<double>{9});
}

}  // namespace

TEST_CASE("a declared metric is counted in each validation anew, and has one value of it") {
  Net net;
  auto trainer = train({.max_epochs = 2});
  trainer.fit(net, toy::batches(2), val);
  CHECK(trainer.value(Net::rms) == three_four);
  CHECK(trainer.value(Net::scaled) == 2 * three_four);
  CHECK(values_of(trainer.template callback<toy::Rows>().rows) ==
        std::vector<std::pair<std::string, double>>{{"val/rms", three_four}, {"val/rms", three_four}});
  // The hook of the end reads it; that of the sanity check, too.
  CHECK(net.at_epoch_end == Net::Read(3, three_four));
  auto const results = trainer.validate(net, std::vector<double>{6, 8});
  REQUIRE(results.size() == 1);
  REQUIRE(results[0].size() == 1);
  CHECK(results[0][0].name == "val/rms");
  CHECK(results[0][0].value == 2 * three_four);
}

TEST_CASE("several loaders have a declared metric each, and watching it means all of their samples") {
  Net net;
  auto trainer = train({.max_epochs = 1});
  trainer.fit(net, toy::batches(2), unequal_loaders());
  CHECK(values_of(trainer.template callback<toy::Rows>().rows) ==
        std::vector<std::pair<std::string, double>>{{"val/rms/clean", std::sqrt(50.0 / 3)},
                                                    {"val/rms/dataloader_idx_1", 9}});
  CHECK(trainer.value(Net::rms) == std::sqrt(131.0 / 4));
  CHECK(trainer.value(Net::rms.of("clean")) == std::sqrt(50.0 / 3));
}

TEST_CASE("a declared metric has one value of several loaders, whoever reads it and when") {
  using Read = Net::Read;
  double const all = std::sqrt(131.0 / 4), clean = std::sqrt(50.0 / 3);
  Net net;
  auto trainer = train({.max_epochs = 1});
  trainer.fit(net, toy::batches(2), unequal_loaders());
  // The sanity check reads two batches of the first loader, and the only one of the second.
  double const sane = std::sqrt(106.0 / 3);
  CHECK(net.at_epoch_end == Read{sane, all});
  CHECK(net.shared == Read{sane, all});
  CHECK(net.known == Read{sane, all});
  CHECK(net.clean == Read{three_four, clean});
  CHECK(net.at_end.back() == all);

  trainer.validate(net, unequal_loaders());
  trainer.test(net, unequal_loaders());
  CHECK(Read(net.at_epoch_end.end() - 2, net.at_epoch_end.end()) == Read{all, all});
  CHECK(Read(net.at_end.end() - 2, net.at_end.end()) == Read{all, all});
}

TEST_CASE("in the middle of an evaluation a declared metric has the value of what was counted so far") {
  Net net;
  auto trainer = train({.max_epochs = 2, .num_sanity_val_steps = 0});
  trainer.fit(net, toy::batches(2), unequal_loaders());
  Net::Read const once{3, three_four, std::sqrt(50.0 / 3), std::sqrt(131.0 / 4)};
  REQUIRE(net.in_batch.size() == 8);
  CHECK(Net::Read(net.in_batch.begin(), net.in_batch.begin() + 4) == once);
  CHECK(Net::Read(net.in_batch.begin() + 4, net.in_batch.end()) == once);
}

TEST_CASE("ranks: a declared metric of several loaders has the bits of one process in every hook") {
  double const one = 0.7;  // three times that over three is another number
  auto const ranks = toy::on_ranks(3, [](Rank rank) {
    Net net;
    auto trainer = make_trainer<Net>({.max_epochs = 1, .num_sanity_val_steps = 0}, rank, Float32{}, Automatic{});
    double const mine = rank.rank() + 1;
    trainer.fit(net, toy::OwnPart<double>{toy::batches(3)},
                std::tuple(data::named<"clean">(toy::OwnPart<double>{{mine}}), toy::OwnPart<double>{{0, 2 * mine}}));
    trainer.validate(net, toy::OwnPart<double>{{0.7}});
    return net;
  });
  for (auto const& rank : ranks) {
    REQUIRE(rank.error == "");
    auto const& net = *rank.result;
    double const all = std::sqrt(70.0 / 9), clean = std::sqrt(14.0 / 3);
    CHECK(net.at_epoch_end == Net::Read{all, one});
    CHECK(net.shared == Net::Read{all, one});
    CHECK(net.known == Net::Read{all, one});
    CHECK(net.clean.front() == clean);
    CHECK(net.at_end == Net::Read{all, one});
  }
}

TEST_CASE("callbacks watch a declared metric") {
  Net net = counting(Counts::larger);
  auto trainer =
      toy::train<Net>({.max_epochs = 9, .num_sanity_val_steps = 0}, {}, EarlyStopping{Net::rms, {.patience = 2}});
  trainer.fit(net, toy::batches(2), val);
  CHECK(net.seen.size() == 3 * 2);  // steps: the best epoch and two more
}

TEST_CASE("ranks: a declared metric is over the samples of all, also of a rank without any") {
  auto const run = [](auto strategy, auto loader) {
    Net net;
    auto trainer = make_trainer<Net>({.max_epochs = 1}, strategy, Float32{}, Automatic{});
    trainer.fit(net, toy::OwnPart<double>{toy::batches(4)}, loader);
    return std::pair(trainer.value(Net::rms), net.at_end.back());
  };
  for (auto const& rank : toy::on_ranks(2, [&](Rank rank) {
         return run(rank, toy::OwnPart<double>{rank.rank() == 0 ? std::vector<double>{3} : std::vector<double>{4, 5}});
       })) {
    REQUIRE(rank.error == "");
    CHECK(rank.result->first == std::sqrt(50.0 / 3));
    CHECK(rank.result->second == std::sqrt(50.0 / 3));
  }
}

TEST_CASE("a sanity check may have too few batches for a value, and still finds a label that is none") {
  Net net = counting(Counts::needing);
  auto trainer = train({.max_epochs = 1});
  trainer.fit(net, toy::batches(2), std::vector<double>{1, 1, 1});
  CHECK(trainer.value(Net::needs) == 1);
  CHECK(toy::refusal([&] { trainer.validate(net, std::vector<double>{1, 1}); }) == "fulgurite.metric.one_class");
  Net no_label = counting(Counts::unlabelled);
  auto other = train({.max_epochs = 1});
  CHECK(toy::refusal([&] { other.fit(no_label, toy::batches(2), val); }) == "fulgurite.metric.labels");
  CHECK(no_label.seen.empty());  // nothing was trained
}

TEST_CASE("ctx.update outside of a batch is an Error, and nothing updated is no value") {
  Net net = counting(Counts::none);
  auto trainer = train({.max_epochs = 1});
  trainer.fit(net, toy::batches(2), val);
  CHECK(!trainer.value(Net::rms));
  net.counts = Counts::late;
  CHECK(toy::refusal([&] { trainer.validate(net, val); }) == "fulgurite.metric.no_batch");
}

TEST_CASE("a metric of several numbers has a row of each, over all ranks, and of each loader") {
  using Pairs = std::vector<std::pair<std::string, double>>;
  Stream out;
  Several net;
  auto trainer = toy::train<Several>({.max_epochs = 1}, {}, toy::Rows{}, ResultsTable{{.stream = out.file}});
  trainer.fit(net, toy::batches(2), std::vector<double>{3, -4, 5});
  auto const& rows = trainer.template callback<toy::Rows>().rows;
  CHECK(values_of(rows) == Pairs{{"val/mean", 4.0 / 3},
                                 {"val/x.min", -4},
                                 {"val/x.max", 5},
                                 {"val/layer", 7},
                                 {"val/class.0", 1},
                                 {"val/class.1", 2}});
  auto const results = trainer.validate(net, std::tuple(std::vector<double>{6, 8}, std::vector<double>{1}));
  REQUIRE(results.size() == 2);
  REQUIRE(results[1].size() == 3);
  CHECK((results[0][2].name == "val/x.max/dataloader_idx_0" && results[0][2].value == 8));
  CHECK((results[1][1].name == "val/x.min/dataloader_idx_1" && results[1][1].value == 1));
  CHECK(rows.back().cells.front().first == "val/layer");  // outside of a fit, too

  for (auto const& rank : toy::on_ranks(2, [&](Rank strategy) {
         Several model;
         auto of_rank = make_trainer<Several>({.max_epochs = 1}, strategy, Float32{}, Automatic{}, toy::Rows{});
         double const sample = strategy.rank() == 0 ? 3 : 9;
         of_rank.fit(model, toy::OwnPart<double>{toy::batches(4)}, toy::OwnPart<double>{{sample}});
         return values_of(of_rank.template callback<toy::Rows>().rows);
       })) {
    REQUIRE(rank.error == "");
    if (!rank.result->empty())
      CHECK(Pairs(rank.result->begin() + 1, rank.result->begin() + 3) == Pairs{{"val/x.min", 3}, {"val/x.max", 9}});
  }
}

TEST_CASE("a name of the moment is no declared metric's, and needs a logger") {
  Stream out;
  Several net;
  net.extra = "val/mean";
  auto trainer = toy::train<Several>({.max_epochs = 1}, {}, toy::Rows{}, ResultsTable{{.stream = out.file}});
  CHECK(toy::refusal([&] { trainer.fit(net, toy::batches(2), val); }) == "fulgurite.metric.dynamic_name");
  for (std::string const name : {"", "epoch", "step", "val/mean_epoch", "val/mean/dataloader_idx_0", "val/x.min",
                                 "val/x.max/dataloader_idx_1"}) {
    net.extra = name;
    CHECK(toy::refusal([&] { trainer.validate(net, val); }) == "fulgurite.metric.dynamic_name");
  }
  net.extra = "val/mean/clean";
  CHECK(toy::refusal([&] { trainer.validate(net, val); }).empty());
  auto two = std::tuple(data::named<"clean">(toy::OwnPart<double>{val}), data::named<"dim">(toy::OwnPart<double>{val}));
  CHECK(toy::refusal([&] { trainer.validate(net, two); }) == "fulgurite.metric.dynamic_name");
  net.extra = "val/meaning";
  CHECK(toy::refusal([&] { trainer.validate(net, two); }).empty());
  auto without = toy::train<Several>({.max_epochs = 1}, {});
  without.fit(net, toy::batches(2), val);
  REQUIRE(without.warnings().size() == 1);
  CHECK(without.warnings()[0].find("[fulgurite.metric.no_logger]") != std::string::npos);
}

TEST_CASE("a table of results has a row for each number of a metric that has several") {
  Stream out;
  Several net;
  auto trainer = toy::train<Several>({.max_epochs = 1}, {}, toy::Rows{}, ResultsTable{{.stream = out.file}});
  trainer.validate(net, val);
  auto const table = out.all();
  for (char const* const row : {"val/x.min", "val/x.max", "val/mean"}) {
    INFO(table);
    CHECK(table.find(row) != std::string::npos);
  }
}

namespace {
/// A scalar whose name looks like a cell's, and a matrix.
struct Dotted : toy::P {
  struct Square {
    static constexpr Reduce reduce = Reduce::sum;
    static constexpr std::size_t sums() { return 1; }
    std::vector<double> tally(double value) const { return {value}; }
    metric::Range compute(std::span<double const> sums) const { return {sums[0], sums[0]}; }
    template <class F>
    void each(metric::Range const& all, F&& f) const {
      for (std::string const cell : {"0.0", "0.1", "1.0", "1.1"}) f(cell, all.least);
    }
  };
  static constexpr Metric<"val/mAP.0.5"> map{};
  static constexpr Metric<"val/pairs", Square> pairs{};
  using Metrics = MetricList<toy::P::loss, map, pairs>;
  void validation_step(double batch, auto& ctx) {
    ctx.log(map, batch);
    ctx.update(pairs, batch);
  }
};
}  // namespace

TEST_CASE("a table of results leaves out matrices, and not a metric whose name ends as that of a cell") {
  Stream out;
  Dotted net;
  auto trainer = toy::train<Dotted>({.max_epochs = 1}, {}, toy::Rows{}, ResultsTable{{.stream = out.file}});
  trainer.validate(net, val);
  auto const table = out.all();
  INFO(table);
  CHECK(table.find("val/mAP.0.5") != std::string::npos);
  CHECK(table.find("val/pairs") == std::string::npos);
}
