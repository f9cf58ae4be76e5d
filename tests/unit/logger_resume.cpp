// A fit that goes on from a file goes on in the folder and in the table of its run: no row twice, no row lost.
#include <algorithm>
#include <string>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/logger/csv_logger.hpp>

#include "logger_run.hpp"

using namespace fulgurite;
using namespace logged;
using logger::CsvTable;

namespace {

std::string const table = "lightning_logs/version_0/metrics.csv";

std::string unbroken() {
  Folder const folder;
  Scripted model{.script = {3, 2, 1}};
  fit(model, below(folder.path), {}, Kills{}, CSVLogger{}, every_second());
  return content(folder / table);
}
long rows_of(std::string const& text) { return std::count(text.begin(), text.end(), '\n') - 1; }

/// A trainer has one callback of a type.
struct OtherLogger : CSVLogger {
  using CSVLogger::CSVLogger;
};
struct OtherSgd : toy::Sgd {
  static constexpr std::string_view name() { return "OtherSgd"; }
};
struct OwnOptimizer : Scripted {
  OtherSgd configure_optimizers() { return {{{p}}}; }
};
/// Its training logs the number of each batch, as a mean over the epoch.
struct Means {
  static constexpr Metric<"mean"> mean{.on_epoch = Report::yes};
  using Metrics = MetricList<mean>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  long fails_at = -1, batches = 0;
  toy::Tensor training_step(double batch, auto& ctx) {
    if (batches++ == fails_at) throw Error("fulgurite.test.step", "a step failed");
    ctx.log(mean, batch);
    return -p;
  }
  toy::Sgd configure_optimizers() { return {{{p}}}; }
};
/// A check of replays is passed in the third step, and finds one that is wrong in the fifth.
struct Replaying : SavingDevice {
  static constexpr bool captures = true;
  bool errs = true, replaying = true;
  long steps = 0, waiting = 0;
  template <class B, class Board, class Seam>
  auto gradients(StepKey, B& batch, Board&, Seam& seam) {
    long const step = steps++;
    if (errs && step == 4) throw loop::WrongReplay("a test", true);
    waiting = errs && (step == 1 || step == 3);
    return seam(batch);
  }
  long unchecked() const { return waiting; }
  bool half_checked() const { return false; }
  void confirm(auto&, auto&) { waiting = 0; }
  bool may_replay() const { return replaying; }
  void give_up(std::string const&) {
    replaying = false;
    waiting = 0;
  }
  long replays() const { return steps; }
  bool goes_back() const { return true; }
  void pass_warnings(auto&&) {}
};
/// The rows of three steps wait for that of the fourth.
struct HoldsRows : Replaying {
  template <class B, class Board, class Seam>
  auto gradients(StepKey, B& batch, Board&, Seam& seam) {
    waiting = steps++ < 3;
    return seam(batch);
  }
};
/// A logger whose first row fails.
struct FailsOnce {
  using Stateless = ByChoice;
  std::vector<long>* steps;
  bool fails = true;
  void log_metrics(std::span<Scalar const>, long step) {
    if (std::exchange(fails, false)) throw Error("fulgurite.test.disk", "the disk was away");
    steps->push_back(step);
  }
};
struct LogsLoss {
  static constexpr Metric<"loss"> loss{};
  using Metrics = MetricList<loss>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double, auto& ctx) {
    auto value = -p;
    ctx.log(loss, value);
    return value;
  }
  toy::Sgd configure_optimizers() { return {{{p}}}; }
};
struct FailsInSetup {
  using Stateless = ByChoice;
  bool fails = true;
  void setup(auto&) {
    if (std::exchange(fails, false)) throw Error("fulgurite.test.setup", "a setup failed");
  }
};
/// Behind the logger.
struct FailsAtTrainStart {
  using Stateless = ByChoice;
  bool fails = true;
  void on_train_start(auto&) {
    if (std::exchange(fails, false)) throw Error("fulgurite.test.start", "a beginning failed");
  }
};

}  // namespace

