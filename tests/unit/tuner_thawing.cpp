// Searches beside BackboneFinetuning, which adds a group to the optimizer in the middle of a fit.
#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/data/loader.hpp>

#include "models.hpp"

using namespace fulgurite;
namespace data = fulgurite::data;

namespace {

/// How the head's rate comes down while the backbone is frozen.
enum class Falls { by_schedule, by_observer, by_hand, never };

/// A schedule that sets rates itself: after the first epoch to a tenth.
struct Tenth {
  static constexpr bool sets_rates = true;
  static constexpr Metric<"loss"> loss{};
  using Watches = MetricTypes<Metric<"loss">>;
  bool done = false;
  auto metric() const { return loss; }
  bool strict() const { return false; }
  void observe(double, auto& optimizer) {
    if (!std::exchange(done, true)) optimizer.set_lr(0, optimizer.lr(0) * 0.1);
  }
  void state(auto& archive) { archive("done", done); }
};

/// Both parts fall to 0; the head is trained from the start.
template <Falls How>
struct TwoParts {
  static constexpr auto loss = Tenth::loss;
  using Metrics = MetricList<loss>;
  struct Rates {
    bool tried;
    int epoch;
    std::vector<double> all;
  };
  double lr = 0.05;
  toy::Tensor head = toy::Tensor::parameter(10.0), body = toy::Tensor::parameter(10.0);
  toy::Part backbone{{body}};
  std::vector<Rates> rates = {};

  std::vector<toy::Tensor> parameters() const { return {head, body}; }
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() { return {{"head", head}, {"body", body}}; }
  toy::Tensor training_step(double, auto& ctx) {
    auto value = head * head + body * body;
    ctx.log(loss, value);
    return value;
  }
  void on_train_epoch_start(auto& ctx) {
    if (How == Falls::by_hand && ctx.current_epoch() == 1) ctx.optimizer().set_lr(0, ctx.optimizer().lr(0) * 0.1);
  }
  void on_before_optimizer_step(auto& ctx) {
    auto& optimizer = ctx.optimizer();
    auto& now = rates.emplace_back(Rates{ctx.rehearsing(), ctx.current_epoch(), {}});
    for (std::size_t g = 0; g != optimizer.groups(); ++g) now.all.push_back(optimizer.lr(g));
  }
  auto configure_optimizers() {
    toy::Sgd sgd{.params = {head}, .rate = lr};
    if constexpr (How == Falls::by_schedule)
      return scheduled(std::move(sgd), [](long epochs) { return epochs == 0 ? 1.0 : 0.1; });
    else if constexpr (How == Falls::by_observer) return scheduled(std::move(sgd), Tenth{});
    else return sgd;
  }
};

TrainerOptions options(int epochs) { return {.max_epochs = epochs, .silence = {"fulgurite.tuner.no_suggestion"}}; }

/// Thaws and searches before epoch 2.
template <Falls How>
void keeps_its_ratio() {
  using Model = TwoParts<How>;
  Model model;
  auto trainer = toy::train<Model>(
      options(4), Automatic{},
      BackboneFinetuning{
          {.unfreeze_backbone_at_epoch = 2, .lambda_func = [](int) { return 0.5; }, .should_align = false}},
      LearningRateFinder<Model>{
          {.search = {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 6, .skip_begin = 0}, .milestones = {2}}});
  trainer.fit(model, toy::batches(3));
  auto const& found = trainer.template callback<LearningRateFinder>().results();
  REQUIRE(found.suggested);
  CHECK(model.lr == *found.suggested);
  double const goes_on = How == Falls::by_schedule ? *found.suggested * 0.1 : *found.suggested;
  std::size_t tried = 0, second = 0, third = 0;
  for (auto const& [was_tried, epoch, all] : model.rates) {
    if (epoch < 2 && !was_tried) CHECK(all.size() == 1);
    if (epoch < 2 || all.size() != 2) continue;
    if (was_tried) {
      CHECK(all[0] == found.lr[tried++]);
      CHECK(all[1] == Catch::Approx(all[0] * 0.1));
    } else {
      CHECK(all[0] == Catch::Approx(goes_on));
      CHECK(all[1] == Catch::Approx(goes_on * (epoch == 2 ? 0.1 : 0.05)));  // lambda_func goes on from what was found
      ++(epoch == 2 ? second : third);
    }
  }
  CHECK(tried == 6);
  CHECK(second == 3);
  CHECK(third == 3);
}

}  // namespace

TEST_CASE("a group that thawed keeps its ratio to the head's rate while rates are tried, and in the epochs after") {
  keeps_its_ratio<Falls::never>();
  keeps_its_ratio<Falls::by_schedule>();
  keeps_its_ratio<Falls::by_observer>();
  keeps_its_ratio<Falls::by_hand>();
}

