#include <fulgurite/defaults/callbacks.hpp>

#include <unistd.h>

#include <cstdio>
#include <type_traits>

#include <fulgurite/callback/dashboard.hpp>
#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/logger/console_logger.hpp>

#include "callback_run.hpp"
#include "callback_stream.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace {
struct SummarizedBackend : SavingBackend {
  static constexpr bool adds_defaults = true;
  template <class Model>
  static std::vector<report::ModelRow> summarize(Model const&, int) {
    return {};
  }
};
struct Host : toy::Device {
  using Backend = SummarizedBackend;
};
/// One with loaders of its own for everything.
struct Digits {
  using Stateless = ByChoice;
  std::vector<double> train = toy::batches(4), val = toy::batches(2), tests = toy::batches(3);
  auto& train_dataloader() { return train; }
  auto& val_dataloader() { return val; }
  auto& test_dataloader() { return tests; }
};
struct Tested : Scripted {
  void test_step(double batch, auto& ctx) { ctx.log(acc, batch); }
};

template <class... Given>
using Made = decltype(make_trainer<Scripted>(TrainerOptions{.max_epochs = 1}, std::declval<Given>()...));
using WithDefaults =
    Trainer<Scripted, Host, Float32, Automatic, ProgressBar, ModelSummary, CSVLogger, ModelCheckpoint<>, ResultsTable>;
using Stopping = EarlyStopping<std::remove_const_t<decltype(Scripted::vl)>>;
}  // namespace

TEST_CASE("defaults: what is not named is there, whatever the order of what is") {
  STATIC_REQUIRE(std::is_same_v<Made<Host>, WithDefaults>);
  STATIC_REQUIRE(std::is_same_v<Made<Host, Float32, Automatic>, WithDefaults>);
  STATIC_REQUIRE(std::is_same_v<Made<Automatic, Host, Float32>, WithDefaults>);
  STATIC_REQUIRE(std::is_same_v<Made<Float32, Host>, WithDefaults>);
  STATIC_REQUIRE(std::is_same_v<Made<Automatic, Host>, WithDefaults>);
  STATIC_REQUIRE(
      std::is_same_v<Made<Manual, Bf16Mixed, Host>, Trainer<Scripted, Host, Bf16Mixed, Manual, ProgressBar,
                                                            ModelSummary, CSVLogger, ModelCheckpoint<>, ResultsTable>>);
}

TEST_CASE("defaults: NoDefaults leaves out all of them, whatever else is named, and a trainer spelt out has none") {
  STATIC_REQUIRE(std::is_same_v<Made<Host, NoDefaults>, Trainer<Scripted, Host, Float32, Automatic>>);
  STATIC_REQUIRE(std::is_same_v<Made<NoDefaults, Manual, Stopping, Bf16Mixed, Host, ProgressBar>,
                                Trainer<Scripted, Host, Bf16Mixed, Manual, Stopping, ProgressBar>>);
  using SpeltOut = Trainer<Scripted, Host, Float32, Automatic>;
  SpeltOut const trainer{TrainerOptions{.max_epochs = 1}, Host{}, Float32{}, Automatic{}};
  CHECK(trainer.options().max_epochs == 1);
  // A tensor library that says so is added nothing.
  STATIC_REQUIRE(std::is_same_v<Made<toy::Device>, Trainer<Scripted, toy::Device, Float32, Automatic>>);
  STATIC_REQUIRE(std::is_same_v<Made<Float32, Stopping, toy::Device, Automatic>,
                                Trainer<Scripted, toy::Device, Float32, Automatic, Stopping>>);
}

TEST_CASE("defaults: one that is named replaces its like, and a word leaves one out") {
  STATIC_REQUIRE(
      std::is_same_v<Made<Host, ConsoleLogger, NoProgressBar, NoModelSummary>,
                     Trainer<Scripted, Host, Float32, Automatic, ConsoleLogger, ModelCheckpoint<>, ResultsTable>>);
  using Best = ModelCheckpoint<std::remove_const_t<decltype(Scripted::vl)>>;
  STATIC_REQUIRE(std::is_same_v<Made<Best, Host, NoLogger, NoProgressBar, NoModelSummary, NoResultsTable>,
                                Trainer<Scripted, Host, Float32, Automatic, Best>>);
  STATIC_REQUIRE(std::is_same_v<Made<Host, NoCheckpoints, Float32, NoLogger, Automatic>,
                                Trainer<Scripted, Host, Float32, Automatic, ProgressBar, ModelSummary, ResultsTable>>);
}

TEST_CASE("defaults: what draws rows is no logger, so the logger is added beside it or left out by its word") {
  STATIC_REQUIRE(
      std::is_same_v<Made<Host, LearningCurves, NoProgressBar, NoModelSummary, NoResultsTable>,
                     Trainer<Scripted, Host, Float32, Automatic, LearningCurves, CSVLogger, ModelCheckpoint<>>>);
  STATIC_REQUIRE(std::is_same_v<Made<Host, NoLogger, Dashboard, NoModelSummary, NoResultsTable>,
                                Trainer<Scripted, Host, Float32, Automatic, Dashboard, ModelCheckpoint<>>>);
  STATIC_REQUIRE(!loop::is_inert_in_dev_run<Dashboard>());
}

