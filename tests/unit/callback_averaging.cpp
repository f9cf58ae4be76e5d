// Averages of weights: what enters them, when validation, files and the trained model see them.
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;
using Numbers = std::vector<double>;

namespace {

/// P that keeps what each validation saw, and the learning rates: of each epoch, of all batches.
struct Watched : toy::P {
  Numbers validated = {}, rates = {}, all_rates = {};
  long fails_in_validation = -1;
  void on_train_batch_start(auto& ctx) {
    all_rates.push_back(ctx.optimizer().lr(0));
    if (ctx.batch_idx() == 0) rates.push_back(all_rates.back());
  }
  void validation_step(double) {
    validated.push_back(p.value());
    if (static_cast<long>(validated.size()) == fails_in_validation) throw Error("fulgurite.test.step", "a step failed");
  }
};

TrainerOptions epochs(int n) { return {.max_epochs = n, .num_sanity_val_steps = 0}; }

/// Asks for a file in one place of one epoch, and for a stop in one batch.
struct Saves {
  using Stateless = ByChoice;
  std::string where = "nowhere";
  int epoch = 0;
  toy::At stops = {-1, -1};
  void ask(std::string_view here, auto& ctx) {
    if (here == where && ctx.current_epoch() == epoch) ctx.request_checkpoint("file");
  }
  void on_train_batch_end(auto& ctx) {
    ask("batch", ctx);
    if (toy::Positions::here(ctx) != stops) return;
    ask("stop", ctx);
    ctx.request_stop();
  }
  void on_validation_end(auto& ctx) { ask("validation", ctx); }
  void on_train_epoch_end(auto& ctx) { ask("epoch", ctx); }
  void on_train_end(auto& ctx) {
    if (where == "end") ctx.request_checkpoint("file");
  }
};

/// A fit of `n` batches an epoch with one validation batch.
template <class C>
Watched fit(int n, TrainerOptions options, Automatic how, C callback, Saves saves = {}) {
  toy::world.files.clear();
  Watched model;
  toy::train<Watched>(std::move(options), how, std::move(callback), std::move(saves))
      .fit(model, toy::batches(n), toy::batches(1));
  return model;
}

double saved_weight() { return toy::world.files.at("file").weights.at(0); }
/// Gives a callback what the file has of the first one.
void load_from_file(auto& callback) {
  auto const state = from_text(toy::world.files.at("file").state);
  StateLoader loader(std::get<ArchiveNode::Object>(state.find("callbacks")->value).begin()->node);
  callback.state(loader);
}

/// Goes on from the file as a resumed run would: its weight, the state of its first callback.
template <class C>
Watched go_on(int more, C callback) {
  Watched model;
  model.p.set(saved_weight());
  load_from_file(callback);
  toy::train<Watched>(epochs(more), Automatic{}, std::move(callback), Saves{})
      .fit(model, toy::batches(2), toy::batches(1));
  return model;
}

template <class F>
void check_refused(F&& f, std::string_view identifier) {
  CHECK(toy::refusal(f) == identifier);
}

/// One parameter that 1 is added to in each step; a norm that sees batch + p. It logs as training_step may, in the pass
/// for statistics, too.
struct Normed : toy::P {
  static constexpr Metric<"seen"> metric{.on_step = Report::yes};
  using Metrics = MetricList<metric>;
  toy::Norm norm{};
  long fails_at = -1;
  toy::Tensor training_step(double batch, auto& ctx) {
    norm.see(batch + p.value());
    if (static_cast<long>(seen.size()) == fails_at) throw Error("fulgurite.test.step", "a step failed");
    seen.push_back(p.value());
    ctx.log(metric, toy::Tensor(batch));
    return -p;
  }
  void validation_step(double) {}
};

/// The same after each step, from 1.
struct Falling : Watched {
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, schedule::Step{1, 0.5}, {.interval = Interval::step}); }
};

