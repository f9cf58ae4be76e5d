#include <map>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/logger/mlflow_logger.hpp>
#include <fulgurite/report/run_folder.hpp>

#include "logger_run.hpp"
#include "models.hpp"

using namespace fulgurite;
using namespace logged;

namespace {

double fixed_time() { return 2.5; }
MLflowLogger on_the_clock(MLflowLoggerOptions options = {}) {
  options.now = &fixed_time;
  return MLflowLogger{{}, std::move(options)};
}

struct Settings {
  double lr = 1e-5;
  bool bias = true;
  void hyperparameters(auto& list) const { list("lr", lr)("bias", bias)("a/b c?", "x\ny"); }
};
struct Net : Scripted {
  Settings hparams{};
};

/// Two metrics with one name in MLflow.
struct Alike : Scripted {
  static constexpr Metric<"acc@1"> at{.on_step = true};
  static constexpr Metric<"acc#1"> hash{.on_step = true};
  using Metrics = MetricList<loss, vl, missing, acc, at, hash>;
  toy::Tensor training_step(double batch, auto& ctx) {
    ctx.log(at, 1);
    ctx.log(hash, 2);
    return Scripted::training_step(batch, ctx);
  }
};

/// The folder of the one run of an experiment.
std::filesystem::path run_in(Folder const& folder, std::string const& experiment = "0") {
  std::vector<std::filesystem::path> found;
  for (auto const& entry : std::filesystem::directory_iterator(folder / ("mlruns/" + experiment)))
    if (entry.is_directory()) found.push_back(entry.path());
  REQUIRE(found.size() == 1);
  return found.front();
}
/// What it holds but for names that no other run has.
std::map<std::string, std::string> contents(Folder const& folder) {
  std::map<std::string, std::string> all;
  auto const run = run_in(folder);
  for (auto const& entry : std::filesystem::recursive_directory_iterator(run)) {
    auto const name = entry.path().lexically_relative(run).string();
    bool const same = name.starts_with("metrics") || name.starts_with("params") || name == "rows.jsonl";
    if (entry.is_regular_file() && same) all[name] = content(entry.path());
  }
  return all;
}

}  // namespace

TEST_CASE("mlflow: there may be more metrics than a process may open files", "[long]") {
  Folder const folder;
  logger::MlflowNames const names{"many", "one", &fixed_time};
  auto const root = folder.path / "mlruns/0";
  auto const at = logger::MlflowRun::new_run(root, names);
  logger::MlflowRun run(at, names);
  std::vector<logger::Cell> row{{"step", 0}};
  std::vector<std::string> metrics;
  for (int i = 0; i != 300; ++i) metrics.push_back("loss_" + std::to_string(i));
  for (auto const& metric : metrics) row.push_back({metric, 1});
  rlimit whole{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &whole) == 0);
  rlimit const few{200, whole.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  run.add(row);
  row.front().value = 1;
  run.add(row);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &whole) == 0);
  CHECK(content(at / "metrics/loss_0") == "2500 1 0\n2500 1 1\n");
  CHECK(content(at / "metrics/loss_299") == "2500 1 0\n2500 1 1\n");
  row.push_back({"loss#0", 1});  // the file of "loss@0", if there were one
  row.push_back({"loss@0", 1});
  CHECK_THROWS_AS(run.add(row), Error);
}

TEST_CASE("mlflow: a file for each metric and setting, and a description of the run") {
  Folder const folder;
  Net model;
  model.script = {5, 4};
  auto options = below(folder.path, 1);
  options.log_every_n_steps = 2;
  fit(model, options, {}, on_the_clock());
  auto const run = run_in(folder);
  CHECK(content(run / "artifacts" / "describe.txt").starts_with("Trainer of Net\n"));
  auto const read = report::read_run_folders({folder / "mlruns/0"});
  REQUIRE((read.size() == 1 && read[0].curves.size() == 3 && read[0].notes.size() == 2));
  CHECK(read[0].curves[0].label == "loss");
  CHECK(run.filename().string().size() == 32);
  auto const files = contents(folder);
  CHECK(files.at("metrics/loss") == "2500 1 1\n2500 3 3\n");
  CHECK(files.at("metrics/val/acc") == "2500 0.25 3\n");
  CHECK(files.at("metrics/epoch") == "2500 0 1\n2500 0 3\n2500 0 3\n");
  CHECK(files.at("params/lr") == "1e-05");
  CHECK(files.at("params/bias") == "True");
  CHECK(files.at("params/a/b c_") == "x\ny");
  CHECK(files.at("rows.jsonl").starts_with("{\"time\":2500,\"step\":1,\"loss\":1,\"epoch\":0}\n"));
  auto const meta = content(run / "meta.yaml");
  CHECK(meta.find("\nend_time: 2500\n") != std::string::npos);
  CHECK(meta.find("\nstatus: 3\n") != std::string::npos);
  CHECK(meta.find("\nrun_id: " + run.filename().string() + "\n") != std::string::npos);
  CHECK(meta.find("\nrun_name: '" + run.filename().string().substr(0, 8) + "'\n") != std::string::npos);
  CHECK(content(folder / "mlruns/0/meta.yaml").find("\nname: 'Default'\n") != std::string::npos);
  CHECK(std::filesystem::is_directory(run / "artifacts"));
}

