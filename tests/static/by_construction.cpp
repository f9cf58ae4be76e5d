// What Lightning warns about and a program of ours has no way to say: no option takes it, no type can hold it. Each
// concept is shown to hold for what does exist, so that a misspelt name cannot make a test pass.
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <concepts>
#include <string>
#include <type_traits>
#include <vector>

#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/schedule/schedule.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

namespace {

/// An option that is written elsewhere, which a program is told that names it (tests/nocompile/options.*): it has no
/// value.
template <class Option>
constexpr bool holds_nothing = std::is_empty_v<Option>;

// TAKES(name, .option = value): an aggregate T can be made with that option.
#define TAKES(NAME, ...)                                                                                               \
  template <class T>                                                                                                   \
  concept NAME = requires { T{__VA_ARGS__}; }

TAKES(TakesEpochs, .max_epochs = 3);
TAKES(TakesRateFinder, .auto_lr_find = true);
TAKES(TakesRateField, .auto_lr_find = "learning_rate");
TAKES(TakesBatchFinder, .auto_scale_batch_size = true);
TAKES(TakesBatchFinderMode, .auto_scale_batch_size = "binsearch");

TAKES(TakesMode, .mode = Mode::max);
TAKES(TakesModeNumber, .mode = 1);

TAKES(TakesClip, .clip = ClipNorm{0.5});
TAKES(TakesClipAlgorithm, .gradient_clip_algorithm = "norm");

TAKES(TakesHours, .max_time = std::chrono::hours(8));
TAKES(TakesTimeText, .max_time = "00:08:00:00");
TAKES(TakesSaveInterval, .train_time_interval = std::chrono::minutes(10));
TAKES(TakesSaveIntervalText, .train_time_interval = "00:00:10:00");

TAKES(TakesInterval, .interval = Interval::step);
TAKES(TakesMisspeltInterval, .intervall = Interval::step);
TAKES(TakesMonitor, .monitor = "val/loss");

TAKES(TakesBatchSize, .batch_size = 4);
TAKES(TakesOnStep, .on_step = true);
TAKES(TakesReduceFx, .reduce_fx = "mean");
TAKES(TakesReduce, .reduce = Reduce::max);
TAKES(TakesReduceText, .reduce = "max");
TAKES(TakesReduceFunction, .reduce = [](double a, double b) { return a + b; });
TAKES(TakesReportStep, .on_step = Report::yes);

TAKES(TakesPlugins, .plugins = 0);

#undef TAKES

/// A value can be made of these.
template <class T, class... From>
concept MadeOf = requires(From... from) { T{from...}; };

template <class... Parts>
concept Schedulable = requires(Parts... parts) { scheduled(parts...); };

using TrainerOf = Trainer<toy::P, toy::Device, Float32, Automatic>;
template <class... Given>
concept FitTakes = requires(TrainerOf& trainer, toy::P& model, Given... given) { trainer.fit(model, given...); };

}  // namespace

TEST_CASE("W10, W14, W16: no option names a finder, its field or its mode by text", "[by_construction]") {
  STATIC_REQUIRE(TakesEpochs<TrainerOptions>);
  STATIC_REQUIRE(!TakesRateFinder<TrainerOptions>);
  STATIC_REQUIRE(!TakesRateField<TrainerOptions>);
  STATIC_REQUIRE(!TakesBatchFinder<TrainerOptions>);
  STATIC_REQUIRE(!TakesBatchFinderMode<TrainerOptions>);
  STATIC_REQUIRE(MadeOf<tune::RateMode, tune::RateMode>);
  STATIC_REQUIRE(!MadeOf<tune::RateMode, char const*>);
}

TEST_CASE("W16: the mode of a search for a batch size is no text", "[by_construction]") {
  STATIC_REQUIRE(std::is_enum_v<decltype(tune::BatchSizeSearch<toy::P>::mode)>);
  STATIC_REQUIRE(!std::is_convertible_v<char const*, tune::SizeMode>);
}

TEST_CASE("W23: a way of clipping comes with its limit, and a limit with its way", "[by_construction]") {
  STATIC_REQUIRE(TakesClip<Automatic>);
  STATIC_REQUIRE(!TakesClipAlgorithm<Automatic>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::gradient_clip_algorithm)>);
  STATIC_REQUIRE(MadeOf<Clip, ClipValue>);
  STATIC_REQUIRE(!MadeOf<Clip, Clip::Kind>);
}

TEST_CASE("W25: Manual takes no clipping, so none can be left undone", "[by_construction]") {
  STATIC_REQUIRE(TakesClip<Automatic>);
  STATIC_REQUIRE(!TakesClip<Manual>);
}

