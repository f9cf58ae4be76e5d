#pragma once
// Writes metrics as plain lines, for output that a person scrolls through: logs of CI, of a batch system, a pipe.

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/progress_line.hpp>

namespace fulgurite {

/// How often a line is written, and where to.
struct ConsoleLoggerOptions {
  /// Steps between two lines, at least; 0: a line for each row, which `log_every_n_steps` spaces. -1: only the ends of
  /// epochs.
  long every_n_steps = 0;
  std::FILE* stream = stdout;
};

/// `ConsoleLogger{}`, `ConsoleLogger{{.every_n_steps = 500}}`, `ConsoleLogger{{.every_n_steps = -1}}`. A line has the
/// latest value of each metric that was logged since the line before, with its step where that is an earlier one:
/// "epoch 0, step 49: loss 0.4321, val/acc 0.91 (step 39)". What no line was due for yet is written when the run ends.
/// Only rank 0 writes, and nothing is overwritten, so that the lines are the same in a file and in a terminal.
class ConsoleLogger {
 public:
  using Hooks = Implements<hook::on_train_epoch_start>;
  using Stateless = ByChoice;  // lines that were written are not taken back

  explicit ConsoleLogger(ConsoleLoggerOptions options = {}) : options_(options) {
    if (options.every_n_steps < -1)
      throw Error("fulgurite.logger.console_steps",
                  "ConsoleLogger: every_n_steps = " + std::to_string(options.every_n_steps) +
                      ": give the steps between two lines, 0 for every row, or -1 for one line an epoch");
    if (options.stream == nullptr)
      throw Error("fulgurite.logger.console_stream", "ConsoleLogger: stream is null: give stdout, stderr or a file");
  }

  void on_train_epoch_start() {
    if (options_.every_n_steps == -1) write_line();
  }

  FULGURITE_COLD void log_metrics(std::span<Scalar const> row, long step) {
    step_ = step;
    for (auto const& scalar : row) {
      if (scalar.name == "epoch") epoch_ = static_cast<long>(scalar.value);
      else put(scalar);
    }
    bool const due = !written_ || step - *written_ >= options_.every_n_steps;
    if (options_.every_n_steps >= 0 && due) write_line();
  }
  /// Writes what is left.
  void finalize(auto /*status*/) {
    write_line();
    epoch_.reset();
    written_.reset();
  }

 private:
  struct Value {
    std::string name;
    double value;
    long step;
  };

  FULGURITE_COLD void put(Scalar const& scalar) {
    for (auto& [name, value, step] : values_)
      if (name == scalar.name) {
        value = scalar.value;
        step = step_;
        return;
      }
    values_.push_back({std::string(scalar.name), scalar.value, step_});
  }
  FULGURITE_COLD void write_line() {
    if (values_.empty()) return;
    std::string line = epoch_ ? "epoch " + std::to_string(*epoch_) + ", " : std::string();
    line += "step " + std::to_string(step_) + ":";
    for (char const* between = " "; auto const& [name, value, step] : std::exchange(values_, {})) {
      line += between + name + " " + report::short_value(value);
      if (step != step_) line += " (step " + std::to_string(step) + ")";
      between = ", ";
    }
    line += '\n';
    tell(options_.stream, line);
    std::fflush(options_.stream);
    written_ = step_;
  }

  ConsoleLoggerOptions options_;
  std::vector<Value> values_{};  ///< in the order in which they first came
  std::optional<long> epoch_ = std::nullopt, written_ = std::nullopt;
  long step_ = 0;
};

}  // namespace fulgurite
