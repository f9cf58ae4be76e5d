#pragma once
// Prints what validate and test have found, as a table.

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/text_table.hpp>

namespace fulgurite {

/// Where the table is written.
struct ResultsTableOptions {
  std::FILE* stream = stdout;
};

/// A row for each metric that has a value, a column for each loader, when trainer.validate or trainer.test is done: the
/// metrics are those that the model declares and reports each epoch. The validations of a fit are not printed. Only
/// rank 0 prints.
class ResultsTable {
 public:
  using Hooks = Implements<hook::on_validation_end, hook::on_test_end>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;

  explicit ResultsTable(ResultsTableOptions options = {}) : options_(options) {}

  void on_validation_end(auto& ctx) {
    if (ctx.stage() == decltype(ctx.stage())::validate) print(ctx, "Validate metric");
  }
  void on_test_end(auto& ctx) { print(ctx, "Test metric"); }

 private:
  void print(auto& ctx, std::string_view what) const {
    if (ctx.rank() != 0 || ctx.options().barebones) return;
    std::vector<std::string> const loaders = ctx.loader_names();
    std::vector<report::TextTable::Column> columns{{.title = what}};
    if (loaders.size() == 1) columns.push_back({.title = "Value"});
    else
      for (auto const& name : loaders) columns.push_back({.title = name});
    report::TextTable table(std::move(columns));
    bool any = false;
    ctx.each_loader_value([&](std::string_view name, std::vector<std::optional<double>> const& values) {
      std::vector<std::string> cells{std::string(name)};
      for (auto const& value : values) cells.push_back(value ? report::formatted("%.6g", *value) : "");
      table.add(std::move(cells));
      any = true;
    });
    if (!any) return;
    auto const text = table.text();
    std::fwrite(text.data(), 1, text.size(), options_.stream);
    std::fflush(options_.stream);
  }

  ResultsTableOptions options_;
};

}  // namespace fulgurite
