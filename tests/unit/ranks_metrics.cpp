// Metrics of several ranks, and what is decided by them: equal on all ranks, and equal to those of one process.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <map>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/data/loader.hpp>

#include "checkpoint_folder.hpp"
#include "models.hpp"
#include "ranks.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Rank;
using toy::Tensor;

namespace {

using Rows = std::vector<double>;

/// Logs what it is given, under every reduction. Its weight grows by 1 a step.
struct Meter {
  static constexpr Metric<"mean"> mean{.on_epoch = Report::yes};
  static constexpr Metric<"sum"> sum{.reduce = Reduce::sum, .on_epoch = Report::yes};
  static constexpr Metric<"least"> least{.reduce = Reduce::min, .on_epoch = Report::yes};
  static constexpr Metric<"most"> most{.reduce = Reduce::max, .on_epoch = Report::yes, .sync_on_step = true};
  static constexpr Metric<"end"> end{.reduce = Reduce::sum};
  static constexpr Metric<"val"> val{};
  using Metrics = MetricList<mean, sum, least, most, end, val>;
  Tensor p = Tensor::parameter(0.0);
  std::vector<double> at_epoch_end = {};

  static double of(Rows const& rows) {
    double all = 0;
    for (double const x : rows) all += x;
    return all / static_cast<double>(rows.size());
  }
  Tensor training_step(Rows const& rows, auto& ctx) {
    ctx.log(mean, of(rows));
    ctx.log(sum, of(rows));
    ctx.log(least, of(rows));
    ctx.log(most, of(rows));
    return -p;
  }
  void on_train_epoch_end(auto& ctx) {
    ctx.log(end, 1.0 + ctx.rank());
    at_epoch_end.push_back(ctx.value(mean).value());
  }
  void validation_step(Rows const& rows, auto& ctx) { ctx.log(val, of(rows)); }
  toy::Sgd configure_optimizers() { return {.params = {p}}; }
};

using Data = std::vector<double>;
auto loader(Data const& numbers, long batch_size, bool shuffle = false) {
  return data::Loader{numbers, data::LoaderOptions{.batch_size = batch_size, .shuffle = shuffle, .seed = 3}};
}

/// The values of rows by name.
std::vector<std::pair<std::string, double>> cells(std::vector<toy::Row> const& rows) {
  std::vector<std::pair<std::string, double>> all;
  for (auto const& row : rows)
    for (auto const& cell : row.cells) all.push_back(cell);
  return all;
}

template <class Result>
void require_fine(std::vector<toy::RankResult<Result>> const& ranks) {
  for (auto const& one : ranks) REQUIRE(one.error == "");
}

struct Values {
  std::vector<std::optional<double>> all;
  std::vector<double> at_epoch_end;
  std::vector<std::pair<std::string, double>> rows;
};
template <class Strategy>
Values values(Strategy strategy, long batch_size, int epochs = 1, Data const& numbers = {1, 2, 3, 4, 5, 6, 7, 8}) {
  Meter model;
  auto trainer = make_trainer<Meter>({.max_epochs = epochs, .num_sanity_val_steps = 0, .log_every_n_steps = 1},
                                     strategy, Float32{}, Automatic{}, toy::Rows{});
  auto train = loader(numbers, batch_size), val = loader({1, 2, 3, 5, 8, 13, 21}, batch_size);
  trainer.fit(model, train, val);
  return {{trainer.value(Meter::mean), trainer.value(Meter::sum), trainer.value(Meter::least),
           trainer.value(Meter::most), trainer.value(Meter::end), trainer.value(Meter::val)},
          model.at_epoch_end,
          cells(trainer.template callback<toy::Rows>().rows)};
}

}  // namespace

TEST_CASE("ranks: values of an epoch are over all of them, weighted by their rows; in hooks of its end, too") {
  auto const all = toy::on_ranks(2, [](Rank rank) { return values(rank, 2); });
  require_fine(all);
  auto const one = values(toy::Device{}, 4);
  for (auto const& rank : all) {
    auto const& got = rank.result->all;
    CHECK(got[0] == 4.5);
    CHECK(got[0] == one.all[0]);
    CHECK(got[1] == 2.0 + 3.0 + 6.0 + 7.0);  // of four batches, where one process has two
    CHECK(got[2] == 2.0);                    // 1 and 3
    CHECK(got[3] == 7.0);                    // 6 and 8
    CHECK(got[4] == 3.0);                    // 1 + 2
    // No sample of the seven counts twice, although they are not the same number for each.
    CHECK(got[5] == one.all[5]);
    CHECK(got[5] == 53.0 / 7);
    CHECK(rank.result->at_epoch_end == std::vector{4.5});
  }
}

