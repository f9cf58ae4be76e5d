// ModelPruning: how many weights are masked when, that they stay zero, what a lottery ticket gets back.
#include <fulgurite/callback/model_pruning.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>

#include <cmath>
#include <span>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <fulgurite/core/archive.hpp>

#include "models.hpp"

using namespace fulgurite;

namespace {
/// Eight weights 1..8 and a bias 0.5; each step adds the rate to each of them.
struct Eight {
  std::vector<toy::Tensor> weights = make();
  toy::Tensor bias = toy::Tensor::parameter(0.5);
  double rate = 0.01, momentum = 0;

  static std::vector<toy::Tensor> make() {
    std::vector<toy::Tensor> all;
    for (int i = 1; i <= 8; ++i) all.push_back(toy::Tensor::parameter(i % 2 == 0 ? i : -i));
    return all;
  }
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() {
    std::vector<std::pair<std::string, toy::Tensor>> named;
    for (auto const& w : weights) named.emplace_back("l" + std::to_string(named.size() + 1) + ".weight", w);
    named.emplace_back("l1.bias", bias);
    return named;
  }
  toy::Tensor training_step(double) {
    toy::Tensor sum = -bias;
    for (auto const& w : weights) sum = sum - w;
    return sum;
  }
  toy::Sgd configure_optimizers() {
    auto all = weights;
    all.push_back(bias);
    return toy::Sgd{all, rate, momentum};
  }
  std::vector<int> zeros() const {
    std::vector<int> at;
    for (std::size_t i = 0; i != weights.size(); ++i)
      if (weights[i].value() == 0) at.push_back(static_cast<int>(i + 1));
    return at;
  }
};

struct Watch {
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;
  std::vector<std::vector<int>> zeros = {};  ///< at each epoch's end
  std::vector<std::size_t> steps = {};       ///< how many are zero after each
  std::vector<double> gradients = {};        ///< of the smallest weight, as clipping sees them
  void on_train_epoch_end(auto& ctx) { zeros.push_back(ctx.model().zeros()); }
  void on_train_batch_end(auto& ctx) { steps.push_back(ctx.model().zeros().size()); }
  void on_before_optimizer_step(auto& ctx) { gradients.push_back(ctx.model().weights[0].grad()); }
};

auto trainer_of(int epochs, ModelPruningOptions options) {
  return toy::train<Eight>({.max_epochs = epochs, .num_sanity_val_steps = 0}, Automatic{},
                           ModelPruning{std::move(options)}, Watch{});
}
using Zeros = std::vector<std::vector<int>>;
ModelPruningOptions weights_only(PruningAmount amount) {
  return {.amount = std::move(amount), .parameter_names = {"weight"}, .use_lottery_ticket_hypothesis = false};
}
}  // namespace

TEST_CASE("each epoch half of what is left is masked, the smallest magnitudes first", "[pruning]") {
  Eight model;
  auto trainer = trainer_of(3, weights_only(0.5));
  trainer.fit(model, toy::batches(2));
  CHECK(trainer.callback<Watch>().zeros == Zeros{{1, 2, 3, 4}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6, 7}});
  CHECK(trainer.callback<ModelPruning>().sparsity() == 7.0 / 8);
  CHECK(trainer.callback<ModelPruning>().masked() == 7);
}

TEST_CASE("what is half of an element is rounded to even, as in torch.nn.utils.prune", "[pruning]") {
  Eight model;
  auto trainer = trainer_of(2, weights_only(0.3125));  // 2.5 of 8, then 1.875 of 6
  trainer.fit(model, toy::batches(1));
  CHECK(trainer.callback<Watch>().zeros == Zeros{{1, 2}, {1, 2, 3, 4}});
}

TEST_CASE("the amount may be a function of the epoch; 0 prunes nothing then", "[pruning]") {
  Eight model;
  auto trainer = trainer_of(3, weights_only([](int epoch) { return epoch == 1 ? 0.25 : 0.0; }));
  trainer.fit(model, toy::batches(1));
  CHECK(trainer.callback<Watch>().zeros == Zeros{{}, {1, 2}, {1, 2}});
}

