#pragma once
// What a search for a batch size has found, and what it has measured on the way.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/text_table.hpp>

namespace fulgurite::tune {

/// One size that was tried.
struct BatchSizeTrial {
  long size = 0;
  bool fits = true;                                       ///< else memory ended
  std::optional<double> seconds_per_step = std::nullopt;  ///< nothing where no clock ran
  std::optional<double> samples_per_second = std::nullopt;
  std::optional<double> peak_bytes = std::nullopt;  ///< of the device; on the CPU: of the process
};

/// The result of tune::scale_batch_size. `size` is the largest that fits, and was written; it is rarely much faster
/// than the first that is fast, which `fastest()` names: a smaller batch makes more steps of the same epoch.
struct FoundBatchSize {
  long size = 0;
  bool searched = true;  ///< false in a fast_dev_run, which has nothing to search
  std::vector<BatchSizeTrial> trials{};

  /// The size with the most samples a second; nothing where none was timed.
  std::optional<long> fastest() const {
    BatchSizeTrial const* best = nullptr;
    for (auto const& trial : trials)
      if (trial.samples_per_second && (best == nullptr || *trial.samples_per_second > *best->samples_per_second))
        best = &trial;
    return best == nullptr ? std::nullopt : std::optional(best->size);
  }

  /// A line for each trial.
  std::string table() const {
    report::TextTable table{{{.title = "batch size"},
                             {.title = "s/step"},
                             {.title = "samples/s"},
                             {.title = "peak memory"},
                             {.title = ""}}};
    for (auto const& trial : trials)
      table.add({std::to_string(trial.size), text(trial.seconds_per_step, "%.6f"),
                 text(trial.samples_per_second, "%.0f"),
                 trial.peak_bytes ? report::bytes_text(static_cast<std::int64_t>(*trial.peak_bytes)) : "",
                 !trial.fits               ? "out of memory"
                 : trial.size == fastest() ? "fastest"
                                           : ""});
    return table.text();
  }
  /// The same for programs: batch_size,fits,seconds_per_step,samples_per_second,peak_bytes.
  std::string csv() const {
    std::string all = "batch_size,fits,seconds_per_step,samples_per_second,peak_bytes\n";
    for (auto const& trial : trials) {
      all += std::to_string(trial.size) + (trial.fits ? ",1," : ",0,");
      all += exact(trial.seconds_per_step) + ',' + exact(trial.samples_per_second) + ',' + exact(trial.peak_bytes);
      all += '\n';
    }
    return all;
  }
  /// Samples a second over the sizes, with the found and the fastest one marked.
  report::Plot plot() const {
    auto sorted = trials;
    std::erase_if(sorted, [](auto const& trial) { return !trial.samples_per_second; });
    std::ranges::sort(sorted, {}, &BatchSizeTrial::size);
    report::Plot plot{.title = "Batch sizes",
                      .x = {.name = "batch size", .scale = report::Scale::log2},
                      .y = {.name = "samples per second"},
                      .curves = {{}}};
    for (auto const& trial : sorted) {
      plot.curves[0].x.push_back(static_cast<double>(trial.size));
      plot.curves[0].y.push_back(*trial.samples_per_second);
      std::string words = trial.size == fastest() ? "fastest: " : trial.size == size ? "found: " : "";
      if (!words.empty())
        plot.marks.push_back(
            {.x = plot.curves[0].x.back(), .y = plot.curves[0].y.back(), .label = words += std::to_string(trial.size)});
    }
    return plot;
  }
  /// Writes the numbers where the name ends in .csv, else the plot, as .svg or .txt. Errors: [fulgurite.file.write],
  /// [fulgurite.report.plot_name].
  void save(std::filesystem::path const& file) const {
    if (file.extension() == ".csv") write_durably(file, csv());
    else plot().save(file);
  }

 private:
  static std::string text(std::optional<double> const& value, char const* format) {
    return value ? report::formatted(format, *value) : "";
  }
  static std::string exact(std::optional<double> const& value) { return value ? report::exact(*value) : ""; }
};

}  // namespace fulgurite::tune
