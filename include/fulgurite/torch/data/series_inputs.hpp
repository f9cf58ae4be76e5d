#pragma once
// Time steps as a model was trained to see them, and its predictions in the units of the series; a second program
// restores both from a checkpoint.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/standardization.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/torch/data/buffers.hpp>

namespace fulgurite::data {

/// A series in memory: time steps x columns, float64 until it is standardised: float32 may lose differences of times.
struct Series {
  torch::Tensor values;
  std::vector<std::string> columns = {};
  std::string name = {};                ///< of its file
  std::vector<std::size_t> lines = {};  ///< where each time step stands in the file

  /// For Errors.
  FULGURITE_COLD std::string place(std::int64_t step, std::int64_t column) const {
    auto const at = static_cast<std::size_t>(step);
    auto const where =
        " at time step " + std::to_string(step) + " in the column '" + columns[static_cast<std::size_t>(column)] + "'";
    return at < lines.size() ? where + ", " + name + ", line " + std::to_string(lines[at]) : where;
  }
};

/// What predictions need of a series: its columns, what they are standardised by, which of them are predicted, and how
/// its file is read. A WindowModule is one; `data_state<data::SeriesInputs>("last.safetensors")` restores it without
/// the series.
class SeriesInputs {
 public:
  SeriesInputs() = default;
  SeriesInputs(std::vector<std::string> columns, std::vector<Standardization> standard,
               std::vector<std::int64_t> targets, TableReading reading)
      : columns_(std::move(columns)),
        standard_(std::move(standard)),
        targets_(std::move(targets)),
        reading_(std::move(reading)) {}

  std::vector<std::string> const& columns() const { return columns_; }
  std::vector<Standardization> const& standardization() const { return standard_; }

  /// Time steps x columns, float32, as the model sees them, of a series with these columns in any order; others are not
  /// read. Errors: [fulgurite.data.column] where one is missing, [fulgurite.data.series] for a value that is missing or
  /// that a float cannot hold.
  FULGURITE_BULK torch::Tensor inputs(Series const& series) const {
    LoadingMode const mode;
    auto const values = series.values.to(torch::kDouble);
    auto const from = values.accessor<double, 2>();
    torch::Tensor made = torch::empty({values.size(0), static_cast<std::int64_t>(columns_.size())});
    auto to = made.accessor<float, 2>();
    for (std::size_t c = 0; c != columns_.size(); ++c) {
      auto const column = position(series.columns, columns_[c]);
      for (std::int64_t row = 0; row != values.size(0); ++row) {
        auto& seen = to[row][static_cast<std::int64_t>(c)];
        seen = static_cast<float>(standard_[c](from[row][column]));
        if (!std::isfinite(seen)) refuse(series, row, column);
      }
    }
    return made;
  }
  FULGURITE_BULK torch::Tensor inputs(std::filesystem::path const& file) const {
    auto const text = read_csv(file, reading_.csv());
    TableTypes types{.missing = reading_.missing};
    for (auto const& name : text.columns)
      if (std::ranges::find(columns_, name) == columns_.end()) types.leave_out.push_back(name);
    return inputs(series_of(typed(text, types)));
  }

  /// What the model predicts (..., targets), in the units of the series: float32, or float64 where these need it.
  FULGURITE_BULK torch::Tensor in_units(torch::Tensor const& predicted) const {
    bool narrow = true;
    std::vector<double> means, deviations;
    for (auto const at : targets_) {
      auto const& standard = standard_[static_cast<std::size_t>(at)];
      means.push_back(standard.mean), deviations.push_back(standard.deviation);
      narrow = narrow && fits(standard.mean) && fits(standard.deviation);
    }
    auto const as = torch::TensorOptions(narrow ? torch::kFloat : torch::kDouble);
    auto const row = [&](std::vector<double> const& all) {
      return torch::tensor(all, torch::kDouble).to(as).to(predicted.device());
    };
    return predicted * row(deviations) + row(means);
  }

