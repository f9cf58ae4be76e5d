#pragma once
// Writes metrics as JSON, one object a line, for programs that do not know the columns beforehand:
// `<save_dir>/lightning_logs/version_N/metrics.jsonl`.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>

namespace fulgurite::logger {

// Rows of metrics as lines of JSON, and how to find the end of such a line in a file.

/// The format of a file of JSON objects, one a line. A line of hyper-parameters is not a row.
struct JsonLine {
  static constexpr std::string_view hyperparameters = "{\"hparams\":";

  /// The line that begins at `at`; nullopt if it has no end or is not an object.
  static std::optional<JournalEntry> next(FileWindow& file, std::uint64_t at, std::uint64_t size);
  /// True if the line that begins at `at` was not written to its end.
  static bool is_torn(FileWindow& file, std::uint64_t at, std::uint64_t size);

  /// A line without its newline; nullopt if it has none. The view is valid until the file is read again.
  static std::optional<std::string_view> whole(FileWindow& file, std::uint64_t at, std::uint64_t size);
};

/// A row: {"step":3,"loss":0.5,"epoch":0}.
std::string json_row(std::vector<Cell> const& cells);

/// Hyper-parameters: {"hparams":{"lr":0.001,"layers":4}}.
std::string json_hyperparameters(std::vector<Hyperparameter> const& all);

}  // namespace fulgurite::logger

namespace fulgurite {

/// Options of JsonLinesLogger: which folder below save_dir belongs to the run, and the names of the metrics.
struct JsonLinesLoggerOptions {
  std::string name = "lightning_logs";         ///< a folder below save_dir, or several; "" is save_dir itself
  std::optional<long> version = std::nullopt;  ///< not given: a new version, or that of the loggers before this one
  std::string prefix = "";                     ///< a prefix for names: "a" turns "loss" into "a-loss"
  // Refused, and last, so that a compiler prints its sentence first.
  [[no_unique_address]] elsewhere::SaveDir save_dir = {};  ///< the first argument
};

namespace logger {

/// The lines file in a run's folder.
struct JsonLines : Journal<JsonLine> {
  static constexpr std::string_view owner = "JsonLinesLogger", lock = ".jsonl.lock";
  JsonLines(std::filesystem::path const& folder, NothingMore const&) : Journal(folder / "metrics.jsonl") {}
  void add(std::vector<Cell> const& cells) { append(json_row(cells)); }
  void write_hyperparameters(std::vector<Hyperparameter> const& all) { append(json_hyperparameters(all)); }
};

FULGURITE_FOLDER_LOGGER(EXTERN, JsonLines, NothingMore);

}  // namespace logger

/// Logs metrics as lines of JSON: `JsonLinesLogger{}`, `JsonLinesLogger{"runs", {.name = "mlp"}}`. A row is a line such
/// as {"step":3,"loss":0.5,"epoch":0}; if there are hyper-parameters, the first line of a fit is {"hparams":{...}}.
/// Numbers are read back exactly; NaN and infinities are "nan", "inf" and "-inf", since JSON has no number for them.
/// Each line is handed to the kernel before the call returns. Unlike in a table, a new metric costs nothing, and a run
/// of a thousand metrics has no empty cells. Folders, versions and resuming are as for CSVLogger. Only rank zero
/// writes.
class JsonLinesLogger : public logger::FolderLogger<logger::JsonLines> {
 public:
  explicit JsonLinesLogger(std::filesystem::path save_dir = {}, JsonLinesLoggerOptions options = {});
  explicit JsonLinesLogger(JsonLinesLoggerOptions const& options) : JsonLinesLogger({}, options) {}
  FULGURITE_NAMED_OPTIONS(JsonLinesLogger, std::filesystem::path const&);
  FULGURITE_MOVES(JsonLinesLogger);
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/json_lines_logger.ipp>
#endif
