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

// The best value of a metric's curve: whether the smallest or the largest is best.

/// True if the smallest value is best, as for metrics that count errors. The words of a name are separated by '/', '.',
/// '_' and '-': "answers" does not contain "wer".
bool smaller_is_better(std::string_view name);

/// The best value of a curve, its step, and the last value.
struct BestValue {
  double value = 0, last = 0;
  double step = 0;
  bool any = false;
};
/// Skips values that are NaN. `smaller`: the smallest is best.
BestValue best_of(Curve const* curve, bool smaller);

// The contents of describe.txt as pairs of a name and a text, for comparing two programs.

/// Lines of a name, spaces and a text, as in system.txt.
std::vector<std::pair<std::string, std::string>> two_columns(std::string_view text);

/// "precision" and "Float32", "fit: backward" and the parts that have the hook, "off: predict" and the reason; for
/// "callbacks" a list of their names. The part about options is left out: options.txt has them all.
std::vector<std::pair<std::string, std::string>> described_rows(std::string_view text);

// Names for runs that are shown together: the parts in which their paths differ.

/// A short name for each run, and the common part of all paths, `runs/*/version_0`, in which a star stands for the
/// name; empty if they have nothing in common.
struct RunNames {
  std::vector<std::string> names{};
  std::string common{};
};

namespace run_names {

using Parts = std::vector<std::string>;

Parts parts_of(std::filesystem::path const& path);
std::string joined(Parts const& parts);

}  // namespace run_names

/// A single path is its own name.
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

  /// The headers of a table's columns, one for each run, and the end of that row.
  std::string columns() const;

  void head();

  /// All metrics, in the order in which the runs have them.
  std::vector<std::string> metrics() const;
  Curve const* curve_of(std::size_t run, std::string_view metric) const;

  /// For one run, a plot for each kind of metric. For several, a plot for each metric, in which each run keeps its
  /// colour.
  void curves();
  /// A cell with a best value. Its step and the last value are on a line of their own, since a table of several runs
  /// has narrow columns.
  void value(BestValue const& one, bool wins);
  void best();

  /// Confusion matrices, each with its last values.
  void matrices();

  /// Hyper-parameters, the trainer's options, the program and the machine.
  void settings();
  static std::string note_of(RunFolder const& run, std::string_view file);

  /// The results of a SimpleProfiler: a bar of shares, and the actions with the longest own times.
  void times();
  /// Texts in the runs' folders. A text that is the same in all runs is shown once.
  void notes();

  std::vector<RunFolder> const& runs_;
  std::vector<std::vector<Curve>> curves_{};  ///< of each run, without the cells of matrices
  std::vector<std::vector<Matrix>> matrices_{};
  std::vector<std::string> names_{};
  std::string common_{};
  std::string made_{};
};

}  // namespace html_page

/// A page about the runs in these folders, which loggers have written (metrics.csv or metrics.jsonl, hparams.yaml):
///   report::write_html("report.html", {"lightning_logs/version_3", "lightning_logs/version_4"});
/// It has curves, best values and confusion matrices; a comparison of hyper-parameters, the trainer's options, the
/// program and the machine, differences first; where the time went (from a SimpleProfiler with a filename); and the
/// texts in the folders (describe.txt, config.toml). Runs are named by the parts in which their paths differ. The page
/// is one file and needs no network. A folder that contains runs' folders stands for all of them. Throws
/// [fulgurite.report.no_run] if there is no run.
std::string html(std::vector<std::filesystem::path> const& folders);
/// Writes the page to a file, atomically.
inline void write_html(std::filesystem::path const& file, std::vector<std::filesystem::path> const& folders) {
  write_durably(file, html(folders));
}

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/html.ipp>
#endif
