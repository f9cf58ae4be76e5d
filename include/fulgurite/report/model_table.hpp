#pragma once
// The table of a model's modules and parameters that a person reads, in Lightning's layout, and the rows it is made of,
// which a tensor library delivers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/text_table.hpp>

namespace fulgurite::report {

/// One row of a model's summary. A list of rows begins with the whole model, whose `name` is empty and where a
/// parameter that two modules share counts once; its modules follow in depth-first order down to `max_depth`.
struct ModelRow {
  std::string name;             ///< dotted, as in a checkpoint: "body.0"
  std::string type;             ///< "Linear"
  std::int64_t parameters = 0;  ///< elements
  std::int64_t trainable = 0;   ///< of these, elements that require a gradient
  std::int64_t bytes = 0;       ///< parameters and buffers, in the precision they have now
  bool training = true;         ///< train or eval mode
};

/// Whether a module's parameters train: "yes", "no", or how many do; "-" where it has none.
inline std::string trainable_text(ModelRow const& row) {
  if (row.parameters == 0) return "-";
  if (row.trainable == row.parameters) return "yes";
  return row.trainable == 0 ? "no" : count_text(row.trainable);
}

/// The table with its totals; ends with a newline. `rows[0]` is the whole model.
FULGURITE_COLD std::string model_table(std::span<ModelRow const> rows) {
  if (rows.empty()) return {};
  TextTable table{{{.title = ""},
                   {.title = "Name"},
                   {.title = "Type"},
                   {.title = "Params"},
                   {.title = "Trainable"},
                   {.title = "Size"},
                   {.title = "Mode"}}};
  for (std::size_t i = 1; i < rows.size(); ++i)
    table.add({std::to_string(i - 1), rows[i].name, rows[i].type, count_text(rows[i].parameters),
               trainable_text(rows[i]), bytes_text(rows[i].bytes), rows[i].training ? "train" : "eval"});
  auto const& whole = rows.front();
  std::string text = rows.size() > 1 ? table.text() : std::string{};
  auto const total = [&](std::string figure, char const* meaning) {
    figure.resize(std::max<std::size_t>(figure.size() + 1, 10), ' ');
    text += figure + meaning + '\n';
  };
  total(count_text(whole.trainable), "Trainable params");
  total(count_text(whole.parameters - whole.trainable), "Non-trainable params");
  total(count_text(whole.parameters), "Total params");
  total(bytes_text(whole.bytes), "Total size of parameters and buffers");
  return text;
}

}  // namespace fulgurite::report
