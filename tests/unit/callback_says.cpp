#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/timer.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;
using std::chrono::seconds;

TEST_CASE("early stopping: says what improves and why it stops, where that is asked for") {
  Scripted model{.script = {3, 1, 2}};
  CHECK(said([&] { fitted(model, quick(9), 2, EarlyStopping{Scripted::vl, {.patience = 1, .verbose = true}}); }) ==
        "EarlyStopping: vl = 3 is the first value\nEarlyStopping: vl = 1 improves on 3\n"
        "EarlyStopping: vl = 2 has not improved on 1 for 1 checks\n");
  Scripted quiet{.script = {3, 1, 2}};
  CHECK(said([&] { fitted(quiet, quick(9), 2, EarlyStopping{Scripted::vl, {.patience = 1}}); }).empty());
}

TEST_CASE("early stopping: nothing stops in a fast_dev_run") {
  auto options = quick(1);
  options.fast_dev_run = 3;
  Scripted model{.script = {NAN}};
  said([&] {
    auto trainer = fitted(model, options, 4, EarlyStopping{Scripted::missing});
    CHECK(trainer.template callback<EarlyStopping<Metric<"missing">>>().reason() == StopReason::not_stopped);
  });
  CHECK(model.batches == 3);
  static_assert(EarlyStopping<Metric<"vl">>::inert_in_dev_run);
}

TEST_CASE("timer: says once that the time is up, unless it is told not to") {
  for (bool const verbose : {true, false}) {
    Scripted model{.seconds_per_batch = 1};
    CHECK(said([&] { fitted(model, quick(5), 4, Timer{seconds(3), {.verbose = verbose}}); }) ==
          (verbose ? "Timer: 3 s are used up, of 3: training stops\n" : ""));
  }
}

TEST_CASE("timer: when a stage began and ended") {
  fake_seconds = 100;
  Scripted model{.seconds_per_batch = 1};
  auto trainer = fitted(model, quick(2), 4, Timer{});
  auto const& timer = trainer.template callback<Timer>();
  CHECK(timer.start_time() == seconds(100));
  CHECK(timer.end_time() == seconds(110));
  CHECK(timer.start_time(Timer::Timed::validate) == seconds(109));
  CHECK_FALSE(timer.start_time(Timer::Timed::test));
  CHECK_FALSE(timer.end_time(Timer::Timed::test));
  CHECK(timer.elapsed() == seconds(10));
}
