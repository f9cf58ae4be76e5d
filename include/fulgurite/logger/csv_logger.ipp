#pragma once
// The bodies of logger/csv_logger.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::logger {

/// The size of a file up to the end of its last line, behind which a power cut may have left a part of a row.
FULGURITE_BODY std::uint64_t end_of_last_line(GrowingFile const& file) {
  FileWindow window(file.number(), file.path());
  for (auto end = file.size(); end > 0;) {
    auto const begin = end - std::min<std::uint64_t>(end, 4096);
    auto const at = window.at(begin, static_cast<std::size_t>(end - begin)).rfind('\n');
    if (at != std::string_view::npos) return begin + at + 1;
    end = begin;
  }
  return 0;
}

FULGURITE_BODY CsvTable::CsvTable(std::filesystem::path path) : file_(std::move(path)) {
  if (!file_.is_there()) return;
  file_.cut(end_of_last_line(file_));
  CsvReader in(file_.number(), this->path());
  std::vector<std::string> row;
  if (in.next(row) && (row.size() > 1 || !row.front().empty())) columns_ = row;
  while (in.next(row)) ++rows_;
}

/// The text of a row in a table of these columns.
FULGURITE_BODY std::string row_text(std::vector<std::string> const& columns, std::vector<Cell> const& cells) {
  std::vector<std::string> texts(columns.size());
  for (auto const& cell : cells) {
    auto const at = static_cast<std::size_t>(std::find(columns.begin(), columns.end(), cell.column) - columns.begin());
    texts[at] = cell.whole ? std::to_string(static_cast<long long>(cell.value)) : exact_number(cell.value);
  }
  return csv_row(texts);
}

FULGURITE_BODY std::vector<CsvTable::Column> CsvTable::present_columns() const {
  std::vector<Column> columns;
  for (std::size_t i = 0; i != columns_.size(); ++i) columns.push_back({columns_[i], i});
  return columns;
}

FULGURITE_BODY void CsvTable::add(std::vector<Cell> const& cells) {
  file_.require_ours();
  auto columns = present_columns();
  for (auto const& cell : cells)
    if (std::ranges::find(columns, cell.column, &Column::name) == columns.end())
      columns.push_back({std::string(cell.column), Column::added});
  if (columns.size() != columns_.size()) {
    sort_seldom(columns);
    rewrite(columns, rows_, cells);
  } else {
    file_.append(row_text(columns_, cells));
  }
  ++rows_;
}

FULGURITE_BODY void CsvTable::keep(long rows) {
  file_.require_ours();
  if (rows >= rows_) return;
  std::vector<bool> used(columns_.size());
  each_row(rows, [&](std::vector<std::string> const& cells) {
    for (std::size_t i = 0; i < cells.size() && i < used.size(); ++i) used[i] = used[i] || !cells[i].empty();
  });
  auto columns = present_columns();
  std::erase_if(columns, [&](Column const& column) { return !used[column.was]; });
  rewrite(columns, rows, {});
}

FULGURITE_BODY void CsvTable::each_row(long rows, FunctionRef<void(std::vector<std::string> const&)> f) const {
  if (rows == 0) return;  // there may be no file yet
  CsvReader in(file_.number(), path());
  std::vector<std::string> cells;
  in.next(cells);  // the header, also one without a name
  for (long i = 0; i < rows && in.next(cells); ++i) f(cells);
}

FULGURITE_BODY void CsvTable::rewrite(std::vector<Column> const& columns, long rows, std::vector<Cell> const& last) {
  DurableFile out(path());
  std::vector<std::string> names;
  bool adds = false;
  for (auto const& column : columns) {
    names.push_back(column.name);
    adds = adds || column.was == Column::added;
  }
  // A table of rows has a header, even one without a name, so that its first row is not taken for one.
  std::string block = names.empty() && rows == 0 ? std::string() : csv_row(names);
  each_row(rows, [&](std::vector<std::string> const& old) {
    std::vector<std::string> texts;
    for (auto const& column : columns)
      if (column.was < old.size()) texts.push_back(old[column.was]);
      else if (adds) texts.emplace_back();
    for (std::size_t i = columns_.size(); i < old.size(); ++i) texts.push_back(old[i]);
    block += csv_row(texts);
    if (block.size() > 65536) out.write(std::exchange(block, {}));
  });
  if (!last.empty()) block += row_text(names, last);
  out.write(block);
  out.commit();
  columns_ = std::move(names);
  rows_ = rows;
  file_.open();
}

FULGURITE_FOLDER_LOGGER(INSTANTIATE, RunTable, NothingMore);

}  // namespace fulgurite::logger

namespace fulgurite {

FULGURITE_BODY CSVLogger::CSVLogger(std::filesystem::path save_dir, CSVLoggerOptions options)
    : FolderLogger(std::move(save_dir), {std::move(options.name), options.version, std::move(options.prefix)}) {}

FULGURITE_MOVES_BODY(CSVLogger);

}  // namespace fulgurite
