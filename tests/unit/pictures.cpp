#include <algorithm>
#include <sstream>

#include <fulgurite/callback/dashboard.hpp>
#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/report/html.hpp>
#include <fulgurite/report/run_folder.hpp>

#include "callback_run.hpp"
#include "callback_stream.hpp"

using namespace fulgurite;

namespace {
std::size_t occurrences(std::string const& text, std::string const& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

/// Looks at the picture when an epoch has ended, as a person would who watches the run.
struct Watcher {
  using Stateless = ByChoice;
  std::filesystem::path file;
  std::vector<std::string> seen{};
  void on_train_epoch_start() { seen.push_back(std::filesystem::exists(file) ? content(file) : ""); }
};
}  // namespace

TEST_CASE("history: a long curve is thinned, and what it was is in its state") {
  report::History history(4);
  for (int i = 0; i != 11; ++i) history.add("loss", i, 10 * i);
  history.add("val", 3, NAN);
  auto const curves = history.curves();
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].label == "loss");
  CHECK(curves[0].x == std::vector<double>{1.5, 5.5, 9});
  CHECK(curves[0].y == std::vector<double>{15, 55, 90});
  CHECK(std::isnan(curves[1].y[0]));
  report::History other;
  load_state_text(other, state_text(history));
  CHECK(state_text(other) == state_text(history));
  CHECK(other.curves()[0].y == curves[0].y);
}

TEST_CASE("panels: what is of one kind shares a plot") {
  CHECK(report::subject_of("train/loss") == "loss");
  CHECK(report::subject_of("val_loss_epoch") == "loss");
  CHECK(report::subject_of("train") == "train");
  CHECK(report::subject_of("training") == "training");
  CHECK(report::subject_of("lr-SGD") == "lr-SGD");
  CHECK((report::smaller_is_better("val/loss") && report::smaller_is_better("rmse_epoch") &&
         report::smaller_is_better("val/loss.pixels")));
  CHECK(!(report::smaller_is_better("answers") || report::smaller_is_better("lossless-rate")));
  auto const plots = report::panels({{.label = "train/loss", .x = {0, 1}, .y = {2, 1}},
                                     {.label = "val/acc", .x = {1}, .y = {0.5}},
                                     {.label = "val/loss", .x = {1}, .y = {3}}});
  REQUIRE(plots.size() == 2);
  CHECK((plots[0].title == "loss" && plots[0].curves.size() == 2 && plots[1].title == "acc"));
  auto const svg = report::svg_of(plots, "A & B");
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1488 476\""));
  CHECK(svg.find("A &amp; B</text>") != std::string::npos);
  CHECK((occurrences(svg, "<style>") == 1 && occurrences(svg, "<svg") == 3 && occurrences(svg, "</svg>") == 3));
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("panels: parts of a metric share a plot, and the cells of a matrix are a table of a report, no plots") {
  CHECK(report::subject_of("val/range.min") == "range");
  CHECK(report::subject_of("f1.3") == "f1");
  CHECK(report::subject_of("v1.2/loss") == "v1.2/loss");
  auto const curve = [](std::string label, double last) {
    return report::Curve{.label = std::move(label), .x = {0, 9}, .y = {0, last}};
  };
  std::vector<report::Curve> curves{curve("train/range.min", 1), curve("val/range.max", 2), curve("val/f1", 1)};
  for (int i = 0; i != 14; ++i) curves.push_back(curve("val/f1." + std::to_string(i), 1));
  for (int row = 0; row != 3; ++row)
    for (int column = 0; column != 3; ++column)
      for (char const* loader : {"", "/night"})
        curves.push_back(curve("val/pairs." + std::to_string(row) + "." + std::to_string(column) + loader,
                               10 * row + column + (*loader ? 100 : 0)));
  curves.push_back(curve("norm/net.0.2", 1));  // is no matrix, nor are these
  curves.push_back(curve("odd.00.0", 1));
  curves.push_back(curve("far.0.18446744073709551615", 1));
  // A table of a stranger, whose sizes would wrap around to those of a matrix of two rows.
  for (char const* const cell : {"0.0", "0.1", "1.0", "18446744073709551615.0"})
    curves.push_back(curve(std::string("huge.") + cell, 1));
  auto const plots = report::panels(curves);
  std::vector<std::string> titles;
  for (auto const& plot : plots) titles.push_back(plot.title + " " + std::to_string(plot.curves.size()));
  CHECK(titles == std::vector<std::string>{"range 2", "f1 12", "f1 3", "norm/net 1", "odd 1", "far 1", "huge 4"});
  auto const matrices = report::take_matrices(curves);
  REQUIRE(matrices.size() == 2);
  CHECK((matrices[0].name == "val/pairs" && matrices[1].name == "val/pairs/night" && matrices[1].size == 3));
  CHECK(matrices[1].cells[5].label == "val/pairs.1.2/night");

  Folder const folder;
  put(folder / "metrics.csv", "a.0.0,a.0.1,a.1.0,a.1.1,loss,step\n1,2,3,4,0.5,0\n8,0,3,1,0.25,7\n");
  auto const page = report::html({folder.path});
  CHECK(occurrences(page, "<svg") == 1);
  CHECK(page.find("<td>a.0.0</td>") == std::string::npos);  // none is best
  CHECK(page.find("<p>a at step 7: a row for each label, ") != std::string::npos);
  CHECK(page.find("<tr><th>1</th><td class=\"n\" style=\"background:color-mix(in srgb,var(--heat) 45%,transparent)\">3"
                  "</td>") != std::string::npos);
  CHECK(page.find("<td class=\"n\">0</td></tr>") != std::string::npos);
}