TEST_CASE("masked weights stay zero while momentum pulls at them, and their gradients are zero", "[pruning]") {
  Eight model;
  model.momentum = 0.9;
  auto trainer = trainer_of(3, weights_only([](int epoch) { return epoch == 0 ? 0.5 : 0.0; }));
  trainer.fit(model, toy::batches(2));
  CHECK(trainer.callback<Watch>().zeros == Zeros(3, {1, 2, 3, 4}));
  CHECK(trainer.callback<Watch>().steps == std::vector<std::size_t>{0, 0, 4, 4, 4, 4});
  CHECK(trainer.callback<Watch>().gradients == std::vector<double>{-1, -1, 0, 0, 0, 0});
  CHECK(model.weights[7].value() > 8);
  CHECK(std::signbit(model.weights[0].value()) == false);
}

TEST_CASE("in each tensor, or the smallest of all: named parameters only", "[pruning]") {
  Eight each, all;
  auto options = weights_only(1.0);
  options.parameters = {"l3.weight", "l1.bias"};
  options.use_global_unstructured = false;
  auto trainer = trainer_of(1, options);
  trainer.fit(each, toy::batches(1));
  CHECK(each.zeros() == std::vector<int>{3});
  CHECK(each.bias.value() == 0);
  options.amount = 0.5;
  options.use_global_unstructured = true;
  auto half = trainer_of(1, options);
  half.fit(all, toy::batches(1));
  CHECK(all.zeros().empty());
  CHECK(all.bias.value() == 0);
  CHECK(half.callback<ModelPruning>().sparsity() == 0.5);
}

