#pragma once
// The bodies of callback/progress_bar.hpp.

#include <fulgurite/callback/progress_bar.hpp>

namespace fulgurite {

FULGURITE_BODY bool Redraws::due(double now, double seconds) {
  if (now - last_ < seconds) return false;
  last_ = now;
  return true;
}

FULGURITE_BODY ProgressBar::ProgressBar(ProgressBarOptions options)
    : options_(options),
      terminal_(options.terminal.value_or(report::is_terminal(options.stream))),
      lines_(options.stream, options.redirect) {}

FULGURITE_BODY void ProgressBar::on_train_end() {
  if (on_ && !last_line_.empty()) keep(std::exchange(last_line_, {}));
  train_.reset();
}

FULGURITE_BODY void ProgressBar::on_exception() {
  lines_.leave();
  train_.reset();
  evaluation_.reset();
  last_line_.clear();
  sanity_ = false;
}

FULGURITE_BODY bool ProgressBar::due(double now) {
  return redraws_.due(now, terminal_ ? options_.seconds_between_redraws : options_.seconds_between_lines);
}

FULGURITE_BODY void ProgressBar::keep(std::string_view line) {
  if (terminal_) lines_.keep(line);
  else lines_.write(std::string(line) + "\n");
}

FULGURITE_BODY int ProgressBar::columns() const {
  auto const told = static_cast<int>(report::text_columns(options_.stream, options_.columns));
  return told == 0 && terminal_ ? 80 : told;  // a terminal without a size, as in some containers
}

}  // namespace fulgurite