TEST_CASE("ranks: a NaN of one rank stays in the least and greatest values beside both infinities of another") {
  double const infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  auto const all = toy::on_ranks(2, [&](Rank rank) { return values(rank, 1, 1, {infinity, nan, -infinity, 1}); });
  require_fine(all);
  for (auto const& rank : all)
    for (std::size_t const i : {2u, 3u}) CHECK(std::isnan(rank.result->all[i].value()));
}

TEST_CASE("ranks: rank 0 alone has rows; a step's value is its own, or that of all where the metric asks for it") {
  auto const all = toy::on_ranks(2, [](Rank rank) { return values(rank, 2); });
  require_fine(all);
  CHECK(all[1].result->rows.empty());
  std::vector<double> mean, most;
  for (auto const& [name, value] : all[0].result->rows) {
    if (name == "mean_step") mean.push_back(value);
    if (name == "most_step") most.push_back(value);
  }
  CHECK(mean == std::vector{2.0, 6.0});
  CHECK(most == std::vector{3.0, 7.0});
}

namespace {
/// Logs on one rank alone, and on the other one in the first batch only, or never.
struct Sometimes {
  static constexpr Metric<"mean"> mean{.on_step = Report::yes, .sync_on_step = true};
  static constexpr Metric<"least"> least{.reduce = Reduce::min, .on_step = Report::yes, .sync_on_step = true};
  static constexpr Metric<"most"> most{.reduce = Reduce::max, .on_step = Report::yes, .sync_on_step = true};
  static constexpr Metric<"sum"> sum{.reduce = Reduce::sum, .on_step = Report::yes, .sync_on_step = true};
  static constexpr Metric<"start"> start{.sync_on_step = true};
  using Metrics = MetricList<mean, least, most, sum, start>;
  Tensor p = Tensor::parameter(0.0);
  int who = 0;
  bool once = true;
  void on_train_epoch_start(auto& ctx) const {
    if (ctx.rank() == who) ctx.log(start, 7.0);
  }
  Tensor training_step(double, auto& ctx) {
    double const sign = ctx.batch_idx() == 2 ? -1 : 1;
    if (ctx.rank() == who || (once && ctx.batch_idx() == 0)) log(ctx, sign * (ctx.rank() == 0 ? 2.0 : 4.0));
    return -p;
  }
  static void log(auto& ctx, double value) {
    ctx.log(mean, value);
    ctx.log(least, value);
    ctx.log(most, value);
    ctx.log(sum, value);
  }
  toy::Sgd configure_optimizers() { return {.params = {p}}; }
};
}  // namespace

TEST_CASE("ranks: a rank that has not logged a metric since the last row has no part in the next row's value") {
  auto const rows_of = [](int who, bool once) {
    auto const all = toy::on_ranks(2, [&](Rank rank) {
      Sometimes model{.who = who, .once = once};
      auto trainer =
          make_trainer<Sometimes>({.max_epochs = 1, .log_every_n_steps = 1}, rank, Float32{}, Automatic{}, toy::Rows{});
      trainer.fit(model, toy::OwnPart<double>{toy::batches(3)});
      return cells(trainer.template callback<toy::Rows>().rows);
    });
    require_fine(all);
    std::map<std::string, Rows> rows;
    for (auto const& [name, value] : *all[0].result) rows[name].push_back(value);
    return rows;
  };
  auto rows = rows_of(0, true);
  CHECK(rows["mean"] == Rows{3, 2, -2});
  CHECK(rows["least"] == Rows{2, 2, -2});
  CHECK(rows["most"] == Rows{4, 2, -2});
  CHECK(rows["sum"] == Rows{6, 2, -2});
  rows = rows_of(1, true);  // the rank that has the rows need not have logged it
  CHECK(rows["mean"] == Rows{3, 4, -4});
  CHECK(rows["least"] == Rows{2, 4, -4});
  CHECK(rows["most"] == Rows{4, 4, -4});
  CHECK(rows["sum"] == Rows{6, 4, -4});
  CHECK(rows_of(1, false)["mean"] == Rows{4, 4, -4});
  CHECK(rows_of(1, false)["start"].size() <= 1);  // it is logged in no step
}

