#pragma once
// Writes metrics as plain lines, for output that a person scrolls through: logs of CI, of a batch system, a pipe.

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/metric/board.hpp>

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

  explicit ConsoleLogger(ConsoleLoggerOptions options = {});

  void on_train_epoch_start();

  void log_metrics(std::span<Scalar const> row, long step);
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

  void put(Scalar const& scalar);
  void write_line();

  ConsoleLoggerOptions options_;
  std::vector<Value> values_{};  ///< in the order in which they first came
  std::optional<long> epoch_ = std::nullopt, written_ = std::nullopt;
  long step_ = 0;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/console_logger.ipp>
#endif
