#pragma once
// The bodies of logger/json_lines_logger.hpp.

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/logger/json_lines_logger.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::logger {

FULGURITE_BULK_BODY std::optional<JournalEntry> JsonLine::next(FileWindow& file, std::uint64_t at, std::uint64_t size) {
  auto const line = whole(file, at, size);
  if (!line || !line->starts_with('{') || !line->ends_with('}')) return std::nullopt;
  return JournalEntry{at + line->size() + 1, !line->starts_with(hyperparameters)};
}

FULGURITE_BODY bool JsonLine::is_torn(FileWindow& file, std::uint64_t at, std::uint64_t size) {
  return !whole(file, at, size);
}

FULGURITE_BULK_BODY std::optional<std::string_view> JsonLine::whole(FileWindow& file, std::uint64_t at,
                                                                    std::uint64_t size) {
  if (at >= size) return std::nullopt;
  auto bytes = file.from(at);
  auto end = bytes.find('\n');
  while (end == std::string_view::npos && bytes.size() < size - at) {
    bytes = file.at(at, std::max<std::size_t>(2 * bytes.size(), 65536));
    end = bytes.find('\n');
  }
  return end == std::string_view::npos ? std::nullopt : std::optional(bytes.substr(0, end));
}

/// A number as JSON. NaN and infinities, for which JSON has no number, are the strings "nan", "inf" and "-inf".
FULGURITE_BULK_BODY std::string json_number(double value) {
  auto text = exact_number(value);
  return std::isfinite(value) ? text : json::quoted(text);
}

FULGURITE_BULK_BODY std::string json_row(std::vector<Cell> const& cells) {
  std::string line;
  for (auto const& cell : cells) {
    line += line.empty() ? '{' : ',';
    line += json::quoted(utf8_text(cell.column));
    line += ':';
    line += cell.whole ? std::to_string(static_cast<long long>(cell.value)) : json_number(cell.value);
  }
  return line + "}\n";
}

FULGURITE_BULK_BODY std::string json_hyperparameters(std::vector<Hyperparameter> const& all) {
  std::string line(JsonLine::hyperparameters);
  line += '{';
  for (auto const& [name, value] : all) {
    if (line.back() != '{') line += ',';
    line += json::quoted(utf8_text(name));
    line += ':';
    line += setting_text(value, &json_number, [](std::string_view text) { return json::quoted(utf8_text(text)); }, ",");
  }
  return line + "}}\n";
}

FULGURITE_FOLDER_LOGGER(INSTANTIATE, JsonLines, NothingMore);

}  // namespace fulgurite::logger

namespace fulgurite {

FULGURITE_BODY JsonLinesLogger::JsonLinesLogger(std::filesystem::path save_dir, JsonLinesLoggerOptions options)
    : FolderLogger(std::move(save_dir), {std::move(options.name), options.version, std::move(options.prefix)}) {}

FULGURITE_MOVES_BODY(JsonLinesLogger);

}  // namespace fulgurite
