// Several loggers in one trainer: each has every row, and all go on together.
#include <map>
#include <string>

#include <fulgurite/logger/console_logger.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>
#include <fulgurite/report/html.hpp>

#include "callback_stream.hpp"
#include "logger_run.hpp"

using namespace fulgurite;
using namespace logged;

namespace {

double fixed_time() { return 2.0; }
/// A trainer has one callback of a type.
struct OtherLogger : CSVLogger {
  using CSVLogger::CSVLogger;
};

/// The files of a run by kind; an event file's name tells the process.
std::map<std::string, std::string> files_of(Folder const& folder) {
  std::map<std::string, std::string> all;
  for (auto const& file : folder.files()) {
    if (file.find("checkpoints/") != std::string::npos) continue;
    auto const events = file.find("events.out.tfevents.");
    all[file.substr(0, events)] += content(folder / file);
  }
  return all;
}
template <class... Cs>
std::string fit_all(Folder const& folder, std::optional<CkptPath> from, Cs... callbacks) {
  Stream stream;
  Scripted model{.script = {3, 2, 1}};
  return fit(model, below(folder.path), from, std::move(callbacks)..., CSVLogger{},
             TensorBoardLogger{{.now = &fixed_time}}, JsonLinesLogger{}, ConsoleLogger{{.stream = stream.file}},
             every_second());
}

}  // namespace

TEST_CASE("several loggers: one folder for the run, and each has all rows") {
  Folder const folder;
  fit_all(folder, {}, Kills{});
  auto const files = files_of(folder);
  std::string const version = "lightning_logs/version_0/";
  CHECK(files.size() == 7);
  for (char const* name : {"metrics.csv", "metrics.jsonl", "hparams.yaml", "options.txt", "system.txt", ""})
    CHECK(files.contains(version + name));
  auto const lines = [&](std::string const& name) {
    auto const& text = files.at(version + name);
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines("metrics.jsonl") == 1 + 12 + 3);
  CHECK(lines("metrics.csv") == 1 + lines("metrics.jsonl"));
}

TEST_CASE("several loggers: the program and the machine stand beside the rows, and a report shows them") {
  Folder const folder;
  fit_all(folder, {}, Kills{});
  auto const before = files_of(folder).at("lightning_logs/version_0/describe.txt");
  CHECK(before.starts_with("Trainer of Scripted\n"));
  CHECK(before.find("\n  epochs: 3, ") != std::string::npos);
  auto const page = report::html({folder.path / "lightning_logs"});
  CHECK(page.find("<summary>describe.txt") != std::string::npos);
  CHECK(page.find("Trainer of Scripted") != std::string::npos);
  CHECK(page.find("<summary>system.txt") != std::string::npos);
}

TEST_CASE("several loggers: a run that goes on has the options of its last fit beside its rows") {
  Folder const folder;
  Scripted model{.script = {3, 2, 1}};
  auto const options = folder / "lightning_logs/version_0/options.txt";
  fit(model, below(folder.path, 1), {}, CSVLogger{}, every_second());
  CHECK(content(options).find("max_epochs = 1\n") != std::string::npos);
  fit(model, below(folder.path, 2), CkptPath{"last"}, CSVLogger{}, every_second());
  CHECK(content(options).find("max_epochs = 2\n") != std::string::npos);
  CHECK(!std::filesystem::exists(folder / "lightning_logs/version_1"));
}

TEST_CASE("several loggers: a report reads the same curves from each of their files") {
  Folder const folder;
  fit_all(folder, {}, Kills{});
  auto const run = folder / "lightning_logs/version_0";
  auto const curves = [&] {
    std::map<std::string, report::Curve> all;
    for (auto const& curve : report::read_run_folder(run).curves) all[curve.label] = curve;
    return all;
  };
  auto const of_csv = curves();
  REQUIRE(of_csv.size() >= 3);
  for (char const* read : {"metrics.csv", "metrics.jsonl"}) {
    std::filesystem::remove(run / read);
    auto const others = curves();  // of the JSON lines, then of the events
    REQUIRE(others.size() == of_csv.size());
    for (auto const& [name, curve] : of_csv) {
      INFO(read << ", " << name);
      CHECK(others.at(name).x == curve.x);
      CHECK(others.at(name).y == curve.y);
    }
  }
}

TEST_CASE("several loggers: a run that was killed goes on in all of their files") {
  Folder const other;
  fit_all(other, {}, Kills{});
  for (long const steps : {3, 8}) {
    Folder const folder;
    auto const child = ::fork();
    if (child == 0) {
      fit_all(folder, {}, Kills{steps});
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    fit_all(folder, CkptPath{"last"}, Kills{});
    CHECK(files_of(folder) == files_of(other));
  }
}

TEST_CASE("several loggers: one that is added later joins the run's folder; one of the same kind has its own") {
  Folder const folder;
  killed_after(6, below(folder.path), CSVLogger{}, every_second());
  Scripted model{.script = {3, 2, 1}};
  fit(model, below(folder.path), CkptPath{"last"}, CSVLogger{}, JsonLinesLogger{}, every_second(), OtherLogger{});
  CHECK(std::filesystem::exists(folder / "lightning_logs/version_0/metrics.jsonl"));
  CHECK(std::filesystem::exists(folder / "lightning_logs/version_1/metrics.csv"));
  CHECK_FALSE(std::filesystem::exists(folder / "lightning_logs/version_1/metrics.jsonl"));
  auto const late = content(folder / "lightning_logs/version_0/metrics.jsonl");
  CHECK(std::count(late.begin(), late.end(), '\n') == 6 + 2);  // from the file on
}
