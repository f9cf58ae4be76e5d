// No replay goes unchecked: what a step asks its context for, what the model keeps on the host, and what nobody can see
// before a check. Captured and plain fit end with the same bits.

#include "captured_fits.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace captured_fits;

namespace {

/// A net whose step is given by the test, with the context.
template <class Step>
struct Asks : Common {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    ++ran;
    auto value = Step::of(F::cross_entropy(layer->forward(batch.data), batch.target), ctx);
    ctx.log(loss, value);
    return value;
  }
};
struct Epoch {
  static torch::Tensor of(torch::Tensor value, auto& ctx) { return ctx.current_epoch() >= 1 ? value * 2 : value; }
};
struct LastBatch {
  static torch::Tensor of(torch::Tensor value, auto& ctx) { return ctx.is_last_batch() ? value * 3 : value; }
};
struct GlobalStep {
  static torch::Tensor of(torch::Tensor value, auto& ctx) { return ctx.global_step() >= 40 ? value * 2 : value; }
};
struct BatchIndex {
  static torch::Tensor of(torch::Tensor value, auto& ctx) { return ctx.batch_idx() >= 15 ? value * 2 : value; }
};
struct TrainingBatches {
  static torch::Tensor of(torch::Tensor value, auto& ctx) { return value / double(*ctx.num_training_batches()); }
};
struct EstimatedSteps {
  static torch::Tensor of(torch::Tensor value, auto& ctx) { return value / double(*ctx.estimated_steps()); }
};
struct Rate {
  static torch::Tensor of(torch::Tensor value, auto& ctx) { return value * ctx.optimizer().lr(0); }
};
struct Stops {
  static torch::Tensor of(torch::Tensor value, auto& ctx) {
    if (ctx.global_step() == 1000) ctx.request_stop();
    return value;
  }
};

/// Asked for a loader in each epoch, it has ten batches more each time.
struct Grows {
  int asked = 0;
  std::vector<data::Batch> train_dataloader() { return batches(40 + 10 * asked++, 8); }
};

/// The usual layers, one of which a hook changes before batch `changed_at`, or time and again.
constexpr long changed_at = 40;
template <class Change, bool Often = false>
struct Layers : Common {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 16));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(16));
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Tanh(), torch::nn::Dropout(0.5), torch::nn::Linear(16, 3)));
  double factor = 1;
  long now = 0;
  void on_train_batch_start(auto&, auto&) {
    auto const batch = now++;
    if constexpr (Often) Change::of(*this, batch / 12 % 2 == 0);
    else if (batch == changed_at) Change::of(*this);
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(body->forward(norm->forward(first->forward(batch.data))) * factor, batch.target, ctx);
  }
};
struct Number {
  static void of(auto& net, bool half = true) { net.factor = half ? 0.5 : 0.25; }
};
struct ReplacesModule {
  static void of(auto& net) {
    torch::manual_seed(17);
    net.first = net.replace_module("first", torch::nn::Linear(6, 16));
  }
};
struct NewLayer {
  static void of(auto& net) {
    torch::manual_seed(17);
    net.body->push_back(torch::nn::Linear(3, 3));
  }
};
struct DropoutRate {
  static void of(auto& net, bool rarely = true) {
    net.body[1]->template as<torch::nn::Dropout>()->options.p(rarely ? 0.1 : 0.4);
  }
};
struct Momentum {
  static void of(auto& net) { net.norm->options.momentum(0.9); }
};
struct Eps {
  static void of(auto& net) { net.norm->options.eps(0.1); }
};
struct WeightMember {
  static void of(auto& net) { net.first->weight = torch::full({16, 6}, 0.01, torch::requires_grad()); }
};
struct BufferMember {
  static void of(auto& net) { net.norm->running_mean = torch::full({16}, 0.5); }
};

/// Nothing that a guard could see: a global.
struct Unseen {
  static inline double factor = 1;
  static inline long at = 0;
  torch::Tensor operator()(auto& net, auto const& batch) const { return plain_loss(net.body, batch) * factor; }
  static void before(auto&, long batch) { factor = batch >= at ? 0.5 : 1.0; }
};
/// A counter of a hook, which the step reads; it changes all the time.
struct Counted {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    return plain_loss(net.body, batch) * (net.now > Unseen::at ? 0.5 : 1.0);
  }
  static void before(auto&, long) {}
};
/// Asks for a stop after batch `stops_at`.
struct StopsAt {
  using Stateless = ByChoice;
  long stops_at = 0;
  void on_train_batch_end(auto& ctx) const {
    if (ctx.global_step() == stops_at) ctx.request_stop();
  }
};

