#pragma once
// A data module over a table: data::table("houses.csv", {.target = "price"}).

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/data/split.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/data/table_encoding.hpp>
#include <fulgurite/torch/data/table_inputs.hpp>
#include <fulgurite/torch/data/tensor_module.hpp>

namespace fulgurite::data {

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

}  // namespace fulgurite::data
