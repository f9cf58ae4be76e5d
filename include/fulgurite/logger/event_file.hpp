#pragma once
// The event file of a run's folder, to which rows, texts and pictures are added.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fulgurite/checkpoint/host_name.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/logger/cell.hpp>
#include <fulgurite/logger/event_messages.hpp>
#include <fulgurite/logger/event_record.hpp>
#include <fulgurite/logger/journal.hpp>

namespace fulgurite::logger {

/// Seconds since 1970, as each event has them.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Who tells an event file the time.
struct EventClock {
  double (*now)() = &wall_seconds;
};

/// `events.out.tfevents.<seconds>.<host>.<process>.0.fulgurite`. A folder that has such a file is gone on with in it;
/// files of other programs are left alone, and TensorBoard shows both.
class EventFile : public Journal<EventRecord> {
 public:
  static constexpr std::string_view owner = "TensorBoardLogger", lock = ".tensorboard.lock";

  EventFile(std::filesystem::path const& folder, EventClock const& clock)
      : Journal(folder / name(folder, clock)), now_(clock.now) {}

  /// A row is one record, so a reader has all of it or nothing.
  FULGURITE_COLD void add(std::vector<Cell> const& cells) {
    std::string values;
    for (std::size_t i = 1; i < cells.size(); ++i) values += event::scalar(cells[i].column, cells[i].value);
    add_values(values, static_cast<long>(cells.front().value));
  }
  void tell(std::vector<Hyperparameter> const& all) { add_values(event::hyperparameters(now_(), all), 0); }

  /// One event, with the values of a summary.
  FULGURITE_COLD void add_values(std::string_view values, long step) {
    bool const first = is_empty();
    double const now = now_();
    std::string bytes = first ? EventRecord::of(event::version(now)) : std::string();
    bytes += EventRecord::of(event::summary(now, step, values));
    append(bytes, first ? 2 : 1);
  }

 private:
  FULGURITE_COLD static std::string name(std::filesystem::path const& folder, EventClock const& clock) {
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
    seconds.insert(0, 10 - std::min<std::size_t>(10, seconds.size()), '0');  // so that names are sorted by time
    std::string made(begin);
    made += seconds + "." + file::host_name() + "." + std::to_string(::getpid());
    return made.append(end);
  }

  double (*now_)();
};

}  // namespace fulgurite::logger
