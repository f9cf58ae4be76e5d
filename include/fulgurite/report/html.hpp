#pragma once
// One page about one run or several: curves, hyper-parameters, best values, where the time went.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/report/history.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/run_folder.hpp>

namespace fulgurite::report {

// The best value of a metric's curve, and which end of it is good.

/// Of metrics that count mistakes the smallest value is best. Words of a name stand between '/', '.', '_' and '-':
/// "answers" has no "wer" in it.
bool smaller_is_better(std::string_view name);

/// The best value of a curve, at which step it was, and the last one.
struct BestValue {
  double value = 0, last = 0;
  double step = 0;
  bool any = false;
};
/// Passes over values that are no numbers. `smaller`: the smallest is best.
BestValue best_of(Curve const* curve, bool smaller);

// What describe.txt says, in pairs of a name and a text, so that two programs can be compared.

/// Lines of a name, blanks and a text, as system.txt has them.
std::vector<std::pair<std::string, std::string>> two_columns(std::string_view text);

/// "precision" and "Float32", "fit: backward" and who hears it, "off: predict" and why; what stands below callbacks is
/// a list of their names. The part about options is left out: options.txt has them all.
std::vector<std::pair<std::string, std::string>> described_rows(std::string_view text);

// Names for runs that are shown together: what differs in their paths.

/// A short name for each run, and what all their paths have in common, `runs/*/version_0`, where a star stands for the
/// name; empty where nothing is common.
struct RunNames {
  std::vector<std::string> names{};
  std::string common{};
};

namespace run_names {

using Parts = std::vector<std::string>;

Parts parts_of(std::filesystem::path const& path);
std::string joined(Parts const& parts);

}  // namespace run_names

/// A single path keeps its name as a whole.
RunNames names_of_runs(std::vector<std::filesystem::path> const& paths);

namespace html_page {

/// Writes the page once: `Page(runs).take()`.
class Page {
 public:
  explicit Page(std::vector<RunFolder> const& runs);
  std::string take() { return std::move(made_); }

 private:
  std::string run_key(std::size_t run) const;
  void cell(std::string_view text);

  /// The heads of a table's columns, one for each run, and the end of that row.
  std::string columns() const;

  void head();

  /// All metrics in the order in which the runs have them.
  std::vector<std::string> metrics() const;
  Curve const* curve_of(std::size_t run, std::string_view metric) const;

  /// One run: a plot for each kind of metric. Several: one for each metric, in which a run keeps its colour.
  void curves();
  /// When it was, and what came last, in a line of their own: a table of several runs has narrow columns.
  void value(BestValue const& one, bool wins);
  void best();

  /// Confusion matrices, each as its last values.
  void matrices();

  /// Hyper-parameters, the trainer's options, the program and the machine.
  void settings();
  static std::string note_of(RunFolder const& run, std::string_view file);

  /// What a SimpleProfiler has written: a bar of shares, and the actions that took most by themselves.
  void times();
  /// Texts that lie beside the rows. One that all runs have, and have alike, is shown once.
  void notes();

  std::vector<RunFolder> const& runs_;
  std::vector<std::vector<Curve>> curves_{};  ///< of each run, but for the cells of matrices
  std::vector<std::vector<Matrix>> matrices_{};
  std::vector<std::string> names_{};
  std::string common_{};
  std::string made_{};
};

}  // namespace html_page

/// A page about the runs in these folders, which loggers have written (metrics.csv or metrics.jsonl, hparams.yaml):
///   report::write_html("report.html", {"lightning_logs/version_3", "lightning_logs/version_4"});
/// Curves, best values, confusion matrices; hyper-parameters, the trainer's options, the program and the machine side
/// by side, first what differs; where the time went (SimpleProfiler with a filename), and the texts that lie in the
/// folders (describe.txt, config.toml). Runs are named by what differs in their paths. The page is one file and needs
/// no network.
/// A folder with such folders in it stands for all of them. Error [fulgurite.report.no_run] where there is no run.
std::string html(std::vector<std::filesystem::path> const& folders);
/// The same as a file, which is there as a whole or not at all.
inline void write_html(std::filesystem::path const& file, std::vector<std::filesystem::path> const& folders) {
  write_durably(file, html(folders));
}

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/html.ipp>
#endif
