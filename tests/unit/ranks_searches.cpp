// Several ranks: steps that are tried out have an end of their own, and leave what the ranks share as it was.
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include "models.hpp"
#include "ranks.hpp"

using namespace fulgurite;
using toy::Rank;
using toy::Tensor;

namespace searches_of_ranks {

template <class Result>
void require_fine(std::vector<toy::RankResult<Result>> const& ranks) {
  for (auto const& one : ranks) REQUIRE(one.error == "");
}

struct Bowl {
  double lr = 0.5;
  Tensor p = Tensor::parameter(10.0);
  long epochs = 0, steps = 0;
  bool stops_in_rehearsal = false, breaks_in_rehearsal = false;
  std::vector<Tensor> parameters() const { return {p}; }
  Tensor training_step(double, auto& ctx) {
    if (breaks_in_rehearsal && ctx.rehearsing() && ctx.rank() == 1) return p * std::numeric_limits<double>::quiet_NaN();
    return p * p;
  }
  void on_train_batch_end(auto& ctx) {
    if (stops_in_rehearsal && ctx.rehearsing() && ctx.rank() == 1) ctx.request_stop();
    if (!ctx.rehearsing()) ++steps;
  }
  void on_train_epoch_end(auto& ctx) { epochs += ctx.rehearsing() ? 0 : 1; }
  toy::Sgd configure_optimizers() { return {{p}, lr}; }
};

/// Requests the end of training when the fit starts, on one rank alone.
struct StopsEarly {
  using Stateless = ByChoice;
  void on_fit_start(auto& ctx) const {
    if (ctx.rank() == 1 || ctx.world() == 1) ctx.request_stop();
  }
};

/// Tries steps out when the fit starts, and takes a failure of theirs as a result.
struct Tries {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  std::string* failure;
  void on_fit_start(auto& ctx) {
    ctx.request_search([this](auto& rehearser) {
      try {
        rehearser.rehearse({.steps = 3});
      } catch (Error const& error) { *failure = error.identifier(); }
    });
  }
};

TrainerOptions options(int epochs) { return {.max_epochs = epochs, .silence = {"fulgurite.tuner.no_suggestion"}}; }
auto mine(Rank const& rank, int n) { return toy::OwnPart<double>{toy::batches(n, 1 + rank.rank())}; }
tune::RateSearch<Bowl> search() {
  return {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 12, .skip_begin = 0, .update = &Bowl::lr};
}

}  // namespace searches_of_ranks
using namespace searches_of_ranks;

TEST_CASE("ranks: a search for a learning rate before a fit makes all of its steps, in any world") {
  auto const alone = [] {
    Bowl model;
    auto trainer = make_trainer(model, options(20), toy::Device{});
    return tune::lr_find(trainer, model, toy::batches(4), search()).lr;
  }();
  REQUIRE(alone.size() == 12);
  for (int world : {1, 2, 3}) {
    auto const all = toy::on_ranks(world, [](Rank rank) {
      Bowl model;
      auto trainer = make_trainer(model, options(20), rank);
      auto const found = tune::lr_find(trainer, model, mine(rank, 4), search());
      return found.lr;
    });
    require_fine(all);
    for (auto const& one : all) CHECK(*one.result == alone);
  }
}

TEST_CASE("ranks: a stop that was requested before a search neither ends it nor is lost by it") {
  for (int world : {1, 2}) {
    auto const all = toy::on_ranks(world, [](Rank rank) {
      Bowl model;
      auto trainer = make_trainer(model, TrainerOptions{.max_epochs = 20, .min_epochs = 1}, rank, StopsEarly{},
                                  LearningRateFinder<Bowl>{{.search = search()}});
      trainer.fit(model, mine(rank, 4));
      return std::vector<long>{static_cast<long>(trainer.template callback<LearningRateFinder>().results().lr.size()),
                               model.epochs, model.steps};
    });
    require_fine(all);
    for (auto const& one : all) CHECK(*one.result == std::vector<long>{12, 1, 4});
  }
}

TEST_CASE("ranks: a stop that steps of a search request ends with them") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    Bowl model;
    model.stops_in_rehearsal = true;
    long made = 0;
    auto trainer = make_trainer(model, options(2), rank);
    tune::rehearse(trainer, model, mine(rank, 4),
                   {.steps = 3, .after_step = [&](RehearsedStep& step) { made = step.made(); }});
    trainer.fit(model, mine(rank, 4));
    return std::vector<long>{made, model.epochs, model.steps};
  });
  require_fine(all);
  for (auto const& one : all) CHECK(*one.result == std::vector<long>{2, 2, 8});
}