TEST_CASE("csv table: the rows after a number of them are dropped, and the columns that only those had") {
  Folder const folder;
  CsvTable rows(folder / "m.csv");
  rows.add({{"a,\"", 1}, {"step", 0, true}});
  rows.add({{"a,\"", 2}, {"step", 1, true}});
  auto const before = content(folder / "m.csv");
  rows.add({{"b", 3}, {"step", 2, true}});
  rows.add({{"c", 4}, {"step", 3, true}});
  CHECK(rows.rows() == 4);
  rows.keep(9);
  CHECK(rows.rows() == 4);
  rows.keep(2);
  CHECK(rows.rows() == 2);
  CHECK(content(folder / "m.csv") == before);
  CHECK(CsvTable(folder / "m.csv").rows() == 2);
  rows.add({{"b", 5}});
  CHECK(content(folder / "m.csv") == "\"a,\"\"\",b,step\n1,,0\n2,,1\n,5,\n");
  rows.keep(0);
  CHECK(content(folder / "m.csv").empty());
  rows.add({{"d", 6}});
  CHECK(content(folder / "m.csv") == "d\n6\n");
  CHECK(folder.files().size() == 1);
}

TEST_CASE("csv: a run that was killed goes on in its folder, and its table is that of an unbroken run") {
  auto const whole = unbroken();
  for (long const steps : {3, 5, 8, 11}) {
    CAPTURE(steps);
    Folder const folder;
    killed_after(steps, below(folder.path), CSVLogger{}, every_second());
    auto const left = content(folder / table);
    CHECK((left.find("late") != std::string::npos) == (steps != 8));
    Scripted model{.script = {3, 2, 1}};
    auto const warnings = fit(model, below(folder.path), CkptPath{"last"}, Kills{}, CSVLogger{}, every_second());
    CHECK(content(folder / table) == whole);
    CHECK(model.p.value() == 12);
    CHECK(model.batches == 12 - steps / 2 * 2);
    CHECK_FALSE(std::filesystem::exists(folder / "lightning_logs/version_1"));
    CHECK(warnings.find("[fulgurite.callback.checkpoint_moved]") == std::string::npos);
    CHECK(warnings.find("[fulgurite.logger.rows_dropped]") != std::string::npos);
    CHECK(content(folder / "lightning_logs/version_0/hparams.yaml") == "{}\n");
  }
}

