// Line plots: ticks, SVG files, and text for terminals.
#include <fulgurite/callback/dashboard.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/terminal.hpp>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "checkpoint_folder.hpp"

namespace report = fulgurite::report;
using report::Scale;

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

std::string joined(std::vector<report::plot::Tick> const& ticks) {
  std::string all;
  for (auto const& tick : ticks) {
    if (!all.empty()) all += ' ';
    all += tick.text;
  }
  return all;
}
std::string ticks(Scale scale, double low, double high, int most = 6, double margin = 0) {
  report::plot::Range range(scale);
  range.include(low);
  range.include(high);
  range.close(margin);
  return joined(range.ticks(most));
}

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// The second attribute of the path of curve `i` that has lines: "M... L...".
std::string path(std::string const& svg, int i) {
  std::string opening = "<path class=\"curve c";
  opening += std::to_string(i) + "\" d=\"";
  auto const at = svg.rfind(opening);
  if (at == svg.npos) return "none";
  auto const begin = at + opening.size();
  return svg.substr(begin, svg.find('"', begin) - begin);
}

report::Plot two_points() { return {.curves = {{.x = {0, 1}, .y = {0, 1}}}}; }

}  // namespace

TEST_CASE("ticks of a linear axis are round, and as many as asked for within a half") {
  CHECK(ticks(Scale::linear, 0, 1) == "0 0.2 0.4 0.6 0.8 1.0");
  CHECK(ticks(Scale::linear, -1, 1) == "-1.0 -0.5 0 0.5 1.0");
  CHECK(ticks(Scale::linear, 0.1, 0.7) == "0.1 0.2 0.3 0.4 0.5 0.6 0.7");
  CHECK(ticks(Scale::linear, 0, 210000) == "0 50000 100000 150000 200000");
  CHECK(ticks(Scale::linear, 1e-7, 5e-7) == "1e-7 2e-7 3e-7 4e-7 5e-7");
  CHECK(ticks(Scale::linear, 0, 3.2e6) == "0 5e5 1.0e6 1.5e6 2.0e6 2.5e6 3.0e6");
  CHECK(ticks(Scale::linear, 1000000, 1000004) == "1.000000e6 1.000001e6 1.000002e6 1.000003e6 1.000004e6");
}

TEST_CASE("ticks of logarithmic axes are powers, or parts of them where there are few") {
  CHECK(ticks(Scale::log, 1e-6, 1) == "1e-6 1e-5 1e-4 0.001 0.01 0.1 1");
  CHECK(ticks(Scale::log, 1e-8, 1e8, 6) == "1e-6 0.001 1 1000 1e6");
  CHECK(ticks(Scale::log, 0.1, 10) == "0.1 0.2 0.5 1 2 5 10");
  CHECK(ticks(Scale::log, 3, 4) == "3.0 3.2 3.4 3.6 3.8 4.0");
  CHECK(ticks(Scale::log2, 2, 1024, 12) == "2 4 8 16 32 64 128 256 512 1024");
  CHECK(ticks(Scale::log2, 2, 1024, 5) == "4 16 64 256 1024");
  CHECK(ticks(Scale::log2, 0.25, 2) == "0.25 0.5 1 2");
}

TEST_CASE("an axis of one value, of none, or of the largest numbers has a length") {
  CHECK(ticks(Scale::linear, 5, 5) == "4.6 4.8 5.0 5.2 5.4");
  CHECK(ticks(Scale::linear, 0, 0) == "-1.0 -0.5 0 0.5 1.0");
  CHECK(ticks(Scale::log, 0.01, 0.01) == "0.005 0.01 0.02");
  CHECK(ticks(Scale::linear, 1, std::nextafter(1.0, 2.0)) == "0.90 0.95 1.00 1.05 1.10");
  double const most = std::numeric_limits<double>::max();
  CHECK(ticks(Scale::linear, -most, most) == "-1.5e308 -1.0e308 -5e307 0 5e307 1.0e308 1.5e308");
  for (int const few : {1, 2}) CHECK(ticks(Scale::linear, -most, most, few) == "-1e308 0 1e308");
  CHECK(ticks(Scale::linear, 0, std::numeric_limits<double>::denorm_min()) == "-1.0 -0.5 0 0.5 1.0");
  report::plot::Range empty(Scale::linear);
  empty.close(0.05);
  CHECK(std::abs(empty.part(1) - 0.5) < 1e-9);
  CHECK(ticks(Scale::log, std::numeric_limits<double>::denorm_min(), most, 4) == "1e-200 1 1e200");
}

