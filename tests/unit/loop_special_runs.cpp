// Options that stand for several others, loaders that are asked for again, batches that are none, training without an
// optimizer.
#include <catch2/catch_test_macros.hpp>

#include <optional>
#include <string>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>

#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Places;

namespace {

/// Notes every batch that reaches a step, and whether steps are deterministic.
struct Notes : toy::P {
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<toy::P::loss, vl>;
  std::vector<double> trained = {}, validated = {};
  bool deterministic = false;
  toy::Tensor training_step(double batch, auto& ctx) {
    trained.push_back(batch);
    deterministic = toy::world.deterministic;
    return toy::P::training_step(batch, ctx);
  }
  void validation_step(double batch, auto& ctx) {
    validated.push_back(batch);
    ctx.log(vl, batch);
  }
  void test_step(double) {}
};

/// What trains most Notes: one type for all, since each takes long to compile.
auto notes_trainer(TrainerOptions options) { return toy::train<Notes>(std::move(options), {}, toy::Positions{}); }

/// Counts how often each loader is asked for, and in which epoch of training it was.
struct Asked {
  int epoch = 0;
  std::vector<int> train = {}, val = {};
  std::vector<double> train_dataloader() { return train.push_back(epoch), toy::batches(2); }
  std::vector<double> val_dataloader() { return val.push_back(epoch), toy::batches(1); }
};
struct EpochOf {
  using Stateless = ByChoice;
  Asked* data;
  void on_sanity_check_start() { data->epoch = -1; }
  void on_sanity_check_end() { data->epoch = 0; }
  void on_train_epoch_end(auto& ctx) { data->epoch = ctx.current_epoch() + 1; }
  void on_validation_start(auto& ctx) {
    if (!ctx.sanity_checking()) data->epoch = ctx.current_epoch();
  }
};

/// Shuffles, unless it is told to keep the order.
struct Shuffled {
  bool ordered = false;
  double from = 0;
  std::vector<double> all = {};
  std::size_t size() const { return 5; }
  auto begin() {
    all = ordered ? toy::batches(5, from) : std::vector<double>{from + 4, from + 3, from + 2, from + 1, from};
    return all.begin();
  }
  auto end() { return all.end(); }
  void in_order(bool on) { ordered = on; }
};

struct Ends {
  using Stateless = ByChoice;
  Places starts = {}, ends = {};
  void on_train_batch_start(auto& ctx) { starts.push_back(toy::Positions::here(ctx)); }
  void on_train_batch_end(auto& ctx) { ends.push_back(toy::Positions::here(ctx)); }
};

std::vector<std::string> order;
struct Hears : toy::Device {
  void on_train_start() { order.push_back("S.on_train_start"); }
  void on_train_batch_start(double, auto&) { order.push_back("S.on_train_batch_start"); }
  void pre_backward(toy::Tensor&) { order.push_back("S.pre_backward"); }
  void post_backward(toy::Tensor&) { order.push_back("S.post_backward"); }
  void on_train_end(auto&) { order.push_back("S.on_train_end"); }
};
struct Tells {
  void on_train_start() { order.push_back("C.on_train_start"); }
  void on_before_backward() { order.push_back("C.on_before_backward"); }
  void on_after_backward() { order.push_back("C.on_after_backward"); }
};
struct Net : toy::P {
  void on_train_start() { order.push_back("on_train_start"); }
  void on_train_end() { order.push_back("on_train_end"); }
};

struct Two : toy::P {
  toy::Tensor q = toy::Tensor::parameter(0.0);
  std::vector<double> validated;
  auto configure_optimizers() { return optimizers(toy::Sgd{.params = {p}}, toy::Sgd{.params = {q}}); }
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    ctx.minimize(first, p * -1.0);
    ctx.minimize(second, q * -1.0);
  }
  void validation_step(double batch) { validated.push_back(batch); }
};
struct Predicts : toy::P {
  double predict_step(double batch) { return batch; }
};

}  // namespace