/// Both fits; the captured one goes back once, and says so.
template <class Step>
CaptureReport goes_back(int epochs, int size, auto... callbacks) {
  auto written = fresh<With<Step>>(), captured = fresh<With<Step>>();
  auto const plain = fit(SingleDevice{cpu}, *written, batches(size, 8), {}, epochs, callbacks...);
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  same(fit(strategy, *captured, batches(size, 8), {}, epochs, callbacks...), plain);
  CHECK(report->reasons.size() == 1);
  CHECK(report->eager > 0);
  CHECK(report->replayed > 0);
  return *report;
}

}  // namespace

TEST_CASE("a step that asks for the epoch is recorded anew when it is another, one that asks for the last batch has "
          "two tapes") {
  auto const epoch = twice<Asks<Epoch>>(batches(125, 8), {}, 2).first;
  CHECK(epoch.reasons.empty());
  CHECK(epoch.tapes.size() == 2);
  CHECK(epoch.replayed > 200);
  auto const last = twice<Asks<LastBatch>>(batches(20, 8), {}, 8).first;
  CHECK(last.reasons.empty());
  CHECK(last.tapes.size() == 2);
}
TEST_CASE("a step that asks for the epoch is recorded anew in each of three, and ends as written, with no warning") {
  auto const epoch = twice<Asks<Epoch>>(batches(125, 8), {}, 3).first;
  CHECK(epoch.reasons.empty());
  CHECK(epoch.tapes.size() == 3);
  CHECK(epoch.replayed > 300);
}
TEST_CASE("a step that asks for a count of the fit is replayed, and recorded anew when the count is another") {
  for (auto const& report : {twice<Asks<TrainingBatches>>(batches(50, 8), {}, 2).first,
                             twice<Asks<EstimatedSteps>>(batches(50, 8), {}, 2).first}) {
    CHECK(report.reasons.empty());
    CHECK(report.tapes.size() == 1);
    CHECK(report.replayed > 80);
  }
  auto const trained = [](auto strategy) {
    auto model = fresh<Asks<TrainingBatches>>();
    Grows data;
    auto trainer = make_trainer<Asks<TrainingBatches>>({.max_epochs = 3, .reload_dataloaders_every_n_epochs = 1},
                                                       strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(*model, data);
    CHECK(trainer.warnings().empty());
    CHECK(data.asked == 3);
    return model->parameters();
  };
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto const plain = trained(SingleDevice{cpu}), captured = trained(strategy);
  for (std::size_t i = 0; i != plain.size(); ++i) CHECK(fixtures::same_bits(plain[i], captured[i]));
  CHECK(report->tapes.size() == 3);
  CHECK(report->replayed > 100);
}
TEST_CASE("what changes again and again is named as the user knows it: by its layer, or as a member") {
  auto const rate = twice<Layers<DropoutRate, true>>(batches(500, 8), {}, 1).first;
  REQUIRE(rate.reasons.size() == 1);
  CHECK_THAT(rate.reasons[0], Catch::Matchers::StartsWith("body.1 ") && Catch::Matchers::ContainsSubstring("Dropout") &&
                                  Catch::Matchers::EndsWith(", again and again"));
  CHECK_THAT(rate.reasons[0], !Catch::Matchers::ContainsSubstring("aten::"));
  auto const number = twice<Layers<Number, true>>(batches(500, 8), {}, 1).first;
  REQUIRE(number.reasons.size() == 1);
  CHECK(number.reasons[0] == "a member of the model has changed, again and again");
}
TEST_CASE(
    "a step that asks for a number which is another each time stays as written, and the warning names the question") {
  auto const step = twice<Asks<GlobalStep>>(batches(20, 8), {}, 4).first;
  CHECK(step.replayed == 0);
  REQUIRE(step.reasons.size() == 1);
  CHECK(step.reasons[0] == "training_step reads ctx.global_step(), which differs at each step");
  auto const index = twice<Asks<BatchIndex>>(batches(20, 8), {}, 4).first;
  CHECK(index.replayed == 0);
  REQUIRE(index.reasons.size() == 1);
  CHECK(index.reasons[0] == "training_step reads ctx.batch_idx(), which differs at each step");
  auto const rate = twice<Asks<Rate>>(batches(20, 8), {}, 4).first;
  CHECK(rate.replayed == 0);
  REQUIRE(rate.reasons.size() == 1);
  CHECK(rate.reasons[0] == "training_step reads ctx.optimizers(), which may differ each time");
  CHECK(twice<Asks<Stops>>(batches(20, 8), {}, 1).first.replayed == 0);
}

TEST_CASE("what a hook changes on the host is noticed before the next replay: a number, a module, a layer more, an "
          "option, a weight, a buffer") {
  for (auto const& report :
       {twice<Layers<Number>>(batches(50, 8), {}, 1).first, twice<Layers<DropoutRate>>(batches(50, 8), {}, 1).first,
        twice<Layers<Momentum>>(batches(50, 8), {}, 1).first, twice<Layers<Eps>>(batches(50, 8), {}, 1).first}) {
    CHECK(report.reasons.empty());
    CHECK(report.tapes.size() == 2);
    CHECK(report.replayed > 20);
  }
  CHECK(twice<Layers<ReplacesModule>>(batches(50, 8), {}, 1).first.replayed > 10);
  CHECK(twice<Layers<NewLayer>>(batches(50, 8), {}, 1).first.replayed > 10);
  CHECK(twice<Layers<WeightMember>>(batches(50, 8), {}, 1).first.replayed > 10);
  CHECK(twice<Layers<BufferMember>>(batches(50, 8), {}, 1).first.replayed > 10);
}

TEST_CASE("a number that no guard sees: the last batch, the first replay of an epoch or a stop finds it, and the fit "
          "goes back") {
  Unseen::at = 2300;  // of 2330
  goes_back<Unseen>(1, 2330);
  goes_back<Counted>(1, 2330);
  Unseen::at = 10;  // of 12
  goes_back<Unseen>(1, 12);
  Unseen::at = 30;  // in the fifth epoch of seven batches
  goes_back<Unseen>(8, 7);
  Unseen::at = 70;  // a stop follows after five batches
  goes_back<Unseen>(2, 60, StopsAt{75});
}

TEST_CASE("a fit that goes back ends with the average of the weights that the plain fit averages") {
  Unseen::at = 10;  // of 12
  goes_back<Unseen>(1, 12, WeightAveraging{});
  goes_back<Unseen>(1, 12, EMAWeightAveraging{{.decay = 0.5, .update_every_n_steps = 3}});
  Unseen::at = 30;  // in the fifth epoch of seven batches, in which averages are there already
  goes_back<Unseen>(8, 7, WeightAveraging{});
  goes_back<Unseen>(8, 7, StochasticWeightAveraging{{.swa_lrs = 0.01, .swa_epoch_start = 3, .annealing_epochs = 4}});
}

TEST_CASE("with going back switched off, a wrong replay is an Error that names it") {
  Unseen::at = 10;
  auto model = fresh<With<Unseen>>();
  try {
    fit(Captured{SingleDevice{cpu}, CaptureOptions{.go_back = false}}, *model, batches(12, 8), {}, 1);
    FAIL("went on");
  } catch (Error const& error) {
    CHECK(error.identifier() == "fulgurite.capture.wrong_replay");
    CHECK(std::string(error.what()).find("a global") != std::string::npos);
  }
}

namespace {

/// It keeps nothing that grows, whose place in memory would change now and then.
template <bool Last>
struct Plain : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto value = F::cross_entropy(layer->forward(batch.data), batch.target);
    return Last && ctx.is_last_batch() ? value * 3 : value;
  }
  auto configure_optimizers() { return FlatSgd(parameters()); }
};
template <class M>
CaptureReport counts(int epochs) {
  auto model = fresh<M>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto trainer = make_trainer<M>({.max_epochs = epochs}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(*model, batches(12, 8));
  CHECK(trainer.warnings().empty());
  return *report;
}

}  // namespace

