#pragma once
// Prints the table of the model's parameters when a fit starts.

#include <cstdio>
#include <string_view>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>

namespace fulgurite {

/// Options of ModelSummary: the depth of the table, and where it is printed.
struct ModelSummaryOptions {
  int max_depth = 1;           ///< levels of sub-modules; 0: nothing is printed, -1: all
  std::FILE* stream = stderr;  ///< where the table is printed
  int columns = 0;             ///< width of the table; 0: the terminal's, or as wide as needed if there is no terminal
};

/// Prints a table of the model when a fit starts: `ModelSummary{}` or `ModelSummary{{.max_depth = -1}}`. The table has
/// the name, type, number of parameters and mode of each module, and totals. Parameters that two modules share are
/// marked and count once.
///
/// If the model has `torch::Tensor example_input_array` (or a function of that name; a std::tuple for several
/// arguments), it is run once with that input, in eval mode and without gradients, and the table also has sizes and
/// operations. Modes, buffers and random number generators are restored afterwards. Throws
/// [fulgurite.model.example_input] if `forward` fails with it.
class ModelSummary {
 public:
  using Hooks = Implements<hook::on_fit_start>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::summary;

  explicit ModelSummary(ModelSummaryOptions options = {});
  FULGURITE_NAMED_OPTIONS(ModelSummary);

  void on_fit_start(Context& ctx);

 private:
  ModelSummaryOptions options_;
};

// Prints the results of validate and test as a table.

/// Options of ResultsTable: where the table is printed, and its width.
struct ResultsTableOptions {
  std::FILE* stream = stdout;  ///< where the table is printed
  int columns = 0;             ///< width of the table; 0: the terminal's, or as wide as needed if there is no terminal
};

/// Prints the results of trainer.validate or trainer.test: `ResultsTable{}`. The table has a row for each metric with a
/// value and a column for each loader; the metrics are those that the model declares and reports each epoch. If it
/// would be too wide, the remaining loaders follow in a further table, and names are cut at their beginning; a value is
/// never cut. A metric of several numbers has a row for each number, but a matrix has none: report::html draws it. The
/// validations of a fit are not printed. Only rank zero prints. Throws [fulgurite.callback.results_columns] for a width
/// below 0.
class ResultsTable {
 public:
  using Hooks = Implements<hook::on_validation_end, hook::on_test_end>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;

  explicit ResultsTable(ResultsTableOptions options = {});
  FULGURITE_NAMED_OPTIONS(ResultsTable);

  void on_validation_end(Context& ctx);
  void on_test_end(Context& ctx) { print(ctx, "Test metric"); }

 private:
  void print(Context& ctx, std::string_view what) const;

  ResultsTableOptions options_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/model_summary.ipp>
#endif
