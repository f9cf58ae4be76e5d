#pragma once
// A data module over a table: data::table("houses.csv", {.target = "price"}).

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

// The features of rows as the model was trained on them; another program can restore them from a checkpoint.

/// What predictions need to know about a table: how its columns become features, which classes the target has, and how
/// its file is read. A TableModule is one; another program restores it from a checkpoint, without the table:
///
///     auto const houses = data_state<data::TableInputs>("last.safetensors");
///     auto const prices = model.forward(houses.inputs("new_houses.csv"));
class TableInputs {
 public:
  TableInputs() = default;
  TableInputs(TableEncoding encoding, std::vector<std::string> classes, Standardization of_target,
              TableReading reading);

  /// The names of the features, and the classes if the target is a category.
  std::vector<std::string> features() const { return encoding_.features(); }
  std::vector<std::string> const& classes() const { return classes_; }
  TableEncoding const& encoding() const { return encoding_; }

  /// The features of other rows: float32, rows x features. The target's column may be missing, and other columns are
  /// ignored. Errors: those of read_csv, typed and TableEncoding::encode.
  torch::Tensor inputs(Table const& rows) const;
  torch::Tensor inputs(std::filesystem::path const& file) const;

  /// Converts predictions of a target that was standardised to its units, `houses.in_units(model.forward(rows))`:
  /// float32, or float64 if the predictions are or the values need it. Others stay as they are.
  torch::Tensor in_units(torch::Tensor const& predicted) const;

  /// Loading into an object that has columns already requires the same ones. Throws [fulgurite.data.table_changed].
  void state(auto& archive);

 protected:
  TableEncoding encoding_;
  std::vector<std::string> classes_;
  Standardization of_target_;
  TableReading reading_;
};

/// The name of a column; in a file without a header, its number.
struct ColumnName : std::string {
  using std::string::string;
  ColumnName(std::string const& name) : std::string(name) {}
  template <std::integral Number>
    requires(!std::same_as<Number, bool> && !std::same_as<Number, char>)
  ColumnName(Number number) : std::string(std::to_string(number)) {}
};

/// Which column of a table is predicted, how its columns are read, and how it is split and batched.
struct TableOptions {
  ColumnName target = {};           ///< the column to predict: numbers, or categories, which become classes
  TableTypes types = {};            ///< which columns are categories or left out, and how missing values are written
  CsvOptions csv = {};              ///< separator, header, bounds
  bool standardize_target = false;  ///< scale a target of numbers to mean 0 and deviation 1 over the training rows
  Share validation = 0.2;           ///< a fraction or a count of the rows, drawn by the seed
  long batch_size = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the split and the shuffle
  bool drop_last = false;  ///< drop a last training batch with fewer samples
  int workers = 0;
  int prefetch = 2;
  bool persistent_workers = true;
  Timeout timeout = {};
  bool pin_memory = false;
};

/// A data module over a table. Batches have features (float32, N x features) and targets: N x 1 float32 if the target
/// is a number, N int64 if it is a category. Standardisations and categories are fitted on the training rows only and
/// saved in checkpoints: a resumed run, and predictions on other rows by `inputs`, use the encoding of the training. A
/// program without the table restores a TableInputs.
class TableModule : public TensorModule<>, public TableInputs {
 public:
  TableModule(Table table, TableOptions const& options);

  /// The options for reading files are those of this program. Throws [fulgurite.data.table_changed] if a run is resumed
  /// with other classes, rows or columns.
  void state(auto& archive);

 private:
  void refuse_change(std::vector<std::string> const& classes, long rows) const;
  /// The arguments for the base and the members.
  struct Made {
    Table table;
    Split parts;
    Standardization of_target;
    TableInputs inputs;
    TensorSet set;
    Made(Table from, TableOptions const& options);
  };
  TableModule(Made&& made, TableOptions const& options);

  /// Errors, with the line: [fulgurite.data.target] for a missing target, [fulgurite.data.too_large] for one that a
  /// float cannot hold.
  static torch::Tensor targets(Table const& table, std::string const& name, Standardization const& standard);
  /// The standardisation that the options ask for. Throws [fulgurite.data.target] for that of categories.
  static Standardization learned(Table const& table, Split const& parts, TableOptions const& options);

  torch::Tensor data_, target_;
  std::string target_name_;
  Table table_;
};

/// Reads a file of comma-separated values, plain or compressed by gzip, and splits it by the seed:
/// `data::table("houses.csv", {.target = "price"})`. Errors: as read_csv, typed and Share; fulgurite.data.target.
TableModule table(std::filesystem::path const& file, TableOptions const& options);

// Time steps as the model was trained on them, and its predictions in the units of the series; another program can
// restore both from a checkpoint.

/// A series in memory: time steps x columns. It is float64 until it is standardised, since float32 may lose differences
/// of times.
struct Series {
  torch::Tensor values;
  std::vector<std::string> columns = {};
  std::string name = {};                ///< the name of its file
  std::vector<std::size_t> lines = {};  ///< the line of each time step in the file

