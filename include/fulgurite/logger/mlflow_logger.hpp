#pragma once
// Writes a run in the format of MLflow's file store, without MLflow: `<save_dir>/mlruns/EXPERIMENT/RUN/`.

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>
#include <fulgurite/loop/dispatch.hpp>

namespace fulgurite::logger::mlflow {

// Names, addresses and descriptions in the format of MLflow's file store.

/// The path of the file of a metric or a setting; characters that MLflow does not allow become underscores.
std::string file_name(std::string_view name);

/// The address (URI) of a folder.
std::string address(std::filesystem::path const& folder);

/// The number of an experiment: 0 for "Default", as in MLflow, otherwise derived from the name, so that all runs with
/// one name are in one folder.
std::string experiment_number(std::string_view name);

}  // namespace fulgurite::logger::mlflow

namespace fulgurite::logger {

// A run in MLflow's file store: a file for each metric, and a journal from which these files can be made again.

/// The names of the experiment and the run, and the source of times.
struct MlflowNames {
  std::string experiment = {}, run = {};
  double (*now)() = &wall_seconds;
};

/// `mlruns/EXPERIMENT/RUN/`: metrics/NAME has a line "milliseconds value step" for each value, params/NAME has a
/// setting, and meta.yaml has the run's start, end and status. MLflow reads these. `rows.jsonl` in the same folder has
/// whole rows: a row that is there is logged, and when the run resumes, the files of the metrics are made again from
/// it.
class MlflowRun : public Journal<JsonLine> {
 public:
  static constexpr std::string_view owner = "MLflowLogger", lock = ".lock", notes = "artifacts";

  MlflowRun(std::filesystem::path const& folder, MlflowNames const& names);

  static std::filesystem::path new_run(std::filesystem::path const& root, MlflowNames const& names);
  template <class F>
  static void each_run(std::filesystem::path const& root, F&& f) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error))
      if (std::error_code none; std::filesystem::exists(entry->path() / "rows.jsonl", none)) f(entry->path());
  }

  void add(std::vector<Cell> const& cells);
  void keep(long rows);
  void write_hyperparameters(std::vector<Hyperparameter> const& all);
  void finish(Status status);
  /// The run is as it was before it was opened here.
  void leave();

 private:
  GrowingFile& metric(std::string_view name);

  /// Makes the files of all metrics from the rows in the journal.
  void make_metrics();

  std::string started_before() const;
  void describe(std::string_view status, std::string_view end) const;

  std::filesystem::path folder_;
  MlflowNames names_;
  std::string start_{};
  std::string found_{};                                      ///< the description that was there; empty for a new run
  static constexpr std::size_t most_open = 128;              ///< a process may have 1024 descriptors, often
  std::map<std::string, GrowingFile, std::less<>> files_{};  ///< those that are open, by metric
  std::map<std::string, std::string> metrics_{};             ///< the metric of each file
};

FULGURITE_FOLDER_LOGGER(EXTERN, MlflowRun, MlflowNames);

}  // namespace fulgurite::logger

namespace fulgurite {

/// Options of MLflowLogger: the names of the experiment and the run.
struct MLflowLoggerOptions {
  std::string experiment = "Default";       ///< runs of one experiment are listed together
  std::string run = "";                     ///< empty: the first digits of the run's id
  std::string prefix = "";                  ///< a prefix for names: "a" turns "loss" into "a-loss"
  double (*now)() = &logger::wall_seconds;  ///< seconds since 1970, for the times in the files
  // Refused, and last, so that a compiler prints its sentence first.
  [[no_unique_address]] elsewhere::SaveDir save_dir = {};  ///< the first argument
};

/// Logs to MLflow's file store: `MLflowLogger{}`, `MLflowLogger{"runs", {.experiment = "mlp"}}`; then `mlflow ui
/// --backend-store-uri runs/mlruns`. MLflow 3 reads such a folder if the environment has MLFLOW_ALLOW_FILE_STORE=true.
/// Each metric is a file, so "val" and "val/loss" cannot both be metrics; characters that MLflow does not allow in a
/// name become underscores. Metrics, or hyper-parameters, whose names would then be the same throw
/// [fulgurite.logger.names_alike]. Each run has an id of its own; a resumed run continues in its folder, as with
/// CSVLogger. Only rank zero writes.
class MLflowLogger : public logger::FolderLogger<logger::MlflowRun, logger::MlflowNames> {
 public:
  explicit MLflowLogger(std::filesystem::path save_dir = {}, MLflowLoggerOptions options = {});
  explicit MLflowLogger(MLflowLoggerOptions const& options) : MLflowLogger({}, options) {}
  FULGURITE_NAMED_OPTIONS(MLflowLogger, std::filesystem::path const&);
  FULGURITE_MOVES(MLflowLogger);
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/mlflow_logger.ipp>
#endif