TEST_CASE("a value lies where its axis has it") {
  report::plot::Range decades(Scale::log);
  decades.include(0.01);
  decades.include(1);
  decades.close(0);
  CHECK(decades.part(0.1) == 0.5);
  CHECK(decades.part(0.01) == 0);
  CHECK(decades.part(1) == 1);
  CHECK_FALSE(decades.shows(0));
  CHECK_FALSE(decades.shows(-1));
  CHECK_FALSE(decades.shows(inf));
  CHECK_FALSE(report::plot::Range(Scale::linear).shows(none));
  CHECK(report::plot::Range(Scale::linear).shows(-1));
}

TEST_CASE("an SVG plot is one file with all that was given, in order") {
  report::Plot const plot{.title = "A search",
                          .x = {.name = "learning rate", .scale = Scale::log},
                          .y = {.name = "loss"},
                          .curves = {{.label = "mean", .x = {0.01, 0.1, 1}, .y = {0, 1, 4}},
                                     {.label = "raw", .x = {0.01, 1}, .y = {4, 4}, .faint = true}},
                          .marks = {{.x = 0.1, .y = 1, .label = "suggestion: 0.1"}}};
  auto const svg = plot.svg();
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 420\""));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "<title>A search</title>") == 1);
  CHECK(count(svg, "prefers-color-scheme:dark") == 1);
  CHECK(count(svg, ">learning rate</text>") == 1);
  CHECK(count(svg, ">loss</text>") == 1);
  CHECK(count(svg, ">mean</text>") == 1);
  CHECK(count(svg, ">raw</text>") == 1);
  CHECK(count(svg, ">suggestion: 0.1</text>") == 1);
  CHECK(count(svg, "class=\"mark\"") == 1);
  CHECK(count(svg, "class=\"dot c0\"") == 3);
  CHECK(svg.find("class=\"dot c1 faint\"") < svg.find("class=\"dot c0\""));  // behind
  CHECK(count(svg, "http") == 1);                                            // nothing is fetched
  CHECK(count(svg, "nan") + count(svg, "inf") == 0);
  CHECK(svg == plot.svg());
}

TEST_CASE("the corners of a plot are at these pixels") {
  auto const svg = two_points().svg();
  // 20 and three letters of 7 from the left, 28 from the right, 32 from below; 2 and 5 hundredths are left free.
  CHECK(path(svg, 0) == "M53.5 371.1L679.5 32.9");
  CHECK(count(svg, "<circle class=\"dot c0\" cx=\"53.5\" cy=\"371.1\" r=\"3\"/>") == 1);
}

TEST_CASE("points that are not finite, or that a logarithm does not know, are gaps") {
  report::Plot plot{.curves = {{.x = {0, 1, 2, 3, 4, 5, 6}, .y = {0, 1, none, 1, inf, 1, 0}}}};
  auto const line = path(plot.svg(), 0);
  CHECK(count(line, "M") == 2);  // the point between two gaps is a dot alone
  CHECK(count(line, "L") == 2);
  CHECK(count(plot.svg(), "class=\"dot c0\"") == 5);
  plot.y.scale = Scale::log;
  CHECK(count(plot.svg(), "class=\"dot c0\"") == 3);
  CHECK(path(plot.svg(), 0) == "none");
  plot.marks = {{.x = none, .y = 1, .label = "nowhere"}};
  CHECK(count(plot.svg(), "nowhere") == 0);
  CHECK(count(plot.text(40, 10), "nowhere") == 0);
}

