#pragma once
// Values logged by name. Each keeps its last tensor until the step is over; reading waits until somebody asks.

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interfaces.hpp"

namespace twin {

template <class Library>
class Logbook {
 public:
  using Tensor = typename Library::Tensor;

  void log(std::string const& name, Tensor const& value, double weight) {
    auto& entry = entries_[name];
    entry.waiting.emplace_back(Library::detached(value), weight);
    entry.in_row = true;
    if (entry.waiting.size() >= most_waiting) settle(entry);
  }

  /// The values logged since the last row.
  Logger::Row row() {
    Logger::Row row;
    for (auto& [name, entry] : entries_)
      if (std::exchange(entry.in_row, false)) {
        settle(entry);
        row.emplace_back(name, entry.last);
      }
    return row;
  }

  /// Weighted means since `restart`.
  Logger::Row means() {
    Logger::Row row;
    for (auto& [name, entry] : entries_) {
      settle(entry);
      if (entry.weight != 0) row.emplace_back(name, entry.sum / entry.weight);
    }
    return row;
  }

  void restart() {
    for (auto& [name, entry] : entries_) entry.restart();
  }

 private:
  static constexpr std::size_t most_waiting = 64;

  struct Entry {
    std::vector<std::pair<Tensor, double>> waiting = {};
    double sum = 0, weight = 0, last = 0;
    bool in_row = false;

    void restart() {
      waiting.clear();
      sum = weight = 0;
      in_row = false;
    }
  };

  static void settle(Entry& entry) {
    for (auto& [value, weight] : entry.waiting) {
      entry.last = Library::read(value);
      entry.sum += entry.last * weight;
      entry.weight += weight;
    }
    entry.waiting.clear();
  }

  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace twin
