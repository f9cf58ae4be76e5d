// What an exception, a skip or an earlier run leaves behind: nothing that the next one could stumble over.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;

namespace {

/// Validates and tests with the batch as the value; fails where it is told to.
struct Fails : toy::P {
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<toy::P::loss, vl>;
  long fails_at = -1;
  long batches = 0;
  bool validation_fails = false;
  toy::Tensor training_step(double batch, auto& ctx) {
    if (batches++ == fails_at) throw std::runtime_error("a step failed");
    return toy::P::training_step(batch, ctx);
  }
  void validation_step(double batch, auto& ctx) {
    if (validation_fails) throw std::runtime_error("a validation failed");
    ctx.log(vl, batch);
  }
  void test_step(double batch, auto& ctx) { ctx.log(vl, batch); }
};
struct Follows : Fails {
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, schedule::ReduceOnPlateau{Fails::vl}); }
};

struct Told {
  using Stateless = ByChoice;
  std::vector<std::string>* all;
  char const* name;
  int throws = 0;  ///< 1: a std::exception, 2: an int
  void on_exception() {
    all->push_back(name);
    if (throws == 1) throw std::runtime_error("again");
    if (throws == 2) throw 7;
  }
};
struct ToldToo : Told {
  using Stateless = ByChoice;
};

/// Asks for a file where a window is open.
struct Asks {
  void on_train_batch_end(auto& ctx) {
    if (ctx.batch_idx() == 0) ctx.request_checkpoint("inside.ckpt");
  }
};

TrainerOptions quick(int epochs) { return {.max_epochs = epochs, .num_sanity_val_steps = 0}; }

}  // namespace

TEST_CASE("values of an earlier run are none of the next one's") {
  auto const after_test = [](bool test_first) {
    Follows model;
    auto trainer = toy::train<Follows>({.max_epochs = 1, .check_val_every_n_epoch = 2, .num_sanity_val_steps = 0}, {});
    if (test_first) trainer.test(model, toy::batches(2, 100));
    return toy::refusal([&] { trainer.fit(model, toy::batches(2), toy::batches(2)); });
  };
  CHECK(after_test(false) == "fulgurite.schedule.metric");
  CHECK(after_test(true) == "fulgurite.schedule.metric");
}

TEST_CASE("one on_exception that fails does not rob the others of theirs, nor the first error of its place") {
  for (int throws : {1, 2}) {
    std::vector<std::string> told;
    Fails model;
    model.fails_at = 1;
    auto trainer = toy::train<Fails>(quick(1), {}, Told{&told, "first", throws}, ToldToo{{&told, "second"}});
    CHECK_THROWS_WITH(trainer.fit(model, toy::batches(3), toy::batches(1)), "a step failed");
    CHECK(told == std::vector<std::string>{"first", "second"});
  }
}

TEST_CASE("a request of an open window is written although the validation inside it throws") {
  Fails model;
  model.validation_fails = true;
  toy::world.saved.clear();
  auto trainer = toy::train<Fails>({.max_epochs = 1, .val_check_interval = 1, .num_sanity_val_steps = 0},
                                   {.accumulate_grad_batches = 3}, Asks{});
  CHECK_THROWS(trainer.fit(model, toy::batches(3), toy::batches(1)));
  CHECK(toy::world.saved == std::vector<std::string>{"inside.ckpt"});
}

namespace {
struct SanityChecks {
  using Stateless = ByChoice;
  int checks = 0;
  bool dies = false;
  void setup() {
    if (dies) throw std::runtime_error("no folder");
  }
  void on_sanity_check_start() { ++checks; }
  void on_exception(auto&, auto& ctx) {
    if constexpr (requires { ctx.request_checkpoint("last words.ckpt"); }) ctx.request_checkpoint("last words.ckpt");
  }
};
}  // namespace

TEST_CASE("after a failed fit the sanity check runs again; a fit that dies in setup saves nothing of the one before") {
  Fails model;
  model.fails_at = 1;
  toy::world.saved.clear();
  auto trainer = toy::train<Fails>({.max_epochs = 2}, {}, SanityChecks{});
  CHECK_THROWS(trainer.fit(model, toy::batches(3), toy::batches(1)));
  CHECK(toy::world.saved.size() == 1);
  CHECK(trainer.callback<SanityChecks>().checks == 1);
  trainer.fit(model, toy::batches(3), toy::batches(1));
  CHECK(trainer.callback<SanityChecks>().checks == 2);
  trainer.callback<SanityChecks>().dies = true;
  CHECK_THROWS(trainer.fit(model, toy::batches(3), toy::batches(1)));
  CHECK(toy::world.saved.size() == 1);
}