TEST_CASE("a plot of nothing is a frame") {
  report::Plot const plot{.curves = {{.x = {none}, .y = {none}}}};
  CHECK(count(plot.svg(), "class=\"frame\"") == 2);
  CHECK(count(plot.svg(), "circle") == 0);
  CHECK(count(plot.text(40, 10, report::Glyphs::ascii), "*") == 0);
  CHECK(report::Plot{}.svg().ends_with("</svg>\n"));
}

TEST_CASE("many points on one pixel are one point, and no dots are drawn on long curves") {
  report::Plot plot{.curves = {{}}};
  for (int i = 0; i != 100000; ++i) {
    plot.curves[0].x.push_back(i);
    plot.curves[0].y.push_back(i);
  }
  CHECK(count(plot.svg(), "<circle") == 0);
  auto const points = count(path(plot.svg(), 0), "L");
  CHECK((points > 600 && points < 10000));
}

TEST_CASE("any words may stand in an SVG plot") {
  report::Plot plot = two_points();
  plot.title = "a<b> & \"c\" 'd'\n\x01\xFF"
               "é";
  plot.curves[0].label = "</style><script>";
  auto const svg = plot.svg();
  CHECK(count(svg, "<title>a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;  \xEF\xBF\xBDé</title>") == 1);
  CHECK(count(svg, "<script") == 0);
  CHECK(report::xml_text("\xEF\xBF\xBF\x7F") == "\xEF\xBF\xBD ");
}

TEST_CASE("a legend takes as many lines as it needs, and six colours come back dashed") {
  report::Plot plot;
  for (int i = 0; i != 14; ++i) {
    std::string label = "member ";
    plot.curves.push_back({.label = label += std::to_string(i), .x = {0, 1}, .y = {0, 1.0 * i}});
  }
  auto const svg = plot.svg();
  CHECK(count(svg, "\" y=\"20\" text-anchor=\"start\" class=\"legend\">member") == 6);
  CHECK(count(svg, "\" y=\"38\" text-anchor=\"start\" class=\"legend\">member") == 6);
  CHECK(count(svg, "\" y=\"56\" text-anchor=\"start\" class=\"legend\">member") == 2);
  CHECK(count(svg, "\"curve c0\"") == 4);  // in the legend and in the plot, the first and the thirteenth
  CHECK(count(svg, "\"curve c0 dashed\"") == 2);
}

TEST_CASE("the marked point's words stay inside the picture") {
  auto plot = two_points();
  plot.marks = {{.x = 0, .y = 0, .label = "low"}, {.x = 1, .y = 1, .label = "high"}};
  auto const svg = plot.svg();
  CHECK(count(svg, "<text x=\"63.5\" y=\"362.1\" text-anchor=\"start\" class=\"halo\">low</text>") == 1);
  CHECK(count(svg, "<text x=\"669.5\" y=\"23.9\" text-anchor=\"end\" class=\"halo\">high</text>") == 1);
}

TEST_CASE("a plot as text, in Braille patterns and in ASCII") {
  report::Plot const plot{.title = "A search",
                          .x = {.name = "rate", .scale = Scale::log},
                          .y = {.name = "loss"},
                          .curves = {{.label = "mean", .x = {0.01, 0.1, 1}, .y = {0, 0, 4}},
                                     {.label = "raw", .x = {0.01, 1}, .y = {4, 4}, .faint = true}},
                          .marks = {{.x = 0.1, .y = 0, .label = "here"}}};
  CHECK('\n' + plot.text(30, 12, report::Glyphs::utf8) == R"(
           A search
loss
4 ┤ ························⡠⠂
  │                       ⡠⠊
  │                     ⡠⠊
2 ┤                   ⡠⠊
  │                 ⡠⠊
  │               ⡠⠊
0 ┤⠠⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤●⠊
  └─┬───────────┬────────────┬
  0.01         0.1           1
              rate
   ⠒⠒ mean
   ·· raw
    ● here
)");
  CHECK('\n' + plot.text(30, 12, report::Glyphs::ascii) == R"(
           A search
loss
4 + ........................**
  |                       **
  |                     **
2 +                   **
  |                 **
  |               **
0 + ************@*
  +-+-----------+------------+
  0.01         0.1           1
              rate
   ** mean
   .. raw
    @ here
)");
}

