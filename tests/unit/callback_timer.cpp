#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/timer.hpp>

#include "callback_run.hpp"

using namespace fulgurite;
using std::chrono::duration;
using std::chrono::seconds;

namespace {
/// One second a batch, training and validation alike; 4 training batches an epoch and one of validation.
long steps(Timer timer, TrainerOptions options = quick(5)) {
  Scripted model{.seconds_per_batch = 1};
  auto const trainer = fitted(model, options, 4, std::move(timer));
  return trainer.progress().global_step;
}
}  // namespace

TEST_CASE("timer: stops after the step in which the time is used up") {
  CHECK(steps(Timer{seconds(3)}) == 3);
  CHECK(steps(Timer{seconds(5)}) == 4);  // the fifth second is the validation's
  CHECK(steps(Timer{seconds(6)}) == 5);
  CHECK(steps(Timer{}) == 20);
}

TEST_CASE("timer: looks after each epoch only, where that is asked") {
  CHECK(steps(Timer{seconds(3), {.interval = Interval::epoch}}) == 4);
  CHECK(steps(Timer{seconds(6), {.interval = Interval::epoch}}) == 8);
}

TEST_CASE("timer: no time at all, and minima that win over it") {
  CHECK(steps(Timer{seconds(0)}) == 0);
  auto options = quick(5);
  options.min_epochs = 2;
  CHECK(steps(Timer{seconds(0)}, options) == 8);
}

TEST_CASE("timer: measures each stage") {
  Scripted model{.seconds_per_batch = 1};
  auto trainer = fitted(model, quick(2), 4, Timer{seconds(100)});
  auto const& timer = trainer.template callback<Timer>();
  CHECK(timer.elapsed() == seconds(10));
  CHECK(timer.elapsed(Timer::Timed::validate) == seconds(2));
  CHECK(timer.elapsed(Timer::Timed::test) == seconds(0));
  CHECK(timer.remaining() == seconds(90));
  CHECK_FALSE(Timer{}.remaining());
}

TEST_CASE("timer: days, hours, minutes, seconds") {
  CHECK(Timer{"01:02:03:04"}.remaining() == seconds(86400 + 7200 + 180 + 4));
  CHECK(Timer{"100:00:00:00"}.remaining() == seconds(8640000));
  for (char const* wrong : {"", "1h", "00:00:01", "00:24:00:00", "00:00:60:00", "00:00:00:60", "00:00:00:00:00",
                            "00:00:00:-1", "00:00:00:1x", "a:0:0:0"}) {
    INFO(wrong);
    CHECK(error_of([&] { Timer{std::string_view(wrong)}; }).starts_with("[fulgurite.options.time]"));
  }
  CHECK(error_of([] { Timer{seconds(-1)}; }).starts_with("[fulgurite.callback.timer_duration]"));
}

TEST_CASE("timer: the duration may be an option, and is given once") {
  CHECK(Timer{{.duration = std::chrono::hours(2)}}.remaining() == seconds(7200));
  CHECK(Timer{{.duration = "00:02:00:00", .verbose = false}}.remaining() == seconds(7200));
  CHECK_FALSE(Timer{{.interval = Interval::epoch}}.limits_time());
  CHECK(steps(Timer{{.duration = seconds(3), .interval = Interval::epoch}}) == 4);
  auto const twice = error_of([] { Timer{seconds(3), {.duration = seconds(4)}}; });
  CHECK(twice.starts_with("[fulgurite.callback.timer_duration] Timer: two durations are given"));
  CHECK(error_of([] { Timer{{.duration = seconds(-1)}}; }).starts_with("[fulgurite.callback.timer_duration]"));
}

TEST_CASE("timer: a resumed one goes on where it was, a spent one stops at once") {
  Scripted model{.seconds_per_batch = 1};
  auto trainer = fitted(model, quick(1), 4, Timer{seconds(7)});
  auto const text = state_text(trainer.template callback<Timer>());
  Timer resumed{seconds(7)};
  load_state_text(resumed, text);
  CHECK(state_text(resumed) == text);
  CHECK(resumed.remaining() == seconds(2));
  CHECK(steps(std::move(resumed)) == 2);
  Timer spent{seconds(5)};
  load_state_text(spent, text);
  CHECK(steps(std::move(spent)) == 0);
}

TEST_CASE("timer: what follows a failed run is not spent in it") {
  Scripted model{.seconds_per_batch = 1, .fails_at = 1};
  auto trainer = ScriptedTrainer<Timer>(quick(1), SavingDevice{}, Float32{}, Automatic{}, Timer{seconds(100)});
  CHECK_THROWS_AS(trainer.fit(model, toy::batches(4), toy::batches(1)), Error);
  auto const& timer = trainer.callback<Timer>();
  CHECK(timer.elapsed() == seconds(2));
  CHECK(timer.end_time().has_value());
  fake_seconds += 1000;
  trainer.fit(model, toy::batches(4), toy::batches(1));
  CHECK(trainer.progress().global_step == 1 + 4);
  CHECK(timer.elapsed() == seconds(2 + 5));
  CHECK(timer.elapsed(Timer::Timed::validate) == seconds(1));
}

TEST_CASE("timer: a fit that goes back does not get its time back, and the clock runs on") {
  Scripted model{.seconds_per_batch = 1};
  auto trainer =
      ScriptedTrainer<Timer, AtBatch>(quick(5), SavingDevice{}, Float32{}, Automatic{}, Timer{seconds(6)}, AtBatch{});
  auto& timer = trainer.callback<Timer>();
  std::string then;
  trainer.callback<AtBatch>().then = [&](long step) {
    if (step == 1) then = state_text(timer);
    if (step == 3) load_state_text(timer, then);
  };
  trainer.fit(model, toy::batches(4), toy::batches(1));
  CHECK(trainer.progress().global_step == 5);  // the sixth second was a validation
  CHECK(timer.elapsed() == seconds(7));
  CHECK(timer.start_time().has_value());
}

TEST_CASE("timer: a file that is written at a validation's end holds the time of the validation") {
  Folder const folder;
  Scripted model{.seconds_per_batch = 1};
  auto options = quick(1);
  options.val_check_interval = 2;
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, Timer{},
                                        ModelCheckpoint{Scripted::vl, {.dirpath = folder.path, .save_top_k = -1}});
  trainer.fit(model, toy::batches(4), toy::batches(3));
  auto const text = to_text(run_state(SafetensorsFile(folder / "epoch=0-step=2.safetensors")));
  INFO(text);
  CHECK(text.find("\"elapsed\":[5") != text.npos);  // two steps and three batches of validation
}