namespace {
/// Logs after each batch, with no batch among the arguments.
struct LogsAtEnd : toy::P {
  static constexpr Metric<"done"> done{.on_step = Report::no, .on_epoch = Report::yes};
  using Metrics = MetricList<toy::P::loss, done>;
  void on_train_batch_end(auto& ctx) { ctx.log(done, 1.0); }
};
/// Keeps what the closure returned.
struct OwnStep : toy::P {
  std::vector<double> losses = {};
  void optimizer_step(auto& optimizer, auto& closure, auto&) {
    optimizer.step([&] {
      auto last = closure();
      losses.push_back(last.value());
      return last;
    });
  }
};
}  // namespace

TEST_CASE("a batch that is none can be logged about after it") {
  std::vector<std::optional<double>> const batches{0.0, std::nullopt, 2.0};
  LogsAtEnd model;
  auto trainer = toy::train<LogsAtEnd>(quick(1), {});
  trainer.fit(model, batches);
  CHECK(trainer.value(LogsAtEnd::done) == 1.0);
}

TEST_CASE("the closure of a window that ends early returns the loss of its last batch") {
  OwnStep model;
  model.p = toy::Tensor::parameter(5.0);
  auto trainer = toy::train<OwnStep>(quick(1), {.accumulate_grad_batches = 4}, toy::stop_at(0, 1));
  trainer.fit(model, toy::batches(8));
  CHECK(model.losses == std::vector<double>{-5.0});
}

TEST_CASE("barebones has no place for what reads metrics, in no stage, and says once that logging is lost") {
  Fails model;
  CHECK(toy::refusal([&] {
          toy::train<Fails>({.max_epochs = 1, .barebones = true}, {}, EarlyStopping{Fails::vl})
              .fit(model, toy::batches(1), toy::batches(1));
        }) == "fulgurite.options.barebones");
  CHECK(toy::refusal([&] {
          toy::train<Fails>({.barebones = true}, {}, toy::Rows{}).validate(model, toy::batches(1));
        }) == "fulgurite.options.barebones");
  Follows follows;
  CHECK(toy::refusal([&] {
          toy::train<Follows>({.max_epochs = 1, .barebones = true}, {}).fit(follows, toy::batches(1), toy::batches(1));
        }) == "fulgurite.options.barebones");
  auto trainer = toy::train<Fails>({.max_epochs = 1, .barebones = true}, {});
  trainer.fit(model, toy::batches(2), toy::batches(2));
  REQUIRE(trainer.warnings().size() == 1);
  CHECK(trainer.warnings().front().starts_with("[fulgurite.options.barebones_log]"));
}

TEST_CASE("deterministic algorithms are asked for in every stage") {
  struct Asks2 : Fails {
    bool seen = false;
    void test_step(double) { seen = toy::world.deterministic; }
  } model;
  toy::train<Asks2>({.deterministic = true}, {}).test(model, toy::batches(1));
  CHECK(model.seen);
}

TEST_CASE("a loader that cannot be told to keep its order is told of under overfit_batches") {
  Fails model;
  auto trainer = toy::train<Fails>({.max_epochs = 1, .num_sanity_val_steps = 0, .overfit_batches = 2}, {});
  trainer.fit(model, toy::Unsized(3), toy::batches(2));
  REQUIRE(trainer.warnings().size() == 1);
  CHECK(trainer.warnings().front().starts_with("[fulgurite.options.overfit_order]"));
  auto stored = toy::train<Fails>({.max_epochs = 1, .num_sanity_val_steps = 0, .overfit_batches = 2}, {});
  double const array[] = {1, 2, 3};
  stored.fit(model, array, toy::batches(2));
  CHECK(stored.warnings().empty());
}

namespace {
struct NoSync : toy::Device {
  struct Scope {
    bool* on;
    ~Scope() {
      if (on) *on = false;
    }
    Scope(bool* flag) : on(flag) {
      if (on) *on = true;
    }
    Scope(Scope const&) = delete;
  };
  static inline bool blocked = false;
  Scope no_sync(bool on) { return Scope(on ? &blocked : nullptr); }
};
struct Toggles : toy::P {
  std::vector<bool> seen = {};
  toy::Tensor other = toy::Tensor::parameter(1.0);
  void training_step(double, auto& ctx) {
    auto& [mine, theirs] = ctx.optimizers();
    auto scope = ctx.toggle(mine, {.sync_grad = false});
    seen.push_back(NoSync::blocked && !other.requires_grad());
    scope.untoggle();
    seen.push_back(!NoSync::blocked && other.requires_grad());
    auto again = ctx.toggle(mine);
    seen.push_back(!NoSync::blocked && !other.requires_grad());
  }
  auto configure_optimizers() { return optimizers(toy::Sgd{{p}}, toy::Sgd{{other}}); }
};
}  // namespace

TEST_CASE("toggle with sync_grad off blocks the exchange of gradients, untoggle ends both early") {
  Toggles model;
  make_trainer<Toggles>(quick(1), NoSync{}, Float32{}, Manual{}).fit(model, toy::batches(1));
  CHECK(model.seen == std::vector<bool>{true, true, true});
  CHECK(model.other.requires_grad());
}
