#pragma once
// What TensorBoard's plugins read: the messages inside of an event, field by field. The numbers of the fields are those
// of TensorFlow's event.proto, summary.proto and tensor.proto, and of the hparams plugin's own.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/protobuf.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/logger/histogram.hpp>
#include <fulgurite/logger/png.hpp>
#include <fulgurite/logger/utf8_text.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::logger::event {

/// The first event of each file, which says how the others are to be read.
FULGURITE_BULK std::string version(double wall_time) {
  std::string event;
  protobuf::real(event, 1, wall_time);
  protobuf::text(event, 3, "brain.Event:2");
  return event;
}

/// An event with values, which the functions below make one after the other.
FULGURITE_BULK std::string summary(double wall_time, long step, std::string_view values) {
  std::string event;
  protobuf::real(event, 1, wall_time);
  if (step != 0) protobuf::integer(event, 2, step);
  protobuf::text(event, 5, values);
  return event;
}

/// One value of a summary: its tag, and a field of any kind.
FULGURITE_BULK std::string value(std::string_view tag, std::string_view fields) {
  std::string one, all;
  protobuf::text(one, 1, utf8_text(tag));
  one += fields;
  protobuf::text(all, 1, one);
  return all;
}

/// A number, in single precision: TensorBoard has no other.
FULGURITE_BULK std::string scalar(std::string_view tag, double number) {
  std::string field;
  protobuf::small_real(field, 2, static_cast<float>(number));
  return value(tag, field);
}

/// Says which plugin reads a value, and gives it what it knows of the value. `kind` is 1 for a number, 2 for a tensor.
FULGURITE_BULK std::string metadata(std::string_view plugin, std::int64_t kind, std::string_view content = {}) {
  std::string data, all, field;
  protobuf::text(data, 1, plugin);
  if (!content.empty()) protobuf::text(data, 2, content);
  protobuf::text(all, 1, data);
  protobuf::integer(all, 4, kind);
  protobuf::text(field, 9, all);
  return field;
}

/// A number that is no cell of a row.
FULGURITE_BULK std::string number(std::string_view tag, double number) {
  std::string tensor, fields = metadata("scalars", 1);
  protobuf::integer(tensor, 1, 1);  // of float
  protobuf::text(tensor, 2, {});    // without dimensions
  std::string bytes;
  protobuf::raw(bytes, static_cast<float>(number));
  protobuf::text(tensor, 5, bytes);
  protobuf::text(fields, 8, tensor);
  return value(tag, fields);
}

/// A text, which TensorBoard shows as Markdown.
FULGURITE_BULK std::string text(std::string_view tag, std::string_view text) {
  std::string dimension, shape, tensor, fields = metadata("text", 2);
  protobuf::integer(dimension, 1, 1);
  protobuf::text(shape, 2, dimension);
  protobuf::integer(tensor, 1, 7);  // of texts
  protobuf::text(tensor, 2, shape);
  protobuf::text(tensor, 8, utf8_text(text));
  protobuf::text(fields, 8, tensor);
  return value(tag, fields);
}

/// A histogram. How many values were no numbers is told beside it, as TAG/not_finite.
FULGURITE_BULK std::string histogram(std::string_view tag, Histogram const& all) {
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

/// A picture.
FULGURITE_BULK std::string image(std::string_view tag, std::span<std::uint8_t const> pixels, PixelShape const& shape) {
  std::string message, field;
  auto const file = png_file(pixels, shape);
  protobuf::integer(message, 1, static_cast<std::int64_t>(shape.height));
  protobuf::integer(message, 2, static_cast<std::int64_t>(shape.width));
  protobuf::integer(message, 3, static_cast<std::int64_t>(shape.channels));
  protobuf::text(message, 4, file);
  protobuf::text(field, 4, message);
  return value(tag, field);
}

/// A list as TensorBoard shows it: a hyper-parameter of its own is a number, a truth value or a text.
FULGURITE_BULK std::string list_text(HyperparameterValues const& values) {
  return setting_text(values, []<class T>(T const& v) -> std::string {
    if constexpr (std::is_same_v<T, bool>) return v ? "true" : "false";
    else if constexpr (std::is_same_v<T, double>) return report::exact(v);
    else if constexpr (std::is_same_v<T, std::string>) return utf8_text(v);
    else return std::to_string(v);
  });
}

/// The hyper-parameters of a run, as the tab of that name compares them.
FULGURITE_BULK std::string hyperparameters(double wall_time, std::vector<Hyperparameter> const& all) {
  std::string session, content, tensor, fields;
  for (auto const& [name, setting] : all) {
    std::string entry, number;
    std::visit(
        [&]<class T>(T const& v) {
          if constexpr (std::is_same_v<T, std::string>) protobuf::text(number, 3, utf8_text(v));
          else if constexpr (std::is_same_v<T, HyperparameterValues>) protobuf::text(number, 3, list_text(v));
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
  protobuf::integer(tensor, 1, 1);  // a number without a value: all is in the metadata
  protobuf::text(tensor, 2, {});
  protobuf::text(fields, 8, tensor);
  return value("_hparams_/session_start_info", fields);
}

}  // namespace fulgurite::logger::event