TEST_CASE("at the foot of a warmup, where a factor is 0, a group that was added is searched for from its own rate") {
  struct Warm : TwoParts<Falls::never> {
    auto configure_optimizers() {
      return scheduled(toy::Sgd{.params = {head}, .rate = lr}, [](long epochs) { return epochs == 0 ? 0.0 : 1.0; });
    }
  };
  Warm model;
  auto trainer = toy::train<Warm>(
      options(2), Automatic{},
      BackboneFinetuning{{.unfreeze_backbone_at_epoch = 0, .backbone_initial_lr = 0.01, .should_align = false}},
      LearningRateFinder<Warm>{
          {.search = {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 4, .skip_begin = 0}, .milestones = {0}}});
  trainer.fit(model, toy::batches(3));
  auto const& found = trainer.callback<LearningRateFinder>().results();
  REQUIRE(found.suggested);
  std::vector<double> ratios;
  for (auto const& [tried, epoch, all] : model.rates)
    if (tried && all.size() == 2) ratios.push_back(all[1] / all[0]);
  // The head starts from what the search at the fit's start has found.
  REQUIRE(ratios.size() == 4);
  for (double const ratio : ratios) CHECK(ratio == Catch::Approx(ratios.front()));
  auto const& first = model.rates[model.rates.size() - 6].all;
  CHECK(first[0] == 0.0);
  CHECK(first[1] == Catch::Approx(*found.suggested * ratios.front()));
}

namespace {

using Rows = std::vector<double>;

/// Takes twice the memory for each row as soon as its backbone trains. What training proper has seen, by epoch.
struct Net {
  toy::Tensor head = toy::Tensor::parameter(1.0), body = toy::Tensor::parameter(0.5);
  toy::Part backbone{{body}};
  std::vector<std::vector<std::size_t>> epochs = {};
  std::vector<toy::Tensor> parameters() const { return {head, body}; }
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() { return {{"head", head}, {"body", body}}; }
  void on_train_epoch_start(auto& ctx) {
    if (!ctx.rehearsing()) epochs.emplace_back();
  }
  toy::Tensor training_step(Rows const& rows, auto& ctx) {
    toy::take_memory(static_cast<long>(rows.size()) * (body.requires_grad() ? 2 : 1));
    if (epochs.empty() && !ctx.rehearsing()) epochs.emplace_back();  // a fit that goes on inside of an epoch
    if (!ctx.rehearsing()) epochs.back().push_back(rows.size());
    return (head * head + body * body) * toy::Tensor(0.01 * toy::draw() * (1 + rows[0]));
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{.params = {head}, .rate = 0.1, .momentum = 0.9}; }
};
using Sizes = std::vector<std::size_t>;

struct Came {
  std::vector<Sizes> epochs;
  std::vector<double> bits;
};
/// A fit whose backbone thaws before epoch 2.
Came came(long memory, std::vector<int> milestones, int saved_in = -1, auto... from) {
  toy::world.memory = memory;
  Net net;
  auto all = data::Loader{toy::batches(40), {.batch_size = 2, .shuffle = true, .seed = 3}};
  auto trainer = toy::train<Net>({.max_epochs = 4}, Automatic{}, BackboneFinetuning{{.unfreeze_backbone_at_epoch = 2}},
                                 BatchSizeFinder<Net>{{.search = {.show = false}, .milestones = std::move(milestones)}},
                                 toy::Influence{[=](std::string_view where, auto& ctx) {
                                   bool const here = where == "on_train_batch_end" && ctx.batch_idx() == 1;
                                   if (here && ctx.current_epoch() == saved_in) ctx.request_checkpoint("a file");
                                 }});
  trainer.fit(net, all, from...);
  return {net.epochs,
          {net.head.value(), net.body.value(), static_cast<double>(toy::world.rng),
           static_cast<double>(trainer.progress().global_step)}};
}

}  // namespace

TEST_CASE("the batch size is searched for anew when the backbone thaws, with the memory that this takes") {
  toy::world = {};
  CHECK(came(20, {2}).epochs == std::vector<Sizes>{{16, 16, 8}, {16, 16, 8}, {8, 8, 8, 8, 8}, {8, 8, 8, 8, 8}});
  toy::world = {};
  auto const whole = came(20, {2}, 2);
  toy::world.rng = 99;
  auto const rest = came(20, {2}, -1, CkptPath{"a file"});
  CHECK(rest.epochs == std::vector<Sizes>{{8, 8, 8}, {8, 8, 8, 8, 8}});
  CHECK(rest.bits == whole.bits);
}

TEST_CASE("a search when the backbone thaws, and after it, changes nothing but the batch size") {
  auto const bits = [](std::vector<int> milestones) {
    toy::world = {};
    return came(80, std::move(milestones)).bits;
  };
  auto const never = bits({});
  CHECK(never[1] != 0.5);
  CHECK(bits({2}) == never);
  CHECK(bits({1, 2, 3}) == never);
}
