#pragma once
// A row as loggers write it: its axis first, and each name with the logger's prefix.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/logger/cell.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite::logger {

/// A name behind its prefix, where there is one: "a-loss".
FULGURITE_COLD std::string prefixed(std::string const& prefix, std::string_view name) {
  std::string text = prefix;
  if (!prefix.empty()) text += '-';
  return text += name;
}

/// The cells of a row, `step` first, and the names that they point to.
class NamedRow {
 public:
  NamedRow(std::span<Scalar const> row, long step, std::string const& prefix) {
    names_.reserve(row.size());
    cells_.push_back({"step", static_cast<double>(step), true});
    for (auto const& scalar : row) {
      bool const counter = scalar.name == "epoch";
      if (scalar.name == "step") {  // as in Lightning, a metric of that name replaces the axis
        cells_.front() = {"step", scalar.value, false};
        continue;
      }
      names_.push_back(counter ? std::string(scalar.name) : prefixed(prefix, scalar.name));
      cells_.push_back({names_.back(), scalar.value, counter});
    }
  }
  NamedRow(NamedRow const&) = delete;

  std::vector<Cell> const& cells() const { return cells_; }

 private:
  std::vector<std::string> names_{};
  std::vector<Cell> cells_{};
};

}  // namespace fulgurite::logger