TEST_CASE("ranks: they ask each other of steps' values only where a metric asks for it") {
  toy::Meeting meeting(2);
  require_fine(toy::on_ranks(meeting, [](Rank rank) {
    toy::P model;
    auto trainer =
        make_trainer<toy::P>({.max_epochs = 1, .log_every_n_steps = 1}, rank, Float32{}, Automatic{}, toy::Rows{});
    trainer.fit(model, toy::OwnPart<double>{toy::batches(6)});
    return 0;
  }));
  CHECK(meeting.count("gradients") == 6);
  CHECK(meeting.count("reduce_in_place") == 1 + 2);  // the number of batches; the epoch's values, of steps and hooks
}

TEST_CASE(
    "ranks: what each logs alone decides nothing alone: early stopping and the best file are by the value of all") {
  struct Ended {
    long steps;
    std::vector<double> weights;
    std::string best;
    std::optional<double> score;
  };
  probe::Folder const folder;
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    Meter model;
    auto trainer = make_trainer<Meter>({.max_epochs = 9, .num_sanity_val_steps = 0}, rank, Float32{}, Automatic{},
                                       EarlyStopping{Meter::val, {.patience = 2}},
                                       ModelCheckpoint{Meter::val, {.dirpath = folder.path, .save_top_k = 2}});
    // For rank 0 alone the value would be 1, for rank 1 alone 3.
    auto train = loader({1, 2, 3, 4}, 1), val = loader({1, 3, 1, 3}, 1);
    trainer.fit(model, train, val);
    auto const& saved = trainer.template callback<ModelCheckpoint>();
    return Ended{
        trainer.progress().global_step, {model.p.value()}, saved.best_model_path().string(), saved.best_model_score()};
  });
  require_fine(all);
  for (auto const& rank : all) {
    CHECK(rank.result->steps == 2 * 3);  // the first, and two checks without improvement
    CHECK(rank.result->score == 2.0);
    CHECK(rank.result->best == all[0].result->best);
    CHECK(!rank.result->best.empty());
    CHECK(rank.result->weights == all[0].result->weights);
  }
}

namespace {

struct Gathers {
  using Stateless = ByChoice;
  std::vector<double>* numbers;
  std::vector<std::size_t>* sizes;
  void on_train_start(auto& ctx) const {
    *numbers = ctx.all_gather(10.0 * ctx.rank());
    std::vector<double> const mine(static_cast<std::size_t>(ctx.rank()), 1.0);
    for (auto const& one : ctx.all_gather(std::span<double const>(mine))) sizes->push_back(one.size());
  }
};
template <class Strategy>
auto gathered(Strategy strategy) {
  std::pair<std::vector<double>, std::vector<std::size_t>> all;
  toy::P model;
  auto trainer =
      make_trainer<toy::P>({.max_epochs = 1}, strategy, Float32{}, Automatic{}, Gathers{&all.first, &all.second});
  trainer.fit(model, toy::OwnPart<double>{toy::batches(1)});
  return all;
}

}  // namespace

TEST_CASE("ranks: numbers of all of them, in their order; of one process its own") {
  auto const all = toy::on_ranks(3, [](Rank rank) { return gathered(rank); });
  require_fine(all);
  for (auto const& rank : all) {
    CHECK(rank.result->first == std::vector{0.0, 10.0, 20.0});
    CHECK(rank.result->second == std::vector<std::size_t>{0, 1, 2});
  }
  CHECK(gathered(toy::Device{}).first == std::vector{0.0});
}

