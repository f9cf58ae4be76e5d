// Several ranks, each with its part of the data: the same weights in all of them after every step, those of one process
// with all the data; one collective a step, with which wishes for a stop and ends of epochs ride.
#include <cmath>
#include <limits>

#include <catch2/catch_test_macros.hpp>

#include "models.hpp"
#include "ranks.hpp"

using namespace fulgurite;
using toy::Rank;
using toy::Tensor;

namespace {

using Rows = std::vector<double>;

/// The mean over the rows x of (p x + q - 3)^2. Keeps its weights after each step.
struct Line {
  Tensor p = Tensor::parameter(0.5), q = Tensor::parameter(-0.25);
  std::vector<double> weights = {};
  Tensor training_step(Rows const& rows) {
    Tensor sum(0.0);
    for (double const x : rows) {
      auto const miss = p * Tensor(x) + q - Tensor(3.0);
      sum = sum + miss * miss;
    }
    return sum * Tensor(1.0 / static_cast<double>(rows.size()));
  }
  void on_train_batch_end(auto& ctx) {
    if (ctx.accumulating()) return;
    weights.push_back(p.value());
    weights.push_back(q.value());
  }
  std::vector<Tensor> parameters() const { return {p, q}; }
  toy::Sgd configure_optimizers() { return {.params = {p, q}, .rate = 0.125}; }
};

struct Ran {
  std::vector<double> weights;
  long steps = 0;
  int epochs = 0;
  long batches = 0;
};

template <class Strategy, class Loader, class... Cs>
Ran ran(Strategy strategy, Loader loader, TrainerOptions options, Automatic how, Cs... callbacks) {
  Line model;
  auto trainer = make_trainer<Line>(std::move(options), strategy, Float32{}, how, std::move(callbacks)...);
  trainer.fit(model, loader);
  auto const& progress = trainer.progress();
  return {model.weights, progress.global_step, progress.epoch, progress.total_batches};
}

/// `batches` of `rows` rows each; with several ranks every rank-th row of them.
toy::OwnPart<Rows> part(int batches, int rows, int rank = 0, int world = 1) {
  toy::OwnPart<Rows> loader;
  for (int b = 0; b != batches; ++b) {
    auto& batch = loader.all.emplace_back();
    for (int i = rank; i < rows * world; i += world) batch.push_back(1.0 + (b * 3 + i) % 2);
  }
  return loader;
}

template <class F>
auto stop_where(F when) {
  return toy::Influence{[=](std::string_view where, auto& ctx) {
    if (when(where, ctx)) ctx.request_stop();
  }};
}

template <class Result>
void require_fine(std::vector<toy::RankResult<Result>> const& ranks) {
  for (auto const& one : ranks) {
    REQUIRE(one.error == "");
    REQUIRE(one.result);
  }
}

}  // namespace

TEST_CASE("ranks: equal to the bit after every step, and to one process whose batches are theirs together") {
  for (int world : {2, 4})
    for (int k : {1, 2}) {
      Automatic const how{.accumulate_grad_batches = k};
      auto const one = ran(toy::Device{}, part(5, 2 * world), {.max_epochs = 1}, how);
      toy::Meeting meeting(world);
      auto const all = toy::on_ranks(
          meeting, [&](Rank rank) { return ran(rank, part(5, 2, rank.rank(), world), {.max_epochs = 1}, how); });
      require_fine(all);
      CHECK(one.steps == (k == 1 ? 5 : 3));
      for (auto const& rank : all) {
        CHECK(rank.result->weights == one.weights);
        CHECK(rank.result->steps == one.steps);
      }
      // What happened in a step besides: nothing.
      CHECK(meeting.count("gradients") == one.steps);
    }
}