TEST_CASE("a lottery ticket: after each pruning what remains has its initial values", "[pruning]") {
  Eight model;
  auto trainer = toy::train<Eight>({.max_epochs = 2, .num_sanity_val_steps = 0}, Automatic{},
                                   ModelPruning{{.amount = 0.5, .parameter_names = {"weight"}}});
  trainer.fit(model, toy::batches(4));
  CHECK(model.zeros() == std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK(model.weights[6].value() == -7);
  CHECK(model.weights[7].value() == 8);
  CHECK(model.bias.value() == Catch::Approx(0.5 + 8 * 0.01));
}

TEST_CASE("by default weights and biases are pruned, with Lightning's defaults", "[pruning]") {
  ModelPruningOptions const options;
  CHECK((options.use_global_unstructured && options.make_pruning_permanent && options.use_lottery_ticket_hypothesis &&
         options.prune_on_train_epoch_end));
  CHECK(options.amount(7) == 0.5);
  Eight model;
  auto trainer = trainer_of(1, {.amount = 1.0});
  trainer.fit(model, toy::batches(1));
  CHECK(trainer.callback<ModelPruning>().masked() == 9);
  CHECK(model.bias.value() == 0);
}

TEST_CASE("at the end of validations instead; the sanity check is none", "[pruning]") {
  struct ValidatedEight : Eight {
    void validation_step(double) {}
  };
  ValidatedEight model;
  auto options = weights_only(0.5);
  options.prune_on_train_epoch_end = false;
  auto trainer =
      toy::train<ValidatedEight>({.max_epochs = 1, .num_sanity_val_steps = 1}, Automatic{}, ModelPruning{options});
  trainer.fit(model, toy::batches(1), toy::batches(1));
  CHECK(model.zeros() == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("permanent: the masks end with the fit; else a further fit goes on with them", "[pruning]") {
  for (bool const permanent : {true, false}) {
    CAPTURE(permanent);
    Eight first, second;
    auto options = weights_only([calls = 0](int) mutable { return calls++ == 0 ? 0.5 : 0.0; });
    options.make_pruning_permanent = permanent;
    auto trainer = trainer_of(1, options);
    trainer.fit(first, toy::batches(1));
    CHECK(first.zeros().size() == 4);
    CHECK(trainer.callback<ModelPruning>().sparsity() == 0.5);
    auto again = trainer_of(1, options);
    again.callback<ModelPruning>() = std::move(trainer.callback<ModelPruning>());
    again.fit(second, toy::batches(1));
    CHECK(second.zeros().size() == (permanent ? 0 : 4));
  }
}

TEST_CASE("permanent: a fit that resumes from a snapshot after the end has the masks and the initial values") {
  auto const options = [] { return ModelPruningOptions{.amount = 0.5, .parameter_names = {"weight"}}; };
  Eight unbroken, model;
  auto whole = trainer_of(3, options());
  whole.fit(unbroken, toy::batches(4));

  auto trainer = trainer_of(1, options());
  trainer.fit(model, toy::batches(4));
  auto const after = snapshot(trainer);
  auto again = trainer_of(3, options());
  Eight resumed;
  again.fit(resumed, toy::batches(4), NoValidation{}, after);
  CHECK(again.callback<Watch>().steps.front() == 4);
  for (std::size_t i = 0; i != 8; ++i) CHECK(resumed.weights[i].value() == unbroken.weights[i].value());
}

namespace {
struct Fit {
  using Backend = toy::Backend;
  Eight eight{};
  Eight& model() { return eight; }
  Stage stage() const { return Stage::fit; }
  int current_epoch() const { return 0; }
  int rank() const { return 0; }
};
}  // namespace

TEST_CASE("a reloaded state masks the same weights, and knows the initial values", "[pruning]") {
  ModelPruningOptions const options{.amount = 0.5, .parameter_names = {"weight"}};
  Fit run, resumed;
  ModelPruning pruning{options};
  pruning.on_fit_start(run);
  run.eight.weights[6].set(-9);
  pruning.on_train_epoch_end(run);
  auto const saved = state_text(pruning);
  for (auto const& w : resumed.eight.weights) w.set(w.value() * 3);  // weights of the file, not the initial ones

  ModelPruning again{options};
  SECTION("loaded before on_fit_start") {
    load_state_text(again, saved);
    CHECK(state_text(again) == saved);
    again.on_fit_start(resumed);
  }
  SECTION("loaded after it") {
    again.on_fit_start(resumed);
    load_state_text(again, saved);
  }
  CHECK(resumed.eight.zeros() == std::vector<int>{1, 2, 3, 4});
  CHECK(again.sparsity() == 0.5);
  CHECK(state_text(again) == saved);
  again.on_train_epoch_end(resumed);
  CHECK(resumed.eight.zeros() == std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK(resumed.eight.weights[6].value() == -7);
}

TEST_CASE("masks of other parameters, or without initial values that are needed, are refused", "[pruning]") {
  auto const saved_with = [](ModelPruningOptions options) {
    Fit run;
    ModelPruning pruning{std::move(options)};
    pruning.on_fit_start(run);
    return state_text(pruning);
  };
  auto const refused = [](std::string const& saved, ModelPruningOptions options) {
    Fit run;
    ModelPruning pruning{std::move(options)};
    load_state_text(pruning, saved);
    return toy::refusal([&] { pruning.on_fit_start(run); });
  };
  std::string const wrong = "fulgurite.callback.pruning_state";
  CHECK(refused(saved_with({.parameters = {"l1.weight"}}), {}) == wrong);
  CHECK(refused(saved_with({.use_lottery_ticket_hypothesis = false}), {}) == wrong);
  CHECK(refused(saved_with({}), {}).empty());
}

TEST_CASE("amounts that are no share, and names that are none, are refused", "[pruning]") {
  for (double const amount : {-0.1, 1.1, std::nan("")})
    CHECK(toy::refusal([&] { ModelPruning{{.amount = amount}}; }) == "fulgurite.callback.pruning_amount");
  static_assert(!std::is_convertible_v<int, PruningAmount>);
  auto const refused = [](ModelPruningOptions options) {
    Eight model;
    auto trainer = trainer_of(1, std::move(options));
    return toy::refusal([&] { trainer.fit(model, toy::batches(1)); });
  };
  CHECK(refused({.amount = [](int) { return 2.0; }}) == "fulgurite.callback.pruning_amount");
  CHECK(refused({.parameters = {"l1.weight", "l9.weight"}}) == "fulgurite.callback.pruning_parameters");
  CHECK(refused({.parameter_names = {"scale"}}) == "fulgurite.callback.pruning_parameters");
}

namespace {
/// One weight that each step adds 1 to; what validations, files and the pass for statistics see of it.
struct Averaged : toy::P {
  toy::Norm norm{};
  std::vector<double> validated = {};
  toy::Tensor training_step(double) {
    norm.see(p.value());
    seen.push_back(p.value());
    return -p;
  }
  void validation_step(double) { validated.push_back(p.value()); }
};
std::vector<double> filed;
struct FilingBackend : toy::Backend {
  template <class Model, class State>
  static void save(std::filesystem::path const&, Model& model, State&&, std::span<Hyperparameter const>) {
    filed.push_back(model.p.value());
  }
};
struct FilingDevice : toy::Device {
  using Backend = FilingBackend;
};
struct SavesEachEpoch {
  using Stateless = ByChoice;
  void on_train_epoch_end(auto& ctx) { ctx.request_checkpoint("file"); }
};
Averaged pruned_beside(auto... callbacks) {
  Averaged model;
  filed.clear();
  make_trainer<Averaged>(TrainerOptions{.max_epochs = 3, .num_sanity_val_steps = 0}, FilingDevice{}, Float32{},
                         Automatic{}, std::move(callbacks)..., SavesEachEpoch{})
      .fit(model, toy::batches(2), toy::batches(1));
  return model;
}
}  // namespace

TEST_CASE(
    "beside an average, whichever is listed first, masked weights are zero in validations, in files and in the end",
    "[pruning]") {
  ModelPruningOptions options{.amount = [](int epoch) { return epoch == 1 ? 1.0 : 0.0; },
                              .parameters = {"p"},
                              .use_lottery_ticket_hypothesis = false};
  auto const check = [](Averaged const& model, double first, double second) {
    CHECK(model.validated == std::vector<double>{first, second, 0});
    CHECK(filed == std::vector<double>{first, 0, 0});
    CHECK(model.p.value() == 0);
  };
  check(pruned_beside(ModelPruning{options}, WeightAveraging{}), 1.5, 2.5);
  check(pruned_beside(WeightAveraging{}, ModelPruning{options}), 1.5, 2.5);
  StochasticWeightAveraging const swa{{.swa_lrs = 1.0, .swa_epoch_start = 1, .annealing_epochs = 0}};
  for (bool const first : {true, false}) {
    CAPTURE(first);
    auto const model = first ? pruned_beside(ModelPruning{options}, swa) : pruned_beside(swa, ModelPruning{options});
    check(model, 2, 4);
    CHECK(model.norm.mean == 0);  // statistics are of what the model is in the end
  }
}

TEST_CASE("beside an average, masked weights are zero after a fit that nobody looked into", "[pruning]") {
  toy::P model;
  toy::train<toy::P>({.max_epochs = 2}, {},
                     ModelPruning{{.amount = 1.0, .parameters = {"p"}, .use_lottery_ticket_hypothesis = false}},
                     WeightAveraging{})
      .fit(model, toy::batches(2));
  CHECK(model.p.value() == 0);
}

TEST_CASE("at the end of validations of an average it is the weights in training that are pruned and rewound",
          "[pruning]") {
  ModelPruningOptions const options{.amount = 1e-9, .parameters = {"p"}, .prune_on_train_epoch_end = false};
  auto const model = pruned_beside(ModelPruning{options}, WeightAveraging{});
  CHECK(model.seen == std::vector<double>{0, 1, 0, 1, 0, 1});
}