TEST_CASE(
    "ranks: the loader's part of each is that of one process cut in turn; shuffled anew in each epoch, as there") {
  auto const drawn = [](int rank, int world, bool training, bool drop, int n, long batch_size) {
    std::vector<std::vector<double>> epochs;
    Data numbers;
    for (int i = 0; i != n; ++i) numbers.push_back(i);
    data::Loader all(numbers, {.batch_size = batch_size, .shuffle = training, .seed = 5, .drop_last = drop});
    if (world != 1) all.shard(rank, world, training);
    for (long epoch : {0L, 1L}) {
      all.set_epoch(epoch);
      auto& seen = epochs.emplace_back();
      for (auto const& batch : all) seen.insert(seen.end(), batch.begin(), batch.end());
    }
    return epochs;
  };
  auto const whole = drawn(0, 1, true, false, 8, 4);
  CHECK(whole[0] != whole[1]);
  for (std::size_t epoch : {0U, 1U})
    for (int rank : {0, 1}) {
      auto const part = drawn(rank, 2, true, false, 8, 2)[epoch];
      REQUIRE(part.size() == 4);
      for (std::size_t i = 0; i != 4; ++i) CHECK(part[i] == whole[epoch][2 * i + static_cast<std::size_t>(rank)]);
    }
  // Seven samples for two: in training the first comes once more, or the last is left out; in evaluation neither.
  CHECK(drawn(0, 2, true, false, 7, 1)[0].size() == 4);
  CHECK(drawn(1, 2, true, false, 7, 1)[0].size() == 4);
  CHECK(drawn(1, 2, true, false, 7, 1)[0].back() == drawn(0, 2, true, false, 7, 1)[0].front());
  CHECK(drawn(0, 2, true, true, 7, 1)[0].size() == 3);
  CHECK(drawn(0, 2, false, false, 7, 1)[0] == Data{0, 2, 4, 6});
  CHECK(drawn(1, 2, false, false, 7, 1)[0] == Data{1, 3, 5});
}

namespace {

/// Learns from a shuffled loader of ours; tells how many steps it expects.
struct Learner {
  Tensor p = Tensor::parameter(0.0);
  std::optional<long> expected = {};
  std::vector<double> seen = {};
  Tensor training_step(Rows const& rows) {
    Tensor sum(0.0);
    for (double const x : rows) {
      sum = sum + p * Tensor(x);
      seen.push_back(x);
    }
    return sum * Tensor(1.0 / static_cast<double>(rows.size()));
  }
  toy::Sgd configure_optimizers(auto& ctx) {
    expected = ctx.estimated_steps();
    return {.params = {p}, .rate = 0.5};
  }
};
template <class Strategy>
Learner learnt(Strategy strategy, long batch_size, bool sampler = true) {
  Learner model;
  auto trainer =
      make_trainer<Learner>({.max_epochs = 3, .use_distributed_sampler = sampler}, strategy, Float32{}, Automatic{});
  auto train = loader({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, batch_size, true);
  trainer.fit(model, train);
  return model;
}

}  // namespace

TEST_CASE("ranks: a loader of ours is shared out by itself: the weights of one process whose batches are as many times "
          "as large, in as many steps as were estimated") {
  auto const one = learnt(toy::Device{}, 8);
  auto const all = toy::on_ranks(4, [](Rank rank) { return learnt(rank, 2); });
  require_fine(all);
  for (auto const& rank : all) {
    CHECK(rank.result->p.value() == one.p.value());
    CHECK(rank.result->expected == 6);
    CHECK(rank.result->expected == one.expected);
    CHECK(rank.result->seen.size() == one.seen.size() / 4);
  }
  CHECK(all[0].result->seen != all[1].result->seen);
  auto const same = toy::on_ranks(2, [](Rank rank) { return learnt(rank, 8, false); });
  require_fine(same);
  CHECK(same[0].result->seen == one.seen);
  CHECK(same[1].result->seen == one.seen);
}

TEST_CASE("ranks: an epoch that resumes from a snapshot has the figures of all ranks, from before it, too") {
  auto const epoch = [](Rank rank, bool stops) {
    Meter model;
    TrainerOptions given{.max_epochs = 1, .num_sanity_val_steps = 0};
    if (stops) given.max_steps = 2;
    auto trainer = make_trainer<Meter>(given, rank, Float32{}, Automatic{});
    auto train = loader({1, 2, 3, 4, 5, 6, 7, 80}, 1);
    trainer.fit(model, train, NoValidation{});
    if (stops) {
      given.max_steps = std::nullopt;
      trainer.set_options(given);
      trainer.fit(model, train, NoValidation{}, snapshot(trainer));
    }
    return model.at_epoch_end.back();
  };
  for (bool const stops : {false, true}) {
    CAPTURE(stops);
    auto const all = toy::on_ranks(2, [&](Rank rank) { return epoch(rank, stops); });
    require_fine(all);
    for (auto const& one : all) CHECK(*one.result == 13.5);
  }
}
