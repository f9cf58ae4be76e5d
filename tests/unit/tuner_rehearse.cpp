// Steps that are tried out and put back: whatever they were, and however they end.
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/callback/signals.hpp>

#include "models.hpp"
#include "recording.hpp"
#include "rows.hpp"

using namespace fulgurite;

namespace {

/// Draws in each step; momentum and a schedule make each step depend on all before it.
struct Draws {
  static constexpr Metric<"loss"> loss{};
  using Metrics = MetricList<loss>;
  toy::Tensor p = toy::Tensor::parameter(1.0), q = toy::Tensor::parameter(0.5), seen = toy::Tensor(0.0);
  long steps = 0;
  std::function<void(long)> act = nullptr;
  bool readable = true;  ///< false: loading what it has saved fails
  std::vector<toy::Tensor> parameters() const { return {p, q}; }
  std::vector<toy::Tensor> buffers() const { return {seen}; }
  toy::Tensor training_step(double batch, auto& ctx) {
    if (act) act(steps);
    ++steps;
    seen.set(seen.value() + batch);
    auto value = p * p * toy::Tensor(0.01 * (batch + toy::draw())) + q * p * toy::Tensor(0.01);
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() {
    return scheduled(
        toy::Sgd{.params = {p, q}, .rate = 0.1, .momentum = 0.9},
        [](long n) { return 1.0 / (1.0 + static_cast<double>(n)); }, ScheduleOptions{.interval = Interval::step});
  }
  template <class Archive>
  void state(Archive& archive) {
    if (Archive::loading && !readable) throw std::bad_alloc();
    archive("steps", steps);
  }
};

/// Shuffled anew in each pass, by the library's generator.
class Shuffled {
 public:
  explicit Shuffled(int n) : n_(n) {}
  auto begin() {
    if (at_ == 0) shuffle();
    return Iterator{this};
  }
  std::default_sentinel_t end() const { return {}; }
  std::size_t breaks_at = 99;

