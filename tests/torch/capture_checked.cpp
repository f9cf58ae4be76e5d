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

/// What a step asks its context.
enum class What { epoch, last_batch, global_step, batch_index, training_batches, estimated_steps, rate, stop };
struct Asks : Common {
  static inline What what = What::epoch;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::Tensor training_step(data::Batch const& batch, auto& ctx) {
    ++ran;
    auto value = F::cross_entropy(layer->forward(batch.data), batch.target) * answer(ctx);
    ctx.log(loss, value);
    return value;
  }
  double answer(auto& ctx) {
    switch (what) {
    case What::epoch: return ctx.current_epoch() >= 1 ? 2 : 1;
    case What::last_batch: return ctx.is_last_batch() ? 3 : 1;
    case What::global_step: return ctx.global_step() >= 40 ? 2 : 1;
    case What::batch_index: return ctx.batch_idx() >= 15 ? 2 : 1;
    case What::training_batches: return 1 / double(*ctx.num_training_batches());
    case What::estimated_steps: return 1 / double(*ctx.estimated_steps());
    case What::rate: return ctx.optimizer().lr(0);
    case What::stop:
      if (ctx.global_step() == 1000) ctx.request_stop();
    }
    return 1;
  }
};
CaptureReport asked(What what, int size, int epochs) {
  Asks::what = what;
  return twice<Asks>(batches(size, 8), {}, epochs).first;
}

/// Asked for a loader in each epoch, it has ten batches more each time.
struct Grows {
  int asked = 0;
  std::vector<data::Batch> train_dataloader() { return batches(40 + 10 * asked++, 8); }
};

/// The usual layers, one of which a hook changes before batch `changed_at`, or time and again.
constexpr long changed_at = 40;
struct Layers : Common {
  static inline void (*change)(Layers&, bool) = nullptr;
  static inline bool often = false;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 16));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(16));
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Tanh(), torch::nn::Dropout(0.5), torch::nn::Linear(16, 3)));
  double factor = 1;
  long now = 0;
  void on_train_batch_start(auto&, auto&) {
    auto const batch = now++;
    if (often) change(*this, batch / 12 % 2 == 0);
    else if (batch == changed_at) change(*this, true);
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(body->forward(norm->forward(first->forward(batch.data))) * factor, batch.target, ctx);
  }
};
void other_number(Layers& net, bool half) { net.factor = half ? 0.5 : 0.25; }
void replaces_module(Layers& net, bool) {
  torch::manual_seed(17);
  net.first = net.replace_module("first", torch::nn::Linear(6, 16));
}
void new_layer(Layers& net, bool) {
  torch::manual_seed(17);
  net.body->push_back(torch::nn::Linear(3, 3));
}
void dropout_rate(Layers& net, bool rarely) { net.body[1]->as<torch::nn::Dropout>()->options.p(rarely ? 0.1 : 0.4); }
void momentum(Layers& net, bool) { net.norm->options.momentum(0.9); }
void eps(Layers& net, bool) { net.norm->options.eps(0.1); }
void weight_member(Layers& net, bool) { net.first->weight = torch::full({16, 6}, 0.01, torch::requires_grad()); }
void buffer_member(Layers& net, bool) { net.norm->running_mean = torch::full({16}, 0.5); }
CaptureReport changed(void (*change)(Layers&, bool), int size = 50, bool often = false) {
  Layers::change = change;
  Layers::often = often;
  return twice<Layers>(batches(size, 8), {}, 1).first;
}

/// Nothing that a guard could see: a global.
double unseen = 1;
long unseen_at = 0;
void changes_unseen(Given&, long batch) { unseen = batch >= unseen_at ? 0.5 : 1.0; }
torch::Tensor reads_unseen(Given& net, data::Batch const& batch) { return plain_loss(net.body, batch) * unseen; }
Does const hidden{reads_unseen, changes_unseen};
/// A counter of a hook, which the step reads; it changes all the time.
torch::Tensor reads_counter(Given& net, data::Batch const& batch) {
  return plain_loss(net.body, batch) * (net.now > unseen_at ? 0.5 : 1.0);
}

