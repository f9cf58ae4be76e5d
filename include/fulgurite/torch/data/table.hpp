#pragma once
// A data module over a table: data::table("houses.csv", {.target = "price"}).

#include <algorithm>
#include <chrono>
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
#include <fulgurite/core/state.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

// The features of rows as a model was trained to see them, which a second program restores from a checkpoint.

/// What predictions need of a table: how its columns become features, which classes the target has, and how its file is
/// read. A TableModule is one; `data_state<data::TableInputs>("last.safetensors")` restores it without the table.
class TableInputs {
 public:
  TableInputs() = default;
  TableInputs(TableEncoding encoding, std::vector<std::string> classes, TableReading reading)
      : encoding_(std::move(encoding)), classes_(std::move(classes)), reading_(std::move(reading)) {}

  /// The names of the features, and of the classes where the target has some.
  std::vector<std::string> features() const { return encoding_.features(); }
  std::vector<std::string> const& classes() const { return classes_; }
  TableEncoding const& encoding() const { return encoding_; }

  /// The features of other rows: float32, rows x features. The target's column may be missing, and other columns are
  /// not read. Errors: those of read_csv, typed and TableEncoding::encode.
  FULGURITE_BULK torch::Tensor inputs(Table const& rows) const {
    LoadingMode const mode;
    torch::Tensor made =
        torch::empty({static_cast<std::int64_t>(rows.rows()), static_cast<std::int64_t>(encoding_.width())});
    encoding_.encode(rows, made.mutable_data_ptr<float>());
    return made;
  }
  FULGURITE_BULK torch::Tensor inputs(std::filesystem::path const& file) const {
    auto const text = read_csv(file, reading_.csv());
    return inputs(typed(text, encoding_.types_of(text, reading_.missing)));
  }

  /// Loading into one that knows its columns, these have to be the same. Error [fulgurite.data.table_changed].
  void state(auto& archive) {
    archive("classes", classes_);
    archive.child("reading", reading_);
    archive.child("encoding", encoding_);
  }

 protected:
  TableEncoding encoding_;
  std::vector<std::string> classes_;
  TableReading reading_;
};

/// What of a table is predicted, how its columns are read, and how it is split and batched.
struct TableOptions {
  std::string target = {};  ///< the column to predict: numbers, or categories, which are then classes
  TableTypes types = {};    ///< which columns are categories, which are left out, how missing values are written
  CsvOptions csv = {};      ///< separator, header, bounds
  Share validation = 0.2;   ///< a fraction or a count of the rows, drawn by the seed
  long batch_size = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the split and the shuffle
  bool drop_last = false;  ///< for training
  int workers = 0;         ///< these as in TensorLoaderOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
  bool pin_memory = false;
};

/// Batches of features (float32, N x features) and targets: N x 1 float32 where the target is a number, N int64 where
/// it is a category. What columns are standardised by, and which categories there are, is learned from the training
/// rows alone and kept in checkpoints: a model that goes on, or is used on other rows by `inputs`, sees what it was
/// trained on. A program without the table restores a TableInputs.
class TableModule : public TensorModule<>, public TableInputs {
 public:
  TableModule(Table table, TableOptions const& options) : TableModule(Made(std::move(table), options), options) {}

  /// How files are read is what the options of this program say. Error [fulgurite.data.table_changed] where a run goes
  /// on with other classes, rows or columns.
  void state(auto& archive) {
    auto classes = classes_;
    auto rows = static_cast<long>(table_.rows());
    archive("rows", rows);
    auto const reading = reading_;
    TableInputs::state(archive);
    reading_ = reading;
    std::swap(classes, classes_);
    if (classes != classes_ || rows != static_cast<long>(table_.rows())) refuse_change(classes, rows);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
      commit(archive, [this, seen = inputs(table_)] {
        LoadingMode const mode;
        data_.copy_(seen);  // the loaders have this very tensor
      });
  }

 private:
  FULGURITE_COLD void refuse_change(std::vector<std::string> const& classes, long rows) const {
    auto const has = [](std::vector<std::string> const& names, std::size_t count) {
      std::string said = std::to_string(count) + " rows";
      for (auto const& name : names) said += (&name == &names.front() ? " and the classes " : ", ") + name;
      return said;
    };
    throw Error("fulgurite.data.table_changed",
                table_.name + ": the table has " + has(classes_, table_.rows()) +
                    ", and the checkpoint was trained on " + has(classes, static_cast<std::size_t>(rows)) +
                    ": give the same file, or restore what was learned from it by "
                    "data_state<data::TableInputs>(checkpoint), and encode rows by its inputs(file)");
  }
  /// What the base and the members are made from.
  struct Made {
    Table table;
    Split parts;
    TableInputs inputs;
    TensorSet set;
    Made(Table from, TableOptions const& options)
        : table(std::move(from)),
          parts(split(table.rows(), options.validation, options.seed)),
          inputs(TableEncoding(table, parts.train, options.target), table.column(options.target).labels,
                 reading_of(options.types, options.csv)),
          set{inputs.inputs(table), targets(table, options.target)} {}
  };
  TableModule(Made&& made, TableOptions const& options)
      : TensorModule<>(made.set, std::move(made.parts), loader_options(options)),
        TableInputs(std::move(made.inputs)),
        data_(made.set.data),
        table_(std::move(made.table)) {}

