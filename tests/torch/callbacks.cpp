// Callbacks that change a model's weights or parameters, on LibTorch.

#include "fixtures.hpp"

#include <filesystem>
#include <vector>

#include <unistd.h>

#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;

namespace {

/// A net with a batch norm, trained by plain gradient descent.
struct Normed : fixtures::Net {
  double lr = 0.1;
  std::vector<torch::Tensor> validated = {};
  torch::Tensor loss(data::Batch const& batch) { return torch::mse_loss(forward(batch.data), batch.target); }
  torch::Tensor training_step(auto const& batch) { return loss(batch); }
  void validation_step(auto const&) { validated.push_back(in->weight.detach().clone()); }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), lr); }
};

Normed fresh() {
  torch::manual_seed(3);
  return Normed{};
}

std::vector<data::Batch> batches(int n, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) all.push_back({torch::randn({8, 4}, generator), torch::randn({8, 1}, generator)});
  return all;
}

/// The loop one would write; `after(model)` at the end of each step.
template <class F>
void by_hand(Normed& model, std::vector<data::Batch> const& train, int epochs, F&& after) {
  torch::optim::SGD sgd(model.parameters(), model.lr);
  for (int epoch = 0; epoch != epochs; ++epoch)
    for (auto const& batch : train) {
      sgd.zero_grad();
      model.loss(batch).backward();
      sgd.step();
      torch::NoGradGuard const no_graph;
      after(model);
    }
}

/// Parameters, then buffers with fractions.
std::vector<torch::Tensor> averaged(Normed& model) {
  auto all = model.parameters();
  for (auto const& buffer : model.buffers())
    if (buffer.is_floating_point()) all.push_back(buffer);
  return all;
}
std::vector<torch::Tensor> copies(std::vector<torch::Tensor> const& of) {
  std::vector<torch::Tensor> all;
  for (auto const& tensor : of) all.push_back(tensor.detach().clone());
  return all;
}
void require_same(std::vector<torch::Tensor> const& left, std::vector<torch::Tensor> const& right) {
  REQUIRE(left.size() == right.size());
  for (std::size_t i = 0; i != left.size(); ++i) {
    INFO(i);
    REQUIRE(fixtures::same_bits(left[i], right[i]));
  }
}

template <class... Cs>
auto trainer_of(int epochs, Cs... callbacks) {
  return make_trainer<Normed>(TrainerOptions{.max_epochs = epochs, .num_sanity_val_steps = 0, .log_every_n_steps = 0}, SingleDevice{cpu},
                              Float32{}, Automatic{}, std::move(callbacks)...);
}

struct SavesAtEnd {
  using Stateless = ByChoice;
  std::filesystem::path file;
  void on_train_end(auto& ctx) { ctx.request_checkpoint(file); }
};

}  // namespace

TEST_CASE("EMA after 20 steps equals torch by hand, bit for bit, running statistics too; a count of batches is the model's own") {
  auto const train = batches(5, 1);
  auto hand = fresh();
  std::vector<torch::Tensor> average;
  by_hand(hand, train, 4, [&](Normed& model) {
    auto const live = averaged(model);
    if (average.empty()) average = copies(live);
    else
      for (std::size_t i = 0; i != live.size(); ++i) average[i].lerp_(live[i], 1 - 0.9);
  });

  auto model = fresh();
  auto const* address = model.in->weight.data_ptr();
  auto trainer = trainer_of(4, EMAWeightAveraging{{.decay = 0.9}});
  trainer.fit(model, train, batches(1, 2));
  require_same(averaged(model), average);
  REQUIRE(model.norm->num_batches_tracked.item<std::int64_t>() == 20);
  REQUIRE(model.in->weight.data_ptr() == address);
  REQUIRE(model.in->weight.requires_grad());
  REQUIRE(fixtures::same_bits(model.validated.back(), average[0]));
  REQUIRE(trainer.callback<EMAWeightAveraging>().n_averaged() == 20);
}

TEST_CASE("the running mean without buffers; with an averaging function on tensors") {
  auto const train = batches(3, 1);
  auto hand = fresh();
  std::vector<torch::Tensor> mean, largest;
  long steps = 0;
  by_hand(hand, train, 1, [&](Normed& model) {
    auto const live = model.parameters();
    if (steps++ == 0) mean = copies(live), largest = copies(live);
    else
      for (std::size_t i = 0; i != live.size(); ++i) {
        mean[i].lerp_(live[i], 1.0 / double(steps));
        largest[i] = torch::max(largest[i], live[i]);
      }
  });
  auto model = fresh();
  trainer_of(1, WeightAveraging{RunningMean{}, EachStep{}, {.use_buffers = false}}).fit(model, train, batches(1, 2));
  require_same(model.parameters(), mean);
  require_same(model.buffers(), hand.buffers());

  auto other = fresh();
  auto const larger = [](torch::Tensor const& average, torch::Tensor const& weight, long) { return torch::max(average, weight); };
  trainer_of(1, WeightAveraging{larger}).fit(other, train, batches(1, 2));
  require_same(other.parameters(), largest);
}