TEST_CASE("fast_dev_run runs so many batches of everything once, without a sanity check, and savers, stoppers and "
          "loggers stay idle") {
  auto const run = [](TrainerOptions options) {
    Notes model;
    auto trainer = toy::train<Notes>(options, {}, toy::Positions{}, toy::Rows{}, EarlyStopping{Notes::vl},
                                     ModelCheckpoint{Notes::vl});
    toy::world.saved.clear();
    trainer.fit(model, toy::batches(10), toy::batches(10));
    CHECK(trainer.callback<toy::Rows>().rows.empty());
    CHECK(toy::world.saved.empty());
    CHECK(trainer.progress().epoch == 1);
    return std::pair(trainer.progress().global_step, model.validated.size());
  };
  CHECK(run({.max_epochs = 7, .log_every_n_steps = 1, .fast_dev_run = true}) == std::pair(1L, std::size_t{1}));
  CHECK(run({.max_epochs = 7, .log_every_n_steps = 1, .fast_dev_run = 3}) == std::pair(3L, std::size_t{3}));
  CHECK(run({.max_epochs = 7, .fast_dev_run = 3, .overfit_batches = Batches{2}}) == std::pair(2L, std::size_t{2}));
  CHECK(toy::refusal([&] { run({.max_epochs = 1, .fast_dev_run = -1}); }) == "fulgurite.options.range");
}

TEST_CASE("fast_dev_run has all of its batches, and validates, where a batch takes several steps") {
  Two model;
  auto trainer =
      make_trainer<Two>(TrainerOptions{.max_epochs = 4, .fast_dev_run = 3}, toy::Device{}, Float32{}, Manual{});
  trainer.fit(model, toy::batches(9), toy::batches(9));
  CHECK(trainer.progress().global_step == 6);
  CHECK(model.validated.size() == 3);
}

TEST_CASE("a prediction of nothing is an Error, as an evaluation is") {
  Predicts predicting;
  auto predictor = toy::train<Predicts>({.max_epochs = 1}, {});
  CHECK(toy::refusal([&] { predictor.predict(predicting, toy::batches(0)); }) == "fulgurite.data.empty");
  CHECK(toy::refusal([&] { predictor.predict(predicting, toy::Unsized(0)); }) == "fulgurite.data.empty");
}

TEST_CASE(
    "overfit_batches takes the same first batches of both loaders, in order, and excludes the limits that it sets") {
  Notes model;
  Shuffled train, val{.from = 100};
  auto trainer = notes_trainer({.max_epochs = 2, .num_sanity_val_steps = 0, .overfit_batches = Batches{2}});
  trainer.fit(model, train, val);
  CHECK(model.trained == std::vector<double>{0, 1, 0, 1});
  CHECK(model.validated == std::vector<double>{100, 101, 100, 101});
  CHECK(toy::refusal([] { notes_trainer({.max_epochs = 1, .limit_val_batches = 3, .overfit_batches = 2}); }) ==
        "fulgurite.options.overfit");
  CHECK(toy::refusal([] { notes_trainer({.max_epochs = 1, .overfit_batches = 0}); }) == "fulgurite.options.overfit");
}

TEST_CASE("reload_dataloaders_every_n_epochs asks for loaders again; what the sanity check got serves epoch 0 where "
          "that validates") {
  using Epochs = std::vector<int>;
  auto const asked = [](int every, int validate_every) {
    Asked data;
    Notes model;
    auto trainer = toy::train<Notes>(
        {.max_epochs = 4, .check_val_every_n_epoch = validate_every, .reload_dataloaders_every_n_epochs = every}, {},
        EpochOf{&data});
    trainer.fit(model, data);
    return std::pair(data.train, data.val);
  };
  CHECK(asked(0, 1) == std::pair(Epochs{0}, Epochs{-1}));
  CHECK(asked(1, 1) == std::pair(Epochs{0, 1, 2, 3}, Epochs{-1, 1, 2, 3}));
  CHECK(asked(2, 1) == std::pair(Epochs{0, 2}, Epochs{-1, 2}));
  CHECK(asked(1, 2) == std::pair(Epochs{0, 1, 2, 3}, Epochs{-1, 1, 3}));
  CHECK(toy::refusal([] {
          Notes model;
          notes_trainer({.max_epochs = 1, .reload_dataloaders_every_n_epochs = 1})
              .fit(model, toy::batches(2), NoValidation{});
        }) == "fulgurite.options.reload");
}