  /// Errors, with the line: [fulgurite.data.target] where one is missing, [fulgurite.data.too_large] where a float
  /// cannot hold it.
  FULGURITE_BULK static torch::Tensor targets(Table const& table, std::string const& name) {
    LoadingMode const mode;
    auto const& column = table.column(name);
    auto const rows = static_cast<std::int64_t>(table.rows());
    torch::Tensor made = column.is_number ? torch::empty({rows, 1}) : torch::empty({rows}, torch::kLong);
    for (std::size_t row = 0; row != table.rows(); ++row) {
      if (column.is_missing(row))
        throw Error("fulgurite.data.target", table.name + ": line " + std::to_string(table.lines[row]) + " has no '" +
                                                 name + "', which is to be predicted: remove the line");
      if (column.is_number) made.mutable_data_ptr<float>()[row] = as_float(column.numbers[row], table, column, row);
      else made.mutable_data_ptr<std::int64_t>()[row] = column.values[row];
    }
    return made;
  }

  torch::Tensor data_;
  Table table_;
};

/// Reads a file of comma-separated values, plain or compressed by gzip, and splits it by the seed. Errors: those of
/// read_csv, typed and Share, and fulgurite.data.target.
FULGURITE_BULK TableModule table(std::filesystem::path const& file, TableOptions const& options) {
  return {read_table(file, options.types, options.csv), options};
}

// Time steps as a model was trained to see them, and its predictions in the units of the series; a second program
// restores both from a checkpoint.

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

/// How a series is cut into windows, split in time and batched.
struct WindowOptions {
  long length = 32;                       ///< time steps that the model sees
  long horizon = 1;                       ///< time steps after them, to predict
  long stride = 1;                        ///< from the beginning of one window to that of the next
  std::vector<std::string> targets = {};  ///< columns to predict; none: all
  TableTypes types = {};                  ///< how the columns of a file are read
  CsvOptions csv = {};                    ///< separator, header, bounds of a file
  bool standardize = true;  ///< each column to mean 0 and deviation 1, as they are in the time steps of training
  Share validation = 0.2;   ///< the end of the series: a fraction or a count of its time steps
  long batch_size = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  ///< for training
  int workers = 0;         ///< these as in TensorLoaderOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
  bool pin_memory = false;
};

/// Batches of windows (float32, N x length x columns) and of what follows them (N x horizon x targets). No time step
/// of validation is in a window of training, nor the reverse. Means and deviations are learned from the time steps of
/// training alone and kept in checkpoints. Windows are views of one series, and only batches are copied.
class WindowModule : public TensorModule<>, public SeriesInputs {
 public:
  WindowModule(Series series, WindowOptions const& options) : WindowModule(Made(std::move(series), options), options) {}

  /// How files are read is what the options of this program say.
  void state(auto& archive) {
    auto const reading = reading_;
    SeriesInputs::state(archive);
    reading_ = reading;
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
      commit(archive, [this, seen = inputs(series_)] { show(seen); });
  }

 private:
  struct Made {
    Series series;
    Split parts;
    SeriesInputs inputs;
    torch::Tensor scaled, foretold;
    TensorSet set;
    Made(Series from, WindowOptions const& options)
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
      foretold = torch::empty({series.values.size(0), static_cast<std::int64_t>(targets.size())});
      inputs = {series.columns, std::move(standard), std::move(targets), reading_of(options.types, options.csv)};
      auto const windows = [&](torch::Tensor const& of, std::int64_t first, std::int64_t count) {
        return of.unfold(0, options.length + options.horizon, options.stride).narrow(2, first, count).transpose(1, 2);
      };
      set = {windows(scaled, 0, options.length), windows(foretold, options.length, options.horizon)};
    }
  };
  WindowModule(Made&& made, WindowOptions const& options)
      : TensorModule<>(made.set, std::move(made.parts), loader_options(options)),
        SeriesInputs(std::move(made.inputs)),
        series_(std::move(made.series)),
        scaled_(std::move(made.scaled)),
        foretold_(std::move(made.foretold)) {
    show(inputs(series_));
  }

  /// The series as the loaders see it, which have views of these very tensors.
  FULGURITE_BULK void show(torch::Tensor const& seen) {
    LoadingMode const mode;
    scaled_.copy_(seen);
    foretold_.copy_(seen.index_select(1, torch::tensor(targets_)));
  }

  /// Its time steps. Error [fulgurite.data.series] unless it has one or two dimensions on the CPU, and no value that is
  /// missing or infinite.
  FULGURITE_BULK static std::size_t checked(Series& series) {
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

  Series series_;
  torch::Tensor scaled_, foretold_;
};

/// Windows of a tensor: time steps x columns, which are called "0", "1", ..., or time steps alone.
inline WindowModule windows(torch::Tensor const& series, WindowOptions const& options) {
  return {{series, {}}, options};
}
/// The same of a table's columns of numbers; its rows are the time steps. Columns of text are left out. Errors: those
/// of read_table and Share, fulgurite.data.windows, .series and .column.
inline WindowModule windows(Table const& table, WindowOptions const& options) {
  return {SeriesInputs::series_of(table), options};
}
inline WindowModule windows(std::filesystem::path const& file, WindowOptions const& options) {
  return windows(read_table(file, options.types, options.csv), options);
}

}  // namespace fulgurite::data
