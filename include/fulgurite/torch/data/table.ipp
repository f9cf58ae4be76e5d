#pragma once
// The bodies of torch/data/table.hpp.

#include <algorithm>
#include <cmath>
#include <limits>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/data/table.hpp>

namespace fulgurite::data {

/// Predictions of standardised columns, in the last dimension, in the units of the columns.
FULGURITE_BULK_BODY torch::Tensor unstandardized(torch::Tensor const& predicted,
                                                 std::vector<Standardization> const& columns) {
  // True if a value is 0 or in the range of float's normal numbers, so that it loses no digits to underflow.
  auto const fits = [](double value) {
    using Limits = std::numeric_limits<float>;
    return value == 0 || (std::abs(value) <= double{Limits::max()} && std::abs(value) >= double{Limits::min()});
  };
  // True if the floats near the mean, which are at most |mean| / 2^23 apart, resolve a thousandth of a deviation.
  auto const resolves = [](Standardization const& column) { return std::abs(column.mean) <= 4096 * column.deviation; };
  bool narrow = predicted.scalar_type() != torch::kDouble;
  std::vector<double> means, deviations;
  for (auto const& column : columns) {
    means.push_back(column.mean), deviations.push_back(column.deviation);
    narrow = narrow && fits(column.mean) && fits(column.deviation) && resolves(column);
  }
  auto const as = torch::TensorOptions(narrow ? torch::kFloat : torch::kDouble);
  auto const row = [&](std::vector<double> const& all) {
    return torch::tensor(all, torch::kDouble).to(as).to(predicted.device());
  };
  return predicted * row(deviations) + row(means);
}

FULGURITE_BULK_BODY TableInputs::TableInputs(TableEncoding encoding, std::vector<std::string> classes,
                                             Standardization of_target, TableReading reading)
    : encoding_(std::move(encoding)),
      classes_(std::move(classes)),
      of_target_(of_target),
      reading_(std::move(reading)) {}

FULGURITE_BULK_BODY torch::Tensor TableInputs::inputs(Table const& rows) const {
  LoadingMode const mode;
  torch::Tensor made =
      torch::empty({static_cast<std::int64_t>(rows.rows()), static_cast<std::int64_t>(encoding_.width())});
  encoding_.encode(rows, made.mutable_data_ptr<float>());
  return made;
}

FULGURITE_BULK_BODY torch::Tensor TableInputs::inputs(std::filesystem::path const& file) const {
  auto const text = read_csv(file, reading_.csv());
  return inputs(typed(text, encoding_.types_of(text, reading_.missing)));
}

FULGURITE_BULK_BODY torch::Tensor TableInputs::in_units(torch::Tensor const& predicted) const {
  return of_target_ == Standardization{} ? predicted : unstandardized(predicted, {of_target_});
}

FULGURITE_BULK_BODY TableModule::TableModule(Table table, TableOptions const& options)
    : TableModule(Made(std::move(table), options), options) {}

FULGURITE_BODY void TableModule::refuse_change(std::vector<std::string> const& classes, long rows) const {
  auto const has = [](std::vector<std::string> const& names, std::size_t count) {
    return std::to_string(count) + " rows" + (names.empty() ? "" : " and the classes " + listed(names));
  };
  throw Error("fulgurite.data.table_changed",
              table_.name + ": the table has " + has(classes_, table_.rows()) + ", and the checkpoint was trained on " +
                  has(classes, static_cast<std::size_t>(rows)) +
                  ": give the same file, or restore what was learned from it by "
                  "data_state<data::TableInputs>(checkpoint), and encode rows by its inputs(file)");
}

FULGURITE_BULK_BODY TableModule::Made::Made(Table from, TableOptions const& options)
    : table(std::move(from)),
      parts(split(table.rows(), options.validation, options.seed)),
      of_target(learned(table, parts, options)),
      inputs(TableEncoding(table, parts.train, options.target), table.column(options.target).labels, of_target,
             reading_of(options.types, options.csv)),
      set{inputs.inputs(table), targets(table, options.target, of_target)} {}

FULGURITE_BULK_BODY TableModule::TableModule(Made&& made, TableOptions const& options)
    : TensorModule<>(made.set, std::move(made.parts), loader_options(options)),
      TableInputs(std::move(made.inputs)),
      data_(made.set.data),
      target_(made.set.target),
      target_name_(options.target),
      table_(std::move(made.table)) {}

FULGURITE_BULK_BODY Standardization TableModule::learned(Table const& table, Split const& parts,
                                                         TableOptions const& options) {
  auto const& column = table.column(options.target);
  if (!options.standardize_target) return {};
  if (!column.is_number)
    throw Error("fulgurite.data.target",
                table.name + ": '" + options.target + "' is a category, which has no mean: remove .standardize_target");
  return standardization_of(parts.train.size(), [&](std::size_t i) { return column.numbers[parts.train[i]]; });
}

FULGURITE_BULK_BODY torch::Tensor TableModule::targets(Table const& table, std::string const& name,
                                                       Standardization const& standard) {
  LoadingMode const mode;
  auto const& column = table.column(name);
  auto const rows = static_cast<std::int64_t>(table.rows());
  torch::Tensor made = column.is_number ? torch::empty({rows, 1}) : torch::empty({rows}, torch::kLong);
  for (std::size_t row = 0; row != table.rows(); ++row) {
    if (column.is_missing(row))
      throw Error("fulgurite.data.target", table.name + ": line " + std::to_string(table.lines[row]) + " has no '" +
                                               name + "', which is to be predicted: remove the line");
    if (column.is_number)
      made.mutable_data_ptr<float>()[row] = as_float(standard(column.numbers[row]), table, column, row);
    else made.mutable_data_ptr<std::int64_t>()[row] = column.values[row];
  }
  return made;
}

FULGURITE_BULK_BODY TableModule table(std::filesystem::path const& file, TableOptions const& options) {
  return {read_table(file, options.types, options.csv), options};
}

FULGURITE_BODY std::string Series::place(std::int64_t step, std::int64_t column) const {
  auto const at = static_cast<std::size_t>(step);
  auto const where =
      " at time step " + std::to_string(step) + " in the column '" + columns[static_cast<std::size_t>(column)] + "'";
  return at < lines.size() ? where + ", " + name + ", line " + std::to_string(lines[at]) : where;
}

FULGURITE_BULK_BODY SeriesInputs::SeriesInputs(std::vector<std::string> columns, std::vector<Standardization> standard,
                                               std::vector<std::int64_t> targets, TableReading reading)
    : columns_(std::move(columns)),
      standard_(std::move(standard)),
      targets_(std::move(targets)),
      reading_(std::move(reading)) {}

FULGURITE_BULK_BODY torch::Tensor SeriesInputs::inputs(Series const& series) const {
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

FULGURITE_BULK_BODY torch::Tensor SeriesInputs::inputs(std::filesystem::path const& file) const {
  auto const text = read_csv(file, reading_.csv());
  TableTypes types{.missing = reading_.missing};
  for (auto const& name : text.columns)
    if (std::ranges::find(columns_, name) == columns_.end()) types.leave_out.push_back(name);
  return inputs(series_of(typed(text, types)));
}

FULGURITE_BULK_BODY torch::Tensor SeriesInputs::in_units(torch::Tensor const& predicted) const {
  std::vector<Standardization> columns;
  for (auto const at : targets_) columns.push_back(standard_[static_cast<std::size_t>(at)]);
  return unstandardized(predicted, columns);
}

FULGURITE_BULK_BODY Series SeriesInputs::series_of(Table const& table) {
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

FULGURITE_BODY void SeriesInputs::refuse(Series const& series, std::int64_t row, std::int64_t column) {
  double const value = series.values[row][column].item<double>();
  throw Error("fulgurite.data.series",
              "the value" + series.place(row, column) + " is " +
                  (std::isnan(value)
                       ? std::string("missing: fill it, as with the value before it")
                       : exact_number(value) + ", which as it is given to the model would be beyond the largest float, "
                                               "3.4e38: mend it, or give the column in another unit"));
}

FULGURITE_BULK_BODY std::int64_t SeriesInputs::position(std::vector<std::string> const& columns,
                                                        std::string const& name) {
  auto const at = std::ranges::find(columns, name);
  if (at != columns.end()) return at - columns.begin();
  throw Error("fulgurite.data.column",
              "there is no column '" + name + "': the series has " + listed(columns) + "; name one of them");
}

FULGURITE_BODY void SeriesInputs::refuse_change(std::vector<std::string> const& columns,
                                                std::vector<std::int64_t> const& targets) const {
  auto const has = [](std::vector<std::string> const& names, std::vector<std::int64_t> const& predicted) {
    return "the columns " + listed(names) + " and predicts " + listed(predicted, [&](std::int64_t at) {
             return at >= 0 && static_cast<std::size_t>(at) < names.size() ? names[static_cast<std::size_t>(at)] : "?";
           });
  };
  throw Error("fulgurite.data.series_changed",
              "the series has " + has(columns_, targets_) + ", and that of the checkpoint has " +
                  has(columns, targets) +
                  ": give the same columns in the same order, or restore what was learned from them by "
                  "data_state<data::SeriesInputs>(checkpoint), whose inputs(file) finds columns by their names");
}

FULGURITE_BULK_BODY WindowModule::WindowModule(Series series, WindowOptions const& options)
    : WindowModule(Made(std::move(series), options), options) {}

FULGURITE_BULK_BODY WindowModule::Made::Made(Series from, WindowOptions const& options)
    : series(std::move(from)),
      parts(split_windows(checked(series), {options.length, options.horizon, options.stride}, options.validation)) {
  LoadingMode const mode;
  auto const steps = static_cast<std::size_t>(series.values.size(0));
  std::size_t const learned = steps - options.validation.of(steps);
  auto const values = series.values.accessor<double, 2>();
  auto const learn = [&](std::int64_t c) {
    return standardization_of(learned, [&](std::size_t row) { return values[static_cast<std::int64_t>(row)][c]; });
  };
  std::vector<Standardization> standard;
  for (std::int64_t c = 0; c != values.size(1); ++c)
    standard.push_back(options.standardize ? learn(c) : Standardization{});
  std::vector<std::int64_t> targets;
  for (auto const& name : options.targets) targets.push_back(SeriesInputs::position(series.columns, name));
  if (targets.empty())
    for (std::int64_t c = 0; c != values.size(1); ++c) targets.push_back(c);
  scaled = torch::empty(series.values.sizes(), torch::kFloat);
  forecast = torch::empty({series.values.size(0), static_cast<std::int64_t>(targets.size())});
  inputs = {series.columns, std::move(standard), std::move(targets), reading_of(options.types, options.csv)};
  auto const windows = [&](torch::Tensor const& of, std::int64_t first, std::int64_t count) {
    return of.unfold(0, options.length + options.horizon, options.stride).narrow(2, first, count).transpose(1, 2);
  };
  set = {windows(scaled, 0, options.length), windows(forecast, options.length, options.horizon)};
}

FULGURITE_BULK_BODY WindowModule::WindowModule(Made&& made, WindowOptions const& options)
    : TensorModule<>(made.set, std::move(made.parts), loader_options(options)),
      SeriesInputs(std::move(made.inputs)),
      series_(std::move(made.series)),
      scaled_(std::move(made.scaled)),
      forecast_(std::move(made.forecast)) {
  show(inputs(series_));
}

FULGURITE_BULK_BODY void WindowModule::show(torch::Tensor const& seen) {
  LoadingMode const mode;
  scaled_.copy_(seen);
  forecast_.copy_(seen.index_select(1, torch::tensor(targets_)));
}

FULGURITE_BULK_BODY std::size_t WindowModule::checked(Series& series) {
  LoadingMode const mode;
  auto& values = series.values;
  if (!values.defined() || values.dim() < 1 || values.dim() > 2 || values.numel() == 0 || !values.is_cpu())
    throw Error("fulgurite.data.series",
                "a series is a tensor on the CPU of time steps x columns, or of time steps: give such a one");
  values = values.to(torch::kDouble).contiguous();
  if (values.dim() == 1) values = values.unsqueeze(1);
  for (std::int64_t c = 0; series.columns.size() < static_cast<std::size_t>(values.size(1)); ++c)
    series.columns.push_back(std::to_string(c));
  auto const odd = torch::isfinite(values).logical_not().nonzero();
  if (odd.size(0) != 0) SeriesInputs::refuse(series, odd[0][0].item<std::int64_t>(), odd[0][1].item<std::int64_t>());
  return static_cast<std::size_t>(values.size(0));
}

FULGURITE_BULK_BODY WindowModule windows(torch::Tensor const& series, WindowOptions const& options) {
  return {{series, {}}, options};
}

FULGURITE_BULK_BODY WindowModule windows(Table const& table, WindowOptions const& options) {
  return {SeriesInputs::series_of(table), options};
}

FULGURITE_BULK_BODY WindowModule windows(std::filesystem::path const& file, WindowOptions const& options) {
  return windows(read_table(file, options.types, options.csv), options);
}

void TableInputs::state(auto& archive) {
  archive("classes", classes_);
  archive.child("reading", reading_);
  archive.child("encoding", encoding_);
  archive.child("target", of_target_);
}
FULGURITE_STATE(TableInputs)

void TableModule::state(auto& archive) {
  auto classes = classes_;
  auto rows = static_cast<long>(table_.rows());
  archive("rows", rows);
  auto const reading = reading_;
  TableInputs::state(archive);
  reading_ = reading;
  std::swap(classes, classes_);
  if (classes != classes_ || rows != static_cast<long>(table_.rows())) refuse_change(classes, rows);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
    commit(archive, [this, seen = inputs(table_), target = targets(table_, target_name_, of_target_)] {
      LoadingMode const mode;
      data_.copy_(seen);  // the loaders have views of these tensors
      target_.copy_(target);
    });
}
FULGURITE_STATE(TableModule)

void SeriesInputs::state(auto& archive) {
  auto columns = columns_;
  auto targets = targets_;
  archive("columns", columns)("targets", targets);
  if (!columns_.empty() && !columns.empty() && (columns != columns_ || targets != targets_))
    refuse_change(columns, targets);
  for (auto const at : targets)
    if (at < 0 || static_cast<std::size_t>(at) >= columns.size())
      throw Error("fulgurite.data.series_changed",
                  "the checkpoint has " + std::to_string(columns.size()) + " columns of a series and predicts number " +
                      std::to_string(at) + " of them, counted from 0: it is damaged, so take another one");
  columns_ = std::move(columns);
  targets_ = std::move(targets);
  archive("standard", standard_);
  archive.child("reading", reading_);
  if (standard_.size() != columns_.size())
    throw Error("fulgurite.data.series_changed", "the checkpoint has " + std::to_string(columns_.size()) +
                                                     " columns of a series and " + std::to_string(standard_.size()) +
                                                     " standardisations: it is damaged, so take another one");
}
FULGURITE_STATE(SeriesInputs)

void WindowModule::state(auto& archive) {
  auto const reading = reading_;
  SeriesInputs::state(archive);
  reading_ = reading;
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
    commit(archive, [this, seen = inputs(series_)] { show(seen); });
}
FULGURITE_STATE(WindowModule)

}  // namespace fulgurite::data