/// A step for each number of a batch.
struct Sliced {
  using Hidden = toy::Tensor;
  struct Output {
    toy::Tensor loss, hidden;
  };
  toy::Tensor p = toy::Tensor::parameter(0.0);
  Output training_step(Numbers const&, std::optional<Hidden> const&) { return {-p, toy::Tensor(0.0)}; }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

struct Pair : toy::P {
  toy::Tensor q = toy::Tensor::parameter(0.0);
  bool has_weights = true;
  std::vector<toy::Tensor> buffer = {toy::Tensor(0.0)};
  std::vector<toy::Tensor> parameters() const { return has_weights ? std::vector{p, q} : std::vector<toy::Tensor>(); }
  std::vector<toy::Tensor> buffers() const { return buffer; }
  toy::Tensor training_step(double batch) {
    seen.push_back(p.value());
    buffer[0].set(batch);
    return -p - q - q;
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p, q}}; }
};

}  // namespace

TEST_CASE("weights averaged once an epoch: the first average is there for the second validation") {
  auto const model = fit(2, epochs(4), {}, WeightAveraging{RunningMean{}, EachEpoch{}});
  CHECK(model.validated == Numbers{2, 2, 3, 4});
  CHECK(model.p.value() == 5);
}

TEST_CASE("an averaging function of one's own: the share of the new weights, or each new average") {
  CHECK(fit(2, epochs(2), {}, WeightAveraging{[](long averaged) { return averaged == 3 ? 0.5 : 0.0; }}).p.value() ==
        2.5);
  auto const larger = [](auto const& average, auto const& weight, long averaged) {
    return average + weight * toy::Tensor(double(averaged));
  };
  CHECK(fit(3, epochs(1), {}, WeightAveraging{larger}).p.value() == 1 + 2 * 1 + 3 * 2);
}

TEST_CASE("averages move with optimizer steps, not batches; a stop's step counts") {
  CHECK(fit(4, epochs(1), {.accumulate_grad_batches = 2}, WeightAveraging{}).validated == Numbers{1.5});
  auto const stopped = fit(8, epochs(5), {.accumulate_grad_batches = 4}, WeightAveraging{}, {.stops = {0, 5}});
  CHECK(stopped.validated == Numbers{1.5});
  CHECK(stopped.p.value() == 1.5);
  auto options = epochs(1);
  options.val_check_interval = 1;
  CHECK(fit(4, options, {.accumulate_grad_batches = 2}, WeightAveraging{}).validated == Numbers{0, 1, 1, 1.5});
}

TEST_CASE("EMA: decay of the average, each n-th step, from a step on, at epochs' ends") {
  auto const p = [](EMAWeightAveragingOptions options) {
    return fit(2, epochs(2), {}, EMAWeightAveraging{options}).p.value();
  };
  CHECK(p({.decay = 0.75}) == 0.75 * (0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 3) + 0.25 * 4);
  CHECK(p({.decay = 0.5, .update_every_n_steps = 2}) == 0.5 * 1 + 0.5 * 3);
  CHECK(p({.decay = 0.5, .update_starting_at_step = 2}) == 0.5 * 3 + 0.5 * 4);
  CHECK(p({.decay = 0.5, .update_every_n_steps = 0, .update_starting_at_epoch = 0}) == 0.5 * 2 + 0.5 * 4);
  CHECK(p({.decay = 0.5, .update_starting_at_step = 9}) == 4);  // without an update the weights stay
  CHECK(fit(2, epochs(2), {}, EMAWeightAveraging{{.decay = 0.5, .update_starting_at_step = 9}}).validated ==
        Numbers{2, 4});
  CHECK(p({}) == Catch::Approx(1 + 0.001 * (1 + 1.999 + 2.997001)).epsilon(1e-12));
}

TEST_CASE("EMA: options that cannot be are one Error") {
  for (auto const& options : {EMAWeightAveragingOptions{.decay = 1.5}, EMAWeightAveragingOptions{.decay = -0.1},
                              EMAWeightAveragingOptions{.update_every_n_steps = -1},
                              EMAWeightAveragingOptions{.update_starting_at_step = -1}})
    check_refused([&] { EMAWeightAveraging{options}; }, "fulgurite.callback.ema_options");
}

