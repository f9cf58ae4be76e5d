// Ranks that do not all do the same: a loss of one of them, epochs of different lengths, an evaluation without batches.

#include <chrono>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <ranks.hpp>
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

namespace {

constexpr auto soon = std::chrono::milliseconds(1500);

struct Fails {
  toy::Tensor p = toy::Tensor::parameter(0.5);
  int rank = 0;
  toy::Tensor training_step(double, auto& ctx) {
    if (rank == 1 && ctx.batch_idx() == 1) return toy::Tensor(std::numeric_limits<double>::quiet_NaN());
    if (rank == 1 && ctx.batch_idx() == 3) throw std::runtime_error("no more milk");
    return -p;
  }
  std::vector<toy::Tensor> parameters() const { return {p}; }
  toy::Sgd configure_optimizers() { return {.params = {p}}; }
};

struct ByHand {
  toy::Tensor p = toy::Tensor::parameter(0.5), q = toy::Tensor::parameter(0.5);
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    static_cast<void>(second);
    ctx.minimize(first, -p);
  }
  std::vector<toy::Tensor> parameters() const { return {p, q}; }
  auto configure_optimizers() { return optimizers(toy::Sgd{.params = {p}}, toy::Sgd{.params = {q}}); }
};
struct SkipsTheFirstEpoch {
  using Stateless = ByChoice;
  Flow on_train_batch_start(auto& ctx) const {
    return ctx.current_epoch() == 0 && ctx.batch_idx() == 2 ? Flow::skip_epoch : Flow::proceed;
  }
};

struct Validated {
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<v>;
  toy::Tensor p = toy::Tensor::parameter(0.5);
  toy::Tensor training_step(double) { return -p; }
  void validation_step(double, auto& ctx) { ctx.log(v, 1.0); }
  toy::Sgd configure_optimizers() { return {.params = {p}}; }
};
struct Unsized {
  static constexpr bool batches_stay_valid = true, shards_itself = true;
  std::vector<double> all;
  auto begin() { return all.begin(); }
  auto end() { return all.end(); }
};

}  // namespace

TEST_CASE("a loss that was left out makes a later exception of one rank no matter of all: the others are told") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [](toy::Rank rank) {
    Fails model;
    model.rank = rank.rank();
    auto trainer = make_trainer<Fails>(
        {.max_epochs = 1, .non_finite = NonFinite::skip, .silence = {"fulgurite.loop.non_finite_skipped"}}, rank,
        Float32{}, Automatic{});
    trainer.fit(model, toy::OwnPart<double>{toy::batches(6)});
    return 0;
  });
  CHECK(all[0].error.find("no more milk") != std::string::npos);
  CHECK(all[1].error.find("no more milk") != std::string::npos);
}

TEST_CASE("manual optimization: an epoch that all ranks leave does not end the next one") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [](toy::Rank rank) {
    ByHand model;
    auto trainer = make_trainer<ByHand>({.max_epochs = 2}, rank, Float32{}, Manual{}, SkipsTheFirstEpoch{});
    trainer.fit(model, toy::OwnPart<double>{toy::batches(5)});
    return trainer.progress().global_step;
  });
  for (auto const& rank : all) {
    CHECK(rank.error.empty());
    CHECK(rank.result == 7);
  }
}

TEST_CASE("ranks whose epochs end inside a window count batches alike afterwards, and validate together") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [](toy::Rank rank) {
    Validated model;
    auto trainer = make_trainer<Validated>({.max_epochs = 2,
                                            .val_check_interval = Batches{5},
                                            .check_val_every_n_epoch = std::nullopt,
                                            .num_sanity_val_steps = 0},
                                           rank, Float32{}, Automatic{.accumulate_grad_batches = 2});
    Unsized train{std::vector<double>(rank.rank() == 0 ? 3 : 4, 1.0)};
    trainer.fit(model, train, toy::OwnPart<double>{toy::batches(2)});
    return trainer.progress().total_batches;
  });
  for (auto const& rank : all) CHECK(rank.error.empty());
  CHECK(all[0].result == all[1].result);
}

TEST_CASE("a rank without a batch in an evaluation waits for the others") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [](toy::Rank rank) {
    Validated model;
    auto trainer = make_trainer<Validated>({.max_epochs = 1, .num_sanity_val_steps = 0}, rank, Float32{}, Automatic{});
    Unsized val{std::vector<double>(rank.rank() == 0 ? 1 : 0, 1.0)};
    trainer.fit(model, toy::OwnPart<double>{toy::batches(2)}, val);
    return trainer.progress().global_step;
  });
  for (auto const& rank : all) {
    CHECK(rank.error.empty());
    CHECK(rank.result == 2);
  }
}
