#pragma once
// Prints the model's table of parameters when a fit starts.

#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/model_table.hpp>
#include <fulgurite/report/terminal.hpp>

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

  explicit ModelSummary(ModelSummaryOptions options = {}) : options_(options) {
    if (options.max_depth < -1)
      throw Error("fulgurite.callback.summary_depth", "ModelSummary: max_depth is -1 (all), 0 (off) or more");
    if (options.columns < 0)
      throw Error("fulgurite.callback.summary_columns", "ModelSummary: columns is the width of the table, or 0");
  }

  void on_fit_start(auto& ctx) {
    if (options_.max_depth == 0 || ctx.rank() != 0 || ctx.options().barebones) return;
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    std::vector<report::ModelRow> rows = Backend::summarize(ctx.model(), options_.max_depth);
    if constexpr (requires { Backend::run_example(ctx.model(), rows); }) Backend::run_example(ctx.model(), rows);
    auto const text = report::model_table(rows, report::text_columns(options_.stream, options_.columns));
    fulgurite::tell(options_.stream, text);
    std::fflush(options_.stream);
  }

 private:
  ModelSummaryOptions options_;
};

}  // namespace fulgurite