namespace {

/// A loader that cannot be assigned, as one with a lambda that captures.
struct Unassigned {
  std::vector<double> const all{1, 2};
  std::size_t size() const { return all.size(); }
  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
};
struct GivesUnassigned {
  Unassigned train_dataloader() { return {}; }
};

}  // namespace

TEST_CASE("reload_dataloaders_every_n_epochs drops loaders of any kind") {
  toy::Slope model;
  GivesUnassigned data;
  toy::train<toy::Slope>({.max_epochs = 2, .reload_dataloaders_every_n_epochs = 1}, {}).fit(model, data);
  CHECK(model.stepped == std::vector<double>{2, 3, 2, 3});
}

TEST_CASE("barebones runs no sanity check, keeps no metric, still validates, and has no place for what reports") {
  Notes model;
  auto trainer = notes_trainer({.max_epochs = 1, .barebones = true});
  trainer.fit(model, toy::batches(3), toy::batches(2));
  CHECK(model.validated == std::vector<double>{0, 1});
  CHECK_FALSE(trainer.value(Notes::vl));
  CHECK_FALSE(trainer.value(Notes::loss));
  std::string sentence;
  CHECK(toy::refusal(
            [] {
              Notes net;
              toy::train<Notes>({.max_epochs = 1, .barebones = true}, {}, toy::Rows{})
                  .fit(net, toy::batches(1), toy::batches(1));
            },
            &sentence) == "fulgurite.options.barebones");
  CHECK(sentence.find("Rows") != std::string::npos);
  CHECK(toy::refusal([] { notes_trainer({.max_epochs = 1, .fast_dev_run = 1, .barebones = true}); }) ==
        "fulgurite.options.barebones");
}

TEST_CASE("deterministic holds while the fit runs, and cannot be had together with cuDNN's benchmark") {
  Notes model;
  notes_trainer({.max_epochs = 1, .deterministic = true}).fit(model, toy::batches(1), toy::batches(1));
  CHECK(model.deterministic);
  CHECK_FALSE(toy::world.deterministic);
  CHECK(toy::refusal([] { notes_trainer({.max_epochs = 1, .deterministic = true, .benchmark = true}); }) ==
        "fulgurite.options.deterministic");
}

TEST_CASE("a batch that is none is skipped: no start hook, no step, the end hook without a batch; its window is the "
          "mean of the others") {
  std::vector<std::optional<double>> const three{0.0, std::nullopt, 2.0};
  toy::Slope model;
  auto trainer = toy::train<toy::Slope>({.max_epochs = 1}, {}, Ends{});
  trainer.fit(model, three);
  CHECK(trainer.progress().global_step == 2);
  CHECK(trainer.callback<Ends>().starts == Places{{0, 0}, {0, 2}});
  CHECK(trainer.callback<Ends>().ends == Places{{0, 0}, {0, 1}, {0, 2}});
  REQUIRE(trainer.warnings().size() == 1);
  CHECK(trainer.warnings().front().starts_with("[fulgurite.data.none]"));

  auto const stepped = [](std::vector<std::optional<double>> batches, int window = 2) {
    toy::Slope slope;
    auto fit = toy::train<toy::Slope>({.max_epochs = 1}, {.accumulate_grad_batches = window}, Ends{});
    fit.fit(slope, batches);
    CHECK(fit.progress().logged_steps == fit.progress().global_step);
    return slope.stepped;
  };
  using Gradients = std::vector<double>;
  CHECK(stepped({0.0, std::nullopt, 2.0, 3.0}) == Gradients{1.0, 3.5});  // closed by none: the batch before it alone
  CHECK(stepped({std::nullopt, 1.0, 2.0, std::nullopt}) == Gradients{2, 3});  // none has its place in a window
  CHECK(stepped({std::nullopt, std::nullopt, 2.0}) == Gradients{3.0});
  CHECK(stepped({0.0, std::nullopt, 2.0, 3.0}, 3) == Gradients{2.0, 4.0});  // inside a window
}