TEST_CASE("ranks: a step has one collective, whatever is wished for; so many more are of the run and of its epochs") {
  auto const collectives = [](int batches, int epochs) {
    toy::Meeting meeting(2);
    require_fine(toy::on_ranks(meeting, [&](Rank rank) {
      return ran(rank, part(batches, 1, rank.rank(), 2), {.max_epochs = epochs}, Automatic{},
                 stop_where([](auto, auto&) { return false; }));
    }));
    long all = 0;
    for (auto const& [what, count] : meeting.counts()) all += count;
    return all;
  };
  long const few = collectives(3, 1), more = collectives(10, 1);
  CHECK(more - few == 7);
  long const epochs = collectives(3, 2) - few;
  CHECK(epochs == 3 + 2);  // its steps; its beginning and its end
}

TEST_CASE("ranks: a stop that one of them wishes for is heard with the next step's gradients, by all in one batch") {
  for (int k : {1, 2}) {
    auto const all = toy::on_ranks(2, [&](Rank rank) {
      return ran(rank, part(8, 1, rank.rank(), 2), {.max_epochs = 3}, Automatic{.accumulate_grad_batches = k},
                 stop_where([mine = rank.rank()](std::string_view where, auto& ctx) {
                   return mine == 1 && where == "on_train_batch_end" && ctx.batch_idx() == 2;
                 }));
    });
    require_fine(all);
    for (auto const& rank : all) {
      CHECK(rank.result->batches == 4);  // the step that batch 3 closes
      CHECK(rank.result->steps == (k == 1 ? 4 : 2));
      CHECK(rank.result->epochs == 1);
      CHECK(rank.result->weights == all[0].result->weights);
    }
  }
}

TEST_CASE("ranks: a stop wished for where all of them meet holds at once") {
  for (std::string_view const where : {"on_fit_start", "on_train_epoch_start", "on_train_epoch_end"}) {
    auto const all = toy::on_ranks(3, [&](Rank rank) {
      return ran(
          rank, part(2, 1, rank.rank(), 3), {.max_epochs = 4}, Automatic{},
          stop_where([mine = rank.rank(), where](std::string_view at, auto&) { return mine == 2 && at == where; }));
    });
    require_fine(all);
    for (auto const& rank : all) CHECK(rank.result->steps == (where == "on_train_epoch_end" ? 2 : 0));
  }
}

TEST_CASE(
    "ranks: sized loaders of different length end with the shortest, said once; the interval of validations, too") {
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    Line model;
    auto trainer = make_trainer<Line>({.max_epochs = 2, .silence = {"fulgurite.data.uneven"}}, rank, Float32{},
                                      Automatic{.accumulate_grad_batches = 2});
    auto loader = part(rank.rank() == 0 ? 8 : 5, 1);
    trainer.fit(model, loader);
    std::string warned;
    for (auto const& one : trainer.warnings()) warned += one.substr(0, one.find(']') + 1);
    return std::pair(trainer.progress().global_step, warned);
  });
  require_fine(all);
  for (auto const& rank : all) {
    CHECK(rank.result->first == 6);
    CHECK(rank.result->second == "[fulgurite.data.uneven]");
  }
}

TEST_CASE("ranks: unsized loaders of different length end for all with the step in which one of them ends") {
  for (int k : {1, 2})
    for (int shorter : {3, 4}) {
      toy::Meeting meeting(2);
      auto const all = toy::on_ranks(meeting, [&](Rank rank) {
        Line model;
        auto trainer = make_trainer<Line>({.max_epochs = 2}, rank, Float32{}, Automatic{.accumulate_grad_batches = k});
        toy::OwnStream<Rows> loader{part(rank.rank() == 0 ? 9 : shorter, 1).all};
        trainer.fit(model, loader);
        return Ran{model.weights, trainer.progress().global_step, trainer.progress().epoch,
                   trainer.progress().total_batches};
      });
      require_fine(all);
      long const steps = 2L * ((shorter + k - 1) / k);
      for (auto const& rank : all) {
        CHECK(rank.result->steps == steps);
        CHECK(rank.result->epochs == 2);
        CHECK(rank.result->weights == all[0].result->weights);
      }
      CHECK(meeting.count("gradients") == steps);
    }
}

namespace {

/// A loader that leaves some batches out.
struct Gaps {
  [[maybe_unused]] static constexpr bool shards_itself = true;
  std::vector<std::optional<Rows>> all;
  std::size_t size() const { return all.size(); }
  auto begin() { return all.begin(); }
  auto end() { return all.end(); }
};

}  // namespace

