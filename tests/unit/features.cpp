// Features of docs/features.md that no other test shows: what a model does by hand, what it overrides, where a position
// lies.
#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "callback_stderr.hpp"
#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;
using Numbers = std::vector<double>;
using toy::Places;
using toy::Tensor;

namespace {

template <class M>
auto by_hand(TrainerOptions options) {
  return make_trainer<M>(std::move(options), toy::Device{}, Float32{}, Manual{});
}

/// Half of each loss, a step at the second batch of a window and at the last of the epoch.
struct LastBatch : toy::P {
  Places steps = {};
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    ctx.backward(p * Tensor(-0.5));
    if ((ctx.batch_idx() + 1) % 2 != 0 && !ctx.is_last_batch()) return;
    ctx.step(optimizer);
    optimizer.zero_grad();
    steps.push_back(toy::Positions::here(ctx));
  }
};

double half(long moves) { return moves == 0 ? 1.0 : 0.5 * half(moves - 1); }

/// Moves its schedule where the documents do: every so many batches, or at the last batch of every so many epochs.
struct MovesByHand : toy::P {
  long batches = 0;
  int epochs = 0;
  Numbers rates = {};
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, half); }
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    auto& [schedule] = ctx.lr_schedulers();
    rates.push_back(optimizer.lr(0));
    ctx.minimize(optimizer, -p);
    if (batches != 0 && (ctx.batch_idx() + 1) % batches == 0) schedule.step();
    if (epochs != 0 && ctx.is_last_batch() && (ctx.current_epoch() + 1) % epochs == 0) schedule.step();
  }
};

/// Tells its plateau the epoch's loss when the epoch ends.
struct Plateau {
  static constexpr Metric<"loss"> loss{.on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  Tensor p = Tensor::parameter(0.0);
  Numbers losses = {}, rates = {};
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, schedule::ReduceOnPlateau{loss, {.factor = 0.5, .patience = 0}});
  }
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    rates.push_back(optimizer.lr(0));
    ctx.log(loss, losses.at(static_cast<std::size_t>(ctx.current_epoch())));
    ctx.minimize(optimizer, -p);
  }
  void on_train_epoch_end(auto& ctx) {
    ctx.each_scheduler([&](auto& scheduler) { scheduler.step(*ctx.value(loss)); });
  }
};

/// The documents' GAN: the discriminator's gradient is b + 1, cleared in each batch, stepped in every second one.
struct EverySecond {
  Tensor g = Tensor::parameter(0.0), d = Tensor::parameter(0.0);
  Numbers stepped_g = {}, stepped_d = {};
  auto configure_optimizers() { return optimizers(toy::Sgd{{g}}, toy::Sgd{{d}}); }
  void training_step(double batch, auto& ctx) {
    auto& [of_g, of_d] = ctx.optimizers();
    of_d.zero_grad();
    ctx.backward(d * Tensor(batch + 1));
    if ((ctx.batch_idx() + 1) % 2 == 0) {
      stepped_d.push_back(d.grad());
      ctx.step(of_d);
    }
    of_g.zero_grad();
    ctx.backward(g * Tensor(batch + 1));
    stepped_g.push_back(g.grad());
    ctx.step(of_g);
  }
};

/// Steps past the context.
struct StepsRaw : toy::P {
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    optimizer.zero_grad();
    ctx.backward(-p);
    optimizer.unsafe_raw().step();
  }
};

/// Clears in even batches alone.
struct ClearsSeldom : toy::Slope {
  void optimizer_zero_grad(auto& optimizer, auto& ctx) {
    if (ctx.batch_idx() % 2 == 0) optimizer.zero_grad();
  }
};

/// Runs backward itself, on twice the loss.
struct Doubles : toy::Slope {
  void backward(Tensor& loss) { (loss * Tensor(2.0)).backward(); }
};