TEST_CASE("buffers are averaged, or stay the model's own") {
  Pair with, without;
  toy::train<Pair>(epochs(1), Automatic{}, WeightAveraging{}).fit(with, toy::batches(3));
  CHECK(with.p.value() == 2);
  CHECK(with.q.value() == 4);
  CHECK(with.buffer[0].value() == 1);
  toy::train<Pair>(epochs(1), Automatic{}, WeightAveraging{RunningMean{}, EachStep{}, {.use_buffers = false}})
      .fit(without, toy::batches(3));
  CHECK(without.q.value() == 4);
  CHECK(without.buffer[0].value() == 2);
}

TEST_CASE("the sanity check and trainer.validate see the model's weights as they are") {
  Watched model;
  auto trainer = toy::train<Watched>({.max_epochs = 1}, Automatic{}, WeightAveraging{}, Saves{});
  trainer.fit(model, toy::batches(2), toy::batches(1));
  CHECK(model.validated == Numbers{0, 1.5});
  trainer.validate(model, toy::batches(1));
  CHECK(model.validated == Numbers{0, 1.5, 1.5});
}

TEST_CASE("an exception in a validation gives the weights in training back") {
  Watched model;
  model.fails_in_validation = 2;
  auto trainer = toy::train<Watched>(epochs(4), Automatic{}, WeightAveraging{}, Saves{});
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(2), toy::batches(1)), Error);
  CHECK(model.validated == Numbers{1.5, 2.5});
  CHECK(model.p.value() == 4);
}

TEST_CASE("files: the model's weights are the average, the callback's state has those in training, and a resumed run "
          "goes on from them") {
  auto const whole = fit(2, epochs(4), {}, WeightAveraging{});
  for (auto const* where : {"batch", "validation", "epoch"}) {
    INFO(where);
    auto const model = fit(2, epochs(4), {}, WeightAveraging{}, {where, 1});
    CHECK(model.validated == whole.validated);
    CHECK(model.p.value() == 4.5);
    CHECK(saved_weight() == 2.5);
    auto const resumed = go_on(2, WeightAveraging{});
    CHECK(resumed.seen == Numbers{4, 5, 6, 7});
    CHECK(resumed.validated == Numbers{3.5, 4.5});
    CHECK(resumed.p.value() == 4.5);
  }
  // Written when all is over, it can still be trained on from where training was.
  fit(2, epochs(2), {}, WeightAveraging{}, {"end"});
  CHECK(saved_weight() == 2.5);
  CHECK(go_on(2, WeightAveraging{}).validated == Numbers{3.5, 4.5});
}

TEST_CASE("files: before any update they hold the weights; one that cannot be written leaves the weights in training") {
  auto const late = EMAWeightAveraging{{.update_starting_at_step = 9}};
  fit(2, epochs(1), {}, late, {"epoch"});
  CHECK(saved_weight() == 2);
  Watched model;
  auto trainer = toy::train<Watched>(epochs(2), Automatic{}, WeightAveraging{}, Saves{"epoch"});
  toy::world.disk_full = true;
  CHECK_THROWS(trainer.fit(model, toy::batches(2), toy::batches(1)));
  toy::world.disk_full = false;
  CHECK(model.p.value() == 2);
}

TEST_CASE("files: one written with a stop's step has that step in its average") {
  toy::world.saved.clear();
  auto const model = fit(8, epochs(5), {.accumulate_grad_batches = 4}, WeightAveraging{}, {"stop", 0, {0, 5}});
  REQUIRE(toy::world.saved.size() == 1);
  CHECK(saved_weight() == 1.5);
  CHECK(model.p.value() == 1.5);
}

