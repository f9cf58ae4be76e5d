#pragma once
// Columns as wide as their widest cell, a rule above and below the rows.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

/// `TextTable{{{.title = "Name"}, {.title = "Params"}}}`, then `add({"body", "203 K"})` for each row, then `text()`.
class TextTable {
 public:
  struct Column {
    std::string_view title;
  };

  explicit TextTable(std::vector<Column> columns) {
    for (auto const& column : columns) {
      titles_.emplace_back(column.title);
      widths_.push_back(display_width(column.title));
    }
  }

  /// Adds a row. Cells that are missing stay empty, and those beyond the last column are dropped.
  FULGURITE_COLD void add(std::vector<std::string> cells) {
    cells.resize(titles_.size());
    for (std::size_t i = 0; i != cells.size(); ++i) widths_[i] = std::max(widths_[i], display_width(cells[i]));
    rows_.push_back(std::move(cells));
  }

  /// The table; it ends with the lower rule and a newline.
  FULGURITE_COLD std::string text() const {
    auto const head = line(titles_);
    std::string const rule(display_width(head), '-');
    std::string all = head + '\n' + rule + '\n';
    for (auto const& row : rows_) all += line(row) + '\n';
    return all + rule + '\n';
  }

 private:
  FULGURITE_COLD std::string line(std::vector<std::string> const& cells) const {
    std::string joined;
    for (std::size_t i = 0; i != cells.size(); ++i)
      joined += (i == 0 ? "" : " | ") + cells[i] + std::string(widths_[i] - display_width(cells[i]), ' ');
    return joined;
  }

  std::vector<std::string> titles_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fulgurite::report
