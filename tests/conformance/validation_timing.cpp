// Section 11.2: after which batches validation runs, on sized and unsized loaders, by batches, by parts of an epoch and
// by a clock.
#include "observed.hpp"
#include "rows.hpp"

using namespace fulgurite;

namespace {

template <class Loader>
Places validations(TrainerOptions options, Loader&& loader) {
  toy::Validated model;
  options.num_sanity_val_steps = 0;
  auto trainer = toy::train<toy::Validated>(options, Automatic{}, Positions{});
  trainer.fit(model, loader, toy::batches(1));
  return trainer.template callback<Positions>().validations;
}

// A clock that moves when it is asked.
long now = 0, tick = 0;
TrainerOptions::Clock::time_point fake() {
  return TrainerOptions::Clock::time_point(std::chrono::seconds(now += tick));
}

/// Asks the clock once a batch in epochs that validation leaves out.
struct AsksTheClock {
  using Stateless = ByChoice;
  int every;
  void on_train_batch_end(auto& ctx) {
    if ((ctx.current_epoch() + 1) % every != 0) fake();
  }
};
/// How often each of five epochs validates.
Counts by_clock(long interval, int n, std::optional<int> every) {
  now = 0;
  tick = 1;
  toy::Validated model;
  TrainerOptions const options{.max_epochs = 5,
                               .val_check_interval = std::chrono::seconds(interval),
                               .check_val_every_n_epoch = every,
                               .num_sanity_val_steps = 0,
                               .now = &fake};
  auto trainer = toy::train<toy::Validated>(options, Automatic{}, Positions{}, AsksTheClock{every.value_or(1)});
  trainer.fit(model, toy::batches(n), toy::batches(1));
  Counts counts(5);
  for (auto [e, b] : trainer.callback<Positions>().validations) ++counts[static_cast<std::size_t>(e)];
  return counts;
}

/// Draws random numbers and logs in validation.
struct Draws {
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<v>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<double> drawn = {};
  Words order = {};
  toy::Tensor training_step(double) {
    drawn.push_back(toy::draw());
    order.push_back("train");
    return -p;
  }
  void validation_step(double, auto& ctx) {
    order.push_back("val");
    toy::draw();
    ctx.log(v, 1.0);
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
struct SeesMetrics {
  using Stateless = ByChoice;
  Words seen = {};
  std::vector<long> batches = {};
  void on_train_start(auto& ctx) { seen.push_back(ctx.value(Draws::v) ? "kept" : "absent"); }
  void on_train_epoch_end(auto& ctx) { seen.push_back(ctx.value(Draws::v) ? "there" : "absent"); }
  void on_validation_end(auto& ctx) { batches.push_back(ctx.num_eval_batches().value_or(0)); }
};

}  // namespace

TEST_CASE("C13 the default validates at each epoch's end") {
  CHECK(observed("C13", "V(1.0)", validations({.max_epochs = 2}, toy::batches(10))) == Places{{0, 9}, {1, 9}});
}

TEST_CASE("C14 parts of an epoch of 10 and of 64") {
  auto at = [](double part, int n) {
    return validations({.max_epochs = 2, .val_check_interval = Fraction{part}}, toy::batches(n));
  };
  CHECK(observed("C14", "V(.5)", at(0.5, 10)) == each_epoch(2, {4, 9}));
  CHECK(observed("C14", "V(.3)", at(0.3, 10)) == each_epoch(2, {2, 5, 8}));
  CHECK(observed("C14", "V(.25)", at(0.25, 10)) == each_epoch(2, {1, 3, 5, 7, 9}));
  CHECK(observed("C14", "V(.01)", at(0.01, 10)) == each_epoch(2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  CHECK(observed("C14", "n64 V(1/3)", at(1.0 / 3, 64)) == each_epoch(2, {20, 41, 62}));
}

TEST_CASE("C16 a count of batches starts again each epoch") {
  CHECK(observed("C16", "V(3)", validations({.max_epochs = 2, .val_check_interval = 3}, toy::batches(10))) ==
        each_epoch(2, {2, 5, 8}));
}

TEST_CASE("C17 without check_val_every_n_epoch batches are counted across epochs") {
  CHECK(observed("C17", "V(3)",
                 validations({.max_steps = 12, .val_check_interval = 3, .check_val_every_n_epoch = std::nullopt},
                             toy::batches(4))) == Places{{0, 2}, {1, 1}, {2, 0}, {2, 3}});
}

TEST_CASE("C18 every second epoch") {
  CHECK(observed("C18", "n2", validations({.max_epochs = 5, .check_val_every_n_epoch = 2}, toy::batches(2))) ==
        Places{{1, 1}, {3, 1}});
}

TEST_CASE("C20 an interval above the epoch's batches is refused before training, unless it counts across epochs") {
  toy::Validated model;
  auto trainer = toy::train<toy::Validated>({.max_epochs = 1, .val_check_interval = 5}, Automatic{}, Positions{});
  std::string which, said;
  CHECK(observed("C20", "V(5) n4",
                 outcome([&] { trainer.fit(model, toy::batches(4), toy::batches(1)); }, &which, &said)) == "error");
  CHECK(which == "fulgurite.options.val_check_interval");
  CHECK(said.find("5 batches is more than the 4") != std::string::npos);
  CHECK(model.seen.empty());
  CHECK(observed("C20", "V(5) n4 N_v none",
                 validations({.max_epochs = 2, .val_check_interval = 5, .check_val_every_n_epoch = std::nullopt},
                             toy::batches(4))) == Places{{1, 0}});
}

TEST_CASE("C21 a clock of 2 s a query, V(2 s), 5 steps: 5 validations") {
  now = 0;
  tick = 2;
  CHECK(observed("C21", "V(2 s)",
                 validations({.max_steps = 5, .val_check_interval = std::chrono::seconds(2), .now = &fake},
                             toy::batches(5))) == Places{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}});
}

TEST_CASE("C22 an interval of time across epochs: 0, 1, 0, 1, 0") {
  CHECK(observed("C22", "V(4 s)", by_clock(4, 2, std::nullopt)) == Counts{0, 1, 0, 1, 0});
}

TEST_CASE("C23 intervals of time in the epochs that validate") {
  CHECK(observed("C23", "N_v1 V(6 s) n8", by_clock(6, 8, 1)) == Counts{1, 1, 2, 1, 1});
  CHECK(observed("C23", "N_v2 V(6 s) n9", by_clock(6, 9, 2)) == Counts{0, 2, 0, 2, 0});
  CHECK(observed("C23", "N_v2 V(3 s) n9", by_clock(3, 9, 2)) == Counts{0, 3, 0, 3, 0});
  CHECK(observed("C23", "N_v2 V(20 s) n9", by_clock(20, 9, 2)) == Counts{0, 0, 0, 1, 0});
}

TEST_CASE("C24 an unsized loader of 7") {
  CHECK(observed("C24", "V(1.0)", validations({.max_epochs = 2}, toy::Unsized(7))) == each_epoch(2, {6}));
  CHECK(observed("C24", "V(3)", validations({.max_epochs = 2, .val_check_interval = 3}, toy::Unsized(7))) ==
        each_epoch(2, {2, 5}));
}

// Lightning: a limit above the loader's end never validates.
TEST_CASE("C25 limits on an unsized loader of 7; with D11 one above its end validates at the end") {
  CHECK(observed("C25", "limit 5", validations({.max_epochs = 2, .limit_train_batches = 5}, toy::Unsized(7))) ==
        each_epoch(2, {4}));
  CHECK(observed("C25", "limit 5 V(2)",
                 validations({.max_epochs = 2, .limit_train_batches = 5, .val_check_interval = 2}, toy::Unsized(7))) ==
        each_epoch(2, {1, 3}));
  CHECK(observed("C25", "limit 20", validations({.max_epochs = 2, .limit_train_batches = 20}, toy::Unsized(7))) ==
        each_epoch(2, {6}));
}

TEST_CASE("C26 unsized 7, K3 E2: steps at 2, 5, 6, validation after 6") {
  toy::Validated model;
  auto trainer = toy::train<toy::Validated>({.max_epochs = 2, .num_sanity_val_steps = 0},
                                            Automatic{.accumulate_grad_batches = 3}, Positions{});
  trainer.fit(model, toy::Unsized(7), toy::batches(1));
  auto const& at = trainer.callback<Positions>();
  CHECK(observed("C26", "steps", at.steps) == each_epoch(2, {2, 5, 6}));
  CHECK(observed("C26", "validations", at.validations) == each_epoch(2, {6}));
  CHECK(observed("C26", "gs", trainer.progress().global_step) == 6);
}

TEST_CASE(
    "C27 a Fraction of an unsized training loader, as limit or as validation interval, is refused before training") {
  toy::Validated model;
  std::string which;
  auto fit = [&](TrainerOptions options) {
    which.clear();
    return outcome(
        [&] { toy::train<toy::Validated>(options, Automatic{}).fit(model, toy::Unsized(4), toy::batches(1)); }, &which);
  };
  CHECK(observed("C27", "V(.5)", fit({.max_epochs = 1, .val_check_interval = Fraction{0.5}})) == "error");
  CHECK(which == "fulgurite.options.fraction_of_unsized");
  CHECK(observed("C27", "limit .5", fit({.max_epochs = 1, .limit_train_batches = Fraction{0.5}})) == "error");
  CHECK(which == "fulgurite.options.fraction_of_unsized");
  CHECK(model.seen.empty());
}

TEST_CASE("C29 the sanity check runs before training on min(2, limit) batches; its metrics, rows and random numbers "
          "leave no trace") {
  struct Ran {
    Draws model;
    SeesMetrics metrics;
    std::size_t rows;
  };
  auto fit = [](int sanity, int limit) {
    toy::world.rng = 7;
    Draws model;
    auto trainer = toy::train<Draws>(
        {.max_epochs = 1, .limit_val_batches = limit, .num_sanity_val_steps = sanity, .log_every_n_steps = 1},
        Automatic{}, SeesMetrics{}, toy::Rows{});
    trainer.fit(model, toy::batches(2), toy::batches(5));
    return Ran{model, trainer.callback<SeesMetrics>(), trainer.callback<toy::Rows>().rows.size()};
  };
  auto const with = fit(2, 1), without = fit(0, 1);
  CHECK(observed("C29", "order", with.model.order) == Words{"val", "train", "train", "val"});
  CHECK(observed("C29", "metric", with.metrics.seen) == Words{"absent", "there"});
  CHECK(with.model.drawn == without.model.drawn);
  CHECK(with.rows == without.rows);
  CHECK(observed("C29", "batches: 2 of 5", fit(2, 5).metrics.batches) == Counts{2, 5});
  CHECK(observed("C29", "batches: all of 3", fit(-1, 3).metrics.batches) == Counts{3, 3});
  CHECK(observed("C29", "batches: none of 3", fit(0, 3).metrics.batches) == Counts{3});
}