TEST_CASE("W40: a duration is one of std::chrono or DD:HH:MM:SS", "[by_construction]") {
  STATIC_REQUIRE(TakesHours<TrainerOptions>);
  STATIC_REQUIRE(TakesTimeText<TrainerOptions>);
  STATIC_REQUIRE(TakesSaveInterval<ModelCheckpointOptions>);
  STATIC_REQUIRE(TakesSaveIntervalText<ModelCheckpointOptions>);
}

TEST_CASE("W49: a plateau schedule has a metric to follow", "[by_construction]") {
  STATIC_REQUIRE(requires { schedule::ReduceOnPlateau{Metric<"val/loss">{}, schedule::PlateauOptions{}}; });
  STATIC_REQUIRE(!std::default_initializable<schedule::ReduceOnPlateau<Metric<"val/loss">>>);
  STATIC_REQUIRE(!TakesMonitor<ScheduleOptions>);
}

TEST_CASE("W53: a schedule is put on an optimizer where that is returned; alone it has none, so none can be foreign",
          "[by_construction]") {
  STATIC_REQUIRE(Schedulable<toy::Sgd, schedule::Constant>);
  STATIC_REQUIRE(!Schedulable<schedule::Constant>);
  STATIC_REQUIRE(MadeOf<schedule::Constant, double>);
  STATIC_REQUIRE(!MadeOf<schedule::Constant, toy::Sgd>);
  using Both = decltype(scheduled(toy::Sgd{}, schedule::Constant{}));
  STATIC_REQUIRE(std::is_same_v<decltype(Both::optimizer), toy::Sgd>);
  STATIC_REQUIRE(!std::is_reference_v<decltype(Both::optimizer)>);
}

TEST_CASE("W55: a key that does not exist is no option", "[by_construction]") {
  STATIC_REQUIRE(TakesInterval<ScheduleOptions>);
  STATIC_REQUIRE(!TakesMisspeltInterval<ScheduleOptions>);
}

TEST_CASE("W57: how a metric is reported and reduced is said where it is declared, not where it is logged",
          "[by_construction]") {
  STATIC_REQUIRE(TakesBatchSize<LogOptions>);
  STATIC_REQUIRE(!TakesReduceFx<LogOptions>);
  STATIC_REQUIRE(!TakesReduce<LogOptions>);
  STATIC_REQUIRE(TakesReportStep<Metric<"loss">>);
  STATIC_REQUIRE(TakesOnStep<Metric<"loss">>);
  STATIC_REQUIRE(Metric<"loss">{.on_step = true, .on_epoch = false}.on_step == Report::yes);
  STATIC_REQUIRE(Metric<"loss">{.on_step = true, .on_epoch = false}.on_epoch == Report::no);
  STATIC_REQUIRE(Metric<"loss">{}.on_epoch == Report::by_hook);
  STATIC_REQUIRE(!MadeOf<Report, int>);
  STATIC_REQUIRE(!MadeOf<Report, char const*>);
}

TEST_CASE("W58: a reduction is one of an enum", "[by_construction]") {
  STATIC_REQUIRE(TakesReduce<Metric<"loss">>);
  STATIC_REQUIRE(!TakesReduceText<Metric<"loss">>);
  STATIC_REQUIRE(!TakesReduceFunction<Metric<"loss">>);
}

TEST_CASE("W60: no flag switches off a bar, a summary or a saver: each is there when it is given",
          "[by_construction]") {
  STATIC_REQUIRE(TakesEpochs<TrainerOptions>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::enable_progress_bar)>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::enable_model_summary)>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::enable_checkpointing)>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::logger)>);
}

TEST_CASE("W62, W65: the better way of a metric is one of an enum", "[by_construction]") {
  STATIC_REQUIRE(TakesMode<EarlyStoppingOptions>);
  STATIC_REQUIRE(!TakesModeNumber<EarlyStoppingOptions>);
  STATIC_REQUIRE(TakesMode<ModelCheckpointOptions>);
}

TEST_CASE("W90: what a fit goes on from is its argument, and no option", "[by_construction]") {
  using Batches = std::vector<double>;
  STATIC_REQUIRE(FitTakes<Batches&>);
  STATIC_REQUIRE(FitTakes<Batches&, NoValidation>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::ckpt_path)>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::resume_from_checkpoint)>);
}

TEST_CASE("W94: strategy and precision have one place each, as arguments of make_trainer", "[by_construction]") {
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::precision)>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::strategy)>);
  STATIC_REQUIRE(!TakesPlugins<TrainerOptions>);
  STATIC_REQUIRE(holds_nothing<decltype(TrainerOptions::sync_batchnorm)>);
  STATIC_REQUIRE(std::is_same_v<decltype(make_trainer<toy::P>(TrainerOptions{}, toy::Device{}, Float32{}, Automatic{})),
                                TrainerOf>);
}
