#pragma once
// What the folder of a run holds: its metrics, hyper-parameters, notes, and the times that a profiler has written.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/sort_seldom.hpp>
#include <fulgurite/report/plot_layout.hpp>
#include <fulgurite/report/run_files.hpp>

namespace fulgurite::report {

/// A run as its loggers left it, also while it is still being written.
struct RunFolder {
  std::filesystem::path path{};
  std::vector<Curve> curves{};  ///< of each metric by step, in the order of the table's columns
  std::vector<std::pair<std::string, std::string>> hyperparameters{};
  std::vector<std::pair<std::string, std::string>> options{};  ///< of the trainer, by name
  /// Texts that lie beside: describe.txt, system.txt, config.toml, tables of profilers; by the file's name.
  std::vector<std::pair<std::string, std::string>> notes{};
  /// Of a SimpleProfiler with a filename: rows of its .csv, without the first.
  std::vector<std::vector<std::string>> times{};
};

/// Whether a run's loggers have written there.
FULGURITE_COLD bool is_run_folder(std::filesystem::path const& folder) {
  std::error_code error;
  for (char const* name : {"metrics.csv", "metrics.jsonl", "rows.jsonl"})
    if (std::filesystem::exists(folder / name, error)) return true;
  return std::ranges::any_of(run_folder::files_in(folder), &run_folder::is_event_file);
}

/// Reads a folder of a run: its metrics, which one logger of ours has written, hparams.yaml, texts. Error
/// [fulgurite.report.no_run] where no logger has.
FULGURITE_COLD RunFolder read_run_folder(std::filesystem::path const& folder) {
  using namespace run_folder;
  if (!is_run_folder(folder))
    throw Error("fulgurite.report.no_run", folder.string() +
                                               " has none of metrics.csv, metrics.jsonl, rows.jsonl and event files: "
                                               "name the folder of a run, such as lightning_logs/version_0, or one "
                                               "with such folders in it");
  RunFolder run{.path = folder};
  run.curves = of_csv(text_of(folder / "metrics.csv"));
  for (char const* name : {"metrics.jsonl", "rows.jsonl"})
    if (run.curves.empty()) run.curves = of_json_lines(text_of(folder / name), (folder / name).string());
  auto files = files_in(folder);
  if (run.curves.empty()) {
    std::vector<std::filesystem::path> events;
    std::ranges::copy_if(files, std::back_inserter(events), &is_event_file);
    run.curves = of_events(events);
  }
  run.hyperparameters = of_yaml(text_of(folder / "hparams.yaml"));
  std::ranges::copy(files_in(folder / "artifacts"), std::back_inserter(files));  // MLflow's place for texts
  for (auto const& file : files) {
    auto const name = file.filename().string();
    if (name == "options.txt") run.options = of_options(text_of(file));
    else if (file.extension() == ".txt" || file.extension() == ".toml") run.notes.emplace_back(name, text_of(file));
    if (!name.starts_with("fit-") || file.extension() != ".csv" || !run.times.empty()) continue;
    auto rows = rows_of(text_of(file));
    if (!rows.empty() && rows.front().size() == 6 && rows.front()[0] == "part")
      run.times.assign(rows.begin() + 1, rows.end());
  }
  return run;
}

/// The runs in these folders. A folder that is no run's stands for those of its folders that are, version_2 before
/// version_10. One that is named twice is there once.
FULGURITE_COLD std::vector<RunFolder> read_run_folders(std::vector<std::filesystem::path> const& folders) {
  std::vector<RunFolder> runs;
  std::vector<std::filesystem::path> known;
  auto const read = [&](std::filesystem::path const& folder) {
    std::error_code error;
    auto const place = std::filesystem::weakly_canonical(folder, error);
    if (std::ranges::find(known, place) != known.end()) return;
    known.push_back(place);
    runs.push_back(read_run_folder(folder));
  };
  for (auto const& folder : folders) {
    std::vector<std::filesystem::path> inside;
    std::error_code error;
    if (!is_run_folder(folder))
      for (auto const& entry : std::filesystem::directory_iterator(folder, error))
        if (is_run_folder(entry.path())) inside.push_back(entry.path());
    sort_seldom(inside, [](auto const& a, auto const& b) {
      return std::pair(a.string().size(), a.string()) < std::pair(b.string().size(), b.string());
    });
    if (inside.empty()) read(folder);
    for (auto const& one : inside) read(one);
  }
  return runs;
}

}  // namespace fulgurite::report