TEST_CASE("mlflow: runs of one name are one experiment; a run that fails is marked") {
  Folder const folder;
  Net model;
  model.fails_at = 2;
  CHECK(error_of([&] {
          fit(model, below(folder.path), {}, on_the_clock({.experiment = "it's", .run = "a 'b'"}));
        }).starts_with("[fulgurite.test.step]"));
  auto const number = logger::mlflow::experiment_number("it's");
  CHECK(number.size() == 18);
  auto const meta = content(run_in(folder, number) / "meta.yaml");
  CHECK(meta.find("\nstatus: 4\n") != std::string::npos);
  CHECK(meta.find("\nrun_name: 'a ''b'''\n") != std::string::npos);
  CHECK(content(folder / ("mlruns/" + number + "/meta.yaml")).find("\nname: 'it''s'\n") != std::string::npos);
  model.fails_at = -1;
  fit(model, below(folder.path, 1), {}, on_the_clock({.experiment = "it's"}));
  CHECK(std::distance(std::filesystem::directory_iterator(folder / ("mlruns/" + number)), {}) == 3);
}

TEST_CASE("mlflow: a run that was killed goes on in its folder, with the files of an unbroken run") {
  Folder const other;
  Net whole;
  whole.script = {3, 2, 1};
  fit(whole, below(other.path), {}, Kills{}, on_the_clock(), every_second());
  for (long const steps : {3, 8}) {
    CAPTURE(steps);
    Folder const folder;
    killed_after<Net>(steps, below(folder.path), on_the_clock(), every_second());
    CHECK(content(run_in(folder) / "meta.yaml").find("\nstatus: 1\n") != std::string::npos);
    put(run_in(folder) / "metrics/loss", "2500 7");  // torn; the journal has the row
    Net model;
    model.script = {3, 2, 1};
    fit(model, below(folder.path), CkptPath{"last"}, Kills{}, on_the_clock(), every_second());
    CHECK(contents(folder) == contents(other));
  }
}

namespace {

/// Behind the logger.
struct FailsInSetup {
  using Stateless = ByChoice;
  void setup(auto&) { throw Error("fulgurite.test.setup", "a setup failed"); }
};

}  // namespace

TEST_CASE("mlflow: a fit that fails before it resumes leaves the description of the finished run as it was") {
  Folder const folder;
  Net model;
  fit(model, below(folder.path, 1), {}, on_the_clock(), every_second());
  auto const finished = content(run_in(folder) / "meta.yaml");
  REQUIRE(finished.find("\nstatus: 3\n") != std::string::npos);
  auto const error = error_of(
      [&] { fit(model, below(folder.path, 2), CkptPath{"last"}, on_the_clock(), every_second(), FailsInSetup{}); });
  CHECK(error.starts_with("[fulgurite.test.setup]"));
  CHECK(content(run_in(folder) / "meta.yaml") == finished);
}

TEST_CASE("mlflow: names become paths below the run's folder, and bad options are refused") {
  using logger::mlflow::file_name;
  CHECK(file_name("val/loss") == "val/loss");
  CHECK(file_name("../x") == "_/x");
  CHECK(file_name("/x//y/") == "_/x/_/y/_");
  CHECK(file_name("a\\b?\xff.c: d-_") == "a_b__.c: d-_");
  CHECK(file_name("") == "_");
  CHECK(logger::mlflow::address("/a b/ä%") == "file:///a%20b/%C3%A4%25");
  CHECK(logger::mlflow::experiment_number("Default") == "0");
  CHECK(toy::refusal([] { MLflowLogger({}, {.experiment = ""}); }) == "fulgurite.logger.experiment");
  CHECK(toy::refusal([] { MLflowLogger({}, {.now = nullptr}); }) == "fulgurite.logger.clock");
}

TEST_CASE("mlflow: two names that become one are refused before their values share a file") {
  Folder const folder;
  Alike model;
  CHECK(error_of([&] {
          fit(model, below(folder.path), {}, on_the_clock());
        }).starts_with("[fulgurite.logger.names_alike] MLflowLogger: the metrics 'acc@1' and 'acc#1'"));
  logger::MlflowRun run(folder / "settings", {.run = "r", .now = &fixed_time});
  CHECK(toy::refusal([&] { run.write_hyperparameters({{"a?", 1L}, {"a_", 2L}}); }) == "fulgurite.logger.names_alike");
  run.add({{"step", 1, true}, {"loss", 2, false}});
  auto const rows = "{\"time\":2500,\"step\":1,\"loss\":2}\n";
  CHECK(content(folder / "settings/rows.jsonl") == rows);
  CHECK(toy::refusal([&] { run.add({{"step", 2, true}, {"a?", 1, false}, {"a_", 2, false}}); }) ==
        "fulgurite.logger.names_alike");
  CHECK(toy::refusal([&] { run.add({{"step", 2, true}, {"time", 1, false}}); }) == "fulgurite.logger.names_alike");
  CHECK(content(folder / "settings/rows.jsonl") == rows);  // no row has a value without a place
}
