#pragma once
// A data module over a table: data::table("houses.csv", {.target = "price"}).

#include <chrono>
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
  TableInputs(TableEncoding encoding, std::vector<std::string> classes, TableReading reading);

  /// The names of the features, and of the classes where the target has some.
  std::vector<std::string> features() const { return encoding_.features(); }
  std::vector<std::string> const& classes() const { return classes_; }
  TableEncoding const& encoding() const { return encoding_; }

  /// The features of other rows: float32, rows x features. The target's column may be missing, and other columns are
  /// not read. Errors: those of read_csv, typed and TableEncoding::encode.
  torch::Tensor inputs(Table const& rows) const;
  torch::Tensor inputs(std::filesystem::path const& file) const;

  /// Loading into one that knows its columns, these have to be the same. Error [fulgurite.data.table_changed].
  void state(auto& archive);

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
  TableModule(Table table, TableOptions const& options);

  /// How files are read is what the options of this program say. Error [fulgurite.data.table_changed] where a run goes
  /// on with other classes, rows or columns.
  void state(auto& archive);

 private:
  void refuse_change(std::vector<std::string> const& classes, long rows) const;
  /// What the base and the members are made from.
  struct Made {
    Table table;
    Split parts;
    TableInputs inputs;
    TensorSet set;
    Made(Table from, TableOptions const& options);
  };
  TableModule(Made&& made, TableOptions const& options);

  /// Errors, with the line: [fulgurite.data.target] where one is missing, [fulgurite.data.too_large] where a float
  /// cannot hold it.
  static torch::Tensor targets(Table const& table, std::string const& name);

  torch::Tensor data_;
  Table table_;
};

/// Reads a file of comma-separated values, plain or compressed by gzip, and splits it by the seed. Errors: those of
/// read_csv, typed and Share, and fulgurite.data.target.
TableModule table(std::filesystem::path const& file, TableOptions const& options);

// Time steps as a model was trained to see them, and its predictions in the units of the series; a second program
// restores both from a checkpoint.

/// A series in memory: time steps x columns, float64 until it is standardised: float32 may lose differences of times.
struct Series {
  torch::Tensor values;
  std::vector<std::string> columns = {};
  std::string name = {};                ///< of its file
  std::vector<std::size_t> lines = {};  ///< where each time step stands in the file

  /// For Errors.
  std::string place(std::int64_t step, std::int64_t column) const;
};

/// What predictions need of a series: its columns, what they are standardised by, which of them are predicted, and how
/// its file is read. A WindowModule is one; `data_state<data::SeriesInputs>("last.safetensors")` restores it without
/// the series.
class SeriesInputs {
 public:
  SeriesInputs() = default;
  SeriesInputs(std::vector<std::string> columns, std::vector<Standardization> standard,
               std::vector<std::int64_t> targets, TableReading reading);

  std::vector<std::string> const& columns() const { return columns_; }
  std::vector<Standardization> const& standardization() const { return standard_; }

  /// Time steps x columns, float32, as the model sees them, of a series with these columns in any order; others are not
  /// read. Errors: [fulgurite.data.column] where one is missing, [fulgurite.data.series] for a value that is missing or
  /// that a float cannot hold.
  torch::Tensor inputs(Series const& series) const;
  torch::Tensor inputs(std::filesystem::path const& file) const;

  /// What the model predicts (..., targets), in the units of the series: float32, or float64 where these need it.
  torch::Tensor in_units(torch::Tensor const& predicted) const;

  /// The columns of numbers of a table, whose rows are time steps. Columns of text are left out.
  static Series series_of(Table const& table);
  /// Error [fulgurite.data.series] for that value, which is missing or too large.
  [[noreturn]] static void refuse(Series const& series, std::int64_t row, std::int64_t column);
  /// Error [fulgurite.data.column], with the columns that there are.
  static std::int64_t position(std::vector<std::string> const& columns, std::string const& name);

  /// Loading into one that knows its columns, these and the predicted ones have to be the same. Error
  /// [fulgurite.data.series_changed].
  void state(auto& archive);

 protected:
  std::vector<std::string> columns_;
  std::vector<Standardization> standard_;
  std::vector<std::int64_t> targets_;
  TableReading reading_;

 private:
  /// A float holds it without losing digits.
  static bool fits(double value);
  void refuse_change(std::vector<std::string> const& columns, std::vector<std::int64_t> const& targets) const;
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
  WindowModule(Series series, WindowOptions const& options);

  /// How files are read is what the options of this program say.
  void state(auto& archive);

 private:
  struct Made {
    Series series;
    Split parts;
    SeriesInputs inputs;
    torch::Tensor scaled, foretold;
    TensorSet set;
    Made(Series from, WindowOptions const& options);
  };
  WindowModule(Made&& made, WindowOptions const& options);

  /// The series as the loaders see it, which have views of these very tensors.
  void show(torch::Tensor const& seen);

  /// Its time steps. Error [fulgurite.data.series] unless it has one or two dimensions on the CPU, and no value that is
  /// missing or infinite.
  static std::size_t checked(Series& series);

  Series series_;
  torch::Tensor scaled_, foretold_;
};

/// Windows of a tensor: time steps x columns, which are called "0", "1", ..., or time steps alone.
WindowModule windows(torch::Tensor const& series, WindowOptions const& options);
/// The same of a table's columns of numbers; its rows are the time steps. Columns of text are left out. Errors: those
/// of read_table and Share, fulgurite.data.windows, .series and .column.
WindowModule windows(Table const& table, WindowOptions const& options);
WindowModule windows(std::filesystem::path const& file, WindowOptions const& options);

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/data/table.ipp>
#endif
