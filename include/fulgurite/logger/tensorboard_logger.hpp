#pragma once
// Writes metrics, histograms, images and texts to an event file for TensorBoard, without TensorFlow or Protocol
// Buffers, in `<save_dir>/lightning_logs/version_N`.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/checkpoint/zip_archive.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::logger {

// The distribution of values: counts in buckets of equal width, as TensorBoard draws them.

/// Counts of finite values in buckets; other values are counted separately.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_of_squares = 0;
  std::size_t finite = 0, not_finite = 0;
  std::vector<double> limits{};  ///< the upper end of each bucket; the first one begins at min
  std::vector<double> counts{};  ///< one count for each bucket
};

/// The histogram of these values; the last bucket includes its upper end. If all values are equal there is one bucket.
Histogram histogram(std::span<double const> values, std::size_t buckets = 30);

// Encodes pixels as a PNG file, compressed by zlib.

/// How the pixels of an image are stored: row by row, with the channels of a pixel next to each other.
struct PixelShape {
  std::size_t height = 0, width = 0;
  std::size_t channels = 1;  ///< 1: grey; 2: grey and alpha; 3: red, green, blue; 4: red, green, blue and alpha
};

/// A number with its highest byte first.
std::string big_endian(std::size_t value);

/// A chunk of a PNG file: its length, its kind, its bytes, and the checksum of kind and bytes.
std::string png_chunk(std::string_view kind, std::string_view bytes);

/// An image with 8 bits a channel. Throws [fulgurite.logger.image] if the number of pixels is not that of the shape, is
/// zero, or is too large for one file.
std::string png_file(std::span<std::uint8_t const> pixels, PixelShape const& shape);

namespace event {

// The messages inside of an event, field by field, as TensorBoard's plugins read them. The field numbers are those of
// TensorFlow's event.proto, summary.proto and tensor.proto, and of the hparams plugin.

/// The first event of each file, which states the version of the format.
std::string version(double wall_time);

/// An event with values, which are concatenated results of the functions below.
std::string summary(double wall_time, long step, std::string_view values);

/// A number, in single precision, which is all that TensorBoard has.
std::string scalar(std::string_view tag, double number);

/// A text, which TensorBoard shows as Markdown.
std::string text(std::string_view tag, std::string_view text);

/// A histogram. The number of values that are not finite is logged as TAG/not_finite.
std::string histogram(std::string_view tag, Histogram const& all);

/// An image.
std::string image(std::string_view tag, std::span<std::uint8_t const> pixels, PixelShape const& shape);

/// The hyper-parameters of a run, for TensorBoard's tab "HParams".
std::string hyperparameters(double wall_time, std::vector<Hyperparameter> const& all);

}  // namespace event

// The records of a TensorBoard event file. Each has its length and checksums of the length and of the event, so that a
// reader can see whether a record is complete.

/// The format of event files: length (8 bytes), its checksum (4), the event, its checksum (4). Numbers are little
/// endian.
struct EventRecord {
  static constexpr std::size_t head = 12, around = 16;

  /// An event as a record.
  static std::string of(std::string_view event);

  /// The record that begins at `at`; nullopt if it is not complete.
  static std::optional<JournalEntry> next(FileWindow& file, std::uint64_t at, std::uint64_t size);

  /// True if the bytes at `at`, which are not a complete record, are the beginning of one that was not written to its
  /// end.
  static bool is_torn(FileWindow& file, std::uint64_t at, std::uint64_t size);

 private:
  /// The length of the event in a record; nullopt if there is none.
  static std::optional<std::uint64_t> length_at(FileWindow& file, std::uint64_t at, std::uint64_t size);
  /// True if the first value of the event's summary is a plain number: only rows are written that way.
  static bool is_row(std::string_view event);
};

// The event file in a run's folder, to which rows, texts and images are added.

/// Seconds since 1970, for the time of each event.
double wall_seconds();

/// The source of an event file's times.
struct EventClock {
  double (*now)() = &wall_seconds;
};

/// `events.out.tfevents.<seconds>.<host>.<process>.0.fulgurite`. If the folder has such a file, it is continued; files
/// of other programs are left alone, and TensorBoard shows both.
class EventFile : public Journal<EventRecord> {
 public:
  static constexpr std::string_view owner = "TensorBoardLogger", lock = ".tensorboard.lock";