TEST_CASE("a file holds the average, and training goes on from it with the weights that were in training, bit for bit") {
  auto const file = std::filesystem::temp_directory_path() / ("fulgurite-ema-" + std::to_string(::getpid()) + ".safetensors");
  auto const train = batches(5, 1), val = batches(1, 2);
  auto whole = fresh();
  trainer_of(4, EMAWeightAveraging{{.decay = 0.9}}).fit(whole, train, val);

  auto half = fresh();
  trainer_of(2, EMAWeightAveraging{{.decay = 0.9}}, SavesAtEnd{file}).fit(half, train, val);
  auto resumed = fresh();
  load_weights(resumed, file);
  require_same(resumed.parameters(), half.parameters());
  EMAWeightAveraging callback{{.decay = 0.9}};
  auto const state = run_state(SafetensorsFile(file));
  std::filesystem::remove(file);
  StateLoader loader(*state.find("callback.0"));
  callback.state(loader);
  trainer_of(2, callback).fit(resumed, train, val);
  require_same(resumed.parameters(), whole.parameters());
  require_same(resumed.buffers(), whole.buffers());
}

TEST_CASE("an average of another shape is refused") {
  auto const narrow = LibTorch::saved(torch::ones({2}));
  auto wide = torch::zeros({2, 1});
  try {
    LibTorch::restore(wide, narrow);
    FAIL("it was taken");
  } catch (Error const& error) {
    REQUIRE(error.identifier() == "fulgurite.callback.average_mismatch");
  }
  auto fits = torch::zeros({2});
  LibTorch::restore(fits, narrow);
  REQUIRE(fixtures::same_bits(fits, torch::ones({2})));
}

TEST_CASE("C115 SWA on LibTorch: the mean of the last epochs' weights") {
  auto const train = batches(4, 1);
  auto hand = fresh();
  std::vector<torch::Tensor> average;
  long steps = 0;
  by_hand(hand, train, 6, [&](Normed& model) {
    if (++steps % 4 != 0 || steps <= 12) return;
    auto const live = model.parameters();
    if (average.empty()) average = copies(live);
    else
      for (std::size_t i = 0; i != live.size(); ++i) average[i].lerp_(live[i], 1.0 / double(steps / 4 - 3));
  });
  auto model = fresh();
  auto trainer = trainer_of(6, StochasticWeightAveraging{{.swa_lrs = 0.1}});
  trainer.fit(model, train, batches(1, 2));
  require_same(model.parameters(), average);
  REQUIRE(trainer.progress().global_step == 24);
  REQUIRE(model.norm->options.momentum() == 0.1);
}

TEST_CASE("C115 SWA on LibTorch: statistics of the batch norm are those of the average over the training data", "[.before_statistics_pass]") {
  auto const train = batches(4, 1);
  auto model = fresh();
  trainer_of(6, StochasticWeightAveraging{{.swa_lrs = 0.1}}).fit(model, train, batches(1, 2));
  torch::NoGradGuard const no_graph;
  auto mean = torch::zeros({3}), variance = torch::zeros({3});
  for (auto const& batch : train) {
    auto const hidden = model.in->forward(batch.data);
    mean += hidden.mean(0) / 4;
    variance += hidden.var(0) / 4;
  }
  REQUIRE(torch::allclose(model.norm->running_mean, mean, 1e-5, 1e-6));
  REQUIRE(torch::allclose(model.norm->running_var, variance, 1e-5, 1e-6));
  REQUIRE(model.norm->num_batches_tracked.item<std::int64_t>() == 4);
}

TEST_CASE("reset_batch_norm: the mean of all that is seen while it lives; momenta return; a norm that tracks nothing is none") {
  auto model = fresh();
  REQUIRE(LibTorch::has_batch_norm(model));
  auto const train = batches(3, 1);
  torch::NoGradGuard const no_graph;
  model.forward(batches(1, 7)[0].data);
  {
    auto const scope = LibTorch::reset_batch_norm(model);
    for (auto const& batch : train) model.forward(batch.data);
  }
  auto mean = torch::zeros({3});
  for (auto const& batch : train) mean += model.in->forward(batch.data).mean(0) / 3;
  REQUIRE(torch::allclose(model.norm->running_mean, mean, 1e-5, 1e-6));
  REQUIRE(model.norm->options.momentum() == 0.1);

  torch::nn::Sequential plain(torch::nn::Linear(2, 2), torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(2).track_running_stats(false)));
  REQUIRE_FALSE(LibTorch::has_batch_norm(*plain));
  REQUIRE(LibTorch::buffers(*plain).empty());
}
