#pragma once
// The bodies of metric/board.hpp.

#include <fulgurite/core/archive.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite {

void Figures::state(auto& archive) {
  archive("last", last)("sum", sum)("weighted", weighted)("weight", weight)("least", least)("greatest",
                                                                                            greatest)("count", count);
}
FULGURITE_STATE(Figures)

void Cell::state(auto& archive) {
  archive("origin", origin)("in_step_row", in_step_row)("weight", weight).child("epoch", epoch);
}
FULGURITE_STATE(Cell)

FULGURITE_BULK_BODY Cell::Cell() = default;

FULGURITE_BULK_BODY void Cell::restart() {
  epoch = {};
  again = in_step_row = shared = false;
  waiting = 0;
}

FULGURITE_BULK_BODY std::string reported_name(DeclaredMetric const& metric, Origin origin, bool epoch) {
  std::string name(metric.name);
  if (per_step(metric, origin) && per_epoch(metric, origin)) name += epoch ? "_epoch" : "_step";
  return name;
}

}  // namespace fulgurite
