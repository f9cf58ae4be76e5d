// A step's file where a validation follows in the same batch: it is ranked and named by that validation, however
// validations are timed, and holds the weights that were validated.
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace ranked_by_validation {

using Kept = std::set<std::string>;
using Options = ModelCheckpointOptions;

/// The n-th validation of a run logs script[n - 1]. Each batch takes a second.
struct Net {
  static constexpr Metric<"loss"> loss{};
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<loss, vl>;
  std::vector<double> script = {3, 1, 2, 4, 5, 6, 7, 8};
  std::size_t validations = 0;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  void state(auto& archive) { archive("validations", validations); }
  toy::Tensor training_step(double batch, auto& ctx) {
    fake_seconds += 1;
    ctx.log(loss, batch);
    return -p;
  }
  void on_validation_start() { ++validations; }
  void validation_step(double, auto& ctx) { ctx.log(vl, script.at(validations - 1)); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
struct ByHand : Net {
  void training_step(double batch, auto& ctx) {
    fake_seconds += 1;
    ctx.log(loss, batch);
    auto& [sgd] = ctx.optimizers();
    ctx.minimize(sgd, -p);
  }
};
struct Stops {
  using Stateless = ByChoice;
  long after;
  Stop on_train_batch_end(auto& ctx) const { return Stop{ctx.global_step() == after}; }
};

TrainerOptions validating(ValidationInterval interval, int epochs = 1) {
  auto options = quick(epochs);
  options.val_check_interval = interval;
  return options;
}
constexpr auto in_seconds(int n) { return std::chrono::seconds(n); }

/// The files of a fit that keeps all of its steps `how` by the value of the validation, which their names tell.
template <class Model = Net, class Watch = Metric<"vl">, class Loader, class How, class... Cs>
Kept files_of(TrainerOptions options, Loader train, How optimization, Options how, Cs... more) {
  Folder const folder;
  how.dirpath = folder.path;
  how.filename = "{step}-{vl:.0f}";
  how.auto_insert_metric_name = false;
  how.extension = "";
  Model model;
  using Files = ModelCheckpoint<Watch>;
  Trainer<Model, SavingDevice, Float32, How, Cs..., Files> trainer(std::move(options), SavingDevice{}, Float32{},
                                                                   optimization, more..., Files(Watch{}, how));
  said([&] { trainer.fit(model, train, toy::batches(1)); });
  return folder.files();
}
Kept every(long steps, TrainerOptions options, int batches, int window = 1) {
  return files_of(std::move(options), toy::batches(batches), Automatic{.accumulate_grad_batches = window},
                  {.save_top_k = -1, .every_n_train_steps = steps});
}

}  // namespace ranked_by_validation
using namespace ranked_by_validation;

TEST_CASE("checkpoint: the best of steps 2, 4 and 6 is the one after which validation has found the best value") {
  Folder const folder;
  Net model;
  Trainer<Net, SavingDevice, Float32, Automatic, ModelCheckpoint<Metric<"vl">>> trainer(
      validating(2), {}, {}, {}, ModelCheckpoint{Net::vl, {.dirpath = folder.path, .every_n_train_steps = 2}});
  trainer.fit(model, toy::batches(6), toy::batches(1));
  auto const& files = trainer.callback<ModelCheckpoint<Metric<"vl">>>();
  CHECK(files.best_model_score() == 1.0);
  CHECK(files.best_model_path() == folder / "epoch=0-step=4.safetensors");
  CHECK(folder.files() == Kept{"epoch=0-step=4.safetensors"});
}

TEST_CASE("checkpoint: a step's file has the value of the validation in its batch, at every timing of validations") {
  Kept const each{"2-3", "4-1", "6-2"};
  CHECK(every(2, validating(2), 6) == each);
  CHECK(every(2, validating(Fraction{0.34}), 6) == each);
  auto across = validating(2, 2);
  across.check_val_every_n_epoch = std::nullopt;
  CHECK(every(2, across, 3) == each);
  CHECK(every(1, validating(4), 12, 4) == Kept{"1-3", "2-1", "3-2"});
  CHECK(every(2, validating(in_seconds(2)), 6) == each);
  // Where none follows, the value is that of the last one.
  CHECK(every(1, validating(2), 6) == Kept{"2-3", "3-3", "4-1", "5-1", "6-2"});
  CHECK(every(1, validating(in_seconds(3)), 6) == Kept{"3-3", "4-3", "5-3", "6-1"});
  auto second = quick(2);
  second.check_val_every_n_epoch = 2;
  CHECK(every(4, second, 2) == Kept{"4-3"});
}

TEST_CASE("checkpoint: the same by hand, in the background, by time, at a stop, and where the end is found late") {
  Options const how{.save_top_k = -1, .every_n_train_steps = 2};
  Kept const each{"2-3", "4-1", "6-2"};
  CHECK(files_of<ByHand>(validating(2), toy::batches(6), Manual{}, how) == each);
  auto background = validating(2);
  background.save_in_background = true;
  CHECK(files_of(background, toy::batches(6), Automatic{}, how) == each);
  CHECK(files_of(validating(2), toy::batches(6), Automatic{},
                 {.save_top_k = -1, .train_time_interval = in_seconds(2)}) == each);
  // A stop validates before it ends the epoch, and so does a loader that is found to be at its end.
  CHECK(files_of(validating(5), toy::batches(9), Automatic{}, how, Stops{.after = 4}) == Kept{"4-3"});
  toy::Generator numbers([](long, long batch) { return batch < 4 ? std::optional(1.0) : std::nullopt; });
  CHECK(files_of(validating(3), std::move(numbers), Automatic{}, how) == Kept{"3-3", "4-3"});
}

TEST_CASE("checkpoint: a file that no metric ranks is named by the validation in its batch, too") {
  CHECK(files_of<Net, NoMonitor>(validating(2), toy::batches(6), Automatic{},
                                 {.save_top_k = -1, .every_n_train_steps = 2}) == Kept{"2-3", "4-1", "6-2"});
}

TEST_CASE("checkpoint: a step of two batches is ranked by the last value of the batch that made it") {
  Folder const folder;
  Net model;
  using Files = ModelCheckpoint<Last<Metric<"loss">>>;
  Trainer<Net, SavingDevice, Float32, Automatic, Files> trainer(
      quick(1), {}, {}, {.accumulate_grad_batches = 2},
      Files(Net::loss.last(),
            {.dirpath = folder.path, .filename = "{step}", .save_top_k = -1, .every_n_train_steps = 1}));
  trainer.fit(model, toy::batches(4), NoValidation{});
  auto const& files = trainer.callback<Files>();
  std::vector<std::string> names;
  for (auto const& path : files.best_k_models()) names.push_back(path.filename());
  CHECK(names == std::vector<std::string>{"step=1.safetensors", "step=2.safetensors"});
  std::vector<double> expected;
  for (long i = 0; double const batch : toy::batches(4))
    if (i++ % 2 == 1) expected.push_back(batch);
  CHECK(files.best_k_scores() == expected);
}

namespace ranked_by_validation {
/// Asks for a file of its own after step 4, before or after the ModelCheckpoint of the same batch.
struct Cuts {
  using Stateless = ByChoice;
  std::filesystem::path file;
  void on_train_batch_end(auto& ctx) {
    if (ctx.global_step() == 4) ctx.request_checkpoint(file);
  }
};
struct CutsLast : Cuts {
  static constexpr Order order = Order::checkpoint;
};
template <class Cut, bool first>
void cut_and_resume() {
  using Files = ModelCheckpoint<Metric<"vl">>;
  Folder const folder;
  auto const fit = [&](auto... from) {
    Net model;
    Files files(Net::vl,
                {.dirpath = folder / "files", .filename = "{step}-{vl}", .save_top_k = 2, .every_n_train_steps = 1});
    Cut const cut{{folder / "cut.safetensors"}};
    using Trained = std::conditional_t<first, Trainer<Net, SavingDevice, Float32, Automatic, Cut, Files>,
                                       Trainer<Net, SavingDevice, Float32, Automatic, Files, Cut>>;
    std::optional<Trained> trainer;
    if constexpr (first) trainer.emplace(validating(2), SavingDevice{}, Float32{}, Automatic{}, cut, files);
    else trainer.emplace(validating(2), SavingDevice{}, Float32{}, Automatic{}, files, cut);
    said([&] { trainer->fit(model, toy::batches(6), toy::batches(1), from...); });
    auto const& kept = trainer->template callback<Files>();
    std::vector<std::string> names;
    for (auto const& path : kept.best_k_models()) names.push_back(path.filename());
    return names;
  };
  auto const whole = fit();
  CHECK(whole == std::vector<std::string>{"step=4-vl=1.0.safetensors", "step=5-vl=1.0.safetensors"});
  std::filesystem::remove_all(folder / "files");
  CHECK(fit(CkptPath{folder / "cut.safetensors"}) == whole);
}
}  // namespace ranked_by_validation

TEST_CASE("checkpoint: a run that goes on from a file of such a batch waits for its validation, too") {
  cut_and_resume<CutsLast, true>();
  cut_and_resume<CutsLast, false>();
}

namespace ranked_by_validation {
/// Fails at a step, after the ModelCheckpoint of the same batch has requested a file.
struct FailsAfter {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  long step;
  void on_train_batch_end(auto& ctx) const {
    if (ctx.global_step() == step) throw Error("fulgurite.test.planned", "planned");
  }
};
/// The files of two epochs of 4 batches, after a failure at that step and after a fit that resumes from its file.
struct Failed {
  Kept then, resumed;
};
Failed failed_at(long step, ValidationInterval interval) {
  using Files = ModelCheckpoint<Metric<"vl">>;
  Folder const folder;
  auto const fit = [&](long fails_at, auto... from) {
    Net model;
    Trainer<Net, SavingDevice, Float32, Automatic, Files, FailsAfter, OnExceptionCheckpoint> trainer(
        validating(interval, 2), {}, {}, {},
        Files(Net::vl, {.dirpath = folder / "files",
                        .filename = "{step}-{vl:.0f}",
                        .save_top_k = -1,
                        .every_n_train_steps = 1,
                        .auto_insert_metric_name = false,
                        .extension = ""}),
        FailsAfter{.step = fails_at}, OnExceptionCheckpoint{{.dirpath = folder.path}});
    said([&] { error_of([&] { trainer.fit(model, toy::batches(4), toy::batches(1), from...); }); });
    Kept files;
    for (auto const& file : folder.files())
      if (file.starts_with("files/")) files.insert(file.substr(6));
    return files;
  };
  Failed all;
  all.then = fit(step);
  all.resumed = fit(-1);
  return all;
}
}  // namespace ranked_by_validation

TEST_CASE("checkpoint: the file of a step is there also where a later hook of the same batch fails") {
  Kept const whole{"4-3", "5-3", "6-3", "7-3", "8-1"};
  CHECK(failed_at(-1, Fraction{1.0}).then == whole);
  // The value is the latest, as in a batch without validation; before the first one the file waits for it.
  auto const second = failed_at(6, Fraction{1.0});
  CHECK(second.then == Kept{"4-3", "5-3", "6-3"});
  CHECK(second.resumed == whole);
  auto const first = failed_at(2, Fraction{1.0});
  CHECK(first.then == Kept{});
  CHECK(first.resumed == whole);
  // After the last batch of an epoch the validation ranks it, in the run that resumes.
  for (long const step : {4, 8}) {
    auto const last = failed_at(step, Fraction{1.0});
    CHECK_FALSE(last.then.contains(step == 4 ? "4-3" : "8-1"));
    CHECK(last.resumed == whole);
  }
}