TEST_CASE("ranks: one without a batch takes part in the step of the others; a window that nobody has makes none") {
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    Rows const one{1.0}, two{2.0};
    bool const first = rank.rank() == 0;
    // Batch 1 is rank 0's alone, batch 2 nobody's.
    Gaps gaps{{one, first ? std::optional(two) : std::nullopt, std::nullopt, two}};
    return ran(rank, gaps, {.max_epochs = 1, .silence = {"fulgurite.data.none"}}, Automatic{});
  });
  require_fine(all);
  auto const alone = ran(toy::Device{}, toy::OwnPart<Rows>{{{1.0}, {2.0}, {2.0}}}, {.max_epochs = 1}, Automatic{});
  for (auto const& rank : all) {
    CHECK(rank.result->steps == 3);
    CHECK(rank.result->weights == all[0].result->weights);
  }
  CHECK(std::vector(alone.weights.end() - 2, alone.weights.end()) ==
        std::vector(all[0].result->weights.end() - 2, all[0].result->weights.end()));
}

namespace {

struct Skips {
  using Stateless = ByChoice;
  int rank;
  Flow on_train_batch_start(auto& ctx) const {
    return rank == 1 && ctx.current_epoch() == 0 && ctx.batch_idx() == 2 ? Flow::skip_epoch : Flow::proceed;
  }
};

}  // namespace

TEST_CASE("ranks: skip_epoch of one ends the epoch of all after the step at hand, without a validation") {
  auto const all = toy::on_ranks(2, [&](Rank rank) {
    return ran(rank, part(5, 1, rank.rank(), 2), {.max_epochs = 2}, Automatic{}, Skips{rank.rank()});
  });
  require_fine(all);
  for (auto const& rank : all) {
    CHECK(rank.result->steps == 3 + 5);
    CHECK(rank.result->epochs == 2);
  }
  auto const last = [](Ran const& one) { return std::vector(one.weights.end() - 2, one.weights.end()); };
  CHECK(last(*all[0].result) == last(*all[1].result));
}

namespace {

struct Nan : Line {
  int rank = 0;
  long left_out = 0;
  Tensor training_step(Rows const& rows, auto& ctx) {
    auto loss = Line::training_step(rows);
    if (rank == 1 && ctx.batch_idx() == 1)
      return Tensor(std::numeric_limits<double>::quiet_NaN());  // without a gradient: the loss alone tells
    return loss;
  }
  void on_train_end(auto& ctx) { left_out = ctx.skipped_steps(); }
};

}  // namespace

TEST_CASE("ranks: a loss of one that is not finite stops all of them, or leaves the step out in all") {
  auto const run_with = [](NonFinite how, bool device_waits) {
    return toy::on_ranks(2, [=](Rank rank) {
      toy::world.device_waits = device_waits;
      Nan model;
      model.rank = rank.rank();
      auto trainer =
          make_trainer<Nan>({.max_epochs = 1, .non_finite = how, .silence = {"fulgurite.loop.non_finite_skipped"}},
                            rank, Float32{}, Automatic{});
      auto loader = part(4, 1, rank.rank(), 2);
      trainer.fit(model, loader);
      toy::world.device_waits = false;  // rank 0's world is that of later tests
      return Ran{model.weights, trainer.progress().global_step, 0, model.left_out};
    });
  };
  auto const stopped = run_with(NonFinite::stop, false);
  CHECK(stopped[1].error.find("[fulgurite.loop.non_finite] the loss is") == 0);
  CHECK(stopped[1].error.find("on rank 1") != std::string::npos);
  CHECK(stopped[0].error.find("[fulgurite.loop.non_finite] the loss of another rank is not finite") == 0);
  for (bool const waits : {false, true}) {
    auto const skipped = run_with(NonFinite::skip, waits);
    require_fine(skipped);
    for (auto const& rank : skipped) {
      CHECK(rank.result->batches == 1);
      CHECK(rank.result->steps == 4);
      CHECK(rank.result->weights == skipped[0].result->weights);
    }
  }
}
