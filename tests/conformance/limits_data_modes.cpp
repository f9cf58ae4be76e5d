// Section 11.12: limits, options that stand for several, loaders asked for again, predictions, modes of evaluation.
#include <fulgurite/data/combined.hpp>

#include "observed.hpp"
#include "rows.hpp"
#include "trace.hpp"

using namespace fulgurite;

namespace {

long batches_run(Limit limit, int n = 10) {
  toy::P model;
  toy::train<toy::P>({.max_epochs = 1, .limit_train_batches = limit}, Automatic{}).fit(model, toy::batches(n));
  return static_cast<long>(model.seen.size());
}

/// Options that are refused: which Error, and nothing has run.
std::string refused(TrainerOptions options, std::string* said = nullptr, Automatic how = {}) {
  toy::Everything model;
  toy::Everywhere data;
  toy::trace.clear();
  auto identifier = toy::refusal(
      [&] { toy::train<toy::Everything>(std::move(options), how, toy::Witness{}).fit(model, data); }, said);
  CHECK(toy::trace.empty());
  return identifier;
}
bool names(std::string const& said, std::string const& option, std::string const& value) {
  return said.find(option) != std::string::npos && said.find(value) != std::string::npos;
}

/// The batches that steps received.
struct Receives : toy::P {
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<loss, v>;
  Numbers trained = {}, validated = {};
  Words order = {};
  toy::Tensor training_step(double batch, auto& ctx) {
    trained.push_back(batch);
    order.push_back("train");
    ctx.log(v, batch);
    return -p;
  }
  void validation_step(double batch) {
    validated.push_back(batch);
    order.push_back("val");
  }
  void on_sanity_check_start() { order.push_back("sanity"); }
};

/// The pairs that stand side by side.
struct Paired : toy::P {
  std::vector<std::pair<double, double>> pairs = {};
  toy::Tensor training_step(std::tuple<double, double> const& batch) {
    pairs.emplace_back(std::get<0>(batch), std::get<1>(batch));
    return -p;
  }
};

/// When a data module was asked for its loaders.
struct Requests {
  Words train = {}, val = {};
  int epoch = 0;
  bool sanity = false;
  auto train_dataloader() {
    train.push_back(std::to_string(epoch));
    return toy::batches(2);
  }
  auto val_dataloader() {
    val.push_back(sanity ? "sanity" : std::to_string(epoch));
    return toy::batches(2);
  }
};
struct TellsTheModule {
  using Stateless = ByChoice;
  Requests* data;
  void on_sanity_check_start() { data->sanity = true; }
  void on_sanity_check_end() { data->sanity = false; }
  void on_train_epoch_end() { ++data->epoch; }
};
Requests requested(int reload, int every = 1) {
  Requests data;
  toy::Validated model;
  toy::train<toy::Validated>(
      {.max_epochs = 4, .check_val_every_n_epoch = every, .reload_dataloaders_every_n_epochs = reload}, Automatic{},
      TellsTheModule{&data})
      .fit(model, data);
  return data;
}

struct Predicts : toy::P {
  double predict_step(double batch) { return batch; }
};

struct Modes : toy::P {
  bool training = true;
  Words seen = {};
  void validation_step(double) {
    auto const word = [](bool yes) { return yes ? "T" : "F"; };
    seen.push_back(std::string(word(toy::grad_enabled)) + "," + word(toy::world.inference) + "," + word(training));
  }
};

}  // namespace

TEST_CASE("C129 fast_dev_run: so many batches of each loop, once; no sanity check, no row") {
  auto fit = [](int batches, std::optional<Limit> overfit) {
    Receives model;
    auto trainer = toy::train<Receives>(
        {.max_epochs = 5, .log_every_n_steps = 1, .fast_dev_run = batches, .overfit_batches = overfit}, Automatic{},
        toy::Rows{});
    trainer.fit(model, toy::batches(10), toy::batches(10));
    CHECK(trainer.template callback<toy::Rows>().rows.empty());
    return model.order;
  };
  CHECK(observed("C129", "1", fit(1, std::nullopt)) == Words{"train", "val"});
  CHECK(observed("C129", "3", fit(3, std::nullopt)) == Words{"train", "train", "train", "val", "val", "val"});
  CHECK(observed("C129", "3, overfit 2", fit(3, 2)) == Words{"train", "train", "val", "val"});
}

