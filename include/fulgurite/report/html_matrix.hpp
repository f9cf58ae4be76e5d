#pragma once
// A matrix of counts on a page, with its last values.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/matrices.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/xml_text.hpp>

namespace fulgurite::report::html_page {

/// Rows are labels, columns what was predicted. A cell is the darker the larger its part of its row.
FULGURITE_COLD std::string table_of(Matrix const& matrix) {
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

}  // namespace fulgurite::report::html_page
