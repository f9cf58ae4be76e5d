#pragma once
// Writes a run as MLflow's file store has it, without MLflow: <save_dir>/mlruns/EXPERIMENT/RUN/.

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/json.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite::logger::mlflow {

// Names, addresses and descriptions as MLflow's file store has them.

/// The name of a metric or a setting as the path of its file: what MLflow does not take becomes an underscore.
std::string file_name(std::string_view name);

/// A text in YAML, between single quotes.
std::string quoted(std::string_view text);

/// The address of a folder.
std::string address(std::filesystem::path const& folder);

/// The number of an experiment: 0 for "Default", as MLflow has it, else made of the name, so that all runs of a name
/// meet in one folder.
std::string experiment_number(std::string_view name);

/// Makes a folder whose name, 32 hexadecimal digits, no other run has.
std::filesystem::path claim_run(std::filesystem::path const& experiment);

}  // namespace fulgurite::logger::mlflow

namespace fulgurite::logger {

// A run in MLflow's file store: a file for each metric, and a journal from which these can be made again.

/// What a run is called, where it belongs, and who tells it the time.
struct MlflowNames {
  std::string experiment = {}, run = {};
  double (*now)() = &wall_seconds;
};

/// `mlruns/EXPERIMENT/RUN/`: metrics/NAME has a line "milliseconds value step" for each value, params/NAME a setting,
/// meta.yaml the run's beginning, end and state. MLflow reads these. `rows.jsonl` beside them has whole rows: one that
/// is there is logged, and the files of the metrics are made of it again when the run is gone on with.
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
  void tell(std::vector<Hyperparameter> const& all);
  void finish(Status status);

 private:
  static std::string milliseconds(MlflowNames const& names);
  static std::string line(std::string_view time, std::string_view value, std::string_view step);

  GrowingFile& metric(std::string_view name);

  /// The files of all metrics, of the rows in the journal.
  void make_metrics();

  std::string started_before() const;
  void describe(std::string_view status, std::string_view end) const;

  std::filesystem::path folder_;
  MlflowNames names_;
  std::string start_{};
  std::map<std::string, GrowingFile, std::less<>> files_{};
};

FULGURITE_FOLDER_LOGGER(EXTERN, MlflowRun, MlflowNames);

}  // namespace fulgurite::logger

namespace fulgurite {

/// What the experiment and the run are called in MLflow.
struct MLflowLoggerOptions {
  std::string experiment = "Default";       ///< runs of one name are listed together
  std::string run = "";                     ///< not given: the beginning of the run's number
  std::string prefix = "";                  ///< "a" turns "loss" into "a-loss"
  double (*now)() = &logger::wall_seconds;  ///< seconds since 1970, for the times in the files
};

/// `MLflowLogger{}`, `MLflowLogger{"runs", {.experiment = "mlp"}}`; then `mlflow ui --backend-store-uri runs/mlruns`.
/// MLflow 3 reads such a folder where the environment has MLFLOW_ALLOW_FILE_STORE=true. A metric is a file, so that
/// "val" and "val/loss" cannot both be metrics; what MLflow does not allow in a name becomes an underscore. Each run
/// has a number of its own; one that goes on from a file goes on in its folder, as with CSVLogger. Only rank 0 writes.
class MLflowLogger : public logger::FolderLogger<logger::MlflowRun, logger::MlflowNames> {
 public:
  explicit MLflowLogger(std::filesystem::path save_dir = {}, MLflowLoggerOptions options = {});
  FULGURITE_MOVES(MLflowLogger);
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/mlflow_logger.ipp>
#endif
