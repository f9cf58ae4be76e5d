// What a callback that takes Context in place of `auto& ctx` hears of a run.
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/loop/context.hpp>

#include "callback_run.hpp"

using namespace fulgurite;

namespace {
/// The answers that a context gives in each event, as text.
struct Heard {
  using Stateless = ByChoice;
  std::vector<std::string>* lines = nullptr;

  /// By the names of metrics, or by their constants, which a context that knows its program takes, too.
  template <class Ctx, class Name>
  void say(char const* event, Ctx const& ctx, Name const& name) {
    auto const text = [](std::optional<double> value) { return value ? std::to_string(*value) : std::string("none"); };
    std::string line = event;
    line += " epoch " + std::to_string(ctx.current_epoch()) + " step " + std::to_string(ctx.global_step());
    line +=
        " batch " + std::to_string(ctx.batch_idx()) + " of " + std::to_string(ctx.num_training_batches().value_or(-1));
    line += " vl " + text(ctx.shared_value(name(Scripted::vl)));
    line += " loss " + text(ctx.shared_value(name(Scripted::loss)));
    line += " last " + text(ctx.shared_value(name(Scripted::loss.last())));
    static_cast<Context const&>(ctx).each_metric([&](DeclaredMetric const& metric, std::optional<double> known) {
      line += " " + std::string(metric.name) + (metric.prog_bar ? "*" : "") + "=" + text(known);
    });
    lines->push_back(line);
  }
};
auto const by_name = [](auto const& metric) { return WatchedMetric(metric); };
struct Plain : Heard {
  void on_train_start(Context& ctx) { say("start", ctx, by_name); }
  void on_train_batch_end(Context& ctx) { say("batch", ctx, by_name); }
  void on_validation_end(Context const& ctx) { say("validation", ctx, by_name); }
  void on_train_epoch_end(Context& ctx) { say("epoch", ctx, by_name); }
};
struct Typed : Heard {
  void on_train_start(auto& ctx) { say("start", ctx, std::identity()); }
  void on_train_batch_end(auto& ctx) { say("batch", ctx, std::identity()); }
  void on_validation_end(auto& ctx) { say("validation", ctx, std::identity()); }
  void on_train_epoch_end(auto& ctx) { say("epoch", ctx, std::identity()); }
};
}  // namespace

TEST_CASE("a callback that takes Context hears in each event what one hears that takes the context of its program") {
  std::vector<std::string> plain, typed;
  Scripted model{.script = {3, 2}};
  auto const trainer = fitted(model, quick(2), 3, Plain{{.lines = &plain}}, Typed{{.lines = &typed}});
  CHECK(plain == typed);
  REQUIRE(plain.size() == 11);
  CHECK(plain.front() ==
        "start epoch 0 step 0 batch 0 of 3 vl none loss none last none loss*=none vl*=none missing=none val/acc=none");
  CHECK(plain.back().starts_with("epoch epoch 1 step 6 batch 2 of 3 vl 2.000000 loss 1.000000 last 2.000000 "));
}

TEST_CASE("what Context is asked for is done") {
  struct Stops {
    void on_train_epoch_end(Context& ctx) {
      ctx.warn("mine.context.note", "said once");
      if (ctx.current_epoch() == 1) ctx.request_stop("two epochs are enough");
    }
  };
  Scripted model;
  auto const trainer = fitted(model, quick(9), 2, Stops{});
  CHECK(trainer.progress().epoch == 2);
  CHECK(trainer.outcome().ended_by == "two epochs are enough");
  CHECK(trainer.warnings().size() == 1);
}

TEST_CASE("a fit without batches says what ended it") {
  Scripted model;
  auto options = quick(2);
  options.limit_train_batches = 0;
  CHECK(fitted(model, options, 2).outcome().ended_by == "limit_train_batches = 0");
}

TEST_CASE("outside of fit there is no training to end: a request to stop is none, and is in no file of then") {
  struct Stops {
    using Stateless = ByChoice;
    bool* stopped;
    void on_validation_end(Context& ctx) {
      if (ctx.stage() == Stage::fit) return;
      ctx.request_stop("a validation alone");
      ctx.set_stop_request("Stops", true);
      *stopped = ctx.stop_requested();
    }
  };
  bool stopped = true;
  Scripted model;
  auto trainer = fitted(model, quick(1), 2, Stops{&stopped});
  trainer.validate(model, toy::batches(1));
  CHECK_FALSE(stopped);
}

TEST_CASE("a value that is asked for by a name is that of the metric which is declared under it") {
  struct Asks {
    using Stateless = ByChoice;
    std::optional<double>*loss, *unknown;
    void on_train_epoch_end(Context& ctx) { *loss = ctx.value("loss"), *unknown = ctx.value("never declared"); }
  };
  std::optional<double> loss, unknown;
  Scripted model;
  auto const trainer = fitted(model, quick(1), 3, Asks{&loss, &unknown});
  CHECK(loss == 1.0);
  CHECK_FALSE(unknown);
}

TEST_CASE("a metric by its name is watched as it was written") {
  CHECK(WatchedMetric(Scripted::vl).written() == "vl");
  CHECK(WatchedMetric(Scripted::vl.last()).written() == "vl.last()");
  CHECK(WatchedMetric(Scripted::vl.of("clean")).written() == "vl of loader 'clean'");
  CHECK_FALSE(WatchedMetric());
}