TEST_CASE("curves: the picture is there while the fit runs, and a fit that goes on draws on") {
  Folder const folder;
  fake_seconds = 0;
  auto options = quick(3);
  options.default_root_dir = folder.path;
  auto const file = folder / "curves.svg";
  Scripted model{.script = {3, 2, 1}, .seconds_per_batch = 1};
  auto trainer = fitted(model, options, 4, LearningCurves{}, LearningRateMonitor{}, Watcher{.file = file});
  auto& curves = trainer.callback<LearningCurves>();
  CHECK(curves.path() == file);
  auto const last = content(file);
  CHECK(last.find("Scripted: epoch 2, step 12") != std::string::npos);
  for (char const* name : {">loss</text>", ">vl</text>", ">acc</text>", ">lr-SGD</text>"}) {
    INFO(name);
    CHECK(occurrences(last, name) >= 1);
  }
  auto const& seen = trainer.callback<Watcher>().seen;
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].empty());
  CHECK((seen[1].ends_with("</svg>\n") && seen[2].ends_with("</svg>\n") && seen[1] != seen[2] && seen[2] != last));
  auto const of = curves.curves();
  auto const vl = std::ranges::find(of, "vl", &report::Curve::label);
  REQUIRE(vl != of.end());
  CHECK(vl->x == std::vector<double>{3, 7, 11});
  CHECK(vl->y == std::vector<double>{3, 2, 1});

  LearningCurves resumed;
  load_state_text(resumed, state_text(curves));
  CHECK(resumed.curves().size() == of.size());
  CHECK(error_of([] { LearningCurves{{.filename = "a.png"}}; }).starts_with("[fulgurite.callback.curves_filename]"));
}

TEST_CASE("report: one page of several runs, with what differs, what is best, and no word from elsewhere") {
  Folder const folder;
  auto const run = [&](char const* name, std::string const& csv, std::string const& yaml) {
    std::filesystem::create_directories(folder / name);
    put(folder / name / "metrics.csv", csv);
    put(folder / name / "hparams.yaml", yaml);
  };
  run("version_10", "epoch,loss,step,val/acc\n0,0.5,0,\n0,nan,1,0.25\n0,0.125,2,\n0,7,3",
      "\"lr\": 0.1\n\"note\": \"a</script>\"\n");
  run("version_2", "loss,step\n0.25,0\n", "\"lr\": 0.1\n\"note\": \"b\"\n");
  put(folder / "version_2" / "describe.txt", "Trainer of <Net>\n");
  put(folder / "version_2" / "fit-perf.csv",
      "part,action,calls,total_s,own_s,longest_s\nrun,Total,1,2,0,2\ndata,\"next\",5,1.5,1.5,1\n");
  std::filesystem::create_directories(folder / "version_11");
  put(folder / "version_11" / "metrics.jsonl", "{\"hparams\":{\"lr\":1}}\n{\"step\":4,\"loss\":0.0625,\"epoch\":1}\n{"
                                               "\"step\":5,\"loss\":\"inf\"}\n{\"step\":6,\"lo");

  auto const runs = report::read_run_folders({folder.path});
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].path.filename() == "version_2");
  CHECK(runs[1].path.filename() == "version_10");
  REQUIRE(runs[1].curves.size() == 2);
  CHECK((runs[1].curves[0].label == "loss" && runs[1].curves[0].x == std::vector<double>{0, 1, 2}));
  CHECK((runs[2].curves.size() == 1 && runs[2].curves[0].x == std::vector<double>{4, 5}));
  CHECK(runs[1].hyperparameters[1].second == "a</script>");

  report::write_html(folder / "page.html", {folder.path});
  auto const page = content(folder / "page.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(occurrences(page, "<svg") == 2);
  CHECK(page.find("<tr class=\"differs\"><td>note</td><td>b</td><td>a&lt;/script&gt;</td><td></td>") !=
        std::string::npos);
  CHECK(page.find("<td class=\"n best\">0.0625<small>at step 4, last 0.0625</small></td>") != std::string::npos);
  CHECK(page.find("75 % of the time waits for data") != std::string::npos);
  CHECK(page.find("Trainer of &lt;Net&gt;") != std::string::npos);
  CHECK(page.find("\"x\":[0,1,2],\"y\":[0.5,null,0.125]") != std::string::npos);
  for (char const* other : {"src=", "href=", "url(", "@import"}) {
    INFO(other);
    CHECK(page.find(other) == std::string::npos);
  }
  CHECK(occurrences(page, "http") == occurrences(page, "http://www.w3.org/2000/svg"));  // names, not addresses
  CHECK(error_of([&] { report::html({folder / "version_3"}); }).starts_with("[fulgurite.report.no_run]"));
  CHECK(report::system_text().starts_with("host      "));
}

