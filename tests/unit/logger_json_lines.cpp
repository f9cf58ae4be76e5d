#include <cstdlib>
#include <string>
#include <vector>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>

#include "logger_run.hpp"
#include "loose_context.hpp"
#include "models.hpp"

using namespace fulgurite;
using namespace logged;
using logger::JsonLines, logger::NothingMore;

namespace {

std::string const lines = "lightning_logs/version_0/metrics.jsonl";

struct Settings {
  double lr = 1e-5;
  int layers = 4;
  bool bias = true;
  std::string optimizer = "\"adam\"\n";
  void hyperparameters(auto& list) const {
    list("lr", lr)("layers", layers)("bias", bias)("optimizer", optimizer)("nan", NAN);
  }
};
struct Net : Scripted {
  Settings hparams{};
};
using Ctx = toy::LooseContext;
/// What a file keeps of a logger.
struct Kept {
  bool loading = false, told = false;
  std::filesystem::path folder{};
  long rows = 0;
  Kept& operator()(std::string_view, std::filesystem::path& value) { return pass(folder, value); }
  Kept& operator()(std::string_view, long& value) { return pass(rows, value); }
  Kept& operator()(std::string_view, bool& value) { return pass(told, value); }
  template <class T>
  Kept& pass(T& kept, T& value) {
    (loading ? value : kept) = loading ? kept : value;
    return *this;
  }
};
template <class... Cs>
std::string net_fit(Folder const& folder, std::optional<CkptPath> from, Cs... callbacks) {
  Net model;
  model.script = {3, 2, 1};
  return fit(model, below(folder.path), from, std::move(callbacks)..., JsonLinesLogger{}, every_second());
}

}  // namespace

TEST_CASE("json lines: a fit writes its hyper-parameters, then its rows") {
  Folder const folder;
  Net model;
  model.script = {5, 4};
  auto options = below(folder.path, 1);
  options.log_every_n_steps = 2;
  fit(model, options, {}, JsonLinesLogger{});
  CHECK(
      content(folder / lines) ==
      "{\"hparams\":{\"lr\":1e-05,\"layers\":4,\"bias\":true,\"optimizer\":\"\\\"adam\\\"\\u000a\",\"nan\":\"nan\"}}\n"
      "{\"step\":1,\"loss\":1,\"epoch\":0}\n"
      "{\"step\":3,\"loss\":3,\"epoch\":0}\n"
      "{\"step\":3,\"vl\":5,\"val/acc\":0.25,\"epoch\":0}\n");
  CHECK(folder.files() ==
        std::set<std::string>{lines, "lightning_logs/version_0/describe.txt", "lightning_logs/version_0/hparams.yaml",
                              "lightning_logs/version_0/options.txt", "lightning_logs/version_0/system.txt"});
}

TEST_CASE("json lines: every value reads back, and what is not finite is a text") {
  Folder const folder;
  JsonLines file(folder.path, NothingMore{});
  double const third = 1.0 / 3;
  file.add({{"step", 3, true}, {"a\xff\"", third}, {"n", NAN}, {"i", INFINITY}, {"j", -INFINITY}, {"s", 5e-324}});
  auto const text = content(folder / "metrics.jsonl");
  CHECK(text == "{\"step\":3,\"a\xEF\xBF\xBD\\\"\":0.3333333333333333,\"n\":\"nan\",\"i\":\"inf\",\"j\":\"-inf\",\"s\":"
                "5e-324}\n");
  json::Reader reader(text, "fulgurite.test.json", "line");
  int members = 0;
  reader.object([&](std::string const& key) {
    ++members;
    if (reader.peek() == '"') CHECK(std::string("nan inf -inf").find(reader.string()) != std::string::npos);
    else
      CHECK(std::strtod(std::string(reader.number()).c_str(), nullptr) == (key == "step" ? 3
                                                                           : key == "s"  ? 5e-324
                                                                                         : third));
  });
  CHECK(members == 6);
}

TEST_CASE("json lines: a file that was cut at any byte is gone on with behind its last whole line") {
  Folder const folder;
  auto const path = folder / "metrics.jsonl";
  {
    JsonLines file(folder.path, NothingMore{});
    std::vector<Hyperparameter> const told{{"lr", 0.5}};
    file.write_hyperparameters(told);
    for (double step = 0; step != 3; ++step) file.add({{"step", step, true}, {"loss", 0.5}});
    CHECK(file.rows() == 4);
    CHECK(file.before_last(2) == 2);
    CHECK(file.before_last(9) == 1);
  }
  auto const whole = content(path);
  for (std::size_t size = 0; size <= whole.size(); ++size)
    for (std::size_t const lost : {0U, 3U, 70000U}) {
      auto const left = whole.substr(0, size);
      auto const end = left.rfind('\n') == std::string::npos ? 0 : left.rfind('\n') + 1;
      put(path, left + std::string(lost, '\0'));
      JsonLines file(folder.path, NothingMore{});
      REQUIRE(file.rows() == std::count(left.begin(), left.end(), '\n'));
      file.add({{"step", 7, true}});
      REQUIRE(content(path) == whole.substr(0, end) + "{\"step\":7}\n");
    }
  put(path, "a,b\n1,2\n");
  CHECK(error_of([&] { JsonLines{folder.path, NothingMore{}}; }) ==
        "[fulgurite.logger.damaged] " + path.string() +
            ", byte 0: what stands here was not written by this logger, and more follows: move the file away, or log "
            "into another folder");
  auto const longer = "{\"a\":\"" + std::string(200000, 'x') + "\"}\n";
  put(path, longer + longer);
  CHECK(JsonLines(folder.path, NothingMore{}).rows() == 2);
}

