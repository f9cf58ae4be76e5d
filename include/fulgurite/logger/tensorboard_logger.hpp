#pragma once
// Writes metrics, histograms, pictures and texts to a file that TensorBoard shows, without TensorFlow or Protocol
// Buffers: <save_dir>/lightning_logs/version_N/events.out.tfevents.*.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/logger/event_file.hpp>
#include <fulgurite/logger/event_messages.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/histogram.hpp>
#include <fulgurite/logger/png.hpp>
#include <fulgurite/report/model_table.hpp>

namespace fulgurite {

/// Which folder below save_dir belongs to the run, what is logged, and under which names.
struct TensorBoardLoggerOptions {
  std::string name = "lightning_logs";  ///< a folder below save_dir, or several ("mlp/wide"); "" is save_dir itself
  std::optional<long> version = std::nullopt;  ///< not given: a new one, or that of the loggers before this one
  std::string prefix = "";                     ///< "a" turns "loss" into "a-loss"
  bool log_graph = false;                      ///< the table of the model's modules, as the text "model"
  double (*now)() = &logger::wall_seconds;     ///< seconds since 1970, for the times in the file
};

/// `TensorBoardLogger{}`, `TensorBoardLogger{"runs", {.name = "mlp"}}`; then `tensorboard --logdir runs`. Each row is
/// one record with a checksum, handed to the kernel before the call returns: a process that is killed leaves a file
/// that is read to its last whole record. A metric "train/loss" stands in the group "train". Metrics and
/// hyper-parameters come by themselves; pictures, histograms and texts are logged by you, through
/// `trainer.callback<TensorBoardLogger>()`. Folders, versions and going on are as CSVLogger has them: a run that goes
/// on from a file does so in its event file, from which records are cut that were written after that file. Only rank 0
/// writes.
class TensorBoardLogger : public logger::FolderLogger<logger::EventFile, logger::EventClock> {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_start, hook::before_save>;

  explicit TensorBoardLogger(std::filesystem::path save_dir = {}, TensorBoardLoggerOptions options = {})
      : FolderLogger(std::move(save_dir), {std::move(options.name), options.version, std::move(options.prefix)},
                     {options.now}),
        log_graph_(options.log_graph) {
    if (options.now == nullptr)
      throw Error("fulgurite.logger.clock", "TensorBoardLogger: now is null: give a function that tells the seconds "
                                            "since 1970, or leave it out");
  }

  void on_fit_start(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    if (!log_graph_ || goes_on() || !writes("log_graph")) return;
    if constexpr (requires { Backend::summarize(ctx.model(), -1); }) {
      std::vector<report::ModelRow> const rows = Backend::summarize(ctx.model(), -1);
      std::string text = "    ";  // Markdown sets in a fixed width what is indented by four
      for (char const c : report::model_table(rows)) (text += c) += c == '\n' ? "    " : "";
      log_text("model", text, 0);
    } else {
      throw Error("fulgurite.logger.no_table",
                  "TensorBoardLogger: log_graph is set, and this tensor library cannot list a model's modules: leave "
                  "it out");
    }
  }

  /// How values are spread: a range of numbers, such as a layer's weights. What is not finite is counted, and logged as
  /// TAG/not_finite. Error [fulgurite.logger.histogram] where there is no value at all.
  template <std::ranges::input_range Values>
    requires std::convertible_to<std::ranges::range_value_t<Values>, double>
  void log_histogram(std::string_view tag, Values const& values, long step) {
    if (!writes("log_histogram")) return;
    std::vector<double> all;
    for (auto const& value : values) all.push_back(static_cast<double>(value));
    if (all.empty())
      throw Error("fulgurite.logger.histogram",
                  "log_histogram: there is no value to be counted for '" + std::string(tag) + "': give at least one");
    log(logger::event::histogram(prefixed(tag), logger::histogram(all)), step);
  }
  /// A picture: height x width x channels bytes, with 1 (grey), 2 (and alpha), 3 (red, green, blue) or 4 channels.
  void log_image(std::string_view tag, std::span<std::uint8_t const> pixels, logger::PixelShape shape, long step) {
    if (writes("log_image")) log(logger::event::image(prefixed(tag), pixels, shape), step);
  }
  /// A text, in Markdown.
  void log_text(std::string_view tag, std::string_view text, long step) {
    if (writes("log_text")) log(logger::event::text(prefixed(tag), text), step);
  }

 private:
  void log(std::string_view values, long step) {
    write([&](logger::EventFile& file) { file.add_values(values, step); });
  }

  bool log_graph_;
};

}  // namespace fulgurite