TEST_CASE("an average of another model is refused") {
  fit(2, epochs(1), {}, WeightAveraging{}, {"epoch"});
  WeightAveraging<> callback;
  load_from_file(callback);
  Pair model;
  check_refused([&] { toy::train<Pair>(epochs(1), Automatic{}, callback).fit(model, toy::batches(1)); },
                "fulgurite.callback.average_mismatch");
}

TEST_CASE("SWA: a schedule that moves each step stands still, too") {
  Falling model;
  toy::train<Falling>(epochs(3), Automatic{},
                      StochasticWeightAveraging{{.swa_lrs = 0.125, .swa_epoch_start = 2, .annealing_epochs = 1}})
      .fit(model, toy::batches(2), toy::batches(1));
  CHECK(model.all_rates == Numbers{1, 0.5, 0.25, 0.25, 0.125, 0.125});
}

TEST_CASE("SWA: LearningRateMonitor tells the rates that it has set, wherever it is listed") {
  Watched model;
  auto trainer = toy::train<Watched>(
      epochs(3), {}, LearningRateMonitor{{.logging_interval = Interval::epoch}},
      StochasticWeightAveraging{{.swa_lrs = 0.5, .swa_epoch_start = 2, .annealing_epochs = 0}}, toy::Rows{});
  trainer.fit(model, toy::batches(1), toy::batches(1));
  CHECK(trainer.callback<LearningRateMonitor>().lrs().at("lr-SGD") == Numbers{1, 0.5, 0.5});
}

TEST_CASE("SWA: an averaging function stands before the options, as in WeightAveraging") {
  StochasticWeightAveragingOptions const options{.swa_lrs = 1.0, .swa_epoch_start = 1, .annealing_epochs = 0};
  auto const newest = [](long) { return 1.0; };
  CHECK(fit(2, epochs(4), {}, StochasticWeightAveraging{options}).p.value() == 5);
  CHECK(fit(2, epochs(4), {}, StochasticWeightAveraging{newest, options}).p.value() == 8);
}

TEST_CASE("SWA: no annealing is a jump") {
  CHECK(fit(1, epochs(3), {}, StochasticWeightAveraging{{.swa_lrs = 0.5, .swa_epoch_start = 2, .annealing_epochs = 0}})
            .rates == Numbers{1, 0.5, 0.5});
}

TEST_CASE("SWA with a batch norm: a stop before max_epochs is an end like any other; one before the start epoch leaves "
          "weights and statistics alone") {
  Normed model;
  toy::train<Normed>(epochs(6), Automatic{}, StochasticWeightAveraging{{.swa_lrs = 1.0, .swa_epoch_start = 1}},
                     Saves{.stops = {1, 3}})
      .fit(model, toy::batches(4), toy::batches(1));
  CHECK(model.p.value() == 6);
  CHECK(model.seen.size() == 12);
  CHECK(model.norm.mean == Catch::Approx(6 + 1.5));
  Normed early;
  toy::train<Normed>(epochs(6), Automatic{}, StochasticWeightAveraging{{.swa_lrs = 1.0}}, Saves{.stops = {1, 3}})
      .fit(early, toy::batches(4), toy::batches(1));
  CHECK(early.p.value() == 8);
  CHECK(early.seen.size() == 8);
}

TEST_CASE("SWA with a batch norm: an exception in the pass for statistics restores the momentum") {
  Normed model;
  model.fails_at = 9;
  auto trainer = toy::train<Normed>(epochs(2), Automatic{},
                                    StochasticWeightAveraging{{.swa_lrs = 1.0, .swa_epoch_start = 1}}, Saves{});
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(4), toy::batches(1)), Error);
  CHECK(model.norm.momentum == 0.1);
}

TEST_CASE("SWA: its state holds the average and the annealing") {
  StochasticWeightAveragingOptions const options{.swa_lrs = 0.25, .swa_epoch_start = 2, .annealing_epochs = 2};
  fit(2, epochs(5), {}, StochasticWeightAveraging{options}, {"epoch", 2});
  StochasticWeightAveraging<> loaded{options}, again{options};
  load_from_file(loaded);
  CHECK(loaded.n_averaged() == 2);
  load_state_text(again, state_text(loaded));
  CHECK(state_text(again) == state_text(loaded));
  CHECK(saved_weight() == 2 + 2 + 2 * 0.625);  // the weights in training
}