TEST_CASE("text keeps to the width that it was given, and a plot keeps a least size") {
  auto plot = two_points();
  plot.title = "a title that is longer than the plot is wide, and has\na line break";
  plot.y.name = "another text that is longer than the plot is wide";
  for (int width = 24; width != 160; ++width) {
    std::istringstream lines(plot.text(width, 14, report::Glyphs::utf8));
    int n = 0;
    for (std::string line; std::getline(lines, line); ++n) {
      INFO(width << ": " << line);
      CHECK(report::display_width(line) <= static_cast<std::size_t>(width));
    }
    CHECK(n == 14);
  }
  CHECK(plot.text(0, 0, report::Glyphs::ascii) == plot.text(-5, -5, report::Glyphs::ascii));
  CHECK(count(plot.text(0, 0, report::Glyphs::ascii), "\n") == 8);
}

TEST_CASE("a terminal has UTF-8 where the first variable that is set says so") {
  std::vector<std::pair<char const*, std::string>> before;
  std::vector<char const*> absent;
  for (char const* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (char const* const value = std::getenv(name); value != nullptr) before.emplace_back(name, value);
    else absent.push_back(name);
  auto const set = [](char const* all, char const* type, char const* language) {
    ::setenv("LC_ALL", all, 1);
    ::setenv("LC_CTYPE", type, 1);
    ::setenv("LANG", language, 1);
    return report::glyphs_of_environment() == report::Glyphs::utf8;
  };
  CHECK(set("", "", "en_GB.UTF-8"));
  CHECK(set("", "C.utf8", "C"));
  CHECK_FALSE(set("C", "C.UTF-8", "C.UTF-8"));
  CHECK_FALSE(set("", "", ""));
  for (auto const& [name, value] : before) ::setenv(name, value.c_str(), 1);
  for (char const* name : absent) ::unsetenv(name);
}

TEST_CASE("a plot is written whole, by the ending of its name") {
  Folder const folder;
  auto const plot = two_points();
  plot.save(folder / "deep/plot.svg");
  CHECK(content(folder / "deep/plot.svg") == plot.svg());
  plot.save(folder / "plot.txt");
  CHECK(content(folder / "plot.txt") == plot.text(100, 30, report::Glyphs::utf8));
  CHECK(error_of([&] { plot.save("plot.png"); }) ==
        "[fulgurite.report.plot_name] a plot is written as .svg or as .txt, which plot.png does not end in");
  CHECK(folder.files() == std::set<std::string>{"deep/plot.svg", "plot.txt"});
}

TEST_CASE("a curve with other numbers of x than of y is refused by its label") {
  report::Plot const plot{.curves = {{.label = "loss", .x = {1, 2, 3}, .y = {1, 2}}}};
  std::string const sentence =
      "[fulgurite.report.plot_sizes] the curve 'loss' has 3 values of x and 2 of y: give it as many of each";
  CHECK(error_of([&] { return plot.svg(); }) == sentence);
  CHECK(error_of([&] { return plot.text(); }) == sentence);
}

TEST_CASE("plot: a frame that is too narrow cuts no number, and of a title its beginning") {
  report::DashboardFrame const frame{.curves = {{.label = "val/accuracy_of_a_long_name", .x = {0, 1}, .y = {0, 1}}},
                                     .facts = {"loss 1.000   val/loss 2.000   f1 0.391"}};
  auto const at = [&](std::size_t width) { return report::frame_lines(frame, width, 24, report::Glyphs::utf8); };
  CHECK(at(40).back() == "loss 1.000   val/loss 2.000   f1 0.391");
  CHECK(at(37).back() == "loss 1.000   val/loss 2.000   ...");
  CHECK(at(33).back() == "loss 1.000   val/loss 2.000   ...");
  CHECK(at(32).back() == "loss 1.000   ...");
  CHECK(at(15).back() == "...");
  CHECK(at(40)[1].ends_with(" val/accuracy_of_a_long_name"));
  CHECK(at(20)[1].ends_with("…racy_of_a_long_name"));
}