TEST_CASE("json lines: rows are dropped from the end, and those of somebody else are not written over") {
  Folder const folder;
  auto const path = folder / "metrics.jsonl";
  JsonLines file(folder.path, NothingMore{});
  for (double step = 0; step != 2000; ++step) file.add({{"step", step, true}, {"loss", 0.5}});
  auto const whole = content(path);
  file.keep(5000);
  CHECK(content(path) == whole);
  file.keep(1001);
  CHECK(content(path) == whole.substr(0, whole.find("{\"step\":1001,")));
  std::filesystem::remove(path);
  file.add({{"step", 1001, true}, {"loss", 0.5}});  // it is made again, with all its rows
  CHECK(content(path) == whole.substr(0, whole.find("{\"step\":1002,")));
  file.keep(0);
  CHECK(content(path).empty());
  file.add({{"step", 0, true}});
  put(path, "{\"step\":50}\n");
  CHECK(toy::refusal([&] { file.add({{"step", 1, true}}); }) == "fulgurite.logger.table_changed");
  CHECK(toy::refusal([&] { file.keep(0); }) == "fulgurite.logger.table_changed");
  CHECK(content(path) == "{\"step\":50}\n");
}

TEST_CASE("json lines: a run that was killed goes on in its file, which is that of an unbroken run") {
  Folder const other;
  net_fit(other, {}, Kills{});
  auto const whole = content(other / lines);
  CHECK(std::count(whole.begin(), whole.end(), '\n') == 1 + 1 + 12 + 3);
  for (long const steps : {3, 5, 8, 11}) {
    CAPTURE(steps);
    Folder const folder;
    killed_after<Net>(steps, below(folder.path), JsonLinesLogger{}, every_second());
    CHECK(content(folder / lines) != whole);
    auto const warnings = net_fit(folder, CkptPath{"last"}, Kills{});
    CHECK(content(folder / lines) == whole);
    CHECK(warnings.find("JsonLinesLogger: the last ") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder / "lightning_logs/version_1"));
  }
}

TEST_CASE("json lines: where max_steps has cut an epoch short, a run that goes on leaves the file of an unbroken one") {
  leaves_the_unbroken_one_where_cut<Net>([] { return JsonLinesLogger{}; },
                                         [](Folder const& in) { return content(in / lines); });
}

TEST_CASE("json lines: a batch that failed is done again with its window, and none of their rows is there twice") {
  for (long const fails_at : {0, 3, 5, 8}) {
    CAPTURE(fails_at);
    Folder const folder, other;
    auto const run = [](Folder const& in, long fails) {
      Net model;
      model.script = {3, 2, 1};
      model.fails_at = fails;
      return error_of([&] {
        auto trainer =
            make_trainer<Net>(below(in.path), SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 2},
                              PostsEach{}, JsonLinesLogger{}, OnExceptionCheckpoint{{.dirpath = in.path}});
        trainer.fit(model, toy::batches(4), toy::batches(1));
      });
    };
    said([&] {
      CHECK(run(other, -1).empty());
      CHECK(run(folder, fails_at).starts_with("[fulgurite.test.step]"));
      CHECK(run(folder, -1).empty());
    });
    CHECK(content(folder / lines) == content(other / lines));
  }
}

TEST_CASE("json lines: a state before the hyper-parameters has none of them, and they are told again") {
  Folder const folder;
  Ctx ctx;
  JsonLinesLogger logger(folder.path);
  logger.setup(ctx);
  std::vector<Hyperparameter> const told{{"lr", 0.5}};
  auto const row = [&](double value) {
    std::vector<Scalar> const cells{{"loss", value}};
    logger.log_metrics(cells, 0);
  };
  row(1);
  Kept before;
  logger.state(before);
  logger.log_hyperparams(told);
  row(2);
  Kept after;
  logger.state(after);
  before.loading = after.loading = true;
  logger.state(before);
  logger.log_hyperparams(told);
  row(3);
  std::string const file = "{\"step\":0,\"loss\":1}\n{\"hparams\":{\"lr\":0.5}}\n{\"step\":0,\"loss\":3}\n";
  CHECK(content(folder / lines) == file);
  logger.state(after);
  row(4);
  CHECK(content(folder / lines) == file + "{\"step\":0,\"loss\":4}\n");
  Kept wrong = after;
  wrong.rows = 9;
  CHECK(toy::refusal([&] { logger.state(wrong); }) == "fulgurite.logger.rows_missing");
  logger.log_hyperparams(told);
  logger.finalize(0);  // told without a row
  CHECK(content(folder / lines).ends_with("{\"step\":0,\"loss\":4}\n{\"hparams\":{\"lr\":0.5}}\n"));
}

TEST_CASE("json lines: a fit that fails before it resumes writes none of its hyper-parameters") {
  Folder const folder;
  Ctx ctx;
  JsonLinesLogger logger(folder.path);
  logger.setup(ctx);
  std::vector<Scalar> const cells{{"loss", 1}};
  logger.log_metrics(cells, 0);
  logger.log_hyperparams(std::vector<Hyperparameter>{{"lr", 0.5}});
  logger.do_not_continue();
  logger.finalize(0);
  CHECK(content(folder / lines) == "{\"step\":0,\"loss\":1}\n");
}
