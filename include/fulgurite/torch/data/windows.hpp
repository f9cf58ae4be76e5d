#pragma once
// A data module over a time series: data::windows(series, {.length = 24, .horizon = 6}).

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/data/standardization.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/data/windows.hpp>
#include <fulgurite/torch/data/tensor_module.hpp>

namespace fulgurite::data {

/// How a series is cut into windows, split in time and batched.
struct WindowOptions {
  long length = 32;                       ///< time steps that the model sees
  long horizon = 1;                       ///< time steps after them, to foretell
  long stride = 1;                        ///< from the beginning of one window to that of the next
  std::vector<std::string> targets = {};  ///< columns to foretell; none: all
  TableTypes types = {};                  ///< how the columns of a file are read
  CsvOptions csv = {};                    ///< separator, header, bounds of a file
  bool standardize = true;  ///< each column to mean 0 and deviation 1, as they are in the time steps of training
  Share validation = 0.2;   ///< the end of the series: a fraction or a count of its time steps
  long batch_size = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  ///< for training
  bool pin_memory = false;
  int workers = 0;  ///< these as in TensorLoaderOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
};

/// A series in memory: time steps x columns, float64 until it is standardised: float32 may lose differences of times.
struct Series {
  torch::Tensor values;
  std::vector<std::string> columns;
};

/// Batches of windows (float32, N x length x columns) and of what follows them (N x horizon x targets). No time step
/// of validation is in a window of training, nor the reverse. Means and deviations are learned from the time steps of
/// training alone and kept in checkpoints. Windows are views of one series, and only batches are copied.
class WindowModule : public TensorModule<> {
 public:
  WindowModule(Series series, WindowOptions const& options) : WindowModule(Made(std::move(series), options), options) {}

  std::vector<Standardization> const& standardization() const { return standard_; }
  /// What the model foretells (..., targets), in the units of the series.
  FULGURITE_BULK torch::Tensor in_units(torch::Tensor const& foretold) const {
    auto const column = [&](auto member) {
      std::vector<float> all;
      for (auto const at : targets_) all.push_back(static_cast<float>(standard_[static_cast<std::size_t>(at)].*member));
      return torch::tensor(all).to(foretold.device());
    };
    return foretold * column(&Standardization::deviation) + column(&Standardization::mean);
  }

  void state(auto& archive) {
    auto saved = standard_;
    archive("columns", saved);
    if (saved.size() != standard_.size())
      throw Error("fulgurite.data.series_changed", "the checkpoint was trained on a series of " +
                                                       std::to_string(saved.size()) + " columns, and this one has " +
                                                       std::to_string(standard_.size()) + ": give the same series");
    standard_ = std::move(saved);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) commit(archive, [this] { fill(); });
  }

 private:
  struct Made {
    Series series;
    Split parts;
    std::vector<Standardization> standard;
    std::vector<std::int64_t> targets;
    torch::Tensor scaled, foretold;
    TensorSet set;
    Made(Series from, WindowOptions const& options)
        : series(std::move(from)),
          parts(split_windows(checked(series, options.standardize), {options.length, options.horizon, options.stride},
                              options.validation)) {
      LoadingMode const mode;
      auto const steps = static_cast<std::size_t>(series.values.size(0));
      std::size_t const learned = steps - options.validation.of(steps);
      auto const values = series.values.accessor<double, 2>();
      auto const learn = [&](std::int64_t c) {
        return standardization_of(learned, [&](std::size_t row) { return values[static_cast<std::int64_t>(row)][c]; });
      };
      for (std::int64_t c = 0; c != values.size(1); ++c)
        standard.push_back(options.standardize ? learn(c) : Standardization{});
      for (auto const& name : options.targets) targets.push_back(position(series, name));
      if (targets.empty())
        for (std::int64_t c = 0; c != values.size(1); ++c) targets.push_back(c);
      scaled = torch::empty(series.values.sizes(), torch::kFloat);
      foretold = torch::empty({series.values.size(0), static_cast<std::int64_t>(targets.size())});
      auto const windows = [&](torch::Tensor const& of, std::int64_t first, std::int64_t count) {
        return of.unfold(0, options.length + options.horizon, options.stride).narrow(2, first, count).transpose(1, 2);
      };
      set = {windows(scaled, 0, options.length), windows(foretold, options.length, options.horizon)};
    }
  };
  WindowModule(Made&& made, WindowOptions const& options)
      : TensorModule<>(made.set, std::move(made.parts), loader_options(options)),
        values_(std::move(made.series.values)),
        scaled_(std::move(made.scaled)),
        foretold_(std::move(made.foretold)),
        standard_(std::move(made.standard)),
        targets_(std::move(made.targets)) {
    fill();
  }

