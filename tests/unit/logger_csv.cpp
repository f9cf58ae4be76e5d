#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include <fulgurite/logger/csv_logger.hpp>

#include "callback_run.hpp"
#include "loose_context.hpp"
#include "models.hpp"

using namespace fulgurite;
using logger::CsvTable;

namespace {
void log(CSVLogger& to, long step, std::vector<Scalar> const& row) { to.log_metrics(row, step); }

using Ctx = toy::LooseContext;
}  // namespace

TEST_CASE("csv: columns grow, and no row is lost by it") {
  Folder const folder;
  CsvTable table(folder / "m.csv");
  table.add({{"step", 0, true}, {"b", 0.1}});
  CHECK(content(folder / "m.csv") == "b,step\n0.1,0\n");
  table.add({{"step", 1, true}});
  table.add({{"step", 2, true}, {"a", NAN}, {"c", -INFINITY}});
  CHECK(content(folder / "m.csv") == "a,b,c,step\n,0.1,,0\n,,,1\nnan,,-inf,2\n");
  table.add({{"b", 1e-300}, {"step", 3, true}});
  CHECK(content(folder / "m.csv") == "a,b,c,step\n,0.1,,0\n,,,1\nnan,,-inf,2\n,1e-300,,3\n");
  CHECK(folder.files().size() == 1);
}

TEST_CASE("csv: nothing is written in a fast_dev_run") {
  Folder const folder;
  CSVLogger logger(folder.path);
  Ctx ctx;
  ctx.given().fast_dev_run = 1;
  logger.setup(ctx);
  log(logger, 0, {{"loss", 0.5}});
  CHECK(folder.files().empty());
  CHECK(logger.log_dir().empty());
  static_assert(CSVLogger::inert_in_dev_run);
}

TEST_CASE("csv: a name with a comma, a quote; a table that is there is continued") {
  Folder const folder;
  {
    CsvTable table(folder / "m.csv");
    table.add({{"a,b", 1}, {"say \"x\"", 2}});
  }
  CsvTable table(folder / "m.csv");
  CHECK(table.columns() == std::vector<std::string>{"a,b", "say \"x\""});
  table.add({{"say \"x\"", 3}});
  table.add({{"z", 4}});
  CHECK(content(folder / "m.csv") == "\"a,b\",\"say \"\"x\"\"\",z\n1,2,\n,3,\n,,4\n");
}

TEST_CASE("csv: what a power cut has left of a row is no row: it is cut off when the file is opened again") {
  Folder const folder;
  auto const path = folder / "m.csv";
  for (std::string const& torn : {std::string("2"), std::string("2,1"), std::string(5000, '\0')}) {
    put(path, "a,step\n1,0\n" + torn);
    CsvTable table(path);
    CHECK(table.rows() == 1);
    table.add({{"a", 3}, {"step", 2, true}});
    CHECK(content(path) == "a,step\n1,0\n3,2\n");
  }
  put(path, "a,st");
  CsvTable table(path);
  table.add({{"a", 3}, {"step", 2, true}});
  CHECK(content(path) == "a,step\n3,2\n");
}

TEST_CASE("csv: rows that are not rectangular stay so where rows are dropped") {
  Folder const folder;
  auto const path = folder / "m.csv";
  auto const kept = [&](std::string const& text, long rows) {
    put(path, text);
    CsvTable table(path);
    table.keep(rows);
    CHECK(table.rows() == rows);
    CHECK(CsvTable(path).rows() == rows);
    return content(path);
  };
  CHECK(kept("a,b,c\n1,,2\n3\n4,,5,6,7\n8,9,9\n", 3) == "a,c\n1,2\n3\n4,5,6,7\n");
  CHECK(kept("a,a\n1,2\n3,4\n", 1) == "a,a\n1,2\n");  // two columns of one name
  CHECK(kept("\n1,2\n3,4\n", 1) == "\n1,2\n");        // a header without a name
  CHECK(kept("a,b\n,\n3,4\n", 1) == "\n\n");          // a row without a value
  CHECK(kept("a,b\n1,2\n", 0).empty());
}

