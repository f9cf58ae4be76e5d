#pragma once
// The bodies of report/html_parts.hpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <fulgurite/core/json.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/html_parts.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::report::html_page {

FULGURITE_BODY std::vector<Compared> compared(std::vector<Values> const& runs) {
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

FULGURITE_BODY std::string comparison(std::string_view title, std::string const& heads, std::vector<Values> const& runs,
                                      bool folded) {
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

FULGURITE_BODY std::string script_number(double value) { return std::isfinite(value) ? exact(value) : "null"; }

FULGURITE_BODY std::string script_text(std::string_view text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const bytes = utf8::length(text, at);
    safe += bytes == 0 ? "\xEF\xBF\xBD" : std::string(text.substr(at, bytes));
    at += bytes == 0 ? 1 : bytes;
  }
  std::string all;
  for (char const c : json::quoted(safe)) {
    if (c == '<') all += "\\u003c";
    else all += c;
  }
  return all;
}

FULGURITE_BODY std::string figure(Plot const& one) {
  auto svg = one.svg();
  if (auto const from = svg.find("<style>"); from != std::string::npos)  // one style for all
    svg.erase(from, svg.find("</style>") + 8 - from);
  // For a linear axis, two positions determine both ends.
  auto const layout = plot::layout(one.x, one.y, one.curves, one.marks);
  double low = 0, high = 1;
  bool any = false;
  for (auto const& curve : one.curves)
    for (double const x : curve.x)
      if (std::isfinite(x)) {
        low = any ? std::min(low, x) : x;
        high = any ? std::max(high, x) : x;
        any = true;
      }
  if (high <= low) high = low + 1;
  double const p0 = layout.x.part(low), p1 = layout.x.part(high);
  double const unit = p1 > p0 ? (high - low) / (p1 - p0) : high - low;
  std::string json = "{\"x0\":" + exact(low - p0 * unit) + ",\"x1\":" + exact(low + (1 - p0) * unit) + ",\"curves\":[";
  for (auto const& curve : one.curves) {
    if (curve.x.empty()) continue;
    if (json.back() != '[') json += ',';
    json += "{\"name\":" + script_text(curve.label) + ",\"x\":[";
    for (std::size_t i = 0; i != curve.x.size(); ++i) (json += i == 0 ? "" : ",") += script_number(curve.x[i]);
    json += "],\"y\":[";
    for (std::size_t i = 0; i != curve.y.size(); ++i) (json += i == 0 ? "" : ",") += script_number(curve.y[i]);
    json += "]}";
  }
  return "<div class=\"plot\">" + svg + "<div class=\"tip\"></div><script type=\"application/json\">" + json +
         "]}</script></div>\n";
}

FULGURITE_BODY std::string table_of(Matrix const& matrix) {
  double step = 0;
  auto const last = [&](std::size_t row, std::size_t column) {
    auto const& cell = matrix.cells[row * matrix.size + column];
    if (!cell.x.empty()) step = std::max(step, cell.x.back());
    return cell.y.empty() ? std::nan("") : cell.y.back();
  };
  std::string rows = "<tr><th>label</th>";
  for (std::size_t column = 0; column != matrix.size; ++column)
    rows += "<th class=\"n\">" + std::to_string(column) + "</th>";
  rows += "</tr>\n";
  for (std::size_t row = 0; row != matrix.size; ++row) {
    double whole = 0;
    for (std::size_t column = 0; column != matrix.size; ++column)
      if (double const value = last(row, column); std::isfinite(value)) whole += std::abs(value);
    rows += "<tr><th>" + std::to_string(row) + "</th>";
    for (std::size_t column = 0; column != matrix.size; ++column) {
      double const value = last(row, column);
      bool const any = std::isfinite(value);
      auto const part = any && whole > 0 ? std::lround(60 * std::abs(value) / whole) : 0;
      rows +=
          "<td class=\"n\"" +
          (part > 0 ? " style=\"background:color-mix(in srgb,var(--heat) " + std::to_string(part) + "%,transparent)\""
                    : std::string()) +
          ">" + (any ? formatted("%.6g", value) : "") + "</td>";
    }
    rows += "</tr>\n";
  }
  return "<p>" + xml_text(matrix.name) + " at step " + exact(step) +
         ": a row for each label, a column for what was predicted</p>\n<div class=\"wide\"><table class=\"matrix\">" +
         rows + "</table></div>\n";
}

FULGURITE_BODY Profile profile_of(std::vector<std::vector<std::string>> const& rows) {
  Profile profile;
  for (auto const& row : rows) {
    if (row.size() != 6) continue;
    auto const ns = [](std::string const& seconds) {
      return static_cast<std::int64_t>(std::llround(1e9 * run_folder::number_of(seconds).value_or(0)));
    };
    auto const part = std::ranges::find(part_names, row[0]);
    if (part == part_names.end()) profile.total = ns(row[3]);
    else
      profile.spent.push_back({.action = row[1],
                               .part = static_cast<RunPart>(part - part_names.begin()),
                               .calls = static_cast<long>(run_folder::number_of(row[2]).value_or(0)),
                               .total = ns(row[3]),
                               .own = ns(row[4]),
                               .longest = ns(row[5])});
  }
  return profile;
}

FULGURITE_BODY std::string shares(Profile const& profile) {
  auto const percent = profile.shares();
  std::string html = "<div class=\"bar\">";
  for (std::size_t k = 0; k != percent.size(); ++k)
    if (percent[k] > 0)
      html += "<span class=\"p" + std::to_string(k) + "\" style=\"width:" + formatted("%.2f", percent[k]) +
              "%\" title=\"" + formatted("%.1f", percent[k]) + " % " + xml_text(profile::words[k].later) + "\"></span>";
  html += "</div>\n<p class=\"keys\">";
  for (std::size_t k = 0; k != percent.size(); ++k)
    if (percent[k] >= 0.5)
      html += "<span class=\"k\"><span class=\"key p" + std::to_string(k) + "\"></span>" +
              formatted("%.0f", percent[k]) + " % " + xml_text(profile::words[k].later) + "</span>";
  html += "</p>\n<p>" + xml_text(profile.sentence()) + "</p>\n<details><summary>all actions</summary><pre>" +
          xml_lines(profile.table()) + "</pre></details>\n";
  return html;
}

}  // namespace fulgurite::report::html_page
