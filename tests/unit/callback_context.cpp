// What a callback that takes Context in place of `auto& ctx` hears of a run.
#include <catch2/catch_test_macros.hpp>

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

  void say(char const* event, Context const& ctx) {
    auto const text = [](std::optional<double> value) { return value ? std::to_string(*value) : std::string("none"); };
    std::string line = event;
    line += " epoch " + std::to_string(ctx.current_epoch()) + " step " + std::to_string(ctx.global_step());
    line +=
        " batch " + std::to_string(ctx.batch_idx()) + " of " + std::to_string(ctx.num_training_batches().value_or(-1));
    line += " vl " + text(ctx.shared_value(WatchedMetric(Scripted::vl)));
    line += " last " + text(ctx.shared_value(WatchedMetric(Scripted::vl.last())));
    line += " loss " + text(ctx.value("loss")) + " unknown " + text(ctx.value("never declared"));
    ctx.each_metric([&](DeclaredMetric const& metric, std::optional<double> known) {
      line += " " + std::string(metric.name) + (metric.prog_bar ? "*" : "") + "=" + text(known);
    });
    lines->push_back(line);
  }
};
struct Plain : Heard {
  void on_train_start(Context& ctx) { say("start", ctx); }
  void on_train_batch_end(Context& ctx) { say("batch", ctx); }
  void on_validation_end(Context const& ctx) { say("validation", ctx); }
  void on_train_epoch_end(Context& ctx) { say("epoch", ctx); }
};
struct Typed : Heard {
  void on_train_start(auto& ctx) { say("start", ctx); }
  void on_train_batch_end(auto& ctx) { say("batch", ctx); }
  void on_validation_end(auto& ctx) { say("validation", ctx); }
  void on_train_epoch_end(auto& ctx) { say("epoch", ctx); }
};
}  // namespace

TEST_CASE("a callback that takes Context hears in each event what one hears that takes the context of its program") {
  std::vector<std::string> plain, typed;
  Scripted model{.script = {3, 2}};
  auto const trainer = fitted(model, quick(2), 3, Plain{{.lines = &plain}}, Typed{{.lines = &typed}});
  CHECK(plain == typed);
  REQUIRE(plain.size() == 11);
  CHECK(plain.front() ==
        "start epoch 0 step 0 batch 0 of 3 vl none last none loss none unknown none loss*=none vl*=none "
        "missing=none val/acc=none");
  CHECK(plain.back().starts_with("epoch epoch 1 step 6 batch 2 of 3 vl 2.000000 last 2.000000 loss "));
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

TEST_CASE("a metric by its name is watched as it was written") {
  CHECK(WatchedMetric(Scripted::vl).written() == "vl");
  CHECK(WatchedMetric(Scripted::vl.last()).written() == "vl.last()");
  CHECK(WatchedMetric(Scripted::vl.of("clean")).written() == "vl of loader 'clean'");
  CHECK_FALSE(WatchedMetric());
}