TEST_CASE("report: the options and programs of runs side by side, first what differs, and each run by its own name") {
  Folder const folder;
  auto const run = [&](char const* name, std::string const& options, std::string const& program) {
    auto const place = folder / name / "logs/version_0";
    std::filesystem::create_directories(place);
    put(place / "metrics.csv", "loss,step\n0.5,0\n");
    if (!options.empty()) put(place / "options.txt", options);
    put(place / "describe.txt", program);
    put(place / "system.txt", "host      a\ncores     2\n");
    return place;
  };
  std::string const common = "\nfit\n  backward                        loss.backward()\n"
                             "      configure_gradient_clipping as optimization says\n\noptions\n  epochs: 2\n";
  auto const callbacks = std::string("  callbacks, in firing order\n    normal      CSVLogger\n    progress    Bar\n");
  auto const a =
      run("a", "max_epochs = 2\nclip = none\n", "Trainer of Net\n  precision     Float32\n" + callbacks + common);
  auto const b =
      run("b/c", "max_epochs = 3\nclip = none\n", "Trainer of Net\n  precision     Bf16Mixed\n" + callbacks + common);
  auto const old = run("d", "", "Trainer of Net\n  precision     Float32\n" + callbacks + common);  // of no options
  auto const page = report::html({a, b, old, a});
  auto const has = [&](std::string const& text) { return page.find(text) != std::string::npos; };
  CHECK(has("<title>3 runs</title>"));
  CHECK(has("<p>in " + (folder / "*/logs/version_0").string() + "</p>"));
  CHECK(has("</span>a</th>"));
  CHECK(has("</span>b/c</th>"));
  CHECK(has("<tr class=\"differs\"><td>max_epochs</td><td>2</td><td>3</td><td></td></tr>"));
  CHECK(has("<summary>the same in all runs: 1</summary>"));
  CHECK(has("<tr><td>clip</td><td>none</td></tr>"));
  CHECK(has("<tr class=\"differs\"><td>precision</td><td>Float32</td><td>Bf16Mixed</td><td>Float32</td></tr>"));
  CHECK(has("<tr><td>callbacks</td><td>CSVLogger, Bar</td></tr>"));
  CHECK(has("<tr><td>fit: backward</td><td>loss.backward()</td></tr>"));
  CHECK(has("<tr><td>fit: configure_gradient_clipping</td><td>as optimization says</td></tr>"));
  CHECK(occurrences(page, "<td>cores</td>") == 1);
  CHECK(occurrences(page, "<summary>system.txt</summary>") == 1);  // all have the same one
  CHECK(occurrences(page, "<summary>describe.txt</summary>") == 3);

  using Paths = std::vector<std::filesystem::path>;
  using Names = std::vector<std::string>;
  auto const names = [](Paths const& paths) { return report::names_of_runs(paths).names; };
  auto const common_of = [](Paths const& paths) { return report::names_of_runs(paths).common; };
  CHECK(names({"logs/version_2/", "logs/version_10"}) == Names{"version_2", "version_10"});
  CHECK(common_of({"logs/version_2/", "logs/version_10"}) == "logs");
  CHECK(names({"x/logs/version_1"}) == Names{"x/logs/version_1"});
  CHECK(names({"a/v1", "b"}) == Names{"a/v1", "b"});
  CHECK(common_of({"a/v1", "b"}).empty());
  CHECK(names({"/r/v", "/r/v/w"}) == Names{"v", "v/w"});
}

