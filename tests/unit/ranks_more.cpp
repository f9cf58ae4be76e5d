// Several ranks: optimization by hand, clocks, schedules that follow a metric, clipping, a metric that spikes.
#include <chrono>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/timer.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "checkpoint_folder.hpp"
#include "models.hpp"
#include "ranks.hpp"

using namespace fulgurite;
using toy::Rank;
using toy::Tensor;

namespace {

template <class Result>
void require_fine(std::vector<toy::RankResult<Result>> const& ranks) {
  for (auto const& one : ranks) REQUIRE(one.error == "");
}

/// Two weights, each with an optimizer of its own; the gradient of a batch x is x.
struct Hand {
  Tensor a = Tensor::parameter(0.0), b = Tensor::parameter(0.0);
  bool accumulates = false;
  std::vector<double> seen = {};
  void training_step(double x, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    if (accumulates) {
      {
        auto const alone = ctx.toggle(first, {.sync_grad = false});
        first.zero_grad();
        ctx.backward(a * Tensor(x));
      }
      ctx.backward(a * Tensor(x));
      ctx.step(first);
    } else {
      ctx.minimize(first, a * Tensor(x));
      ctx.minimize(second, b * Tensor(2 * x));
    }
    seen.push_back(a.value());
    seen.push_back(b.value());
  }
  std::vector<Tensor> parameters() const { return {a, b}; }
  auto configure_optimizers() { return optimizers(toy::Sgd{{a}}, toy::Sgd{{b}}); }
};

/// The data of one rank: x is 1 + batch + 2 rank.
toy::OwnPart<double> mine(int rank, int n) { return {toy::batches(n, 1 + 2 * rank)}; }

}  // namespace

TEST_CASE("ranks: by hand, each backward exchanges the gradients, but in a scope with sync_grad = false") {
  for (bool accumulates : {false, true}) {
    toy::Meeting meeting(2);
    auto const all = toy::on_ranks(meeting, [&](Rank rank) {
      Hand model;
      model.accumulates = accumulates;
      auto trainer =
          make_trainer<Hand>({.max_epochs = 1, .silence = {"fulgurite.manual.not_cleared"}}, rank, Float32{}, Manual{});
      trainer.fit(model, mine(rank.rank(), 3));
      return model.seen;
    });
    require_fine(all);
    CHECK(all[0].result == all[1].result);
    CHECK(meeting.count("gradients") == (accumulates ? 3 : 6));
    // Means of 1 and 3, 2 and 4, 3 and 5, once or twice.
    CHECK(all[0].result->at(4) == (accumulates ? -18.0 : -9.0));
  }
}

namespace {

inline thread_local double clock_now = 0;
TrainerOptions::Clock::time_point told_time() {
  return TrainerOptions::Clock::time_point(
      std::chrono::duration_cast<TrainerOptions::Clock::duration>(std::chrono::duration<double>(clock_now)));
}

/// Lets a rank's clock run: rank 1's is far ahead.
struct Ticks {
  using Stateless = ByChoice;
  static constexpr Order order = Order::tuner;
  void on_train_batch_start(auto& ctx) const { clock_now += ctx.rank() == 0 ? 1 : 100; }
};
struct Validated : toy::P {
  int* validations = nullptr;
  void validation_step(double) {}
  void on_validation_start() const { ++*validations; }
};

}  // namespace

TEST_CASE("ranks: what is due by time is due by the clock of rank 0, or where it ends the fit by any") {
  auto const timed = toy::on_ranks(2, [](Rank rank) {
    clock_now = 0;
    int validations = 0;
    Validated model;
    model.validations = &validations;
    auto trainer = make_trainer<Validated>(
        {.max_epochs = 1, .val_check_interval = std::chrono::seconds(4), .num_sanity_val_steps = 0, .now = &told_time},
        rank, Float32{}, Automatic{}, Ticks{});
    trainer.fit(model, mine(0, 12), mine(0, 1));
    return validations;
  });
  require_fine(timed);
  CHECK(timed[0].result == 3);
  CHECK(timed[1].result == 3);

  auto const stopped = [](auto... with) {
    auto const all = toy::on_ranks(2, [&](Rank rank) {
      clock_now = 0;
      toy::P model;
      TrainerOptions options{.max_epochs = 1, .now = &told_time};
      if constexpr (sizeof...(with) == 0) options.max_time = std::chrono::seconds(250);
      auto trainer = make_trainer<toy::P>(options, rank, Float32{}, Automatic{}, Ticks{}, with()...);
      trainer.fit(model, mine(0, 12));
      return trainer.progress().global_step;
    });
    require_fine(all);
    CHECK(all[0].result == all[1].result);
    return *all[0].result;
  };
  CHECK(stopped() == 4);  // heard with the step after the third
  CHECK(stopped([] { return Timer{std::chrono::seconds(250), {.verbose = false}}; }) == 4);
}

TEST_CASE("ranks: files by time are those of rank 0's clock, by name the same on all") {
  probe::Folder const folder;
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    clock_now = 0;
    toy::P model;
    auto trainer =
        make_trainer<toy::P>({.max_epochs = 1, .now = &told_time}, rank, Float32{}, Automatic{}, Ticks{},
                             ModelCheckpoint{{.dirpath = folder.path, .train_time_interval = std::chrono::seconds(5)}});
    trainer.fit(model, mine(0, 12));
    return trainer.callback<ModelCheckpoint>().best_model_path().string();
  });
  require_fine(all);
  CHECK(all[0].result->find("step=10") != std::string::npos);
  CHECK(all[0].result == all[1].result);
}

