#pragma once
// Writes metrics as plain lines, for output that a person scrolls through: logs of CI or of a batch system, a pipe.

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite {

/// Options of ConsoleLogger: how often a line is written, and to which stream.
struct ConsoleLoggerOptions {
  /// Minimum of steps between two lines; 0: a line for each row (see `log_every_n_steps`); -1: only at the ends of
  /// epochs.
  long every_n_steps = 0;
  std::FILE* stream = stdout;  ///< where lines are printed
};

/// Prints metrics as lines: `ConsoleLogger{}`, `ConsoleLogger{{.every_n_steps = 500}}`, `ConsoleLogger{{.every_n_steps
/// = -1}}`. A line has the latest value of each metric that was logged since the previous line, with its step if that
/// is an earlier one: "epoch 0, step 49: loss 0.432, val/acc 0.910 (step 39)". Remaining values are written when the
/// run ends. Only rank zero writes. Nothing is overwritten, so the lines are the same in a file and in a terminal.
class ConsoleLogger {
 public:
  using Hooks = Implements<hook::on_train_epoch_start>;
  using Stateless = ByChoice;  // written lines cannot be taken back

  explicit ConsoleLogger(ConsoleLoggerOptions options = {});
  FULGURITE_NAMED_OPTIONS(ConsoleLogger);

  void on_train_epoch_start();

  void log_metrics(std::span<Scalar const> row, long step);
  /// Writes the remaining values.
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
  std::vector<Value> values_{};  ///< in the order in which they were first logged
  std::optional<long> epoch_ = std::nullopt, written_ = std::nullopt;
  long step_ = 0;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/logger/console_logger.ipp>
#endif
