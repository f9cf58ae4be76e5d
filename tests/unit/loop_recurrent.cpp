// Truncated back-propagation through time: slices, what is carried between them, what is counted.
#include <catch2/catch_test_macros.hpp>

#include <optional>
#include <vector>

#include <fulgurite/core/archive.hpp>

#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;

namespace {

using Steps = std::vector<double>;  // a batch is its time steps

/// h' = h + sum of the slice, times p; the loss is p * h'. Notes what each step receives.
struct Unrolled {
  using Hidden = toy::Tensor;
  struct Output {
    toy::Tensor loss, hidden;
  };
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  toy::Tensor p = toy::Tensor::parameter(1.0);
  std::vector<Steps> slices = {};
  std::vector<std::optional<double>> received = {};
  bool attached = false;

  Output training_step(Steps const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    slices.push_back(slice);
    received.push_back(hidden ? std::optional(hidden->value()) : std::nullopt);
    attached = attached || (hidden && hidden->node()->op != toy::Node::Op::leaf);
    toy::Tensor h = hidden.value_or(toy::Tensor(0.0)) + p * toy::Tensor(static_cast<double>(slice.size()));
    ctx.log(loss, h);
    return {h, h};
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.0}; }
};

/// Cuts off one step at a time from the end.
struct OwnCut : Unrolled {
  std::vector<Steps> tbptt_split_batch(Steps const& batch, long length) {
    return {{batch.begin(), batch.begin() + length}, {batch.begin() + length, batch.end()}};
  }
};

}  // namespace

TEST_CASE(
    "C163: 15 time steps in slices of 2 are 8 steps, the last of length 1; the state is none at first, then detached") {
  Unrolled model;
  std::vector<Steps> const data{Steps(15, 1.0), Steps(3, 1.0)};
  auto trainer = toy::train<Unrolled>({.max_epochs = 1}, {.tbptt = 2}, toy::Positions{});
  trainer.fit(model, data);
  CHECK(trainer.progress().global_step == 8 + 2);
  CHECK(trainer.progress().total_batches == 2);
  CHECK(trainer.callback<toy::Positions>().batches.size() == 2);
  CHECK(trainer.callback<toy::Positions>().clears.size() == 10);
  REQUIRE(model.slices.size() == 10);
  CHECK(model.slices[0].size() == 2);
  CHECK(model.slices[7].size() == 1);
  CHECK(model.received == std::vector<std::optional<double>>{std::nullopt, 2, 4, 6, 8, 10, 12, 14, std::nullopt, 2});
  CHECK_FALSE(model.attached);
  CHECK(trainer.value(Unrolled::loss) ==
        (2 + 4 + 6 + 8 + 10 + 12 + 14 + 15) * 15.0 / (8 * 15 + 2 * 3) + (2 + 3) * 3.0 / (8 * 15 + 2 * 3));
}

TEST_CASE("max_steps is looked at after each batch, so that no slice of one is lost") {
  Unrolled model;
  std::vector<Steps> const data{Steps(15, 1.0), Steps(15, 1.0)};
  auto trainer = toy::train<Unrolled>({.max_steps = 3}, {.tbptt = 2});
  trainer.fit(model, data);
  CHECK(trainer.progress().global_step == 8);
  CHECK(model.slices.size() == 8);
}

TEST_CASE("a model cuts its batches itself where it has tbptt_split_batch") {
  OwnCut model;
  std::vector<Steps> const data{Steps(5, 1.0)};
  toy::train<OwnCut>({.max_epochs = 1}, {.tbptt = 2}).fit(model, data);
  CHECK(model.slices == std::vector<Steps>{Steps(2, 1.0), Steps(3, 1.0)});
}

TEST_CASE("the length of a slice and the model's state belong together, and exclude windows of several batches") {
  auto const refused = [](Automatic how) {
    return toy::refusal([&] {
      Unrolled model;
      std::vector<Steps> const data{Steps(5, 1.0)};
      toy::train<Unrolled>({.max_epochs = 1}, how).fit(model, data);
    });
  };
  CHECK(refused({}) == "fulgurite.options.tbptt");
  CHECK(refused({.tbptt = -1}) == "fulgurite.options.tbptt");
  CHECK(refused({.accumulate_grad_batches = 2, .tbptt = 2}) == "fulgurite.options.tbptt");
  CHECK(refused({.tbptt = 2}).empty());
  CHECK(toy::refusal([] {
          toy::P model;
          toy::train<toy::P>({.max_epochs = 1}, {.tbptt = 2}).fit(model, toy::batches(1));
        }) == "fulgurite.options.tbptt");
}

TEST_CASE("a batch without a time step has no slice, which is an error that says so") {
  Unrolled model;
  std::vector<Steps> const data{Steps{}};
  CHECK(toy::refusal([&] { toy::train<Unrolled>({.max_epochs = 1}, {.tbptt = 2}).fit(model, data); }) ==
        "fulgurite.data.no_slice");
}

namespace {
/// Asks for windows while batches are cut.
struct AsksForWindow {
  void on_train_epoch_start(auto& ctx) { ctx.accumulate(2); }
};
}  // namespace

TEST_CASE("a window of several batches cannot be asked for later either") {
  Unrolled model;
  std::vector<Steps> const data{Steps(4, 1.0)};
  CHECK(toy::refusal([&] {
          toy::train<Unrolled>({.max_epochs = 1}, {.tbptt = 2}, AsksForWindow{}).fit(model, data);
        }) == "fulgurite.options.tbptt");
}

namespace {
/// What a file holds of a Hidden of any number of tensors.
struct Stack {
  std::vector<toy::Tensor> all{};
  void state(auto& archive) { loop::fold_hidden<toy::Backend>(archive, "hidden", all, toy::Tensor(0.0)); }
};
}  // namespace

TEST_CASE("slices of batches: a state of any number of tensors comes back, and no file says a length that it has not") {
  Stack saved{{toy::Tensor(1.5), toy::Tensor(), toy::Tensor(2.5), toy::Tensor()}}, loaded{{toy::Tensor(7.0)}};
  auto const text = state_text(saved);
  load_state_text(loaded, text);
  REQUIRE(loaded.all.size() == 4);
  CHECK(loaded.all[0].value() == 1.5);
  CHECK_FALSE(loaded.all[1].defined());
  CHECK(loaded.all[2].value() == 2.5);
  CHECK_FALSE(loaded.all[3].defined());

  Stack kept{{toy::Tensor(7.0)}};
  for (auto const* const wrong :
       {R"({"hidden":{"size":1000000000000000000}})", R"({"hidden":{"there":1000000000000}})"})
    CHECK_THROWS_AS(load_state_text(kept, wrong), Error);
  REQUIRE(kept.all.size() == 1);
  CHECK(kept.all[0].value() == 7);
}
