#pragma once
// The bodies of logger/console_logger.hpp.

#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/logger/console_logger.hpp>
#include <fulgurite/report/progress_line.hpp>

namespace fulgurite {

FULGURITE_BODY ConsoleLogger::ConsoleLogger(ConsoleLoggerOptions options) : options_(options) {
  if (options.every_n_steps < -1)
    throw Error("fulgurite.logger.console_steps",
                "ConsoleLogger: every_n_steps = " + std::to_string(options.every_n_steps) +
                    ": give the steps between two lines, 0 for every row, or -1 for one line an epoch");
  if (options.stream == nullptr)
    throw Error("fulgurite.logger.console_stream", "ConsoleLogger: stream is null: give stdout, stderr or a file");
}

FULGURITE_BODY void ConsoleLogger::on_train_epoch_start() {
  if (options_.every_n_steps == -1) write_line();
}

FULGURITE_BODY void ConsoleLogger::log_metrics(std::span<Scalar const> row, long step) {
  step_ = step;
  for (auto const& scalar : row) {
    if (scalar.name == "epoch") epoch_ = static_cast<long>(scalar.value);
    else put(scalar);
  }
  bool const due = !written_ || step - *written_ >= options_.every_n_steps;
  if (options_.every_n_steps >= 0 && due) write_line();
}

FULGURITE_BODY void ConsoleLogger::put(Scalar const& scalar) {
  for (auto& [name, value, step] : values_)
    if (name == scalar.name) {
      value = scalar.value;
      step = step_;
      return;
    }
  values_.push_back({std::string(scalar.name), scalar.value, step_});
}

FULGURITE_BODY void ConsoleLogger::write_line() {
  if (values_.empty()) return;
  std::string line = epoch_ ? "epoch " + std::to_string(*epoch_) + ", " : std::string();
  line += "step " + std::to_string(step_) + ":";
  for (char const* between = " "; auto const& [name, value, step] : std::exchange(values_, {})) {
    line += between + name + " " + report::short_value(value);
    if (step != step_) line += " (step " + std::to_string(step) + ")";
    between = ", ";
  }
  line += '\n';
  print_lines(options_.stream, line);
  std::fflush(options_.stream);
  written_ = step_;
}

}  // namespace fulgurite
