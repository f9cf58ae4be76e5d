// Callbacks that change a model's weights or parameters, on LibTorch.

#include "fixtures.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/model_pruning.hpp>
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

/// One layer under two names.
struct Tied : torch::nn::Module {
  torch::nn::Linear one = register_module("one", torch::nn::Linear(4, 4));
  torch::nn::Linear same = register_module("same", one);
  std::vector<torch::Tensor> seen = {};
  torch::Tensor training_step(auto const& batch) {
    seen.push_back(one->weight.detach().clone());
    return same->forward(one->forward(batch.data)).square().mean();
  }
  void validation_step(auto const&) {}
  auto configure_optimizers() { return torch::optim::SGD(one->parameters(), 0.1); }
};

/// Two batch norms, one after the other.
struct TwoNorms : torch::nn::Module {
  torch::nn::BatchNorm1d frozen = register_module("frozen", torch::nn::BatchNorm1d(4));
  torch::nn::BatchNorm1d live = register_module("live", torch::nn::BatchNorm1d(4));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(4, 1));
  long steps = 0;
  torch::Tensor training_step(auto const& batch) {
    ++steps;
    return torch::mse_loss(head->forward(live->forward(frozen->forward(batch.data))), batch.target);
  }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};

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
  return make_trainer<Normed>(TrainerOptions{.max_epochs = epochs, .num_sanity_val_steps = 0, .log_every_n_steps = 0},
                              SingleDevice{cpu}, Float32{}, Automatic{}, std::move(callbacks)..., NoDefaults{});
}

struct SavesAtEnd {
  using Stateless = ByChoice;
  std::filesystem::path file;
  void on_train_end(auto& ctx) { ctx.request_checkpoint(file); }
};

}  // namespace

TEST_CASE("EMA after 20 steps equals torch by hand, bit for bit, running statistics too; a count of batches is the "
          "model's own") {
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
  auto const larger = [](torch::Tensor const& average, torch::Tensor const& weight, long) {
    return torch::max(average, weight);
  };
  trainer_of(1, WeightAveraging{larger}).fit(other, train, batches(1, 2));
  require_same(other.parameters(), largest);
}

TEST_CASE("weights that are registered twice are averaged once, and given back after a validation") {
  auto const train = batches(3, 1);
  auto const tied = [&](auto... callbacks) {
    torch::manual_seed(3);
    Tied model;
    make_trainer<Tied>(TrainerOptions{.max_epochs = 2, .num_sanity_val_steps = 0, .log_every_n_steps = 0},
                       SingleDevice{cpu}, Float32{}, Automatic{}, callbacks..., NoDefaults{})
        .fit(model, train, batches(1, 2));
    return model.seen;
  };
  require_same(tied(WeightAveraging{}), tied());
}

TEST_CASE(
    "a file holds the average, and training goes on from it with the weights that were in training, bit for bit") {
  auto const file =
      std::filesystem::temp_directory_path() / ("fulgurite-ema-" + std::to_string(::getpid()) + ".safetensors");
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
  StateLoader loader(*state.find("callbacks")->find("EMAWeightAveraging"));
  callback.state(loader);
  trainer_of(2, callback).fit(resumed, train, val);
  require_same(resumed.parameters(), whole.parameters());
  require_same(resumed.buffers(), whole.buffers());
}

namespace {
/// One matrix of 25 million weights, of which the loss knows four rows.
struct Wide : torch::nn::Module {
  torch::Tensor w = register_parameter("w", torch::zeros({5000, 5000}));
  torch::Tensor training_step(auto const& batch) { return (w.slice(0, 0, 4) * batch.data.mean()).sum(); }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};
}  // namespace

