#pragma once
// The contents of a run's folder: its metrics, hyper-parameters, notes, and the times that a profiler has written.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::report {

// Reads the numbers in a TensorBoard event file, of this library or of other programs.

namespace events {

template <class T>
T number_in(std::string_view bytes) {
  T value{};
  if (bytes.size() >= sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// The value of a summary, if it is a number: a field of its own, or a tensor of one float.
std::optional<double> number_of(std::string_view value);

}  // namespace events

/// Calls f(tag, step, value) for each number in the bytes of an event file, in order. It stops at a record that is not
/// complete, as the last one of a running program may be, or whose checksum is wrong.
template <class F>
void each_event_scalar(std::string_view file, F&& f) {
  constexpr std::size_t head = 12, around = 16;  // length and its checksum; the event's checksum
  while (file.size() >= around) {
    auto const length = events::number_in<std::uint64_t>(file);
    if (length > file.size() - around) return;
    auto const event = file.substr(head, static_cast<std::size_t>(length));
    auto const sum = crc32c(0, std::as_bytes(std::span(event)));
    auto const turned = ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
    if (events::number_in<std::uint32_t>(file.substr(head + event.size())) != turned) return;
    file.remove_prefix(event.size() + around);
    double step = 0;
    if (auto bytes = protobuf::find(event, 2))
      step = static_cast<double>(static_cast<std::int64_t>(protobuf::take_varint(*bytes).value_or(0)));
    auto rest = protobuf::find(event, 5).value_or(std::string_view());
    while (auto const value = protobuf::find(rest, 1, &rest)) {
      auto const number = events::number_of(*value);
      if (auto const tag = protobuf::find(*value, 1); tag && number) f(*tag, step, *number);
    }
  }
}

// The files of a run's folder, by format: tables, JSON lines, event files, a mapping.

namespace run_folder {

std::string text_of(std::filesystem::path const& file);

/// The rows of a table to which another program may be writing: an incomplete row is left out.
std::vector<std::vector<std::string>> rows_of(std::string_view text);

std::optional<double> number_of(std::string_view text);

/// Values by name, in the order of first occurrence. `step` and `epoch` are not metrics.
class Values {
 public:
  void add(std::string_view name, double step, double value);
  std::vector<Curve> curves{};
};

std::vector<Curve> of_csv(std::string_view text);

/// The event files of TensorBoardLogger, or of another writer, one after the other.
std::vector<Curve> of_events(std::vector<std::filesystem::path> const& files);
bool is_event_file(std::filesystem::path const& file);
/// The files in a folder, in the order of their names; empty if there is no folder.
std::vector<std::filesystem::path> files_in(std::filesystem::path const& folder);

/// The rows of JsonLinesLogger, or of MLflowLogger, which also have the time. A line that is not an object with a step
/// is left out: the last one may be incomplete.
std::vector<Curve> of_json_lines(std::string_view text, std::string const& name);

/// The mapping that this library's loggers write: a name and a value in each line.
std::vector<std::pair<std::string, std::string>> of_yaml(std::string_view text);

/// options.txt: `max_epochs = 10` in each line.
std::vector<std::pair<std::string, std::string>> of_options(std::string_view text);

}  // namespace run_folder

/// A run as its loggers have written it, possibly while it is still being written.
struct RunFolder {
  std::filesystem::path path{};
  std::vector<Curve> curves{};  ///< of each metric by step, in the order of the table's columns
  std::vector<std::pair<std::string, std::string>> hyperparameters{};
  std::vector<std::pair<std::string, std::string>> options{};  ///< of the trainer, by name
  /// Texts in the same folder: describe.txt, system.txt, config.toml, tables of profilers; by file name.
  std::vector<std::pair<std::string, std::string>> notes{};
  /// From a SimpleProfiler with a filename: the rows of its .csv, without the header.
  std::vector<std::vector<std::string>> times{};
};

/// True if a run's loggers have written to this folder.
bool is_run_folder(std::filesystem::path const& folder);

/// Reads a run's folder: its metrics, from one logger of this library, hparams.yaml, and texts. Throws
/// [fulgurite.report.no_run] if no logger has written to it.
RunFolder read_run_folder(std::filesystem::path const& folder);

/// Reads the runs in these folders. A folder that is not a run's stands for its subfolders that are, version_2 before
/// version_10. A run that is named twice is read once.
std::vector<RunFolder> read_run_folders(std::vector<std::filesystem::path> const& folders);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/run_folder.ipp>
#endif