  /// The columns of numbers of a table, whose rows are time steps. Columns of text are left out.
  FULGURITE_BULK static Series series_of(Table const& table) {
    LoadingMode const mode;
    Series series{.values = {}, .columns = {}, .name = table.name, .lines = table.lines};
    std::vector<double> all;
    for (auto const& column : table.columns)
      if (column.is_number) series.columns.push_back(column.name);
    for (std::size_t row = 0; row != table.rows(); ++row)
      for (auto const& column : table.columns)
        if (column.is_number) all.push_back(column.numbers[row]);
    series.values =
        torch::tensor(all, torch::kDouble)
            .view({static_cast<std::int64_t>(table.rows()), static_cast<std::int64_t>(series.columns.size())});
    return series;
  }
  /// Error [fulgurite.data.series] for that value, which is missing or too large.
  [[noreturn]] FULGURITE_COLD static void refuse(Series const& series, std::int64_t row, std::int64_t column) {
    double const value = series.values[row][column].item<double>();
    throw Error("fulgurite.data.series",
                "the value" + series.place(row, column) + " is " +
                    (std::isnan(value) ? std::string("missing: fill it, as with the value before it")
                                       : typing::shown(value) +
                                             ", which as it is given to the model would be beyond the largest float, "
                                             "3.4e38: mend it, or give the column in another unit"));
  }
  /// Error [fulgurite.data.column], with the columns that there are.
  FULGURITE_BULK static std::int64_t position(std::vector<std::string> const& columns, std::string const& name) {
    auto const at = std::ranges::find(columns, name);
    if (at != columns.end()) return at - columns.begin();
    std::string all;
    for (auto const& column : columns) all += (all.empty() ? "" : ", ") + column;
    throw Error("fulgurite.data.column",
                "there is no column '" + name + "': the series has " + all + "; name one of them");
  }

  /// Loading into one that knows its columns, these and the predicted ones have to be the same. Error
  /// [fulgurite.data.series_changed].
  void state(auto& archive) {
    auto columns = columns_;
    auto targets = targets_;
    archive("columns", columns)("targets", targets);
    if (!columns_.empty() && !columns.empty() && (columns != columns_ || targets != targets_))
      refuse_change(columns, targets);
    for (auto const at : targets)
      if (at < 0 || static_cast<std::size_t>(at) >= columns.size())
        throw Error("fulgurite.data.series_changed",
                    "the checkpoint has " + std::to_string(columns.size()) +
                        " columns of a series and predicts number " + std::to_string(at) +
                        " of them, counted from 0: it is damaged, so take another one");
    columns_ = std::move(columns);
    targets_ = std::move(targets);
    archive("standard", standard_);
    archive.child("reading", reading_);
    if (standard_.size() != columns_.size())
      throw Error("fulgurite.data.series_changed", "the checkpoint has " + std::to_string(columns_.size()) +
                                                       " columns of a series and " + std::to_string(standard_.size()) +
                                                       " standardisations: it is damaged, so take another one");
  }

 protected:
  std::vector<std::string> columns_;
  std::vector<Standardization> standard_;
  std::vector<std::int64_t> targets_;
  TableReading reading_;

 private:
  /// A float holds it without losing digits.
  static bool fits(double value) {
    using Limits = std::numeric_limits<float>;
    return value == 0 || (std::abs(value) <= double{Limits::max()} && std::abs(value) >= double{Limits::min()});
  }
  FULGURITE_COLD void refuse_change(std::vector<std::string> const& columns,
                                    std::vector<std::int64_t> const& targets) const {
    auto const has = [](std::vector<std::string> const& names, std::vector<std::int64_t> const& predicted) {
      std::string said = "the columns ";
      for (auto const& name : names) said += (&name == &names.front() ? "" : ", ") + name;
      said += " and predicts ";
      for (auto const& at : predicted)
        said += (&at == &predicted.front() ? "" : ", ") +
                (at >= 0 && static_cast<std::size_t>(at) < names.size() ? names[static_cast<std::size_t>(at)] : "?");
      return said;
    };
    throw Error("fulgurite.data.series_changed",
                "the series has " + has(columns_, targets_) + ", and that of the checkpoint has " +
                    has(columns, targets) +
                    ": give the same columns in the same order, or restore what was learned from them by "
                    "data_state<data::SeriesInputs>(checkpoint), whose inputs(file) finds columns by their names");
  }
};

}  // namespace fulgurite::data