TEST_CASE("ranks: files by time are asked for where one is due, and in no other step") {
  auto const collectives = [](int batches, double seconds) {
    probe::Folder const folder;
    toy::Meeting meeting(2);
    auto const rhythm = [&](double every) {
      return ModelCheckpoint{{.dirpath = folder.path / std::to_string(every),
                              .train_time_interval = std::chrono::duration<double>(every)}};
    };
    require_fine(toy::on_ranks(meeting, [&](Rank rank) {
      clock_now = 0;
      toy::P model;
      auto trainer = make_trainer<toy::P>({.max_epochs = 1, .now = &told_time}, rank, Float32{}, Automatic{}, Ticks{},
                                          rhythm(seconds));
      trainer.fit(model, mine(0, batches));
      return 0;
    }));
    long all = 0;
    for (auto const& [what, count] : meeting.counts()) all += count;
    return std::pair(all, meeting.count("broadcast"));
  };
  CHECK(collectives(12, 100).first - collectives(2, 100).first == 10);
  CHECK(collectives(12, 5).second > collectives(12, 100).second);
  int steps_that_ask = 0;  // one with a file has more to agree on than the exchange of each step
  for (int batches = 2; batches != 12; ++batches)
    steps_that_ask += collectives(batches + 1, 5).first - collectives(batches, 5).first == 1 ? 0 : 1;
  CHECK(steps_that_ask == 2);
}

namespace {

/// Of rank 1 a batch comes only each second time that it is asked for.
struct Late : toy::OwnPart<double> {
  bool late = false;
  bool asked = false;
  bool batch_is_ready() { return !late || std::exchange(asked, !asked); }
};

}  // namespace

TEST_CASE("ranks: an open fit trains on as many batches on each of them, by the slowest, and can be closed") {
  auto const steps = [](bool late) {
    toy::Meeting meeting(2, std::chrono::milliseconds(1500));
    auto const all = toy::on_ranks(meeting, [&](Rank rank) {
      clock_now = 0;
      toy::P model;
      auto trainer = make_trainer<toy::P>({.max_epochs = 1, .now = &told_time}, rank, Float32{}, Automatic{}, Ticks{});
      Late data{mine(0, 12), late && rank.rank() == 1};
      auto fit = trainer.open(model, data);
      std::vector<std::pair<FitStatus, long>> made;
      for (int i = 0; i != 4; ++i) {
        auto const status = fit.advance_for(std::chrono::seconds(250));
        made.emplace_back(status, trainer.progress().global_step);
      }
      fit.close();
      return made;
    });
    require_fine(all);
    CHECK(all[0].result == all[1].result);
    return *all[0].result;
  };
  using enum FitStatus;
  CHECK(steps(false) == std::vector<std::pair<FitStatus, long>>{{more, 2}, {more, 4}, {more, 6}, {more, 8}});
  CHECK(steps(true) == std::vector<std::pair<FitStatus, long>>{{waiting, 0}, {waiting, 1}, {waiting, 2}, {waiting, 3}});
}

namespace {

/// Logs what differs from rank to rank, and has a schedule that follows it after each step.
struct Followed {
  static constexpr Metric<"own"> own{.on_epoch = Report::yes};
  using Metrics = MetricList<own>;
  Tensor p = Tensor::parameter(0.0);
  std::vector<double> rates = {};
  bool spikes = false;
  Tensor training_step(double, auto& ctx) {
    double const batch = static_cast<double>(ctx.batch_idx());
    ctx.log(own, spikes && ctx.rank() == 1 && ctx.batch_idx() == 4 ? 1000.0
                 : ctx.rank() == 0                                 ? -batch
                                                                   : 1 + 0.5 * batch);
    return -p;
  }
  void on_train_batch_end(auto& ctx) { rates.push_back(ctx.optimizer().lr(0)); }
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, schedule::ReduceOnPlateau{own.last(), {.patience = 1}},
                     {.interval = Interval::step});
  }
};

}  // namespace

TEST_CASE("ranks: a schedule that follows a metric moves by the value of all, in the same step") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    Followed model;
    auto trainer = make_trainer<Followed>({.max_epochs = 1}, rank, Float32{}, Automatic{});
    trainer.fit(model, mine(0, 8));
    return model.rates;
  });
  require_fine(all);
  CHECK(all[0].result == all[1].result);
  CHECK(all[0].result->back() == 1.0);  // the mean falls, though rank 1's own value rises
}

TEST_CASE("ranks: a spike on one is seen by all, in the same batch") {
  probe::Folder const folder;
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    Followed model;
    model.spikes = true;
    auto trainer = make_trainer<Followed>({.max_epochs = 1, .default_root_dir = folder.path}, rank, Float32{},
                                          Automatic{}, SpikeDetection{Followed::own, {.warmup = 1, .atol = 100.0}});
    trainer.fit(model, mine(0, 8));
    return 0;
  });
  for (auto const& rank : all) CHECK(rank.error.find("in batch 4 of epoch 0") != std::string::npos);
}

TEST_CASE("ranks: the norm that is clipped is that of the reduced gradients") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    toy::Slope model;
    auto trainer = make_trainer<toy::Slope>({.max_epochs = 1}, rank, Float32{}, Automatic{.clip = ClipValue{2.5}});
    trainer.fit(model, mine(rank.rank(), 2));
    return model.p.value();
  });
  require_fine(all);
  CHECK(all[0].result == -2.5 - 2.5);  // means of 2 and 4, 3 and 5
  CHECK(all[1].result == -2.5 - 2.5);
}
