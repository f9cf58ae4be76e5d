#pragma once
// Columns as wide as their widest cell, a rule above and below the rows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

/// What is left of a cell in a table that has to be narrower.
enum class Clip : std::uint8_t { never, keeps_beginning, keeps_end };

/// `TextTable{{{.title = "Name"}, {.title = "Params"}}}`, then `add({"body", "203 K"})` for each row, then `text()`.
class TextTable {
 public:
  struct Column {
    std::string title;
    Clip clip = Clip::never;
    int goes = 0;  ///< when it is left out of a table that would be too wide: 1 first, 2 then, and so on; 0 never
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
    for (auto const& column : columns_) widths_.push_back(display_width(column.title));
  }

  /// Adds a row. Cells that are missing stay empty, and those beyond the last column are dropped.
  FULGURITE_COLD void add(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    for (std::size_t i = 0; i != cells.size(); ++i) widths_[i] = std::max(widths_[i], display_width(cells[i]));
    rows_.push_back(std::move(cells));
  }

  /// The table; it ends with the lower rule and a newline. At most `most` columns wide, as far as that can be had: what
  /// goes first goes, then cells are clipped, those that keep their ends least, then the other columns go that may. 0:
  /// as wide as need be.
  FULGURITE_COLD std::string text(std::size_t most = 0) const {
    if (most != 0 && width(widths_) > most) {
      TextTable fitting = *this;
      while (width(fitting.widths_) > most && fitting.leave_out(1)) {}
      auto narrow = fitting.widths_;
      fitting.clip(narrow, most, readable);
      while (width(narrow) > most && fitting.leave_out(last_to_go)) {
        narrow = fitting.widths_;
        fitting.clip(narrow, most, readable);
      }
      fitting.clip(narrow, most, least);
      for (auto& row : fitting.rows_)
        for (std::size_t i = 0; i != row.size(); ++i) row[i] = fitted(row[i], narrow[i], fitting.columns_[i].clip);
      fitting.widths_ = narrow;
      return fitting.text();
    }
    std::vector<std::string> titles;
    for (auto const& column : columns_) titles.push_back(column.title);
    auto const head = line(titles);
    std::string const rule(display_width(head), '-');
    std::string all = head + '\n' + rule + '\n';
    for (auto const& row : rows_) all += line(row) + '\n';
    return all + rule + '\n';
  }

 private:
  static std::size_t width(std::vector<std::size_t> const& widths) {
    std::size_t all = 3 * (widths.size() - 1);
    for (auto const width : widths) all += width;
    return all;
  }
  static constexpr std::size_t least = 8;      ///< of a cell that is clipped
  static constexpr std::size_t readable = 24;  ///< of one that keeps its end, which tells it from others
  static constexpr int last_to_go = 1000;

  /// Takes from the widest of the columns that may be clipped until the table has `most`, or as far as may be.
  FULGURITE_COLD void clip(std::vector<std::size_t>& widths, std::size_t most, std::size_t least_of_ends) const {
    while (width(widths) > most) {
      std::size_t* widest = nullptr;
      for (std::size_t i = 0; i != widths.size(); ++i) {
        auto const of_clip = columns_[i].clip == Clip::keeps_end ? least_of_ends : least;
        if (columns_[i].clip != Clip::never && widths[i] > std::max(of_clip, display_width(columns_[i].title)) &&
            (widest == nullptr || widths[i] > *widest))
          widest = &widths[i];
      }
      if (widest == nullptr) break;
      --*widest;
    }
  }
  /// Leaves out the column that goes first among those up to `goes`, of several the last.
  FULGURITE_COLD bool leave_out(int goes) {
    std::size_t first = columns_.size();
    for (std::size_t i = 0; i != columns_.size(); ++i) {
      int const turn = columns_[i].goes;
      if (turn != 0 && turn <= goes && (first == columns_.size() || turn <= columns_[first].goes)) first = i;
    }
    if (first == columns_.size()) return false;
    auto const at = static_cast<std::ptrdiff_t>(first);
    columns_.erase(columns_.begin() + at);
    widths_.erase(widths_.begin() + at);
    for (auto& row : rows_) row.erase(row.begin() + at);
    return true;
  }
  FULGURITE_COLD static std::string fitted(std::string const& cell, std::size_t width, Clip clip) {
    std::size_t const all = display_width(cell);
    if (all <= width) return cell;
    if (clip == Clip::keeps_beginning) return std::string(clipped(cell, width - 1)) + "…";
    return "…" + cell.substr(clipped(cell, all - (width - 1)).size());
  }
  FULGURITE_COLD std::string line(std::vector<std::string> const& cells) const {
    std::string joined;
    for (std::size_t i = 0; i != cells.size(); ++i)
      (joined += i == 0 ? "" : " | ") += cells[i] + std::string(widths_[i] - display_width(cells[i]), ' ');
    return joined;
  }

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_{};
  std::vector<std::vector<std::string>> rows_{};
};

}  // namespace fulgurite::report
