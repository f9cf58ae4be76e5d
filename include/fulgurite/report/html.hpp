#pragma once
// One page about one run or several: curves, hyper-parameters, best values, where the time went.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/best_value.hpp>
#include <fulgurite/report/html_figure.hpp>
#include <fulgurite/report/html_shares.hpp>
#include <fulgurite/report/html_style.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/plot_panels.hpp>
#include <fulgurite/report/run_folder.hpp>
#include <fulgurite/report/xml_text.hpp>

namespace fulgurite::report {

namespace html_page {

/// Writes the page once: `Page(runs).take()`.
class Page {
 public:
  explicit Page(std::vector<RunFolder> const& runs) : runs_(runs) {
    for (auto const& run : runs) names_.push_back(run.path.lexically_normal().string());
    shorten();
    made_ = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
            "content=\"width=device-width,initial-scale=1\">\n<title>" +
            xml_text(names_.size() == 1 ? names_[0] : std::to_string(names_.size()) + " runs") + "</title>\n<style>" +
            std::string(style) + std::string(plot::style) + "</style></head><body>\n";
    head();
    curves();
    best();
    hyperparameters();
    times();
    notes();
    ((made_ += "<script>") += script) += "</script>\n</body></html>\n";
  }
  std::string take() { return std::move(made_); }

 private:
  /// What all names begin with says nothing.
  FULGURITE_COLD void shorten() {
    for (auto& name : names_)
      while (name.size() > 1 && name.ends_with('/')) name.pop_back();
    if (names_.size() < 2) return;
    std::size_t same = 0;
    while (same < names_[0].size() &&
           std::ranges::all_of(
               names_, [&](auto const& name) { return same < name.size() && name[same] == names_[0][same]; }))
      ++same;
    same = names_[0].rfind('/', same == 0 ? 0 : same - 1);
    if (same != std::string::npos)
      for (auto& name : names_) name.erase(0, same + 1);
  }
  std::string run_key(std::size_t run) const {
    return "<span class=\"run c" + std::to_string(run % 6) + (run / 6 % 2 == 1 ? " dashedrun" : "") + "\"></span>";
  }
  void cell(std::string_view text, std::string_view name = "") {
    made_ += name.empty() ? "<td>" : "<td class=\"" + std::string(name) + "\">";
    made_ += xml_text(text) + "</td>";
  }

  /// The heads of a table's columns, one for each run.
  FULGURITE_COLD void columns() {
    for (std::size_t i = 0; i != runs_.size(); ++i)
      made_ += "<th>" + (runs_.size() > 1 ? run_key(i) : std::string()) + xml_text(names_[i]) + "</th>";
    made_ += "</tr>\n";
  }

  FULGURITE_COLD void head() {
    made_ += "<h1>" + xml_text(names_.size() == 1 ? names_[0] : std::to_string(names_.size()) + " runs") + "</h1>\n";
    if (names_.size() == 1) return;
    for (std::size_t i = 0; i != names_.size(); ++i) made_ += "<p>" + run_key(i) + xml_text(names_[i]) + "</p>\n";
  }

  /// All metrics in the order in which the runs have them.
  FULGURITE_COLD std::vector<std::string> metrics() const {
    std::vector<std::string> all;
    for (auto const& run : runs_)
      for (auto const& curve : run.curves)
        if (std::ranges::find(all, curve.label) == all.end()) all.push_back(curve.label);
    return all;
  }
  FULGURITE_COLD Curve const* curve_of(RunFolder const& run, std::string_view metric) const {
    auto const at = std::ranges::find(run.curves, metric, &Curve::label);
    return at == run.curves.end() ? nullptr : &*at;
  }