 protected:
  struct Iterator {
    Shuffled* of;
    double operator*() const {
      if (of->at_ == of->breaks_at) throw std::runtime_error("no such batch");
      return of->batches_[of->at_];
    }
    Iterator& operator++() {
      ++of->at_;
      return *this;
    }
    bool operator!=(std::default_sentinel_t) const {
      if (of->at_ != of->batches_.size()) return true;
      of->at_ = 0;
      return false;
    }
  };
  void shuffle() {
    batches_.clear();
    ++passes_;
    for (int i = 0; i != n_; ++i) batches_.push_back(toy::draw() + static_cast<double>(passes_));
  }
  int n_;
  std::size_t at_ = 0;
  long passes_ = 0;
  std::vector<double> batches_{};
};
/// How far it is it says by itself.
struct Keeping : Shuffled {
  using Shuffled::Shuffled;
  void state(auto& archive) { archive("at", at_)("batches", batches_)("passes", passes_); }
};
/// It is told where its next pass begins.
struct Jumping : Shuffled {
  using Shuffled::Shuffled;
  std::size_t from = 0;
  auto begin() {
    shuffle();
    at_ = std::exchange(from, 0);
    return Iterator{this};
  }
  void set_epoch(long epoch) { passes_ = epoch; }
  void resume_at(long batch) { from = static_cast<std::size_t>(batch); }
};

struct Taped {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(toy::Tensor const& batch) { return p * batch; }
  toy::Sgd configure_optimizers() { return {{p}}; }
};

/// Asks for searches in these epochs; -1: when the fit starts.
struct Tries {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  static constexpr Order order = Order::tuner;
  std::vector<int> epochs = {};
  RehearsalPlan plan = {};
  bool just_fails = false;
  void on_fit_start(auto& ctx) { ask(-1, ctx); }
  void on_train_epoch_start(auto& ctx) { ask(ctx.current_epoch(), ctx); }
  void ask(int epoch, auto& ctx) {
    if (std::find(epochs.begin(), epochs.end(), epoch) == epochs.end()) return;
    if (just_fails) throw std::runtime_error("no more");
    ctx.request_search([this](auto& rehearser) { rehearser.rehearse(plan); });
  }
};

/// A state that changes with each event that it hears.
struct Hears {
  long batches = 0, epochs = 0, setups = 0;
  void setup(auto&) { ++setups; }
  void on_train_batch_end(auto&) { ++batches; }
  void on_train_epoch_end(auto&) { ++epochs; }
  void state(auto& archive) { archive("batches", batches)("epochs", epochs)("setups", setups); }
};

TrainerOptions::Clock::time_point stopped() { return {}; }
TrainerOptions options(int epochs) { return {.max_epochs = epochs, .log_every_n_steps = 1, .now = &stopped}; }

/// All bits that a file of now would hold, and those that none holds.
template <class Trainer>
std::string bits(Trainer& trainer, Draws const& model) {
  trainer.save_checkpoint("now");
  auto const file = toy::world.files.extract("now").mapped();
  toy::world.saved.clear();
  auto text = file.state;
  // Who has heard of an event that failed is known where it was a hook that failed, and not a search.
  if (auto const at = text.find("\"heard\""); at != text.npos) text.erase(at, text.find('}', at) - at + 1);
  for (double const weight : file.weights) text += " " + std::to_string(std::bit_cast<std::uint64_t>(weight));
  for (auto const& p : model.parameters())
    text += p.has_grad() ? " " + std::to_string(std::bit_cast<std::uint64_t>(p.grad())) : " none";
  return text + " " + std::to_string(model.seen.value()) + " " + std::to_string(toy::world.rng);
}

/// Searches, hears, keeps rows, and writes a file after every second step.
auto searching(TrainerOptions options, Automatic how, Tries tries) {
  return toy::train<Draws>(std::move(options), how, toy::Rows{}, std::move(tries), Hears{},
                           ModelCheckpoint{{.dirpath = "folder", .every_n_train_steps = 2}});
}

struct Came {
  std::string bits;
  std::vector<toy::Row> rows;
  long files;
  bool operator==(Came const&) const = default;
};
/// Two fits of a trainer, with `between` between them, from the same random numbers.
template <class Loader, class F>
Came came(Tries tries, Automatic how, F&& between) {
  toy::world = {};
  Draws model;
  Loader loader(5);
  auto trainer = searching(options(2), how, std::move(tries));
  between(trainer, model, loader);
  trainer.fit(model, loader);
  between(trainer, model, loader);
  trainer.set_options(options(4));
  trainer.fit(model, loader);
  auto const files = static_cast<long>(toy::world.saved.size());
  return {bits(trainer, model), trainer.template callback<toy::Rows>().rows, files};
}
auto const nothing = [](auto&...) {};

template <class Loader>
void leaves_no_trace() {
  Automatic const how{.accumulate_grad_batches = GENERATE(1, 2), .clip = ClipNorm{0.5}};
  auto const never = came<Loader>({}, how, nothing);
  REQUIRE(never.files != 0);
  long steps = 0;
  RehearsalPlan const plan{
      .steps = 4, .schedules = GENERATE(false, true), .after_step = [&](RehearsedStep&) { ++steps; }};
  CHECK(came<Loader>({{-1}, plan}, how, nothing) == never);
  CHECK(steps == 8);  // both fits
  CHECK(came<Loader>({{0, 1, 3}, plan}, how, nothing) == never);
  CHECK(came<Loader>({}, how, [&](auto& trainer, auto& model, auto& loader) {
          tune::rehearse(trainer, model, loader, plan);
        }) == never);
}

}  // namespace

TEST_CASE("a run that has rehearsed has the bits, the rows and the files of one that never did") {
  leaves_no_trace<std::vector<double>>();
}
TEST_CASE("the same of a loader that keeps its place") { leaves_no_trace<Keeping>(); }
TEST_CASE("the same of a loader that is told its place") { leaves_no_trace<Jumping>(); }

TEST_CASE("a rehearsal that fails, between fits or inside of one, puts everything back") {
  auto const fails = GENERATE(as<std::string>{}, "step", "loader", "allocation", "function");
  toy::world = {};
  Draws model;
  auto trainer = searching(options(2), Automatic{.accumulate_grad_batches = 2}, {});
  trainer.fit(model, toy::batches(5));
  trainer.set_options(options(9));
  auto const before = bits(trainer, model);
  auto const progress = trainer.progress();

  long made = 0;
  RehearsalPlan plan{.steps = 8};
  if (fails == "step" || fails == "allocation")
    model.act = [&](long) {
      if (++made == 4 && fails == "step") throw std::runtime_error("no more");
      if (made == 4) throw std::bad_alloc();
    };
  if (fails == "function") plan.after_step = [&](RehearsedStep&) { throw std::runtime_error("no more"); };
  Keeping loader(5);
  if (fails == "loader") loader.breaks_at = 3;
  if (fails == "allocation") CHECK_THROWS_AS(tune::rehearse(trainer, model, loader, plan), std::bad_alloc);
  else CHECK_THROWS_AS(tune::rehearse(trainer, model, loader, plan), std::runtime_error);
  CHECK(bits(trainer, model) == before);
  CHECK(trainer.progress().global_step == progress.global_step);
  CHECK(trainer.progress().batch == 0);
}

TEST_CASE("a search that fails inside of a fit is that fit's failure, with the state of before the search") {
  auto const when = GENERATE(-1, 1);
  Automatic const how{.accumulate_grad_batches = 2};
  // A fit that fails at the same place without a search.
  auto const run = [&](bool searches) {
    toy::world = {};
    Draws model;
    auto const fail = [](RehearsedStep&) { throw std::runtime_error("no more"); };
    Tries tries{{when}, {.steps = 3, .after_step = fail}};
    tries.just_fails = !searches;
    auto trainer = searching(options(2), how, std::move(tries));
    CHECK_THROWS_AS(trainer.fit(model, toy::batches(5)), std::runtime_error);
    return std::pair(bits(trainer, model), trainer.template callback<toy::Rows>().rows);
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("SIGINT ends a search after the batch at hand, all is put back, and the run goes on from its file") {
  toy::world = {};
  Draws model;
  auto const train = [](Tries tries) {
    return toy::train<Draws>(options(2), Automatic{}, std::move(tries), Hears{}, Signals{{.dirpath = "here"}});
  };
  auto trainer = train({});
  auto const before = [&] { return std::pair(model.p.value(), toy::world.rng); };
  auto const was = before();
  long steps = 0;
  RehearsalPlan const plan{.steps = 4, .after_step = [&](RehearsedStep&) {
                             if (++steps == 2) std::raise(SIGINT);
                           }};
  CHECK_THROWS_AS(tune::rehearse(trainer, model, toy::batches(4), plan), Interrupted);
  CHECK(steps == 2);
  CHECK(before() == was);
  CHECK(model.steps == 0);

  Draws again, never;
  auto interrupted = train({{1}, plan});
  std::optional<CkptPath> from = std::nullopt;
  steps = 0;
  CHECK_THROWS_AS(interrupted.fit(again, toy::batches(4), from), Interrupted);
  CHECK(steps == 2);
  CHECK(interrupted.progress().global_step == 4);
  CHECK(toy::world.saved == std::vector<std::string>{"here/interrupted.safetensors"});
  from = CkptPath{"here/interrupted.safetensors"};
  interrupted.fit(again, toy::batches(4), from);
  toy::world.rng = was.second;
  auto plain = searching(options(2), Automatic{}, {});
  plain.fit(never, toy::batches(4));
  CHECK(again.p.value() == never.p.value());
  CHECK(again.q.value() == never.q.value());
  CHECK(interrupted.progress().global_step == 8);
}

namespace {

/// Does not say that it searches.
struct Silent {
  using Stateless = ByChoice;
  void on_fit_start(auto& ctx) {
    ctx.request_search([](auto&) {});
  }
};

/// Whatever a model may ask of its context.
struct Asks : Draws {
  std::vector<std::string> heard = {};
  void hear(std::string what, auto& ctx) { heard.push_back(std::move(what) + (ctx.rehearsing() ? " *" : "")); }
  void setup(auto& ctx) { hear("setup", ctx); }
  void on_fit_start(auto& ctx) { hear("on_fit_start", ctx); }
  void on_train_start(auto& ctx) { hear("on_train_start", ctx); }
  void on_train_epoch_start(auto& ctx) { hear("on_train_epoch_start", ctx); }
  void on_train_batch_end(auto& ctx) {
    hear("on_train_batch_end", ctx);
    ctx.request_checkpoint("asked");
    Scalar const row[]{{"mine", 1.0}};
    ctx.log_scalars(row);
    ctx.warn("mine.said.once", "a step has been made");
    ctx.request_search([](auto&) { FAIL("a search inside of a search"); });
  }
  void on_train_epoch_end(auto& ctx) { hear("on_train_epoch_end", ctx); }
  void on_train_end(auto& ctx) { hear("on_train_end", ctx); }
  void on_fit_end(auto& ctx) { hear("on_fit_end", ctx); }
  void teardown(auto& ctx) { hear("teardown", ctx); }
};

}  // namespace

TEST_CASE("in a rehearsal the model hears steps and epochs, callbacks hear nothing, and nothing is written") {
  toy::world = {};
  Asks model;
  auto trainer = toy::train<Asks>(options(1), Automatic{}, toy::Rows{}, Hears{});
  tune::rehearse(trainer, model, toy::batches(2), {.steps = 2});
  CHECK(model.heard == std::vector<std::string>{"setup", "on_fit_start", "on_train_start *", "on_train_epoch_start *",
                                                "on_train_batch_end *", "on_train_batch_end *", "on_train_epoch_end *",
                                                "on_fit_end", "teardown"});
  CHECK(trainer.callback<toy::Rows>().rows.empty());
  CHECK(trainer.callback<Hears>().setups == 0);
  CHECK(toy::world.saved.empty());
  CHECK(trainer.warnings().size() == 1);

  model.heard.clear();
  auto searching = toy::train<Asks>({.max_epochs = 1}, Automatic{}, Tries{{0}, {.steps = 1}});
  CHECK_NOTHROW(searching.fit(model, toy::batches(1)));
  CHECK(model.heard == std::vector<std::string>{"setup", "on_fit_start", "on_train_start", "on_train_epoch_start",
                                                "on_train_batch_end *", "on_train_epoch_end *", "on_train_batch_end",
                                                "on_train_epoch_end", "on_train_end", "on_fit_end", "teardown"});
  CHECK(toy::world.saved.size() == 1);
}

TEST_CASE("a search that nobody would answer is refused, and so are steps and files that make no sense") {
  Draws model;
  auto silent = toy::train<Draws>(options(1), Automatic{}, Silent{});
  CHECK(toy::refusal([&] { silent.fit(model, toy::batches(1)); }) == "fulgurite.context.no_search");
  auto trainer = toy::train<Draws>(options(1), Automatic{});
  CHECK(toy::refusal([&] { tune::rehearse(trainer, model, toy::batches(1), {.steps = 0}); }) ==
        "fulgurite.tuner.steps");
  RehearsalPlan plan;
  plan.after_step = [&](RehearsedStep&) { tune::rehearse(trainer, model, toy::batches(1), {}); };
  CHECK(toy::refusal([&] { tune::rehearse(trainer, model, toy::batches(1), plan); }) == "fulgurite.trainer.open_fit");
}

namespace {

/// Keeps nothing of itself.
struct Forgetful {
  static constexpr bool needs_closure = false, stable_gradients = true;
  static constexpr std::string_view name() { return "Forgetful"; }
  toy::Sgd inner;
  void zero_grad() { inner.zero_grad(); }
  void step() { inner.step(); }
  std::size_t groups() const { return 1; }
  double lr(std::size_t) const { return inner.rate; }
  void set_lr(std::size_t, double to) { inner.rate = to; }
  auto const& parameters() const { return inner.params; }
};
struct Forgets : Draws {
  auto configure_optimizers() { return Forgetful{{.params = {p, q}}}; }
};
/// The same on purpose: files may lose its moments.
struct OnPurpose : Forgetful {
  using Stateless = ByChoice;
};
struct ForgetsOnPurpose : Draws {
  auto configure_optimizers() { return OnPurpose{{{.params = {p, q}, .momentum = 0.9}}}; }
};

}  // namespace

namespace {

/// Asks for a search in one of its hooks.
struct AsksIn {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  std::string hook;
  int epoch = 0;
  bool sets = false;
  int answered = 0;
  void setup(auto& ctx) { ask("setup", ctx); }
  void on_train_start(auto& ctx) { ask("on_train_start", ctx); }
  void on_train_epoch_end(auto& ctx) {
    if (ctx.current_epoch() == epoch) ask("on_train_epoch_end", ctx);
  }
  void on_train_end(auto& ctx) { ask("on_train_end", ctx); }
  void on_fit_end(auto& ctx) { ask("on_fit_end", ctx); }
  void teardown(auto& ctx) { ask("teardown", ctx); }
  void on_test_start(auto& ctx) { ask("on_test_start", ctx); }
  void ask(std::string_view here, auto& ctx) {
    if (here != hook) return;
    auto const answer = [this](auto&) { ++answered; };
    if (sets) ctx.request_setting(answer);
    else ctx.request_search(answer);
  }
};
/// Has a step of each evaluation, and counts them.
struct Evaluated : Draws {
  int made = 0;
  void validation_step(double) { ++made; }
  void test_step(double) { ++made; }
  double predict_step(double batch) { return ++made, batch; }
};
bool said_unanswered(auto const& trainer) {
  return trainer.warnings().size() == 1 && trainer.warnings()[0].starts_with("[fulgurite.tuner.unanswered] ");
}

}  // namespace

TEST_CASE("a search that is asked for where no place for it follows is not done, and that is said") {
  auto const trained = [](AsksIn asks) {
    Draws model;
    auto trainer = toy::train<Draws>(options(2), Automatic{}, std::move(asks));
    trainer.fit(model, toy::batches(2));
    trainer.set_options(options(3));
    int const answered = trainer.template callback<AsksIn>().answered;
    bool const said = said_unanswered(trainer);
    trainer.template callback<AsksIn>().hook.clear();
    trainer.fit(model, toy::batches(2));  // nothing is left to be answered by another fit
    CHECK(trainer.template callback<AsksIn>().answered == answered);
    return std::pair(answered, said);
  };
  std::pair const heard(1, false), not_done(0, true);
  CHECK(trained({"on_train_epoch_end", 0}) == heard);
  CHECK(trained({"on_train_epoch_end", 1}) == not_done);
  for (auto const* hook : {"on_train_end", "on_fit_end", "teardown"}) CHECK(trained({hook}) == not_done);
  CHECK(trained({"on_train_start"}) == heard);
  CHECK(trained({"on_train_start", 0, true}) == not_done);  // loaders were asked for before
  CHECK(trained({"setup", 0, true}) == heard);

  auto const tested = [](AsksIn asks) {
    Evaluated model;
    auto trainer = toy::train<Evaluated>(options(2), Automatic{}, std::move(asks));
    trainer.test(model, toy::batches(2));
    int const answered = trainer.template callback<AsksIn>().answered;
    trainer.template callback<AsksIn>().hook.clear();
    trainer.test(model, toy::batches(2));
    CHECK(trainer.template callback<AsksIn>().answered == answered);
    return std::pair(answered, said_unanswered(trainer));
  };
  CHECK(tested({"setup"}) == heard);
  CHECK(tested({"setup", 0, true}) == heard);
  CHECK(tested({"on_test_start"}) == not_done);
  CHECK(tested({"teardown"}) == not_done);
}

TEST_CASE("where something cannot be put back that is an Error of its own, and no file is written then") {
  toy::world = {};
  Draws model;
  auto trainer = toy::train<Draws>(options(2), Automatic{});
  model.act = [&](long) { model.readable = false; };
  std::string sentence;
  CHECK(toy::refusal([&] { tune::rehearse(trainer, model, toy::batches(2), {}); }, &sentence) ==
        "fulgurite.tuner.put_back");
  CHECK(sentence.ends_with(std::bad_alloc().what()));

  Draws in_fit;
  auto searching =
      toy::train<Draws>(options(2), Automatic{}, Tries{{1}, {.steps = 2}}, OnExceptionCheckpoint{{.dirpath = "here"}});
  in_fit.act = [&](long step) { in_fit.readable = step <= 1; };
  CHECK(toy::refusal([&] { searching.fit(in_fit, toy::batches(2)); }) == "fulgurite.tuner.put_back");
  CHECK(toy::world.saved.empty());
}

TEST_CASE("an optimizer that keeps no state cannot be put back inside of a fit, and need not be between fits") {
  Forgets model;
  auto trainer = toy::train<Forgets>(options(2), Automatic{}, Tries{{-1}, {.steps = 2}});
  CHECK(toy::refusal([&] { trainer.fit(model, toy::batches(2)); }) == "fulgurite.tuner.optimizer");
  CHECK_NOTHROW(tune::rehearse(trainer, model, toy::batches(2), {.steps = 2}));
  CHECK(model.p.value() == 1.0);

  ForgetsOnPurpose other;
  long steps = 0;
  other.act = [&](long) { ++steps; };
  auto later = toy::train<ForgetsOnPurpose>(options(2), Automatic{}, Tries{{-1}, {.steps = 2}});
  CHECK(toy::refusal([&] { later.fit(other, toy::batches(2)); }) == "fulgurite.tuner.optimizer");
  CHECK(steps == 0);
  CHECK_NOTHROW(tune::rehearse(later, other, toy::batches(2), {.steps = 2}));
  CHECK(other.p.value() == 1.0);
}

TEST_CASE("a file that a hook saves in a rehearsal, past its context, is refused") {
  Draws model;
  auto trainer = searching(options(1), Automatic{}, {{0}, {.steps = 2}});
  model.act = [&](long) { trainer.save_checkpoint("mine"); };
  CHECK(toy::refusal([&] { trainer.fit(model, toy::batches(2)); }) == "fulgurite.tuner.saves");
}

TEST_CASE("a plan reads losses, sets rates, and ends the rehearsal") {
  toy::world = {};
  Draws model;
  auto trainer = toy::train<Draws>(options(5), Automatic{.accumulate_grad_batches = 3});
  std::vector<double> rates;
  std::vector<long> numbers;
  RehearsalPlan plan{.steps = 9};
  plan.before_step = [&](RehearsedStep& step) {
    double const rate = 0.5 / static_cast<double>(step.number() + 1);
    step.rates().set(std::vector{rate});
  };
  plan.after_step = [&](RehearsedStep& step) {
    numbers.push_back(step.number());
    rates.push_back(step.rates().now().front());
    CHECK(std::isfinite(step.loss()));
    CHECK(step.batch_size() == 1);
    if (step.number() == 3) step.stop();
  };
  tune::rehearse(trainer, model, toy::batches(5), plan);  // windows of 3 and 2 batches
  CHECK(numbers == std::vector<long>{0, 1, 2, 3});
  CHECK(rates == std::vector<double>{0.5, 0.25, 0.5 / 3, 0.125});
}

TEST_CASE("a plan that gives rates to more or fewer groups than there are is an Error, and all is put back") {
  Draws model;
  auto trainer = toy::train<Draws>(options(2), Automatic{});
  for (std::size_t const given : {0U, 2U}) {
    RehearsalPlan plan;
    plan.before_step = [&](RehearsedStep& step) { step.rates().set(std::vector<double>(given, 0.5)); };
    CHECK(toy::refusal([&] { tune::rehearse(trainer, model, toy::batches(2), plan); }) == "fulgurite.tuner.rates");
    plan.before_step = [&](RehearsedStep& step) { step.rates().begin_from(std::vector<double>(given, 0.5)); };
    CHECK(toy::refusal([&] { tune::rehearse(trainer, model, toy::batches(2), plan); }) == "fulgurite.tuner.rates");
  }
  CHECK(model.p.value() == 1.0);
}

namespace {

/// Tries its plan out before an evaluation.
struct TriesFirst {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  RehearsalPlan plan;
  void setup(auto& ctx) {
    ctx.request_search([this](auto& rehearser) { rehearser.rehearse(plan); });
  }
};

}  // namespace

TEST_CASE("a plan ends the rehearsal of an evaluation, before a step or after it, in whichever loader it is") {
  for (bool const before : {false, true})
    for (long const last : {0L, 1L, 3L, 9L}) {
      toy::world = {};
      std::vector<long> begun, done;
      RehearsalPlan plan{.steps = 3};
      plan.before_step = [&](RehearsedStep& step) {
        begun.push_back(step.number());
        if (before && step.number() == last) step.stop();
      };
      plan.after_step = [&](RehearsedStep& step) {
        done.push_back(step.number());
        CHECK(step.batch_size() == 1);
        if (!before && step.number() == last) step.stop();
      };
      auto trainer = toy::train<Evaluated>(options(1), Automatic{}, TriesFirst{plan});
      auto const tried = [&](auto&& evaluate) {
        Evaluated model;
        begun.clear();
        done.clear();
        evaluate(model, std::tuple(toy::batches(4), toy::batches(4)));
        std::vector<long> const all{0, 1, 2, 3, 4, 5};  // three of each loader
        std::vector<long> const expected(all.begin(), all.begin() + std::min(last + 1, 6L));
        CHECK(begun == expected);
        CHECK(done == expected);
        CHECK(model.made == 8 + static_cast<int>(expected.size()));  // the evaluation itself is whole
      };
      tried([&](auto& model, auto const& both) { trainer.validate(model, both); });
      tried([&](auto& model, auto const& both) { trainer.test(model, both); });
      tried([&](auto& model, auto const& both) { trainer.predict(model, both); });
    }
}

TEST_CASE("a plan cannot give an evaluation a rate") {
  Evaluated model;
  RehearsalPlan const plan{.before_step = [](RehearsedStep& step) { step.rates().set(std::vector{0.5}); }};
  auto trainer = toy::train<Evaluated>(options(1), Automatic{}, TriesFirst{plan});
  CHECK(toy::refusal([&] { trainer.validate(model, toy::batches(2)); }) == "fulgurite.tuner.rates");
}

TEST_CASE("what was recorded of rehearsed steps is freed, and steps of the fit are recorded anew") {
  auto trainer = make_trainer<Taped>({.max_epochs = 1, .log_every_n_steps = 0}, toy::Recording{}, Float32{},
                                     Automatic{}, Tries{{-1, 0}, {.steps = 3}});
  Taped taped;
  trainer.fit(taped, std::vector<toy::Tensor>{{1.0}, {2.0}, {3.0}});
  CHECK(trainer.strategy().recorded == 3);  // one a search, one of the fit
  CHECK(taped.p.value() == -6.0);
}
