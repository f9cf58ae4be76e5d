#pragma once
// A data module over a table: data::table("houses.csv", {.target = "price"}).

#include <algorithm>
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
#include <fulgurite/torch/data/tensor_module.hpp>

namespace fulgurite::data {

/// What of a table is foretold, how its columns are read, and how it is split and batched.
struct TableOptions {
  std::string target = {};  ///< the column to foretell: numbers, or categories, which are then classes
  TableTypes types = {};    ///< which columns are categories, which are left out, how missing values are written
  CsvOptions csv = {};      ///< separator, header, bounds
  Share validation = 0.2;   ///< a fraction or a count of the rows, drawn by the seed
  long batch_size = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the split and the shuffle
  bool drop_last = false;  ///< for training
  bool pin_memory = false;
  int workers = 0;  ///< these as in TensorLoaderOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
};

/// Batches of features (float32, N x features) and targets: N x 1 float32 where the target is a number, N int64 where
/// it is a category. What columns are standardised by, and which categories there are, is learned from the training
/// rows alone and kept in checkpoints: a model that goes on, or is used on other rows by `inputs`, sees what it was
/// trained on.
class TableModule : public TensorModule<> {
 public:
  TableModule(Table table, TableOptions const& options) : TableModule(Made(std::move(table), options), options) {}

  /// The names of the features, and of the classes where the target has some.
  std::vector<std::string> features() const { return encoding_.features(); }
  std::vector<std::string> const& classes() const { return classes_; }
  TableEncoding const& encoding() const { return encoding_; }

  /// The features of other rows, as the model has learned to see them. The target's column may be missing.
  torch::Tensor inputs(Table const& rows) const { return encoded(encoding_, rows); }
  FULGURITE_BULK torch::Tensor inputs(std::filesystem::path const& file) const {
    TableTypes types = types_;
    auto const text = read_csv(file, csv_);
    for (auto const& column : encoding_.columns())
      if (!column.is_number) types.categories.push_back(column.name);
    for (auto* names : {&types.categories, &types.leave_out})
      std::erase_if(*names,
                    [&](auto const& name) { return std::ranges::find(text.columns, name) == text.columns.end(); });
    return inputs(typed(text, types));
  }

  /// Error [fulgurite.data.table_changed] where a run goes on with other classes, rows or columns.
  void state(auto& archive) {
    auto classes = classes_;
    auto rows = static_cast<long>(table_.rows());
    archive("classes", classes)("rows", rows);
    if (classes != classes_ || rows != static_cast<long>(table_.rows())) refuse_change(classes, rows);
    archive.child("encoding", encoding_);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
      commit(archive, [this] {
        LoadingMode const mode;
        data_.copy_(encoded(encoding_, table_));  // the loaders have this very tensor
      });
  }

 private:
  FULGURITE_COLD void refuse_change(std::vector<std::string> const& classes, long rows) const {
    auto const has = [](std::vector<std::string> const& names, std::size_t count) {
      std::string said = std::to_string(count) + " rows";
      for (auto const& name : names) said += (&name == &names.front() ? " and the classes " : ", ") + name;
      return said;
    };
    throw Error("fulgurite.data.table_changed", table_.name + ": the table has " + has(classes_, table_.rows()) +
                                                    ", and the checkpoint was trained on " +
                                                    has(classes, static_cast<std::size_t>(rows)) +
                                                    ": give the same file, and see other rows by inputs(file)");
  }
  /// What the base and the members are made from.
  struct Made {
    Table table;
    Split parts;
    TableEncoding encoding;
    TensorSet set;
    Made(Table from, TableOptions const& options)
        : table(std::move(from)),
          parts(split(table.rows(), options.validation, options.seed)),
          encoding(table, parts.train, options.target),
          set{encoded(encoding, table), targets(table, options.target)} {}
  };
  TableModule(Made&& made, TableOptions const& options)
      : TensorModule<>(made.set, std::move(made.parts), loader_options(options)),
        data_(made.set.data),
        classes_(made.table.column(options.target).labels),
        encoding_(std::move(made.encoding)),
        types_(options.types),
        csv_(options.csv),
        table_(std::move(made.table)) {}

  FULGURITE_BULK static torch::Tensor encoded(TableEncoding const& encoding, Table const& table) {
    LoadingMode const mode;
    torch::Tensor made =
        torch::empty({static_cast<std::int64_t>(table.rows()), static_cast<std::int64_t>(encoding.width())});
    encoding.encode(table, made.mutable_data_ptr<float>());
    return made;
  }

  /// Error [fulgurite.data.target], with the line, where one is missing.
  FULGURITE_BULK static torch::Tensor targets(Table const& table, std::string const& name) {
    LoadingMode const mode;
    auto const& column = table.column(name);
    auto const rows = static_cast<std::int64_t>(table.rows());
    torch::Tensor made = column.is_number ? torch::empty({rows, 1}) : torch::empty({rows}, torch::kLong);
    for (std::size_t row = 0; row != table.rows(); ++row) {
      if (column.is_missing(row))
        throw Error("fulgurite.data.target", table.name + ": line " + std::to_string(table.lines[row]) + " has no '" +
                                                 name + "', which is to be foretold: remove the line");
      if (column.is_number) made.mutable_data_ptr<float>()[row] = static_cast<float>(column.numbers[row]);
      else made.mutable_data_ptr<std::int64_t>()[row] = column.values[row];
    }
    return made;
  }

  torch::Tensor data_;
  std::vector<std::string> classes_;
  TableEncoding encoding_;
  TableTypes types_;
  CsvOptions csv_;
  Table table_;
};

/// Reads a file of comma-separated values, plain or compressed by gzip, and splits it by the seed. Errors: those of
/// read_csv, typed and Share, and fulgurite.data.target.
FULGURITE_BULK TableModule table(std::filesystem::path const& file, TableOptions const& options) {
  return {read_table(file, options.types, options.csv), options};
}

}  // namespace fulgurite::data
