#pragma once
// The bodies of callback/model_summary.hpp.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/callback/model_summary.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/run_folder.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

FULGURITE_BODY ModelSummary::ModelSummary(ModelSummaryOptions options) : options_(options) {
  if (options.max_depth < -1)
    throw Error("fulgurite.callback.summary_depth", "ModelSummary: max_depth is -1 (all), 0 (off) or more");
  if (options.columns < 0)
    throw Error("fulgurite.callback.summary_columns", "ModelSummary: columns is the width of the table, or 0");
}

FULGURITE_BODY ResultsTable::ResultsTable(ResultsTableOptions options) : options_(options) {
  if (options.columns < 0)
    throw Error("fulgurite.callback.results_columns", "ResultsTable: columns is the width of the table, or 0");
}

FULGURITE_BODY void ModelSummary::on_fit_start(Context& ctx) {
  if (options_.max_depth == 0 || ctx.rank() != 0 || ctx.options().barebones) return;
  std::vector<report::ModelRow> rows;
  ctx.model_rows(options_.max_depth, true, rows);
  auto const text = report::model_table(rows, report::text_columns(options_.stream, options_.columns));
  fulgurite::print_lines(options_.stream, text);
  std::fflush(options_.stream);
}

FULGURITE_BODY void ResultsTable::on_validation_end(Context& ctx) {
  if (ctx.stage() == Stage::validate) print(ctx, "Validate metric");
}

FULGURITE_BODY void ResultsTable::print(Context& ctx, std::string_view what) const {
  if (ctx.rank() != 0 || ctx.options().barebones) return;
  std::vector<std::string> const loaders = ctx.loader_names();
  std::vector<std::vector<std::string>> columns{{std::string(what)}};
  for (auto const& name : loaders) columns.push_back({loaders.size() == 1 ? "Value" : name});
  std::vector<report::Curve> shown;
  ctx.each_loader_value([&](std::string_view name, auto const&) { shown.push_back({.label = std::string(name)}); });
  report::take_matrices(shown);
  ctx.each_loader_value([&](std::string_view name, std::vector<std::optional<double>> const& values) {
    if (std::ranges::find(shown, name, &report::Curve::label) == shown.end()) return;
    columns[0].emplace_back(name);
    for (std::size_t i = 0; i != values.size(); ++i)
      columns[i + 1].push_back(values[i] ? report::formatted("%.6g", *values[i]) : "");
  });
  if (columns[0].size() == 1) return;
  auto const text = report::tables_of(columns, report::text_columns(options_.stream, options_.columns));
  fulgurite::print_lines(options_.stream, text);
  std::fflush(options_.stream);
}

}  // namespace fulgurite