TEST_CASE("defaults: under barebones what was added is idle, and what was named is refused") {
  Folder const folder;
  Stream out;
  Tested net;
  Digits data;
  TrainerOptions const options{.max_epochs = 1, .barebones = true, .default_root_dir = folder.path};
  auto trainer = make_trainer(net, options, Host{});
  trainer.fit(net, data);
  trainer.validate(net, data);
  CHECK(trainer.progress().global_step == 4);
  CHECK(folder.files().empty());
  auto named = make_trainer(net, options, Host{}, ProgressBar{{.stream = out.file}});
  CHECK(toy::refusal([&] { named.fit(net, data); }) == "fulgurite.options.barebones");
}

TEST_CASE(
    "defaults: a fit leaves its log and the file of its last epoch; validate(model) and test(model) go on its data") {
  Folder const folder;
  Tested net;
  Digits data;
  Stream out;
  auto trainer = make_trainer(net, TrainerOptions{.max_epochs = 2, .default_root_dir = folder.path}, Host{},
                              NoProgressBar{}, ResultsTable{{.stream = out.file}});
  std::string sentence;
  CHECK(toy::refusal([&] { trainer.validate(net); }, &sentence) == "fulgurite.trainer.no_data");
  CHECK(sentence.find("trainer.validate(model, data)") != std::string::npos);
  trainer.fit(net, data);
  CHECK(out.all().empty());  // validations of a fit are not printed
  auto const files = folder.files();
  CHECK(files.contains("lightning_logs/version_0/metrics.csv"));
  CHECK(files.contains("lightning_logs/version_0/checkpoints/epoch=1-step=8.safetensors"));

  net.script = {0.5};
  auto const validated = trainer.validate(net), given = trainer.validate(net, data);
  CHECK(validated.at(0).at(0).value == 0.5);
  CHECK(given.at(0).at(0).value == 0.5);
  auto const table = "Validate metric | Value\n-----------------------\n"
                     "vl              | 0.5  \nval/acc         | 0.25 \n-----------------------\n";
  CHECK(out.take() == std::string(table) + table);
  CHECK(trainer.test(net).at(0).at(0).value == 1);
  CHECK(out.take() == "Test metric | Value\n-------------------\nval/acc     | 1    \n-------------------\n");
  // Of several loaders, each has a column.
  auto loaders = std::tuple(toy::batches(1, 2), toy::batches(1, 4));
  trainer.test(net, loaders);
  CHECK(out.take() == "Test metric | dataloader_idx_0 | dataloader_idx_1\n"
                      "-------------------------------------------------\n"
                      "val/acc     | 2                | 4               \n"
                      "-------------------------------------------------\n");
  CHECK(error_of([] { ResultsTable{{.columns = -1}}; }).starts_with("[fulgurite.callback.results_columns]"));
  auto narrow = make_trainer(net, TrainerOptions{.max_epochs = 2, .default_root_dir = folder.path}, Host{},
                             NoProgressBar{}, ResultsTable{{.stream = out.file, .columns = 40}});
  narrow.test(net, loaders);
  CHECK(out.take() == "Test metric | dataloader_idx_0\n------------------------------\n"
                      "val/acc     | 2               \n------------------------------\n"
                      "Test metric | dataloader_idx_1\n------------------------------\n"
                      "val/acc     | 4               \n------------------------------\n");
  // A module that is no variable is gone when the fit is over.
  trainer.fit(net, Digits{});
  CHECK(toy::refusal([&] { trainer.test(net); }) == "fulgurite.trainer.no_data");
}

namespace {
struct OfItsOwn : Tested {
  std::vector<double> own = toy::batches(2);
  auto& train_dataloader() { return own; }
  auto& val_dataloader() { return own; }
};
struct Instead : Digits {
  using OverridesModel = void;
};
}  // namespace

TEST_CASE("defaults: a fit on the model's own loader forgets the data module of the fit before") {
  OfItsOwn net;
  Instead data;
  auto trainer = make_trainer(net, quick(1), SavingDevice{}, Float32{}, Automatic{});
  for (bool const waives : {false, true}) {
    trainer.fit(net, data);
    CHECK(trainer.test(net).size() == 1);
    if (waives) trainer.fit(net, NoValidation{});
    else trainer.fit(net);
    CHECK(toy::refusal([&] { trainer.test(net); }) == "fulgurite.trainer.no_data");
  }
}

TEST_CASE("max_time and val_check_interval take days, hours, minutes and seconds") {
  TrainerOptions const options{.max_time = "01:12:00:05", .val_check_interval = "00:00:15:00"};
  CHECK(options.max_time->count() == 129605);
  CHECK(options.val_check_interval.time.count() == 900);
  CHECK(time_text(*options.max_time) == "01:12:00:05");
  for (auto const* wrong : {"12:00:00", "00:24:00:00", "00:00:60:00", "00:00:00:60", "00:00:00:", "1h", "00:00:00:01 ",
                            "-1:00:00:00", "0000000000:00:00:00"})
    CHECK(toy::refusal([&] { static_cast<void>(TrainerOptions{.max_time = wrong}); }) == "fulgurite.options.time");
}

namespace {
struct Talking : toy::P {
  void on_train_start(auto& ctx) { ctx.print("a line"); }
};
/// What f writes to stdout.
template <class F>
std::string printed(F&& f) {
  std::fflush(stdout);
  int const before = ::dup(STDOUT_FILENO);
  std::FILE* const file = std::tmpfile();
  ::dup2(::fileno(file), STDOUT_FILENO);
  f();
  std::fflush(stdout);
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  std::rewind(file);
  std::string text(100, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}
}  // namespace

TEST_CASE("ctx.print writes a line on stdout") {
  CHECK(printed([] {
          Talking net;
          make_trainer(net, quick(1), toy::Device{}, Float32{}, Automatic{}).fit(net, toy::batches(1));
        }) == "a line\n");
}