TEST_CASE("an average and a lottery ticket of 25 million weights: the file is three times the weights; a stranger "
          "reads it") {
  auto const path =
      std::filesystem::temp_directory_path() / ("fulgurite-wide-" + std::to_string(::getpid()) + ".safetensors");
  Wide model;
  auto trainer =
      make_trainer<Wide>(TrainerOptions{.max_epochs = 1, .log_every_n_steps = 0}, SingleDevice{cpu}, Float32{},
                         Automatic{}, EMAWeightAveraging{{.decay = 0.5}},
                         ModelPruning{{.amount = 0.5, .parameter_names = {"w"}}}, SavesAtEnd{path}, NoDefaults{});
  trainer.fit(model, batches(3, 1));
  auto const size = static_cast<double>(model.w.nbytes());
  auto const all = static_cast<double>(std::filesystem::file_size(path));
  CHECK(all > 3 * size);                       // weights, their average, the initial ones, and a bit each for the mask
  CHECK(all < (3 + 1.0 / 32) * size + 32768);  // the rest of the run's state, generators included

  // The format in a few lines, by nobody's reader: eight bytes of length, JSON, the bytes of the tensors.
  std::ifstream in(path, std::ios::binary);
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), 8);
  CHECK(length < 8192);
  std::string header(length, '\0');
  in.read(header.data(), static_cast<std::streamsize>(length));
  auto const tensor = [&](std::string const& name) {
    auto const at = header.find("\"" + name + R"(":{"dtype":"F32","shape":[5000,5000],"data_offsets":[)");
    INFO(header);
    REQUIRE(at != std::string::npos);
    auto const from = header.find("data_offsets\":[", at) + 15;
    auto value = torch::empty({5000, 5000});
    in.seekg(static_cast<std::streamoff>(8 + length + std::stoull(header.substr(from))));
    in.read(static_cast<char*>(value.data_ptr()), static_cast<std::streamsize>(value.nbytes()));
    return value;
  };
  auto const initial = tensor("fulgurite:callbacks.ModelPruning.masks[0].initial");
  CHECK(fixtures::same_bits(initial, torch::zeros({5000, 5000})));
  auto const in_training = tensor("fulgurite:callbacks.EMAWeightAveraging.weights.values[0]"), average = tensor("w");

  // And by ours.
  Wide loaded;
  load_weights(loaded, path);
  CHECK(fixtures::same_bits(loaded.w.detach(), average));
  auto const state = run_state(SafetensorsFile(path));
  std::filesystem::remove(path);
  auto read = torch::empty({5000, 5000});
  auto const* values = state.find("callbacks")->find("EMAWeightAveraging")->find("weights")->find("values");
  LibTorch::restore(read, std::get<ArchiveTensor>(std::get<ArchiveNode::List>(values->value).at(0).value).tensor);
  CHECK(fixtures::same_bits(read, in_training));
  CHECK_FALSE(fixtures::same_bits(read, average));
  EMAWeightAveraging callback{{.decay = 0.5}};
  load_state(*state.find("callbacks")->find("EMAWeightAveraging"), [&](auto& archive) { callback.state(archive); });
}

TEST_CASE("SWA of 25 million weights: the file is twice the weights, and the average is no text") {
  auto const path =
      std::filesystem::temp_directory_path() / ("fulgurite-swa-" + std::to_string(::getpid()) + ".safetensors");
  Wide model;
  make_trainer<Wide>(TrainerOptions{.max_epochs = 2, .log_every_n_steps = 0}, SingleDevice{cpu}, Float32{}, Automatic{},
                     StochasticWeightAveraging{{.swa_lrs = 0.1, .swa_epoch_start = 1}}, SavesAtEnd{path}, NoDefaults{})
      .fit(model, batches(1, 1));
  auto const size = static_cast<double>(model.w.nbytes());
  auto const all = static_cast<double>(std::filesystem::file_size(path));
  std::filesystem::remove(path);
  CHECK(all > 2 * size);
  CHECK(all < 2 * size + 32768);
}

TEST_CASE("tensors of LibTorch in a state: kept in place, made where there is none, refused where they do not fit") {
  auto const types = {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16, torch::kLong,
                      torch::kInt,    torch::kShort, torch::kChar, torch::kByte,     torch::kBool};
  for (auto const type : types) {
    CAPTURE(type);
    auto const from = torch::arange(6).reshape({2, 3}).to(type).t();  // not contiguous
    ArchiveNode tree;
    StateSaver saver(tree);
    at::Tensor nothing, made, there = torch::zeros({3, 2}, type), old = torch::ones(1);
    saver.tensor("t", from).tensor("none", nothing);
    auto const text = from_text(to_text(tree));
    StateLoader loader(text);
    auto const* memory = there.data_ptr();
    loader.tensor("t", made).tensor("t", there).tensor("none", old);
    CHECK(torch::equal(made, from));
    CHECK(made.scalar_type() == type);
    CHECK(torch::equal(there, from));
    CHECK(there.data_ptr() == memory);
    CHECK_FALSE(old.defined());
    auto wrong = torch::ones({2, 3}, type);
    CHECK_THROWS_WITH(loader.tensor("t", wrong),
                      Catch::Matchers::StartsWith("[fulgurite.checkpoint.state_entry] 't' is a tensor "));
    CHECK(torch::equal(wrong, torch::ones({2, 3}, type)));
  }
}

TEST_CASE("an average of another shape is refused") {
  auto const narrow = LibTorch::saved(torch::ones({2}));
  auto wide = torch::zeros({2, 1});
  try {
    LibTorch::restore(wide, narrow);
    FAIL("it was taken");
  } catch (Error const& error) { REQUIRE(error.identifier() == "fulgurite.callback.average_mismatch"); }
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

TEST_CASE("C115 SWA on LibTorch: statistics of the batch norm are those of the average over the training data") {
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

TEST_CASE("reset_batch_norm: the mean of all that is seen while it lives; momenta return; a norm that tracks nothing "
          "is none") {
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

  torch::nn::BatchNorm1d const shared(3);
  torch::nn::Sequential twice(shared, torch::nn::ReLU(), shared);
  { auto const scope = LibTorch::reset_batch_norm(*twice); }
  REQUIRE(shared->options.momentum() == 0.1);

  torch::nn::Sequential plain(torch::nn::Linear(2, 2),
                              torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(2).track_running_stats(false)));
  REQUIRE_FALSE(LibTorch::has_batch_norm(*plain));
  REQUIRE(LibTorch::buffers(*plain).empty());
}

// Freezing, pruning, norms of gradients.

namespace {

/// A backbone with a batch norm, and a head.
struct TwoParts : torch::nn::Module {
  torch::nn::Sequential backbone = register_module(
      "backbone", torch::nn::Sequential(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3), torch::nn::ReLU()));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(3, 1));
  std::vector<std::vector<double>> rates = {};
  std::vector<bool> thawed = {};
  std::vector<torch::Tensor> first = {};

  torch::Tensor training_step(auto const& batch) {
    return torch::mse_loss(head->forward(backbone->forward(batch.data)), batch.target);
  }
  void on_train_batch_start(auto& ctx) {
    if (ctx.batch_idx() != 0) return;
    auto& optimizer = ctx.optimizer();
    auto& now = rates.emplace_back();
    for (std::size_t g = 0; g != optimizer.groups(); ++g) now.push_back(optimizer.lr(g));
    thawed.push_back(backbone[0]->as<torch::nn::Linear>()->weight.requires_grad());
    first.push_back(backbone[0]->as<torch::nn::Linear>()->weight.detach().clone());
  }
  // What is trainable now: the head, and the backbone's batch norm where it is not frozen, too.
  auto configure_optimizers() {
    return torch::optim::SGD(filter_params(*this), torch::optim::SGDOptions(0.1).momentum(0.5));
  }
};

template <class M, class... Cs>
auto trainer_for(int epochs, Automatic how, Cs... callbacks) {
  return make_trainer<M>(TrainerOptions{.max_epochs = epochs, .num_sanity_val_steps = 0, .log_every_n_steps = 1},
                         SingleDevice{cpu}, Float32{}, how, std::move(callbacks)..., NoDefaults{});
}

/// How many weights are zero at each epoch's start, and after each step.
struct Zeros {
  using Stateless = ByChoice;
  std::vector<long> before = {}, after = {};
  static long zeros(auto& model) {
    return ((model.in->weight == 0).sum() + (model.out->weight == 0).sum()).template item<long>();
  }
  void on_train_epoch_start(auto& ctx) { before.push_back(zeros(ctx.model())); }
  void on_train_batch_end(auto& ctx) { after.push_back(zeros(ctx.model())); }
};

struct SeenRows {
  using Stateless = ByChoice;
  std::vector<std::pair<std::string, double>> cells = {};
  void log_metrics(std::span<Scalar const> row, long) {
    for (auto const& cell : row)
      if (cell.name.starts_with("grad_")) cells.emplace_back(cell.name, cell.value);
  }
};

}  // namespace

