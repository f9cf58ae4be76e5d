#pragma once
// What the folder of a run holds: its metrics, hyper-parameters, notes, and the times that a profiler has written.

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

// The numbers in a TensorBoard event file: of ours, and of other programs.

namespace events {

template <class T>
T number_in(std::string_view bytes) {
  T value{};
  if (bytes.size() >= sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// A value of a summary, where it is a number: a field of its own, or a tensor of one float.
std::optional<double> number_of(std::string_view value);

}  // namespace events

/// f(tag, step, value) for each number in the bytes of an event file, in their order. It ends at a record that is not
/// whole, as the last one of a run that is still written may be, or whose checksum is wrong.
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

// The files of a run's folder, read one by one: tables, JSON lines, event files, a mapping.

namespace run_folder {

std::string text_of(std::filesystem::path const& file);

/// The rows of a table that another program may be writing: one that is cut off is left out.
std::vector<std::vector<std::string>> rows_of(std::string_view text);

std::optional<double> number_of(std::string_view text);

/// Values by name, in the order in which names come. `step` and `epoch` are no metrics.
class Values {
 public:
  void add(std::string_view name, double step, double value);
  std::vector<Curve> curves{};
};

std::vector<Curve> of_csv(std::string_view text);

/// The event files of TensorBoardLogger, or of another writer, one after the other.
std::vector<Curve> of_events(std::vector<std::filesystem::path> const& files);
bool is_event_file(std::filesystem::path const& file);
/// The files in a folder, in the order of their names; none where there is no folder.
std::vector<std::filesystem::path> files_in(std::filesystem::path const& folder);

/// The rows of JsonLinesLogger, or of MLflowLogger, which have the time as well. A line that is no object with a step
/// is left out: the last one may be half written.
std::vector<Curve> of_json_lines(std::string_view text, std::string const& name);

/// The mapping that our loggers write: a name and a value in each line.
std::vector<std::pair<std::string, std::string>> of_yaml(std::string_view text);

/// options.txt: `max_epochs = 10` in each line.
std::vector<std::pair<std::string, std::string>> of_options(std::string_view text);

}  // namespace run_folder

/// A run as its loggers left it, also while it is still being written.
struct RunFolder {
  std::filesystem::path path{};
  std::vector<Curve> curves{};  ///< of each metric by step, in the order of the table's columns
  std::vector<std::pair<std::string, std::string>> hyperparameters{};
  std::vector<std::pair<std::string, std::string>> options{};  ///< of the trainer, by name
  /// Texts that lie beside: describe.txt, system.txt, config.toml, tables of profilers; by the file's name.
  std::vector<std::pair<std::string, std::string>> notes{};
  /// Of a SimpleProfiler with a filename: rows of its .csv, without the first.
  std::vector<std::vector<std::string>> times{};
};

/// Whether a run's loggers have written there.
bool is_run_folder(std::filesystem::path const& folder);

/// Reads a folder of a run: its metrics, which one logger of ours has written, hparams.yaml, texts. Error
/// [fulgurite.report.no_run] where no logger has.
RunFolder read_run_folder(std::filesystem::path const& folder);

/// The runs in these folders. A folder that is no run's stands for those of its folders that are, version_2 before
/// version_10. One that is named twice is there once.
std::vector<RunFolder> read_run_folders(std::vector<std::filesystem::path> const& folders);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/run_folder.ipp>
#endif
