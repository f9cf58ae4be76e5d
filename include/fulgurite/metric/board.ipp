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

}  // namespace fulgurite