TEST_CASE("SWA on LibTorch: a batch norm in eval mode keeps its statistics; without another one no pass is made") {
  auto const run = [](bool freeze_all) {
    TwoNorms model;
    model.frozen->running_mean.fill_(3.0);
    model.frozen->running_var.fill_(4.0);
    model.frozen->eval();
    if (freeze_all) model.live->eval();
    trainer_for<TwoNorms>(2, {}, StochasticWeightAveraging{{.swa_lrs = 0.1, .swa_epoch_start = 1}})
        .fit(model, batches(3, 1));
    return model;
  };
  auto const one = run(false);
  REQUIRE(fixtures::same_bits(one.frozen->running_mean, torch::full({4}, 3.0)));
  REQUIRE(fixtures::same_bits(one.frozen->running_var, torch::full({4}, 4.0)));
  REQUIRE(one.live->num_batches_tracked.item<std::int64_t>() == 3);
  REQUIRE(one.steps == 6 + 3);
  auto const none = run(true);
  REQUIRE(none.steps == 6);
  REQUIRE(none.live->num_batches_tracked.item<std::int64_t>() == 0);
}

TEST_CASE("C118 on LibTorch: the backbone stands still until its epoch, then trains in a group of its own") {
  torch::manual_seed(3);
  TwoParts model;
  auto trainer = trainer_for<TwoParts>(5, Automatic{}, BackboneFinetuning{{.unfreeze_backbone_at_epoch = 2}});
  trainer.fit(model, batches(3, 1));
  REQUIRE(model.thawed == std::vector<bool>{false, false, true, true, true});
  REQUIRE(model.rates.size() == 5);
  for (std::size_t e = 0; e != 5; ++e) {
    auto const expected = e < 2 ? std::vector{0.1} : std::vector{0.1, 0.01 * double(1 << (e - 2))};
    REQUIRE(model.rates[e].size() == expected.size());
    for (std::size_t g = 0; g != expected.size(); ++g) REQUIRE(std::abs(model.rates[e][g] - expected[g]) < 1e-12);
  }
  REQUIRE(fixtures::same_bits(model.first[0], model.first[2]));
  REQUIRE_FALSE(fixtures::same_bits(model.first[2], model.first[3]));
  auto const& added = trainer.callback<BackboneFinetuning>().added_groups();
  REQUIRE(added.size() == 1);
  REQUIRE(added[0].parameters == std::vector<std::string>{"backbone.0.weight", "backbone.0.bias"});
}

