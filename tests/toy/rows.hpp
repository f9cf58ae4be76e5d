#pragma once
// A logger that keeps what it is given.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/metric/board.hpp>

namespace toy {

struct Row {
  long x;
  std::vector<std::pair<std::string, double>> cells;
  friend bool operator==(Row const&, Row const&) = default;
};

struct Rows {
  using Stateless = fulgurite::ByChoice;
  std::vector<Row> rows = {};
  void log_metrics(std::span<fulgurite::Scalar const> cells, long x) {
    Row row{x, {}};
    for (auto const& cell : cells) row.cells.emplace_back(cell.name, cell.value);
    rows.push_back(std::move(row));
  }
  std::vector<long> xs() const {
    std::vector<long> all;
    for (auto const& row : rows) all.push_back(row.x);
    return all;
  }
};

}  // namespace toy