namespace {
/// Declares a metric that could be reported per step, and logs it in validations alone.
struct LogsInValidation : toy::P {
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<vl>;
  toy::Tensor training_step(double) { return -p; }
  void validation_step(double batch, auto& ctx) { ctx.log(vl, batch); }
};
}  // namespace

TEST_CASE("an epoch with fewer steps than log_every_n_steps gets a warning where a logger waits for values of steps") {
  auto const warned = []<class M>(M model, int every, auto const& batches) {
    auto trainer =
        toy::train<M>({.max_epochs = 2, .log_every_n_steps = every}, {.accumulate_grad_batches = 2}, toy::Rows{});
    if constexpr (std::is_same_v<M, toy::P>) trainer.fit(model, batches);
    else trainer.fit(model, batches, batches);
    REQUIRE(trainer.warnings().size() <= 1);
    return !trainer.warnings().empty() && trainer.warnings().front().starts_with("[fulgurite.options.few_rows]");
  };
  CHECK(warned(toy::P{}, 3, toy::batches(4)));
  CHECK(warned(toy::P{}, 3, toy::Unsized{4}));
  CHECK_FALSE(warned(toy::P{}, 2, toy::batches(4)));
  CHECK_FALSE(warned(LogsInValidation{}, 3, toy::batches(4)));
}

TEST_CASE("without an optimizer steps count and nothing moves") {
  struct Still {
    toy::Tensor p = toy::Tensor::parameter(1.0);
    toy::Tensor training_step(double) { return p * 2; }
    NoOptimizer configure_optimizers() { return {}; }
  } model;
  auto trainer = toy::train<Still>({.max_epochs = 1}, {.clip = ClipNorm{1}}, toy::Positions{});
  trainer.fit(model, toy::batches(2));
  CHECK(trainer.progress().global_step == 2);
  CHECK(model.p.value() == 1.0);
  CHECK(trainer.callback<toy::Positions>().clears.size() == 2);
}

namespace {
/// Notes which loaders it was given to prepare.
struct Prepares : toy::Device {
  std::vector<std::size_t>* sizes;
  void process_dataloader(auto& loader) { sizes->push_back(loader.size()); }
};
}  // namespace

TEST_CASE("a strategy prepares loaders as they are asked for, unless use_distributed_sampler is off") {
  auto const prepared = [](bool use) {
    std::vector<std::size_t> sizes;
    Notes model;
    auto trainer =
        make_trainer<Notes>(TrainerOptions{.max_epochs = 1, .num_sanity_val_steps = 0, .use_distributed_sampler = use},
                            Prepares{{}, &sizes}, Float32{}, Automatic{});
    trainer.fit(model, toy::batches(3), toy::batches(2));
    return sizes;
  };
  CHECK(prepared(true) == std::vector<std::size_t>{3, 2});
  CHECK(prepared(false).empty());
}

TEST_CASE("the strategy hears an event after callbacks and model, and surrounds backward") {
  order.clear();
  Net model;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Hears{}, Float32{}, Automatic{}, Tells{});
  trainer.fit(model, toy::batches(1));
  CHECK(order == std::vector<std::string>{"C.on_train_start", "on_train_start", "S.on_train_start",
                                          "S.on_train_batch_start", "S.pre_backward", "C.on_before_backward",
                                          "C.on_after_backward", "S.post_backward", "on_train_end", "S.on_train_end"});
}
