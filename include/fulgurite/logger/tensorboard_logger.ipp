#pragma once
// The bodies of logger/tensorboard_logger.hpp.

#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>
#include <variant>

#include <unistd.h>
#include <zlib.h>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>

namespace fulgurite::logger {

FULGURITE_BULK_BODY Histogram histogram(std::span<double const> values, std::size_t buckets) {
  Histogram all;
  for (double const value : values) {
    if (!std::isfinite(value)) {
      ++all.not_finite;
      continue;
    }
    all.min = all.finite == 0 ? value : std::min(all.min, value);
    all.max = all.finite == 0 ? value : std::max(all.max, value);
    all.sum += value;
    all.sum_of_squares += value * value;
    ++all.finite;
  }
  if (all.finite == 0) return all;
  // Half of the range, since the distance between two doubles may be too large for a double.
  double const half = all.max / 2 - all.min / 2;
  if (!(half > 0)) buckets = 1;
  for (std::size_t i = 1; i < buckets; ++i) {
    double const part = half * (static_cast<double>(i) / static_cast<double>(buckets));
    all.limits.push_back(all.min + part + part);
  }
  all.limits.push_back(all.max);
  all.counts.resize(buckets);
  for (double const value : values)
    if (std::isfinite(value)) {
      auto const at = std::upper_bound(all.limits.begin(), all.limits.end() - 1, value) - all.limits.begin();
      ++all.counts[static_cast<std::size_t>(at)];
    }
  return all;
}

FULGURITE_BULK_BODY std::string big_endian(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFFU);
  return bytes;
}

FULGURITE_BULK_BODY std::string png_chunk(std::string_view kind, std::string_view bytes) {
  std::string marked(kind);
  marked += bytes;
  auto const sum = zip::checksum(0, std::as_bytes(std::span(marked)));
  return big_endian(bytes.size()) + marked + big_endian(sum);
}

FULGURITE_BULK_BODY std::string png_file(std::span<std::uint8_t const> pixels, PixelShape const& shape) {
  constexpr std::size_t most = 1U << 30;
  auto const [height, width, channels] = shape;
  bool const fits = channels >= 1 && channels <= 4 && width >= 1 && width <= most / channels && height >= 1 &&
                    height <= most / (width * channels + 1);
  if (!fits || pixels.size() != height * width * channels) {
    std::string text = "log_image: ";
    text += std::to_string(pixels.size()) + " bytes for a picture of height " + std::to_string(height) + ", width " +
            std::to_string(width) + " and " + std::to_string(channels) + " channels";
    throw Error("fulgurite.logger.image",
                text + ": give height x width x channels of them, 1 to 4 channels, and no more than 1 GiB");
  }
  std::string lines;  // each line begins with its filter; 0: none
  lines.reserve(height * (width * channels + 1));
  for (std::size_t row = 0; row != height; ++row) {
    auto const line = pixels.subspan(row * width * channels, width * channels);
    lines += '\0';
    lines.append(reinterpret_cast<char const*>(line.data()), line.size());
  }
  uLongf length = ::compressBound(lines.size());
  std::string packed(length, '\0');
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &length, reinterpret_cast<Bytef const*>(lines.data()),
                 lines.size()) != Z_OK)
    throw Error("fulgurite.logger.image",
                "log_image: zlib has no memory left to compress the picture: log a smaller one");
  packed.resize(length);
  constexpr char colours[] = {0, 4, 2, 6};  // by the number of channels
  std::string head = big_endian(width) + big_endian(height);
  head += '\x08';
  head += colours[channels - 1];
  head.append(3, '\0');  // the only compression, the only filter method, not interlaced
  std::string file = "\x89PNG\r\n\x1a\n";
  file += png_chunk("IHDR", head);
  file += png_chunk("IDAT", packed);
  return file + png_chunk("IEND", {});
}

