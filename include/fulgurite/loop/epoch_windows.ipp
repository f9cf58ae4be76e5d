#pragma once
// The bodies of loop/epoch_windows.hpp.

#include <fulgurite/loop/epoch_windows.hpp>

namespace fulgurite::loop {

FULGURITE_BODY int idle_while_waiting(Waited const& waited, unsigned processors) {
  double const idle = static_cast<double>(processors) - waited.busy;
  return waited.pass < 5 || waited.seconds < waited.pass / 4 || idle < 1 ? 0 : static_cast<int>(idle);
}

}  // namespace fulgurite::loop