TEST_CASE(
    "freeze leaves batch norms trainable, or lets them stand still, statistics and all; make_trainable undoes both") {
  TwoParts model;
  auto norm = std::dynamic_pointer_cast<torch::nn::BatchNorm1dImpl>(model.backbone->ptr(1));
  freeze(model.backbone);
  REQUIRE(filter_params(model.backbone).size() == 2);
  REQUIRE(filter_params(model.backbone, false).size() == 2);
  REQUIRE((norm->weight.requires_grad() && norm->is_training()));
  freeze(model.backbone, false);
  REQUIRE(filter_params(model.backbone).empty());
  REQUIRE(filter_params(model).size() == 2);
  auto const mean = norm->running_mean.clone();
  model.backbone->forward(torch::randn({8, 4}));
  REQUIRE(fixtures::same_bits(norm->running_mean, mean));
  make_trainable(model.backbone);
  REQUIRE(filter_params(model.backbone, false).empty());
  model.backbone->forward(torch::randn({8, 4}));
  REQUIRE_FALSE(fixtures::same_bits(norm->running_mean, mean));

  torch::optim::SGD raw(model.head->parameters(), 0.4);
  auto sgd = LibTorch::adopt(std::move(raw));
  freeze(*model.backbone);
  unfreeze(*model.backbone);
  REQUIRE(filter_params(model.backbone, false).empty());
  freeze(*model.backbone, false);
  REQUIRE(unfreeze_and_add_param_group(model.backbone, sgd, {.train_bn = false}) == 2);
  REQUIRE(sgd.lr(1) == 0.04);
  REQUIRE_FALSE(norm->weight.requires_grad());
  REQUIRE(unfreeze_and_add_param_group(model.backbone, sgd, {.lr = 0.5}) == 2);  // the batch norm
  REQUIRE(unfreeze_and_add_param_group(model.backbone, sgd) == 0);
  REQUIRE((sgd.groups() == 3 && sgd.lr(2) == 0.5));
}

