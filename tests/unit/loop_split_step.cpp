// Steps of a strategy that takes the model apart, on toy tensors: which hooks are heard where and how often, whose
// values count, and what gradients come of it.

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/loop/trainer.hpp>

#include "models.hpp"
#include "ranks.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Tensor;

namespace {

using Rows = std::vector<double>;

/// Where steps of all ranks but the last end.
struct End {};
thread_local bool ends_here = false;

/// Each rank takes all of a batch, two rows at a time, and the last one alone goes on to a step's end.
struct Split : toy::Rank {
  using toy::Rank::Rank;
  static constexpr bool splits_model = true;
  static constexpr bool shards_parameters = true;

  bool is_last() const { return rank() + 1 == world(); }
  template <class Step>
  bool run(Step&& step) {
    ends_here = !is_last();
    try {
      step();
    } catch (End) { return false; }
    return true;
  }
  template <class Batch, class Board, class Step>
  Tensor gradients(StepKey, Batch& batch, Board&, Step& step) {
    std::vector<Batch> parts;
    for (std::size_t i = 0; i < batch.size(); i += 2) parts.push_back({batch[i], batch[i + 1]});
    std::vector<Tensor> losses(parts.size());
    for (std::size_t i = 0; i != parts.size(); ++i) run([&] { losses[i] = step.forward(parts[i]); });
    double sum = 0;
    for (auto& loss : losses) {
      if (!is_last()) continue;
      step.backward(loss, static_cast<int>(parts.size()));
      sum += loss.value();
    }
    std::vector<double> one{sum / static_cast<double>(parts.size())};
    reduce_in_place(one, std::vector{Reduce::sum});
    return Tensor(one.front());
  }
  template <class Batch, class Step>
  bool evaluate(Batch&, Step&& step) {
    return run(step);
  }
  void reduce_in_place(std::span<double> values, std::span<Reduce const> how) const {
    std::vector<double> const mine(values.begin(), values.end());
    auto const all = meeting->meet(rank(), "last", toy::to_bytes(std::span<double const>(mine)));
    toy::Rank::reduce_in_place(values, how);
    auto const last = toy::from_bytes<double>(all.back());
    for (std::size_t i = 0; i != values.size(); ++i)
      if (how[i] == Reduce::sum) values[i] = last[i];
  }
  void reduce_gradients(std::span<double> riders, auto& /*optimizers*/) const {
    auto const all = meeting->meet(rank(), "riders", toy::to_bytes(std::span<double const>(riders)));
    for (std::size_t i = 0; i != riders.size(); ++i) {
      riders[i] = 0;
      for (auto const& one : all) riders[i] += toy::from_bytes<double>(one)[i];
    }
  }
  Tensor clip_norm(auto const& parameters, double limit) const { return Backend::clip_norm(parameters, limit); }
  void gather(auto& /*model*/, auto& /*optimizers*/) {}
  using toy::Rank::gather;

  toy::Meeting* meeting = nullptr;
};

/// Its stages belong to the last rank: its loss is p times the mean of the rows.
struct Net {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"most"> most{.reduce = Reduce::max};
  static constexpr Metric<"val"> val{};
  static constexpr Metric<"end"> end{.reduce = Reduce::sum};
  using Metrics = MetricList<loss, most, val, end>;
  Tensor p = Tensor::parameter(2.0);
  std::string heard = {};
  std::vector<double> stepped = {}, losses = {}, at_epoch_end = {};
  bool alone = false, freezes = false;

  static double mean(Rows const& rows) {
    double all = 0;
    for (double const x : rows) all += x;
    return all / static_cast<double>(rows.size());
  }
  Tensor training_step(Rows const& rows, auto& ctx) {
    heard += 't';
    ctx.log(most, 100.0 - ctx.rank());  // before the stages, so by all ranks
    if (ends_here) throw End{};
    auto made = p * Tensor(mean(rows));
    ctx.log(loss, made);
    return made;
  }
  double validation_step(Rows const& rows, auto& ctx) {
    if (ends_here) throw End{};
    ctx.log(val, mean(rows));
    return 7.0;
  }
  void on_train_batch_start(auto& ctx) {
    if (freezes && ctx.global_step() == ctx.rank()) p.set_requires_grad(ctx.rank() == 0);
  }
  void on_before_zero_grad() { heard += 'z'; }
  void on_before_backward() { heard += 'b'; }
  void on_after_backward() { heard += 'a'; }
  void on_before_optimizer_step() {
    heard += 's';
    stepped.push_back(p.grad());
  }
  void on_train_batch_end(auto const& outputs, auto const&, auto&) { losses.push_back(outputs.loss.value()); }
  void on_validation_batch_end(double outputs, Rows const&, auto&) { heard += outputs == 7.0 ? 'o' : '?'; }
  void on_validation_epoch_end(auto& ctx) {
    if (alone && ctx.rank() == 0) ctx.log(end, 1.0);
  }
  void on_train_epoch_end(auto& ctx) {
    at_epoch_end.push_back(ctx.value(loss).value_or(-1));
    at_epoch_end.push_back(ctx.value(most).value_or(-1));
    ctx.log(end, 1.5);
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.0}; }
};

