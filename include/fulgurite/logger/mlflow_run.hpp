#pragma once
// A run in MLflow's file store: a file for each metric, and a journal from which these can be made again.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/logger/cell.hpp>
#include <fulgurite/logger/event_file.hpp>
#include <fulgurite/logger/growing_file.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/logger/json_line.hpp>
#include <fulgurite/logger/mlflow_files.hpp>
#include <fulgurite/loop/tell_all.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::logger {

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

  MlflowRun(std::filesystem::path const& folder, MlflowNames const& names)
      : Journal(folder / "rows.jsonl"), folder_(folder), names_(names) {
    for (char const* part : {"metrics", "params", "tags", "artifacts"}) file::make_folders(folder / part);
    if (names_.run.empty()) names_.run = folder.filename().string().substr(0, 8);
    write_durably(folder / "tags" / "mlflow.runName", names_.run);
    start_ = started_before();
    describe("1", "null");
    if (rows() != 0) make_metrics();
  }

  static std::filesystem::path new_run(std::filesystem::path const& root, MlflowNames const& names) {
    file::make_folders(root);
    std::error_code error;
    auto const now = milliseconds(names);
    if (!std::filesystem::exists(root / "meta.yaml", error))
      write_durably(root / "meta.yaml",
                    "artifact_location: " + mlflow::quoted(mlflow::address(root)) + "\ncreation_time: " + now +
                        "\nexperiment_id: '" + root.filename().string() + "'\nlast_update_time: " + now +
                        "\nlifecycle_stage: active\nname: " + mlflow::quoted(names.experiment) + "\n");
    return mlflow::claim_run(root);
  }
  template <class F>
  static void each_run(std::filesystem::path const& root, F&& f) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error))
      if (std::error_code none; std::filesystem::exists(entry->path() / "rows.jsonl", none)) f(entry->path());
  }

  FULGURITE_COLD void add(std::vector<Cell> const& cells) {
    auto row = cells;
    auto const time = milliseconds(names_);
    row.insert(row.begin(), Cell{"time", std::strtod(time.c_str(), nullptr), true});
    append(json_row(row));
    auto const step = std::to_string(static_cast<long long>(cells.front().value));
    for (std::size_t i = 1; i < cells.size(); ++i)
      metric(cells[i].column).append(line(time, report::exact(cells[i].value), step));
  }
  FULGURITE_COLD void keep(long rows) {
    Journal::keep(rows);
    make_metrics();
  }
  FULGURITE_COLD void tell(std::vector<Hyperparameter> const& all) {
    for (auto const& [name, value] : all)
      write_durably(folder_ / "params" / mlflow::file_name(name),
                    setting_text(value, []<class T>(T const& v) -> std::string {
                      if constexpr (std::is_same_v<T, bool>) return v ? "True" : "False";  // as in Python
                      else if constexpr (std::is_same_v<T, double>) return report::exact(v);
                      else if constexpr (std::is_same_v<T, std::string>) return v;
                      else return std::to_string(v);
                    }));
  }
  void finish(Status status) { describe(status == Status::success ? "3" : "4", milliseconds(names_)); }

 private:
  static std::string milliseconds(MlflowNames const& names) {
    return std::to_string(static_cast<long long>(names.now() * 1000));
  }
  static std::string line(std::string_view time, std::string_view value, std::string_view step) {
    std::string text(time);
    return (((text += ' ') += value) += ' ').append(step) + '\n';
  }

  GrowingFile& metric(std::string_view name) {
    auto const found = files_.find(name);
    if (found != files_.end()) {
      found->second.require_ours();
      return found->second;
    }
    auto const path = folder_ / "metrics" / mlflow::file_name(name);
    file::make_folders(path.parent_path());
    return files_.emplace(std::string(name), GrowingFile(path)).first->second;
  }

  /// The files of all metrics, of the rows in the journal.
  FULGURITE_COLD void make_metrics() {
    files_.clear();
    std::map<std::string, std::string> texts;
    std::ifstream in(path(), std::ios::binary);
    for (std::string row; std::getline(in, row);) {
      json::Reader reader(row, "fulgurite.logger.damaged", path().string());
      std::string time = "0", step = "0";
      reader.object([&](std::string const& name) {
        auto const value = reader.peek() == '"' ? reader.string() : std::string(reader.number());
        if (name == "time") time = value;
        else if (name == "step") step = std::to_string(static_cast<long long>(std::strtod(value.c_str(), nullptr)));
        else texts[mlflow::file_name(name)] += line(time, value, step);
      });
    }
    std::error_code error;
    std::filesystem::remove_all(folder_ / "metrics", error);
    file::make_folders(folder_ / "metrics");
    for (auto const& [name, text] : texts) write_durably(folder_ / "metrics" / name, text);
  }

  FULGURITE_COLD std::string started_before() const {
    std::ifstream in(folder_ / "meta.yaml");
    constexpr std::string_view key = "start_time: ";
    for (std::string text; std::getline(in, text);)
      if (text.starts_with(key)) return text.substr(key.size());
    return milliseconds(names_);
  }
  FULGURITE_COLD void describe(std::string_view status, std::string_view end) const {
    std::string text = "artifact_uri: " + mlflow::quoted(mlflow::address(folder_ / "artifacts"));
    text += "\nend_time: ";
    text += end;
    text += "\nentry_point_name: ''\nexperiment_id: '" + folder_.parent_path().filename().string();
    text += "'\nlifecycle_stage: active\nrun_id: " + folder_.filename().string();
    text += "\nrun_name: " + mlflow::quoted(names_.run);
    text += "\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: " + start_ + "\nstatus: ";
    text += status;
    text += "\ntags: []\nuser_id: ''\n";
    write_durably(folder_ / "meta.yaml", text);
  }

  std::filesystem::path folder_;
  MlflowNames names_;
  std::string start_{};
  std::map<std::string, GrowingFile, std::less<>> files_{};
};

}  // namespace fulgurite::logger
