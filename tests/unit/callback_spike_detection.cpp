#include <limits>
#include <utility>

#include <fulgurite/callback/early_stopping.hpp>

#include "callback_run.hpp"

using namespace fulgurite;

namespace {
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

struct Jumping {
  static constexpr Metric<"loss"> loss{};
  using Metrics = MetricList<loss>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double batch, auto& ctx) {
    ctx.log(loss, batch);
    return -p;
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

struct End {
  std::string error;
  std::string file;
  std::vector<long> bad;
};
/// Losses, one a batch.
End run(std::vector<double> losses, SpikeDetectionOptions how = {}, int accumulate = 1) {
  Folder const folder;
  Jumping model;
  auto options = quick(1);
  options.default_root_dir = folder.path;
  auto trainer =
      make_trainer<Jumping>(options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = accumulate},
                            SpikeDetection{Jumping::loss, how});
  End end;
  end.error = error_of([&] { trainer.fit(model, losses); });
  end.file = content(folder / "skip_batches.json");
  end.bad = trainer.template callback<SpikeDetection<Metric<"loss">>>().bad_batches();
  CHECK(folder.files().size() == (end.error.empty() ? 0 : 1));
  return end;
}
}  // namespace

TEST_CASE("spike: a loss far above the mean of the last ones ends the fit and names its batch and the one before") {
  auto const end = run({1, 2, 3, 7});
  CHECK(end.error.starts_with("[fulgurite.callback.spike] SpikeDetection: loss = 7 in batch 3 of epoch 0, after a mean "
                              "of 2: leave out the batches in "));
  CHECK(end.file == "[2, 3]\n");
  CHECK(end.bad == std::vector<long>{2, 3});
}

TEST_CASE("spike: near enough, or better than the last one, is none") {
  CHECK(run({1, 2, 3, 5.9}).error.empty());
  CHECK(run({9, 1, 1, 0}).error.empty());
  CHECK(run({9, 1, 1, 0.1}, {.rtol = 0.5}).error.empty());
  CHECK_FALSE(run({9, 9, 1}, {.mode = Mode::max, .rtol = 0.5}).error.empty());
}

TEST_CASE("spike: both tolerances must be exceeded") {
  CHECK(run({0.1, 0.1, 1}, {.atol = 1.0}).error.empty());
  CHECK_FALSE(run({0.1, 0.1, 1}, {.atol = 0.9}).error.empty());
  CHECK_FALSE(run({0.1, 0.1, 0.2}, {.atol = std::nullopt, .rtol = std::nullopt}).error.empty());
}

TEST_CASE("spike: the mean runs over the window, the look begins after the warm-up") {
  CHECK_FALSE(run({9, 1, 1, 4}, {.window = 2}).error.empty());
  CHECK(run({9, 1, 1, 4}, {.window = 3}).error.empty());
  CHECK(run({1, 9, 9}, {.warmup = 2}).error.empty());
  CHECK_FALSE(run({1, 9, 9}, {.warmup = 1}).error.empty());
}

TEST_CASE("spike: NaN is one, or is passed over") {
  CHECK(run({1, nan_value}).file == "[0, 1]\n");
  CHECK(run({1, nan_value, 1}, {.finite_only = false}).error.empty());
}

TEST_CASE("spike: a window of accumulated batches of another length does not look like one") {
  CHECK(run({1, 1, 1, 1, 1}, {}, 4).error.empty());
}

TEST_CASE("spike: options that make no sense") {
  for (SpikeDetectionOptions const& wrong :
       {SpikeDetectionOptions{.window = 0}, SpikeDetectionOptions{.warmup = -1}, SpikeDetectionOptions{.atol = -1.0},
        SpikeDetectionOptions{.rtol = nan_value}})
    CHECK(error_of([&] { SpikeDetection{Jumping::loss, wrong}; }).starts_with("[fulgurite.callback.spike_options]"));
}

TEST_CASE("spike: its state comes back") {
  Jumping model;
  auto trainer = make_trainer<Jumping>(quick(1), SavingDevice{}, Float32{}, Automatic{}, SpikeDetection{Jumping::loss});
  trainer.fit(model, std::vector<double>{1, 2, 3});
  auto& one = trainer.template callback<SpikeDetection<Metric<"loss">>>();
  SpikeDetection two{Jumping::loss};
  load_state_text(two, state_text(one));
  CHECK(state_text(two) == state_text(one));
  CHECK(two.running_mean() == 2.0);
  CHECK(two.state_key() == "SpikeDetection{loss}");
}

namespace {
/// Logs every second batch.
struct Seldom : Jumping {
  toy::Tensor training_step(double batch, auto& ctx) {
    if (ctx.batch_idx() % 2 == 0) ctx.log(loss, batch);
    return -p;
  }
};
}  // namespace

TEST_CASE("spike: a batch in which nothing was logged is not judged by the value of an earlier one") {
  Seldom model;
  auto trainer = make_trainer<Seldom>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                      SpikeDetection{Jumping::loss, {.window = 2, .warmup = 100}});
  trainer.fit(model, std::vector<double>{2, 100, 4, 100});
  CHECK(trainer.callback<SpikeDetection>().running_mean() == 3);
}

namespace {
/// Fails once, in the first batch of its first fit.
struct FailsInItsFirstFit {
  using Stateless = ByChoice;
  bool failed = false;
  void on_train_batch_end(auto& ctx) {
    if (ctx.batch_idx() == 0 && !std::exchange(failed, true)) throw Error("fulgurite.test.planned", "planned");
  }
};
}  // namespace

TEST_CASE("spike: the fit after one that failed is looked at in each batch, also where the counts of values meet") {
  Folder const folder;
  Jumping model;
  auto options = quick(1);
  options.default_root_dir = folder.path;
  auto trainer = make_trainer<Jumping>(options, SavingDevice{}, Float32{}, Automatic{},
                                       SpikeDetection{Jumping::loss, {.window = 100}}, FailsInItsFirstFit{});
  CHECK_FALSE(error_of([&] { trainer.fit(model, std::vector<double>{1, 1, 1, 1}); }).empty());
  trainer.fit(model, std::vector<double>{1, 1, 2, 1});
  auto const& spikes = trainer.template callback<SpikeDetection<Metric<"loss">>>();
  CHECK(spikes.running_mean() == 6.0 / 5);  // of 1 and of 4 batches
}