TEST_CASE("a short fit ends checked: nothing is replayed after the last check, and the counts are exact") {
  auto const one = counts<Plain<false>>(1);
  CHECK(one.recorded == 6);  // two recordings, three checks before trust, one at the last batch
  CHECK(one.checked == 4);
  CHECK(one.replayed == 6);
  CHECK(one.confirmed == 0);
  auto const two = counts<Plain<false>>(2);
  CHECK(two.checked == 6);  // the first replay of the second epoch, and its last batch
  CHECK(two.replayed == 6 + 10);
  auto const other = counts<Plain<true>>(1);
  CHECK(other.replayed == 6);
  CHECK(other.confirmed == 1);  // the last batch is another kind: those before it are checked by one more step
}

namespace {

bool mentions(std::vector<std::string> const& warnings, std::string const& beginning) {
  for (auto const& warning : warnings)
    if (warning.starts_with(beginning)) return true;
  return false;
}
struct Throws {
  using Stateless = ByChoice;
  void on_train_batch_end(auto& ctx) const {
    if (ctx.global_step() == 9) throw std::runtime_error("enough");
  }
};
/// Every row that a logger is given.
struct Rows {
  using Stateless = ByChoice;
  std::vector<std::pair<long, double>> rows = {};
  void log_metrics(std::span<Scalar const> row, long step) { rows.emplace_back(step, row[0].value); }
};

}  // namespace