TEST_CASE("SWA: stopped in any epoch, a run that goes on from its file ends with the bits of the unbroken one") {
  StochasticWeightAveragingOptions const options{.swa_lrs = 0.25, .swa_epoch_start = 2, .annealing_epochs = 2};
  auto const fit = [&](Watched& model, Saves saves, std::optional<CkptPath> const& from) {
    auto trainer = toy::train<Watched>(epochs(5), Automatic{}, StochasticWeightAveraging{options}, std::move(saves));
    trainer.fit(model, toy::batches(2), toy::batches(1), from);
    return state_text(trainer.template callback<StochasticWeightAveraging>());
  };
  for (auto const* where : {"batch", "validation", "epoch"})
    for (int epoch = 0; epoch != 5; ++epoch) {
      INFO(where << " of epoch " << epoch);
      toy::world.files.clear();
      Watched whole, resumed;
      auto const state = fit(whole, {where, epoch}, std::nullopt);
      CHECK(whole.p.value() == Catch::Approx((4 + 5.25 + 5.75 + 6.25) / 4));
      REQUIRE(toy::world.files.size() == 1);
      CHECK(fit(resumed, {"nowhere", 0}, CkptPath{"file"}) == state);
      CHECK(resumed.p.value() == whole.p.value());
      CHECK(resumed.seen.size() < whole.seen.size());
      auto const after = whole.seen.end() - static_cast<std::ptrdiff_t>(resumed.seen.size());
      CHECK(resumed.seen == Numbers(after, whole.seen.end()));
    }
}

TEST_CASE("SWA: what cannot be is one Error before training") {  // W63, W64
  auto const made = [](StochasticWeightAveragingOptions options) {
    return [options] { StochasticWeightAveraging{options}; };
  };
  check_refused(made({.swa_lrs = 0.0}), "fulgurite.callback.swa_options");
  check_refused(made({.swa_lrs = {0.1, -1.0}}), "fulgurite.callback.swa_options");
  check_refused(made({.swa_lrs = 1.0, .swa_epoch_start = 0}), "fulgurite.callback.swa_options");
  check_refused(made({.swa_lrs = 1.0, .swa_epoch_start = Fraction{1.5}}), "fulgurite.callback.swa_options");
  check_refused(made({.swa_lrs = 1.0, .swa_epoch_start = Fraction{-0.1}}), "fulgurite.callback.swa_options");
  check_refused(made({.swa_lrs = 1.0, .annealing_epochs = -1}), "fulgurite.callback.swa_options");

  auto const refused = [](TrainerOptions options, StochasticWeightAveragingOptions swa, std::string_view identifier) {
    Watched model;
    check_refused(
        [&] {
          toy::train<Watched>(options, Automatic{}, StochasticWeightAveraging{swa}, Saves{})
              .fit(model, toy::batches(1), toy::batches(1));
        },
        identifier);
    CHECK(model.seen.empty());
  };
  refused({.max_epochs = -1, .max_steps = 1}, {.swa_lrs = 1.0}, "fulgurite.callback.swa_needs_max_epochs");
  refused({.max_steps = 1}, {.swa_lrs = 1.0}, "fulgurite.callback.swa_needs_max_epochs");
  refused(epochs(1), {.swa_lrs = {1.0, 2.0}}, "fulgurite.callback.swa_options");
}

TEST_CASE("a model without parameters is refused before training") {
  Pair model;
  model.has_weights = false;
  model.buffer.clear();
  check_refused([&] { toy::train<Pair>(epochs(1), Automatic{}, WeightAveraging{}).fit(model, toy::batches(1)); },
                "fulgurite.callback.nothing_to_average");
  CHECK(model.seen.empty());
}

static_assert(StochasticWeightAveraging<>::needs_automatic);