TEST_CASE("C130 limits on 10 batches; a tenth of 5 is none: an Error that names the least fraction") {
  CHECK(observed("C130", "0", batches_run(0)) == 0);
  CHECK(observed("C130", "1", batches_run(1)) == 1);
  CHECK(observed("C130", "1.0", batches_run(Fraction{1.0})) == 10);
  CHECK(observed("C130", ".1", batches_run(Fraction{0.1})) == 1);
  CHECK(observed("C130", ".5", batches_run(Fraction{0.5})) == 5);
  CHECK(observed("C130", "3", batches_run(3)) == 3);
  CHECK(observed("C130", "2", batches_run(Batches{2})) == 2);
  CHECK(observed("C130", "100", batches_run(100)) == 10);
  CHECK(batches_run(Fraction{0.0}) == 0);
  std::string which, said;
  CHECK(observed("C130", ".1 of 5", outcome([] { batches_run(Fraction{0.1}, 5); }, &which, &said)) == "error");
  CHECK(which == "fulgurite.options.fraction_too_small");
  CHECK(names(said, "limit_train_batches", "0.2"));
}

TEST_CASE("C131 each wrong option is named with its value, and no hook has run") {
  std::string said;
  auto const range = "fulgurite.options.range";
  auto error = [](std::string const& which) { return which.empty() ? "runs" : "error"; };
  auto const epochs = refused({.max_epochs = -2}, &said), steps = refused({.max_steps = -2}),
             dev_run = refused({.fast_dev_run = -1}),
             reload = refused({.max_epochs = 1, .reload_dataloaders_every_n_epochs = -1});
  CHECK(epochs == range);
  CHECK(names(said, "max_epochs", "-2"));
  CHECK(steps == range);
  CHECK(dev_run == range);
  CHECK(reload == range);
  observed("C131", "E -2", error(epochs));
  observed("C131", "max_steps -2", error(steps));
  observed("C131", "fast_dev_run -1", error(dev_run));
  observed("C131", "reload -1", error(reload));

  auto const limit = "fulgurite.options.limit";
  auto const above = refused({.max_epochs = 1, .limit_train_batches = Fraction{1.5}}, &said);
  CHECK(above == limit);
  CHECK(names(said, "limit_train_batches", "1.5"));
  auto const below = refused({.max_epochs = 1, .limit_val_batches = -1}, &said);
  CHECK(below == limit);
  CHECK(names(said, "limit_val_batches", "-1"));
  CHECK(refused({.max_epochs = 1, .limit_test_batches = Fraction{-0.5}}) == limit);
  CHECK(refused({.max_epochs = 1, .limit_predict_batches = Batches{-3}}) == limit);
  observed("C131", "limit 1.5", error(above));
  observed("C131", "limit -1", error(below));

  auto const interval = "fulgurite.options.val_check_interval";
  auto const part = refused({.max_epochs = 1, .val_check_interval = Fraction{1.5}});
  auto const across =
      refused({.max_epochs = 1, .val_check_interval = Fraction{0.5}, .check_val_every_n_epoch = std::nullopt});
  CHECK(part == interval);
  CHECK(across == interval);
  CHECK(refused({.max_epochs = 1, .val_check_interval = Fraction{0.0}}) == interval);
  CHECK(refused({.max_epochs = 1, .val_check_interval = 0}) == interval);
  CHECK(refused({.max_epochs = 1, .val_check_interval = std::chrono::seconds(0)}) == interval);
  observed("C131", "V 1.5", error(part));
  observed("C131", "V(.5) N_v none", error(across));

  // The text of a time is read, and is DD:HH:MM:SS.
  CHECK(toy::refusal([] { static_cast<void>(ValidationInterval("1:2")); }) == "fulgurite.options.time");
  CHECK(toy::refusal([] { static_cast<void>(TrainerOptions{.max_time = "1h"}); }) == "fulgurite.options.time");
}

TEST_CASE("C132 overfit_batches: the same first batches of training and of validation") {
  auto fit = [](Limit few, int epochs, int n, int m) {
    Receives model;
    toy::train<Receives>({.max_epochs = epochs, .num_sanity_val_steps = 0, .overfit_batches = few}, Automatic{})
        .fit(model, toy::batches(n), toy::batches(m, 100));
    return model;
  };
  auto const two = fit(2, 2, 10, 10), tenth = fit(Fraction{0.1}, 1, 20, 30);
  CHECK(observed("C132", "2: train", two.trained) == Numbers{0, 1, 0, 1});
  CHECK(observed("C132", "2: val", two.validated) == Numbers{100, 101, 100, 101});
  CHECK(observed("C132", ".1 of 20", tenth.trained.size()) == 2);
  CHECK(observed("C132", ".1 of 30", tenth.validated.size()) == 3);
}