  /// The file and line of a value, for Errors.
  std::string place(std::int64_t step, std::int64_t column) const;
};

/// What predictions need to know about a series: its columns, their standardisation, which of them are predicted, and
/// how its file is read. A WindowModule is one; `data_state<data::SeriesInputs>("last.safetensors")` restores it from a
/// checkpoint without the series.
class SeriesInputs {
 public:
  SeriesInputs() = default;
  SeriesInputs(std::vector<std::string> columns, std::vector<Standardization> standard,
               std::vector<std::int64_t> targets, TableReading reading);

  std::vector<std::string> const& columns() const { return columns_; }
  std::vector<Standardization> const& standardization() const { return standard_; }

  /// The model's input (time steps x columns, float32) for a series with these columns in any order; other columns are
  /// ignored. Throws [fulgurite.data.column] if a column is missing, [fulgurite.data.series] for a value that is
  /// missing or that a float cannot hold.
  torch::Tensor inputs(Series const& series) const;
  torch::Tensor inputs(std::filesystem::path const& file) const;

  /// Converts predictions (..., targets) to the units of the series, `load.in_units(model.forward(batch.data))`:
  /// float32, or float64 if the predictions are or the values need it.
  torch::Tensor in_units(torch::Tensor const& predicted) const;

  /// The numeric columns of a table, whose rows are time steps. Columns of text are left out.
  static Series series_of(Table const& table);
  /// Throws [fulgurite.data.series] for this value, which is missing or too large.
  [[noreturn]] static void refuse(Series const& series, std::int64_t row, std::int64_t column);
  /// Throws [fulgurite.data.column], with a list of the existing columns.
  static std::int64_t position(std::vector<std::string> const& columns, std::string const& name);

  /// Loading into an object that has columns already requires the same columns and the same predicted ones. Throws
  /// [fulgurite.data.series_changed].
  void state(auto& archive);

 protected:
  std::vector<std::string> columns_;
  std::vector<Standardization> standard_;
  std::vector<std::int64_t> targets_;
  TableReading reading_;

 private:
  void refuse_change(std::vector<std::string> const& columns, std::vector<std::int64_t> const& targets) const;
};

/// How a series is cut into windows, split by time and batched.
struct WindowOptions {
  long length = 32;                       ///< time steps in the input
  long horizon = 1;                       ///< time steps after the input, to predict
  long stride = 1;                        ///< time steps from the start of one window to the start of the next
  std::vector<std::string> targets = {};  ///< columns to predict; empty: all
  TableTypes types = {};                  ///< how the columns of a file are read
  CsvOptions csv = {};                    ///< separator, header, bounds for a file
  bool standardize = true;                ///< scale each column to mean 0 and deviation 1 over the training steps
  Share validation = 0.2;                 ///< the end of the series: a fraction or a count of its time steps
  long batch_size = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the shuffle
  bool drop_last = false;  ///< drop a last training batch with fewer samples
  int workers = 0;
  int prefetch = 2;
  bool persistent_workers = true;
  Timeout timeout = {};
  bool pin_memory = false;
};

/// A data module over a time series. Batches have windows (float32, N x length x columns) and the steps after them (N x
/// horizon x targets). No time step is in windows of both training and validation. Means and deviations are fitted on
/// the training steps only and saved in checkpoints. Windows are views of one series; only batches are copied.
class WindowModule : public TensorModule<>, public SeriesInputs {
 public:
  WindowModule(Series series, WindowOptions const& options);

  /// The options for reading files are those of this program.
  void state(auto& archive);

 private:
  struct Made {
    Series series;
    Split parts;
    SeriesInputs inputs;
    torch::Tensor scaled, forecast;
    TensorSet set;
    Made(Series from, WindowOptions const& options);
  };
  WindowModule(Made&& made, WindowOptions const& options);

  /// Writes the standardised series into the tensors of which the loaders have views.
  void show(torch::Tensor const& seen);

  /// The number of time steps. Throws [fulgurite.data.series] unless the series has one or two dimensions, is on the
  /// CPU, and has no missing or infinite value.
  static std::size_t checked(Series& series);

  Series series_;
  torch::Tensor scaled_, forecast_;
};

/// Windows of a tensor: time steps x columns, named "0", "1", ..., or only time steps: `data::windows(series, {.length
/// = 32, .horizon = 4})`.
WindowModule windows(torch::Tensor const& series, WindowOptions const& options);
/// Windows of a table's numeric columns; its rows are the time steps. Columns of text are left out. Errors: those of
/// read_table and Share, fulgurite.data.windows, .series and .column.
WindowModule windows(Table const& table, WindowOptions const& options);
WindowModule windows(std::filesystem::path const& file, WindowOptions const& options);

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/data/table.ipp>
#endif
