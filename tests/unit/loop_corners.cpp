// Corners where something would be lost, or mean something else, if nobody looked.
#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models.hpp"
#include "rows.hpp"

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/logger/csv_logger.hpp>

using namespace fulgurite;

namespace {

template <class F>
std::string identifier_of(F&& f) {
  try {
    f();
  } catch (Error const& error) { return std::string(error.identifier()); }
  return "nothing thrown";
}

template <class M, class... Cs>
auto trainer_for(TrainerOptions options, Automatic how, Cs... callbacks) {
  return make_trainer<M>(std::move(options), toy::Device{}, Float32{}, how, std::move(callbacks)...);
}

struct Watched {
  static constexpr Metric<"loss"> loss{};
  static constexpr Metric<"val"> val{};
  using Metrics = MetricList<loss, val>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double, auto& ctx) {
    ctx.log(loss, p);
    return -p;
  }
  void validation_step(double, auto& ctx) { ctx.log(val, p); }
  toy::Sgd configure_optimizers() { return {{p}}; }
};

/// Asks for a file when validation has ended, and remembers the weight that was scored.
struct Scorer {
  using Stateless = ByChoice;
  double scored = 0;
  void on_validation_end(auto& ctx) {
    if (ctx.sanity_checking()) return;
    scored = *ctx.value(Watched::val);
    ctx.request_checkpoint("scored");
  }
};

/// What the weight was when the file was written: seen from the next event.
struct WriteWatch {
  using Stateless = ByChoice;
  std::optional<double> weight = std::nullopt;
  void on_train_batch_start(auto& ctx) {
    if (!weight && !toy::world.saved.empty()) weight = ctx.model().p.value();
  }
};

}  // namespace

TEST_CASE("a validation inside a window scores the weights that its file then holds") {
  toy::world.saved.clear();
  Watched model;
  auto const train = toy::batches(8), val = toy::batches(1);
  auto trainer = trainer_for<Watched>({.max_epochs = 1, .val_check_interval = 3, .num_sanity_val_steps = 0},
                                      {.accumulate_grad_batches = 2}, Scorer{}, WriteWatch{});
  trainer.fit(model, train, val);
  REQUIRE(trainer.callback<WriteWatch>().weight.has_value());
  CHECK(*trainer.callback<WriteWatch>().weight == 1.0);  // after batch 2: one step taken, half a window open
}

TEST_CASE("a parameter is logged as it was when it was logged, not as the update left it") {
  Watched model;
  auto const train = toy::batches(4);
  auto trainer = trainer_for<Watched>({.max_epochs = 1}, {});
  trainer.fit(model, train, NoValidation{});
  CHECK(trainer.value(Watched::loss) == 1.5);  // 0, 1, 2, 3
}

TEST_CASE("a training metric can be watched at a validation inside the epoch: its epoch so far") {
  Watched model;
  auto const train = toy::batches(4), val = toy::batches(1);
  auto trainer = trainer_for<Watched>({.max_epochs = 1, .val_check_interval = Fraction{0.5}}, {},
                                      EarlyStopping{Watched::loss, {.mode = Mode::max}});
  trainer.fit(model, train, val);
  CHECK(trainer.progress().global_step == 4);
}

namespace {

struct TwoPlaces : Watched {
  void on_train_epoch_end(auto& ctx) { ctx.log(loss, 100.0); }
};
struct StopsInSanity {
  void on_sanity_check_end(auto& ctx) { ctx.request_stop(); }
};
struct FailsTwice {
  void on_train_batch_end() { throw std::runtime_error("first"); }
  void on_exception() { throw std::runtime_error("second"); }
};
struct Finalized {
  using Stateless = ByChoice;
  int failures = 0;
  void log_metrics(std::span<Scalar const>, long) {}
  void finalize(Status status) { failures += status == Status::failed; }
};
struct StepsTwice : Watched {
  void optimizer_step(auto& optimizer, auto& closure, auto&) {
    optimizer.step(closure);
    closure();
  }
};

}  // namespace

TEST_CASE("one metric logged in steps and in an epoch hook is refused, not merged") {
  TwoPlaces model;
  auto const train = toy::batches(2);
  auto trainer = trainer_for<TwoPlaces>({.max_epochs = 1}, {});
  CHECK(identifier_of([&] { trainer.fit(model, train, NoValidation{}); }) == "fulgurite.metric.two_places");
}

TEST_CASE("a stop asked for in the sanity check does not cancel the training") {
  Watched model;
  auto const train = toy::batches(2), val = toy::batches(1);
  auto trainer = trainer_for<Watched>({.max_epochs = 1}, {}, StopsInSanity{});
  trainer.fit(model, train, val);
  CHECK(trainer.progress().global_step == 2);
}

