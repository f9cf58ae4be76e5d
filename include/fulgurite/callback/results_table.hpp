#pragma once
// Prints what validate and test have found, as a table.

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/matrices.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/table_of_columns.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

/// Where the table is written, and how wide.
struct ResultsTableOptions {
  std::FILE* stream = stdout;
  int columns = 0;  ///< width of the table; 0: the terminal's, and where there is none as wide as need be
};

/// A row for each metric that has a value, a column for each loader, when trainer.validate or trainer.test is done:
/// the metrics are those that the model declares and reports each epoch. Where it would be too wide, loaders go on in
/// a further table, and names keep their ends; a value is never cut. A metric of several numbers has a row for each,
/// but a matrix none: report::html draws it. The validations of a fit are not printed. Only rank 0 prints. Error
/// [fulgurite.callback.results_columns] for a width below 0.
class ResultsTable {
 public:
  using Hooks = Implements<hook::on_validation_end, hook::on_test_end>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;

  explicit ResultsTable(ResultsTableOptions options = {}) : options_(options) {
    if (options.columns < 0)
      throw Error("fulgurite.callback.results_columns", "ResultsTable: columns is the width of the table, or 0");
  }

  void on_validation_end(auto& ctx) {
    if (ctx.stage() == decltype(ctx.stage())::validate) print(ctx, "Validate metric");
  }
  void on_test_end(auto& ctx) { print(ctx, "Test metric"); }

 private:
  void print(auto& ctx, std::string_view what) const {
    if (ctx.rank() != 0 || ctx.options().barebones) return;
    std::vector<std::string> const loaders = ctx.loader_names();
    std::vector<std::vector<std::string>> columns{{std::string(what)}};
    for (auto const& name : loaders) columns.push_back({loaders.size() == 1 ? "Value" : name});
    ctx.each_loader_value([&](std::string_view name, std::vector<std::optional<double>> const& values) {
      if (report::matrices::cell_of(name)) return;
      columns[0].emplace_back(name);
      for (std::size_t i = 0; i != values.size(); ++i)
        columns[i + 1].push_back(values[i] ? report::formatted("%.6g", *values[i]) : "");
    });
    if (columns[0].size() == 1) return;
    auto const text = report::tables_of(columns, report::text_columns(options_.stream, options_.columns));
    fulgurite::tell(options_.stream, text);
    std::fflush(options_.stream);
  }

  ResultsTableOptions options_;
};

}  // namespace fulgurite