TEST_CASE("C134 two loaders side by side: a limit of 2 is of both, a half is of each") {
  auto pairs = [](Limit limit) {
    Paired model;
    auto both = data::combined<data::CombineMode::min_size>(toy::batches(4, 1), toy::batches(4, 3));
    toy::train<Paired>({.max_epochs = 1, .limit_train_batches = limit}, Automatic{}).fit(model, both);
    return model.pairs;
  };
  std::vector<std::pair<double, double>> const expected{{1, 3}, {2, 4}};
  CHECK(observed("C134", "2", pairs(2)) == expected);
  CHECK(observed("C134", ".5", pairs(Fraction{0.5})) == expected);
}

// Lightning: a list alone for one loader, none without a return; here each loader has its list, and a step that returns
// nothing does not compile (tests/nocompile/model.predict_result.cpp).
namespace {
struct HearsPredictions {
  using Stateless = ByChoice;
  Numbers all = {};
  void on_predict_batch_end(double output, double, auto&) { all.push_back(output); }
};
}  // namespace

TEST_CASE("C136 predict: a list for each loader, in order, of what predict_step returned") {
  Predicts model;
  auto trainer = toy::train<Predicts>({.max_epochs = 1}, Automatic{}, HearsPredictions{});
  auto const one = trainer.predict(model, toy::batches(2));
  REQUIRE(one.size() == 1);
  CHECK(observed("C136", "one", one.front()) == Numbers{0, 1});
  CHECK(observed("C136", "two", trainer.predict(model, std::tuple(toy::batches(1), toy::batches(2, 5)))) ==
        std::vector<Numbers>{{0}, {5, 6}});
  CHECK(toy::grad_enabled);
  // "no return": the step runs, callbacks hear what it returned, and the call has no result to keep.
  static_assert(std::is_void_v<decltype(trainer.predict(model, toy::batches(2), DiscardPredictions{}))>);
  trainer.callback<HearsPredictions>().all.clear();
  trainer.predict(model, toy::batches(2), DiscardPredictions{});
  CHECK(trainer.callback<HearsPredictions>().all == Numbers{0, 1});
}

TEST_CASE("C137 loaders are asked for once, or again every so many epochs, for validation when it next runs") {
  auto const never = requested(0), each = requested(1), second = requested(2), rare = requested(1, 2);
  CHECK(observed("C137", "0: train", never.train) == Words{"0"});
  CHECK(observed("C137", "0: val", never.val) == Words{"sanity"});
  CHECK(observed("C137", "1: train", each.train) == Words{"0", "1", "2", "3"});
  CHECK(observed("C137", "1: val", each.val) == Words{"sanity", "1", "2", "3"});
  CHECK(observed("C137", "2: train", second.train) == Words{"0", "2"});
  CHECK(observed("C137", "2: val", second.val) == Words{"sanity", "2"});
  CHECK(observed("C137", "1, N_v 2: train", rare.train) == Words{"0", "1", "2", "3"});
  CHECK(observed("C137", "1, N_v 2: val", rare.val) == Words{"sanity", "1", "3"});
}

TEST_CASE("C138 validation: gradients off, eval mode, both restored; in fit no_grad, alone inference mode unless it is "
          "switched off") {
  Modes model;
  auto trainer = toy::train<Modes>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{});
  trainer.fit(model, toy::batches(1), toy::batches(1));
  trainer.validate(model, toy::batches(1));
  toy::train<Modes>({.max_epochs = 1, .inference_mode = false}, Automatic{}).validate(model, toy::batches(1));
  CHECK(observed("C138", "grad, inference, training", model.seen) == Words{"F,F,F", "F,T,F", "F,F,F"});
  CHECK(observed("C138", "training afterwards", model.training));
  CHECK(toy::grad_enabled);
  CHECK_FALSE(toy::world.inference);
}

TEST_CASE("C139 barebones: no sanity check, no metric, validation still runs; a logger beside it is refused") {
  Receives model;
  auto trainer = toy::train<Receives>({.max_epochs = 1, .barebones = true}, Automatic{});
  trainer.fit(model, toy::batches(2), toy::batches(1));
  CHECK(observed("C139", "order", model.order) == Words{"train", "train", "val"});
  std::string which;
  CHECK(observed("C139", "with a logger",
                 outcome(
                     [&] {
                       toy::train<Receives>({.max_epochs = 1, .barebones = true}, Automatic{}, toy::Rows{})
                           .fit(model, toy::batches(2), toy::batches(1));
                     },
                     &which)) == "error");
  CHECK(which == "fulgurite.options.barebones");
}
