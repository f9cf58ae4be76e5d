#pragma once
// Prints the model's table of parameters when a fit starts.

#include <cstdio>
#include <string_view>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>

namespace fulgurite {

/// How deep the table goes, and where it is written.
struct ModelSummaryOptions {
  int max_depth = 1;  ///< levels of sub-modules; 0: nothing is printed, -1: all
  std::FILE* stream = stderr;
  int columns = 0;  ///< width of the table; 0: the terminal's, and where there is none as wide as need be
};

/// Prints a table when a fit starts: `ModelSummary{}` or `ModelSummary{{.max_depth = -1}}`. It has the name, the type,
/// the number of parameters and the mode of each module, and totals; parameters that two modules share count once, and
/// are marked.
///
/// A model with `torch::Tensor example_input_array` (or a function of that name; a std::tuple for several arguments) is
/// run with it once, in eval mode and without gradients, and the table has sizes and operations, too. Modes, buffers
/// and random numbers are then as they were. Error [fulgurite.model.example_input] where `forward` fails with it.
class ModelSummary {
 public:
  using Hooks = Implements<hook::on_fit_start>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::summary;

  explicit ModelSummary(ModelSummaryOptions options = {});

  void on_fit_start(Context& ctx);

 private:
  ModelSummaryOptions options_;
};

// Prints what validate and test have found, as a table.

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

  explicit ResultsTable(ResultsTableOptions options = {});

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