  /// The series as the loaders see it, which have views of these very tensors.
  FULGURITE_BULK void fill() {
    LoadingMode const mode;
    auto const from = values_.accessor<double, 2>();
    auto to = scaled_.accessor<float, 2>();
    for (std::int64_t row = 0; row != values_.size(0); ++row)
      for (std::int64_t c = 0; c != values_.size(1); ++c)
        to[row][c] = static_cast<float>(standard_[static_cast<std::size_t>(c)](from[row][c]));
    foretold_.copy_(scaled_.index_select(1, torch::tensor(targets_)));
  }

  /// Its time steps. Error [fulgurite.data.series] unless it has one or two dimensions on the CPU, and no value that is
  /// missing or, as it is given to the model, too large.
  FULGURITE_BULK static std::size_t checked(Series& series, bool standardize) {
    LoadingMode const mode;
    auto& values = series.values;
    if (!values.defined() || values.dim() < 1 || values.dim() > 2 || values.numel() == 0 || !values.is_cpu())
      throw Error("fulgurite.data.series",
                  "a series is a tensor on the CPU of time steps x columns, or of time steps: give such a one");
    values = values.to(torch::kDouble).contiguous();
    if (values.dim() == 1) values = values.unsqueeze(1);
    for (std::int64_t c = 0; series.columns.size() < static_cast<std::size_t>(values.size(1)); ++c)
      series.columns.push_back(std::to_string(c));
    auto const finite = torch::isfinite(standardize ? values : values.to(torch::kFloat)).all(1);
    if (!finite.all().item<bool>())
      throw Error("fulgurite.data.series",
                  "the series has a value that is missing, or no finite number, at time step " +
                      std::to_string(finite.logical_not().nonzero()[0][0].item<std::int64_t>()) +
                      ": fill it, as with the value before it");
    return static_cast<std::size_t>(values.size(0));
  }
  FULGURITE_BULK static std::int64_t position(Series const& series, std::string const& name) {
    auto const at = std::ranges::find(series.columns, name);
    if (at != series.columns.end()) return at - series.columns.begin();
    std::string all;
    for (auto const& column : series.columns) (all += all.empty() ? "" : ", ") += column;
    throw Error("fulgurite.data.column",
                "there is no column '" + name + "' to foretell: the series has " + all + "; name one of them");
  }

  torch::Tensor values_, scaled_, foretold_;
  std::vector<Standardization> standard_;
  std::vector<std::int64_t> targets_;
};

/// Windows of a tensor: time steps x columns, which are called "0", "1", ..., or time steps alone.
inline WindowModule windows(torch::Tensor const& series, WindowOptions const& options) {
  return {{series, {}}, options};
}
/// The same of a table's columns of numbers; its rows are the time steps. Columns of text are left out. Errors: those
/// of read_table and Share, fulgurite.data.windows, .series and .column.
FULGURITE_BULK WindowModule windows(Table const& table, WindowOptions const& options) {
  Series series;
  std::vector<double> all;
  for (auto const& column : table.columns)
    if (column.is_number) series.columns.push_back(column.name);
  for (std::size_t row = 0; row != table.rows(); ++row)
    for (auto const& column : table.columns)
      if (column.is_number) all.push_back(column.numbers[row]);
  series.values =
      torch::tensor(all, torch::kDouble)
          .view({static_cast<std::int64_t>(table.rows()), static_cast<std::int64_t>(series.columns.size())});
  return {std::move(series), options};
}
inline WindowModule windows(std::filesystem::path const& file, WindowOptions const& options) {
  return windows(read_table(file, options.types, options.csv), options);
}

}  // namespace fulgurite::data