TEST_CASE("SWA with a frozen batch norm: its statistics stay, and no pass is made for it") {
  Normed model;
  model.norm = {.mean = 3, .training = false};
  toy::train<Normed>(epochs(2), Automatic{}, StochasticWeightAveraging{{.swa_lrs = 1.0, .swa_epoch_start = 1}}, Saves{})
      .fit(model, toy::batches(4), toy::batches(1));
  CHECK(model.norm.mean == 3);
  CHECK(model.norm.momentum == 0.1);
  CHECK(model.seen.size() == 8);
  {
    auto const scope = toy::Backend::reset_batch_norm(model);
    CHECK(model.norm.momentum == 0.1);
  }
  CHECK(model.norm.mean == 3);
}

TEST_CASE("several steps in one batch: one update where an n-th was among them, each step is asked about") {
  Sliced model;
  std::vector<long> asked;
  auto const each_fourth = [&](std::optional<long> step, std::optional<int>) {
    if (step) asked.push_back(*step);
    return step && *step % 4 == 0;
  };
  auto trainer =
      toy::train<Sliced>(epochs(1), {.tbptt = 1}, EMAWeightAveraging{{.decay = 0.5, .update_every_n_steps = 4}});
  trainer.fit(model, std::vector<Numbers>(4, Numbers(3)));  // steps 0 1 2, 3 4 5, 6 7 8, 9 10 11
  CHECK(trainer.progress().global_step == 12);
  CHECK(trainer.callback<EMAWeightAveraging>().n_averaged() == 3);
  CHECK(model.p.value() == 0.5 * (0.5 * 3 + 0.5 * 6) + 0.5 * 9);
  Sliced other;
  toy::train<Sliced>(epochs(1), {.tbptt = 1}, WeightAveraging{RunningMean{}, each_fourth})
      .fit(other, std::vector<Numbers>(2, Numbers(3)));
  CHECK(asked == std::vector<long>{0, 1, 2, 3, 4, 5});
  CHECK(other.p.value() == (3 + 6) / 2.0);
}

TEST_CASE("a fast_dev_run validates the average, as a run does") {
  auto const model = fit(2, {.fast_dev_run = 2}, {}, WeightAveraging{});
  CHECK(model.validated == Numbers{1.5});
  CHECK(model.p.value() == 1.5);
}

namespace {

/// A moment of a fit, for hooks that are called by hand: a fit that goes back to an earlier step looks like that.
struct Moment {
  using Backend = toy::Backend;
  Watched& net;
  toy::Sgd& sgd;
  TrainerOptions given = epochs(5);
  long step = 0;
  int epoch = 0;
  Watched& model() const { return net; }
  TrainerOptions const& options() const { return given; }
  Stage stage() const { return Stage::fit; }
  bool sanity_checking() const { return false; }
  long global_step() const { return step; }
  int current_epoch() const { return epoch; }
  void each_optimizer(auto&& f) { f(0, sgd); }
  void each_scheduler(auto&&) {}
  void request_statistics_pass() {}
};
/// What a fit that goes back keeps of the callback and of the weights, and how it puts that back.
struct Kept {
  ArchiveNode state = {};
  double p;
  Kept(auto& callback, Watched const& model) : p(model.p.value()) {
    StateSaver saver(state);
    callback.state(saver);
  }
  void put_back(auto& callback, Watched& model) const {
    model.p.set(p);
    StateLoader loader(state);
    callback.state(loader);
  }
};
/// The weights move to `values`, a step each.
void steps(auto& callback, Moment& ctx, Numbers const& values) {
  for (double const value : values) {
    ctx.net.p.set(value);
    ++ctx.step;
    callback.on_train_batch_end(ctx);
  }
}
double averaged(auto& callback, Moment& ctx) {
  callback.before_save(ctx);
  double const average = ctx.net.p.value();
  callback.after_save(ctx);
  return average;
}

}  // namespace

