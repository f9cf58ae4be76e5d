#pragma once
// A table that is given column by column, in several parts where it would be too wide.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/report/text_table.hpp>

namespace fulgurite::report {

/// The first cell of a column is its title; all have as many cells. The first column names the rows: where `most`
/// columns, 0 for any number, do not hold all, each further table begins with it again. Names then keep their ends, and
/// other cells are whole.
FULGURITE_COLD std::string tables_of(std::vector<std::vector<std::string>> const& columns, std::size_t most) {
  auto const width = [](std::vector<std::string> const& cells) {
    std::size_t widest = 0;
    for (auto const& cell : cells) widest = std::max(widest, display_width(cell));
    return widest;
  };
  constexpr std::size_t readable = 24;  // of names
  auto const names = std::min(width(columns[0]), std::max(readable, display_width(columns[0][0])));
  std::string text;
  for (std::size_t from = 1; from < columns.size();) {
    std::size_t to = from, taken = names;
    do taken += 3 + width(columns[to++]);
    while (to != columns.size() && (most == 0 || taken + 3 + width(columns[to]) <= most));
    std::vector<TextTable::Column> titles{{.title = columns[0][0], .clip = Clip::keeps_end}};
    for (std::size_t i = from; i != to; ++i) titles.push_back({.title = columns[i][0]});
    TextTable table(std::move(titles));
    for (std::size_t row = 1; row < columns[0].size(); ++row) {
      std::vector<std::string> cells{columns[0][row]};
      for (std::size_t i = from; i != to; ++i) cells.push_back(columns[i][row]);
      table.add(std::move(cells));
    }
    text += table.text(most);
    from = to;
  }
  return text;
}

}  // namespace fulgurite::report
