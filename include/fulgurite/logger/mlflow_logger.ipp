#pragma once
// The bodies of logger/mlflow_logger.hpp.

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <type_traits>
#include <utility>

#include <sys/stat.h>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/logger/mlflow_logger.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::logger::mlflow {

FULGURITE_BODY std::string file_name(std::string_view name) {
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

/// Throws for two names that would share a file, and so mix their values.
[[noreturn]] FULGURITE_BODY void refuse_alike(std::string const& what, std::string_view one, std::string_view other,
                                              std::string const& file) {
  throw Error("fulgurite.logger.names_alike", "MLflowLogger: the " + what + " '" + std::string(one) + "' and '" +
                                                  std::string(other) + "' are both '" + file +
                                                  "' with the characters that MLflow allows: rename one");
}

/// A text in YAML, in single quotes.
FULGURITE_BODY std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char const c : text) {
    if (c == '\'') out += c;
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "'";
}

FULGURITE_BODY std::string address(std::filesystem::path const& folder) {
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

FULGURITE_BODY std::string experiment_number(std::string_view name) {
  if (name == "Default") return "0";
  std::uint64_t sum = 14695981039346656037U;  // FNV-1a
  for (char const c : name) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return std::to_string(100'000'000'000'000'000U + sum % 900'000'000'000'000'000U);  // 18 digits
}

/// Makes a folder with a unique name of 32 hexadecimal digits.
FULGURITE_BODY std::filesystem::path claim_run(std::filesystem::path const& experiment) {
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

FULGURITE_BODY std::string milliseconds(MlflowNames const& names) {
  return std::to_string(static_cast<long long>(names.now() * 1000));
}

FULGURITE_BODY std::string line_of(std::string_view time, std::string_view value, std::string_view step) {
  std::string text(time);
  return (((text += ' ') += value) += ' ').append(step) + '\n';
}

FULGURITE_BODY MlflowRun::MlflowRun(std::filesystem::path const& folder, MlflowNames const& names)
    : Journal(folder / "rows.jsonl"), folder_(folder), names_(names) {
  for (char const* part : {"metrics", "params", "tags", "artifacts"}) file::make_folders(folder / part);
  if (names_.run.empty()) names_.run = folder.filename().string().substr(0, 8);
  write_durably(folder / "tags" / "mlflow.runName", names_.run);
  std::ifstream in(folder_ / "meta.yaml", std::ios::binary);
  found_.assign(std::istreambuf_iterator<char>(in), {});
  start_ = started_before();
  describe("1", "null");
  if (rows() != 0) make_metrics();
}

FULGURITE_BODY std::filesystem::path MlflowRun::new_run(std::filesystem::path const& root, MlflowNames const& names) {
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

FULGURITE_BODY void MlflowRun::add(std::vector<Cell> const& cells) {
  auto row = cells;
  auto const time = milliseconds(names_);
  row.insert(row.begin(), Cell{"time", std::strtod(time.c_str(), nullptr), true});
  for (std::size_t i = 1; i < cells.size(); ++i)  // a name that is refused is refused before the row is written
    if (!files_.contains(cells[i].column)) metric(cells[i].column);
  append(json_row(row));
  auto const step = std::to_string(static_cast<long long>(cells.front().value));
  for (std::size_t i = 1; i < cells.size(); ++i)
    metric(cells[i].column).append(line_of(time, exact_number(cells[i].value), step));
}

FULGURITE_BODY void MlflowRun::keep(long rows) {
  Journal::keep(rows);
  make_metrics();
}

FULGURITE_BODY void MlflowRun::write_hyperparameters(std::vector<Hyperparameter> const& all) {
  std::map<std::string, std::string_view> names;
  for (auto const& [name, value] : all) {
    auto const [at, is_new] = names.emplace(mlflow::file_name(name), name);
    if (!is_new) mlflow::refuse_alike("hyper-parameters", at->second, name, at->first);
    // Truth values as in Python.
    auto const text =
        setting_text(value, &exact_number, [](std::string const& words) { return words; }, ", ", "True", "False");
    write_durably(folder_ / "params" / at->first, text);
  }
}

FULGURITE_BODY void MlflowRun::finish(Status status) {
  describe(status == Status::success ? "3" : "4", milliseconds(names_));
}

FULGURITE_BODY void MlflowRun::leave() {
  if (!found_.empty()) write_durably(folder_ / "meta.yaml", found_);
}

FULGURITE_BODY GrowingFile& MlflowRun::metric(std::string_view name) {
  auto const found = files_.find(name);
  if (found != files_.end()) {
    found->second.require_ours();
    return found->second;
  }
  auto const file = mlflow::file_name(name);
  if (name == "time")
    throw Error("fulgurite.logger.names_alike",
                "MLflowLogger: a metric is called 'time', as the time of each row is: rename it");
  auto const [known, is_new] = metrics_.emplace(file, name);
  if (!is_new && known->second != name) mlflow::refuse_alike("metrics", known->second, name, file);
  if (files_.size() == most_open) files_.clear();
  auto const path = folder_ / "metrics" / file;
  file::make_folders(path.parent_path());
  return files_.emplace(std::string(name), GrowingFile(path)).first->second;
}

FULGURITE_BODY void MlflowRun::make_metrics() {
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
      else texts[mlflow::file_name(name)] += line_of(time, value, step);
    });
  }
  std::error_code error;
  std::filesystem::remove_all(folder_ / "metrics", error);
  file::make_folders(folder_ / "metrics");
  for (auto const& [name, text] : texts) write_durably(folder_ / "metrics" / name, text);
}

FULGURITE_BODY std::string MlflowRun::started_before() const {
  constexpr std::string_view key = "\nstart_time: ";
  auto const at = found_.find(key);
  if (at == std::string::npos) return milliseconds(names_);
  auto const begin = at + key.size();
  return found_.substr(begin, found_.find('\n', begin) - begin);
}

FULGURITE_BODY void MlflowRun::describe(std::string_view status, std::string_view end) const {
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

FULGURITE_FOLDER_LOGGER(INSTANTIATE, MlflowRun, MlflowNames);

}  // namespace fulgurite::logger

namespace fulgurite {

FULGURITE_BODY MLflowLogger::MLflowLogger(std::filesystem::path save_dir, MLflowLoggerOptions options)
    : FolderLogger(std::move(save_dir),
                   {"mlruns/" + logger::mlflow::experiment_number(options.experiment), {}, std::move(options.prefix)},
                   {options.experiment, std::move(options.run), options.now}) {
  if (options.experiment.empty())
    throw Error("fulgurite.logger.experiment",
                "MLflowLogger: the experiment has no name: give it one, or leave it out");
  if (options.now == nullptr)
    throw Error("fulgurite.logger.clock", "MLflowLogger: now is null: give a function that returns the seconds "
                                          "since 1970, or leave it out");
}

FULGURITE_MOVES_BODY(MLflowLogger);

}  // namespace fulgurite