struct Ran {
  Net model;
  std::vector<toy::Row> rows;
  std::optional<double> val, end;
};
auto ran(int world, int accumulate, bool alone = false) {
  toy::Meeting meeting(world);
  return toy::on_ranks(meeting, [&](toy::Rank rank) {
    Split strategy(meeting, rank.rank());
    strategy.meeting = &meeting;
    Net model;
    model.alone = alone;
    auto trainer = make_trainer<Net>({.max_epochs = 1, .num_sanity_val_steps = 0, .log_every_n_steps = 1}, strategy,
                                     Float32{}, Automatic{.accumulate_grad_batches = accumulate}, toy::Rows{});
    // Not shared out: the strategy's ranks take the same batches.
    std::vector<Rows> batches{{1, 3, 5, 7}, {2, 2, 4, 4}, {1, 1, 3, 3}}, validation{{4, 6}};
    trainer.fit(model, batches, validation);
    return Ran{model, trainer.template callback<toy::Rows>().rows, trainer.value(Net::val), trainer.value(Net::end)};
  });
}

}  // namespace

TEST_CASE("split steps: gradients are cleared, then all micro batches, then one end; backward where the loss is") {
  auto const all = ran(2, 1);
  for (auto const& one : all) REQUIRE(one.error == "");
  CHECK(all[0].result->model.heard == "zttaszttaszttas");
  CHECK(all[1].result->model.heard == "zttbbaszttbbaszttbbaso");
}

TEST_CASE("split steps: gradients and losses are means over micro batches and windows, of short ones, too") {
  auto const all = ran(2, 2);
  for (auto const& one : all) REQUIRE(one.error == "");
  CHECK(all[1].result->model.heard == "zttbbattbbaszttbbaso");
  CHECK(all[1].result->model.stepped == std::vector{(2.0 + 6 + 2 + 4) / 4, (1.0 + 3) / 2});
  for (auto const& one : all) CHECK(one.result->model.losses == std::vector{8.0 / 2, 6.0 / 2, 4.0});  // of their window
}

TEST_CASE("split steps: what the last rank logs is what all have, of an epoch and of rows; hooks count once") {
  auto const all = ran(2, 1);
  for (auto const& one : all) {
    REQUIRE(one.error == "");
    CHECK(one.result->model.at_epoch_end == std::vector{6.0, 99.0});
    CHECK(one.result->val == 5.0);
    CHECK(one.result->end == 1.5);
  }
  std::vector<double> steps;
  for (auto const& row : all[0].result->rows)
    for (auto const& [name, value] : row.cells)
      if (name == "loss_step") steps.push_back(value);
  CHECK(steps == std::vector{12.0, 8.0, 6.0});  // of the last micro batch
  CHECK(all[1].result->rows.empty());
}

TEST_CASE("split steps: what another rank than the last logs alone is refused, by all") {
  for (auto const& one : ran(2, 1, true)) CHECK(one.error.find("logged by another rank") != std::string::npos);
}

TEST_CASE("split steps: one rank is a pipeline of one") {
  auto const one = ran(1, 1);
  REQUIRE(one[0].error == "");
  CHECK(one[0].result->model.heard == "zttbbaszttbbaszttbbaso");
  CHECK(one[0].result->val == 5.0);
}

TEST_CASE(
    "split steps: a file has of each rank what hooks have frozen there, and rank 0's for another number of ranks") {
  auto const frozen = [](int world, int epochs, std::optional<CkptPath> const& from, std::optional<long> steps = {}) {
    toy::Meeting meeting(world);
    auto const all = toy::on_ranks(meeting, [&](toy::Rank rank) {
      Split strategy(meeting, rank.rank());
      strategy.meeting = &meeting;
      Net model;
      model.freezes = !from;
      auto trainer = make_trainer<Net>({.max_epochs = epochs, .max_steps = steps, .num_sanity_val_steps = 0}, strategy,
                                       Float32{}, Automatic{});
      std::vector<Rows> batches{{1, 3, 5, 7}, {2, 2, 4, 4}, {1, 1, 3, 3}};
      trainer.fit(model, batches, NoValidation{}, from);
      trainer.save_checkpoint("split");
      return !model.p.requires_grad();
    });
    std::vector<bool> by_rank;
    for (auto const& one : all) {
      REQUIRE(one.error == "");
      by_rank.push_back(*one.result);
    }
    return by_rank;
  };
  CHECK(frozen(2, 1, {}) == std::vector{false, true});
  CHECK(frozen(2, 2, CkptPath{"split"}) == std::vector{false, true});
  CHECK(frozen(2, 2, CkptPath{"split"}) == std::vector{false, true});  // there is nothing left to train
  CHECK(frozen(1, 3, CkptPath{"split"}) == std::vector{false});
  CHECK(frozen(2, 2, {}, 2) == std::vector{false, true});  // the epoch is cut short, and goes on
  CHECK(frozen(2, 2, CkptPath{"split"}, 3) == std::vector{false, true});
}
