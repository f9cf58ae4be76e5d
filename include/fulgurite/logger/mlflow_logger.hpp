#pragma once
// Writes a run as MLflow's file store has it, without MLflow: <save_dir>/mlruns/EXPERIMENT/RUN/.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
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
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::logger::mlflow {

// Names, addresses and descriptions as MLflow's file store has them.

/// The name of a metric or a setting as the path of its file: what MLflow does not take becomes an underscore.
FULGURITE_COLD std::string file_name(std::string_view name) {
  constexpr std::string_view others = "_-. :/";
  std::string out, part;
  auto const end_part = [&] {
    bool const special = part.empty() || part == "." || part == "..";
    out += special ? std::string("_") : part;
    part.clear();
  };
  for (char const c : name) {
    bool const letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (c == '/') {
      end_part();
      out += c;
    } else {
      part += letter || others.find(c) != std::string_view::npos ? c : '_';
    }
  }
  end_part();
  return out;
}

/// A text in YAML, between single quotes.
FULGURITE_COLD std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char const c : text) {
    if (c == '\'') out += c;
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "'";
}

/// The address of a folder.
FULGURITE_COLD std::string address(std::filesystem::path const& folder) {
  constexpr char digits[] = "0123456789ABCDEF";
  constexpr std::string_view plain = "-._~/";
  std::string out = "file://";
  for (char const c : std::filesystem::absolute(folder).lexically_normal().string()) {
    auto const code = static_cast<unsigned char>(c);
    bool const letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter || plain.find(c) != std::string_view::npos) out += c;
    else ((out += '%') += digits[code >> 4]) += digits[code & 15];
  }
  return out;
}

/// The number of an experiment: 0 for "Default", as MLflow has it, else made of the name, so that all runs of a name
/// meet in one folder.
FULGURITE_COLD std::string experiment_number(std::string_view name) {
  if (name == "Default") return "0";
  std::uint64_t sum = 14695981039346656037U;  // FNV-1a
  for (char const c : name) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return std::to_string(100'000'000'000'000'000U + sum % 900'000'000'000'000'000U);  // 18 digits
}

/// Makes a folder whose name, 32 hexadecimal digits, no other run has.
FULGURITE_COLD std::filesystem::path claim_run(std::filesystem::path const& experiment) {
  std::random_device random;
  for (;;) {
    std::string name;
    while (name.size() < 32) name += "0123456789abcdef"[random() % 16];
    auto folder = experiment / name;
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) file::fail("fulgurite.file.write", "make the folder", folder, errno);
  }
}

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
