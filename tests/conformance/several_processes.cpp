// Section 11.14: several processes, here threads that reduce in the order of ranks.
#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include "observed.hpp"
#include "ranks.hpp"

using namespace fulgurite;
using toy::Rank;

namespace {

template <class Result>
void require_fine(std::vector<toy::RankResult<Result>> const& ranks) {
  for (auto const& one : ranks) REQUIRE(one.error == "");
}
auto numbers(int n) {
  std::vector<double> all;
  for (int i = 0; i != n; ++i) all.push_back(i);
  return all;
}

/// The gradient is the mean of the batch plus 1.
struct Sloped {
  static constexpr Metric<"val"> val{};
  using Metrics = MetricList<val>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  double lr = 0.5;
  std::vector<double> weights = {};
  std::vector<std::vector<double>> trained = {{}}, validated = {{}};
  toy::Tensor training_step(std::vector<double> const& rows) {
    double sum = 0;
    for (double const x : rows) sum += x, trained.back().push_back(x);
    return p * toy::Tensor(sum / static_cast<double>(rows.size()) + 1);
  }
  void on_train_batch_end() { weights.push_back(p.value()); }
  void validation_step(std::vector<double> const& rows, auto& ctx) {
    for (double const x : rows) validated.back().push_back(x);
    ctx.log(val, ctx.rank() == 0 ? 5.0 - ctx.current_epoch() : 5.0 + 4 * ctx.current_epoch());
  }
  void on_train_epoch_end() {
    trained.emplace_back();
    validated.emplace_back();
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = lr}; }
};

/// A rate is told by the loss, which falls on rank 0 and rises on the others.
struct Rated {
  double lr = 0.5;
  int rank = 0;
  toy::Tensor p = toy::Tensor::parameter(10.0);
  toy::Tensor training_step(std::vector<double> const&) { return p * p * toy::Tensor(rank == 0 ? 1.0 : 0.25); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = lr}; }
};

}  // namespace

TEST_CASE("C155 two ranks, K2: gradients are exchanged in stepping batches alone, weights are equal after each step") {
  toy::Meeting meeting(2);
  auto const all = toy::on_ranks(meeting, [](Rank rank) {
    Sloped model;
    auto trainer = make_trainer<Sloped>({.max_epochs = 2}, rank, Float32{}, Automatic{.accumulate_grad_batches = 2});
    trainer.fit(model, data::Loader{numbers(10), data::LoaderOptions{.batch_size = 1}}, NoValidation{});
    return model.weights;
  });
  require_fine(all);
  CHECK(meeting.count("gradients") == 2 * 3);
  CHECK(all[0].result == all[1].result);
  CHECK(all[0].result->at(1) == -0.5 * 2.5);  // the mean of 1, 3 and 2, 4
}

TEST_CASE("C156 the learning-rate finder: all ranks end with the same rate, found by the losses of all") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    Rated model;
    model.rank = rank.rank();
    auto trainer = make_trainer<Rated>({.max_epochs = 1}, rank, Float32{}, Automatic{}, LearningRateFinder<Rated>{});
    trainer.fit(model, data::Loader{numbers(240), data::LoaderOptions{.batch_size = 1}});
    return std::pair(model.lr, trainer.callback<LearningRateFinder>().results().loss);
  });
  require_fine(all);
  CHECK(all[0].result->first != 0.5);
  CHECK(all[0].result->first == all[1].result->first);
  CHECK(all[0].result->second == all[1].result->second);
}

TEST_CASE("C160 early stopping, decided by a value of which one rank has another: all ranks stop in the same batch") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    Sloped model;
    auto trainer = make_trainer<Sloped>({.max_epochs = 9, .num_sanity_val_steps = 0}, rank, Float32{}, Automatic{},
                                        EarlyStopping{Sloped::val, {.patience = 1}});
    data::Loader train{numbers(8), data::LoaderOptions{.batch_size = 1}};
    data::Loader val{numbers(2), data::LoaderOptions{.batch_size = 1}};
    trainer.fit(model, train, val);
    return trainer.progress().global_step;
  });
  require_fine(all);
  CHECK(all[0].result == 2 * 4);  // the mean is 5, then 6.5, though on rank 0 alone it falls
  CHECK(all[1].result == 2 * 4);
}

TEST_CASE("C161 the sharding sampler: training is shuffled anew in each epoch, evaluation is not, and sees each sample "
          "once, so that there is nothing to warn of") {
  auto const all = toy::on_ranks(2, [](Rank rank) {
    Sloped model;
    auto trainer = make_trainer<Sloped>({.max_epochs = 2, .num_sanity_val_steps = 0}, rank, Float32{}, Automatic{});
    data::Loader train{numbers(8), data::LoaderOptions{.batch_size = 2, .shuffle = true}};
    data::Loader val{numbers(5), data::LoaderOptions{.batch_size = 2}};
    trainer.fit(model, train, val);
    return std::tuple(model.trained, model.validated, trainer.warnings());
  });
  require_fine(all);
  auto const& [trained, validated, warnings] = *all[0].result;
  auto const& [other_trained, other_validated, other_warnings] = *all[1].result;
  CHECK(trained[0] != trained[1]);
  for (std::size_t epoch : {0U, 1U}) {
    CHECK(validated[epoch] == std::vector<double>{0, 2, 4});
    CHECK(other_validated[epoch] == std::vector<double>{1, 3});
    auto both = trained[epoch];
    both.insert(both.end(), other_trained[epoch].begin(), other_trained[epoch].end());
    std::sort(both.begin(), both.end());
    CHECK(both == numbers(8));
  }
  CHECK(warnings.empty());
}
