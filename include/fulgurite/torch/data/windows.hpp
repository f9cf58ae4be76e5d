#pragma once
// A data module over a time series: data::windows(series, {.length = 24, .horizon = 6}).

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
#include <fulgurite/torch/data/buffers.hpp>
#include <fulgurite/torch/data/series_inputs.hpp>
#include <fulgurite/torch/data/tensor_module.hpp>

namespace fulgurite::data {

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