/// A strategy on the seventh device.
struct Seventh : toy::Device {
  int device() const { return 7; }
};
/// Notes the device of each step, whether anomalies are looked for, and calls of what LibTorch's modules call
/// Module::zero_grad.
struct Notes : toy::Validated {
  std::vector<int> devices = {};
  std::vector<bool> anomalies = {};
  int cleared = 0;
  Tensor training_step(double, auto& ctx) {
    devices.push_back(ctx.device());
    anomalies.push_back(toy::world.anomaly);
    return -p;
  }
  void zero_grad() { ++cleared; }
};
Notes noted(TrainerOptions options) {
  Notes model;
  make_trainer<Notes>(std::move(options), Seventh{}, Float32{}, Automatic{})
      .fit(model, toy::batches(2), toy::batches(1));
  return model;
}

/// A model with loaders of its own, and a data module with others.
struct Supplied : toy::P {
  Numbers batches = {};
  auto train_dataloader() { return toy::batches(2); }
  Tensor training_step(double batch) {
    batches.push_back(batch);
    return -p;
  }
};
struct Supplier {
  using OverridesModel = void;
  auto train_dataloader() { return toy::batches(2, 10); }
};

struct Several {
  static constexpr Metric<"a"> a{.prog_bar = true};
  static constexpr Metric<"b"> b{.reduce = Reduce::max, .prog_bar = true};
  static constexpr Metric<"c"> c{.logger = false};
  using Metrics = MetricList<a, b, c>;
  Tensor p = Tensor::parameter(0.0);
  Tensor training_step(double batch, auto& ctx) {
    ctx.log_dict(a, batch, b, Tensor(batch), c, 2 * batch);
    return -p;
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

/// Keeps the position that each file would hold.
std::vector<std::string> positions;
struct PositionBackend : toy::Backend {
  template <class Model, class Fold>
  static void save(std::filesystem::path const& path, Model&, Fold&& fold, std::span<Hyperparameter const>) {
    ArchiveNode tree;
    StateSaver saver(tree);
    fold(saver);
    auto const& at = *tree.find("progress");
    std::string text = path.string();
    for (auto const* name : {"epoch", "batch", "global_step"}) text += " " + to_text(*at.find(name));
    positions.push_back(text + " " + to_text(*tree.find("point")->find("at")));
  }
};
struct PositionDevice : toy::Device {
  using Backend = PositionBackend;
};
struct SavesAlways {
  using Stateless = ByChoice;
  void on_train_batch_end(auto& ctx) { ctx.request_checkpoint("batch"); }
  void on_validation_end(auto& ctx) { ctx.request_checkpoint("validation"); }
  void on_train_epoch_end(auto& ctx) { ctx.request_checkpoint("epoch"); }
};

/// Logs its batches; the values of each loader, and of both, when the validation has begun its second loader, and at
/// the epoch's end.
struct Judged {
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<v>;
  using Seen = std::vector<std::optional<double>>;
  Tensor p = Tensor::parameter(0.0);
  Seen at_noisy = {}, at_end = {};
  Tensor training_step(double) { return -p; }
  void validation_step(double batch, auto& ctx) {
    ctx.log(v, batch);
    if (ctx.loader() == 1) at_noisy = values(ctx);
  }
  void on_train_epoch_end(auto& ctx) { at_end = values(ctx); }
  static Seen values(auto& ctx) {
    return {ctx.value(v.of("clean")), ctx.value(v.of("noisy")), ctx.value(v.of("absent")), ctx.value(v)};
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
/// clean: 1, 2, 3; noisy: 10.
auto clean_and_noisy() {
  return std::tuple(data::named<"clean">(toy::batches(3, 1)), data::named<"noisy">(toy::batches(1, 10)));
}

struct Idle {
  using Stateless = ByChoice;
  static constexpr bool inert_in_dev_run = true;
  void on_train_end() {}
};

}  // namespace

TEST_CASE("S21: a data module's loaders come before the model's own, where it says that it overrides them") {
  Supplied model;
  Supplier data;
  toy::train<Supplied>({.max_epochs = 1}, {}).fit(model, data);
  CHECK(model.batches == Numbers{10, 11});
}

TEST_CASE("S71, S118: windows by hand end at the epoch's last batch, sized or not: n5 is stepped at 1, 3, 4") {
  auto const steps = [](auto loader) {
    LastBatch model;
    by_hand<LastBatch>({.max_epochs = 1}).fit(model, loader);
    CHECK(model.p.value() == 1 + 1 + 0.5);
    return model.steps;
  };
  CHECK(steps(toy::batches(5)) == Places{{0, 1}, {0, 3}, {0, 4}});
  CHECK(steps(toy::Unsized(5)) == Places{{0, 1}, {0, 3}, {0, 4}});
}

TEST_CASE("S72: what optimizer_zero_grad does not clear is added to") {
  ClearsSeldom model;
  toy::train<ClearsSeldom>({.max_epochs = 1}, {}).fit(model, toy::batches(4));
  CHECK(model.stepped == Numbers{1, 1 + 2, 3, 3 + 4});
}

TEST_CASE("S75: a step knows its device, to make tensors there") {
  CHECK(noted({.max_epochs = 1}).devices == std::vector{7, 7});
}

TEST_CASE("S102: anomalies are looked for while a fit trains, where that is asked for") {
  auto const seen = [](bool asked) {
    auto const model = noted({.max_epochs = 1, .detect_anomaly = asked});
    CHECK_FALSE(toy::world.anomaly);
    return model.anomalies;
  };
  CHECK(seen(true) == std::vector{true, true});
  CHECK(seen(false) == std::vector{false, false});
}

TEST_CASE("S117: the optimizer itself can be stepped; the trainer knows nothing of it") {
  StepsRaw model;
  auto trainer = by_hand<StepsRaw>({.max_epochs = 1});
  trainer.fit(model, toy::batches(2));
  CHECK(model.p.value() == 2);
  CHECK(trainer.progress().global_step == 0);
}

TEST_CASE("S125: schedules by hand move every second batch, or at the last batch of every second epoch") {
  auto const rates = [](long batches, int epochs, int run) {
    MovesByHand model;
    model.batches = batches;
    model.epochs = epochs;
    by_hand<MovesByHand>({.max_epochs = run}).fit(model, toy::batches(3));
    return model.rates;
  };
  CHECK(rates(2, 0, 2) == Numbers{1, 1, 0.5, 0.5, 0.5, 0.25});
  CHECK(rates(0, 2, 3) == Numbers{1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5});
}

TEST_CASE("S126: a plateau by hand is told the epoch's loss in on_train_epoch_end") {
  Plateau model;
  model.losses = {3, 3, 2, 2};
  by_hand<Plateau>({.max_epochs = 4}).fit(model, toy::batches(1));
  CHECK(model.rates == Numbers{1, 1, 0.5, 0.5});
}

TEST_CASE("S127, S155: each optimizer at its own pace; what is cleared before its step is dropped, as the document's "
          "code has it") {
  EverySecond model;
  auto trainer = by_hand<EverySecond>({.max_epochs = 1});
  trainer.fit(model, toy::batches(5));
  CHECK(model.stepped_g == Numbers{1, 2, 3, 4, 5});
  CHECK(model.stepped_d == Numbers{2, 4});
  CHECK(trainer.progress().global_step == 7);
}

TEST_CASE("S145, S153: log_dict logs several metrics at once; one that no logger gets can be read all the same") {
  Several model;
  auto trainer = toy::train<Several>({.max_epochs = 1, .log_every_n_steps = 3}, {}, toy::Rows{});
  trainer.fit(model, toy::batches(3));
  CHECK(trainer.callback<toy::Rows>().rows == std::vector<toy::Row>{{2, {{"a", 2}, {"b", 2}, {"epoch", 0}}}});
  CHECK(trainer.value(Several::a) == 1.0);
  CHECK(trainer.value(Several::b) == 2.0);
  CHECK(trainer.value(Several::c) == 2.0);
}

TEST_CASE("named loaders: rows, results and what watches one of them go by the name") {
  Judged model;
  auto trainer = toy::train<Judged>({.max_epochs = 9, .num_sanity_val_steps = 0}, {}, toy::Rows{},
                                    EarlyStopping{Judged::v.of("noisy"), {.stopping_threshold = 10.5}});
  trainer.fit(model, toy::batches(1), clean_and_noisy());
  CHECK(trainer.callback<toy::Rows>().rows ==
        std::vector<toy::Row>{{0, {{"v/clean", 2}, {"v/noisy", 10}, {"epoch", 0}}}});
  CHECK(trainer.progress().epoch == 1);
  CHECK(model.at_noisy == Judged::Seen{2, 10, std::nullopt, 4});
  CHECK(model.at_end == Judged::Seen{2, 10, std::nullopt, 4});
  CHECK(trainer.value(Judged::v.of("clean")) == 2.0);
  auto const results = trainer.validate(model, clean_and_noisy());
  REQUIRE(results.size() == 2);
  CHECK(results.back().front().name == "v/noisy");
  CHECK(results.back().front().value == 10);
}

TEST_CASE("of several loaders without names one is watched by its position; a name that no loader has is an Error") {
  auto const stopped = [](auto const& loader) {
    Judged model;
    auto trainer = toy::train<Judged>({.max_epochs = 2, .num_sanity_val_steps = 0}, {},
                                      EarlyStopping{Judged::v.of(loader), {.stopping_threshold = 3}});
    trainer.fit(model, toy::batches(1), std::tuple(toy::batches(3, 1), toy::batches(1, 10)));
    return trainer.progress().epoch == 1;
  };
  CHECK(stopped("dataloader_idx_0"));
  CHECK_FALSE(stopped("dataloader_idx_1"));
  CHECK(toy::refusal([&] { stopped("clean"); }) == "fulgurite.callback.early_stopping_metric");
}

TEST_CASE("S151: a model's own backward is run in place of the trainer's, on the loss over the window") {
  Doubles model;
  toy::train<Doubles>({.max_epochs = 1}, {.accumulate_grad_batches = 2}).fit(model, toy::batches(4));
  CHECK(model.stepped == Numbers{1 + 2, 3 + 4});
}

TEST_CASE(
    "D5: a file says epochs completed, batches consumed, steps, and after what: a batch, a validation, an epoch") {
  toy::Validated model;
  positions.clear();
  auto trainer = make_trainer<toy::Validated>(TrainerOptions{.max_epochs = 2, .num_sanity_val_steps = 0},
                                              PositionDevice{}, Float32{}, Automatic{}, SavesAlways{});
  trainer.fit(model, toy::batches(2), toy::batches(1));
  CHECK(positions == std::vector<std::string>{"batch 0 1 1 3", "batch 0 2 2 3", "validation 0 2 2 4",
                                              "epoch 1 0 2 6",  //
                                              "batch 1 1 3 3", "batch 1 2 4 3", "validation 1 2 4 4", "epoch 2 0 4 6"});
}

TEST_CASE("D12: what a fast_dev_run leaves idle is told once") {
  toy::P model;
  auto const text = probe::said(
      [&] { toy::train<toy::P>({.max_epochs = 3, .fast_dev_run = 2}, {}, Idle{}).fit(model, toy::batches(5)); });
  CHECK(text == "warning: [fulgurite.options.dev_run] fast_dev_run: 2 batches of each loop, one epoch, no sanity "
                "check; idle: Idle\n");
}

TEST_CASE("D20: gradients are cleared through the optimizer alone, never through the model") {
  CHECK(noted({.max_epochs = 2}).cleared == 0);
}