TEST_CASE("going back is told once, and loggers have each row once, with the values of the plain fit") {
  Unseen::at = 30;
  auto const rows = [](auto strategy, bool goes) {
    auto model = fresh<With<Unseen>>();
    torch::manual_seed(5);
    auto trainer = make_trainer<With<Unseen>>({.max_epochs = 8, .log_every_n_steps = 2}, strategy, Float32{},
                                              Automatic{}, Rows{}, NoDefaults{});
    trainer.fit(*model, batches(7, 8));
    CHECK(trainer.warnings().size() == (goes ? 1 : 0));
    CHECK(mentions(trainer.warnings(), "[fulgurite.capture.gone_back]") == goes);
    return trainer.template callback<Rows>().rows;
  };
  auto const plain = rows(SingleDevice{cpu}, false);
  CHECK(plain.size() > 20);
  CHECK(bool(rows(Captured{SingleDevice{cpu}}, true) == plain));
}

TEST_CASE("a fit that ends by an exception says how many replays were not checked") {
  auto model = fresh<Plain<false>>();
  auto trainer = make_trainer<Plain<false>>({.max_epochs = 1}, Captured{SingleDevice{cpu}}, Float32{}, Automatic{},
                                            Throws{}, NoDefaults{});
  CHECK_THROWS_AS(trainer.fit(*model, batches(12, 8)), std::runtime_error);
  CHECK(mentions(trainer.warnings(), "[fulgurite.capture.unchecked] 4 replayed steps"));
}

