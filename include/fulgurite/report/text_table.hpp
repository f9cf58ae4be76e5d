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
    std::string_view title;
    Clip clip = Clip::never;
    bool may_go = false;  ///< left out where the table would be too wide, the last one first
  };

  explicit TextTable(std::vector<Column> columns) {
    for (auto const& column : columns) {
      titles_.emplace_back(column.title);
      widths_.push_back(display_width(column.title));
      clips_.push_back(column.clip);
      may_go_.push_back(column.may_go);
    }
  }

  /// Adds a row. Cells that are missing stay empty, and those beyond the last column are dropped.
  FULGURITE_COLD void add(std::vector<std::string> cells) {
    cells.resize(titles_.size());
    for (std::size_t i = 0; i != cells.size(); ++i) widths_[i] = std::max(widths_[i], display_width(cells[i]));
    rows_.push_back(std::move(cells));
  }

  /// The table; it ends with the lower rule and a newline. At most `most` columns wide, as far as that can be had:
  /// columns that may go go, then the widest of the cells that may be clipped are, down to eight columns. 0: as wide as
  /// need be.
  FULGURITE_COLD std::string text(std::size_t most = 0) const {
    if (most != 0 && width(widths_) > most) {
      TextTable fitting = *this;
      while (width(fitting.narrowest(0)) > most && fitting.leave_out_one()) {}
      auto const narrow = fitting.narrowest(most);
      for (auto& row : fitting.rows_)
        for (std::size_t i = 0; i != row.size(); ++i) row[i] = fitted(row[i], narrow[i], fitting.clips_[i]);
      fitting.widths_ = narrow;
      return fitting.text();
    }
    auto const head = line(titles_);
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
  /// The widths of columns that are clipped until the table has `most`, or as far as may be.
  FULGURITE_COLD std::vector<std::size_t> narrowest(std::size_t most) const {
    constexpr std::size_t least = 8;
    std::vector<std::size_t> widths = widths_;
    while (width(widths) > most) {
      std::size_t* widest = nullptr;
      for (std::size_t i = 0; i != widths.size(); ++i)
        if (clips_[i] != Clip::never && widths[i] > std::max(least, display_width(titles_[i])) &&
            (widest == nullptr || widths[i] > *widest))
          widest = &widths[i];
      if (widest == nullptr) break;
      --*widest;
    }
    return widths;
  }
  FULGURITE_COLD bool leave_out_one() {
    for (std::size_t i = titles_.size(); i-- > 0;) {
      if (!may_go_[i]) continue;
      auto const at = static_cast<std::ptrdiff_t>(i);
      titles_.erase(titles_.begin() + at);
      widths_.erase(widths_.begin() + at);
      clips_.erase(clips_.begin() + at);
      may_go_.erase(may_go_.begin() + at);
      for (auto& row : rows_) row.erase(row.begin() + at);
      return true;
    }
    return false;
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
      joined += (i == 0 ? "" : " | ") + cells[i] + std::string(widths_[i] - display_width(cells[i]), ' ');
    return joined;
  }

  std::vector<std::string> titles_;
  std::vector<std::size_t> widths_;
  std::vector<Clip> clips_;
  std::vector<bool> may_go_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fulgurite::report