TEST_CASE("a fit that goes back: average, count and the steps that were looked at are those of then, files have the "
          "average of now, and the next fit begins anew") {
  Watched model;
  toy::Sgd sgd{{model.p}};
  Moment ctx{model, sgd};
  EMAWeightAveraging callback{{.decay = 0.5}};
  callback.on_train_start(ctx);
  bool const has_average = GENERATE(false, true);
  if (has_average) steps(callback, ctx, {4, 8});
  long const then = ctx.step;
  Kept const kept(callback, model);
  steps(callback, ctx, {100, 200, 300});  // replayed wrongly
  kept.put_back(callback, model);
  ctx.step = then;
  CHECK(callback.n_averaged() == (has_average ? 2 : 0));
  CHECK(averaged(callback, ctx) == (has_average ? 6 : 0));
  CHECK(model.p.value() == (has_average ? 8 : 0));
  steps(callback, ctx, {10, 12});
  CHECK(callback.n_averaged() == (has_average ? 4 : 2));
  CHECK(averaged(callback, ctx) == (has_average ? 10 : 11));
  Kept const later(callback, model);
  steps(callback, ctx, {14});
  later.put_back(callback, model);
  --ctx.step;
  CHECK(averaged(callback, ctx) == (has_average ? 10 : 11));

  callback.on_train_end(ctx);
  callback.teardown(ctx);
  ctx.step = 0;
  callback.on_train_start(ctx);
  CHECK(callback.n_averaged() == 0);
}

TEST_CASE("a state that does not fit, loaded inside a fit, leaves the average as it was") {
  Watched model;
  toy::Sgd sgd{{model.p}};
  Moment ctx{model, sgd};
  WeightAveraging callback;
  callback.on_train_start(ctx);
  steps(callback, ctx, {4, 8});
  auto const text = state_text(callback);
  auto other = text;
  auto const at = other.find("n_averaged");
  REQUIRE(at != std::string::npos);
  other.replace(at, 1, "m");
  CHECK_THROWS_AS(load_state_text(callback, other), Error);
  steps(callback, ctx, {12});
  CHECK(callback.n_averaged() == 3);
  CHECK(averaged(callback, ctx) == 8);
  CHECK(state_text(callback) != text);
}

TEST_CASE("SWA: a fit that goes back to the first batch of its start epoch anneals from the same rate and keeps the "
          "average; the next fit begins anew") {
  StochasticWeightAveragingOptions const options{
      .swa_lrs = 0.25, .swa_epoch_start = 2, .annealing_epochs = 2, .annealing_strategy = Annealing::linear};
  auto const run = [&](bool goes_back) {
    Watched model;
    toy::Sgd sgd{{model.p}};
    Moment ctx{model, sgd};
    StochasticWeightAveraging callback{options};
    Numbers rates;
    callback.on_fit_start(ctx);
    callback.on_train_start(ctx);
    for (ctx.epoch = 0; ctx.epoch != 4; ++ctx.epoch) {
      callback.on_train_epoch_start(ctx);
      Kept const kept(callback, model);
      callback.on_train_batch_start(ctx);
      if (goes_back) {
        model.p.set(-1);
        kept.put_back(callback, model);
        callback.on_train_batch_start(ctx);
      }
      rates.push_back(sgd.lr(0));
      model.p.set(ctx.epoch);
      callback.on_train_epoch_end(ctx);
    }
    CHECK(callback.n_averaged() == 3);
    auto const saved = state_text(callback);
    callback.on_train_end(ctx);
    CHECK(model.p.value() == 2);
    callback.teardown(ctx);
    callback.on_train_start(ctx);
    CHECK(callback.n_averaged() == 0);
    CHECK(state_text(callback).find("\"initial\":[]") != std::string::npos);
    return std::pair(rates, saved);
  };
  auto const plain = run(false);
  CHECK(plain.first == Numbers{1, 1, 0.625, 0.25});
  auto const back = run(true);
  CHECK(back.first == plain.first);
  CHECK(back.second == plain.second);
}