  EventFile(std::filesystem::path const& folder, EventClock const& clock);

  /// Writes a row as one record, so a reader has all of it or nothing.
  void add(std::vector<Cell> const& cells);
  void write_hyperparameters(std::vector<Hyperparameter> const& all);

  /// Adds one event, with the values of a summary.
  void add_values(std::string_view values, long step);

 private:
  double (*now_)();
};

FULGURITE_FOLDER_LOGGER(EXTERN, EventFile, EventClock);

}  // namespace fulgurite::logger

namespace fulgurite {

/// Options of TensorBoardLogger: which folder below save_dir belongs to the run, what is logged, and under which names.
struct TensorBoardLoggerOptions {
  std::string name = "lightning_logs";  ///< a folder below save_dir, or several ("mlp/wide"); "" is save_dir itself
  std::optional<long> version = std::nullopt;  ///< not given: a new version, or that of the loggers before this one
  std::string prefix = "";                     ///< a prefix for names: "a" turns "loss" into "a-loss"
  bool log_graph = false;                      ///< log the table of the model's modules, as the text "model"
  double (*now)() = &logger::wall_seconds;     ///< seconds since 1970, for the times in the file
  // Refused, and last, so that a compiler prints its sentence first.
  [[no_unique_address]] elsewhere::SaveDir save_dir = {};  ///< the first argument
};

/// Logs to TensorBoard: `TensorBoardLogger{}`, `TensorBoardLogger{"runs", {.name = "mlp"}}`; then `tensorboard --logdir
/// runs`. Each row is one record with a checksum, handed to the kernel before the call returns: if the process is
/// killed, the file can be read up to its last complete record. A metric "train/loss" is shown in the group "train".
/// Metrics and hyper-parameters are logged automatically; images, histograms and texts are logged by your code:
///
///     trainer.callback<TensorBoardLogger>().log_text("note", "**baseline**", 0);
///
/// Folders, versions and resuming are as for CSVLogger: a resumed run continues its event file, from which records that
/// were written after the checkpoint are cut. Only rank zero writes.
class TensorBoardLogger : public logger::FolderLogger<logger::EventFile, logger::EventClock> {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_start, hook::before_save>;

  explicit TensorBoardLogger(std::filesystem::path save_dir = {}, TensorBoardLoggerOptions options = {});
  explicit TensorBoardLogger(TensorBoardLoggerOptions const& options) : TensorBoardLogger({}, options) {}
  FULGURITE_NAMED_OPTIONS(TensorBoardLogger, std::filesystem::path const&);
  FULGURITE_MOVES(TensorBoardLogger);

  void on_fit_start(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    if (!log_graph_ || is_resumed() || !writes("log_graph")) return;
    if constexpr (requires { Backend::summarize(ctx.model(), -1); }) {
      std::vector<report::ModelRow> const rows = Backend::summarize(ctx.model(), -1);
      std::string text = "    ";  // Markdown sets lines indented by four spaces in a fixed width
      for (char const c : report::model_table(rows)) (text += c) += c == '\n' ? "    " : "";
      log_text("model", text, 0);
    } else {
      throw Error("fulgurite.logger.no_table",
                  "TensorBoardLogger: log_graph is set, and this tensor library cannot list a model's modules: leave "
                  "it out");
    }
  }

  /// Logs the distribution of a range of numbers, such as a layer's weights: `log_histogram("fc1", weights, step)`.
  /// Values that are not finite are counted, and logged as TAG/not_finite. Throws [fulgurite.logger.histogram] if the
  /// range is empty.
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
  /// Logs an image of height x width x channels bytes, with 1 (grey), 2 (and alpha), 3 (red, green, blue) or 4
  /// channels.
  void log_image(std::string_view tag, std::span<std::uint8_t const> pixels, logger::PixelShape shape, long step);
  /// Logs a text, in Markdown.
  void log_text(std::string_view tag, std::string_view text, long step);

 private:
  void log(std::string_view values, long step);

  bool log_graph_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/tensorboard_logger.ipp>
#endif
