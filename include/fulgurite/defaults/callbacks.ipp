#pragma once
// The bodies of defaults/callbacks.hpp.

#include <fulgurite/defaults/callbacks.hpp>

namespace fulgurite {

FULGURITE_BODY std::tuple<ProgressBar, ModelSummary, CSVLogger, ModelCheckpoint<>, ResultsTable> default_callbacks() {
  return std::tuple(ProgressBar{}, ModelSummary{}, CSVLogger{}, ModelCheckpoint<>{}, ResultsTable{});
}

}  // namespace fulgurite