namespace event {

FULGURITE_BULK_BODY std::string version(double wall_time) {
  std::string event;
  protobuf::real(event, 1, wall_time);
  protobuf::text(event, 3, "brain.Event:2");
  return event;
}

FULGURITE_BULK_BODY std::string summary(double wall_time, long step, std::string_view values) {
  std::string event;
  protobuf::real(event, 1, wall_time);
  if (step != 0) protobuf::integer(event, 2, step);
  protobuf::text(event, 5, values);
  return event;
}

/// One value of a summary: its tag, and its other fields.
FULGURITE_BULK_BODY std::string value(std::string_view tag, std::string_view fields) {
  std::string one, all;
  protobuf::text(one, 1, utf8_text(tag));
  one += fields;
  protobuf::text(all, 1, one);
  return all;
}

FULGURITE_BULK_BODY std::string scalar(std::string_view tag, double number) {
  std::string field;
  protobuf::small_real(field, 2, static_cast<float>(number));
  return value(tag, field);
}

/// Names the plugin that reads a value, and the content for that plugin. `kind` is 1 for a number, 2 for a tensor.
FULGURITE_BULK_BODY std::string metadata(std::string_view plugin, std::int64_t kind, std::string_view content = {}) {
  std::string data, all, field;
  protobuf::text(data, 1, plugin);
  if (!content.empty()) protobuf::text(data, 2, content);
  protobuf::text(all, 1, data);
  protobuf::integer(all, 4, kind);
  protobuf::text(field, 9, all);
  return field;
}

/// A number that is not a cell of a row.
FULGURITE_BULK_BODY std::string number(std::string_view tag, double number) {
  std::string tensor, fields = metadata("scalars", 1);
  protobuf::integer(tensor, 1, 1);  // the type: float
  protobuf::text(tensor, 2, {});    // no dimensions
  std::string bytes;
  protobuf::raw(bytes, static_cast<float>(number));
  protobuf::text(tensor, 5, bytes);
  protobuf::text(fields, 8, tensor);
  return value(tag, fields);
}

FULGURITE_BULK_BODY std::string text(std::string_view tag, std::string_view text) {
  std::string dimension, shape, tensor, fields = metadata("text", 2);
  protobuf::integer(dimension, 1, 1);
  protobuf::text(shape, 2, dimension);
  protobuf::integer(tensor, 1, 7);  // the type: string
  protobuf::text(tensor, 2, shape);
  protobuf::text(tensor, 8, utf8_text(text));
  protobuf::text(fields, 8, tensor);
  return value(tag, fields);
}

FULGURITE_BULK_BODY std::string histogram(std::string_view tag, Histogram const& all) {
  std::string values;
  if (all.finite != 0) {
    std::string message, field;
    protobuf::real(message, 1, all.min);
    protobuf::real(message, 2, all.max);
    protobuf::real(message, 3, static_cast<double>(all.finite));
    protobuf::real(message, 4, all.sum);
    protobuf::real(message, 5, all.sum_of_squares);
    protobuf::reals(message, 6, all.limits);
    protobuf::reals(message, 7, all.counts);
    protobuf::text(field, 5, message);
    values = value(tag, field);
  }
  if (all.not_finite != 0) values += number(std::string(tag) + "/not_finite", static_cast<double>(all.not_finite));
  return values;
}

FULGURITE_BULK_BODY std::string image(std::string_view tag, std::span<std::uint8_t const> pixels,
                                      PixelShape const& shape) {
  std::string message, field;
  auto const file = png_file(pixels, shape);
  protobuf::integer(message, 1, static_cast<std::int64_t>(shape.height));
  protobuf::integer(message, 2, static_cast<std::int64_t>(shape.width));
  protobuf::integer(message, 3, static_cast<std::int64_t>(shape.channels));
  protobuf::text(message, 4, file);
  protobuf::text(field, 4, message);
  return value(tag, field);
}

FULGURITE_BULK_BODY std::string hyperparameters(double wall_time, std::vector<Hyperparameter> const& all) {
  std::string session, content, tensor, fields;
  for (auto const& [name, setting] : all) {
    std::string entry, number;
    std::visit(
        [&]<class T>(T const& v) {
          if constexpr (std::is_same_v<T, std::string>) protobuf::text(number, 3, utf8_text(v));
          else if constexpr (std::is_same_v<T, HyperparameterValues>)  // the plugin knows no lists
            protobuf::text(number, 3, setting_text(v, &exact_number, &utf8_text));
          else if constexpr (std::is_same_v<T, bool>) protobuf::integer(number, 4, v ? 1 : 0);
          else protobuf::real(number, 2, static_cast<double>(v));
        },
        setting);
    protobuf::text(entry, 1, utf8_text(name));
    protobuf::text(entry, 2, number);
    protobuf::text(session, 1, entry);
  }
  protobuf::real(session, 5, wall_time);
  protobuf::text(content, 3, session);
  fields = metadata("hparams", 2, content);
  protobuf::integer(tensor, 1, 1);  // a number without a value: everything is in the metadata
  protobuf::text(tensor, 2, {});
  protobuf::text(fields, 8, tensor);
  return value("_hparams_/session_start_info", fields);
}

}  // namespace event

FULGURITE_BULK_BODY std::string EventRecord::of(std::string_view event) {
  std::string record;
  record.reserve(event.size() + around);
  protobuf::raw(record, std::uint64_t{event.size()});
  protobuf::raw(record, protobuf::checksum(record));
  record += event;
  protobuf::raw(record, protobuf::checksum(event));
  return record;
}

