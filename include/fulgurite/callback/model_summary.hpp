#pragma once
// Prints the model's table of parameters when a fit starts.

#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/model_table.hpp>

namespace fulgurite {

/// How deep the table goes, and where it is written.
struct ModelSummaryOptions {
  int max_depth = 1;  ///< levels of sub-modules; 0: nothing is printed, -1: all
  std::FILE* stream = stderr;
};

/// Prints a table when a fit starts: `ModelSummary{}` or `ModelSummary{{.max_depth = -1}}`. It has the name, the type,
/// the number of parameters and the mode of each module, and totals.
class ModelSummary {
 public:
  using Hooks = Implements<hook::on_fit_start>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::summary;

  explicit ModelSummary(ModelSummaryOptions options = {}) : options_(options) {
    if (options.max_depth < -1)
      throw Error("fulgurite.callback.summary_depth", "ModelSummary: max_depth is -1 (all), 0 (off) or more");
  }

  void on_fit_start(auto& ctx) {
    if (options_.max_depth == 0 || ctx.rank() != 0) return;
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    std::vector<report::ModelRow> const rows = Backend::summarize(ctx.model(), options_.max_depth);
    auto const text = report::model_table(rows);
    std::fwrite(text.data(), 1, text.size(), options_.stream);
    std::fflush(options_.stream);
  }

 private:
  ModelSummaryOptions options_;
};

}  // namespace fulgurite
