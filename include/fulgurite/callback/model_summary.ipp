#pragma once
// The bodies of callback/model_summary.hpp.

#include <fulgurite/callback/model_summary.hpp>
#include <fulgurite/core/error.hpp>

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

}  // namespace fulgurite
