#pragma once
// Writes a run as MLflow's file store has it, without MLflow: <save_dir>/mlruns/EXPERIMENT/RUN/.

#include <filesystem>
#include <string>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/logger/event_file.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/mlflow_files.hpp>
#include <fulgurite/logger/mlflow_run.hpp>

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
  explicit MLflowLogger(std::filesystem::path save_dir = {}, MLflowLoggerOptions options = {})
      : FolderLogger(std::move(save_dir),
                     {"mlruns/" + logger::mlflow::experiment_number(options.experiment), {}, std::move(options.prefix)},
                     {options.experiment, std::move(options.run), options.now}) {
    if (options.experiment.empty())
      throw Error("fulgurite.logger.experiment",
                  "MLflowLogger: the experiment has no name: give it one, or leave it out");
    if (options.now == nullptr)
      throw Error("fulgurite.logger.clock", "MLflowLogger: now is null: give a function that tells the seconds since "
                                            "1970, or leave it out");
  }
};

}  // namespace fulgurite