FULGURITE_BULK_BODY std::optional<JournalEntry> EventRecord::next(FileWindow& file, std::uint64_t at,
                                                                  std::uint64_t size) {
  auto const length = length_at(file, at, size);
  if (!length || *length + around > size - at) return std::nullopt;
  auto const rest = file.at(at + head, static_cast<std::size_t>(*length) + 4);
  auto const event = rest.substr(0, static_cast<std::size_t>(*length));
  if (protobuf::number<std::uint32_t>(rest.substr(event.size())) != protobuf::checksum(event)) return std::nullopt;
  return JournalEntry{at + around + *length, is_row(event)};
}

FULGURITE_BULK_BODY bool EventRecord::is_torn(FileWindow& file, std::uint64_t at, std::uint64_t size) {
  auto const left = end_of_data(file, at, size) - at;
  auto const length = length_at(file, at, size);
  return left < head || (length && *length + around >= left);
}

FULGURITE_BULK_BODY std::optional<std::uint64_t> EventRecord::length_at(FileWindow& file, std::uint64_t at,
                                                                        std::uint64_t size) {
  if (size < at || size - at < head) return std::nullopt;
  auto const bytes = file.at(at, head);
  auto const length = protobuf::number<std::uint64_t>(bytes);
  bool const sound = protobuf::number<std::uint32_t>(bytes.substr(8)) == protobuf::checksum(bytes.substr(0, 8));
  return sound && length < (std::uint64_t{1} << 40) ? std::optional(length) : std::nullopt;
}

FULGURITE_BULK_BODY bool EventRecord::is_row(std::string_view event) {
  auto const summary = protobuf::find(event, 5);
  auto const value = summary ? protobuf::find(*summary, 1) : std::nullopt;
  return value && protobuf::find(*value, 2);
}

FULGURITE_BODY double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The name of the event file that is continued in a folder, or of a new one.
FULGURITE_BODY std::string event_file_in(std::filesystem::path const& folder, EventClock const& clock) {
  constexpr std::string_view begin = "events.out.tfevents.", end = ".0.fulgurite";
  std::string newest;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), last; !error && entry != last;
       entry.increment(error)) {
    auto const found = entry->path().filename().string();
    if (found.starts_with(begin) && found.ends_with(end)) newest = std::max(newest, found);
  }
  if (!newest.empty()) return newest;
  auto seconds = std::to_string(static_cast<long long>(clock.now()));
  seconds.insert(0, 10 - std::min<std::size_t>(10, seconds.size()), '0');  // so that names sort by time
  std::string made(begin);
  made += seconds + "." + file::host_name() + "." + std::to_string(::getpid());
  return made.append(end);
}

FULGURITE_BODY EventFile::EventFile(std::filesystem::path const& folder, EventClock const& clock)
    : Journal(folder / event_file_in(folder, clock)), now_(clock.now) {}

FULGURITE_BODY void EventFile::add(std::vector<Cell> const& cells) {
  std::string values;
  for (std::size_t i = 1; i < cells.size(); ++i) values += event::scalar(cells[i].column, cells[i].value);
  add_values(values, static_cast<long>(cells.front().value));
}

FULGURITE_BODY void EventFile::write_hyperparameters(std::vector<Hyperparameter> const& all) {
  add_values(event::hyperparameters(now_(), all), 0);
}

FULGURITE_BODY void EventFile::add_values(std::string_view values, long step) {
  bool const first = is_empty();
  double const now = now_();
  std::string bytes = first ? EventRecord::of(event::version(now)) : std::string();
  bytes += EventRecord::of(event::summary(now, step, values));
  append(bytes, first ? 2 : 1);
}

FULGURITE_FOLDER_LOGGER(INSTANTIATE, EventFile, EventClock);

}  // namespace fulgurite::logger

namespace fulgurite {

FULGURITE_BODY TensorBoardLogger::TensorBoardLogger(std::filesystem::path save_dir, TensorBoardLoggerOptions options)
    : FolderLogger(std::move(save_dir), {std::move(options.name), options.version, std::move(options.prefix)},
                   {options.now}),
      log_graph_(options.log_graph) {
  if (options.now == nullptr)
    throw Error("fulgurite.logger.clock", "TensorBoardLogger: now is null: give a function that returns the seconds "
                                          "since 1970, or leave it out");
}

FULGURITE_BODY void TensorBoardLogger::log_image(std::string_view tag, std::span<std::uint8_t const> pixels,
                                                 logger::PixelShape shape, long step) {
  if (writes("log_image")) log(logger::event::image(prefixed(tag), pixels, shape), step);
}

FULGURITE_BODY void TensorBoardLogger::log_text(std::string_view tag, std::string_view text, long step) {
  if (writes("log_text")) log(logger::event::text(prefixed(tag), text), step);
}

FULGURITE_BODY void TensorBoardLogger::log(std::string_view values, long step) {
  write([&](logger::EventFile& file) { file.add_values(values, step); });
}

FULGURITE_MOVES_BODY(TensorBoardLogger);

}  // namespace fulgurite
