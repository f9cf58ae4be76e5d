#include <fulgurite/callback/lambda_callback.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>

#include "callback_run.hpp"
#include "ranks.hpp"

using namespace fulgurite;
using Words = std::vector<std::string>;

namespace {
/// Batches of several samples; predicts their sum.
struct Summing {
  double predict_step(std::vector<double>& batch) {
    double sum = 0;
    for (double const value : batch) sum += value;
    return sum;
  }
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(std::vector<double>&) { return -p; }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
using Batches = std::vector<std::vector<double>>;
struct Loaders {
  std::tuple<Batches, Batches> predict_dataloader() { return {Batches(2, {1, 1}), Batches(1, {5, 5})}; }
};

std::string text(BatchIndices const& indices) {
  std::string all;
  for (long const index : indices) all += std::to_string(index) + ",";
  return all;
}
struct ByBatch {
  Words* seen;
  void write_on_batch_end(double const& prediction, BatchIndices const& indices, std::vector<double>& batch,
                          auto& ctx) {
    seen->push_back(std::to_string(int(prediction)) + " of " + text(indices) + " size " + std::to_string(batch.size()) +
                    " at " + std::to_string(ctx.loader()) + "." + std::to_string(ctx.batch_idx()));
  }
};
struct ByEpoch {
  Words* seen;
  void write_on_epoch_end(std::vector<std::vector<double>> const& predictions,
                          std::vector<std::vector<BatchIndices>> const& indices, auto&) {
    for (std::size_t l = 0; l != predictions.size(); ++l)
      for (std::size_t b = 0; b != predictions[l].size(); ++b)
        seen->push_back(std::to_string(l) + "." + std::to_string(b) + "=" + std::to_string(int(predictions[l][b])) +
                        " of " + text(indices[l][b]));
  }
};
struct Both : ByBatch, ByEpoch {
  explicit Both(Words* seen) : ByBatch{seen}, ByEpoch{seen} {}
};

template <class Writer>
Words written(Writer writer, Words& seen, int times = 1) {
  Summing model;
  auto trainer = make_trainer<Summing>(TrainerOptions{.max_epochs = 1}, SavingDevice{}, Float32{}, Automatic{},
                                       PredictionWriter{std::move(writer)});
  for (int i = 0; i != times; ++i) trainer.predict(model, Loaders{});
  return seen;
}
Words const by_batch{"2 of 0,1, size 2 at 0.0", "2 of 2,3, size 2 at 0.1", "10 of 0,1, size 2 at 1.0"};
Words const by_epoch{"0.0=2 of 0,1,", "0.1=2 of 2,3,", "1.0=10 of 0,1,"};
}  // namespace

TEST_CASE("prediction writer: batch by batch, with the samples' positions in their loader") {
  Words seen;
  CHECK(written(ByBatch{&seen}, seen) == by_batch);
}

TEST_CASE("predict(model) takes the model's own loaders") {
  struct Own : Summing, Loaders {};
  Own model;
  auto trainer = make_trainer<Own>(TrainerOptions{.max_epochs = 1}, SavingDevice{}, Float32{}, Automatic{});
  CHECK(trainer.predict(model) == std::vector<std::vector<double>>{{2, 2}, {10}});
}

TEST_CASE("prediction writer: all at the end, as [loader][batch]; each run has its own") {
  Words seen;
  auto twice = by_epoch;
  twice.insert(twice.end(), by_epoch.begin(), by_epoch.end());
  CHECK(written(ByEpoch{&seen}, seen, 2) == twice);
}

TEST_CASE("prediction writer: one that has both is called at both") {
  Words seen;
  auto both = by_batch;
  both.insert(both.end(), by_epoch.begin(), by_epoch.end());
  CHECK(written(Both{&seen}, seen) == both);
}

TEST_CASE("prediction writer: batches that are none have no samples; positions begin anew in each loader") {
  using Some = std::vector<std::optional<std::vector<double>>>;
  Words seen;
  Summing model;
  std::tuple<Some, Some> loaders{{std::nullopt, {{1, 1}}, {{2}}}, {std::nullopt, {{5, 5}}}};
  make_trainer<Summing>(TrainerOptions{.max_epochs = 1}, SavingDevice{}, Float32{}, Automatic{},
                        PredictionWriter{ByBatch{&seen}})
      .predict(model, loaders);
  CHECK(seen == Words{"2 of 0,1, size 2 at 0.1", "2 of 2, size 1 at 0.2", "10 of 0,1, size 2 at 1.1"});
}

namespace {
/// How many predictions each loader had, and its name.
struct Sizes {
  std::vector<std::size_t> seen = {};
  Words names = {};
  void write_on_epoch_end(std::vector<std::vector<double>> const& predictions,
                          std::vector<std::vector<BatchIndices>> const& indices, auto& ctx) {
    for (auto const& of_loader : predictions) seen.push_back(of_loader.size());
    CHECK(indices.size() == predictions.size());
    names = ctx.loader_names();
  }
};
}  // namespace

TEST_CASE("prediction writer: at the end there is a list for each loader, also for those that had no prediction") {
  using Some = std::vector<std::optional<std::vector<double>>>;
  Summing model;
  auto trainer = make_trainer<Summing>(TrainerOptions{.max_epochs = 1}, SavingDevice{}, Float32{}, Automatic{},
                                       PredictionWriter{Sizes{}});
  trainer.predict(model, std::tuple(Some(1), Some{{{1, 1}}, {{2}}}, Some(2)));
  auto const& writer = trainer.template callback<PredictionWriter<Sizes>>().writer();
  CHECK(writer.seen == std::vector<std::size_t>{0, 2, 0});
  CHECK(writer.names == Words{"dataloader_idx_0", "dataloader_idx_1", "dataloader_idx_2"});
}

namespace {
/// What each sample is, and at which index it was written.
struct Pairs {
  std::vector<std::pair<long, double>> seen = {};
  void write_on_batch_end(double const&, BatchIndices const& indices, std::vector<double>& batch, auto&) {
    for (std::size_t i = 0; i != batch.size(); ++i) seen.emplace_back(indices.at(i), batch[i]);
  }
};
template <class Strategy, class... Loaders>
auto pairs(Strategy strategy, bool shares_out, Loaders... loaders) {
  Summing model;
  auto trainer = make_trainer<Summing>(TrainerOptions{.max_epochs = 1, .use_distributed_sampler = shares_out}, strategy,
                                       Float32{}, Automatic{}, PredictionWriter{Pairs{}});
  trainer.predict(model, std::tuple(std::move(loaders)...), DiscardPredictions{});
  return trainer.template callback<PredictionWriter<Pairs>>().writer().seen;
}
auto samples(int count) {
  std::vector<double> all;
  for (int i = 0; i != count; ++i) all.push_back(i);
  return data::Loader{all, data::LoaderOptions{.batch_size = 2}};
}
}  // namespace

TEST_CASE("ranks: the indices of a prediction writer are those of the whole loader, of any number of ranks") {
  using Seen = std::vector<std::pair<long, double>>;
  auto const one = pairs(toy::Device{}, true, samples(7), samples(4));
  REQUIRE(one.size() == 11);
  for (auto const& [index, sample] : one) CHECK(double(index) == sample);
  for (int const world : {2, 3, 5}) {
    Seen all;
    for (auto const& rank : toy::on_ranks(
             world, [](toy::Rank rank) { return pairs(rank, true, data::named<"seven">(samples(7)), samples(4)); })) {
      REQUIRE(rank.error == "");
      all.insert(all.end(), rank.result->begin(), rank.result->end());
    }
    CHECK(all.size() == 11);
    for (auto const& [index, sample] : all) CHECK(double(index) == sample);
  }
}

TEST_CASE("ranks: a prediction writer counts by itself where each rank has a loader of its own") {
  for (auto const& rank : toy::on_ranks(2, [](toy::Rank rank) { return pairs(rank, false, samples(5)); })) {
    REQUIRE(rank.error == "");
    CHECK(rank.result->size() == 5);
    for (auto const& [index, sample] : *rank.result) CHECK(double(index) == sample);
  }
  for (auto const& rank :
       toy::on_ranks(2, [](toy::Rank rank) { return pairs(rank, true, data::of_this_rank(samples(3))); })) {
    REQUIRE(rank.error == "");
    CHECK(rank.result->size() == 3);
    for (auto const& [index, sample] : *rank.result) CHECK(double(index) == sample);
  }
}