TEST_CASE(
    "csv: where max_steps has cut an epoch short, a run that goes on leaves the table and the files of an unbroken "
    "one") {
  auto const run = [](Folder const& in, std::optional<long> most, std::optional<CkptPath> const& from = {}) {
    auto options = below(in.path);
    options.max_steps = most;
    Means model;
    said([&] {
      auto trainer = trainer_of<Means>(options, CSVLogger{}, ModelCheckpoint{{.save_last = true}});
      trainer.fit(model, toy::batches(4), NoValidation{}, from);
    });
    std::vector<std::string> all;
    for (auto const& one : std::filesystem::directory_iterator(in / "lightning_logs/version_0/checkpoints"))
      all.push_back(one.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  };
  Folder const other;
  auto const files = run(other, {});
  for (long const most : {1, 2, 6, 11}) {
    CAPTURE(most);
    Folder const folder;
    run(folder, most);
    CHECK(content(folder / table) != content(other / table));
    CHECK(run(folder, {}, CkptPath{"last"}) == files);
    CHECK(content(folder / table) == content(other / table));
  }
}

TEST_CASE("csv: a run goes on twice from one file, and from an older one than the newest: what came after it is said") {
  Folder const folder;
  auto const whole = unbroken();
  killed_after(6, below(folder.path), CSVLogger{}, every_second());
  auto const file = folder / "lightning_logs/version_0/checkpoints/epoch=0-step=2.safetensors";
  for (int i = 0; i != 2; ++i) {
    auto const dropped = rows_of(content(folder / table)) - 3;  // of two steps, and of the beginning
    Scripted model{.script = {3, 2, 1}};
    auto const warnings = fit(model, below(folder.path), CkptPath{file}, Kills{}, CSVLogger{}, every_second());
    CHECK(content(folder / table) == whole);
    CHECK(warnings.find("the last " + std::to_string(dropped) + " rows of " + (folder / table).string()) !=
          std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(folder / "lightning_logs/version_1"));
}

TEST_CASE("csv: two loggers, a prefix, a version that is given: each goes on in its own table") {
  Folder const folder, other;
  auto const loggers = [](Folder const& in, auto&& fit_with) {
    fit_with(CSVLogger{in.path, {.name = "a", .version = 4, .prefix = "x"}}, OtherLogger{in.path, {.name = "b/c"}});
  };
  Scripted model{.script = {3, 2, 1}};
  loggers(other, [&](auto a, auto b) {
    fit(model, below(other.path), {}, Kills{}, std::move(a), std::move(b), every_second());
  });
  loggers(folder,
          [&](auto a, auto b) { killed_after(7, below(folder.path), std::move(a), std::move(b), every_second()); });
  Scripted again{.script = {3, 2, 1}};
  loggers(folder, [&](auto a, auto b) {
    fit(again, below(folder.path), CkptPath{"last"}, Kills{}, std::move(a), std::move(b), every_second());
  });
  for (auto const* one : {"a/version_4/metrics.csv", "b/c/version_0/metrics.csv"})
    CHECK(content(folder / one) == content(other / one));
  CHECK(again.batches == 6);
  CHECK_FALSE(std::filesystem::exists(folder / "b/c/version_1"));
}

TEST_CASE("csv: where the folder is gone, or is not the logger's, the rows go on in a new one, which is said") {
  Folder const folder;
  killed_after(6, below(folder.path), CSVLogger{}, every_second());
  auto const file = folder / "kept.safetensors";
  std::filesystem::rename(folder / "lightning_logs/version_0/checkpoints/epoch=1-step=6.safetensors", file);
  Scripted model{.script = {3, 2, 1}};
  SECTION("it is gone") {
    std::filesystem::remove_all(folder / "lightning_logs/version_0");
    std::filesystem::create_directories(folder / "lightning_logs/version_3");
    auto const warnings = fit(model, below(folder.path), CkptPath{file}, Kills{}, CSVLogger{}, every_second());
    CHECK(warnings.find("[fulgurite.logger.new_folder]") != std::string::npos);
    CHECK(rows_of(content(folder / "lightning_logs/version_4/metrics.csv")) == 8);  // six steps, two validations
  }
  SECTION("it is another program's") {
    auto const before = content(folder / table);
    auto const warnings =
        fit(model, below(folder.path), CkptPath{file}, Kills{}, CSVLogger{folder / "mine"}, every_second());
    CHECK(warnings.find("[fulgurite.logger.new_folder]") != std::string::npos);
    CHECK(content(folder / table) == before);
    CHECK(rows_of(content(folder / "mine" / table)) == 8);
  }
}

TEST_CASE("csv: a file that does not fit drops no row, and a table that lacks rows is refused") {
  Folder const folder;
  killed_after(7, below(folder.path), CSVLogger{}, every_second());
  auto const before = content(folder / table);
  OwnOptimizer wrong;
  auto other = make_trainer<OwnOptimizer>(below(folder.path), SavingDevice{}, Float32{}, Automatic{}, Kills{},
                                          CSVLogger{}, every_second());
  said([&] {
    CHECK(error_of([&] {
            other.fit(wrong, toy::batches(4), toy::batches(1), CkptPath{"last"});
          }).starts_with("[fulgurite.checkpoint.state_entry]"));
  });
  CHECK(content(folder / table) == before);

  auto const second_row = before.find('\n', before.find('\n') + 1) + 1;
  put(folder / table, before.substr(0, second_row));
  Scripted model;
  std::string error;
  said([&] {
    error = error_of([&] { fit(model, below(folder.path), CkptPath{"last"}, Kills{}, CSVLogger{}, every_second()); });
  });
  CHECK(error.starts_with("[fulgurite.logger.rows_missing]"));
  CHECK(model.batches == 0);
  CHECK(model.p.value() == 0);
  CHECK(content(folder / table) == before.substr(0, second_row));
}

TEST_CASE("csv: a folder in which another run writes is not gone on in") {
  Folder const folder;
  killed_after(4, below(folder.path), CSVLogger{}, every_second());
  Other busy([&](auto const& ready) {
    logger::VersionLock const lock(folder / "lightning_logs/version_0");
    ready();
  });
  auto const before = content(folder / table);
  Scripted model;
  std::string error;
  said([&] {
    error = error_of([&] { fit(model, below(folder.path), CkptPath{"last"}, Kills{}, CSVLogger{}, every_second()); });
  });
  CHECK(error.starts_with("[fulgurite.logger.version_in_use]"));
  CHECK(content(folder / table) == before);
}

TEST_CASE(
    "csv: a run that ends where its file was written has the rows of one that ended there; one that does not train "
    "keeps them all") {
  Folder const folder;
  Scripted model{.script = {3, 2, 1}};
  fit(model, below(folder.path), {}, Kills{}, CSVLogger{}, ModelCheckpoint{{.save_top_k = -1}});
  auto const before = content(folder / table);
  CkptPath const earlier{folder / "lightning_logs/version_0/checkpoints/epoch=1-step=8.safetensors"};
  Scripted again;
  auto nothing = below(folder.path);
  nothing.limit_train_batches = 0;
  fit(again, nothing, earlier, Kills{}, CSVLogger{});
  CHECK(content(folder / table) == before);
  fit(again, below(folder.path, 2), earlier, Kills{}, CSVLogger{});
  CHECK(again.batches == 0);
  CHECK(content(folder / table) == before.substr(0, before.find(",2,0,8")));
}

TEST_CASE("csv: another process evaluates the newest file of the default folders") {
  Folder const folder;
  Scripted model{.script = {3, 2, 1}};
  fit(model, below(folder.path), {}, CSVLogger{}, every_second());
  auto trainer = trainer_of(below(folder.path), CSVLogger{}, every_second());
  Scripted fresh;
  said([&] { trainer.validate(fresh, toy::batches(1), CkptPath{"last"}); });
  CHECK(fresh.p.value() == 12);
}

TEST_CASE("csv: a batch that failed is done again with its window, and none of their rows is there twice") {
  for (long const fails_at : {0, 3, 5, 8}) {
    CAPTURE(fails_at);
    Folder const folder, other;
    Scripted whole{.script = {3, 2, 1}}, broken{.script = {3, 2, 1}, .fails_at = fails_at}, again{.script = {3, 2, 1}};
    auto const run = [](Scripted& model, Folder const& in) {
      auto trainer =
          make_trainer<Scripted>(below(in.path), SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 2},
                                 PostsEach{}, CSVLogger{}, OnExceptionCheckpoint{{.dirpath = in.path}});
      return error_of([&] { trainer.fit(model, toy::batches(4), toy::batches(1)); });
    };
    said([&] {
      CHECK(run(whole, other).empty());
      CHECK(run(broken, folder).starts_with("[fulgurite.test.step]"));
      CHECK(run(again, folder).empty());
    });
    CHECK(content(folder / table) == content(other / table));
  }
}

TEST_CASE("csv: a fit that fails before it goes on from its file leaves that run's folder to it") {
  Folder const folder;
  Scripted first{.script = {3, 2, 1}};
  fit(first, below(folder.path), {}, FailsInSetup{false}, CSVLogger{}, FailsAtTrainStart{false}, every_second());
  auto const before = content(folder / table);
  auto const files = folder / "lightning_logs/version_0/checkpoints";
  auto const listed = [&] {
    std::vector<std::string> names;
    for (auto const& file : std::filesystem::directory_iterator(files)) names.push_back(file.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  };
  auto const listed_before = listed();
  // A new run of the same trainer has a folder of its own, for its table and for its files.
  auto const begins_anew = [&](auto& trainer, auto& model) {
    CHECK(content(folder / table) == before);
    trainer.fit(model, toy::batches(4), toy::batches(1));
    CHECK(content(folder / table) == before);
    CHECK(listed() == listed_before);
    CHECK(rows_of(content(folder / "lightning_logs/version_1/metrics.csv")) == 15);
    CHECK_FALSE(std::filesystem::is_empty(folder / "lightning_logs/version_1/checkpoints"));
    CHECK(trainer.outcome().metrics_file == folder / "lightning_logs/version_1/metrics.csv");
  };
  CkptPath const old{files / "epoch=0-step=2.safetensors"};
  SECTION("the file does not fit") {
    OwnOptimizer wrong;
    auto trainer =
        make_trainer<OwnOptimizer>(below(folder.path), SavingDevice{}, Float32{}, Automatic{}, FailsInSetup{false},
                                   CSVLogger{}, FailsAtTrainStart{false}, every_second());
    said([&] {
      CHECK(error_of([&] {
              trainer.fit(wrong, toy::batches(4), toy::batches(1), old);
            }).starts_with("[fulgurite.checkpoint.state_entry]"));
      begins_anew(trainer, wrong);
    });
  }
  SECTION("a setup before the logger's fails") {
    auto trainer =
        trainer_of(below(folder.path), FailsInSetup{}, CSVLogger{}, FailsAtTrainStart{false}, every_second());
    said([&] {
      CHECK(error_of([&] {
              trainer.fit(first, toy::batches(4), toy::batches(1), old);
            }).starts_with("[fulgurite.test.setup]"));
      begins_anew(trainer, first);
    });
  }
  SECTION("a hook behind the logger's fails before training has gone on") {
    auto trainer =
        trainer_of(below(folder.path), FailsInSetup{false}, CSVLogger{}, FailsAtTrainStart{}, every_second());
    auto const warnings = said([&] {
      CHECK(error_of([&] {
              trainer.fit(first, toy::batches(4), toy::batches(1), old);
            }).starts_with("[fulgurite.test.start]"));
    });
    CHECK(warnings.find("they are dropped when its training starts") != std::string::npos);
    said([&] { begins_anew(trainer, first); });  // they are still there
  }
  SECTION("the loader is shorter than the file's place in it") {
    auto trainer =
        trainer_of(below(folder.path), FailsInSetup{false}, CSVLogger{}, FailsAtTrainStart{false}, every_second());
    said([&] {
      CHECK_FALSE(error_of([&] { trainer.fit(first, toy::batches(1), toy::batches(1), old); }).empty());
      begins_anew(trainer, first);
    });
  }
  SECTION("another run writes there") {
    auto trainer =
        trainer_of(below(folder.path), FailsInSetup{false}, CSVLogger{}, FailsAtTrainStart{false}, every_second());
    Other busy([&](auto const& ready) {
      logger::VersionLock const lock(folder / "lightning_logs/version_0");
      ready();
    });
    said([&] {
      CHECK(error_of([&] {
              trainer.fit(first, toy::batches(4), toy::batches(1), old);
            }).starts_with("[fulgurite.logger.version_in_use]"));
      begins_anew(trainer, first);
    });
  }
}

TEST_CASE("csv: a file that is saved after a fit that failed counts all rows, and none of the epoch that it left") {
  Folder const folder;
  auto const train = [&](Means& model, std::optional<CkptPath> from) {
    auto trainer = make_trainer<Means>(below(folder.path, 1), SavingDevice{}, Float32{},
                                       Automatic{.accumulate_grad_batches = 2}, PostsEach{}, CSVLogger{});
    auto const error = error_of([&] { trainer.fit(model, toy::batches(4), NoValidation{}, from); });
    if (!error.empty()) trainer.save_checkpoint(folder / "after.safetensors");
    return std::pair(error, trainer.value(Means::mean));
  };
  Means broken{.fails_at = 3}, again;
  said([&] { CHECK(train(broken, {}).first.starts_with("[fulgurite.test.step]")); });
  auto const before = content(folder / table);
  CHECK(rows_of(before) > 3);
  auto const warnings = said([&] {
    auto const [error, mean] = train(again, CkptPath{folder / "after.safetensors"});
    CHECK(error.empty());
    CHECK(mean == 1.5);
  });
  CHECK(again.batches == 4);
  CHECK(rows_of(content(folder / table)) == rows_of(before) + 7);  // of four batches, two steps, the epoch
  CHECK(warnings.find("[fulgurite.logger.rows_dropped]") == std::string::npos);
}

TEST_CASE("a logger that fails at one of the rows that wait for a check receives those after it") {
  LogsLoss model;
  std::vector<long> steps;
  auto trainer = make_trainer<LogsLoss>(quick(1), HoldsRows{}, Float32{}, Automatic{}, FailsOnce{&steps});
  auto const error = error_of([&] { trainer.fit(model, toy::batches(6)); });
  CHECK(error.starts_with("[fulgurite.test.disk]"));
  CHECK(steps == std::vector<long>{1, 2, 3});
}

TEST_CASE("due: rows that wait for a check since before a window are none of that window's rows") {
  loop::Due due;
  due.rows = 3;
  due.held_rows.resize(2);
  due.begin_window(4);
  CHECK(due.rows_of_window(4) == 0);
  due.rows += 2;  // they are delivered, and one of the window follows
  due.held_rows.clear();
  ++due.rows;
  CHECK(due.rows_of_window(4) == 1);
  CHECK(due.rows_of_window(6) == 0);

  due.held_rows.resize(2);
  due.begin_window(6);
  due.held_rows.clear();  // they were wrong, and nobody receives them
  CHECK(due.rows_of_window(6) == 0);
}

TEST_CASE("csv: rows whose check was passed before a way back began are not lost with the steps after it") {
  Folder const folder, other;
  for (bool const errs : {false, true}) {
    LogsLoss model;
    auto options = below(errs ? folder.path : other.path, 1);
    options.log_every_n_steps = 2;
    auto const warnings = said([&] {
      auto trainer = make_trainer<LogsLoss>(options, Replaying{{}, errs}, Float32{}, Automatic{}, CSVLogger{});
      trainer.fit(model, toy::batches(6), NoValidation{});
    });
    CHECK((warnings.find("The fit went back to batch 3 of epoch 0") != std::string::npos) == errs);
    CHECK(model.p.value() == 6);
  }
  CHECK(rows_of(content(other / table)) == 3);
  CHECK(content(folder / table) == content(other / table));
}