TEST_CASE("an added group steps as one that was there from the start: each optimizer, with the first group's options") {
  auto const check = [](auto make, auto apart) {
    auto const two = [] {
      return std::vector{torch::ones({3}).requires_grad_(), torch::full({3}, 2.0).requires_grad_()};
    };
    auto whole = two(), later = two();
    auto expected = LibTorch::adopt(apart(whole));
    auto optimizer = LibTorch::adopt(make(std::vector{later[0]}));
    optimizer.add_group({later[1]}, 0.05);
    REQUIRE((optimizer.groups() == 2 && optimizer.lr(0) == 0.1 && optimizer.lr(1) == 0.05));
    for (int step = 0; step != 3; ++step)
      for (auto* pair : {&whole, &later}) {
        auto& one = pair == &whole ? expected : optimizer;
        one.zero_grad();
        ((*pair)[0] * (*pair)[1]).square().sum().backward();
        one.step();
      }
    for (std::size_t i = 0; i != 2; ++i) REQUIRE(fixtures::same_bits(whole[i], later[i]));
  };
  auto const each = [&](auto options) {
    using Options = decltype(options);
    using X = std::conditional_t<std::is_same_v<Options, torch::optim::SGDOptions>, torch::optim::SGD,
                                 std::conditional_t<std::is_same_v<Options, torch::optim::AdamWOptions>,
                                                    torch::optim::AdamW, torch::optim::Adagrad>>;
    check([=](auto const& parameters) { return X(parameters, options); },
          [=](auto const& p) {
            X optimizer({torch::optim::OptimizerParamGroup({p[0]}), torch::optim::OptimizerParamGroup({p[1]})},
                        options);
            optimizer.param_groups()[1].options().set_lr(0.05);
            return optimizer;
          });
  };
  each(torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.2));
  each(torch::optim::AdamWOptions(0.1).weight_decay(0.2));
  each(torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.3));

  auto p = torch::ones({1}).requires_grad_();
  auto sgd = LibTorch::adopt(torch::optim::SGD(std::vector{p}, torch::optim::SGDOptions(0.1).momentum(0.9)));
  auto const momentum = [&](std::size_t group) -> auto& {
    return static_cast<torch::optim::SGDOptions&>(sgd->param_groups()[group].options()).momentum();
  };
  momentum(0) = 0.3;
  sgd.add_group({torch::ones({1}).requires_grad_()}, 0.2);
  REQUIRE(momentum(1) == 0.3);
  REQUIRE((sgd.lr(0) == 0.1 && sgd.lr(1) == 0.2));

  auto lbfgs = LibTorch::adopt(torch::optim::LBFGS(std::vector{p}));
  try {
    lbfgs.add_group({torch::ones({1}).requires_grad_()}, 0.1);
    FAIL("it was taken");
  } catch (Error const& error) { REQUIRE(error.identifier() == "fulgurite.optimizer.one_group"); }
}

TEST_CASE("pruning on LibTorch: half of what is left each epoch, and it stays zero in training") {
  auto model = fresh();
  ModelPruning pruning{
      {.amount = 0.5, .parameters = {"in.weight", "out.weight"}, .use_lottery_ticket_hypothesis = false}};
  auto trainer = trainer_of(3, std::move(pruning), Zeros{});
  trainer.fit(model, batches(2, 1), batches(1, 2));
  // 15 elements: 8 of 15 (7.5 to even), 4 of 7 (3.5 to even), 2 of 3 (1.5 to even).
  REQUIRE(trainer.callback<Zeros>().before == std::vector<long>{0, 8, 12});
  REQUIRE(trainer.callback<Zeros>().after == std::vector<long>{0, 0, 8, 8, 12, 12});
  REQUIRE(Zeros::zeros(model) == 14);
  REQUIRE(trainer.callback<ModelPruning>().sparsity() == 14.0 / 15);
  REQUIRE(model.in->weight.requires_grad());
}