TEST_CASE("dashboard: fits its terminal, says how fast, and leaves one line at the end") {
  auto const frame_of = [](int columns, int lines, std::string& all) {
    Stream out;
    fake_seconds = 0;
    Scripted model{.script = {3, 2, 1}, .seconds_per_batch = 1};
    auto trainer = fitted(model, quick(3), 8,
                          Dashboard{{.stream = out.file,
                                     .columns = columns,
                                     .lines = lines,
                                     .terminal = true,
                                     .glyphs = report::Glyphs::utf8}});
    all = out.all();
    auto shown = screen(all);
    REQUIRE(shown.size() > 3);
    CHECK(shown.back().empty());
    CHECK(shown[shown.size() - 2] == "3 epochs, 24 steps in 00:27");
    return std::vector(shown.begin(), shown.end() - 2);
  };
  std::string all;
  for (int const columns : {80, 200, 45}) {
    auto const lines = frame_of(columns, 24, all);
    INFO(columns);
    CHECK(lines.size() <= 22);
    CHECK(lines.size() > 10);
    for (auto const& line : lines) CHECK(report::display_width(line) <= static_cast<std::size_t>(columns));
    CHECK(lines[0].starts_with("Scripted  epoch 3 of 3  step 24 of 24  00:"));
    CHECK(lines[lines.size() - 4].starts_with("Epoch 2: 100%|"));
    CHECK(lines[lines.size() - 2] == "loss 3.500   vl 1.000");
    CHECK(lines.back().find("1 samples/s") != std::string::npos);
    // Of a narrow line facts are left out: how many depends on whether the clock of the cores has ticked.
    CHECK((lines.back().ends_with(" resident") || (columns == 45 && lines.back().ends_with("   ..."))));
    CHECK(all.find("Validation: ") != std::string::npos);
  }
  auto const low = frame_of(80, 7, all);
  CHECK(low.size() == 5);

  // As a file it is the bar's lines.
  Stream out, plain;
  for (bool const bar : {false, true}) {
    fake_seconds = 0;
    Scripted model{.script = {3, 2}, .seconds_per_batch = 1};
    if (bar) fitted(model, quick(2), 4, ProgressBar{{.stream = plain.file}});
    else fitted(model, quick(2), 4, Dashboard{{.stream = out.file, .glyphs = report::Glyphs::utf8}});
  }
  CHECK(out.all() == plain.all());
  CHECK(out.all().find('\x1b') == std::string::npos);

  Stream broken;
  Scripted fails{.fails_at = 2};
  auto failing =
      ScriptedTrainer<Dashboard>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                 Dashboard{{.stream = broken.file, .columns = 80, .lines = 24, .terminal = true}});
  CHECK_THROWS_AS(failing.fit(fails, toy::batches(4), toy::batches(1)), Error);
  auto const left = screen(broken.all());
  CHECK((left.size() == 6 && left.back().empty() && left[0].starts_with("Scripted  epoch 0 of 1")));
}

namespace {
/// Writes a line of its own on the terminal, as warnings do.
struct Speaker {
  using Stateless = ByChoice;
  std::FILE* stream;
  void on_train_batch_end(auto& ctx) {
    if (ctx.batch_idx() == 1) std::fputs("warning: a line that others print\n", stream);
  }
};
Dashboard drawn_on(Stream& out) {
  return Dashboard{{.stream = out.file, .columns = 80, .lines = 24, .terminal = true, .glyphs = report::Glyphs::utf8}};
}
}  // namespace

TEST_CASE("dashboard: a line that others print between two drawings stays, and there is one dashboard below it") {
  Stream out;
  fake_seconds = 0;
  Scripted model{.script = {3, 2}, .seconds_per_batch = 1};
  fitted(model, quick(2), 4, Speaker{.stream = out.file}, drawn_on(out));
  auto const shown = screen(out.all());
  CHECK(std::ranges::count(shown, std::string("warning: a line that others print")) == 2);
  CHECK((shown[0].starts_with("warning: ") && shown[1].starts_with("warning: ")));
  CHECK(std::ranges::count_if(shown, [](auto const& line) { return line.starts_with("Scripted  epoch"); }) == 1);
}

TEST_CASE("dashboard: a run that goes on inside an epoch is drawn, and counts what this process did") {
  Folder const folder;
  {
    Scripted first{.fails_at = 6};
    CHECK(error_of([&] { fitted(first, quick(3), 4, OnExceptionCheckpoint{{.dirpath = folder.path}}); }) != "");
  }
  Stream out;
  fake_seconds = 0;
  Scripted model{.script = {0.5, 0.25}, .seconds_per_batch = 0.5};
  fitted(model, quick(3), 4, OnExceptionCheckpoint{{.dirpath = folder.path}}, drawn_on(out));
  CHECK(out.all().find("Epoch 1:  75%|") != std::string::npos);
  auto const shown = screen(out.all());
  CHECK(shown[shown.size() - 2] == "2 epochs, 6 steps in 00:04");
}