TEST_CASE("csv: a new column does not lose the cells of rows that are not rectangular") {
  Folder const folder;
  put(folder / "m.csv", "b,b\n1,2\n3\n4,5,6\n");
  CsvTable table(folder / "m.csv");
  table.add({{"a", 7}});
  CHECK(content(folder / "m.csv") == "a,b,b\n,1,2\n,3,\n,4,5,6\n7,,\n");
}

TEST_CASE("csv: every value reads back as it was") {
  Folder const folder;
  CsvTable table(folder / "m.csv");
  double const value = 0.1 + 0.2;
  table.add({{"a", value}});
  auto const text = content(folder / "m.csv");
  CHECK(std::stod(text.substr(2)) == value);
}

TEST_CASE("csv: no row is lost when the process is killed") {
  Folder const folder;
  int go[2];
  REQUIRE(::pipe(go) == 0);
  auto const child = ::fork();
  if (child == 0) {
    CSVLogger logger(folder.path);
    Ctx ctx;
    logger.setup(ctx);
    for (long step = 0; step != 1000; ++step) {
      if (step == 500) log(logger, step, {{"late", 1}, {"loss", 0.5}});  // a column more
      else log(logger, step, {{"loss", 0.5}});
    }
    // Nothing is flushed, closed or destroyed from here on.
    if (::write(go[1], "x", 1) == 1) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  char byte = 0;
  CHECK(::read(go[0], &byte, 1) == 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  ::close(go[0]);
  ::close(go[1]);
  auto const text = content(folder / "lightning_logs/version_0/metrics.csv");
  CHECK(std::count(text.begin(), text.end(), '\n') == 1001);
  CHECK(text.starts_with("late,loss,step\n,0.5,0\n"));
  CHECK(text.ends_with(",0.5,999\n"));
  CHECK(text.find("\n1,0.5,500\n") != std::string::npos);
}

TEST_CASE("csv: killed at any moment, every row that was acknowledged is there", "[long]") {
  Folder const folder;
  for (int round = 0; round != 8; ++round) {
    auto const path = folder / ("m" + std::to_string(round));
    int said[2];
    REQUIRE(::pipe(said) == 0);
    auto const child = ::fork();
    if (child == 0) {
      CsvTable table(path);
      for (int i = 0;; ++i) {
        auto const name = "c" + std::to_string(i % 40);  // the file is rewritten over and over
        table.add({{name, 1}, {"step", static_cast<double>(i), true}});
        if (::write(said[1], "x", 1) != 1) ::_exit(1);
      }
    }
    ::close(said[1]);
    std::string acknowledged;
    char buffer[64];
    while (acknowledged.size() < static_cast<std::size_t>(5 + 7 * round))
      if (auto const n = ::read(said[0], buffer, sizeof buffer); n > 0)
        acknowledged.append(buffer, static_cast<std::size_t>(n));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (auto const n = ::read(said[0], buffer, sizeof buffer))
      acknowledged.append(buffer, static_cast<std::size_t>(n));
    ::close(said[0]);
    auto const text = content(path);
    auto const rows = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) - 1;
    CHECK(rows >= acknowledged.size());
    CHECK(rows <= acknowledged.size() + 1);
    CHECK(text.ends_with('\n'));
  }
}

TEST_CASE("csv: a full disk is an error, and leaves whole rows") {
  Folder const folder;
  auto const path = folder / "m.csv";
  auto const child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    CsvTable table(path);
    bool const thrown = error_of([&] {
                          for (int i = 0; i != 100; ++i)
                            table.add({{"a", 0.125}, {"step", static_cast<double>(i), true}});
                        })
                            .starts_with("[fulgurite.file.write] cannot append a row to " + path.string() +
                                         ": File too large (errno 27)");
    ::_exit(thrown ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  auto const text = content(path);
  CHECK(text.size() > 80);
  CHECK(text.ends_with('\n'));
}

TEST_CASE("csv: a version of its own for each run") {
  Folder const folder;
  Ctx first, second, third;
  first.given().default_root_dir = folder.path;
  CSVLogger a, b(folder.path), c(folder.path, {.name = "mlp"});
  a.setup(first);
  b.setup(second);
  c.setup(third);
  CHECK(a.log_dir() == folder / "lightning_logs/version_0");
  CHECK(b.log_dir() == folder / "lightning_logs/version_1");
  CHECK(c.log_dir() == folder / "mlp/version_0");
  CHECK(first.log_dir() == a.log_dir());
  CHECK(first.outcome().metrics_file == a.log_dir() / "metrics.csv");
  a.setup(first);  // the same logger, a second fit
  CHECK(a.log_dir() == folder / "lightning_logs/version_0");
  std::filesystem::create_directories(folder / "lightning_logs/version_7");
  std::filesystem::create_directories(folder / "lightning_logs/version_x");
  CSVLogger d(folder.path);
  d.setup(second);
  CHECK(d.log_dir() == folder / "lightning_logs/version_8");
}

TEST_CASE("csv: runs that start at once get folders of their own") {
  Folder const folder;
  std::vector<std::filesystem::path> made(16);
  {
    std::vector<std::jthread> threads;
    for (auto& path : made) threads.emplace_back([&] { path = logger::new_version(folder.path); });
  }
  CHECK(std::set(made.begin(), made.end()).size() == 16);
  CHECK(logger::claim_version(folder.path, 3) ==
        folder / "version_16");  // a number that was free when it was looked up
}

TEST_CASE("csv: a version that is given is continued") {
  Folder const folder;
  Ctx ctx;
  for (long step : {0, 1}) {
    CSVLogger logger(folder.path, {.version = 3});
    logger.setup(ctx);
    log(logger, step, {{"loss", 0.5}});
  }
  CHECK(content(folder / "lightning_logs/version_3/metrics.csv") == "loss,step\n0.5,0\n0.5,1\n");
}

TEST_CASE("csv: prefix, epoch, a metric called step") {
  Folder const folder;
  Ctx ctx;
  CSVLogger logger(folder.path, {.prefix = "a"});
  logger.setup(ctx);
  log(logger, 4, {{"loss", 0.5}, {"epoch", 2}});
  log(logger, 5, {{"step", 2.5}});
  CHECK(content(logger.log_dir() / "metrics.csv") == "a-loss,epoch,step\n0.5,2,4\n,,2.5\n");
}

TEST_CASE("csv: only rank 0 writes") {
  Folder const folder;
  Ctx ctx;
  ctx.run.number = 1;
  CSVLogger logger(folder.path);
  logger.setup(ctx);
  log(logger, 0, {{"loss", 1}});
  CHECK(folder.files().empty());
  CHECK(ctx.log_dir().empty());
}

TEST_CASE("csv: hyper-parameters as YAML") {
  Folder const folder;
  Ctx ctx;
  CSVLogger logger(folder.path);
  logger.setup(ctx);
  CHECK(content(logger.log_dir() / "hparams.yaml") == "{}\n");
  std::vector<Hyperparameter> const parameters{
      {"lr", 1e-5}, {"layers", std::int64_t{4}}, {"amsgrad", true}, {"optimizer", "adam: \"w\""}, {"whole", 2.0},
      {"nan", NAN}, {"inf", -INFINITY},          {"tiny", 1.5e-10}};
  logger.log_hyperparams(parameters);
  CHECK(content(logger.log_dir() / "hparams.yaml") ==
        "\"lr\": 1.0e-05\n\"layers\": 4\n\"amsgrad\": true\n\"optimizer\": \"adam: \\\"w\\\"\"\n\"whole\": "
        "2.0\n\"nan\": .nan\n\"inf\": -.inf\n\"tiny\": 1.5e-10\n");
}

TEST_CASE("csv: a fit writes its rows") {
  Folder const folder;
  Scripted model{.script = {5, 4}};
  auto options = quick(2);
  options.default_root_dir = folder.path;
  options.log_every_n_steps = 2;
  auto trainer = fitted(model, options, 4, CSVLogger{});
  CHECK(content(folder / "lightning_logs/version_0/metrics.csv") ==
        "epoch,loss,step,val/acc,vl\n0,1,1,,\n0,3,3,,\n0,,3,0.25,5\n1,1,5,,\n1,3,7,,\n1,,7,0.25,4\n");
  CHECK(trainer.outcome().metrics_file == folder / "lightning_logs/version_0/metrics.csv");
}

TEST_CASE("csv: options may be the only argument") {
  Folder const folder;
  Scripted model{.script = {5}};
  auto options = quick(1);
  options.default_root_dir = folder.path;
  fitted(model, options, 4, CSVLogger{{.name = "mlp"}});
  CHECK(std::filesystem::exists(folder / "mlp/version_0/metrics.csv"));
}

TEST_CASE("csv: rows are told apart by line breaks outside quotes, whatever the names hold") {
  Folder const folder;
  std::mt19937 random(1);
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i != 500; ++i) {
    std::vector<std::string> row(1 + random() % 4);
    for (auto& cell : row)
      for (auto n = random() % 6; n != 0; --n) cell += ",\"\r\n ab"[random() % 7];
    if (row.size() > 1 || !row[0].empty()) rows.push_back(row);
  }
  std::string text;
  for (auto const& row : rows) text += logger::csv_row(row);
  put(folder / "m.csv", text);
  FileDescriptor const file(::open((folder / "m.csv").c_str(), O_RDONLY));
  logger::CsvReader in(file.number(), folder / "m.csv");
  std::vector<std::string> read;
  for (auto const& row : rows) {
    REQUIRE(in.next(read));
    REQUIRE(read == row);
  }
  CHECK_FALSE(in.next(read));

  Ctx ctx;
  for (std::string const prefix : {"a\nb", "a\r\nb", "\r", "\n\"", "a,b"}) {
    CAPTURE(prefix);
    CSVLoggerOptions const options{.version = 0, .prefix = prefix};
    Folder const own;
    for (long step : {0, 1}) {
      CSVLogger logger(own.path, options);
      logger.setup(ctx);
      log(logger, step, {{"loss", 0.5}});
      log(logger, step + 2, {{"loss", 0.25}, {"late" + std::to_string(step), 1}});  // rewrites what it has read
    }
    CsvTable const table(own / "lightning_logs/version_0/metrics.csv");
    CHECK(table.columns() == std::vector<std::string>{prefix + "-late0", prefix + "-late1", prefix + "-loss", "step"});
    auto const said = content(table.path());
    CHECK(said.ends_with("\n,,0.5,0\n1,,0.25,2\n,,0.5,1\n,1,0.25,3\n"));
  }
}

TEST_CASE("csv: a table that Windows has written, and one that ends inside a quoted cell") {
  Folder const folder;
  put(folder / "m.csv", "a,step\r\n1,0\r\n");
  CsvTable table(folder / "m.csv");
  CHECK(table.columns() == std::vector<std::string>{"a", "step"});
  table.add({{"b", 3}});
  CHECK(content(folder / "m.csv") == "a,b,step\n1,,0\n,3,\n");
  put(folder / "n.csv", "\"a,step\n1,0\n");
  CHECK(error_of([&] { CsvTable{folder / "n.csv"}; }) ==
        "[fulgurite.file.read] cannot read " + (folder / "n.csv").string() +
            ", to which rows are to be added: it ends inside a quoted cell");
}

TEST_CASE("csv: what is no file, and cannot be one, is refused with its path") {
  Folder const folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  std::filesystem::create_directory(folder / "folder");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (char const* name : {"loop", "folder", "pipe"})
    CHECK(error_of([&] {
            CsvTable{folder / name};
          }).starts_with("[fulgurite.file.read] cannot read " + (folder / name).string() + ": "));

  auto const version = folder / "lightning_logs/version_0";
  std::filesystem::create_directories(version);
  std::filesystem::create_symlink("hparams.yaml", version / "hparams.yaml");
  std::filesystem::create_symlink("metrics.csv", version / "metrics.csv");
  Ctx ctx;
  CSVLogger logger(folder.path, {.version = 0});
  CHECK(error_of([&] {
          logger.setup(ctx);
        }).starts_with("[fulgurite.file.read] cannot read " + (version / "metrics.csv").string() + ": Too many"));
}

TEST_CASE("csv: a name stays below save_dir; a version is a number from 0 on") {
  for (std::string const name : {"../x", "..", "/x", "a/../../x", "//"})
    CHECK(toy::refusal([&] { CSVLogger("runs", {.name = name}); }) == "fulgurite.logger.name");
  CHECK(toy::refusal([&] { CSVLogger("runs", {.name = std::string("a\0b", 3)}); }) == "fulgurite.logger.name");
  CHECK(error_of([] { CSVLogger("runs", {.name = "../../x"}); }).find("the name '../../x' leads out of save_dir") !=
        std::string::npos);
  Ctx ctx;
  for (std::string const name : {"a/b", "", ".", "a/../c", "..x", "./d"}) {
    CAPTURE(name);
    Folder const folder;
    CSVLogger logger(folder.path, {.name = name});
    logger.setup(ctx);
    CHECK(logger.log_dir() == ((folder.path / name).lexically_normal() / "version_0").lexically_normal());
  }
  CHECK(toy::refusal([&] { CSVLogger("runs", {.version = -5}); }) == "fulgurite.logger.version");
  Folder const folder;
  std::filesystem::create_directories(folder / "runs/version_9223372036854775807");
  CSVLogger logger(folder.path, {.name = "runs"});
  CHECK(error_of([&] { logger.setup(ctx); }).starts_with("[fulgurite.logger.version] "));
  CHECK(toy::refusal([&] { logger::claim_version(folder / "runs", std::numeric_limits<long>::max()); }) ==
        "fulgurite.logger.version");
}

TEST_CASE("csv: one version has one writer, until it ends, is done, or is killed") {
  Folder const folder;
  Ctx ctx;
  CSVLoggerOptions const options{.version = 0};
  auto const version = folder / "lightning_logs/version_0";
  Other other([&](auto&& done) {
    CSVLogger logger(folder.path, options);
    logger.setup(ctx);
    log(logger, 0, {{"loss", 0.5}});
    done();
  });
  CSVLogger second(folder.path, options);
  CHECK(error_of([&] { second.setup(ctx); })
            .starts_with("[fulgurite.logger.version_in_use] another logger writes into " + version.string() +
                         " now (process " + std::to_string(other.id) + " on "));
  CSVLogger own(folder.path);  // none was given: it has one of its own
  own.setup(ctx);
  CHECK(own.log_dir() == folder / "lightning_logs/version_1");
  other.end();  // killed: the lock file is there, and the lock is not
  CHECK(std::filesystem::exists(version / ".lock"));
  second.setup(ctx);
  log(second, 1, {{"loss", 0.25}});

  CSVLogger third(folder.path, options);
  CHECK(toy::refusal([&] { third.setup(ctx); }) == "fulgurite.logger.version_in_use");
  second.finalize(0);  // the trainer's last word to a logger
  CHECK_FALSE(std::filesystem::exists(version / ".lock"));
  third.setup(ctx);
  log(third, 2, {{"late", 1}});
  CHECK(toy::refusal([&] { log(second, 3, {{"loss", 1}}); }) == "fulgurite.logger.version_in_use");
  third.finalize(0);
  log(second, 3, {{"loss", 1}});
  CHECK(content(version / "metrics.csv") == "late,loss,step\n,0.5,0\n,0.25,1\n1,,2\n,1,3\n");
}

TEST_CASE("csv: of processes that are given one version at once, one writes and the others are refused") {
  Folder const folder;
  Ctx ctx;
  int go[2], tried[2], end[2];
  for (auto* pipe : {go, tried, end}) REQUIRE(::pipe(pipe) == 0);
  auto const wait_for = [](int* pipe) {
    ::close(pipe[1]);
    char byte = 0;
    return ::read(pipe[0], &byte, 1) == 0;
  };
  std::vector<pid_t> children;
  for (int i = 0; i != 6; ++i) {
    auto const child = ::fork();
    if (child == 0) {
      CSVLogger logger(folder.path, {.version = 3});
      if (!wait_for(go)) ::_exit(9);
      auto const said = toy::refusal([&] { logger.setup(ctx); });
      if (::write(tried[1], "x", 1) != 1) ::_exit(9);
      if (!said.empty()) ::_exit(said == "fulgurite.logger.version_in_use" ? 1 : 2);
      for (long step = 0; step != 200; ++step) log(logger, step, {{"c" + std::to_string(step % 7), 1}});
      ::_exit(wait_for(end) ? 0 : 9);  // not before all have tried
    }
    children.push_back(child);
  }
  ::close(go[1]);
  char byte = 0;
  for (int i = 0; i != 6; ++i) REQUIRE(::read(tried[0], &byte, 1) == 1);
  ::close(end[1]);
  std::map<int, int> ended;
  for (auto const child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    ++ended[WEXITSTATUS(status)];
  }
  for (int const side : {go[0], tried[0], tried[1], end[0]}) ::close(side);
  CHECK(ended == std::map<int, int>{{0, 1}, {1, 5}});
  auto const text = content(folder / "lightning_logs/version_3/metrics.csv");
  CHECK(std::count(text.begin(), text.end(), '\n') == 201);
}

TEST_CASE("csv: a folder that is deleted or moved in the middle of a call is made again, and holds everything") {
  for (bool const moved : {false, true}) {
    CAPTURE(moved);
    Folder const folder;
    Ctx ctx;
    CSVLogger logger(folder.path);
    logger.setup(ctx);
    std::vector<Hyperparameter> const parameters{{"lr", 0.5}};
    logger.log_hyperparams(parameters);
    auto const goes = [&] {
      if (moved) std::filesystem::rename(folder / "lightning_logs", folder / ("away" + std::to_string(::rand())));
      else std::filesystem::remove_all(folder / "lightning_logs");
    };
    goes();  // before the first row
    log(logger, 0, {{"loss", 0.5}});
    log(logger, 1, {{"loss", 0.25}});
    goes();
    log(logger, 2, {{"loss", 1}});
    auto const table = logger.log_dir() / "metrics.csv";
    CHECK(content(table) == "loss,step\n0.5,0\n0.25,1\n1,2\n");
    goes();
    log(logger, 3, {{"late", 1}});  // a new column
    CHECK(content(table) == "late,loss,step\n,0.5,0\n,0.25,1\n,1,2\n1,,3\n");
    CHECK(content(logger.log_dir() / "hparams.yaml") == "\"lr\": 0.5\n");
    CSVLogger other(folder.path, {.version = 0});
    CHECK(toy::refusal([&] { other.setup(ctx); }) == "fulgurite.logger.version_in_use");
  }
}

TEST_CASE("csv: rows of somebody else are not written over") {
  Folder const folder;
  auto const path = folder / "m.csv";
  auto const refused = [&](auto&& spoil) {
    std::filesystem::remove(path);
    CsvTable table(path);
    table.add({{"a", 1}});
    spoil();
    auto const before = content(path);
    for (auto const* column : {"a", "new"})
      CHECK(toy::refusal([&] { table.add({{column, 2}}); }) == "fulgurite.logger.table_changed");
    CHECK(content(path) == before);
  };
  refused([&] { CsvTable(path).add({{"a", 7}}); });
  refused([&] { CsvTable(path).add({{"b", 7}}); });
  refused([&] { std::filesystem::resize_file(path, 0); });
  refused([&] { write_durably(path, "a\n1\n"); });
  std::filesystem::remove(path);
  CsvTable table(path);  // none is there yet
  put(path, "a\n1\n");
  CHECK(toy::refusal([&] { table.add({{"a", 2}}); }) == "fulgurite.logger.table_changed");
  CHECK(content(path) == "a\n1\n");
}

TEST_CASE("csv: after a fit its folder is free, and a second fit goes on in it") {
  Folder const folder;
  Scripted model{.script = {5}};
  auto options = quick(1);
  options.default_root_dir = folder.path;
  options.log_every_n_steps = 2;
  auto first = fitted(model, options, 2, CSVLogger{{}, {.version = 0}});
  auto second = fitted(model, options, 2, CSVLogger{{}, {.version = 0}});
  auto const text = content(folder / "lightning_logs/version_0/metrics.csv");
  CHECK(text == "epoch,loss,step,val/acc,vl\n0,1,1,,\n0,,1,0.25,5\n0,1,1,,\n0,,1,0.25,5\n");
  CHECK(folder.files() ==
        std::set<std::string>{"lightning_logs/version_0/describe.txt", "lightning_logs/version_0/hparams.yaml",
                              "lightning_logs/version_0/metrics.csv", "lightning_logs/version_0/options.txt",
                              "lightning_logs/version_0/system.txt"});
}