TEST_CASE("masks on LibTorch: the smallest magnitudes, of all or of each tensor; what is saved comes back; a ticket is "
          "rewound") {
  auto const make = [] {
    auto model = fresh();
    torch::NoGradGuard const no_graph;
    model.in->weight.copy_(torch::arange(1.0, 13.0).view({3, 4}) * torch::tensor({1.0, -1.0, 1.0, -1.0}));
    model.out->weight.copy_(torch::tensor({{20.0, -30.0, 0.5}}));
    return model;
  };
  auto model = make();
  PruningChoice const choice{{}, {"weight"}, true};  // in, out, and the batch norm's ones
  auto masks = LibTorch::masks(model, choice);
  REQUIRE(masks.names() == std::vector<std::string>{"in.weight", "norm.weight", "out.weight"});
  REQUIRE(masks.size() == 18);
  masks.prune(1.0 / 3, true);
  masks.apply_to_weights();
  REQUIRE(masks.masked() == 6);
  REQUIRE((model.in->weight == 0).sum().item<long>() + (model.norm->weight == 0).sum().item<long>() == 5);
  REQUIRE(model.out->weight[0][2].item<double>() == 0);

  auto other = make();
  auto again = LibTorch::masks(other, choice);
  again.load(masks.save());
  REQUIRE(again.masked() == 6);
  {
    torch::NoGradGuard const no_graph;
    other.in->weight.fill_(7);
  }
  again.rewind();
  REQUIRE(fixtures::same_bits(other.in->weight, model.in->weight));
  REQUIRE(other.out->weight[0][2].item<double>() == 0);
  for (auto& parameter : other.parameters()) parameter.mutable_grad() = torch::ones_like(parameter);
  again.apply_to_gradients();
  REQUIRE(torch::equal(other.in->weight.grad(), (model.in->weight != 0).to(torch::kFloat)));

  auto each = make();
  auto apart = LibTorch::masks(each, {{"in.weight", "out.weight"}, {}, false});
  apart.prune(0.4, false);  // 4.8 of 12, 1.2 of 3
  apart.apply_to_weights();
  REQUIRE((each.in->weight == 0).sum().item<long>() == 5);
  REQUIRE((each.out->weight == 0).sum().item<long>() == 1);
  REQUIRE(apart.masked() == 6);
  try {
    apart.load(LibTorch::masks(each, {{"in.bias"}, {}, false}).save());
    FAIL("it was taken");
  } catch (Error const& error) { REQUIRE(error.identifier() == "fulgurite.callback.pruning_state"); }
}

TEST_CASE("norms of gradients: the total is what clip_grad_norm_ finds, before clipping; none waits for the host but "
          "the last") {
  auto model = fresh();
  auto const batch = batches(1, 1)[0];
  model.loss(batch).backward();
  std::vector<std::pair<std::string, double>> two, largest;
  {
    fixtures::Operators const operators;
    two = grad_norm(model);
    REQUIRE(operators.host_reads() == 0);  // on the CPU a read is a load
  }
  largest = grad_norm(model, std::numeric_limits<double>::infinity());
  REQUIRE(two.size() == model.parameters().size() + 1);
  REQUIRE(two.front().first == "grad_2.0_norm/in.weight");
  REQUIRE(two.front().second == model.in->weight.grad().norm().item<double>());
  REQUIRE(two.back().first == "grad_2.0_norm_total");
  REQUIRE(largest.back().first == "grad_inf_norm_total");
  REQUIRE(largest.back().second ==
          torch::nn::utils::clip_grad_norm_(model.parameters(), 1e9, std::numeric_limits<double>::infinity()));
  REQUIRE(two.back().second == torch::nn::utils::clip_grad_norm_(model.parameters(), 0.01));
  REQUIRE_THROWS_AS(grad_norm(model, 0), Error);

  auto trained = fresh();
  auto trainer = trainer_for<Normed>(1, Automatic{.clip = ClipNorm{0.01}}, GradientNorm{}, SeenRows{});
  trainer.fit(trained, std::vector{batch}, NoValidation{});
  REQUIRE(trainer.callback<SeenRows>().cells == two);
}
