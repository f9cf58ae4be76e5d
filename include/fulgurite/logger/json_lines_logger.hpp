#pragma once
// Writes metrics as JSON, one object a line, which programs read without knowing the columns beforehand:
// <save_dir>/lightning_logs/version_N/metrics.jsonl.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::logger {

// Rows of metrics as lines of JSON, and where such a line ends in a file.

/// The form of a file of JSON objects, one a line. A line that tells hyper-parameters is no row.
struct JsonLine {
  static constexpr std::string_view told = "{\"hparams\":";

  /// The line that begins there; nothing where it has no end, or is no object.
  FULGURITE_BULK static std::optional<JournalEntry> next(FileWindow& file, std::uint64_t at, std::uint64_t size) {
    auto const line = whole(file, at, size);
    if (!line || !line->starts_with('{') || !line->ends_with('}')) return std::nullopt;
    return JournalEntry{at + line->size() + 1, !line->starts_with(told)};
  }
  /// Whether what begins there was not written to its end.
  static bool is_torn(FileWindow& file, std::uint64_t at, std::uint64_t size) { return !whole(file, at, size); }

  /// A line without its end; nothing where it has none. It is valid until the next look into the file.
  FULGURITE_BULK static std::optional<std::string_view> whole(FileWindow& file, std::uint64_t at, std::uint64_t size) {
    if (at >= size) return std::nullopt;
    auto bytes = file.from(at);
    auto end = bytes.find('\n');
    while (end == std::string_view::npos && bytes.size() < size - at) {
      bytes = file.at(at, std::max<std::size_t>(2 * bytes.size(), 65536));
      end = bytes.find('\n');
    }
    return end == std::string_view::npos ? std::nullopt : std::optional(bytes.substr(0, end));
  }
};

/// A number as JSON. What is not finite, which JSON has no number for, is one of the texts "nan", "inf" and "-inf".
FULGURITE_BULK std::string json_number(double value) {
  auto text = report::exact(value);
  return std::isfinite(value) ? text : json::quoted(text);
}

/// A row: {"step":3,"loss":0.5,"epoch":0}.
FULGURITE_BULK std::string json_row(std::vector<Cell> const& cells) {
  std::string line;
  for (auto const& cell : cells) {
    line += line.empty() ? '{' : ',';
    line += json::quoted(utf8_text(cell.column));
    line += ':';
    line += cell.whole ? std::to_string(static_cast<long long>(cell.value)) : json_number(cell.value);
  }
  return line + "}\n";
}

/// Hyper-parameters: {"hparams":{"lr":0.001,"layers":4}}.
FULGURITE_BULK std::string json_hyperparameters(std::vector<Hyperparameter> const& all) {
  std::string line(JsonLine::told);
  line += '{';
  for (auto const& [name, value] : all) {
    if (line.back() != '{') line += ',';
    line += json::quoted(utf8_text(name));
    line += ':';
    line += setting_text(
        value,
        []<class T>(T const& v) -> std::string {
          if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
          else if constexpr (std::is_same_v<T, double>) return json_number(v);
          else if constexpr (std::is_same_v<T, std::string>) return json::quoted(utf8_text(v));
          else return std::to_string(v);
        },
        ",");
  }
  return line + "}}\n";
}

}  // namespace fulgurite::logger

namespace fulgurite {

/// Which folder below save_dir belongs to the run, and what the metrics are called.
struct JsonLinesLoggerOptions {
  std::string name = "lightning_logs";         ///< a folder below save_dir, or several; "" is save_dir itself
  std::optional<long> version = std::nullopt;  ///< not given: a new one, or that of the loggers before this one
  std::string prefix = "";                     ///< "a" turns "loss" into "a-loss"
};

namespace logger {

/// The lines of a run's folder.
struct JsonLines : Journal<JsonLine> {
  static constexpr std::string_view owner = "JsonLinesLogger", lock = ".jsonl.lock";
  JsonLines(std::filesystem::path const& folder, NothingMore const&) : Journal(folder / "metrics.jsonl") {}
  void add(std::vector<Cell> const& cells) { append(json_row(cells)); }
  void tell(std::vector<Hyperparameter> const& all) { append(json_hyperparameters(all)); }
};

}  // namespace logger

/// `JsonLinesLogger{}`, `JsonLinesLogger{"runs", {.name = "mlp"}}`. A row is a line such as
/// {"step":3,"loss":0.5,"epoch":0}; the first line of a fit is {"hparams":{...}}, where there are hyper-parameters.
/// Numbers read back exactly; what is not finite is "nan", "inf" or "-inf", since JSON has no number for it. A line is
/// handed to the kernel before the call returns. Unlike a table, a new metric costs nothing, and a run of a thousand
/// metrics has no empty cells. Folders, versions and going on are as CSVLogger has them. Only rank 0 writes.
class JsonLinesLogger : public logger::FolderLogger<logger::JsonLines> {
 public:
  explicit JsonLinesLogger(std::filesystem::path save_dir = {}, JsonLinesLoggerOptions options = {})
      : FolderLogger(std::move(save_dir), {std::move(options.name), options.version, std::move(options.prefix)}) {}
};

}  // namespace fulgurite