TEST_CASE("ranks: a failure of all of them in a search is no fault of one, and each may go on after it") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    Bowl model;
    model.breaks_in_rehearsal = true;
    std::string failure;
    auto trainer = make_trainer(model, options(2), rank, Tries{&failure});
    trainer.fit(model, mine(rank, 4));
    return failure + " " + std::to_string(model.steps);
  });
  require_fine(all);
  for (auto const& one : all) CHECK(*one.result == "fulgurite.loop.non_finite 8");
}

TEST_CASE("ranks: where a search ends a fit on all of them, each has its own error, as in training") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    Bowl model;
    model.breaks_in_rehearsal = true;
    auto trainer = make_trainer(model, options(2), rank);
    std::string failure;
    try {
      tune::rehearse(trainer, model, mine(rank, 4), {.steps = 3});
    } catch (Error const& error) { failure = error.what(); }
    rank.barrier("after it");  // nobody was told that the others have ended
    return failure;
  });
  require_fine(all);
  CHECK(all[0].result->find("the loss of another rank") != std::string::npos);
  CHECK(all[1].result->find("on rank 1") != std::string::npos);
}

namespace searches_of_ranks {

/// Its schedules are as long as the fit, so it asks for the batches of an epoch.
struct Counts : Bowl {
  double seen = 0;
  Tensor training_step(double x, auto& ctx) {
    if (!ctx.rehearsing()) seen += x;
    return p * p;
  }
  toy::Sgd configure_optimizers(auto& ctx) { return {{p}, ctx.estimated_steps() == 10 ? lr : 0.0}; }
};
std::vector<double> ten() { return {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; }
/// Takes its part, and does not say which one it has.
struct Shards {
  std::vector<double> all = ten(), mine = all;
  void shard(int rank, int world, bool) {
    mine.clear();
    for (auto i = std::size_t(rank); i < all.size(); i += std::size_t(world)) mine.push_back(all[i]);
  }
  auto begin() const { return mine.begin(); }
  auto end() const { return mine.end(); }
  std::size_t size() const { return mine.size(); }
};
/// What a fit of two epochs that searches first has summed up, and what its loader has then.
std::vector<double> summed(Rank const& rank, auto loader) {
  Counts model;
  std::string failure;
  auto trainer = make_trainer(model, options(2), rank, Tries{&failure});
  trainer.fit(model, loader);
  double sum = 0;
  for (double const x : loader) sum += x;
  return {model.seen, sum};
}

}  // namespace searches_of_ranks

TEST_CASE("ranks: a search leaves a fit its part of a loader whose batches configure_optimizers has counted") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    auto seen = summed(rank, Shards{});
    auto const first = [](std::span<double const> one) { return one.front(); };
    for (double const x : summed(rank, data::Loader{ten(), {.batch_size = 1}, first})) seen.push_back(x);
    return seen;
  });
  require_fine(all);
  CHECK(*all[0].result == std::vector<double>{50, 55, 50, 55});
  CHECK(*all[1].result == std::vector<double>{60, 55, 60, 55});
}

namespace searches_of_ranks {

/// Its setup is a collective, as that of DistributedDataParallel is.
struct RecordingRank : Rank {
  static constexpr bool captures = true;
  explicit RecordingRank(Rank rank) : Rank(rank) {}
  template <class M, class P>
  void setup(M& model, P const& precision) {
    Rank::setup(model, precision);
    barrier("setup");
  }
  void drop_recordings(auto&) {}
};
struct Throws : Bowl {
  Tensor training_step(double, auto& ctx) {
    if (ctx.rehearsing() && ctx.rank() == 1) throw std::runtime_error("the disk is full");
    return p * p;
  }
};

}  // namespace searches_of_ranks

TEST_CASE("ranks: an exception of one in recorded steps of a search ends the others at once, by its text") {
  toy::Meeting meeting(2, std::chrono::milliseconds(1500));
  auto const all = toy::on_ranks(meeting, [](Rank rank) {
    Throws model;
    auto trainer = make_trainer(model, options(2), RecordingRank(rank));
    tune::rehearse(trainer, model, mine(rank, 4), {.steps = 3});
    return 0;
  });
  CHECK(all[1].error == "the disk is full");
  CHECK(all[0].error.find("rank 1 ended: the disk is full") != std::string::npos);
}