namespace {

/// A global that nobody sees changes before batch 95 or 100; what is seen to change soon after has nothing to do with
/// it: a member that the step does not read, or a layer that is frozen.
struct HiddenBehind : Common {
  enum class What { number, freezing };
  static inline What what = What::number;
  static inline long unseen_at = 100, seen_at = 103;
  static inline double unseen = 1;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::nn::Linear other = register_module("other", torch::nn::Linear(6, 3));
  double best = 0;
  long now = 0;
  void state(auto& archive) {
    archive("now", now)("best", best)("losses", losses)("ran", ran);
    kept.resize(losses.size());
  }
  void on_train_batch_start(auto&, auto&) {
    unseen = now >= unseen_at ? 0.5 : 1;
    if (now == seen_at && what == What::number) best = 3.25;
    if (now == seen_at && what == What::freezing) other->weight.set_requires_grad(false);
    ++now;
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified((layer->forward(batch.data) + other->forward(batch.data)) * unseen, batch.target, ctx);
  }
};
CaptureReport hidden(HiddenBehind::What what, long unseen_at, long seen_at,
                     Captured<SingleDevice<Cpu>> strategy = Captured{SingleDevice{cpu}}) {
  HiddenBehind::what = what;
  HiddenBehind::unseen_at = unseen_at;
  HiddenBehind::seen_at = seen_at;
  auto written = fresh<HiddenBehind>(), captured = fresh<HiddenBehind>();
  auto const plain = fit(SingleDevice{cpu}, *written, batches(125, 8), {}, 1);
  auto const report = strategy.report();
  same(fit(strategy, *captured, batches(125, 8), {}, 1), plain);
  return *report;
}

/// A hook freezes a weight after the step that a validation follows.
struct FreezesLate : Common {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::nn::Linear other = register_module("other", torch::nn::Linear(6, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(layer->forward(batch.data) + other->forward(batch.data), batch.target, ctx);
  }
  void validation_step(auto const&) {}
  void on_train_batch_end(auto&, auto&, auto& ctx) {
    if (ctx.batch_idx() == 39) other->weight.set_requires_grad(false);
  }
};

}  // namespace

TEST_CASE("what is seen to change does not vouch for the replays before it: they are checked as the model was then") {
  using What = HiddenBehind::What;
  auto const number = hidden(What::number, 100, 103);
  CHECK(number.reasons.size() == 1);
  CHECK(hidden(What::freezing, 95, 99).reasons.size() == 1);
  // A change alone: nothing is wrong, and the fit goes on with replays.
  for (auto const what : {What::number, What::freezing}) {
    auto const report = hidden(what, 100000, 103);
    CHECK(report.reasons.empty());
    CHECK(report.unproven == 0);
    CHECK(report.replayed > 80);
  }
  CHECK_THROWS_WITH(hidden(What::number, 100, 103, Captured{SingleDevice{cpu}, CaptureOptions{.go_back = false}}),
                    Catch::Matchers::StartsWith("[fulgurite.capture.wrong_replay]"));
}

TEST_CASE("a weight that a hook freezes between a replay and a validation is no wrong replay") {
  auto const weights = [](auto strategy) {
    auto model = fresh<FreezesLate>();
    auto trainer = make_trainer<FreezesLate>({.max_epochs = 1, .val_check_interval = 40, .num_sanity_val_steps = 0},
                                             strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(*model, batches(80, 8), batches(2, 8));
    CHECK(trainer.warnings().empty());
    return model->parameters();
  };
  auto const plain = weights(SingleDevice{cpu}), captured = weights(Captured{SingleDevice{cpu}});
  for (std::size_t i = 0; i != plain.size(); ++i) CHECK(fixtures::same_bits(plain[i], captured[i]));
}

namespace {

/// Rows, and how many batches after its own each has come.
struct LateRows {
  using Stateless = ByChoice;
  long now = 0, latest = 0, count = 0;
  void on_train_batch_end(auto& ctx) { now = ctx.logged_steps(); }
  void log_metrics(std::span<Scalar const>, long step) {
    ++count;
    latest = std::max(latest, now - step);
  }
};
/// A hook on a weight is no switch: what was before it cannot be checked any more.
struct HooksLate : Common {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(layer->forward(batch.data), batch.target, ctx);
  }
  void on_train_batch_start(auto&, auto& ctx) {
    if (ctx.batch_idx() == 30)
      layer->weight.register_hook([](torch::Tensor const& gradient) { return gradient * 0.5; });
  }
};

}  // namespace

TEST_CASE("with accumulation, too, there is a way back inside an epoch, and rows do not wait for its end") {
  auto const weights = [](auto strategy, long unseen_at, std::size_t warnings) {
    HiddenBehind::unseen_at = unseen_at;
    HiddenBehind::seen_at = 100000;
    auto model = fresh<HiddenBehind>();
    auto trainer = make_trainer<HiddenBehind>({.max_epochs = 1, .log_every_n_steps = 1}, strategy, Float32{},
                                              Automatic{.accumulate_grad_batches = 4}, LateRows{}, NoDefaults{});
    trainer.fit(*model, batches(2000, 8));
    CHECK(trainer.warnings().size() == warnings);
    for (auto const& warning : trainer.warnings()) {
      CHECK(warning.starts_with("[fulgurite.capture.gone_back]"));
      CHECK(warning.find("went back to batch 0 ") == std::string::npos);
    }
    CHECK(trainer.template callback<LateRows>().count == 501);
    CHECK(trainer.template callback<LateRows>().latest < 450);
    return model->parameters();
  };
  for (long const unseen_at : {800L, 100000L}) {
    auto const plain = weights(SingleDevice{cpu}, unseen_at, 0);
    auto const captured = weights(Captured{SingleDevice{cpu}}, unseen_at, unseen_at == 800 ? 1 : 0);
    for (std::size_t i = 0; i != plain.size(); ++i) CHECK(fixtures::same_bits(plain[i], captured[i]));
  }
}

TEST_CASE("replays before a change that cannot be undone for a check are told by a warning") {
  auto model = fresh<HooksLate>();
  auto trainer =
      make_trainer<HooksLate>({.max_epochs = 1}, Captured{SingleDevice{cpu}}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(*model, batches(50, 8));
  REQUIRE(trainer.warnings().size() == 1);
  CHECK(trainer.warnings()[0].starts_with("[fulgurite.capture.unchecked]"));
}

TEST_CASE("a fit that is closed inside an epoch has its replays checked, and a wrong one is an Error") {
  using Key = Run<With<Unseen>, Captured<SingleDevice<Cpu>>, Float32, Automatic>;
  for (bool const wrong : {false, true}) {
    Unseen::at = wrong ? 10 : 100000;
    auto model = fresh<With<Unseen>>();
    loop::State<Key> state(loop::Asked({.max_epochs = 1}), Automatic{}, Captured{SingleDevice{cpu}}, Float32{},
                           model.get());
    Pack<> pack{Slots<>{}};
    auto data = batches(40, 8);
    NoValidation none;
    loop::GivenLoaders<decltype(data), NoValidation> source{data, none};
    loop::OpenFit<Key, Pack<>, decltype(source)> fit(state, pack, source);
    for (int i = 0; i != 12; ++i) fit.advance();
    if (wrong) CHECK_THROWS_WITH(fit.close(), Catch::Matchers::StartsWith("[fulgurite.capture.wrong_replay]"));
    else CHECK_NOTHROW(fit.close());
  }
}
