#pragma once
// One page about one run or several: curves, hyper-parameters, best values, where the time went.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>

namespace fulgurite::report {

/// True if the smallest value of a metric is best, as for metrics that count errors. The words of a name are separated
/// by '/', '.', '_' and '-': "answers" does not contain "wer".
bool smaller_is_better(std::string_view name);

/// Names for runs that are shown together, the parts in which their paths differ; and the common part of all paths,
/// `runs/*/version_0`, in which a star stands for the name; empty if they have nothing in common.
struct RunNames {
  std::vector<std::string> names{};
  std::string common{};
};

/// A single path is its own name.
RunNames names_of_runs(std::vector<std::filesystem::path> const& paths);

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
