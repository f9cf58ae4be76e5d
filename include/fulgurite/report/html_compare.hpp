#pragma once
// What was set in several runs, side by side on a page: first what differs.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/xml_text.hpp>

namespace fulgurite::report::html_page {

/// Values by name, of one run; empty where nothing is known of it.
using Values = std::vector<std::pair<std::string, std::string>>;

/// A name, its value in each run, and whether they differ: a run of which nothing is known does not.
struct Compared {
  std::string name;
  std::vector<std::string> values;
  bool differs = false;
};

FULGURITE_COLD std::vector<Compared> compared(std::vector<Values> const& runs) {
  std::vector<Compared> rows;
  for (auto const& run : runs)
    for (auto const& [name, value] : run)
      if (std::ranges::find(rows, name, &Compared::name) == rows.end()) rows.push_back({.name = name, .values = {}});
  for (auto& row : rows) {
    std::string const* one = nullptr;
    for (auto const& run : runs) {
      auto const at = std::ranges::find(run, row.name, &std::pair<std::string, std::string>::first);
      row.values.push_back(at == run.end() ? "" : at->second);
    }
    for (std::size_t i = 0; i != runs.size(); ++i) {
      if (runs[i].empty()) continue;
      row.differs |= one && *one != row.values[i];
      one = &row.values[i];
    }
  }
  return rows;
}

/// A table of what differs, with `heads` for its columns; what is the same stands folded up below, once. Of a single
/// run all stands in one table, folded up where `folded`.
FULGURITE_COLD std::string comparison(std::string_view title, std::string const& heads, std::vector<Values> const& runs,
                                      bool folded = false) {
  auto const rows = compared(runs);
  if (rows.empty()) return {};
  std::string html = title.empty() ? "" : "<h2>" + xml_text(title) + "</h2>\n";
  auto const cell = [](std::string const& text) { return "<td>" + xml_text(text) + "</td>"; };
  std::string differing, same;
  std::size_t alike = 0;
  for (auto const& row : rows) {
    if (row.differs) {
      differing += "<tr class=\"differs\">" + cell(row.name);
      for (auto const& value : row.values) differing += cell(value);
      differing += "</tr>\n";
    } else {
      auto const any = std::ranges::find_if(row.values, [](auto const& value) { return !value.empty(); });
      same += "<tr>" + cell(row.name) + cell(any == row.values.end() ? "" : *any) + "</tr>\n";
      ++alike;
    }
  }
  std::string const table = "<div class=\"wide\"><table>", end = "</table></div>\n";
  if (!differing.empty()) html += table + "<tr><th></th>" + heads + differing + end;
  if (same.empty()) return html;
  if (runs.size() == 1 && !folded) return html + table + same + end;
  return html + "<details><summary>" + (runs.size() == 1 ? "all " : "the same in all runs: ") + std::to_string(alike) +
         "</summary>" + table + same + end + "</details>\n";
}

}  // namespace fulgurite::report::html_page