TEST_CASE("an exception in on_exception neither hides the first nor keeps the loggers from hearing of it") {
  Watched model;
  auto const train = toy::batches(2);
  auto trainer = trainer_for<Watched>({.max_epochs = 1}, {}, FailsTwice{}, Finalized{});
  std::string seen;
  try {
    trainer.fit(model, train, NoValidation{});
  } catch (std::exception const& error) { seen = error.what(); }
  CHECK(seen == "first");
  CHECK(trainer.callback<Finalized>().failures == 1);
}

TEST_CASE("optimizer_step that repeats its closure in a window of several batches is an error") {
  auto const train = toy::batches(2);
  StepsTwice model;
  auto windowed = trainer_for<StepsTwice>({.max_epochs = 1}, {.accumulate_grad_batches = 2});
  CHECK(identifier_of([&] { windowed.fit(model, train, NoValidation{}); }) == "fulgurite.hook.closure_repeated");
  auto single = trainer_for<StepsTwice>({.max_epochs = 1}, {});
  CHECK(identifier_of([&] { single.fit(model, train, NoValidation{}); }) == "nothing thrown");
}

TEST_CASE("loaders without a batch are errors") {
  Watched model;
  auto const none = toy::batches(0), some = toy::batches(2);
  auto trainer = trainer_for<Watched>({.max_epochs = 1}, {});
  CHECK(identifier_of([&] { trainer.fit(model, none, NoValidation{}); }) == "fulgurite.data.empty");
  CHECK(identifier_of([&] { trainer.fit(model, some, none); }) == "fulgurite.data.empty");
  CHECK(identifier_of([&] { trainer.validate(model, none); }) == "fulgurite.data.empty");
  CHECK(identifier_of([&] { trainer.fit(model, some, toy::Unsized(0)); }) == "fulgurite.data.empty");
  CHECK(identifier_of([&] { trainer.validate(model, toy::Unsized(0)); }) == "fulgurite.data.empty");
}

TEST_CASE("an interval above an unsized loader's length validates at its end") {
  Watched model;
  auto const val = toy::batches(1);
  toy::Unsized train(3);
  auto trainer =
      trainer_for<Watched>({.max_epochs = 2, .val_check_interval = 1000, .num_sanity_val_steps = 0}, {}, Scorer{});
  trainer.fit(model, train, val);
  CHECK(trainer.callback<Scorer>().scored == 6.0);
}

namespace {

struct Posts {
  void on_train_batch_end(auto& ctx) { post(ctx, "batch"); }
  void on_train_epoch_end(auto& ctx) { post(ctx, "epoch"); }
  static void post(auto& ctx, std::string_view name) {
    Scalar const row[] = {{name, 1.0}};
    ctx.log_scalars(row);
  }
};
struct Heard {
  using Stateless = ByChoice;
  std::vector<std::string> rows;
  void log_metrics(std::span<Scalar const> row, long step) {
    rows.push_back(std::string(row[0].name) + " " + std::to_string(step));
  }
};
struct Silent {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double) { return -p; }
  toy::Sgd configure_optimizers() { return {{p}}; }
};

}  // namespace

TEST_CASE("rows of callbacks arrive with their own step, those of the last events too") {
  Silent model;
  auto const train = toy::batches(2);
  auto trainer = trainer_for<Silent>({.max_epochs = 1}, {}, Posts{}, Heard{});
  trainer.fit(model, train);
  CHECK(trainer.callback<Heard>().rows == std::vector<std::string>{"batch 0", "batch 1", "epoch 1"});
}

TEST_CASE("a table that is there and cannot be read is not taken for a new one") {
  auto const path = std::filesystem::temp_directory_path() / "fulgurite_corners.csv";
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  CHECK(identifier_of([&] { logger::CsvTable table(path); }) == "fulgurite.file.read");
  std::filesystem::remove_all(path);
}

namespace {
struct OwnLoaders : toy::Validated {
  std::vector<double> train_dataloader() { return toy::batches(3); }
};
}  // namespace

TEST_CASE("NoValidation may be a constant, and may stand beside a model that has its loaders") {
  OwnLoaders own;
  auto trainer = toy::train<OwnLoaders>({.max_epochs = 1}, {});
  trainer.fit(own, NoValidation{});
  CHECK(trainer.progress().global_step == 3);
  NoValidation const none{};
  toy::Validated model;
  auto other = toy::train<toy::Validated>({.max_epochs = 1}, {});
  other.fit(model, toy::batches(2), none);
  CHECK(other.progress().global_step == 2);
}
