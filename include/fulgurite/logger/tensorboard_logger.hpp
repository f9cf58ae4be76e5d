#pragma once
// Writes metrics, histograms, pictures and texts to a file that TensorBoard shows, without TensorFlow or Protocol
// Buffers: <save_dir>/lightning_logs/version_N/events.out.tfevents.*.

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
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/logger/folder_logger.hpp>
#include <fulgurite/logger/journal.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::logger {

// How values are spread: counts in buckets of one width, as TensorBoard draws them.

/// Counts of values, of those that are numbers; the others are counted apart.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_of_squares = 0;
  std::size_t finite = 0, not_finite = 0;
  std::vector<double> limits{};  ///< the upper end of each bucket; the first one begins at min
  std::vector<double> counts{};  ///< one for each
};

/// The histogram of these values; the last bucket holds its upper end, too. Where all are alike there is one bucket.
Histogram histogram(std::span<double const> values, std::size_t buckets = 30);

// Pixels as a PNG file, compressed by zlib.

/// How the pixels of a picture lie in memory: row by row, and the channels of a pixel side by side.
struct PixelShape {
  std::size_t height = 0, width = 0;
  std::size_t channels = 1;  ///< 1 grey, 2 grey and alpha, 3 red, green, blue, 4 those and alpha
};

namespace png {

/// A number with its highest byte first.
std::string big_endian(std::size_t value);

/// A part of the file: its length, its kind, its bytes, and the checksum of the last two.
std::string chunk(std::string_view kind, std::string_view bytes);

}  // namespace png

/// A picture of 8 bits a channel. Error [fulgurite.logger.image] where there are not as many pixels as the shape says,
/// none at all, or too many for one file.
std::string png_file(std::span<std::uint8_t const> pixels, PixelShape const& shape);

}  // namespace fulgurite::logger

namespace fulgurite::logger::event {

// What TensorBoard's plugins read: the messages inside of an event, field by field. The numbers of the fields are those
// of TensorFlow's event.proto, summary.proto and tensor.proto, and of the hparams plugin's own.

/// The first event of each file, which says how the others are to be read.
std::string version(double wall_time);

/// An event with values, which the functions below make one after the other.
std::string summary(double wall_time, long step, std::string_view values);

/// One value of a summary: its tag, and a field of any kind.
std::string value(std::string_view tag, std::string_view fields);

/// A number, in single precision: TensorBoard has no other.
std::string scalar(std::string_view tag, double number);

/// Says which plugin reads a value, and gives it what it knows of the value. `kind` is 1 for a number, 2 for a tensor.
std::string metadata(std::string_view plugin, std::int64_t kind, std::string_view content = {});

/// A number that is no cell of a row.
std::string number(std::string_view tag, double number);

/// A text, which TensorBoard shows as Markdown.
std::string text(std::string_view tag, std::string_view text);

/// A histogram. How many values were no numbers is told beside it, as TAG/not_finite.
std::string histogram(std::string_view tag, Histogram const& all);

/// A picture.
std::string image(std::string_view tag, std::span<std::uint8_t const> pixels, PixelShape const& shape);

/// A list as TensorBoard shows it: a hyper-parameter of its own is a number, a truth value or a text.
std::string list_text(HyperparameterValues const& values);

/// The hyper-parameters of a run, as the tab of that name compares them.
std::string hyperparameters(double wall_time, std::vector<Hyperparameter> const& all);

}  // namespace fulgurite::logger::event

namespace fulgurite::logger {

// The records of a TensorBoard event file: each has its length, and a checksum of both, so that a reader knows a whole
// one.

/// The form of event files: length (8 bytes), its checksum (4), the event, its checksum (4). Numbers are little endian.
struct EventRecord {
  static constexpr std::size_t head = 12, around = 16;

  /// A checksum of bytes that may hold checksums themselves: it is turned and shifted, so that it is none of theirs.
  static std::uint32_t checksum(std::string_view bytes);

  /// An event as a record.
  static std::string of(std::string_view event);

  /// The record that begins there; nothing where it is not whole.
  static std::optional<JournalEntry> next(FileWindow& file, std::uint64_t at, std::uint64_t size);

  /// Whether what begins there, and is no record, is the beginning of one that was not written to its end.
  static bool is_torn(FileWindow& file, std::uint64_t at, std::uint64_t size);

 private:
  template <class I>
  static I number(std::string_view bytes) {
    I value{};
    if (bytes.size() >= sizeof(I)) std::memcpy(&value, bytes.data(), sizeof(I));
    return value;
  }
  /// Of the event in a record; nothing where no length stands there.
  static std::optional<std::uint64_t> length_at(FileWindow& file, std::uint64_t at, std::uint64_t size);
  /// The first value of the event's summary is a plain number: only rows are written so.
  static bool is_row(std::string_view event);
};

// The event file of a run's folder, to which rows, texts and pictures are added.

/// Seconds since 1970, as each event has them.
double wall_seconds();

/// Who tells an event file the time.
struct EventClock {
  double (*now)() = &wall_seconds;
};

/// `events.out.tfevents.<seconds>.<host>.<process>.0.fulgurite`. A folder that has such a file is gone on with in it;
/// files of other programs are left alone, and TensorBoard shows both.
class EventFile : public Journal<EventRecord> {
 public:
  static constexpr std::string_view owner = "TensorBoardLogger", lock = ".tensorboard.lock";

  EventFile(std::filesystem::path const& folder, EventClock const& clock);

  /// A row is one record, so a reader has all of it or nothing.
  void add(std::vector<Cell> const& cells);
  void tell(std::vector<Hyperparameter> const& all);

  /// One event, with the values of a summary.
  void add_values(std::string_view values, long step);

 private:
  static std::string name(std::filesystem::path const& folder, EventClock const& clock);

  double (*now_)();
};

FULGURITE_FOLDER_LOGGER(EXTERN, EventFile, EventClock);

}  // namespace fulgurite::logger

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

  explicit TensorBoardLogger(std::filesystem::path save_dir = {}, TensorBoardLoggerOptions options = {});
  FULGURITE_MOVES(TensorBoardLogger);

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
  void log_image(std::string_view tag, std::span<std::uint8_t const> pixels, logger::PixelShape shape, long step);
  /// A text, in Markdown.
  void log_text(std::string_view tag, std::string_view text, long step);

 private:
  void log(std::string_view values, long step);

  bool log_graph_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/tensorboard_logger.ipp>
#endif