/// Both fits with the same bits; the report of the captured one.
CaptureReport both(Does does, int epochs, int size, Captured<SingleDevice<Cpu>> strategy, auto... callbacks) {
  auto written = fresh(does), captured = fresh(does);
  auto const plain = fit(SingleDevice{cpu}, *written, batches(size, 8), {}, epochs, callbacks...);
  auto const report = strategy.report();
  same(fit(strategy, *captured, batches(size, 8), {}, epochs, callbacks...), plain);
  return *report;
}
/// The captured one goes back once, and says so.
void goes_back(Does does, int epochs, int size, auto... callbacks) {
  auto const report = both(does, epochs, size, Captured{SingleDevice{cpu}}, callbacks...);
  CHECK(report.reasons.size() == 1);
  CHECK(report.eager > 0);
  CHECK(report.replayed > 0);
}

}  // namespace

TEST_CASE("a step that asks for the epoch is recorded anew when it is another, one that asks for the last batch has "
          "two tapes") {
  auto const epoch = asked(What::epoch, 125, 2);
  CHECK(epoch.reasons.empty());
  CHECK(epoch.tapes.size() == 2);
  CHECK(epoch.replayed > 200);
  auto const last = asked(What::last_batch, 20, 8);
  CHECK(last.reasons.empty());
  CHECK(last.tapes.size() == 2);
}
TEST_CASE("a step that asks for the epoch is recorded anew in each of three, and ends as written, with no warning") {
  auto const epoch = asked(What::epoch, 125, 3);
  CHECK(epoch.reasons.empty());
  CHECK(epoch.tapes.size() == 3);
  CHECK(epoch.replayed > 300);
}
TEST_CASE("a step that asks for a count of the fit is replayed, and recorded anew when the count is another") {
  for (auto const& report : {asked(What::training_batches, 50, 2), asked(What::estimated_steps, 50, 2)}) {
    CHECK(report.reasons.empty());
    CHECK(report.tapes.size() == 1);
    CHECK(report.replayed > 80);
  }
  Asks::what = What::training_batches;
  auto const trained = [](auto strategy) {
    auto model = fresh<Asks>();
    Grows data;
    auto trainer = make_trainer<Asks>({.max_epochs = 3, .reload_dataloaders_every_n_epochs = 1}, strategy, Float32{},
                                      Automatic{}, NoDefaults{});
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
  auto const rate = changed(dropout_rate, 500, true);
  REQUIRE(rate.reasons.size() == 1);
  CHECK_THAT(rate.reasons[0], Catch::Matchers::StartsWith("body.1 ") && Catch::Matchers::ContainsSubstring("Dropout") &&
                                  Catch::Matchers::EndsWith(", again and again"));
  CHECK_THAT(rate.reasons[0], !Catch::Matchers::ContainsSubstring("aten::"));
  auto const number = changed(other_number, 500, true);
  REQUIRE(number.reasons.size() == 1);
  CHECK(number.reasons[0] == "a member of the model has changed, again and again");
}
TEST_CASE(
    "a step that asks for a number which is another each time stays as written, and the warning names the question") {
  auto const step = asked(What::global_step, 20, 4);
  CHECK(step.replayed == 0);
  REQUIRE(step.reasons.size() == 1);
  CHECK(step.reasons[0] == "training_step reads ctx.global_step(), which changes too often");
  auto const index = asked(What::batch_index, 20, 4);
  CHECK(index.replayed == 0);
  REQUIRE(index.reasons.size() == 1);
  CHECK(index.reasons[0] == "training_step reads ctx.batch_idx(), which changes too often");
  auto const rate = asked(What::rate, 20, 4);
  CHECK(rate.replayed == 0);
  REQUIRE(rate.reasons.size() == 1);
  CHECK(rate.reasons[0] == "training_step reads ctx.optimizers(), which may differ each time");
  CHECK(asked(What::stop, 20, 1).replayed == 0);
}

TEST_CASE("what a hook changes on the host is noticed before the next replay: a number, a module, a layer more, an "
          "option, a weight, a buffer") {
  for (auto const& report : {changed(other_number), changed(dropout_rate), changed(momentum), changed(eps)}) {
    CHECK(report.reasons.empty());
    CHECK(report.tapes.size() == 2);
    CHECK(report.replayed > 20);
  }
  CHECK(changed(replaces_module).replayed > 10);
  CHECK(changed(new_layer).replayed > 10);
  CHECK(changed(weight_member).replayed > 10);
  CHECK(changed(buffer_member).replayed > 10);
}

TEST_CASE("a number that no guard sees: the last batch, the first replay of an epoch or a stop finds it, and the fit "
          "goes back") {
  unseen_at = 2300;  // of 2330
  goes_back(hidden, 1, 2330);
  goes_back({reads_counter}, 1, 2330);
  unseen_at = 10;  // of 12
  goes_back(hidden, 1, 12);
  unseen_at = 30;  // in the fifth epoch of seven batches
  goes_back(hidden, 8, 7);
  unseen_at = 70;  // a stop follows after five batches
  Given::stops_at = 75;
  goes_back(hidden, 2, 60);
  Given::stops_at = -1;
}

TEST_CASE("a fit that goes back ends with the average of the weights that the plain fit averages") {
  unseen_at = 10;  // of 12
  goes_back(hidden, 1, 12, WeightAveraging{});
  goes_back(hidden, 1, 12, EMAWeightAveraging{{.decay = 0.5, .update_every_n_steps = 3}});
  unseen_at = 30;  // in the fifth epoch of seven batches, in which averages are there already
  goes_back(hidden, 8, 7, WeightAveraging{});
  goes_back(hidden, 8, 7, StochasticWeightAveraging{{.swa_lrs = 0.01, .swa_epoch_start = 3, .annealing_epochs = 4}});
}

TEST_CASE("with going back switched off, a wrong replay is an Error that names it") {
  unseen_at = 10;
  auto model = fresh(hidden);
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
struct Plain : torch::nn::Module {
  static inline bool last = false;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto value = F::cross_entropy(layer->forward(batch.data), batch.target);
    return last && ctx.is_last_batch() ? value * 3 : value;
  }
  auto configure_optimizers() { return FlatSgd(parameters()); }
};
CaptureReport counts(int epochs, bool last = false) {
  Plain::last = last;
  auto model = fresh<Plain>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto trainer = make_trainer<Plain>({.max_epochs = epochs}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(*model, batches(12, 8));
  CHECK(trainer.warnings().empty());
  return *report;
}

}  // namespace

TEST_CASE("a short fit ends checked: nothing is replayed after the last check, and the counts are exact") {
  auto const one = counts(1);
  CHECK(one.recorded == 6);  // two recordings, three checks before trust, one at the last batch
  CHECK(one.checked == 4);
  CHECK(one.replayed == 6);
  CHECK(one.confirmed == 0);
  auto const two = counts(2);
  CHECK(two.checked == 6);  // the first replay of the second epoch, and its last batch
  CHECK(two.replayed == 6 + 10);
  auto const other = counts(1, true);
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
/// Every row that a logger is given, and how many batches after its own the latest has come.
struct Rows {
  using Stateless = ByChoice;
  std::vector<std::pair<long, double>> rows = {};
  long now = 0, latest = 0;
  void on_train_batch_end(auto& ctx) { now = ctx.logged_steps(); }
  void log_metrics(std::span<Scalar const> row, long step) {
    rows.emplace_back(step, row[0].value);
    latest = std::max(latest, now - step);
  }
};

}  // namespace

TEST_CASE("going back is told once, and loggers have each row once, with the values of the plain fit") {
  unseen_at = 30;
  auto const rows = [](auto strategy, bool goes) {
    auto model = fresh(hidden);
    torch::manual_seed(5);
    auto trainer = make_trainer<Given>({.max_epochs = 8, .log_every_n_steps = 2}, strategy, Float32{}, Automatic{},
                                       Rows{}, NoDefaults{});
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
  auto model = fresh<Plain>();
  auto trainer = make_trainer<Plain>({.max_epochs = 1}, Captured{SingleDevice{cpu}}, Float32{}, Automatic{}, Throws{},
                                     NoDefaults{});
  CHECK_THROWS_AS(trainer.fit(*model, batches(12, 8)), std::runtime_error);
  CHECK(mentions(trainer.warnings(), "[fulgurite.capture.unchecked] 4 replayed steps"));
}

namespace {

/// The global changes before batch 95 or 100; what is seen to change soon after has nothing to do with it: a member
/// that the step does not read, or a layer that is frozen.
long seen_at = 103;
void behind_number(Given& net, long batch) {
  changes_unseen(net, batch);
  if (batch == seen_at) net.factor = 3.25;
}
void behind_freezing(Given& net, long batch) {
  changes_unseen(net, batch);
  if (batch == seen_at) net.parameters()[0].set_requires_grad(false);
}
CaptureReport hides(void (*before)(Given&, long), long unseen_from, long seen_from,
                    Captured<SingleDevice<Cpu>> strategy = Captured{SingleDevice{cpu}}) {
  unseen_at = unseen_from;
  seen_at = seen_from;
  return both({reads_unseen, before}, 1, 125, strategy);
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
  auto const number = hides(behind_number, 100, 103);
  CHECK(number.reasons.size() == 1);
  CHECK(hides(behind_freezing, 95, 99).reasons.size() == 1);
  // A change alone: nothing is wrong, and the fit goes on with replays.
  for (auto* const before : {behind_number, behind_freezing}) {
    auto const report = hides(before, 100000, 103);
    CHECK(report.reasons.empty());
    CHECK(report.unproven == 0);
    CHECK(report.replayed > 80);
  }
  CHECK_THROWS_WITH(hides(behind_number, 100, 103, Captured{SingleDevice{cpu}, CaptureOptions{.go_back = false}}),
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

/// A hook on a weight is no switch: what was before it cannot be checked any more.
void hooks_late(Given& net, long batch) {
  if (batch == 30) net.parameters()[0].register_hook([](torch::Tensor const& gradient) { return gradient * 0.5; });
}

}  // namespace

TEST_CASE("with accumulation, too, there is a way back inside an epoch, and rows do not wait for its end") {
  auto const weights = [](auto strategy, std::size_t warnings) {
    auto model = fresh(hidden);
    auto trainer = make_trainer<Given>({.max_epochs = 1, .log_every_n_steps = 1}, strategy, Float32{},
                                       Automatic{.accumulate_grad_batches = 4}, Rows{}, NoDefaults{});
    trainer.fit(*model, batches(2000, 8));
    CHECK(trainer.warnings().size() == warnings);
    for (auto const& warning : trainer.warnings()) {
      CHECK(warning.starts_with("[fulgurite.capture.gone_back]"));
      CHECK(warning.find("went back to batch 0 ") == std::string::npos);
    }
    CHECK(trainer.template callback<Rows>().rows.size() == 501);
    CHECK(trainer.template callback<Rows>().latest < 450);
    return model->parameters();
  };
  for (long const at : {800L, 100000L}) {
    unseen_at = at;
    auto const plain = weights(SingleDevice{cpu}, 0);
    auto const captured = weights(Captured{SingleDevice{cpu}}, at == 800 ? 1 : 0);
    for (std::size_t i = 0; i != plain.size(); ++i) CHECK(fixtures::same_bits(plain[i], captured[i]));
  }
}

TEST_CASE("replays before a change that cannot be undone for a check are told by a warning") {
  auto model = fresh({usual_step, hooks_late});
  auto trainer =
      make_trainer<Given>({.max_epochs = 1}, Captured{SingleDevice{cpu}}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(*model, batches(50, 8));
  REQUIRE(trainer.warnings().size() == 1);
  CHECK(trainer.warnings()[0].starts_with("[fulgurite.capture.unchecked]"));
}

TEST_CASE("a fit that is closed inside an epoch has its replays checked, and a wrong one is an Error") {
  using Key = Run<Given, Captured<SingleDevice<Cpu>>, Float32, Automatic>;
  for (bool const wrong : {false, true}) {
    unseen_at = wrong ? 10 : 100000;
    auto model = fresh(hidden);
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