  /// One run: a plot for each kind of metric. Several: one for each metric, in which a run keeps its colour.
  FULGURITE_COLD void curves() {
    std::vector<Plot> plots;
    if (runs_.size() == 1) {
      plots = panels(runs_[0].curves);
    } else {
      for (auto const& metric : metrics()) {
        plots.push_back({.title = metric, .x = {.name = "step"}});
        for (std::size_t i = 0; i != runs_.size(); ++i) {
          auto const* const curve = curve_of(runs_[i], metric);
          plots.back().curves.push_back(curve ? *curve : Curve{});
          plots.back().curves.back().label = curve ? names_[i] : "";
        }
      }
    }
    made_ += "<h2>Curves</h2>\n<div class=\"plots\">\n";
    for (auto const& one : plots) made_ += figure(one);
    made_ += "</div>\n";
  }
  FULGURITE_COLD void best() {
    made_ += "<h2>Best values</h2>\n<div class=\"wide\"><table><tr><th>metric</th><th></th>";
    columns();
    for (auto const& metric : metrics()) {
      if (metric.starts_with("lr-") || metric == "lr") continue;  // no rate is best
      bool const smaller = smaller_is_better(metric);
      std::vector<BestValue> all;
      for (auto const& run : runs_) all.push_back(best_of(curve_of(run, metric), smaller));
      BestValue const* winner = nullptr;
      for (auto const& one : all)
        if (one.any && (!winner || (smaller ? one.value < winner->value : one.value > winner->value))) winner = &one;
      made_ += "<tr>";
      cell(metric);
      cell(smaller ? "lowest" : "highest");
      for (auto const& one : all)
        cell(one.any ? formatted("%.6g", one.value) + " at step " + exact(one.step) + ", last " +
                           formatted("%.6g", one.last)
                     : "",
             winner && runs_.size() > 1 && one.any && one.value == winner->value ? "n best" : "n");
      made_ += "</tr>\n";
    }
    made_ += "</table></div>\n";
  }

  FULGURITE_COLD void hyperparameters() {
    std::vector<std::string> all;
    for (auto const& run : runs_)
      for (auto const& one : run.hyperparameters)
        if (std::ranges::find(all, one.first) == all.end()) all.push_back(one.first);
    if (all.empty()) return;
    made_ += "<h2>Hyper-parameters</h2>\n";
    made_ += "<div class=\"wide\"><table><tr><th>name</th>";
    columns();
    bool some_differ = false;
    for (auto const& name : all) {
      std::vector<std::string> values;
      for (auto const& run : runs_) {
        auto const at = std::ranges::find(run.hyperparameters, name, &std::pair<std::string, std::string>::first);
        values.push_back(at == run.hyperparameters.end() ? "" : at->second);
      }
      bool const differs = std::ranges::any_of(values, [&](auto const& value) { return value != values[0]; });
      some_differ |= differs;
      made_ += differs ? "<tr class=\"differs\">" : "<tr>";
      cell(name);
      for (auto const& value : values) cell(value);
      made_ += "</tr>\n";
    }
    made_ += "</table></div>\n";
    if (some_differ) made_ += "<p>Rows in which runs differ are marked.</p>\n";
  }

  /// What a SimpleProfiler has written: a bar of shares, and the actions that took most by themselves.
  FULGURITE_COLD void times() {
    if (std::ranges::all_of(runs_, [](auto const& run) { return run.times.empty(); })) return;
    made_ += "<h2>Where the time went</h2>\n";
    for (std::size_t i = 0; i != runs_.size(); ++i) {
      auto const profile = profile_of(runs_[i].times);
      if (profile.total <= 0) continue;
      if (runs_.size() > 1) made_ += "<p>" + run_key(i) + xml_text(names_[i]) + "</p>\n";
      made_ += shares(profile);
    }
  }
  FULGURITE_COLD void notes() {
    for (std::size_t i = 0; i != runs_.size(); ++i) {
      if (runs_[i].notes.empty()) continue;
      made_ += "<h2>" + (runs_.size() > 1 ? run_key(i) + xml_text(names_[i]) : std::string("Beside it")) + "</h2>\n";
      for (auto const& [file, text] : runs_[i].notes)
        made_ += "<details" + std::string(file == "describe.txt" && runs_.size() == 1 ? " open" : "") + "><summary>" +
                 xml_text(file) + "</summary><pre>" + xml_lines(text) + "</pre></details>\n";
    }
  }

  std::vector<RunFolder> const& runs_;
  std::vector<std::string> names_{};
  std::string made_{};
};

}  // namespace html_page

/// A page about the runs in these folders, which loggers have written (metrics.csv or metrics.jsonl, hparams.yaml):
///   report::write_html("report.html", {"lightning_logs/version_3", "lightning_logs/version_4"});
/// Curves, best values, hyper-parameters side by side, where the time went (SimpleProfiler with a filename), and the
/// texts that lie in the folders (describe.txt, system.txt, config.toml). The page is one file and needs no network.
/// A folder with such folders in it stands for all of them. Error [fulgurite.report.no_run] where there is no run.
FULGURITE_COLD std::string html(std::vector<std::filesystem::path> const& folders) {
  auto const runs = read_run_folders(folders);
  return html_page::Page(runs).take();
}
/// The same as a file, which is there as a whole or not at all.
FULGURITE_COLD void write_html(std::filesystem::path const& file, std::vector<std::filesystem::path> const& folders) {
  write_durably(file, html(folders));
}

}  // namespace fulgurite::report
