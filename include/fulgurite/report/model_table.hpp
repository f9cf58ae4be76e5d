#pragma once
// The table of a model's modules and parameters that a person reads, in Lightning's layout, and the rows it is made of,
// which a tensor library delivers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/text_table.hpp>
#include <fulgurite/report/wrapped_text.hpp>

namespace fulgurite::report {

/// One row of a model's summary. A list of rows begins with the whole model, whose `name` is empty and where a
/// parameter that two modules share counts once; its modules follow in depth-first order down to `max_depth`.
struct ModelRow {
  std::string name;               ///< dotted, as in a checkpoint: "body.0"
  std::string type;               ///< "Linear"
  std::int64_t parameters = 0;    ///< elements
  std::int64_t trainable = 0;     ///< of these, elements that require a gradient
  std::int64_t bytes = 0;         ///< parameters and buffers, in the precision they have now
  bool training = true;           ///< train or eval mode
  std::int64_t shared = 0;        ///< of the parameters, those that a module above in the list has, too
  std::string shared_with = {};   ///< the name of that module
  std::string in = {}, out = {};  ///< sizes of what went in and came out with an example: "[32, 10]"; empty: unknown
  std::int64_t flops = -1;        ///< of matrix products and convolutions with an example; -1: unknown
};

/// Whether a module's parameters train: "yes", "frozen", or how many do; "-" where it has none.
inline std::string trainable_text(ModelRow const& row) {
  if (row.parameters == 0) return "-";
  if (row.trainable == row.parameters) return "yes";
  return row.trainable == 0 ? "frozen" : count_text(row.trainable);
}

/// The table with its totals; ends with a newline. `rows[0]` is the whole model. Parameters that stand in two modules
/// are marked in the second by a star, which a line explains. Sizes and operations have columns where an example was
/// run. `most` columns at most, 0: as wide as need be. Modes and sizes in bytes go first; then types and sizes of
/// tensors keep their beginnings, and names their ends, of 24 columns at least; then FLOPs, sizes of tensors and what
/// trains go.
FULGURITE_COLD std::string model_table(std::span<ModelRow const> rows, std::size_t most = 0) {
  if (rows.empty()) return {};
  bool const sized = std::ranges::any_of(rows, [](auto const& row) { return !row.in.empty() || row.flops >= 0; });
  std::vector<TextTable::Column> columns{{.title = ""},
                                         {.title = "Name", .clip = Clip::keeps_end},
                                         {.title = "Type", .clip = Clip::keeps_beginning},
                                         {.title = "Params"},
                                         {.title = "Trainable", .goes = 5},
                                         {.title = "Size", .goes = 1},
                                         {.title = "Mode", .goes = 1}};
  if (sized)
    columns.insert(columns.end(), {{.title = "FLOPs", .goes = 2},
                                   {.title = "In sizes", .clip = Clip::keeps_beginning, .goes = 3},
                                   {.title = "Out sizes", .clip = Clip::keeps_beginning, .goes = 4}});
  TextTable table{std::move(columns)};
  auto const size = [](std::string const& text) { return text.empty() ? std::string("?") : text; };
  std::string shared;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    auto const& row = rows[i];
    std::vector<std::string> cells{std::to_string(i - 1),
                                   row.name,
                                   row.type,
                                   count_text(row.parameters) + (row.shared > 0 ? " *" : ""),
                                   trainable_text(row),
                                   bytes_text(row.bytes),
                                   row.training ? "train" : "eval"};
    if (sized) cells.insert(cells.end(), {row.flops < 0 ? "?" : count_text(row.flops), size(row.in), size(row.out)});
    table.add(std::move(cells));
    if (row.shared > 0)
      shared += wrapped("* " + row.name + ": " + count_text(row.shared) + " of these are parameters of " +
                            row.shared_with + ", and count once in the totals",
                        most);
  }
  auto const& whole = rows.front();
  std::string text = rows.size() > 1 ? table.text(most) + shared : std::string{};
  auto const total = [&](std::string figure, char const* meaning) {
    figure.resize(std::max<std::size_t>(figure.size() + 1, 10), ' ');
    for (auto const& line : wrapped_lines(meaning, most > figure.size() + 16 ? most - figure.size() : most)) {
      text += figure + line + '\n';
      figure.assign(figure.size(), ' ');
    }
  };
  total(count_text(whole.trainable), "Trainable params");
  total(count_text(whole.parameters - whole.trainable), "Non-trainable params");
  total(count_text(whole.parameters), "Total params");
  total(bytes_text(whole.bytes), "Total size of parameters and buffers");
  if (whole.flops >= 0) total(count_text(whole.flops), "FLOPs of matrix products and convolutions, example forward");
  if (sized) total("Example:", (size(whole.in) + " to " + size(whole.out)).c_str());
  return text;
}

}  // namespace fulgurite::report
